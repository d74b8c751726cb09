/* Batches of counters that are not configured: scan, fence, reject, discard. Redis and MySQL are stood in for by
 * functions of this file, which note what they are asked. */
#include "engine/recovery.h"
#include "lib/unit.h"
#include "mysql/ledger.h"
#include "redis/batch.h"

static struct { /* what was asked last, NULL: nothing */
    struct batch_list *list;
    struct scan *scan;
    struct fence *fence;
    struct db_job *job;
    struct discard *discard;
    struct unknown_result result;
    int done;
} world;

void redis_batch_list(struct redis_link *l, struct batch_list *b)
{
    world.list = b;
}

void redis_scan(struct redis_scans *ss, struct scan *s)
{
    world.scan = s;
}

void redis_fence(struct redis_fences *fs, struct fence *f)
{
    world.fence = f;
}

void redis_discard(struct redis_link *l, struct discard *d)
{
    world.discard = d;
}

void core_job(struct core *c, struct db_job *job)
{
    world.job = job;
}

enum err ledger_reject_batch(struct db *db, const struct batch *b, const struct epoch *epoch,
                             const char *reason, uint64_t *rows, struct error *e)
{
    *rows = 7;
    return ERR_NONE;
}

static void result_take(void *arg, const struct unknown_result *u)
{
    world.result = *u;
    world.done++;
}

static void name_ignore(void *arg, struct slice name) {}

/* One such batch is found, and its scan is asked for. */
static void scan_begin(struct core *c)
{
    static const struct counters none = {0};
    const struct unknown_how how = {.reject = true, .found = name_ignore, .done = result_take};
    const struct batch_seen seen = {
        .id = SLICE("00112233445566778899aabbccddeeff"), .counter = SLICE("gone"), .format = BATCH_FORMAT};
    memset(&world, 0, sizeof world);
    *c = (struct core){.config.counters = &none, .stage = STAGE_RUNNING};
    unknown_start(c, &how);
    world.list->batch(world.list->arg, &seen);
    world.list->done(world.list);
    assert_non_null(world.scan);
}

static void scan_answer(enum scan_outcome outcome)
{
    world.scan->outcome = outcome;
    world.scan->done(world.scan);
}

UNIT(rejects_then_discards)
{
    struct core c;
    scan_begin(&c);
    scan_answer(SCAN_SEALED);
    world.fence->passed = true;
    world.fence->done(world.fence);
    world.job->ran = true;
    world.job->work(NULL, world.job);
    world.job->done(world.job);
    world.discard->done_ok = true;
    world.discard->done(world.discard);
    assert_int_equal(world.done, 1);
    assert_false(world.result.failed);
    assert_int_equal(world.result.rows, 7);
}

/* A scan is sealed on a thread, and may end after the links were closed: a fence would get no answer then. */
UNIT(closed_while_a_scan_is_sealed)
{
    struct core c;
    scan_begin(&c);
    c.stage = STAGE_CLOSING;
    scan_answer(SCAN_SEALED);
    assert_null(world.fence);
    assert_int_equal(world.done, 1);
    assert_true(world.result.failed);
    assert_string_equal(world.result.text, "unknown batches: scan: tallyd is stopping; run recover again");
}
