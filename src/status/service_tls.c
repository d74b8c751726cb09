/* status/service_tls.c - see service_tls.h. hiredis 0.14 has no TLS, so a relay speaks it. Whoever has the key of the
 * configured certificate is the service, whatever name and authority that has; and to a service that wants certificates
 * of its clients this one is shown. */
#include "status/service_tls.h"

#include "base/heap.h"
#include "base/log.h"
#include "tls/relay.h"

#include <unistd.h>

#define GREETING_MS 2000

static enum err context_make(const struct conf *conf, struct tls_context **out, struct error *e)
{
    if (conf->listen_tls_cert == NULL || conf->listen_tls_key == NULL)
        return error_set(e, ERR_CONFIG, "listen.tls.cert and listen.tls.key are not both given");
    char *cert = conf_beside(conf, conf->listen_tls_cert), *key = conf_beside(conf, conf->listen_tls_key);
    const struct tls_files files = {.cert = cert, .key = key};
    enum err code = tls_context_create(TLS_CLIENT, &files, TLS_TRUST_SELF, out, NULL, e);
    heap_free(cert);
    heap_free(key);
    return code;
}

redisContext *service_secure(const struct conf *conf, const struct address *a, redisContext *plain)
{
    struct tls_context *c;
    struct error e;
    int fd = dup(plain->fd), near = -1;
    redisFree(plain);
    if (fd < 0) return NULL;
    if (context_make(conf, &c, &e) == ERR_NONE)
        near = relay_connect(c, fd, a->host, GREETING_MS, &e);
    else
        close(fd);
    if (near < 0) {
        log_event(LOG_ERROR, "service_refused", "url=%s why=%s", a->text, LOGQ(e.text));
        return NULL;
    }
    redisContext *link = redisConnectFd(near);
    if (link == NULL) close(near);
    return link;
}
