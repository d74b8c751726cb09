/* status/store.c - see store.h. As a live total does (sync/README.md, rules S26 and S28), it reads Redis in one script
 * with its gen, then MySQL in one snapshot. It reads both again if the counter has merges of a later gen by then. */
#include "status/store.h"

#include "base/heap.h"
#include "base/slice.h"
#include "mysql/books.h"
#include "redis/store_op.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define READS_MOST 5
#define FIELDS_MOST 200000 /* bounds what one script costs Redis */

struct seen_batch {
    int64_t registered, seen; /* fields */
};

struct seen_row {        /* claimed */
    size_t batch, at, n; /* its index; its field, in bytes */
    int64_t value;
};

struct seen { /* what Redis said, and the answer of MySQL */
    struct store_proof *proof;
    struct redis_store redis;
    struct batch_id *ids;
    struct seen_batch *batches;
    struct seen_row *rows;
    size_t batches_n, rows_n, rows_cap;
    struct buf bytes;
    uint64_t odd; /* values that are no integers, fields not of the kind */
    bool done;
    struct books_store books;
    status_problem *problem;
    void *arg;
};

static void problem_tell(struct seen *s, const char *next, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
static void problem_tell(struct seen *s, const char *next, const char *what, ...)
{
    char text[800], key[204];
    size_t n = (size_t)snprintf(text, sizeof text, "%s: ", slice_show(s->proof->key, 200, key, sizeof key));
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text + n, sizeof text - n, what, args);
    va_end(args);
    s->proof->problems++;
    s->problem(s->arg, text, next);
}

/* --- Redis --- */

static bool value_read(struct seen *s, struct slice field, struct slice value, int64_t *out)
{
    bool good = num_parse(value, out) && counter_field_valid(s->proof->counter, field);
    s->odd += !good;
    return good;
}

static void store_pending(void *arg, struct slice field, struct slice value)
{
    struct seen *s = arg;
    int64_t v;
    if (value_read(s, field, value, &v)) s->proof->pending += v;
}

static void store_batch(void *arg, const struct batch_id *id, int64_t registered)
{
    struct seen *s = arg;
    size_t n = s->batches_n++;
    s->ids = heap_realloc(s->ids, (n + 1) * sizeof *s->ids);
    s->batches = heap_realloc(s->batches, (n + 1) * sizeof *s->batches);
    s->ids[n] = *id;
    s->batches[n] = (struct seen_batch){.registered = registered};
}

static void store_claimed(void *arg, const struct batch_id *id, struct slice field, struct slice value)
{
    struct seen *s = arg;
    struct seen_row row = {.batch = s->batches_n - 1, .at = s->bytes.n, .n = field.n};
    (void)id; /* of the last batch */
    s->batches[row.batch].seen++;
    if (!value_read(s, field, value, &row.value)) return;
    if (s->rows_n == s->rows_cap) {
        s->rows_cap = 2 * s->rows_cap + 64;
        s->rows = heap_realloc(s->rows, s->rows_cap * sizeof *s->rows);
    }
    s->rows[s->rows_n++] = row;
    buf_put_slice(&s->bytes, field);
}

static void store_done(struct redis_store *r)
{
    ((struct seen *)r->arg)->done = true;
}

static enum err redis_read(struct seen *s, struct ask *a, struct error *e)
{
    struct buf lock = {0};
    counter_lock_name(s->proof->counter, s->proof->key, &lock);
    s->redis = (struct redis_store){.key = s->proof->key,
                                    .lock = buf_slice(&lock),
                                    .fields_max = FIELDS_MOST,
                                    .pending = store_pending,
                                    .batch = store_batch,
                                    .claimed = store_claimed,
                                    .done = store_done,
                                    .arg = s};
    redis_store(&a->link, &s->redis);
    redis_run_until(&a->link, &s->done);
    buf_free(&lock);
    if (s->redis.lost)
        return error_set(e, ERR_UNAVAILABLE,
                         "Redis could not be read: %s; see that it answers, then run verify again",
                         s->redis.text);
    if (s->redis.too_many)
        return error_set(e, ERR_FAILED,
                         "more than %d fields of " SLICE_FMT
                         " wait to be merged, too many to read at once: send CTR.SYNC "
                         "ALL to tallyd (redis-cli -p PORT CTR.SYNC ALL), then run verify again",
                         FIELDS_MOST, SLICE_ARG(s->proof->counter->name));
    return ERR_NONE;
}

/* --- MySQL --- */

static enum err mysql_read(struct seen *s, const struct batch_id *realm, struct db *db, struct error *e)
{
    s->books = (struct books_store){.counter = s->proof->counter,
                                    .key = s->proof->key,
                                    .realm = *realm,
                                    .gen = s->redis.gen,
                                    .ids = s->ids,
                                    .ids_n = s->batches_n};
    return books_store_read(db, &s->books, e);
}

static void add_up(struct seen *s)
{
    struct store_proof *p = s->proof;
    p->stored = sum_read(s->books.stored);
    p->rows = s->books.rows;
    p->rejects = s->books.rejects;
    for (size_t i = 0; i < s->rows_n; i++) {
        const struct seen_row *row = &s->rows[i];
        struct slice field = slice_of(s->bytes.p + row->at, row->n);
        if (!books_has(&s->books.books, &s->ids[row->batch], p->key, field)) p->claimed += row->value;
    }
}

/* --- the verdict --- */

static void index_judge(struct seen *s)
{
    const struct redis_store *r = &s->redis;
    if (r->other)
        problem_tell(s, "rename or delete it: hits on it are refused, and nothing of it is merged",
                     "the key is not a hash");
    else if (r->exists && !r->dirty && !r->held)
        problem_tell(
            s,
            "wait for tallyd's walk, which puts it back every 10 minutes, or restart tallyd, which walks "
            "at once",
            "its counts are in no index, so nothing would merge them");
    if (r->held)
        problem_tell(s, "see that the tallyd that runs has this configuration: it takes them back",
                     "it is among the hashes without a counter (tally:held)");
    if (r->lock_ms == -1)
        problem_tell(s, "delete that key: tallyd's own locks expire after sync.every",
                     "its lock never expires");
}

static void claims_judge(struct seen *s)
{
    for (size_t i = 0; i < s->batches_n; i++) {
        char id[33];
        const struct seen_batch *b = &s->batches[i];
        batch_id_hex(&s->ids[i], id);
        if (b->seen != b->registered)
            problem_tell(
                s,
                "the batch is held and its rest is not merged: restore the claimed hash, or report it with "
                "tallyd's log",
                "of batch %s %" PRId64 " fields are there, and %" PRId64 " were claimed", id, b->seen,
                b->registered);
    }
}

static void store_judge(struct seen *s)
{
    index_judge(s);
    claims_judge(s);
    if (s->odd > 0)
        problem_tell(s, "a merge puts them into tally_rejects; find which other program writes this hash",
                     "%" PRIu64
                     " values are not integers, or their fields not of its kind; they are in no sum",
                     s->odd);
    if (s->proof->rejects > 0)
        problem_tell(s, "`tallyd rejects list --store STORE` says why; mend it, then `tallyd rejects replay`",
                     "MySQL refused %" PRId64 " row%s, in no sum here", s->proof->rejects,
                     s->proof->rejects == 1 ? "" : "s");
}

static void seen_close(struct seen *s)
{
    heap_free(s->ids);
    heap_free(s->batches);
    heap_free(s->rows);
    buf_free(&s->bytes);
    books_close(&s->books.books);
}

enum err store_prove(struct ask *a, struct db *db, struct store_proof *p, status_problem *problem, void *arg,
                     struct error *e)
{
    enum err code = ERR_NONE;
    bool newer = true;
    for (int reads = 0; code == ERR_NONE && newer && reads < READS_MOST; reads++) {
        struct seen s = {.proof = p, .problem = problem, .arg = arg};
        p->pending = p->claimed = 0;
        code = redis_read(&s, a, e);
        if (code == ERR_NONE) code = mysql_read(&s, &a->realms[a->lane], db, e);
        newer = s.books.newer;
        if (code == ERR_NONE && !newer) {
            add_up(&s);
            store_judge(&s);
        }
        seen_close(&s);
    }
    if (code == ERR_NONE && newer)
        return error_set(e, ERR_FAILED,
                         SLICE_FMT
                         " was merged during each of %d reads, so none is of one moment: run verify again",
                         SLICE_ARG(p->counter->name), READS_MOST);
    return code;
}
