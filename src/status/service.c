/* status/service.c - see service.h. */
#include "status/service.h"

#include "base/num.h"
#include "redis/info.h"
#include "status/service_tls.h"

#define CONNECT_S 2

static bool is_pong(redisContext *link)
{
    redisReply *reply = redisCommand(link, "PING");
    bool pong = reply != NULL && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "PONG") == 0;
    freeReplyObject(reply);
    return pong;
}

/* Listening on all addresses is reached at the local one. */
static const char *host_to_reach(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0) return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

static redisContext *address_connect(const struct conf *conf, const struct address *a)
{
    const struct timeval patience = {.tv_sec = CONNECT_S};
    redisContext *link = a->path != NULL ? redisConnectUnixWithTimeout(a->path, patience)
                                         : redisConnectWithTimeout(host_to_reach(a->host), a->port, patience);
    if (a->tls && link != NULL && link->err == 0) link = service_secure(conf, a, link);
    if (link != NULL && link->err == 0 && redisSetTimeout(link, patience) == REDIS_OK && is_pong(link))
        return link;
    if (link != NULL) redisFree(link);
    return NULL;
}

static redisContext *one_connect(const struct conf *conf, const struct conf_addresses *of)
{
    for (size_t i = 0; i < of->n; i++) {
        redisContext *link = address_connect(conf, &of->all[i]);
        if (link != NULL) return link;
    }
    return NULL;
}

/* The operator's own socket goes before those of clients, where it would be a stranger when there are users. */
redisContext *service_connect(const struct conf *conf)
{
    redisContext *link = one_connect(conf, &conf->listen_control);
    return link != NULL ? link : one_connect(conf, &conf->listen_resp);
}

bool service_answers(const char *unix_path)
{
    const struct address address = {.path = (char *)unix_path};
    redisContext *link = address_connect(NULL, &address);
    if (link == NULL) return false;
    redisFree(link);
    return true;
}

bool service_info(redisContext *link, struct buf *out)
{
    struct slice version;
    redisReply *reply = redisCommand(link, "INFO");
    buf_reset(out);
    if (reply != NULL && reply->type == REDIS_REPLY_STRING) buf_put(out, reply->str, (size_t)reply->len);
    if (reply != NULL) freeReplyObject(reply);
    return info_get(buf_slice(out), "tallyd_version", &version);
}

bool service_number(const struct buf *info, const char *name, int64_t *out)
{
    struct slice value;
    return info_get(buf_slice(info), name, &value) && num_parse(value, out);
}

bool service_text(const struct buf *info, const char *name, char *out, size_t size)
{
    struct slice value;
    out[0] = '\0';
    if (!info_get(buf_slice(info), name, &value)) return false;
    slice_show(value, size - 4, out, size);
    return true;
}
