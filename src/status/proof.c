/* status/proof.c - see proof.h. */
#include "status/proof.h"

#include "base/heap.h"

const struct proof_limits proof_limits_verb = {.dirty_max = 50000};

struct proof {
    struct sums *sums;
    struct redis_books redis;
    bool done;
};

static void proof_accepted(void *arg, struct slice counter, struct slice value)
{
    sums_accepted(((struct proof *)arg)->sums, counter, value);
}

static void proof_pending(void *arg, struct slice key, struct slice field, struct slice value)
{
    (void)field;
    sums_pending(((struct proof *)arg)->sums, key, value);
}

static void proof_batch(void *arg, const struct batch_id *id, struct slice counter, int64_t gen)
{
    sums_batch(((struct proof *)arg)->sums, id, counter, (uint64_t)gen);
}

static void proof_claimed(void *arg, const struct batch_id *id, struct slice pending, struct slice field,
                          struct slice value)
{
    sums_claimed(((struct proof *)arg)->sums, id, pending, field, value);
}

static void proof_done(struct redis_books *b)
{
    ((struct proof *)b->arg)->done = true;
}

enum err proof_redis(struct ask *a, struct redis_books *b, const bool *done, struct error *e)
{
    redis_books(&a->link, b);
    redis_run_until(&a->link, done);
    if (b->too_many)
        return error_set(
            e, ERR_FAILED,
            "%llu hashes wait to be merged, too many (or of too many fields) to add up at once: send "
            "CTR.SYNC ALL to tallyd (redis-cli -p PORT CTR.SYNC ALL), then run verify again",
            (unsigned long long)b->dirty);
    if (b->lost)
        return error_set(e, ERR_UNAVAILABLE,
                         "Redis could not be read: %s; see that it answers, then run verify again", b->text);
    return ERR_NONE;
}

static enum err read_redis(struct proof *p, struct ask *a, const struct proof_limits *limits, struct error *e)
{
    p->redis = (struct redis_books){.dirty_max = limits->dirty_max,
                                    .fields_max = limits->fields_max,
                                    .accepted = proof_accepted,
                                    .pending = proof_pending,
                                    .batch = proof_batch,
                                    .claimed = proof_claimed,
                                    .done = proof_done,
                                    .arg = p};
    enum err code = proof_redis(a, &p->redis, &p->done, e);
    p->sums->gen = (uint64_t)p->redis.gen;
    return code;
}

static enum err read_mysql(struct proof *p, const struct batch_id *realm, struct db *db, struct error *e)
{
    size_t n = p->sums->batches_n;
    struct batch_id *ids = heap_zalloc((n + 1) * sizeof *ids);
    struct books books = {0};
    for (size_t i = 0; i < n; i++)
        ids[i] = p->sums->batches[i].id;
    enum err code = books_read(db, realm, (uint64_t)p->redis.gen, ids, n, &books, e);
    if (code == ERR_NONE) sums_stored(p->sums, &books);
    books_close(&books);
    heap_free(ids);
    return code;
}

static enum err lane_prove(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                           struct error *e)
{
    struct proof p = {.sums = sums};
    enum err code = read_redis(&p, a, limits, e);
    return code == ERR_NONE ? read_mysql(&p, &a->realms[a->lane], db, e) : code;
}

enum err proof_read(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                    struct error *e)
{
    enum err code = ERR_NONE;
    for (uint32_t i = 0; code == ERR_NONE && i < a->lanes; i++) {
        struct sums lane;
        sums_init(&lane, sums->counters);
        if (i != a->lane) code = ask_lane(a, i, e);
        if (code == ERR_NONE) code = lane_prove(a, db, limits, &lane, e);
        if (code == ERR_NONE) sums_add(sums, &lane);
        sums_close(&lane);
    }
    return code;
}
