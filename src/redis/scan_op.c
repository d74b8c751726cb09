/* redis/scan_op.c - HGETALL of the registry, which has what is packed, HSCAN of each claimed hash, EXISTS of the registry,
 * batch_seal.
 * The registry is looked at again behind the last row: what is short of fields is either being discarded by
 * its owner (GONE: fine) or has lost some (SHORT: hold it). One link, so the order of the answers is the
 * order of the reads. */
#include "redis/scan_op.h"
#include "base/heap.h"
#include "base/latencies.h"
#include "base/log.h"
#include "base/map.h"
#include "redis/packed.h"
#include "redis/registry.h"
#include "redis/request.h"
#include <stdio.h>

#define HSCAN_COUNT "1000"

struct sealing { /* on a thread of the pool */
    uv_work_t work;
    struct scan *scan;
    bool sealed;
    size_t short_hash;
};

static void finish(struct scan *s, enum scan_outcome outcome)
{
    s->outcome = outcome;
    buf_free(&s->reading.name);
    s->done(s); /* last line: s may be gone after it */
}

static void fail(struct scan *s, const struct redis_answer *r)
{
    if (!s->reading.failed) answer_why(r, s->text, sizeof s->text);
    s->reading.failed = true;
}

static void seal_work(uv_work_t *work)
{
    struct sealing *g = CONTAINER_OF(work, struct sealing, work);
    g->sealed = batch_seal(g->scan->batch, &g->short_hash);
}

static void seal_done(uv_work_t *work, int status)
{
    struct sealing *g = CONTAINER_OF(work, struct sealing, work);
    struct scan *s = g->scan;
    bool sealed = g->sealed;
    size_t short_hash = g->short_hash;
    char key[120];
    INVARIANT(status == 0); /* nobody cancels it */
    heap_free(g);
    CRASH(scan_done);
    if (sealed) {
        histogram_add(&latencies.scan, mono_us() - s->reading.asked_us);
        finish(s, SCAN_SEALED);
        return;
    }
    const struct batch_hash *h = &s->batch->hashes[short_hash];
    slice_show(batch_hash_name(s->batch, short_hash), 100, key, sizeof key);
    snprintf(s->text, sizeof s->text, "%s has %llu of %llu registered fields", key,
             (unsigned long long)h->seen, (unsigned long long)h->hlen);
    finish(s, SCAN_SHORT);
}

static void on_still_there(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct scan *s = arg;
    int64_t exists = 0;
    (void)at;
    if (!answer_is(r, REDIS_INTEGER) || !answer_integer(r, &exists)) {
        fail(s, r);
        finish(s, SCAN_LOST);
        return;
    }
    if (exists == 0) {
        finish(s, SCAN_GONE);
        return;
    }
    struct sealing *g = heap_zalloc(sizeof *g);
    g->scan = s;
    int status = uv_queue_work(l->loop, &g->work, seal_work, seal_done);
    INVARIANT(status == 0);
}

static void still_there_ask(struct redis_link *l, struct scan *s)
{
    struct buf *out = redis_link_begin(l), *name = &s->reading.name;
    buf_reset(name);
    name_batch(name, &s->batch->id);
    request_array(out, 2);
    REQUEST_LIT(out, "EXISTS");
    request_slice(out, buf_slice(name));
    redis_link_ask(l, 1, on_still_there, s);
}

/* --- rows --- */

static void on_rows(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at);

static void rows_ask(struct redis_link *l, struct scan *s, uint32_t hash, struct slice cursor)
{
    struct buf *out = redis_link_begin(l), *name = &s->reading.name;
    buf_reset(name);
    name_claimed(name, batch_hash_name(s->batch, hash), &s->batch->id);
    request_array(out, 5);
    REQUEST_LIT(out, "HSCAN");
    request_slice(out, buf_slice(name));
    request_slice(out, cursor);
    REQUEST_LIT(out, "COUNT");
    REQUEST_LIT(out, HSCAN_COUNT);
    s->reading.asked[(s->reading.asked_oldest + s->reading.out++) % SCAN_HASHES_AT_ONCE] = hash;
    redis_link_ask(l, 1, on_rows, s);
}

static bool rows_file(struct scan *s, uint32_t hash, const struct redis_answer *r, struct slice *cursor)
{
    if (!answer_is_array(r, 2) || r->elements[0].type != REDIS_STRING || r->elements[1].type != REDIS_ARRAY)
        return false;
    const struct redis_answer *list = &r->elements[1];
    if (list->n % 2 != 0) return false;
    for (size_t i = 0; i < list->n; i += 2) {
        if (list->elements[i].type != REDIS_STRING || list->elements[i + 1].type != REDIS_STRING)
            return false;
        batch_add_row(s->batch, hash, list->elements[i].str, list->elements[i + 1].str);
    }
    *cursor = r->elements[0].str;
    return true;
}

/* False: each claimed hash is read, or being read. */
static bool hash_ask(struct redis_link *l, struct scan *s)
{
    uint32_t *next = &s->reading.next;
    while (*next < s->batch->hashes_n && s->batch->hashes[*next].packed)
        ++*next;
    if (*next == s->batch->hashes_n) return false;
    rows_ask(l, s, (*next)++, SLICE("0"));
    return true;
}

/* The next hash that nobody reads yet; or, of the last answer, the end. */
static void hash_next(struct redis_link *l, struct scan *s)
{
    if (!s->reading.failed && hash_ask(l, s)) return;
    if (s->reading.out > 0)
        return; /* another answer ends it */
    else if (s->reading.failed)
        finish(s, SCAN_LOST);
    else
        still_there_ask(l, s);
}

static void on_rows(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct scan *s = arg;
    struct slice cursor = SLICE("0");
    uint32_t hash = s->reading.asked[s->reading.asked_oldest++ % SCAN_HASHES_AT_ONCE];
    (void)at;
    s->reading.out--;
    CRASH(scan_mid);
    /* Somebody put another type there: no field of it is left, which batch_seal will call short. */
    bool no_hash = answer_error_is(r, "WRONGTYPE");
    if (!s->reading.failed && !no_hash && !rows_file(s, hash, r, &cursor)) fail(s, r);
    if (!s->reading.failed && !slice_eq(cursor, SLICE("0")))
        rows_ask(l, s, hash, cursor);
    else
        hash_next(l, s);
}

/* --- registry --- */

/* False: a field of ours with a value that we would not have written. */
static bool field_file(struct batch *b, struct slice field, struct slice value, struct map *seen)
{
    int64_t v;
    if (slice_eq(field, SLICE(REGISTRY_PACKED))) return packed_file(b, value, seen);
    if (field.n > 0 && field.p[0] == REGISTRY_HASH) {
        if (!num_parse(value, &v) || v < 0) return false;
        batch_add_hash(b, slice_of(field.p + 1, field.n - 1), (uint64_t)v);
        return true;
    }
    if (slice_eq(field, SLICE(REGISTRY_COUNTER))) buf_put_slice(&b->counter_name, value);
    if (slice_eq(field, SLICE(REGISTRY_OWNER))) buf_put_slice(&b->owner, value);
    if (slice_eq(field, SLICE(REGISTRY_LOWEST))) return num_parse(value, &b->lowest_ms);
    if (slice_eq(field, SLICE(REGISTRY_GEN))) return num_parse_u64(value, &b->gen);
    if (!slice_eq(field, SLICE(REGISTRY_FORMAT))) return true;
    if (!num_parse(value, &v) || v < 0 || v > UINT32_MAX) return false;
    b->format = (uint32_t)v;
    return true;
}

/* Each field once, whatever the server says: a hash that is scanned twice would count twice. */
static bool fields_file(struct batch *b, const struct redis_answer *r, struct map *seen)
{
    for (size_t i = 0; i + 1 < r->n; i += 2) {
        const struct redis_answer *e = &r->elements[i];
        if (e[0].type != REDIS_STRING || e[1].type != REDIS_STRING) return false;
        if (!map_put(seen, e[0].str, NULL) || !field_file(b, e[0].str, e[1].str, seen)) return false;
    }
    return true;
}

static bool registry_file(struct scan *s, const struct redis_answer *r)
{
    struct batch *b = s->batch;
    struct map seen;
    b->format = 0;
    buf_reset(&b->counter_name);
    buf_reset(&b->owner);
    map_init(&seen);
    bool filed = fields_file(b, r, &seen);
    map_close(&seen);
    return filed;
}

static bool registry_known(struct scan *s)
{
    char name[NAME_BYTES_MAX + 1];
    struct batch *b = s->batch;
    b->counter = counters_find(s->counters, buf_slice(&b->counter_name));
    if (batch_format_known(b->format) && b->counter != NULL) return true;
    slice_show(buf_slice(&b->counter_name), sizeof name - 1, name, sizeof name);
    snprintf(s->text, sizeof s->text, "format %u, counter \"%s\": %s", b->format, name,
             b->counter == NULL ? "no such counter is configured" : "written by another version of tallyd");
    return false;
}

static void on_registry(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct scan *s = arg;
    (void)at;
    if (!answer_is(r, REDIS_ARRAY)) {
        fail(s, r);
        finish(s, SCAN_LOST);
    } else if (r->n == 0) {
        finish(s, SCAN_GONE);
    } else if (!registry_file(s, r)) {
        snprintf(s->text, sizeof s->text, "its registry holds a value that tallyd would not write");
        finish(s, SCAN_UNKNOWN);
    } else if (!registry_known(s) && !s->raw) {
        finish(s, SCAN_UNKNOWN);
    } else {
        CRASH(scan_mid);
        while (s->reading.out < SCAN_HASHES_AT_ONCE && hash_ask(l, s))
            continue;
        if (s->reading.out == 0) still_there_ask(l, s);
    }
}

void redis_scan(struct redis_link *l, struct scan *s)
{
    struct buf *out = redis_link_begin(l), *name = &s->reading.name;
    memset(&s->reading, 0, sizeof s->reading);
    s->reading.asked_us = mono_us();
    s->text[0] = '\0';
    memcpy(s->run_id, l->facts.run_id, sizeof s->run_id);
    batch_clear(s->batch);
    name_batch(name, &s->batch->id);
    request_array(out, 2);
    REQUEST_LIT(out, "HGETALL");
    request_slice(out, buf_slice(name));
    redis_link_ask(l, 1, on_registry, s);
}
