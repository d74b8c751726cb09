/* engine/drain.c - see lane.h. */
#include "base/heap.h"
#include "base/stats.h"
#include "engine/lane.h"
#include "redis/batch.h"
#include <stdio.h>

#define STUCK_MS 15000

static void drain_fail(struct drain *d, const char *text)
{
    d->failed = true;
    snprintf(d->text, sizeof d->text, "%s", text);
    d->done(d);
}

static void journals_listed(struct journal_list *list)
{
    struct drain *d = list->arg;
    d->asking = false;
    d->home = !list->lost && list->n == 0;
    int64_t ran = STAT_GET(frames) - STAT_GET(frames_refused);
    bool goes_on = list->lost || d->stuck_ms == 0 || list->n != d->left || ran > d->ran;
    if (goes_on) d->stuck_ms = mono_ms() + STUCK_MS;
    if (!list->lost) d->left = list->n;
    if (ran > d->ran) d->ran = ran;
    bool stuck = mono_ms() >= d->stuck_ms;
    heap_free(list->all);
    buf_free(&list->texts);
    if (d->home && d->journals_only)
        d->done(d);
    else if (stuck)
        drain_fail(d, "journals wait, and Redis takes nothing of them: the log above says why");
    else
        takeover_soon(&d->lane->takeover);
}

static void all_merged(struct sync_wait *w)
{
    struct drain *d = w->arg;
    d->asking = false;
    if (w->outcome == ASK_DONE || (w->outcome == ASK_TRY_AGAIN && d->stands && w->rows == 0))
        d->done(d);
    else if (w->outcome == ASK_MYSQL_DOWN)
        drain_fail(d, "MySQL cannot be reached; what is not merged is still in Redis");
    else if (w->outcome == ASK_HELD)
        drain_fail(
            d, "counts of this Redis are held: the log says why. `tallyd check` names what MySQL refuses");
}

/* A batch of a tallyd that has just ended is adopted when its sign of life is old, so the wait may begin again. */
void drain_tick(struct drain *d)
{
    struct core *c = &d->lane->core;
    if (d->asking || d->failed || !core_up(c)) return;
    d->asking = true;
    if (!d->home) {
        d->journals = (struct journal_list){.done = journals_listed, .arg = d};
        redis_journals(&c->sync_link, &d->journals);
        return;
    }
    d->wait = (struct sync_wait){.done = all_merged, .arg = d};
    sync_wait_for(c->sync, &d->wait);
}
