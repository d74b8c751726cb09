/* sync/recover.c - on demand: adopts every batch whose owner is dead, and waits until each is merged or held.
 */
#include "base/heap.h"
#include "base/stats.h"
#include "sync/inside.h"

#define ADOPT_PAGE 1000

static void found_more(struct sync *s)
{
    s->recover_total++;
    STAT_ADD(recover_total, 1);
}

static void on_found(struct adopt *a)
{
    struct sync_recover *rec = a->arg;
    struct sync *s = rec->sync;
    rec->asking = false;
    s->requests_out--;
    rec->failed |= a->lost;
    rec->unknown = a->unknown;
    rec->asked_all = a->lost || a->ids_n < a->limit;
    for (uint32_t i = 0; i < a->ids_n; i++) {
        if (adopt_known(s, &a->ids[i])) continue;
        adopt_push(s, &a->ids[i], true);
        rec->adopted++;
        rec->left++;
        found_more(s);
    }
    heap_free(a->ids);
    a->ids = NULL;
}

void sync_recover(struct sync *s, struct sync_recover *rec)
{
    PRE(s->recover == NULL);
    rec->sync = s;
    rec->failed = rec->asking = rec->asked_all = false;
    rec->adopted = rec->rows_merged = rec->rows_already = rec->unknown = rec->held = 0;
    rec->left = 0;
    s->recover = rec;
    STAT_ADD(recover_total, -s->recover_total);
    STAT_ADD(recover_done, -s->recover_done);
    s->recover_total = s->recover_done = 0;
    for (uint32_t i = 0; i < s->queue_n; i++)
        s->queue[i].in_recover = false; /* what an earlier one that failed left */
    list_for_each (node, &s->runs) {
        struct run *r = CONTAINER_OF(node, struct run, link);
        r->in_recover = false;
        if (sm_now(&r->sm) != RUN_WAIT) continue;
        r->in_recover = true;
        r->resume_ms = 0;
        rec->left++;
        found_more(s);
    }
}

void sync_take(struct sync *s, const struct batch_id *id)
{
    if (adopt_known(s, id)) return;
    adopt_push(s, id, s->recover != NULL);
    if (s->recover == NULL) return;
    s->recover->left++;
    s->recover->adopted++;
    found_more(s);
}

void recover_run_settled(struct sync *s, struct run *r, bool held)
{
    if (!r->in_recover) return;
    r->in_recover = false;
    struct sync_recover *rec = s->recover;
    if (rec == NULL) return;
    rec->rows_merged += r->rows_merged;
    rec->rows_already += r->rows_already;
    rec->held += held;
    rec->left--;
    s->recover_done++;
    STAT_ADD(recover_done, 1);
}

void recover_tick(struct sync *s)
{
    struct sync_recover *rec = s->recover;
    if (rec == NULL || rec->asking) return;
    bool away = !s->redis_up || !s->mysql_up || s->hold || s->stopping;
    if (away) rec->failed = true;
    if (!away && !rec->asked_all && s->started && s->queue_n < ADOPT_PAGE) {
        rec->adopt = (struct adopt){.mode = ADOPT_DEAD,
                                    .stale_ms = s->config.stale_ms,
                                    .limit = ADOPT_PAGE,
                                    .counters = s->counters,
                                    .done = on_found,
                                    .arg = rec};
        rec->asking = true;
        s->requests_out++;
        s->ports.adopt(s->ports.arg, &rec->adopt);
        return;
    }
    bool finished = rec->asked_all && rec->left == 0 && !rec->more;
    if (!finished && !rec->failed) return;
    s->recover = NULL;
    rec->done(rec);
}
