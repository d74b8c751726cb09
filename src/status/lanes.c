/* status/lanes.c - see lanes.h. */
#include "status/lanes.h"

#include "redis/lanes_op.h"
#include "status/ask.h"

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
            e, ERR_CONFIG,
            "`tallyd move` brings another Redis' counts into this cluster: run it to its end first");
    if (lanes->told == 0 || lanes->told == (int64_t)lanes->wanted) return ERR_NONE;
    return error_set(
        e, ERR_CONFIG,
        "redis.lanes is %u, and this cluster is used with %lld: what it has would be looked for in "
        "other slots. Write redis.lanes: %lld. Another number needs a cluster that tallyd has not "
        "used yet",
        lanes->wanted, (long long)lanes->told, (long long)lanes->told);
}

enum err lanes_agree(const struct source *where, bool keep, struct error *e)
{
    struct source home = *where;
    struct ask ask;
    bool done = false;
    struct redis_lanes lanes = {.wanted = where->lanes, .keep = keep, .done = lanes_told, .arg = &done};
    if (!where->redis->cluster) return ERR_NONE;
    home.lanes = 1;
    if (ask_open_patiently(&ask, &home, e) != ERR_NONE) return e->code;
    redis_lanes(&ask.link, &lanes);
    redis_run_until(&ask.link, &done);
    ask_close(&ask);
    return lanes_compare(&lanes, e);
}
