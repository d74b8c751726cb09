/* sync/run.c - moves one batch into MySQL, exactly once.
 *   CLAIM -> SCAN -> FENCE -> MERGE -> DISCARD -> DONE; an adopted batch enters at SCAN; WAIT backs off. The fence begins
 *   with the scan, beside it: SCAN and then FENCE wait until both are answered.
 * On event X, do Y:
 *   claim refused, or gone in doubt     the names are due again, DONE (there is no batch)
 *   registry gone at SCAN               another process finished the batch: DONE
 *   link lost at SCAN, at DISCARD       WAIT, then the same again: HSCAN from 0; discarding twice is harmless
 *   fence lost, or passed by another    WAIT, SCAN: (!) what was scanned before may have been rolled back
 *     server process than was scanned
 *   scan or fence of another history,   WAIT, SCAN, and the gate looks again: another primary was found, or this
 *     or a merge whose epoch is over      one is another by now
 *   MySQL down                          WAIT, SCAN: rows are freed meanwhile; the ledger knows what was merged
 *   table refuses, rows short, conflict WAIT long, alarm; never discarded
 *   rows of a chunk are locked          the other chunks, then WAIT, SCAN: the ledger knows what is left of it
 *   MySQL takes no row of a chunk       the other chunks, then WAIT, alarm, SCAN: refused.c says when its rows are rejects
 *   all merged, with keep_ms            DONE: keep.c has it, and discards it later
 *   older than give_up_ms               DONE, (!) not even discarded: the batch remains for adoption
 * A crash anywhere leaves the registry, and the process that adopts the batch enters at SCAN. Callbacks only record and
 * resume.
 *
 * Why a run gives up: ledger rows are pruned `ledger.keep` after merged_at, once their batch no longer exists. A merge
 * that finds its row refreshes merged_at (mysql/merge.c), so a run that discards has touched every row within its own
 * life. With keep = 3 x give_up the rows then outlive every run that scanned the batch before it was gone. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "sync/inside.h"

#include <stdio.h>

static const struct sm_state run_states[] = {
    [RUN_CLAIM] = {"claim", TO(RUN_SCAN) | TO(RUN_WAIT) | TO(RUN_DONE)},
    [RUN_SCAN] = {"scan", TO(RUN_FENCE)},
    [RUN_FENCE] = {"fence", TO(RUN_MERGE) | TO(RUN_WAIT) | TO(RUN_DONE)},
    [RUN_MERGE] = {"merge", TO(RUN_DISCARD) | TO(RUN_WAIT) | TO(RUN_DONE)},
    [RUN_DISCARD] = {"discard", TO(RUN_WAIT) | TO(RUN_DONE)},
    [RUN_WAIT] = {"wait", TO(RUN_SCAN) | TO(RUN_DISCARD) | TO(RUN_DONE) | TO_UNRULED(RUN_FENCE)},
    [RUN_DONE] = {"done", 0},
};

static const char *run_hex(const struct run *r, char hex[33])
{
    batch_id_hex(&r->batch.id, hex);
    return hex;
}

struct run *run_create(struct sync *s, const struct batch_id *id)
{
    struct run *r = heap_zalloc(sizeof *r);
    r->sync = s;
    r->born_ms = sync_now(s);
    batch_init(&r->batch, id);
    list_init(&r->rests);
    map_init(&r->stores);
    list_push(&s->runs, &r->link);
    s->runs_n++;
    return r;
}

void run_free(struct run *r)
{
    list_remove(&r->link);
    list_remove(&r->rests);
    r->sync->runs_n--;
    r->sync->fields -= r->fields;
    STAT_ADD(fields_in_flight, -(int64_t)r->fields);
    if (r->held) STAT_ADD(batches_held, -1);
    if (r->refused) r->family->refused--;
    refused_over(r);
    batch_close(&r->batch);
    buf_free(&r->key_bytes);
    buf_free(&r->left_now);
    buf_free(&r->left);
    heap_free(r->claim.keys);
    heap_free(r->claim.fresh);
    heap_free(r->chunks);
    heap_free(r);
}

static void count_fields(struct run *r, uint64_t fields)
{
    r->sync->fields += fields - r->fields;
    STAT_ADD(fields_in_flight, (int64_t)(fields - r->fields));
    r->fields = fields;
}

static void run_done(struct run *r)
{
    sm_move(&r->sm, RUN_DONE);
    wait_run_done(r->sync, r);
    recover_run_settled(r->sync, r, false);
    run_free(r);
}

static void run_later(struct run *r, int resume, uint64_t ms)
{
    sm_move(&r->sm, RUN_WAIT);
    r->resume = resume;
    r->resume_ms = sync_now(r->sync) + ms;
    if (resume == RUN_SCAN) {
        batch_close(&r->batch);
        heap_free(r->chunks);
        r->chunks = NULL;
    }
}

static void run_back_off(struct run *r, int resume)
{
    const struct sync_config *c = &r->sync->config;
    run_later(r, resume, rand_backoff_ms(r->attempts++, c->retry_ms, c->retry_most_ms));
}

/* Raises an alarm, and looks again after a while: an operator may have repaired it. Its rows do not count meanwhile: a
 * held batch must not stop the claims of other counters. */
static void run_hold(struct run *r, const char *why, const char *text)
{
    char hex[33];
    log_event(LOG_ERROR, "batch_held", "batch=%s why=%s detail=%s retry_ms=%u", run_hex(r, hex), why,
              LOGQ(text), r->sync->config.held_ms);
    if (!r->held) STAT_ADD(batches_held, 1);
    r->held = true;
    r->held_why = why;
    snprintf(r->held_text, sizeof r->held_text, "%s", text);
    recover_run_settled(r->sync, r, true);
    run_later(r, RUN_SCAN, r->sync->config.held_ms);
    count_fields(r, 0);
}

static bool run_too_old(const struct run *r)
{
    return HOLDS(RULE_GIVE_UP) && sync_now(r->sync) - r->born_ms >= r->sync->config.give_up_ms;
}

static void run_given_up(struct run *r)
{
    char hex[33];
    log_event(LOG_WARN, "run_given_up", "batch=%s next=%s", run_hex(r, hex),
              LOGQ("older than a third of ledger.keep; the tallyd that adopts it scans it again"));
    run_done(r);
}

static void tell_merged(const struct run *r)
{
    char hex[33];
    log_event(LOG_INFO, "merged", "batch=%s counter=%.*s hashes=%zu rows=%lld already=%lld took_ms=%llu",
              run_hex(r, hex), SLICE_ARG(buf_slice(&r->batch.counter_name)), r->batch.hashes_n,
              (long long)r->rows_merged, (long long)r->rows_already,
              (unsigned long long)(sync_now(r->sync) - r->born_ms));
}

/* --- DISCARD --- */

static void run_discarded(struct discard *d)
{
    struct run *r = d->arg;
    r->sync->requests_out--;
    if (!d->done_ok) {
        run_back_off(r, RUN_DISCARD);
        return;
    }
    keep_discarded(r->sync, r->batch.gen, r->batch.hits);
    if (r->kept_era == 0) tell_merged(r);
    run_done(r);
}

static void run_discard_begin(struct run *r)
{
    if (run_too_old(r)) {
        run_given_up(r);
        return;
    }
    sm_move(&r->sm, RUN_DISCARD);
    r->discard = (struct discard){.batch = &r->batch, .done = run_discarded, .arg = r};
    r->sync->requests_out++;
    r->sync->ports.discard(r->sync->ports.arg, &r->discard);
}

/* --- MERGE --- */

static bool may_write(const struct sync *s)
{
    return !s->abandoned && !s->hold;
}

static void on_merged(struct chunk *c);

static void submit_chunk(struct run *r)
{
    struct sync *s = r->sync;
    struct chunk *c = &r->chunks[r->chunks_next];
    batch_chunk(&r->batch, r->chunks_next++, c);
    c->epoch = HOLDS(RULE_EPOCH_OF_RUN) ? r->epoch : s->epoch;
    c->not_after_ms = HOLDS(RULE_GIVE_UP) ? r->born_ms + s->config.give_up_ms : UINT64_MAX;
    c->values_only = refused_values_only(r);
    c->done = on_merged;
    c->arg = r;
    r->chunks_out++;
    s->requests_out++;
    rest_chunk_sent(s);
    s->ports.merge(s->ports.arg, c);
}

static void submit_chunks(struct run *r)
{
    struct sync *s = r->sync;
    while (r->chunks_out < s->config.chunks_max && r->chunks_next < r->chunks_n) {
        if (!rest_over(s)) {
            if (!list_linked(&r->rests)) list_push(&s->rest.waiting, &r->rests);
            return;
        }
        submit_chunk(r);
    }
}

static void run_merge(struct run *r)
{
    sm_move(&r->sm, RUN_MERGE);
    r->chunks_n = batch_chunks(&r->batch);
    r->chunks_next = r->chunks_out = 0;
    r->merge_ms = sync_now(r->sync);
    r->era = r->sync->mysql_era;
    r->chunks = heap_realloc(r->chunks, r->chunks_n * sizeof *r->chunks);
    r->worst = MERGE_DONE;
    r->left_era = 0;
    memset(r->chunks, 0, r->chunks_n * sizeof *r->chunks);
    submit_chunks(r);
}

static void count_chunk(struct run *r, struct chunk *c)
{
    bool merged =
        c->outcome == MERGE_DONE || (c->outcome == MERGE_LOCKED && c->rows_merged + c->rows_rejected > 0);
    if (merged || c->outcome == MERGE_ALREADY) {
        r->family->stall.merged_ms = sync_now(r->sync);
        if (r->era == r->sync->mysql_era && r->merge_ms > r->sync->mysql_seen_ms)
            r->sync->mysql_seen_ms = r->merge_ms;
    }
    if (c->outcome == MERGE_REFUSED) refused_whole(r, c);
    if (c->outcome == MERGE_LOCKED) {
        if (r->left_now.n == 0) memcpy(r->locked_by, c->locked_by, sizeof r->locked_by);
        buf_put_slice(&r->left_now, buf_slice(&c->left));
        buf_free(&c->left);
    }
    if (merged && c->rows_merged > 0) refused_passed(r->sync, r->family);
    if (merged && c->rows_rejected > 0) refused_rows(r, c);
    if (merged) {
        r->rows_merged += c->rows_merged;
        STAT_ADD(chunks_merged, 1);
        STAT_ADD(rows_merged, c->rows_merged);
        STAT_ADD(rows_rejected, c->rows_rejected);
    } else if (c->outcome == MERGE_ALREADY) {
        r->rows_already += (int64_t)c->rows_n;
        STAT_ADD(chunks_already, 1);
    }
}

static void epoch_lost(struct run *r, const char *why)
{
    char hex[33];
    log_event(LOG_WARN, "epoch_lost", "batch=%s detail=%s", run_hex(r, hex), LOGQ(why));
    r->sync->ports.epoch_over(r->sync->ports.arg);
    run_back_off(r, RUN_SCAN);
}

/* (!) Chunks of two eras: MySQL may have lost the first ones since. */
static void run_is_in(struct run *r)
{
    bool keep = keep_wanted(r);
    if (r->sync->abandoned || r->chunks_next < r->chunks_n || (keep && r->era != r->sync->mysql_era)) {
        run_back_off(r, RUN_SCAN);
    } else if (keep) {
        tell_merged(r);
        keep_add(r);
        run_done(r);
    } else {
        run_discard_begin(r);
    }
}

static void table_holds(struct run *r, bool holds)
{
    if (holds != r->refused) r->family->refused += holds ? 1 : -1U;
    r->refused = holds;
}

/* What became of all chunks together; `worst` is the outcome that decides. */
static void run_merged(struct run *r)
{
    char hex[33];
    const char *text = r->chunks[r->worst_chunk].text;
    refused_left(r);
    switch (r->worst) {
    case MERGE_DONE:
    case MERGE_ALREADY:
        run_is_in(r);
        return;
    case MERGE_LOCKED:
        table_holds(r, false);
        log_event(LOG_WARN, "rows_locked", "batch=%s detail=%s", run_hex(r, hex), LOGQ(text));
        if (r->chunks_next == r->chunks_n) r->left_era = r->era;
        run_back_off(r, RUN_SCAN);
        count_fields(r, 0);
        return;
    case MERGE_DOWN:
        /* When MySQL went away, that is logged already; when it refuses only this merge (a full disk, a held lock), it
         * is not. */
        if (r->sync->mysql_up)
            log_event(LOG_WARN, "merge_waits", "batch=%s detail=%s", run_hex(r, hex), LOGQ(text));
        run_back_off(r, RUN_SCAN);
        return;
    case MERGE_HELD:
        table_holds(r, true);
        family_forget(r->sync, r->family);
        run_hold(r, "table_refuses", text);
        return;
    case MERGE_REFUSED:
        if (HOLDS(RULE_STORES_APART)) table_holds(r, false);
        if (refused_once_beside(r))
            run_back_off(r, RUN_SCAN);
        else
            run_hold(r, "rows_refused", text);
        return;
    case MERGE_CONFLICT:
        run_hold(r, "ledger_conflict", text);
        return;
    case MERGE_STALE:
        epoch_lost(r, text);
        return;
    case MERGE_TOO_OLD:
        run_given_up(r);
        return;
    }
    UNREACHABLE();
}

/* The next chunks; or, after the last answer, what became of all. */
static void merge_on(struct run *r)
{
    if (r->worst < MERGE_DOWN && may_write(r->sync))
        submit_chunks(r);
    else
        list_remove(&r->rests);
    if (r->chunks_out == 0 && !list_linked(&r->rests)) run_merged(r);
}

static void on_merged(struct chunk *c)
{
    struct run *r = c->arg;
    r->sync->requests_out--;
    r->chunks_out--;
    rest_chunk_answered(r->sync);
    count_chunk(r, c);
    if (c->outcome > MERGE_ALREADY && r->worst < MERGE_CONFLICT && c->outcome >= r->worst) {
        r->worst = c->outcome;
        r->worst_chunk = c->index;
    }
    merge_on(r);
}

/* In turn: a run that rests again queues after the others. */
void runs_merge_on(struct sync *s)
{
    while (!list_empty(&s->rest.waiting) && (rest_over(s) || !may_write(s))) {
        merge_on(CONTAINER_OF(list_pop(&s->rest.waiting), struct run, rests));
    }
}

/* --- SCAN, FENCE --- */

static void run_fenced(struct run *r)
{
    const struct fence *f = &r->fence;
    const struct epoch *e = &r->epoch;
    bool same_server = strcmp(f->run_id, r->scan.run_id) == 0;
    /* Both are of the server and of the history that the gate has compared with the ledger, and so is all between
     * them: no server has a history twice. */
    bool same_history = strcmp(f->run_id, e->run_id) == 0 && strcmp(f->replid, e->replid) == 0 &&
                        strcmp(r->scan.replid, e->replid) == 0;
    if (f->passed && same_server && !same_history && HOLDS(RULE_FENCE_HISTORY)) {
        epoch_lost(r, "Redis has another history than when the ledger was compared with it");
    } else if (f->passed && (same_server || !HOLDS(RULE_RESCAN))) {
        run_merge(r);
    } else {
        log_event(LOG_WARN, "fence_lost", "passed=%d same_server=%d detail=%s", f->passed, same_server,
                  LOGQ(f->text));
        run_back_off(r, HOLDS(RULE_RESCAN) ? RUN_SCAN : RUN_FENCE);
    }
}

static void run_sealed(struct run *r)
{
    if (r->held) STAT_ADD(batches_held, -1);
    r->held = false;
    if (!may_write(r->sync))
        run_back_off(r, RUN_SCAN);
    else if (r->family->unfit)
        run_hold(r, "schema_unfit",
                 "the counter's table does not fit; `tallyd check` says why and how to mend it");
    else if (HOLDS(RULE_BARRIER))
        run_fenced(r);
    else
        run_merge(r);
}

/* Its rows are read, or not, and its fence is over. */
static void run_read(struct run *r)
{
    switch (r->scan.outcome) {
    case SCAN_SEALED:
        run_sealed(r);
        return;
    case SCAN_LOST:
        run_back_off(r, RUN_SCAN);
        return;
    case SCAN_SHORT:
        run_hold(r, "fields_missing", r->scan.text);
        return;
    case SCAN_UNKNOWN:
        log_event(LOG_WARN, "batch_unknown", "detail=%s", LOGQ(r->scan.text));
        break;
    case SCAN_GONE:
        break;
    }
    run_done(r);
}

static void on_fence(struct fence *f)
{
    struct run *r = f->arg;
    r->sync->requests_out--;
    r->fence_out = false;
    if (sm_now(&r->sm) == RUN_FENCE) run_read(r);
}

static void on_scanned(struct scan *s)
{
    struct run *r = s->arg;
    r->sync->requests_out--;
    sm_move(&r->sm, RUN_FENCE);
    if (s->outcome == SCAN_SEALED) {
        r->family = family_of(r->sync, r->batch.counter);
        count_fields(r, r->batch.rows_n);
    }
    if (!r->fence_out) run_read(r);
}

static void run_fence(struct run *r)
{
    r->fence = (struct fence){.done = on_fence, .arg = r};
    r->fence_out = true;
    r->sync->requests_out++;
    r->sync->ports.fence(r->sync->ports.arg, &r->fence);
}

/* (!) The fence only now, when Redis has run the claim: its write must be behind that. */
static void run_scan(struct run *r)
{
    if (sm_now(&r->sm) != RUN_SCAN) sm_move(&r->sm, RUN_SCAN);
    r->epoch = r->sync->epoch;
    r->scan = (struct scan){.batch = &r->batch, .counters = r->sync->counters, .done = on_scanned, .arg = r};
    r->sync->requests_out++;
    r->sync->ports.scan(r->sync->ports.arg, &r->scan);
    if (HOLDS(RULE_BARRIER)) run_fence(r);
}

/* --- CLAIM --- */

static void names_due_again(struct run *r, uint32_t from)
{
    enum due_why why = r->rows_paid > 0 ? DUE_HITS : DUE_TIME;
    for (uint32_t i = from; i < r->claim.keys_n; i++)
        family_add(r->sync, r->family, r->claim.keys[i], why);
    wait_names_back(r->sync, r->claim.keys + from, r->claim.keys_n - from);
}

static void run_claimed(struct claim *c)
{
    struct run *r = c->arg;
    struct sync *s = r->sync;
    s->requests_out--;
    s->claims_out--;
    s->eager = true; /* room for the next claim */
    pace_claim_answered(r);
    size_claimed(s, c);
    switch (c->outcome) {
    case CLAIM_STANDS:
        names_due_again(r, c->keys_n - c->left);
        count_fields(r, c->fields);
        if (s->abandoned)
            run_back_off(r, RUN_SCAN);
        else
            run_scan(r);
        return;
    case CLAIM_REFUSED:
        r->family->pause_ms = sync_now(s) + s->config.retry_most_ms / 5;
        log_event(LOG_WARN, "claim_refused", "error=%s", LOGQ(c->text));
        names_due_again(r, 0);
        break;
    case CLAIM_GONE:
        names_due_again(r, 0);
        break;
    case CLAIM_EMPTY:
        names_due_again(r, c->keys_n - c->left);
        break;
    }
    run_done(r);
}

void run_claim(struct run *r, struct family *f, struct list *from, uint32_t n)
{
    struct sync *s = r->sync;
    sm_init(&r->sm, run_states, RUN_CLAIM);
    r->family = f;
    r->claim =
        (struct claim){.id = r->batch.id, .counter = f->counter, .keys_n = n, .done = run_claimed, .arg = r};
    r->claim.keys = heap_alloc(n * sizeof *r->claim.keys);
    r->claim.fresh = heap_zalloc(n * sizeof *r->claim.fresh);
    family_take(s, f, from, &r->key_bytes, r->claim.keys, n);
    if (from == &f->paced) pace_claimed(r);
    s->requests_out++;
    s->claims_out++;
    r->claim_no = ++s->claim_marks;
    s->ports.claim(s->ports.arg, &r->claim);
}

void run_adopted(struct run *r, const struct adopted *a)
{
    sm_init(&r->sm, run_states, RUN_SCAN);
    r->in_recover = a->in_recover;
    r->kept_era = a->kept_era;
    if (a->kept_era == 0) STAT_ADD(batches_adopted, 1);
    run_scan(r);
}

void run_resume_if_due(struct run *r, uint64_t now_ms)
{
    if (sm_now(&r->sm) != RUN_WAIT || now_ms < r->resume_ms) return;
    if (run_too_old(r))
        run_given_up(r);
    else if (r->resume == RUN_DISCARD)
        run_discard_begin(r);
    else if (r->resume == RUN_FENCE)
        sm_move(&r->sm, RUN_FENCE), run_fence(r);
    else
        run_scan(r);
}
