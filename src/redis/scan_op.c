/* redis/scan_op.c - HGETALL of the registry, HSCAN of each claimed hash, EXISTS of the registry, batch_seal.
 * The registry is looked at again behind the last row: what is short of fields is either being discarded by
 * its owner (GONE: fine) or has lost some (SHORT: hold it). One link, so the order of the answers is the
 * order of the reads. */
#include "redis/scan_op.h"
#include "base/log.h"
#include "base/map.h"
#include "redis/registry.h"
#include "redis/resp.h"
#include <stdio.h>

#define HSCAN_COUNT "1000"

static void finish(struct redis_scan *s, enum redis_scanned outcome)
{
    s->outcome = outcome;
    buf_free(&s->name);
    s->done(s); /* last line: s may be gone after it */
}

static void fail(struct redis_scan *s, const struct redis_reply *r)
{
    if (!s->failed) reply_why(r, s->text, sizeof s->text);
    s->failed = true;
}

/* --- sealing, on a thread of the pool --- */

static void seal_work(uv_work_t *work)
{
    struct redis_scan *s = work->data;
    s->sealed = batch_seal(s->batch, &s->short_hash);
}

static void seal_done(uv_work_t *work, int status)
{
    struct redis_scan *s = work->data;
    char key[120];
    INVARIANT(status == 0); /* nobody cancels it */
    CRASH(scan_done);
    if (s->sealed) {
        finish(s, SCANNED_SEALED);
        return;
    }
    const struct batch_hash *h = &s->batch->hashes[s->short_hash];
    slice_show(batch_hash_name(s->batch, s->short_hash), 100, key, sizeof key);
    snprintf(s->text, sizeof s->text, "%s has %llu of %llu registered fields", key,
             (unsigned long long)h->seen, (unsigned long long)h->hlen);
    finish(s, SCANNED_SHORT);
}

static void on_still_there(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_scan *s = arg;
    int64_t exists = 0;
    (void)at;
    if (!reply_is(r, REDIS_INTEGER) || !reply_integer(r, &exists)) {
        fail(s, r);
        finish(s, SCANNED_LOST);
        return;
    }
    if (exists == 0) {
        finish(s, SCANNED_GONE);
        return;
    }
    s->work.data = s;
    int status = uv_queue_work(l->loop, &s->work, seal_work, seal_done);
    INVARIANT(status == 0);
}

static void still_there_ask(struct redis_scan *s)
{
    struct buf *out = redis_link_begin(s->link);
    buf_reset(&s->name);
    name_batch(&s->name, &s->batch->id);
    resp_array(out, 2);
    RESP_LIT(out, "EXISTS");
    resp_slice(out, buf_slice(&s->name));
    redis_link_expect(s->link, 1, on_still_there, s);
    redis_link_flush(s->link);
}

/* --- rows --- */

static void slot_next(struct redis_scan *s, struct redis_scan_slot *slot);
static void on_rows(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at);

static void rows_ask(struct redis_scan *s, struct redis_scan_slot *slot, struct slice cursor)
{
    struct buf *out = redis_link_begin(s->link);
    buf_reset(&s->name);
    name_claimed(&s->name, batch_hash_name(s->batch, slot->hash), &s->batch->id);
    resp_array(out, 5);
    RESP_LIT(out, "HSCAN");
    resp_slice(out, buf_slice(&s->name));
    resp_slice(out, cursor);
    RESP_LIT(out, "COUNT");
    RESP_LIT(out, HSCAN_COUNT);
    s->out++;
    redis_link_expect(s->link, 1, on_rows, slot);
    redis_link_flush(s->link);
}

static bool rows_file(struct redis_scan *s, uint32_t hash, const struct redis_reply *r, struct slice *cursor)
{
    if (!reply_is_array(r, 2) || r->elements[0].type != REDIS_STRING || r->elements[1].type != REDIS_ARRAY)
        return false;
    const struct redis_reply *list = &r->elements[1];
    if (list->n % 2 != 0) return false;
    for (size_t i = 0; i < list->n; i += 2) {
        if (list->elements[i].type != REDIS_STRING || list->elements[i + 1].type != REDIS_STRING)
            return false;
        batch_add_row(s->batch, hash, list->elements[i].str, list->elements[i + 1].str);
    }
    *cursor = r->elements[0].str;
    return true;
}

static void on_rows(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_scan_slot *slot = arg;
    struct redis_scan *s = slot->scan;
    struct slice cursor = SLICE("0");
    (void)l, (void)at;
    s->out--;
    CRASH(scan_mid);
    /* Somebody put another type there: no field of it is left, which batch_seal will call short. */
    bool no_hash = reply_error_is(r, "WRONGTYPE");
    if (!s->failed && !no_hash && !rows_file(s, slot->hash, r, &cursor)) fail(s, r);
    if (!s->failed && !slice_eq(cursor, SLICE("0")))
        rows_ask(s, slot, cursor);
    else
        slot_next(s, slot);
}

static void slot_next(struct redis_scan *s, struct redis_scan_slot *slot)
{
    if (!s->failed && s->next < s->batch->hashes_n) {
        slot->hash = s->next++;
        rows_ask(s, slot, SLICE("0"));
        return;
    }
    if (s->out > 0) return; /* another slot ends it */
    if (s->failed)
        finish(s, SCANNED_LOST);
    else
        still_there_ask(s);
}

static void rows_begin(struct redis_scan *s)
{
    if (s->batch->hashes_n == 0) {
        still_there_ask(s);
        return;
    }
    for (uint32_t i = 0; i < SCAN_HASHES_AT_ONCE && s->next < s->batch->hashes_n; i++) {
        s->slots[i] = (struct redis_scan_slot){.scan = s, .hash = s->next++};
        rows_ask(s, &s->slots[i], SLICE("0"));
    }
}

/* --- registry --- */

/* False: a field of ours with a value that we would not have written. */
static bool field_file(struct batch *b, struct slice field, struct slice value)
{
    int64_t v;
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
static bool fields_file(struct batch *b, const struct redis_reply *r, struct map *seen)
{
    for (size_t i = 0; i + 1 < r->n; i += 2) {
        const struct redis_reply *e = &r->elements[i];
        if (e[0].type != REDIS_STRING || e[1].type != REDIS_STRING) return false;
        if (!map_put(seen, e[0].str, NULL) || !field_file(b, e[0].str, e[1].str)) return false;
    }
    return true;
}

static bool registry_file(struct redis_scan *s, const struct redis_reply *r)
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

static bool registry_known(struct redis_scan *s)
{
    char name[NAME_BYTES_MAX + 1];
    struct batch *b = s->batch;
    b->counter = counters_find(s->counters, buf_slice(&b->counter_name));
    if (b->format == BATCH_FORMAT && b->counter != NULL) return true;
    slice_show(buf_slice(&b->counter_name), sizeof name - 1, name, sizeof name);
    snprintf(s->text, sizeof s->text, "format %u, counter \"%s\": %s", b->format, name,
             b->counter == NULL ? "no such counter is configured" : "written by another version of tallyd");
    return false;
}

static void on_registry(struct redis_link *l, void *arg, const struct redis_reply *r, uint32_t at)
{
    struct redis_scan *s = arg;
    (void)l, (void)at;
    if (!reply_is(r, REDIS_ARRAY)) {
        fail(s, r);
        finish(s, SCANNED_LOST);
    } else if (r->n == 0) {
        finish(s, SCANNED_GONE);
    } else if (!registry_file(s, r)) {
        snprintf(s->text, sizeof s->text, "its registry holds a value that tallyd would not write");
        finish(s, SCANNED_UNKNOWN);
    } else if (!registry_known(s) && !s->raw) {
        finish(s, SCANNED_UNKNOWN);
    } else {
        rows_begin(s);
    }
}

void redis_scan(struct redis_link *l, struct redis_scan *s)
{
    struct buf *out = redis_link_begin(l);
    s->link = l;
    s->next = s->out = 0;
    s->failed = s->sealed = false;
    s->text[0] = '\0';
    s->name = (struct buf){0};
    memcpy(s->run_id, l->facts.run_id, sizeof s->run_id);
    batch_clear(s->batch);
    name_batch(&s->name, &s->batch->id);
    resp_array(out, 2);
    RESP_LIT(out, "HGETALL");
    resp_slice(out, buf_slice(&s->name));
    redis_link_expect(l, 1, on_registry, s);
    redis_link_flush(l);
}
