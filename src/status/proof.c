/* status/proof.c - see proof.h. */
#include "status/proof.h"

#include "base/heap.h"
#include "base/slice.h"
#include "mysql/books.h"
#include "redis/batch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define READS_MOST 5
#define FIELDS_MOST 200000 /* of a store; bounds what one script costs Redis */

const struct proof_limits proof_limits_verb = {.dirty_max = 50000};

static enum err redis_unread(const struct redis_answer *r, struct error *e)
{
    char why[200];
    answer_why(r, why, sizeof why);
    return error_set(e, ERR_UNAVAILABLE,
                     "Redis could not be read: %s; see that it answers, then run verify again", why);
}

/* --- the books of Redis --- */

/* Our scripts' replies have a known shape; a reply of another shape is not read further. */
static bool books_batch_tell(const struct proof_books *b, const struct redis_answer *r)
{
    int64_t gen;
    struct batch_id id;
    struct slice hex, hash;
    const struct redis_answer *counter, *hashes, *list;
    if (!answer_scan(r, "(s*ia)", &hex, &counter, &gen, &hashes) || !batch_id_read(hex, &id)) return false;
    if (b->batch != NULL) b->batch(b->arg, &id, counter->str, gen);
    for (size_t i = 0; i < hashes->n; i++) {
        if (!answer_scan(&hashes->elements[i], "(sa)", &hash, &list)) return false;
        for (size_t k = 0; k + 1 < list->n; k += 2)
            b->claimed(b->arg, &id, hash, list->elements[k].str, list->elements[k + 1].str);
    }
    return true;
}

static bool books_tell(struct proof_books *b, const struct redis_answer *r)
{
    int64_t dirty;
    struct slice hash;
    const struct redis_answer *accepted, *hashes, *batches, *list;
    if (!answer_scan(r, "(iiaaa)", &b->gen, &dirty, &accepted, &hashes, &batches)) return false;
    for (size_t i = 0; b->accepted != NULL && i + 1 < accepted->n; i += 2)
        b->accepted(b->arg, accepted->elements[i].str, accepted->elements[i + 1].str);
    for (size_t i = 0; i < hashes->n; i++) {
        if (!answer_scan(&hashes->elements[i], "(sa)", &hash, &list)) return false;
        for (size_t k = 0; k + 1 < list->n; k += 2)
            b->pending(b->arg, hash, list->elements[k].str, list->elements[k + 1].str);
    }
    for (size_t i = 0; i < batches->n; i++)
        if (!books_batch_tell(b, &batches->elements[i])) return false;
    return true;
}

enum err proof_redis(struct redis_link *l, const struct proof_limits *limits, struct proof_books *b,
                     struct error *e)
{
    int64_t dirty, fields_max = limits->fields_max > 0 ? limits->fields_max : DELTA_MAX;
    b->gen = 0;
    const struct redis_answer *r =
        redis_call(l,
                   "EVAL %.*s 5 {}" KEY_GEN " {}" KEY_ACCEPTED " {}" KEY_DIRTY " {}" KEY_HELD
                   " {}" KEY_BATCHES " {}" KEY_BATCH_PREFIX " %u %" PRId64,
                   SLICE_ARG(lua_books), limits->dirty_max, fields_max);
    if (answer_scan(r, "(ii)", &b->gen, &dirty))
        return error_set(
            e, ERR_FAILED,
            "%llu hashes wait to be merged, too many (or of too many fields) to add up at once: send "
            "CTR.SYNC ALL to tallyd (redis-cli -p PORT CTR.SYNC ALL), then run verify again",
            (unsigned long long)dirty);
    return books_tell(b, r) ? ERR_NONE : redis_unread(r, e);
}

/* --- all counters --- */

static void proof_accepted(void *sums, struct slice counter, struct slice value)
{
    sums_accepted(sums, counter, value);
}

static void proof_pending(void *sums, struct slice key, struct slice field, struct slice value)
{
    (void)field;
    sums_pending(sums, key, value);
}

static void proof_batch(void *sums, const struct batch_id *id, struct slice counter, int64_t gen)
{
    sums_batch(sums, id, counter, (uint64_t)gen);
}

static void proof_claimed(void *sums, const struct batch_id *id, struct slice pending, struct slice field,
                          struct slice value)
{
    sums_claimed(sums, id, pending, field, value);
}

/* Is this the Redis that MySQL was merged for? As the gate asks it (sync/README.md, rule S22), but after MySQL: whatever was merged by
 * then was claimed before. */
static enum err realm_compare(struct sums *sums, const struct books *books, struct ask *a, struct error *e)
{
    struct history_read now = {0};
    bool nameless = batch_id_is_zero(&a->realms[a->lane]);
    if (!books->known) {
        sums->realm = nameless ? REALM_STRANGER : REALM_UNKNOWN;
        return ERR_NONE;
    }
    redis_history(&a->link, &now);
    redis_settle(&a->link);
    if (now.lost)
        error_set(e, ERR_UNAVAILABLE, "Redis could not be read: %s; run verify again", now.text);
    else if (books->highest.gen > 0 && !history_has(&now, &books->highest))
        sums->realm = REALM_BEHIND;
    heap_free(now.gens);
    return now.lost ? e->code : ERR_NONE;
}

static enum err lane_prove(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                           struct error *e)
{
    struct proof_books b = {.accepted = proof_accepted,
                            .pending = proof_pending,
                            .batch = proof_batch,
                            .claimed = proof_claimed,
                            .arg = sums};
    if (proof_redis(&a->link, limits, &b, e) != ERR_NONE) return e->code;
    sums->gen = (uint64_t)b.gen;
    size_t n = sums->batches_n;
    struct batch_id *ids = heap_zalloc((n + 1) * sizeof *ids);
    struct books books = {0};
    for (size_t i = 0; i < n; i++)
        ids[i] = sums->batches[i].id;
    enum err code = books_read(db, &a->realms[a->lane], sums->gen, ids, n, &books, e);
    if (code == ERR_NONE) sums_stored(sums, &books);
    if (code == ERR_NONE) code = realm_compare(sums, &books, a, e);
    books_close(&books);
    heap_free(ids);
    return code;
}

/* Goes on to another primary: an old one may be back as one, and stand before the new one in redis.url. False: there is none. */
static bool next_primary(struct ask *a, uint32_t lane, unsigned tries, struct error *e)
{
    struct redis_place *p = &a->at.places[lane];
    char before[RUN_ID_BYTES];
    if (tries >= p->url->hosts_n) return false;
    memcpy(before, p->run_id, sizeof before);
    p->home = (p->home + 1) % p->url->hosts_n;
    return ask_lane(a, lane, e) == ERR_NONE && strcmp(p->run_id, before) != 0;
}

enum err proof_read(struct ask *a, struct db *db, const struct proof_limits *limits, struct sums *sums,
                    struct error *e)
{
    enum err code = ERR_NONE;
    for (uint32_t i = 0; code == ERR_NONE && i < a->at.lanes; i++) {
        struct sums lane;
        sums_init(&lane, sums->counters);
        if (i != a->lane) code = ask_lane(a, i, e);
        if (code == ERR_NONE) code = lane_prove(a, db, limits, &lane, e);
        for (unsigned n = 1; code == ERR_NONE && lane.realm != REALM_OURS && next_primary(a, i, n, e); n++) {
            sums_close(&lane);
            sums_init(&lane, sums->counters);
            code = lane_prove(a, db, limits, &lane, e);
        }
        if (code == ERR_NONE) sums_add(sums, &lane);
        sums_close(&lane);
    }
    return code;
}

/* --- one store. As a live total does (sync/README.md, rules S26 and S28), it reads Redis in one script with its gen, then MySQL in
 * one snapshot. It reads both again if the counter has merges of a later gen by then. --- */

struct seen_batch {
    int64_t registered, seen; /* fields */
};

struct seen_row {        /* claimed */
    size_t batch, at, n; /* its index; its field, in bytes */
    int64_t value;
};

struct seen { /* what Redis said, and the answer of MySQL */
    struct store_proof *proof;
    int64_t gen;
    bool dirty, held;   /* it is in tally:dirty, in tally:held */
    bool exists, other; /* the key is there; it is no hash */
    int64_t lock_ms;    /* the lock's PTTL; -1: it never expires; -2: no lock */
    struct batch_id *ids;
    struct seen_batch *batches;
    struct seen_row *rows;
    size_t batches_n, rows_n, rows_cap;
    struct buf bytes;
    uint64_t odd; /* values that are no integers, fields not of the kind */
    struct books_store books;
    status_problem *problem;
    void *arg;
};

static void problem_tell(struct seen *s, const char *next, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
static void problem_tell(struct seen *s, const char *next, const char *what, ...)
{
    char text[800];
    size_t n = (size_t)snprintf(text, sizeof text, "%s: ", SLICE_SHOW(s->proof->key, 200));
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text + n, sizeof text - n, what, args);
    va_end(args);
    s->proof->problems++;
    s->problem(s->arg, text, next);
}

/* --- Redis --- */

static bool proof_value_read(struct seen *s, struct slice field, struct slice value, int64_t *out)
{
    bool good = num_parse(value, out) && counter_field_valid(s->proof->counter, field);
    s->odd += !good;
    return good;
}

static void store_claimed(struct seen *s, struct slice field, struct slice value)
{
    struct seen_row row = {.batch = s->batches_n - 1, .at = s->bytes.n, .n = field.n};
    s->batches[row.batch].seen++;
    if (!proof_value_read(s, field, value, &row.value)) return;
    HEAP_GROW(s->rows, s->rows_n, s->rows_cap, 64);
    s->rows[s->rows_n++] = row;
    buf_put_slice(&s->bytes, field);
}

static bool store_batch(struct seen *s, const struct redis_answer *r)
{
    struct slice id;
    const struct redis_answer *list;
    size_t n = s->batches_n++;
    s->ids = heap_realloc(s->ids, (n + 1) * sizeof *s->ids);
    s->batches = heap_realloc(s->batches, (n + 1) * sizeof *s->batches);
    s->batches[n].seen = 0;
    if (!answer_scan(r, "(sia)", &id, &s->batches[n].registered, &list) || !batch_id_read(id, &s->ids[n]))
        return false;
    for (size_t i = 0; i + 1 < list->n; i += 2)
        store_claimed(s, list->elements[i].str, list->elements[i + 1].str);
    return true;
}

static bool store_file(struct seen *s, const struct redis_answer *r)
{
    int64_t dirty, held, v;
    const struct redis_answer *type, *pending, *batches;
    if (!answer_scan(r, "(iiii*aa)", &s->gen, &dirty, &held, &s->lock_ms, &type, &pending, &batches))
        return false;
    s->dirty = dirty != 0;
    s->held = held != 0;
    s->exists = !slice_eq(type->str, SLICE("none"));
    s->other = s->exists && !slice_eq(type->str, SLICE("hash"));
    for (size_t i = 0; i + 1 < pending->n; i += 2)
        if (proof_value_read(s, pending->elements[i].str, pending->elements[i + 1].str, &v))
            s->proof->pending += v;
    for (size_t i = 0; i < batches->n; i++)
        if (!store_batch(s, &batches->elements[i])) return false;
    return true;
}

/* All that Redis has of it, by one script: nothing changes between two of its reads. */
static enum err proof_redis_read(struct seen *s, struct ask *a, struct error *e)
{
    struct buf lock = {0};
    counter_lock_name(s->proof->counter, s->proof->key, &lock);
    if (lock.n == 0) buf_put_slice(&lock, s->proof->key); /* of its slot */
    const struct redis_answer *r =
        redis_call(&a->link,
                   "EVAL %.*s 6 {}" KEY_GEN " {}" KEY_DIRTY " {}" KEY_HELD " {}" KEY_BATCHES
                   " {}%.*s {}%.*s {}" KEY_BATCH_PREFIX " %d",
                   SLICE_ARG(lua_store), SLICE_ARG(s->proof->key), SLICE_ARG(buf_slice(&lock)), FIELDS_MOST);
    buf_free(&lock);
    if (answer_is_array(r, 0))
        return error_set(e, ERR_FAILED,
                         "more than %d fields of " SLICE_FMT
                         " wait to be merged, too many to read at once: send CTR.SYNC "
                         "ALL to tallyd (redis-cli -p PORT CTR.SYNC ALL), then run verify again",
                         FIELDS_MOST, SLICE_ARG(s->proof->counter->name));
    return store_file(s, r) ? ERR_NONE : redis_unread(r, e);
}

/* --- MySQL --- */

static enum err mysql_read(struct seen *s, const struct batch_id *realm, struct db *db, struct error *e)
{
    s->books = (struct books_store){.counter = s->proof->counter,
                                    .key = s->proof->key,
                                    .realm = *realm,
                                    .gen = s->gen,
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
    if (s->other)
        problem_tell(s, "rename or delete it: hits on it are refused, and nothing of it is merged",
                     "the key is not a hash");
    else if (s->exists && !s->dirty && !s->held)
        problem_tell(
            s,
            "wait for tallyd's walk, which puts it back every 10 minutes, or restart tallyd, which walks "
            "at once",
            "its counts are in no index, so nothing would merge them");
    if (s->held)
        problem_tell(s, "see that the tallyd that runs has this configuration: it takes them back",
                     "it is among the hashes without a counter (tally:held)");
    if (s->lock_ms == -1 && counter_locks(s->proof->counter))
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

enum err store_prove(struct ask *a, struct db *db, struct store_proof *p, status_problem *problem, void *arg,
                     struct error *e)
{
    enum err code = ERR_NONE;
    bool newer = true;
    for (int reads = 0; code == ERR_NONE && newer && reads < READS_MOST; reads++) {
        struct seen s = {.proof = p, .problem = problem, .arg = arg};
        p->pending = p->claimed = 0;
        code = proof_redis_read(&s, a, e);
        if (code == ERR_NONE) code = mysql_read(&s, &a->realms[a->lane], db, e);
        newer = s.books.newer;
        if (code == ERR_NONE && !newer) {
            add_up(&s);
            index_judge(&s);
            claims_judge(&s);
            if (s.odd > 0)
                problem_tell(
                    &s, "a merge puts them into tally_rejects; find which other program writes this hash",
                    "%" PRIu64
                    " values are not integers, or their fields not of its kind; they are in no sum",
                    s.odd);
            if (s.proof->rejects > 0)
                problem_tell(
                    &s, "`tallyd rejects list --store STORE` says why; mend it, then `tallyd rejects replay`",
                    "MySQL refused %" PRId64 " row%s, in no sum here", s.proof->rejects,
                    s.proof->rejects == 1 ? "" : "s");
        }
        heap_free(s.ids);
        heap_free(s.batches);
        heap_free(s.rows);
        buf_free(&s.bytes);
        books_close(&s.books.books);
    }
    if (code == ERR_NONE && newer)
        return error_set(e, ERR_FAILED,
                         SLICE_FMT
                         " was merged during each of %d reads, so none is of one moment: run verify again",
                         SLICE_ARG(p->counter->name), READS_MOST);
    return code;
}
