/* engine/recovery.c - see recovery.h. A chain of steps, each ending in the call of the next. A step that fails ends in
 * recovery_fail, which deletes nothing: run it again. */
#include "engine/recovery.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/map.h"
#include "mysql/ledger.h"
#include "redis/batch.h"
#include "redis/index.h"
#include <stdarg.h>
#include <stdio.h>

struct leftover {
    const struct counter *counter;
    char *key;               /* heap */
    size_t key_n, pending_n; /* the pending hash's name is the key's beginning */
    bool has_id, settled;
    struct batch_id id;
};

struct recovery {
    struct core *core;
    struct recovery_how how;
    struct recovered result;
    struct sync_recover sync;
    bool sync_begun, sync_done, steps_done;
    struct adopt adopt; /* of a dry run */
    struct redis_walk walk;
    bool walking;
    struct map seen; /* keys of leftovers: SCAN may show one twice */
    struct leftover *all;
    size_t n, cap;
    struct db_job known_job;
    struct batch_id *known_ids;
    bool *known;
    size_t known_n;
    struct error error;
    bool asked;
    struct redis_leftover claim;
    struct slice names[CLAIM_HASHES_MAX], pendings[CLAIM_HASHES_MAX];
    struct leftover *claimed[CLAIM_HASHES_MAX];
};

static void tell_found(struct recovery *r, const char *kind, struct slice name)
{
    if (r->how.found != NULL) r->how.found(r->how.arg, kind, name);
}

/* Both the steps here and sync's part must have ended. */
static void recovery_end(struct recovery *r)
{
    if (!r->steps_done || (r->sync_begun && !r->sync_done)) return;
    struct recovery_how how = r->how;
    struct recovered result = r->result;
    r->core->recovery = NULL;
    for (size_t i = 0; i < r->n; i++)
        heap_free(r->all[i].key);
    heap_free(r->all);
    heap_free(r->known_ids);
    heap_free(r->known);
    map_close(&r->seen);
    heap_free(r);
    log_event(result.failed ? LOG_ERROR : LOG_INFO, "recovered",
              "dry_run=%d adopted=%lld rows=%lld already=%lld leftovers=%lld held=%lld unknown=%lld error=%s",
              how.dry_run, (long long)result.adopted, (long long)result.rows_merged,
              (long long)result.rows_already, (long long)result.leftovers, (long long)result.held,
              (long long)result.unknown, LOGQ(result.failed ? result.text : "none"));
    how.done(how.arg, &result);
}

static void steps_end(struct recovery *r)
{
    r->steps_done = true;
    r->sync.more = false;
    recovery_end(r);
}

static void recovery_fail(struct recovery *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void recovery_fail(struct recovery *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!r->result.failed) (void)vsnprintf(r->result.text, sizeof r->result.text, fmt, args);
    va_end(args);
    r->result.failed = true;
    steps_end(r);
}

static void on_sync_done(struct sync_recover *sr)
{
    struct recovery *r = CONTAINER_OF(sr, struct recovery, sync);
    r->result.adopted += sr->adopted;
    r->result.rows_merged = sr->rows_merged;
    r->result.rows_already = sr->rows_already;
    r->result.unknown = sr->unknown;
    r->result.held += sr->held;
    if (sr->failed && !r->result.failed) {
        r->result.failed = true;
        snprintf(r->result.text, sizeof r->result.text,
                 "Redis or MySQL went away; batches that are not merged remain in Redis: run recover again "
                 "when both are back");
    }
    r->sync_done = true;
    recovery_end(r);
}

/* --- 3: unknown batches --- */

static void on_unknown_done(void *arg, const struct unknown_result *u)
{
    struct recovery *r = arg;
    r->result.rejected = u->rows;
    if (u->failed)
        recovery_fail(r, "%s", u->text);
    else
        steps_end(r);
}

static void on_unknown_found(void *arg, struct slice id)
{
    tell_found(arg, "unknown", id);
}

static void step_unknown(struct recovery *r)
{
    struct unknown_how how = {
        .reject = r->how.reject_unknown && !r->how.dry_run,
        .found = on_unknown_found,
        .done = on_unknown_done,
        .arg = r,
    };
    unknown_start(r->core, &how);
}

/* --- 2c: leftovers are claimed, up to 1,000 different pending hashes of one counter at a time --- */

static void step_claim(struct recovery *r);

static void on_leftovers(struct redis_leftover *o)
{
    struct recovery *r = CONTAINER_OF(o, struct recovery, claim);
    if (o->outcome == CLAIM_REFUSED || o->outcome == CLAIM_GONE) {
        recovery_fail(r, "leftovers: %s; run recover again", o->text);
        return;
    }
    for (uint32_t i = 0; i < o->n - o->left; i++)
        r->claimed[i]->settled = true;
    r->result.leftovers += o->renamed;
    if (o->outcome == CLAIM_STANDS) sync_take(r->core->sync, &o->id);
    if (o->left == o->n)
        recovery_fail(r, "leftovers: none of %u could be renamed", o->n);
    else
        step_claim(r);
}

static uint32_t gather(struct recovery *r)
{
    struct map pendings;
    map_init(&pendings);
    const struct counter *counter = NULL;
    uint32_t n = 0;
    for (size_t i = 0; i < r->n && n < CLAIM_HASHES_MAX; i++) {
        struct leftover *l = &r->all[i];
        if (l->settled || (counter != NULL && l->counter != counter)) continue;
        struct slice pending = slice_of(l->key, l->pending_n);
        if (!map_put(&pendings, pending, NULL)) continue;
        counter = l->counter;
        r->names[n] = slice_of(l->key, l->key_n);
        r->pendings[n] = pending;
        r->claimed[n++] = l;
    }
    map_close(&pendings);
    return n;
}

static void step_claim(struct recovery *r)
{
    uint32_t n = gather(r);
    if (n == 0 || r->core->stage != STAGE_RUNNING) {
        step_unknown(r);
        return;
    }
    r->claim = (struct redis_leftover){.counter = r->claimed[0]->counter,
                                       .life = r->core->config.life,
                                       .accept = true,
                                       .names = r->names,
                                       .pendings = r->pendings,
                                       .n = n,
                                       .done = on_leftovers};
    batch_id_draw(&r->claim.id);
    redis_leftover(&r->core->sync_link, &r->claim);
}

/* --- 2b: ids that the ledger knows were merged: such a hash is held --- */

static void step_after_known(struct recovery *r)
{
    if (!r->how.dry_run) {
        step_claim(r);
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->all[i].settled) continue;
        tell_found(r, "leftover", slice_of(r->all[i].key, r->all[i].key_n));
        r->result.leftovers++;
    }
    step_unknown(r);
}

static void known_work(struct db *db, struct db_job *job)
{
    struct recovery *r = CONTAINER_OF(job, struct recovery, known_job);
    r->asked = ledger_known(db, r->known_ids, r->known_n, r->known, &r->error) == ERR_NONE;
}

static void on_known(struct db_job *job)
{
    struct recovery *r = CONTAINER_OF(job, struct recovery, known_job);
    if (!job->ran || !r->asked) {
        recovery_fail(r, "ledger: %s", job->ran ? r->error.text : job->text);
        return;
    }
    size_t at = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct leftover *l = &r->all[i];
        if (!l->has_id || !r->known[at++]) continue;
        l->settled = true;
        r->result.held++;
        tell_found(r, "held", slice_of(l->key, l->key_n));
        char name[200];
        log_event(
            LOG_ERROR, "leftover_held", "key=%s why=%s",
            LOGQ(slice_show(slice_of(l->key, l->key_n), 150, name, sizeof name)),
            LOGQ("the ledger has its id, so it may be merged already; compare its fields, then delete it"));
    }
    step_after_known(r);
}

static void step_known(struct recovery *r)
{
    r->known_ids = heap_alloc((r->n + 1) * sizeof *r->known_ids);
    r->known = heap_zalloc((r->n + 1) * sizeof *r->known);
    for (size_t i = 0; i < r->n; i++)
        if (r->all[i].has_id) r->known_ids[r->known_n++] = r->all[i].id;
    if (r->known_n == 0) {
        step_after_known(r);
        return;
    }
    r->known_job.work = known_work;
    r->known_job.done = on_known;
    core_job(r->core, &r->known_job);
}

/* --- 2a: the walk --- */

static void walk_leftover(struct redis_walk *w, const struct counter *c, struct slice key,
                          struct slice pending, const struct batch_id *id)
{
    struct recovery *r = CONTAINER_OF(w, struct recovery, walk);
    if (!map_put(&r->seen, key, NULL)) return;
    HEAP_GROW(r->all, r->n, r->cap, 256);
    struct leftover *l = &r->all[r->n++];
    *l = (struct leftover){
        .counter = c, .key = heap_strndup(key.p, key.n), .key_n = key.n, .pending_n = pending.n};
    l->has_id = id != NULL;
    if (id != NULL) l->id = *id;
}

static void recovery_walked(struct redis_walk *w)
{
    struct recovery *r = CONTAINER_OF(w, struct recovery, walk);
    r->walking = false;
    if (w->lost)
        recovery_fail(r, "walk: %s; run recover again", w->text);
    else
        step_known(r);
}

static void step_walk(struct recovery *r)
{
    r->walk = (struct redis_walk){.counters = r->core->config.counters,
                                  .step = 1000,
                                  .read_only = r->how.dry_run,
                                  .leftover = walk_leftover,
                                  .done = recovery_walked};
    r->walking = true;
    redis_walk(&r->core->sync_link, &r->walk);
}

/* --- 1: batches --- */

static void on_would_adopt(struct adopt *a)
{
    struct recovery *r = CONTAINER_OF(a, struct recovery, adopt);
    for (uint32_t i = 0; i < a->ids_n; i++) {
        char hex[33];
        batch_id_hex(&a->ids[i], hex);
        tell_found(r, "batch", slice_str(hex));
    }
    r->result.adopted = a->ids_n;
    r->result.unknown = a->unknown;
    heap_free(a->ids);
    if (a->lost)
        recovery_fail(r, "batches: %s; run recover again", a->text);
    else
        step_walk(r);
}

static void step_batches(struct recovery *r)
{
    if (!r->how.dry_run) {
        r->sync = (struct sync_recover){.more = true, .done = on_sync_done};
        r->sync_begun = true;
        sync_recover(r->core->sync, &r->sync);
        step_walk(r);
        return;
    }
    r->adopt = (struct adopt){.mode = ADOPT_DEAD,
                              .stale_ms = sync_config_default.stale_ms,
                              .limit = UINT32_MAX,
                              .dry_run = true,
                              .counters = r->core->config.counters,
                              .done = on_would_adopt};
    redis_adopt(&r->core->sync_link, &r->adopt);
}

void recovery_stop(struct core *c)
{
    if (c->recovery != NULL && c->recovery->walking) redis_walk_stop(&c->recovery->walk);
}

bool recovery_start(struct core *c, const struct recovery_how *how)
{
    if (c->recovery != NULL) return false;
    struct recovery *r = heap_zalloc(sizeof *r);
    r->core = c;
    r->how = *how;
    map_init(&r->seen);
    c->recovery = r;
    step_batches(r);
    return true;
}
