/* admin/verify.c - `tallyd verify`: the books, read under traffic without trying again. Redis first, in one
 * script with its gen; then MySQL in one snapshot, which knows every batch that Redis had lost sight of by
 * then, and of which what was merged from a later gen is taken off. */
#include "admin/ask.h"
#include "admin/sums.h"
#include "admin/verbs.h"
#include "redis/books_op.h"

#include "base/heap.h"

#include <stdio.h>

#define DIRTY_MAX 50000

struct verify {
    struct sums sums;
    struct redis_books redis;
    bool done;
};

static void on_accepted(void *arg, struct slice counter, struct slice value)
{
    sums_accepted(&((struct verify *)arg)->sums, counter, value);
}

static void on_pending(void *arg, struct slice key, struct slice field, struct slice value)
{
    (void)field;
    sums_pending(&((struct verify *)arg)->sums, key, value);
}

static void on_batch(void *arg, const struct batch_id *id, struct slice counter, int64_t gen)
{
    (void)gen;
    sums_batch(&((struct verify *)arg)->sums, id, counter);
}

static void on_claimed(void *arg, const struct batch_id *id, struct slice pending, struct slice field,
                       struct slice value)
{
    sums_claimed(&((struct verify *)arg)->sums, id, pending, field, value);
}

static void on_done(struct redis_books *b)
{
    ((struct verify *)b->arg)->done = true;
}

static enum err read_redis(struct verify *v, const struct setup *setup, struct error *e)
{
    struct ask ask;
    enum err code = ask_open(&ask, setup, e);
    if (code != ERR_NONE) return code;
    v->redis = (struct redis_books){.dirty_max = DIRTY_MAX,
                                    .accepted = on_accepted,
                                    .pending = on_pending,
                                    .batch = on_batch,
                                    .claimed = on_claimed,
                                    .done = on_done,
                                    .arg = v};
    redis_books(&ask.link, &v->redis);
    redis_run_until(&ask.link, &v->done);
    ask_close(&ask);
    if (v->redis.too_many)
        return error_set(
            e, ERR_FAILED,
            "%llu hashes wait to be merged, too many to read at once: send CTR.SYNC ALL to tallyd "
            "(redis-cli -p PORT CTR.SYNC ALL), then run verify again",
            (unsigned long long)v->redis.dirty);
    if (v->redis.lost)
        return error_set(e, ERR_UNAVAILABLE,
                         "Redis could not be read: %s; see that it answers, then run verify again",
                         v->redis.text);
    return ERR_NONE;
}

static enum err read_mysql(struct verify *v, const struct setup *setup, struct error *e)
{
    size_t n = v->sums.batches_n;
    struct batch_id *ids = heap_zalloc((n + 1) * sizeof(*ids));
    struct books books = {0};
    for (size_t i = 0; i < n; i++)
        ids[i] = v->sums.batches[i].id;
    struct db *db = db_create(&setup->mysql);
    enum err code =
        db_open(db) == CODE_OK ? books_read(db, (uint64_t)v->redis.gen, ids, n, &books, e) : db_error(db, e);
    if (code == ERR_NONE) sums_stored(&v->sums, &books);
    db_destroy(&db);
    books_close(&books);
    heap_free(ids);
    return code;
}

static enum err report(const struct verify *v)
{
    struct buf text = {0};
    size_t unbalanced = sums_print(&v->sums, &text);
    if (unbalanced == 0)
        printf("%.*sThe books balance.\n", (int)text.n, text.p);
    else
        printf("%.*sThe books of %zu counter%s do not balance.\n", (int)text.n, text.p, unbalanced,
               unbalanced == 1 ? "" : "s");
    buf_free(&text);
    return unbalanced == 0 ? ERR_NONE : ERR_FAILED;
}

enum err verb_verify(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    struct error e;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    struct verify v = {.done = false};
    sums_init(&v.sums, &setup.counters);
    enum err code = read_redis(&v, &setup, &e);
    if (code == ERR_NONE) code = read_mysql(&v, &setup, &e);
    code = code == ERR_NONE ? report(&v) : call_failed(&e);
    sums_close(&v.sums);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
