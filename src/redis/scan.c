/* redis/scan.c - reading a batch. */
#include "base/heap.h"
#include "base/log.h"
#include "base/map.h"
#include "base/stats.h"
#include "base/thread.h"
#include "redis/ask.h"
#include "redis/batch.h"
#include <stdio.h>

/* --- Of the msgpack format it reads arrays and strings; a claim writes nothing else. --- */

struct head {
    uint8_t first, last; /* first byte of what holds its size in itself; first == last: its size follows */
    uint8_t bytes;       /* big-endian, after the first byte */
};

static const struct head string_heads[] = {
    {0xa0, 0xbf, 0}, {0xd9, 0xd9, 1}, {0xda, 0xda, 2}, {0xdb, 0xdb, 4}};
static const struct head array_heads[] = {{0x90, 0x9f, 0}, {0xdc, 0xdc, 2}, {0xdd, 0xdd, 4}};

static bool head_read(struct slice *in, const struct head *heads, size_t heads_n, uint32_t *size)
{
    if (in->n == 0) return false;
    uint8_t first = (uint8_t)in->p[0];
    for (size_t i = 0; i < heads_n; i++) {
        const struct head *h = &heads[i];
        if (first < h->first || first > h->last) continue;
        if (in->n < 1 + (size_t)h->bytes) return false;
        *size = h->bytes == 0 ? first - h->first : 0;
        for (uint8_t at = 1; at <= h->bytes; at++)
            *size = *size << 8 | (uint8_t)in->p[at];
        *in = slice_of(in->p + 1 + h->bytes, in->n - 1 - h->bytes);
        return true;
    }
    return false;
}

static bool string_read(struct slice *in, struct slice *out)
{
    uint32_t size;
    if (!head_read(in, string_heads, sizeof string_heads / sizeof *string_heads, &size) || size > in->n)
        return false;
    *out = slice_of(in->p, size);
    *in = slice_of(in->p + size, in->n - size);
    return true;
}

static bool array_read(struct slice *in, uint32_t *n)
{
    return head_read(in, array_heads, sizeof array_heads / sizeof *array_heads, n) && *n % 2 == 0;
}

static bool name_new(struct map *seen, struct slice name)
{
    struct buf field = {0};
    buf_put_char(&field, REGISTRY_HASH);
    buf_put_slice(&field, name);
    bool is_new = map_put(seen, buf_slice(&field), NULL);
    buf_free(&field);
    return is_new;
}

static bool hash_file(struct batch *b, struct slice *in, struct map *seen)
{
    struct slice name, field, value;
    uint32_t n;
    if (!string_read(in, &name) || !name_new(seen, name) || !array_read(in, &n)) return false;
    uint32_t hash = batch_add_hash(b, name, n / 2);
    b->hashes[hash].packed = true;
    for (uint32_t i = 0; i < n; i += 2) {
        if (!string_read(in, &field) || !string_read(in, &value)) return false;
        batch_add_row(b, hash, field, value);
    }
    return true;
}

/* Small hashes that a claim moved into the registry of their batch: one text, an array of name, {field, value, field, value,
 * ...}, name, ... as Redis' cmsgpack writes it. Adds each hash with its rows. False: not such a text, or a name is in `seen`
 * already (as `=<name>`, where each is put); then b has some of it. */
static bool packed_file(struct batch *b, struct slice text, struct map *seen)
{
    uint32_t n;
    if (!array_read(&text, &n)) return false;
    for (uint32_t i = 0; i < n; i += 2)
        if (!hash_file(b, &text, seen)) return false;
    return text.n == 0;
}

/* --- HGETALL of the registry, which has what is packed, HSCAN of each claimed hash, EXISTS of the registry, the server's history,
 * batch_seal. The registry is read again after the last row: a hash short of fields is either being discarded by its owner (GONE:
 * fine) or has lost some (SHORT: hold it). One link, so the order of the answers is the order of the reads. --- */

#define HSCAN_COUNT 1000
#define HSCAN_LEAST 250
#define REST_US_MAX 1000
#define PIECE_US 500

struct sealing { /* on a thread of the pool */
    uv_work_t work;
    struct scan *scan;
    bool sealed;
    size_t short_hash;
};

static void scan_finish(struct scan *s, enum scan_outcome outcome)
{
    s->outcome = outcome;
    buf_free(&s->reading.name);
    s->done(s); /* last line: s may be gone after it */
}

static void scan_fail(struct scan *s, const struct redis_answer *r)
{
    if (!s->reading.failed) answer_why(r, s->text, sizeof s->text);
    s->reading.failed = true;
}

static void seal_work(uv_work_t *work)
{
    struct sealing *g = CONTAINER_OF(work, struct sealing, work);
    thread_behind(BEHIND_MERGING);
    g->sealed = batch_seal(g->scan->batch, &g->short_hash);
}

static void seal_done(uv_work_t *work, int status)
{
    struct sealing *g = CONTAINER_OF(work, struct sealing, work);
    struct scan *s = g->scan;
    bool sealed = g->sealed;
    size_t short_hash = g->short_hash;
    char key[120];
    INVARIANT(status == 0); /* it is never cancelled */
    heap_free(g);
    CRASH(scan_done);
    if (sealed) {
        histogram_add(&latencies.scan, mono_us() - s->reading.asked_us);
        scan_finish(s, SCAN_SEALED);
        return;
    }
    const struct batch_hash *h = &s->batch->hashes[short_hash];
    slice_show(batch_hash_name(s->batch, short_hash), 100, key, sizeof key);
    snprintf(s->text, sizeof s->text, "%s has %llu of %llu registered fields", key,
             (unsigned long long)h->seen, (unsigned long long)h->hlen);
    scan_finish(s, SCAN_SHORT);
}

/* EXISTS of the registry, INFO. */
static void on_last_look(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct scan *s = arg;
    struct slice replid = SLICE("-"); /* as history.lua has it */
    if (at == 0 && r != NULL) {
        if (!answer_is(r, REDIS_INTEGER) || !answer_integer(r, &s->reading.exists)) scan_fail(s, r);
        return;
    }
    if (!answer_is(r, REDIS_STRING)) scan_fail(s, r);
    /* (!) The fence beside it may have passed before a failover: to a server that lacks the claim, maybe. As in durable.c: fence_end(). */
    if (s->reading.failed || place_is_held(l->config.place) || !info_is(r->str, "role", "master")) {
        scan_finish(s, SCAN_LOST);
    } else if (s->reading.exists == 0) {
        scan_finish(s, SCAN_GONE);
    } else {
        (void)info_get(r->str, "master_replid", &replid);
        slice_show(replid, sizeof s->replid - 1, s->replid, sizeof s->replid);
        struct sealing *g = heap_zalloc(sizeof *g);
        g->scan = s;
        int status = uv_queue_work(l->loop, &g->work, seal_work, seal_done);
        INVARIANT(status == 0);
    }
}

static void last_look(struct scan *s)
{
    struct redis_link *l = s->reading.of->link;
    struct buf *out = redis_link_begin(l), *name = &s->reading.name;
    buf_reset(name);
    name_batch(name, &s->batch->id);
    request_array(out, 2);
    REQUEST_LIT(out, "EXISTS");
    request_key(out, redis_tag(l), buf_slice(name));
    request_words(out, "INFO replication");
    redis_link_ask(l, 2, on_last_look, s);
}

/* --- rows --- */

static void on_rows(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at);
static void on_scans_rested(uv_timer_t *timer);

/* While others wait for this Redis, requests are sent in pieces; after each, none is sent for as long as it took. */
static bool piece_open(const struct redis_scans *ss)
{
    if (!ss->gentle) return true;
    return ss->fields < ss->piece.now && (ss->out > 0 || mono_us() >= ss->rest_until_us);
}

static void piece_answered(struct redis_scans *ss)
{
    if (--ss->out > 0) return;
    uint64_t now_us = mono_us(), took_us = now_us - ss->asked_us;
    if (ss->gentle) piece_took(&ss->piece, ss->fields, took_us);
    ss->rest_until_us = now_us + (took_us < REST_US_MAX ? took_us : REST_US_MAX);
    ss->fields = 0;
}

static void rows_ask(struct scan *s, uint32_t hash, uint64_t cursor)
{
    struct redis_scans *ss = s->reading.of;
    struct buf *out = redis_link_begin(ss->link), *name = &s->reading.name;
    char text[24];
    buf_reset(name);
    name_claimed(name, batch_hash_name(s->batch, hash), &s->batch->id);
    snprintf(text, sizeof text, "%llu", (unsigned long long)cursor);
    uint64_t hlen = s->batch->hashes[hash].hlen;
    if (ss->out++ == 0) {
        ss->asked_us = mono_us();
        ss->fields = 0;
    }
    ss->fields += hlen < ss->piece.now ? (uint32_t)hlen : ss->piece.now;
    request_array(out, 5);
    REQUEST_LIT(out, "HSCAN");
    request_key(out, redis_tag(ss->link), buf_slice(name));
    request_text(out, text);
    REQUEST_LIT(out, "COUNT");
    request_int(out, ss->gentle ? ss->piece.now : HSCAN_COUNT);
    s->reading.asked[(s->reading.asked_oldest + s->reading.out++) % SCAN_HASHES_AT_ONCE] = hash;
    redis_link_ask(ss->link, 1, on_rows, s);
}

static bool rows_file(struct scan *s, uint32_t hash, const struct redis_answer *r, uint64_t *cursor)
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
    return num_parse_u64(r->elements[0].str, cursor);
}

static bool rows_left(struct scan *s)
{
    uint32_t *next = &s->reading.next;
    while (*next < s->batch->hashes_n && s->batch->hashes[*next].packed)
        ++*next;
    return s->reading.begun_n > 0 || *next < s->batch->hashes_n;
}

static void rows_ask_next(struct scan *s)
{
    if (s->reading.begun_n == 0) {
        rows_ask(s, s->reading.next++, 0);
        return;
    }
    s->reading.begun_n--;
    rows_ask(s, s->reading.begun[s->reading.begun_n].hash, s->reading.begun[s->reading.begun_n].cursor);
}

/* Sends all requests that are allowed now; or, after the last answer, ends. */
static void rows_go_on(struct scan *s)
{
    struct redis_scans *ss = s->reading.of;
    bool left;
    while ((left = !s->reading.failed && rows_left(s)) && s->reading.out < SCAN_HASHES_AT_ONCE &&
           piece_open(ss))
        rows_ask_next(s);
    if (s->reading.out > 0) return; /* another answer goes on */
    if (s->reading.failed) {
        scan_finish(s, SCAN_LOST);
    } else if (!left) {
        last_look(s);
    } else {
        list_push(&ss->resting, &s->reading.link);
        uint64_t now_us = mono_us(), us = ss->rest_until_us > now_us ? ss->rest_until_us - now_us : 0;
        if (!uv_is_active((uv_handle_t *)&ss->rest))
            uv_timer_start(&ss->rest, on_scans_rested, us / 1000 + 1, 0);
    }
}

static void on_rows(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct scan *s = arg;
    uint64_t cursor = 0;
    uint32_t hash = s->reading.asked[s->reading.asked_oldest++ % SCAN_HASHES_AT_ONCE];
    (void)l, (void)at;
    s->reading.out--;
    piece_answered(s->reading.of);
    CRASH(scan_mid);
    /* Another program put another type there: no field is left, so batch_seal will report it as short. */
    bool no_hash = answer_error_is(r, "WRONGTYPE");
    if (!s->reading.failed && !no_hash && !rows_file(s, hash, r, &cursor)) scan_fail(s, r);
    if (cursor != 0) {
        s->reading.begun[s->reading.begun_n].hash = hash;
        s->reading.begun[s->reading.begun_n++].cursor = cursor;
    }
    rows_go_on(s);
}

static void on_scans_rested(uv_timer_t *timer)
{
    struct redis_scans *ss = timer->data;
    struct list now;
    list_init(&now);
    list_move_all(&now, &ss->resting);
    for (struct list *node; (node = list_pop(&now)) != NULL;) {
        /* (!) The cursor of another connection may be that of another server. */
        struct scan *s = CONTAINER_OF(node, struct scan, reading.link);
        const struct redis_link *l = s->reading.of->link;
        if (!redis_link_is_up(l) || l->client_id != s->reading.client_id) scan_fail(s, NULL);
        rows_go_on(s);
    }
}

/* --- registry --- */

/* False: a field of ours with a value that tallyd would not write. */
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

static bool registry_file(struct scan *s, const struct redis_answer *r)
{
    struct batch *b = s->batch;
    struct map seen;
    bool filed = true;
    b->format = 0;
    buf_reset(&b->counter_name);
    buf_reset(&b->owner);
    map_init(&seen);
    /* Each field once, even if the server sends it twice: otherwise it would count twice. */
    for (size_t i = 0; filed && i + 1 < r->n; i += 2) {
        const struct redis_answer *e = &r->elements[i];
        filed = e[0].type == REDIS_STRING && e[1].type == REDIS_STRING && map_put(&seen, e[0].str, NULL) &&
                field_file(b, e[0].str, e[1].str, &seen);
    }
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
             b->counter == NULL ? "its counter is not configured" : "written by another version of tallyd");
    return false;
}

static void on_registry(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct scan *s = arg;
    (void)l, (void)at;
    if (!answer_is(r, REDIS_ARRAY)) {
        scan_fail(s, r);
        scan_finish(s, SCAN_LOST);
    } else if (r->n == 0) {
        scan_finish(s, SCAN_GONE);
    } else if (!registry_file(s, r)) {
        snprintf(s->text, sizeof s->text, "its registry holds a value that tallyd would not write");
        scan_finish(s, SCAN_UNKNOWN);
    } else if (!registry_known(s) && !s->raw) {
        scan_finish(s, SCAN_UNKNOWN);
    } else {
        CRASH(scan_mid);
        rows_go_on(s);
    }
}

void redis_scans_init(struct redis_scans *ss, struct redis_link *link)
{
    *ss = (struct redis_scans){.link = link, .piece = {HSCAN_COUNT, HSCAN_LEAST, HSCAN_COUNT, PIECE_US, 0}};
    list_init(&ss->resting);
    uv_timer_init(link->loop, &ss->rest);
    ss->rest.data = ss;
}

static void on_scans_closed(uv_handle_t *handle)
{
    struct redis_scans *ss = handle->data;
    ss->closed(ss); /* last line: ss may be gone after it */
}

void redis_scans_close(struct redis_scans *ss, void (*closed)(struct redis_scans *ss))
{
    ss->closed = closed;
    on_scans_rested(&ss->rest);
    uv_close((uv_handle_t *)&ss->rest, on_scans_closed);
}

void redis_scan(struct redis_scans *ss, struct scan *s)
{
    struct redis_link *l = ss->link;
    struct buf *out = redis_link_begin(l), *name = &s->reading.name;
    memset(&s->reading, 0, sizeof s->reading);
    s->reading.of = ss;
    s->reading.client_id = l->client_id;
    s->reading.asked_us = mono_us();
    s->text[0] = '\0';
    memcpy(s->run_id, l->facts.run_id, sizeof s->run_id);
    batch_clear(s->batch);
    name_batch(name, &s->batch->id);
    request_array(out, 2);
    REQUEST_LIT(out, "HGETALL");
    request_key(out, redis_tag(l), buf_slice(name));
    redis_link_ask(l, 1, on_registry, s);
}
