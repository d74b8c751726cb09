/* redis/copy_op.c - see copy_op.h. Most: all keys, page by page: SCAN, one script that reads those of the page, a RESTORE each on the
 * link of its lane. A key that SCAN shows twice is copied twice. Then in rounds those that changed since. The rest: a last round,
 * and the sets and hashes that have names of all lanes, member by member. They lose members, too, so they are copied once only. At
 * last the counts of tokens, which are counted anew. */
#include "redis/copy_op.h"
#include "base/heap.h"
#include "redis/lua.h"
#include "redis/request.h"
#include <stdio.h>

#define PAGE 500
#define MEMBERS 5000 /* of a page of them: some hundred for each lane */
#define PIECE_BYTES (8 << 20)
#define FEW_REPLICAS "the cluster's replicas do not have it in time (redis.replicas)"
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
    if (r == NULL || r->type == REDIS_ERROR || few) copy_refused(c, few ? FEW_REPLICAS : "the cluster", r);
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

static void restore_put(struct redis_copy *c, const struct copy_item *item, struct slice dump,
                        int64_t left_ms)
{
    struct buf *out = lane_begin_request(c, item->key.lane, 5);
    REQUEST_LIT(out, "RESTORE");
    request_key(out, redis_tag(&c->to[item->key.lane]), slice_of(c->names.p + item->at, item->n));
    request_int(out, left_ms);
    request_slice(out, dump);
    REQUEST_LIT(out, "REPLACE");
    if (item->key.kind == MOVED_TOKEN) token_note(c, item->key.lane, left_ms);
    c->copied++;
}

/* Also one that was never copied. */
static void unlink_put(struct redis_copy *c, const struct copy_item *item)
{
    struct buf *out = lane_begin_request(c, item->key.lane, 2);
    REQUEST_LIT(out, "UNLINK");
    request_key(out, redis_tag(&c->to[item->key.lane]), slice_of(c->names.p + item->at, item->n));
}

/* --- keys --- */

static void read_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    int64_t left_ms;
    (void)l, (void)at;
    if (!answer_is(r, REDIS_ARRAY) || r->n == 0) {
        copy_fail(c, r);
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct redis_answer *one = &r->elements[i];
        if (answer_is_array(one, 2) && answer_integer(&one->elements[1], &left_ms))
            restore_put(c, &c->items[c->item_at + i], one->elements[0].str, left_ms);
        else
            unlink_put(c, &c->items[c->item_at + i]);
    }
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
    for (uint32_t i = c->item_at; i < c->items_n; i++) {
        char type[16];
        snprintf(type, sizeof type, "%s%s", c->items[i].key.kind == MOVED_LOG ? "?" : "",
                 c->items[i].key.type);
        request_text(out, type);
    }
    redis_link_ask(c->from, 1, read_done, c);
}

static void item_add(struct redis_copy *c, struct slice name, struct moved_key key)
{
    if (c->items_n == c->items_cap) {
        c->items_cap = c->items_cap == 0 ? 2 * PAGE : 2 * c->items_cap;
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
    else if (key.kind != MOVED_NOT && wanted)
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
    request_int(out, PAGE);
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
    while (c->items_n < PAGE && map_next(&c->round, &c->round_at, &name, &none))
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
static void members_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_copy *c = arg;
    (void)l, (void)at;
    const struct redis_answer *page = page_of(c, r);
    if (page == NULL) return;
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

/* A primary that is lost then must not take it along. */
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

static void rest_next(struct redis_copy *c)
{
    if (c->by_member || (c->by_member = next_shared(c)))
        members_ask(c);
    else if (c->tokens != NULL)
        tokens_finish(c);
    else if (!c->waited)
        replicas_wait(c);
    else
        c->ended(c);
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
        c->ended(c);
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
    c->rounds = 0;
    c->seen = c->total = 0;
    copy_next(c);
}
