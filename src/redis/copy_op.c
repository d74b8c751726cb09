/* redis/copy_op.c - see copy_op.h. Most: all keys, page by page: SCAN, one script that reads those of the page, a RESTORE each on the
 * link of its lane. A key that SCAN shows twice is copied twice. Then in rounds those that changed since. The rest: a last round,
 * and the sets and hashes of event logs, which have names of all lanes, member by member. They lose members, too, so they are copied
 * once only. At last the counts of tokens, which are counted anew. The lanes' known: is made from the samples that are copied. */
#include "redis/copy_op.h"
#include "base/heap.h"
#include "redis/lua.h"
#include "redis/request.h"
#include <stdio.h>

#define COPY_PAGE 500
#define MEMBERS 5000 /* of a page of them: some hundred for each lane */
#define PIECE_BYTES (8 << 20)
#define TOKEN_ROUNDS 12 /* frame_tokens.lua */
#define TOKEN_SECONDS_MAX 64
#define FEW_NAMES 2000 /* that take a tenth of a second */
#define ROUNDS_MAX 20

struct copy_item {
    size_t at, n; /* in names */
    struct moved_key key;
};

struct copy_tokens { /* of a lane: how many are gone by when */
    uint32_t n;
    int64_t second[TOKEN_SECONDS_MAX], count[TOKEN_SECONDS_MAX];
};

static void copy_next(struct redis_copy *c);

void redis_copy_free(struct redis_copy *c)
{
    buf_free(&c->cursor);
    buf_free(&c->names);
    heap_free(c->items);
    heap_free(c->lane_of);
    heap_free(c->asked);
    heap_free(c->tokens);
    map_close(&c->shared);
    map_close(&c->round);
}

static void copy_refused(struct redis_copy *c, const char *who, const struct redis_answer *r)
{
    char why[200];
    answer_why(r, why, sizeof why);
    if (!c->lost) snprintf(c->text, sizeof c->text, "%s: %s", who, why);
    c->lost = true;
}

static void copy_few(struct redis_copy *c)
{
    if (!c->lost)
        snprintf(c->text, sizeof c->text,
                 "the cluster: %u replicas of each primary must have it in time (redis.replicas)",
                 c->replicas);
    c->lost = true;
}

static void copy_lost(struct redis_copy *c)
{
    if (!c->lost) snprintf(c->text, sizeof c->text, "the old Redis: %.200s", c->track->text);
    c->lost = true;
    c->ended(c);
}

static void copy_fail(struct redis_copy *c, const struct redis_answer *r)
{
    copy_refused(c, "the old Redis", r);
    c->ended(c);
}

/* --- into the lanes --- */

static void lane_answered(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    uint32_t lane = (uint32_t)(l - c->to);
    bool few = c->waited && answer_is(r, REDIS_INTEGER) && r->integer < (int64_t)c->replicas;
    if (few) copy_few(c);
    if (r == NULL || r->type == REDIS_ERROR) copy_refused(c, "the cluster", r);
    if (r != NULL && at + 1 < c->asked[lane]) return;
    c->asked[lane] = 0;
    if (--c->waiting == 0) copy_next(c);
}

/* What was written for each lane goes; (!) not from inside a lane's answer. */
static void lanes_send(struct redis_copy *c)
{
    for (uint32_t i = 0; i < c->lanes; i++)
        c->waiting += c->asked[i] > 0;
    bool none = c->waiting == 0;
    for (uint32_t i = 0; i < c->lanes; i++)
        if (c->asked[i] > 0) redis_link_ask(&c->to[i], c->asked[i], lane_answered, c);
    if (none) copy_next(c);
}

static struct buf *lane_begin_request(struct redis_copy *c, unsigned lane, size_t words)
{
    struct buf *out = redis_link_begin(&c->to[lane]);
    c->asked[lane]++;
    request_array(out, words);
    return out;
}

/* A token's place as frame_tokens.lua has it, or later: it is never counted too few. */
static void token_note(struct redis_copy *c, unsigned lane, int64_t left_ms)
{
    int64_t keep = c->counters->ops->token_keep_s;
    int64_t width = (keep + TOKEN_ROUNDS - 1) / TOKEN_ROUNDS;
    if (width == 0) width = 1;
    int64_t gone_by = ((redis_time_ms(c->from) + left_ms) / 1000 / width + 1) * width;
    struct copy_tokens *t = &c->tokens[lane];
    uint32_t i = 0;
    while (i < t->n && t->second[i] != gone_by && i + 1 < TOKEN_SECONDS_MAX)
        i++;
    if (i == t->n) t->count[t->n++] = 0;
    if (t->second[i] < gone_by) t->second[i] = gone_by;
    t->count[i]++;
}

/* (!) Made from the samples: then nothing of it is left to copy while no hit is taken. */
static void known_put(struct redis_copy *c, const struct copy_item *item, bool add)
{
    size_t lead = strlen(KEY_SAMPLES_PREFIX);
    struct buf *out = lane_begin_request(c, item->key.lane, add ? 4 : 3);
    request_text(out, add ? "ZADD" : "ZREM");
    REQUEST_KEY(out, redis_tag(&c->to[item->key.lane]), KEY_KNOWN);
    if (add) request_int(out, 0);
    request_slice(out, slice_of(c->names.p + item->at + lead, item->n - lead));
}

static void restore_put(struct redis_copy *c, const struct copy_item *item, unsigned lane, struct slice dump,
                        int64_t left_ms)
{
    struct buf *out = lane_begin_request(c, lane, 5);
    REQUEST_LIT(out, "RESTORE");
    request_key(out, redis_tag(&c->to[lane]), slice_of(c->names.p + item->at, item->n));
    request_int(out, left_ms);
    request_slice(out, dump);
    REQUEST_LIT(out, "REPLACE");
    if (item->key.kind == MOVED_TOKEN) token_note(c, lane, left_ms);
    if (item->key.kind == MOVED_SAMPLES) known_put(c, item, true);
    c->copied++;
}

/* Also one that was never copied. */
static void unlink_put(struct redis_copy *c, const struct copy_item *item, unsigned lane)
{
    struct buf *out = lane_begin_request(c, lane, 2);
    REQUEST_LIT(out, "UNLINK");
    request_key(out, redis_tag(&c->to[lane]), slice_of(c->names.p + item->at, item->n));
    if (item->key.kind == MOVED_SAMPLES) known_put(c, item, false);
}

/* As it was read. One that has changed may have been copied as another type, into another lane. */
static void item_put(struct redis_copy *c, const struct copy_item *item, const struct redis_answer *one)
{
    int64_t left_ms = 0;
    bool there = answer_is_array(one, 3) && answer_integer(&one->elements[1], &left_ms);
    bool zset = there && slice_eq(one->elements[2].str, SLICE("zset"));
    unsigned lane = zset ? item->key.zset_lane : item->key.lane;
    unsigned other = zset ? item->key.lane : item->key.zset_lane;
    if (other != lane && (c->scanned || !there)) unlink_put(c, item, other);
    if (there)
        restore_put(c, item, lane, one->elements[0].str, left_ms);
    else
        unlink_put(c, item, lane);
}

/* --- keys --- */

static void read_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    (void)l, (void)at;
    if (!answer_is(r, REDIS_ARRAY) || r->n == 0) {
        copy_fail(c, r);
        return;
    }
    for (size_t i = 0; i < r->n; i++)
        item_put(c, &c->items[c->item_at + i], &r->elements[i]);
    c->item_at += (uint32_t)r->n;
    lanes_send(c);
}

static void read_ask(struct redis_copy *c)
{
    struct buf *out = redis_link_begin(c->from);
    size_t n = c->items_n - c->item_at;
    request_eval(out, lua_copy_read, 1 + n, 1 + n);
    REQUEST_KEY(out, redis_tag(c->from), KEY_EVENTS);
    for (uint32_t i = c->item_at; i < c->items_n; i++)
        request_key(out, redis_tag(c->from), slice_of(c->names.p + c->items[i].at, c->items[i].n));
    request_int(out, PIECE_BYTES);
    for (uint32_t i = c->item_at; i < c->items_n; i++)
        request_text(out, c->items[i].key.type);
    redis_link_ask(c->from, 1, read_done, c);
}

static void item_add(struct redis_copy *c, struct slice name, struct moved_key key)
{
    if (c->items_n == c->items_cap) {
        c->items_cap = c->items_cap == 0 ? 2 * COPY_PAGE : 2 * c->items_cap;
        c->items = heap_realloc(c->items, c->items_cap * sizeof *c->items);
    }
    c->items[c->items_n++] = (struct copy_item){.at = c->names.n, .n = name.n, .key = key};
    buf_put_slice(&c->names, name);
}

static void page_begin(struct redis_copy *c)
{
    c->item_at = c->items_n = 0;
    buf_reset(&c->names);
}

static void name_sort(struct redis_copy *c, struct slice name)
{
    struct moved_key key = moved_key_of(c->counters, name, c->lanes);
    bool wanted = key.kind != MOVED_TOKEN || c->counters->ops->token_keep_s > 0;
    c->seen++;
    if (key.kind == MOVED_BY_MEMBER)
        (void)map_put(&c->shared, name, (void *)(uintptr_t)key.type);
    else if (key.kind != MOVED_NOT && key.kind != MOVED_ANEW && wanted)
        item_add(c, name, key);
}

/* The cursor and the page of an answer of SCAN and the like. NULL: it is none, and the copy has ended. */
static const struct redis_answer *page_of(struct redis_copy *c, const struct redis_answer *r)
{
    bool good =
        answer_is_array(r, 2) && r->elements[0].type == REDIS_STRING && r->elements[1].type == REDIS_ARRAY;
    if (!good) copy_fail(c, r);
    if (!good) return NULL;
    buf_reset(&c->cursor);
    buf_put_slice(&c->cursor, r->elements[0].str);
    return &r->elements[1];
}

static bool cursor_over(const struct redis_copy *c)
{
    return slice_eq(buf_slice(&c->cursor), SLICE("0"));
}

static void copy_scan_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    (void)l, (void)at;
    const struct redis_answer *keys = page_of(c, r);
    if (keys == NULL) return;
    page_begin(c);
    for (size_t i = 0; i < keys->n; i++)
        name_sort(c, keys->elements[i].str);
    c->scanned = cursor_over(c);
    copy_next(c);
}

static void copy_scan_ask(struct redis_copy *c)
{
    struct buf *out = redis_link_begin(c->from);
    request_array(out, 4);
    REQUEST_LIT(out, "SCAN");
    request_slice(out, buf_slice(&c->cursor));
    REQUEST_LIT(out, "COUNT");
    request_int(out, COPY_PAGE);
    redis_link_ask(c->from, 1, copy_scan_done, c);
}

/* --- rounds --- */

/* Of the rest just one: what changes now is what expires, and that expires in its lane, too. */
static bool round_wanted(const struct redis_copy *c)
{
    size_t n = c->track->changed.n;
    if (c->rest) return c->rounds == 0;
    return n > FEW_NAMES && c->rounds < ROUNDS_MAX && (c->rounds == 0 || n < c->round_names);
}

static void round_take(struct redis_copy *c)
{
    map_close(&c->round);
    c->round = c->track->changed;
    map_init(&c->track->changed);
    c->round_at = 0;
    c->round_names = c->round.n;
    c->total += c->round.n;
    c->rounds++;
}

/* False: no name is left. */
static bool round_page(struct redis_copy *c)
{
    struct slice name;
    void *none;
    page_begin(c);
    while (c->items_n < COPY_PAGE && map_next(&c->round, &c->round_at, &name, &none))
        name_sort(c, name);
    return c->items_n > 0;
}

static bool rounds_page(struct redis_copy *c)
{
    while (!round_page(c)) {
        if (!round_wanted(c)) return false;
        round_take(c);
    }
    return true;
}

/* --- members --- */

/* Those of the page that belong into this lane: n, with one command. */
static void members_put(struct redis_copy *c, const struct redis_answer *page, unsigned lane, size_t n)
{
    bool hash = strcmp(map_get(&c->shared, c->shared_key), "hash") == 0;
    struct buf *out = lane_begin_request(c, lane, 2 + 2 * n);
    request_text(out, hash ? "HSET" : "ZADD");
    request_key(out, redis_tag(&c->to[lane]), c->shared_key);
    for (size_t i = 0; i + 1 < page->n; i += 2) {
        if (c->lane_of[i / 2] != lane) continue;
        request_slice(out, page->elements[hash ? i : i + 1].str);
        request_slice(out, page->elements[hash ? i + 1 : i].str);
    }
}

/* The answer goes with the callback, so all is written before it ends. */
static void members_share(struct redis_copy *c, const struct redis_answer *page)
{
    uint32_t *n = heap_zalloc(c->lanes * sizeof *n);
    c->lane_of = heap_realloc(c->lane_of, (page->n / 2 + 1) * sizeof *c->lane_of);
    for (size_t i = 0; i + 1 < page->n; i += 2) {
        unsigned lane = moved_lane_of(c->counters, c->shared_key, page->elements[i].str, c->lanes);
        c->lane_of[i / 2] = (uint16_t)lane;
        n[lane]++;
    }
    for (uint32_t lane = 0; lane < c->lanes; lane++)
        if (n[lane] > 0) members_put(c, page, lane, n[lane]);
    heap_free(n);
    c->by_member = !cursor_over(c);
    lanes_send(c);
}

/* A key of another type stays, as those that are copied whole. */
static void members_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    (void)l, (void)at;
    const struct redis_answer *page;
    c->by_member = !answer_error_is(r, "WRONGTYPE");
    if (!c->by_member)
        copy_next(c);
    else if ((page = page_of(c, r)) != NULL)
        members_share(c, page);
}

static void members_ask(struct redis_copy *c)
{
    bool hash = strcmp(map_get(&c->shared, c->shared_key), "hash") == 0;
    struct buf *out = redis_link_begin(c->from);
    request_array(out, 5);
    request_text(out, hash ? "HSCAN" : "ZSCAN");
    request_key(out, redis_tag(c->from), c->shared_key);
    request_slice(out, buf_slice(&c->cursor));
    REQUEST_LIT(out, "COUNT");
    request_int(out, MEMBERS);
    redis_link_ask(c->from, 1, members_done, c);
}

/* --- tokens --- */

static void tokens_write(struct redis_copy *c, unsigned lane)
{
    const struct copy_tokens *t = &c->tokens[lane];
    struct slice tag = redis_tag(&c->to[lane]);
    if (t->n == 0) return;
    struct buf *out = lane_begin_request(c, lane, 2);
    REQUEST_LIT(out, "DEL");
    REQUEST_KEY(out, tag, KEY_TOKENS);
    out = lane_begin_request(c, lane, 2 + 2 * t->n);
    REQUEST_LIT(out, "HSET");
    REQUEST_KEY(out, tag, KEY_TOKENS);
    for (uint32_t i = 0; i < t->n; i++) {
        request_int(out, t->second[i]);
        request_int(out, t->count[i]);
    }
}

static void tokens_finish(struct redis_copy *c)
{
    for (uint32_t lane = 0; lane < c->lanes; lane++)
        tokens_write(c, lane);
    heap_free(c->tokens);
    c->tokens = NULL;
    lanes_send(c);
}

/* A primary that is lost then must not take it along. After most of the copy: if they are too few, counting goes on. */
static void replicas_wait(struct redis_copy *c)
{
    c->waited = true;
    for (uint32_t lane = 0; lane < c->lanes && c->replicas > 0; lane++) {
        struct buf *out = lane_begin_request(c, lane, 3);
        REQUEST_LIT(out, "WAIT");
        request_int(out, c->replicas);
        request_int(out, c->to[lane].config.answer_ms / 2);
    }
    lanes_send(c);
}

/* --- */

static bool next_shared(struct redis_copy *c)
{
    void *type;
    buf_reset(&c->cursor);
    BUF_LIT(&c->cursor, "0");
    return map_next(&c->shared, &c->shared_at, &c->shared_key, &type);
}

static void copy_end(struct redis_copy *c)
{
    if (!c->waited)
        replicas_wait(c);
    else
        c->ended(c);
}

static void rest_next(struct redis_copy *c)
{
    if (c->by_member || (c->by_member = next_shared(c)))
        members_ask(c);
    else if (c->tokens != NULL)
        tokens_finish(c);
    else
        copy_end(c);
}

/* All that was asked is answered. */
static void copy_next(struct redis_copy *c)
{
    c->step(c);
    if (c->lost || c->track->lost)
        copy_lost(c);
    else if (c->item_at < c->items_n)
        read_ask(c);
    else if (!c->scanned)
        copy_scan_ask(c);
    else if (rounds_page(c))
        read_ask(c);
    else if (c->rest)
        rest_next(c);
    else
        copy_end(c);
}

static void copy_size_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    (void)l, (void)at;
    if (answer_is(r, REDIS_INTEGER)) c->total = (uint64_t)r->integer;
    copy_scan_ask(c);
}

void redis_copy_most(struct redis_copy *c)
{
    BUF_LIT(&c->cursor, "0");
    map_init(&c->shared);
    map_init(&c->round);
    c->asked = heap_zalloc(c->lanes * sizeof *c->asked);
    c->tokens = heap_zalloc(c->lanes * sizeof *c->tokens);
    request_words(redis_link_begin(c->from), "DBSIZE");
    redis_link_ask(c->from, 1, copy_size_done, c);
}

void redis_copy_rest(struct redis_copy *c)
{
    c->rest = true;
    c->waited = false;
    c->rounds = 0;
    c->seen = c->total = 0;
    copy_next(c);
}
