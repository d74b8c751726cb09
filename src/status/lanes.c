/* status/lanes.c - see lanes.h. */
#include "status/lanes.h"

#include "redis/lanes_op.h"
#include "status/ask.h"

#define AGAIN_MS 1000

static void lanes_told(struct redis_lanes *lanes)
{
    *(bool *)lanes->arg = true;
}

static enum err lanes_compare(const struct redis_lanes *lanes, struct error *e)
{
    if (lanes->lost)
        return error_set(e, ERR_UNAVAILABLE,
                         "the cluster does not say how many lanes it has (%s); see that it answers, and that "
                         "redis.url's user may read and write the keys {*}*",
                         lanes->text);
    if (lanes->told < 0)
        return error_set(
            e, ERR_BUSY,
            "`tallyd move` brings another Redis' counts into this cluster: run it to its end first");
    if (lanes->told == 0 || lanes->told == (int64_t)lanes->wanted) return ERR_NONE;
    return error_set(
        e, ERR_CONFIG,
        "redis.lanes is %u, and this cluster is used with %lld: what it has would be looked for in "
        "other slots. Write redis.lanes: %lld. Another number needs a cluster that tallyd has not "
        "used yet",
        lanes->wanted, (long long)lanes->told, (long long)lanes->told);
}

static enum err lanes_ask(struct ask *ask, const struct source *where, bool keep, struct error *e)
{
    bool done = false;
    struct redis_lanes lanes = {.wanted = where->lanes, .keep = keep, .done = lanes_told, .arg = &done};
    redis_lanes(&ask->link, &lanes);
    redis_run_until(&ask->link, &done);
    e->code = ERR_NONE;
    return lanes_compare(&lanes, e);
}

static enum err home_open(struct ask *ask, const struct source *where, struct error *e)
{
    struct source home = *where;
    home.lanes = 1;
    return ask_open_patiently(ask, &home, e);
}

/* The mover ends links of others, this one, too. */
static void home_again(struct ask *ask)
{
    struct error ignored;
    if (!redis_link_is_up(&ask->link)) (void)redis_link_connect(&ask->link, AGAIN_MS, &ignored);
}

static enum err lanes_ask_after(const struct source *where, bool keep,
                                bool (*pause)(void *arg, const struct error *why), void *arg, struct error *e)
{
    struct ask ask;
    bool waits = false;
    if (!where->redis->cluster) return ERR_NONE;
    if (home_open(&ask, where, e) != ERR_NONE) return e->code;
    while (lanes_ask(&ask, where, keep, e) == ERR_BUSY || (waits && e->code == ERR_UNAVAILABLE)) {
        waits = pause != NULL && pause(arg, e);
        if (!waits) break;
        home_again(&ask);
    }
    ask_close(&ask);
    return e->code;
}

enum err lanes_agree(const struct source *where, bool keep, struct error *e)
{
    return lanes_ask_after(where, keep, NULL, NULL, e);
}

enum err lanes_agree_after(const struct source *where, bool (*pause)(void *arg, const struct error *why),
                           void *arg, struct error *e)
{
    return lanes_ask_after(where, false, pause, arg, e);
}
