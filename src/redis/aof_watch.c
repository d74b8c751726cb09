/* redis/aof_watch.c - see durable.h. */
#include "base/slice.h"
#include "redis/check_op.h"
#include "redis/durable.h"

#define AGAIN_MS 5           /* while an fsync runs */
#define SLOW_MS 100          /* while something stands that may take long */
#define CLOSE_MS 5000        /* 7.0: how long the job that syncs the old file may take */
#define CLOCK_SLACK_US 20000 /* clocks drift apart; so much is not noticed */
#define CLOCK_SECOND_US 1000000

/* What the next look is. NO_FORK: if no child began since look 2. */
enum step { LOOK_1, LOOK_2, LOOK_3_NO_FORK, LOOK_3 };

static int64_t info_number(struct slice info, const char *key)
{
    struct slice text;
    int64_t n;
    return info_get(info, key, &text) && num_parse(text, &n) ? n : -1;
}

bool aof_look_read(struct aof_look *l, struct slice info)
{
    struct slice valkey;
    if (!info_facts(info, &l->facts)) return false;
    l->answered_ms = mono_ms();
    l->time_us = info_number(info, "server_time_usec");
    l->rewrites = info_number(info, "aof_rewrites");
    l->forks = info_number(info, "total_forks");
    l->rewriting = !info_is(info, "aof_rewrite_in_progress", "0");
    l->rewritten_ok = info_is(info, "aof_last_bgrewrite_status", "ok");
    l->at_rest = !l->rewriting && info_is(info, "aof_rewrite_scheduled", "0");
    l->written_ok = info_is(info, "aof_last_write_status", "ok");
    l->syncing = !info_is(info, "aof_pending_bio_fsync", "0");
    l->child = l->rewriting || !info_is(info, "rdb_bgsave_in_progress", "0") ||
               !info_is(info, "module_fork_in_progress", "0");
    l->valkey = info_get(info, "valkey_version", &valkey);
    return true;
}

bool aof_look_vouches(const struct aof_look *l)
{
    return l->facts.aof_on && l->at_rest && l->rewritten_ok;
}

static bool is_always(const struct aof_look *l)
{
    return strcmp(l->facts.appendfsync, "always") == 0;
}

/* --- the server --- */

void aof_watch_look(struct aof_watch *w, const struct aof_look *l)
{
    int64_t ahead_us = l->time_us - (int64_t)l->answered_ms * 1000;
    int64_t most_us = l->time_us - (int64_t)l->asked_ms * 1000;
    bool known = memcmp(w->run_id, l->facts.run_id, sizeof w->run_id) == 0;
    if (!known)
        *w = (struct aof_watch){.rewrites = l->rewrites,
                                .rewrites_ms = l->answered_ms,
                                .ahead_us = ahead_us,
                                .ahead_most_us = most_us};
    memcpy(w->run_id, l->facts.run_id, sizeof w->run_id);
    w->loadable = l->facts.aof_on && (w->loadable || l->at_rest);
    if (l->rewrites != w->rewrites) {
        w->rewrites_ms = l->answered_ms;
        w->clock_us = 0; /* the new file's seconds begin with the clock as it was then */
    }
    w->rewrites = l->rewrites;
    /* A time that is known to be over at Redis: it had its look after we asked, and the clocks were this far apart before. */
    if (l->time_us < (int64_t)l->asked_ms * 1000 + w->ahead_us - CLOCK_SLACK_US) {
        int64_t was_us = (int64_t)l->answered_ms * 1000 + w->ahead_most_us;
        if (was_us > w->clock_us) w->clock_us = was_us;
        w->ahead_us = ahead_us;
        w->ahead_most_us = most_us;
    }
    if (ahead_us > w->ahead_us) w->ahead_us = ahead_us;
    if (most_us > w->ahead_most_us) w->ahead_most_us = most_us;
}

/* --- a write --- */

bool aof_watch_wants_rewrite(const struct aof_watch *w, const struct aof_look *l)
{
    return w->clock_us > l->time_us + 5 * CLOCK_SECOND_US && !l->child;
}

bool aof_look_wants_push(const struct aof_look *l)
{
    return (is_always(l) && l->facts.lax_fsync) || l->rewriting || !l->rewritten_ok;
}

/* While this stands no fsync begins, or not of what was written. NULL: nothing does. */
static const char *obstacle(const struct aof_watch *w, const struct aof_look *l)
{
    if (!w->loadable)
        return "Redis has not finished the first rewrite of its AOF, which a start needs; it does by itself";
    if (!l->written_ok) return "Redis could not write its AOF; look at its disk and its log";
    if (l->facts.lax_fsync && l->child)
        return "no-appendfsync-on-rewrite is yes, so Redis syncs nothing while it saves or rewrites: "
               "run CONFIG SET no-appendfsync-on-rewrite no";
    if (l->time_us <= w->clock_us)
        return "Redis' clock was put back, and it syncs nothing until that clock is where it was: "
               "run BGREWRITEAOF";
    if (l->facts.version < 70200 && (l->rewriting || !l->rewritten_ok) &&
        l->answered_ms < w->rewrites_ms + CLOSE_MS) /* the old file is being closed */
        return "Redis rewrites its AOF";
    return NULL;
}

/* Of Redis' clock: when a second is over, whenever the last fsync began. */
static int64_t due_us(const struct aof_look *l)
{
    if (is_always(l)) return l->time_us;
    int64_t begun_us = l->time_us + CLOCK_SLACK_US;
    bool by_second = l->facts.version < 70400 && !l->valkey;
    return begun_us - (by_second ? begun_us % CLOCK_SECOND_US : 0) + CLOCK_SECOND_US;
}

/* At the step that l allows, and when to look again. */
static void aof_wait_step(struct aof_wait *a, const struct aof_look *l, enum step step, uint64_t wait_ms)
{
    a->step = step;
    a->forks = l->forks;
    a->again_ms = l->answered_ms + wait_ms;
}

static void wait_second(struct aof_wait *a, const struct aof_look *l)
{
    aof_wait_step(a, l, LOOK_2, (uint64_t)(a->due_us - l->time_us + 999) / 1000);
}

enum aof_verdict aof_wait_look(struct aof_wait *a, const struct aof_watch *w, const struct aof_look *l)
{
    bool lax = l->facts.lax_fsync;
    if (!l->facts.aof_on || strcmp(l->facts.appendfsync, "no") == 0) return AOF_OFF;
    if (!a->looked) a->first_rewrites = l->rewrites;
    a->looked = true;
    a->why = obstacle(w, l);
    if (w->loadable && l->rewritten_ok && l->rewrites - l->rewriting > a->first_rewrites) return AOF_SYNCED;
    if (a->why != NULL)
        aof_wait_step(a, l, LOOK_1, SLOW_MS);
    else if (is_always(l) && !lax)
        return AOF_SYNCED;
    else if (a->step <= LOOK_2 && !l->pushed && aof_look_wants_push(l))
        a->again_ms = l->answered_ms;
    else if (a->step == LOOK_1 || a->rewrites != l->rewrites ||
             (a->step == LOOK_3_NO_FORK && lax && a->forks != l->forks)) {
        a->rewrites = l->rewrites;
        a->due_us = due_us(l);
        if (l->syncing)
            aof_wait_step(a, l, LOOK_1, AGAIN_MS);
        else
            wait_second(a, l);
    } else if (a->step == LOOK_2) {
        /* Look 2 is over when a second is, or an fsync has begun. */
        if (l->syncing)
            aof_wait_step(a, l, LOOK_3, AGAIN_MS);
        else if (l->time_us < a->due_us)
            wait_second(a, l);
        else
            aof_wait_step(a, l, LOOK_3_NO_FORK, 0);
    } else if (!l->syncing)
        return AOF_SYNCED;
    else
        aof_wait_step(a, l, LOOK_3, AGAIN_MS);
    return AOF_WAITS;
}
