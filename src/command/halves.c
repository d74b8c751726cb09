/* command/halves.c - requests of which a part has come. Their bytes have a share of memory; where it is used up, the user's
 * longest goes, as in Redis' client eviction. Each has a time while tallyd reads from its client, and longer the more of it has
 * come, so that a slow upload gets through, and a byte now and then does not. */
#include "base/log.h"
#include "command/inside.h"

#define LOOK_MS 500
#define LEAST_RATE 16 /* bytes in a ms, beyond limits.send_timeout */

static void end(struct session *s, const char *why)
{
    static struct log_seldom line;
    unsigned times;
    char peer[160];
    if (log_seldom(&line, &times)) {
        s->command->config.client.peer(s->conn, peer, sizeof peer);
        log_event(LOG_WARN, "client_closed", "why=%s peer=%s bytes=%zu times=%u", LOGQ(why), peer,
                  s->share[SHARE_HALVES].bytes, times);
    }
    share_set(s, SHARE_HALVES, 0);
    session_refuse(s, why);
}

static struct session *longest_half(struct session *s)
{
    struct session *found = s;
    list_for_each (at, &s->command->shares[SHARE_HALVES].held) {
        struct session *other = CONTAINER_OF(at, struct session, share[SHARE_HALVES].place);
        const struct share *its = &other->share[SHARE_HALVES];
        if (its->of == s->share[SHARE_HALVES].of && its->bytes > found->share[SHARE_HALVES].bytes)
            found = other;
    }
    return found;
}

void half_set(struct session *s, size_t bytes, bool is_new)
{
    size_t *had = &s->share[SHARE_HALVES].bytes;
    if (is_new || *had == 0) s->half_ms = s->command->now_ms;
    bool more = bytes > *had;
    share_set(s, SHARE_HALVES, bytes);
    while (more && *had > 0 && !share_fits(s, SHARE_HALVES, 0))
        end(longest_half(s), "ERR Protocol error: unfinished requests take too much memory (limits.memory)");
}

void halves_tick(struct command *c, uint64_t now_ms)
{
    struct list *held = &c->shares[SHARE_HALVES].held;
    if (now_ms - c->halves_ms < LOOK_MS) return;
    c->halves_ms = now_ms;
    for (struct list *at = held->next, *next; at != held; at = next) {
        struct session *s = CONTAINER_OF(at, struct session, share[SHARE_HALVES].place);
        next = at->next;
        if (now_ms - s->half_ms <= c->config.half_ms + s->share[SHARE_HALVES].bytes / LEAST_RATE) continue;
        struct conn_info info = {.reads = true};
        c->config.client.info(s->conn, &info);
        if (info.reads)
            end(s, "ERR Protocol error: the request did not come whole in time (limits.send_timeout)");
        else
            s->half_ms = now_ms; /* it is for us to go on: the client has answers to read first, say */
    }
}
