/* engine/name.c - see name.h. */
#include "engine/name.h"
#include "base/heap.h"
#include "base/log.h"
#include "engine/core.h"
#include "redis/batches_op.h"
#include "redis/check_op.h"

#define HOLDER_MS 35000 /* a sign of life in tally:instance lasts 30 s */
#define HOLDER_GAP_MS 3000
#define HOLDER_POLL_MS 50

static void holder_known(struct redis_instance *i)
{
    *(bool *)i->arg = true;
}

static enum err ask_holder(struct redis_link *l, struct redis_instance *i, struct error *e)
{
    bool done = false;
    *i = (struct redis_instance){.life = l->config.life, .done = holder_known, .arg = &done};
    redis_instance(l, i);
    redis_run_until(l, &done);
    if (i->lost)
        return error_set(e, ERR_UNAVAILABLE, "the link to Redis was lost while starting: %s", l->why);
    return ERR_NONE;
}

static bool holder_is_here(const struct redis_instance *i, const char *here)
{
    const char *host = strchr(i->holder, '|'); /* '<life>|<host>' */
    return host != NULL && strcmp(host + 1, here) == 0;
}

/* A living holder has links, except during a reconnect. A dead one on this machine has none at once. A dead one on
 * another machine has links until Redis notices, but then its sign of life expires. */
static bool holder_lives(const struct redis_instance *i, const char *host, uint64_t *unlinked_ms,
                         uint64_t now_ms)
{
    if (!i->taken) return false;
    if (i->linked) *unlinked_ms = now_ms;
    return i->linked || (!holder_is_here(i, host) && now_ms - *unlinked_ms < HOLDER_GAP_MS);
}

struct holders {
    struct redis_link *const *links;
    uint64_t *unlinked_ms; /* one a link */
    uint32_t n;
    const char *host;
    bool live, here; /* one lives; on this machine */
};

static enum err holders_ask(struct holders *h, struct error *e)
{
    struct redis_instance now;
    h->live = h->here = false;
    for (uint32_t i = 0; i < h->n; i++) {
        if (ask_holder(h->links[i], &now, e) != ERR_NONE) return e->code;
        if (!holder_lives(&now, h->host, &h->unlinked_ms[i], mono_ms())) continue;
        h->live = true;
        h->here |= holder_is_here(&now, h->host);
    }
    return ERR_NONE;
}

static enum err holders_wait(struct holders *h, const bool *stop, struct error *e)
{
    uint64_t began_ms = mono_ms();
    for (;;) {
        if (holders_ask(h, e) != ERR_NONE) return e->code;
        if (*stop || !h->live) return ERR_NONE;
        if (mono_ms() - began_ms >= (h->here ? HOLDER_GAP_MS : HOLDER_MS)) break;
        core_pause(h->links[0]->loop, HOLDER_POLL_MS);
    }
    return error_set(e, ERR_CONFIG,
                     "another tallyd with the instance name '" SLICE_FMT
                     "' runs on this Redis; stop it, or give this one "
                     "a name of its own (option `instance`)",
                     SLICE_ARG(h->links[0]->config.life->instance));
}

enum err name_free(struct redis_link *const *links, uint32_t n, const char *host, const bool *stop,
                   struct error *e)
{
    struct holders h = {
        .links = links, .unlinked_ms = heap_alloc(n * sizeof(uint64_t)), .n = n, .host = host};
    for (uint32_t i = 0; i < n; i++)
        h.unlinked_ms[i] = mono_ms();
    enum err code = holders_wait(&h, stop, e);
    heap_free(h.unlinked_ms);
    return code;
}

static void lives_killed(struct redis_kill *k)
{
    *(bool *)k->arg = true;
}

/* (!) Before the first claim: what an earlier life sent and Redis has not read yet must never run. */
enum err name_take(struct redis_link *l, struct error *e)
{
    bool done = false;
    struct redis_kill kill = {.life = l->config.life, .done = lives_killed, .arg = &done};
    redis_kill_lives(l, &kill);
    redis_run_until(l, &done);
    if (kill.lost)
        return error_set(e, ERR_UNAVAILABLE, "cannot end links of an earlier start: %s", kill.text);
    if (kill.killed > 0) log_event(LOG_INFO, "killed_links", "n=%u", kill.killed);
    return ERR_NONE;
}
