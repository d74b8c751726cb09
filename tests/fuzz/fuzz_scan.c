/* fuzz_scan.c - what Redis answers to HGETALL of a registry and HSCAN of the claimed hashes, to the rows of a batch
 * (redis/reader.c, redis/scan.c, series/batch.c). When the first byte is 0, the rest is a shop: hashes, their fields, pages
 * with repeats, lies about how many there are; else the rest is the bytes of the replies themselves. They come in pieces.
 *   Sealed: each row is there once, with the value said last, in the order of (length, bytes), cut every BATCH_CHUNK_ROWS (compiled
 *   with few), and each hash has as many as registered; the second scan knows nothing of the first.
 *   A shop without lies is sealed with exactly its rows. */
#include "fuzz.h"

#include "redis/ask.h"
#include "redis/batch.h"
#include "redis/reader.h"

#define HASHES_MAX 12
#define WAITING_MAX 64

/* ---- a link that keeps what is asked; redis/wire.c has the real one ---- */

struct asked {
    redis_reply_cb *cb;
    void *arg;
    uint32_t replies, at;
};

static struct redis_place no_cluster;
static struct redis_link link_now = {.config.place = &no_cluster};
static struct redis_scans scans = {.link = &link_now, .piece = {1, 1, 1, 1, 0}}; /* never gentle: no timer */
static struct buf request;
static struct asked asked[WAITING_MAX];
static uint32_t asked_n;
static uv_work_t *sealing;
static uv_work_cb seal_work;
static uv_after_work_cb seal_after;
static void answer(struct slice what);

struct buf *redis_link_begin(struct redis_link *l)
{
    MUST(l == &link_now);
    buf_reset(&request);
    return &request;
}

void redis_link_ask(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    (void)l;
    MUST(asked_n < WAITING_MAX);
    asked[asked_n++] = (struct asked){cb, arg, replies, 0};
    answer(buf_slice(&request));
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb work, uv_after_work_cb after)
{
    (void)loop;
    MUST(sealing == NULL);
    sealing = req;
    seal_work = work;
    seal_after = after;
    return 0;
}

/* ---- what the replies said of rows, in their order ---- */

struct row {
    struct slice hash, field, value;
};

static struct row *rows;
static size_t rows_n, rows_cap;
static struct buf texts; /* never moves: it is reserved for all of an input */

static struct slice text_keep(struct slice s)
{
    MUST(texts.cap - texts.n >= s.n);
    size_t at = texts.n;
    buf_put_slice(&texts, s);
    return slice_of(texts.p + at, s.n);
}

static void row_keep(struct slice hash, struct slice field, struct slice value)
{
    if (rows_n == rows_cap) {
        rows_cap = rows_cap > 0 ? 2 * rows_cap : 256;
        rows = heap_realloc(rows, rows_cap * sizeof *rows);
    }
    rows[rows_n++] = (struct row){text_keep(hash), text_keep(field), text_keep(value)};
}

static void rows_note(const struct redis_answer *r, struct slice hash)
{
    if (!answer_is_array(r, 2) || r->elements[1].type != REDIS_ARRAY) return;
    const struct redis_answer *list = &r->elements[1];
    for (size_t i = 0; i + 1 < list->n; i += 2)
        row_keep(hash, list->elements[i].str, list->elements[i + 1].str);
}

static int row_order(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    int order = slice_cmp(left->hash, right->hash);
    if (order == 0) order = slice_cmp(left->field, right->field);
    if (order == 0)
        order = left->value.p < right->value.p ? -1 : 1; /* texts are kept in the order of saying */
    return order;
}

static bool same_field(const struct row *a, const struct row *b)
{
    return slice_eq(a->hash, b->hash) && slice_eq(a->field, b->field);
}

/* Of each field the last; sorted. */
static void rows_settle(void)
{
    size_t n = 0;
    if (rows_n > 0) qsort(rows, rows_n, sizeof *rows, row_order);
    for (size_t i = 0; i < rows_n; i++)
        if (i + 1 == rows_n || !same_field(&rows[i], &rows[i + 1])) rows[n++] = rows[i];
    rows_n = n;
}

static void chunks_stand(const struct batch *b)
{
    size_t next = 0;
    for (uint32_t i = 0; i < batch_chunks(b); i++) {
        struct chunk c = {0};
        uint8_t digest[16], again[16];
        struct buf first = {0}, last = {0};
        batch_chunk(b, i, &c);
        MUST(c.first == next && c.first == (size_t)i * BATCH_CHUNK_ROWS && c.chunks == batch_chunks(b));
        MUST(c.rows_n == BATCH_CHUNK_ROWS || i + 1 == c.chunks);
        next += c.rows_n;
        chunk_digest(&c, digest);
        chunk_digest(&c, again);
        MUST(memcmp(digest, again, sizeof digest) == 0);
        if (c.rows_n > 0) {
            chunk_row_key(b, &b->rows[c.first], &first);
            chunk_row_key(b, &b->rows[next - 1], &last);
            MUST(first.n <= LEDGER_KEY_BYTES_MAX && last.n <= LEDGER_KEY_BYTES_MAX);
            size_t common = first.n < last.n ? first.n : last.n;
            MUST(memcmp(first.p, last.p, common) <= 0);
        }
        buf_free(&first);
        buf_free(&last);
    }
    MUST(next == b->rows_n);
}

static void batch_stands(const struct batch *b)
{
    rows_settle();
    MUST(b->sealed && b->rows_n == rows_n);
    for (size_t i = 0; i < rows_n; i++) {
        MUST(slice_eq(batch_hash_name(b, b->rows[i].hash), rows[i].hash));
        MUST(slice_eq(batch_field(b, &b->rows[i]), rows[i].field));
        MUST(slice_eq(batch_value(b, &b->rows[i]), rows[i].value));
    }
    uint64_t fields = 0;
    for (size_t i = 0; i < b->hashes_n; i++) {
        MUST(b->hashes[i].seen == b->hashes[i].hlen);
        MUST(i == 0 || slice_cmp(batch_hash_name(b, i - 1), batch_hash_name(b, i)) < 0);
        fields += b->hashes[i].hlen;
    }
    MUST(fields == b->rows_n);
    chunks_stand(b);
}

/* ---- a shop ---- */

struct hash {
    struct slice name, bytes; /* of its fields: names and values are made of these */
    uint32_t fields, told;    /* told: what the registry says */
};

static struct hash hashes[HASHES_MAX];
static uint32_t hashes_n;
static struct slice choices; /* how pages are cut */
static bool is_shop, has_lies;
static struct buf replies;
static size_t replies_at; /* how many of its bytes are read */

static void shop_read(struct slice in)
{
    hashes_n = take_byte(&in) % (HASHES_MAX + 1);
    for (uint32_t i = 0; i < hashes_n; i++) {
        uint8_t how = take_byte(&in);
        struct hash *h = &hashes[i];
        char name[32];
        int n = snprintf(name, sizeof name, how & 1 ? "s%u:v" : "p%u", i);
        h->name = text_keep(slice_of(name, (size_t)n));
        h->fields = how / 8;
        h->bytes = take_bytes(&in, 4);
        h->told = h->fields;
        if ((how & 6) == 6) h->told += 1, has_lies = true;
    }
    choices = in;
}

static void registry_answer(void)
{
    request_array(&replies, 10 + 2 * hashes_n);
    static const char *const fixed[] = {"format", "1",     "counter", "views",     "gen",
                                        "12",     "owner", "a:b",     "lowest_ms", "17"};
    for (size_t i = 0; i < 10; i++)
        request_slice(&replies, slice_str(fixed[i]));
    for (uint32_t i = 0; i < hashes_n; i++) {
        struct buf field = {0};
        char told[21];
        buf_put_char(&field, '=');
        buf_put_slice(&field, hashes[i].name);
        request_slice(&replies, buf_slice(&field));
        request_slice(&replies, slice_of(told, num_write(hashes[i].told, told)));
        buf_free(&field);
    }
}

static void field_answer(const struct hash *h, uint32_t i)
{
    struct buf field = {0}, value = {0};
    buf_int(&field, i);
    buf_put_char(&field, ':');
    buf_put_slice(&field, slice_of(h->bytes.p, h->bytes.n < i % 5 ? h->bytes.n : i % 5));
    buf_int(&value, (int64_t)i * (h->bytes.n > 0 ? h->bytes.p[0] : 1));
    request_slice(&replies, buf_slice(&field));
    request_slice(&replies, buf_slice(&value));
    buf_free(&field);
    buf_free(&value);
}

/* Some fields from `at` on, before them some that were sent already. */
static void page_answer(const struct hash *h, uint32_t at)
{
    bool all = choices.n == 0;
    uint32_t size = 1 + take_byte(&choices), again = take_byte(&choices) % 8;
    uint32_t end = h->fields - at > size && !all ? at + size : h->fields;
    uint32_t from = at > again ? at - again : 0;
    char cursor[21];
    request_array(&replies, 2);
    request_slice(&replies, slice_of(cursor, num_write(end == h->fields ? 0 : end, cursor)));
    request_array(&replies, 2 * (end - from));
    for (uint32_t i = from; i < end; i++)
        field_answer(h, i);
}

/* The n-th argument of a request as redis/reader.c writes it. */
static struct slice argument(struct slice what, unsigned n)
{
    struct slice arg = {0};
    (void)take_line(&what);
    for (unsigned i = 0; i <= n; i++) {
        struct slice head = take_line(&what);
        arg = take_bytes(&what, (size_t)strtoul(head.p + 1, NULL, 10));
        (void)take_line(&what);
    }
    return arg;
}

static void answer(struct slice what)
{
    if (!is_shop) return;
    struct slice verb = argument(what, 0), key = argument(what, 1);
    if (slice_eq(verb, SLICE("HGETALL"))) {
        registry_answer();
    } else if (slice_eq(verb, SLICE("EXISTS"))) {
        BUF_LIT(&replies, ":1\r\n");
        request_slice(&replies, SLICE("role:master\r\nmaster_replid:aa\r\n"));
    } else {
        MUST(slice_eq(verb, SLICE("HSCAN")));
        for (uint32_t i = 0; i < hashes_n; i++)
            if (slice_starts(key, hashes[i].name) && key.n == hashes[i].name.n + 1 + HEX_ID)
                page_answer(&hashes[i], (uint32_t)strtoul(argument(what, 2).p, NULL, 10));
    }
}

/* ---- one scan ---- */

static struct counter views = {
    .name = {"views", 5}, .key = {{"p", 1}, {"", 0}, true, NULL}, .field = FIELD_TEXT};
static const struct counters counters = {.all = &views, .n = 1};
static unsigned done;

static void on_done(struct scan *s)
{
    (void)s;
    done++;
}

static void reply_hand(struct scan *s, const struct redis_answer *r)
{
    struct asked a = asked[0];
    asked[0].at++;
    if (r == NULL || asked[0].at == a.replies) memmove(asked, asked + 1, --asked_n * sizeof asked[0]);
    if (s->reading.out > 0)
        rows_note(r,
                  batch_hash_name(s->batch, s->reading.asked[s->reading.asked_oldest % SCAN_HASHES_AT_ONCE]));
    a.cb(&link_now, a.arg, r, a.at);
}

/* False: bytes that are no replies. */
static bool replies_read(struct scan *s, struct redis_reader *reader, size_t at, size_t n)
{
    const struct redis_answer *r;
    char *exact = fuzz_copy((const uint8_t *)replies.p + at, n);
    bool fed = redis_reader_feed(reader, exact, n);
    heap_free(exact);
    while (fed && asked_n > 0) {
        enum redis_read got = redis_reader_next(reader, &r);
        if (got == READ_MORE) break;
        if (got == READ_GARBAGE) return false;
        reply_hand(s, r);
    }
    return fed;
}

static void scan_run(struct scan *s, struct redis_reader *reader, size_t step)
{
    redis_scan(&scans, s);
    for (bool good = true; good && asked_n > 0 && replies_at < replies.n;) {
        size_t left = replies.n - replies_at, n = left < step ? left : step;
        replies_at += n;
        good = replies_read(s, reader, replies_at - n, n);
    }
    while (asked_n > 0) /* the link is cut */
        reply_hand(s, NULL);
    if (sealing != NULL) {
        uv_work_t *work = sealing;
        sealing = NULL;
        seal_work(work);
        seal_after(work, 0);
    }
    MUST(done == 1);
}

static void scan_try(struct batch *b, struct slice in, size_t step)
{
    struct scan s = {.batch = b, .counters = &counters, .done = on_done};
    struct redis_reader *reader = redis_reader_create();
    rows_n = done = 0;
    replies_at = 0;
    has_lies = false;
    buf_reset(&texts);
    buf_reset(&replies);
    buf_reserve(&texts, (1 << 20) + 16 * in.n);
    if (is_shop)
        shop_read(in);
    else
        buf_put_slice(&replies, in);
    scan_run(&s, reader, step);
    if (s.outcome == SCAN_SEALED) batch_stands(b);
    MUST(!is_shop || s.outcome == (has_lies ? SCAN_SHORT : SCAN_SEALED));
    redis_reader_destroy(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    struct batch_id id = {{1, 2, 3}};
    struct batch b;
    is_shop = take_byte(&in) == 0;
    batch_init(&b, &id);
    scan_try(&b, in, 1 << 20);
    scan_try(&b, in, is_shop ? 509 : 7);
    batch_close(&b);
    buf_free(&request);
    return 0;
}
