/* status/service.c - see service.h. */
#include "status/service.h"

#include "base/slice.h"
#include "redis/info.h"

#define CONNECT_S 2

static bool is_pong(redisContext *link)
{
    redisReply *reply = redisCommand(link, "PING");
    bool pong = reply != NULL && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "PONG") == 0;
    freeReplyObject(reply);
    return pong;
}

static redisContext *address_connect(const struct address *a)
{
    const struct timeval patience = {.tv_sec = CONNECT_S};
    const char *host = a->host;
    if (a->path == NULL && strcmp(host, "0.0.0.0") == 0) host = "127.0.0.1"; /* it listens on all */
    if (a->path == NULL && strcmp(host, "::") == 0) host = "::1";
    redisContext *link = a->path != NULL ? redisConnectUnixWithTimeout(a->path, patience)
                                         : redisConnectWithTimeout(host, a->port, patience);
    if (link != NULL && link->err == 0) return link;
    if (link != NULL) redisFree(link);
    return NULL;
}

/* secure: a server listens behind TLS, which hiredis 0.14 does not speak, or for proxies alone. */
static redisContext *one_connect(const struct conf_addresses *of, bool *secure)
{
    const struct timeval patience = {.tv_sec = CONNECT_S};
    for (size_t i = 0; i < of->n; i++) {
        redisContext *link = address_connect(&of->all[i]);
        if (link == NULL) continue;
        bool is_plain = !of->all[i].tls && of->all[i].proxies.n == 0;
        *secure |= !is_plain;
        if (is_plain && redisSetTimeout(link, patience) == REDIS_OK && is_pong(link)) return link;
        redisFree(link);
    }
    return NULL;
}

/* The operator's own socket comes before those of clients, where a verb would be unauthenticated when there are
 * users. */
redisContext *service_connect(const struct conf *conf, bool *secure)
{
    *secure = false;
    redisContext *link = one_connect(&conf->listen_control, secure);
    return link != NULL ? link : one_connect(&conf->listen_resp, secure);
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
