/* status/service.c - what the running tallyd says. */
#include "base/slice.h"
#include "redis/check_op.h"
#include "status/probe.h"
#include "status/status.h"
#include <inttypes.h>
#include <stdio.h>

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

/* secure: a server listens behind TLS, which hiredis 0.14 does not speak, or for proxies alone. any: at a port that several
 * tallyds share, whichever answers. */
static redisContext *one_connect(const struct conf_addresses *of, bool any, bool *secure)
{
    const struct timeval patience = {.tv_sec = CONNECT_S};
    for (size_t i = 0; i < of->n; i++) {
        if (of->all[i].shared && !any) continue;
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
    redisContext *link = one_connect(&conf->listen_control, true, secure);
    return link != NULL ? link : one_connect(&conf->listen_resp, conf->listen_control.n == 0, secure);
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

bool service_flag(const struct buf *info, const char *name)
{
    int64_t v = 0;
    return service_number(info, name, &v) && v != 0;
}

bool service_text(const struct buf *info, const char *name, char *out, size_t size)
{
    struct slice value;
    out[0] = '\0';
    if (!info_get(buf_slice(info), name, &value)) return false;
    slice_show(value, size - 4, out, size);
    return true;
}

/* --- what the running service reports of itself in INFO. --- */

static void sentinels_file(const struct buf *info, struct status_service *s)
{
    char name[32], text[360], heard[2];
    s->sentinels = s->sentinels_up = s->sentinels_majority = 0;
    service_number(info, "redis_sentinels", &s->sentinels);
    service_number(info, "redis_sentinels_up", &s->sentinels_up);
    service_number(info, "redis_sentinels_majority", &s->sentinels_majority);
    for (s->sentinel_n = 0; s->sentinel_n < STATUS_SENTINELS; s->sentinel_n++) {
        struct status_sentinel *one = &s->sentinel[s->sentinel_n];
        snprintf(name, sizeof name, "redis_sentinel%zu", s->sentinel_n);
        if (!service_text(info, name, text, sizeof text)) return;
        if (sscanf(text, "state=%15[a-z_],heard=%1[01],at=%299s", one->state, heard, one->at) != 3) return;
        one->heard = heard[0] == '1';
    }
}

static void refusals_file(const struct buf *info, struct status_service *s)
{
    char name[32], text[540];
    for (s->refusal_n = 0; s->refusal_n < STATUS_REFUSALS; s->refusal_n++) {
        struct status_refusal *one = &s->refusal[s->refusal_n];
        snprintf(name, sizeof name, "refused%zu", s->refusal_n);
        if (!service_text(info, name, text, sizeof text) ||
            sscanf(text, "reason=%23[a-z_],minute=%" SCNd64 ",all=%" SCNd64 ",why=%439[^\n]", one->reason,
                   &one->minute, &one->all, one->why) != 4)
            return;
    }
}

static void info_file(const struct buf *info, struct status_service *s)
{
    s->up = true;
    service_text(info, "tallyd_version", s->version, sizeof s->version);
    service_text(info, "instance", s->instance, sizeof s->instance);
    service_text(info, "merges_held", s->held, sizeof s->held);
    service_text(info, "redis_server", s->redis_server, sizeof s->redis_server);
    service_text(info, "redis_run_id", s->redis_run_id, sizeof s->redis_run_id);
    service_text(info, "redis_links", s->redis_links, sizeof s->redis_links);
    s->redis_moved_ms.known = service_number(info, "redis_moved_s", &s->redis_moved_ms.value);
    s->redis_moved_ms.value *= 1000;
    service_number(info, "lanes", &s->lanes);
    service_number(info, "lanes_up", &s->lanes_up);
    sentinels_file(info, s);
    refusals_file(info, s);
    service_text(info, "stalled_-", s->stalled, sizeof s->stalled);
    service_number(info, "process_id", &s->pid);
    service_number(info, "uptime_in_seconds", &s->uptime_s);
    service_number(info, "connected_clients", &s->connections);
    service_number(info, "maxclients", &s->connections_most);
    s->leftovers.known = service_number(info, "leftovers", &s->leftovers.value);
    s->redis_up = service_flag(info, "redis_up");
    s->mysql_up = service_flag(info, "mysql_up");
    s->stopping = service_flag(info, "stopping");
    s->recovering = service_flag(info, "recovering");
#define X(name, meaning) service_number(info, #name, &s->stats.name);
    STATS(X)
#undef X
}

void probe_service(redisContext *link, struct buf *info, struct status *s)
{
    if (link == NULL && s->service.secure)
        snprintf(s->service.why, sizeof s->service.why,
                 "verbs cannot use any address at which it listens (tls://, users, proxies)");
    else if (link == NULL)
        snprintf(s->service.why, sizeof s->service.why, "no tallyd answers at any address of listen.resp");
    else if (!service_info(link, info))
        snprintf(s->service.why, sizeof s->service.why, "the program that listens there is not a tallyd");
    else
        info_file(info, &s->service);
}

void probe_service_again(redisContext *link, struct status *s)
{
    struct buf info = {0};
    struct status later = *s;
    if (s->service.up && service_info(link, &info)) {
        later.mono_ms = mono_ms();
        info_file(&info, &later.service);
        status_rate(s, &later);
        s->service.hits_per_s = later.service.hits_per_s;
    }
    buf_free(&info);
}

void probe_stands(const struct buf *info, struct status *s)
{
    for (size_t i = 0; s->service.up && i < s->counters_n; i++) {
        char name[100];
        snprintf(name, sizeof name, "stalled_" SLICE_FMT, SLICE_ARG(s->counters[i].counter->name));
        service_text(info, name, s->counters[i].stalled, sizeof s->counters[i].stalled);
        snprintf(name, sizeof name, "stores_wait_" SLICE_FMT, SLICE_ARG(s->counters[i].counter->name));
        service_text(info, name, s->counters[i].stores_wait, sizeof s->counters[i].stores_wait);
    }
    for (size_t i = 0; s->service.up && i < s->batches_n; i++) {
        char name[5 + 33] = "held_";
        batch_id_hex(&s->batches[i].id, name + 5);
        service_text(info, name, s->batches[i].held, sizeof s->batches[i].held);
    }
}

void status_rate(const struct status *before, struct status *now)
{
    const struct status_service *a = &before->service, *b = &now->service;
    uint64_t passed_ms = now->mono_ms - before->mono_ms;
    bool same = a->up && b->up && a->pid == b->pid && b->uptime_s >= a->uptime_s;
    now->service.hits_per_s.known = same && passed_ms > 0;
    if (now->service.hits_per_s.known)
        now->service.hits_per_s.value = (b->stats.hits - a->stats.hits) * 1000 / (int64_t)passed_ms;
}
