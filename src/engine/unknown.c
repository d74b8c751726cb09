/* engine/unknown.c - one batch after the other: scanned raw, every row with its ledger row into tally_rejects (so
 * exactly once), then discarded. With the same fence as a merge: what went to MySQL must not come back in Redis. */
#include "base/heap.h"
#include "base/log.h"
#include "engine/recovery.h"
#include "mysql/ledger.h"
#include "redis/batch.h"
#include <stdio.h>

struct unknown_task {
    struct core *core;
    struct unknown_how how;
    struct unknown_result result;
    struct batch_list list;
    struct batch_id *ids;
    size_t n, cap, at;
    struct batch batch;
    struct epoch epoch; /* as its scan began */
    struct scan scan;
    struct fence fence;
    struct discard discard;
    struct db_job job;
    struct error error;
    uint64_t rows;
    bool moved;
};

static void unknown_next(struct unknown_task *t);

static void unknown_end(struct unknown_task *t)
{
    struct unknown_how how = t->how;
    struct unknown_result result = t->result;
    batch_close(&t->batch);
    heap_free(t->ids);
    heap_free(t);
    how.done(how.arg, &result);
}

static void unknown_fail(struct unknown_task *t, const char *what, const char *text)
{
    t->result.failed = true;
    snprintf(t->result.text, sizeof t->result.text, "unknown batches: %s: %.200s; run recover again", what,
             text);
    unknown_end(t);
}

static void unknown_discarded(struct discard *d)
{
    struct unknown_task *t = CONTAINER_OF(d, struct unknown_task, discard);
    if (!d->done_ok)
        unknown_fail(t, "discard", d->text);
    else
        unknown_next(t);
}

static void job_work(struct db *db, struct db_job *job)
{
    struct unknown_task *t = CONTAINER_OF(job, struct unknown_task, job);
    t->moved = ledger_reject_batch(db, &t->batch, &t->epoch, "its counter is not configured", &t->rows,
                                   &t->error) == ERR_NONE;
}

static void on_moved(struct db_job *job)
{
    struct unknown_task *t = CONTAINER_OF(job, struct unknown_task, job);
    if (!job->ran || !t->moved) {
        unknown_fail(t, "reject", job->ran ? t->error.text : job->text);
        return;
    }
    t->result.rows += (int64_t)t->rows;
    t->discard = (struct discard){.batch = &t->batch, .done = unknown_discarded};
    redis_discard(&t->core->sync_link, &t->discard);
}

static void unknown_fenced(struct fence *f)
{
    struct unknown_task *t = CONTAINER_OF(f, struct unknown_task, fence);
    bool same = strcmp(f->run_id, t->scan.run_id) == 0 && strcmp(f->run_id, t->epoch.run_id) == 0 &&
                strcmp(f->replid, t->epoch.replid) == 0;
    if (!f->passed || !same) {
        unknown_fail(t, "barrier", f->text);
        return;
    }
    t->job.work = job_work;
    t->job.done = on_moved;
    core_job(t->core, &t->job);
}

/* (!) A scan is sealed on a thread, so this may come after the links were closed: a fence would never be answered. */
static void unknown_scanned(struct scan *s)
{
    struct unknown_task *t = CONTAINER_OF(s, struct unknown_task, scan);
    bool sealed = s->outcome == SCAN_SEALED;
    if (sealed && t->core->stage != STAGE_CLOSING) {
        t->fence = (struct fence){.done = unknown_fenced};
        redis_fence(t->core->fences, &t->fence);
    } else if (s->outcome == SCAN_GONE) {
        unknown_next(t);
    } else {
        unknown_fail(t, "scan", sealed ? "tallyd is stopping" : s->text);
    }
}

static void unknown_next(struct unknown_task *t)
{
    if (t->at == t->n || t->core->stage == STAGE_CLOSING) {
        unknown_end(t);
        return;
    }
    batch_close(&t->batch);
    batch_init(&t->batch, &t->ids[t->at++]);
    t->epoch = t->core->gate.epoch;
    t->scan = (struct scan){
        .batch = &t->batch, .counters = t->core->config.counters, .raw = true, .done = unknown_scanned};
    redis_scan(&t->core->scans, &t->scan);
}

static void on_batch(void *arg, const struct batch_seen *b)
{
    struct unknown_task *t = arg;
    struct batch_id read;
    bool configured = counters_find(t->core->config.counters, b->counter) != NULL;
    bool other_format = b->format >= 0 && !batch_format_known(b->format);
    if ((configured && !other_format) || !batch_id_read(b->id, &read)) return;
    /* A batch in another version's format is not rejected: its rows might be read wrongly. */
    struct buf name = {0};
    buf_printf(&name, SLICE_FMT " of counter " SLICE_FMT, SLICE_ARG(b->id), SLICE_ARG(b->counter));
    if (other_format)
        buf_printf(&name, ", of format %lld: the version of tallyd that claimed it merges it",
                   (long long)b->format);
    t->how.found(t->how.arg, buf_slice(&name));
    buf_free(&name);
    if (other_format) return;
    HEAP_GROW(t->ids, t->n, t->cap, 64);
    t->ids[t->n++] = read;
}

static void on_listed(struct batch_list *l)
{
    struct unknown_task *t = CONTAINER_OF(l, struct unknown_task, list);
    if (l->lost)
        unknown_fail(t, "list", "the link to Redis was lost");
    else if (!t->how.reject)
        unknown_end(t);
    else
        unknown_next(t);
}

void unknown_start(struct core *c, const struct unknown_how *how)
{
    struct unknown_task *t = heap_zalloc(sizeof *t);
    t->core = c;
    t->how = *how;
    t->list = (struct batch_list){.batch = on_batch, .done = on_listed, .arg = t};
    redis_batch_list(&c->sync_link, &t->list);
}
