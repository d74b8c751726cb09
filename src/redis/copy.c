/* redis/copy.c - see copy.h. Most: all keys, page by page: SCAN, one script that reads those of the page, a RESTORE each on the
 * link of its lane. A key that SCAN shows twice is copied twice. Then in rounds those that changed since. The rest: a last round,
 * and the sets and hashes of event logs, which have names of all lanes, member by member. They lose members, too, so they are copied
 * once only. At last the counts of tokens, which are counted anew. The lanes' known: is made from the samples that are copied. */
#include "redis/copy.h"
#include "base/clock.h"
#include "base/heap.h"
#include <stdio.h>

#define COPY_PAGE 500
#define MEMBERS 5000 /* of a page of them: some hundred for each lane */
#define COPY_BYTES (8 << 20)
#define TOKEN_ROUNDS 12 /* frame_tokens.lua */
#define TOKEN_SECONDS_MAX 64
#define FEW_NAMES 2000 /* that take a tenth of a second */
#define ROUNDS_MAX 20
#define SWEEP_PAGE 1000
#define CHANNEL "__redis__:invalidate"

struct copy_item {
    size_t at, n; /* in names */
    struct moved_key key;
};

struct copy_tokens { /* of a lane: how many are gone by when */
    uint32_t n;
    int64_t second[TOKEN_SECONDS_MAX], count[TOKEN_SECONDS_MAX];
};

/* --- what changes. With RESP2 a server tells it as messages of a channel. The connection that tracks is the one that subscribes, so
 * either both are alive or neither. --- */

static bool track_lose(struct track *t, const char *why)
{
    if (!t->lost) snprintf(t->text, sizeof t->text, "%.250s", why);
    t->lost = true;
    return false;
}

static void track_down(struct redis_link *l, const char *why)
{
    track_lose(CONTAINER_OF(l, struct track, link), why);
}

/* message, the channel, names; instead of names nil: the whole database was emptied. */
static void changes_told(struct redis_link *l, const struct redis_answer *r)
{
    struct track *t = CONTAINER_OF(l, struct track, link);
    const struct redis_answer *names, *what;
    if (!answer_scan(r, "(**a)", &what, &what, &names)) {
        track_lose(t, answer_is_array(r, 3) ? "it was emptied (FLUSHALL, FLUSHDB)"
                                            : "it sent an unexpected message");
        return;
    }
    for (size_t i = 0; i < names->n; i++) {
        const struct redis_answer *name = &names->elements[i];
        if (name->type != REDIS_STRING) continue;
        if (slice_eq(name->str, slice_str(t->mark)))
            t->seen = true;
        else
            (void)map_put(&t->changed, name->str, NULL);
    }
}

/* What is told between the two requests is not: nobody has subscribed. */
bool track_open(struct track *t, uv_loop_t *loop, struct redis_place *place)
{
    const struct redis_link_config config = {
        .place = place, .role = "track", .plain = true, .quiet = true, .once = true};
    struct error e;
    int64_t id;
    char why[200];
    *t = (struct track){0};
    map_init(&t->changed);
    redis_link_init(&t->link, loop, &config);
    t->link.down = track_down;
    t->link.push = changes_told;
    if (redis_link_connect(&t->link, 0, &e) != ERR_NONE) return track_lose(t, e.text);
    const struct redis_answer *r = redis_call(&t->link, "CLIENT ID");
    if (answer_integer(r, &id)) r = redis_call(&t->link, "CLIENT TRACKING ON REDIRECT %" PRId64 " BCAST", id);
    if (answer_is_ok(r)) r = redis_call(&t->link, "SUBSCRIBE " CHANNEL);
    answer_why(r, why, sizeof why);
    return !t->lost && answer_is(r, REDIS_ARRAY) ? true : track_lose(t, why);
}

static void track_late(uv_timer_t *timer)
{
    track_lose(timer->data, "it does not tell which keys change");
}

/* (!) A name of its own each time: that an earlier one expires is told, too. */
bool track_reach(struct track *t, struct redis_link *l, uint64_t wait_ms)
{
    char why[200];
    uv_timer_t timer;
    t->seen = false;
    snprintf(t->mark, sizeof t->mark, KEY_MARK_PREFIX "%016" PRIx64, rand_below(UINT64_MAX));
    const struct redis_answer *r = redis_call(l, "SET %s  PX 60000", t->mark);
    answer_why(r, why, sizeof why);
    if (!answer_is_ok(r)) track_lose(t, why);
    uv_timer_init(l->loop, &timer);
    timer.data = t;
    uv_timer_start(&timer, track_late, wait_ms, 0);
    while (!t->seen && !t->lost)
        uv_run(l->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(l->loop, UV_RUN_NOWAIT); /* the timer is gone when this returns */
    return !t->lost;
}

void track_close(struct track *t)
{
    if (t->link.loop == NULL) return;
    redis_end(&t->link);
    map_close(&t->changed);
    *t = (struct track){0};
}

/* --- into the lanes --- */

static bool copy_lose(struct copy *c, const char *who, const char *why)
{
    if (!c->lost) snprintf(c->text, sizeof c->text, "%s: %.250s", who, why);
    c->lost = true;
    return false;
}

static bool copy_refused(struct copy *c, const char *who, const struct redis_answer *r)
{
    char why[200];
    answer_why(r, why, sizeof why);
    return copy_lose(c, who, why);
}

static void lane_answered(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct copy *c = arg;
    char why[100];
    uint32_t lane = (uint32_t)(l - c->to);
    snprintf(why, sizeof why, "%u replicas of each primary must have it in time (redis.replicas)",
             c->replicas);
    if (c->waited && answer_is(r, REDIS_INTEGER) && r->integer < (int64_t)c->replicas)
        copy_lose(c, "the cluster", why);
    if (r == NULL || r->type == REDIS_ERROR) copy_refused(c, "the cluster", r);
    if (r != NULL && at + 1 < c->asked[lane]) return;
    c->asked[lane] = 0;
    c->waiting--;
}

/* What was written for each lane goes, to all at once. */
static bool lanes_send(struct copy *c)
{
    for (uint32_t i = 0; i < c->lanes; i++)
        c->waiting += c->asked[i] > 0;
    for (uint32_t i = 0; i < c->lanes; i++)
        if (c->asked[i] > 0) redis_link_ask(&c->to[i], c->asked[i], lane_answered, c);
    while (c->waiting > 0)
        uv_run(c->from->loop, UV_RUN_ONCE);
    return !c->lost;
}

/* One request more is written for it. */
static struct redis_link *lane_next(struct copy *c, unsigned lane)
{
    c->asked[lane]++;
    return &c->to[lane];
}

static struct slice item_name(const struct copy *c, const struct copy_item *item)
{
    return slice_of(c->names.p + item->at, item->n);
}

/* (!) known: is made from the samples: then nothing of it is left to copy while no hit is taken. */
static void restore_put(struct copy *c, const struct copy_item *item, unsigned lane, struct slice dump,
                        int64_t left_ms)
{
    struct slice name = item_name(c, item);
    size_t lead = strlen(KEY_SAMPLES_PREFIX);
    struct buf *out = redis_write(lane_next(c, lane), "RESTORE {}%.*s %" PRId64 " +%zu", SLICE_ARG(name),
                                  left_ms, (size_t)2);
    request_slice(out, dump);
    REQUEST_LIT(out, "REPLACE");
    if (item->key.kind == MOVED_TOKEN) {
        /* A token's place as frame_tokens.lua has it, or later: it is never counted too few. */
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
    if (item->key.kind == MOVED_SAMPLES)
        redis_write(lane_next(c, item->key.lane), "ZADD {}" KEY_KNOWN " 0 %.*s", (int)(name.n - lead),
                    name.p + lead);
    c->copied++;
}

/* Also one that was never copied. */
static void unlink_put(struct copy *c, const struct copy_item *item, unsigned lane)
{
    struct slice name = item_name(c, item);
    size_t lead = strlen(KEY_SAMPLES_PREFIX);
    redis_write(lane_next(c, lane), "UNLINK {}%.*s", SLICE_ARG(name));
    if (item->key.kind == MOVED_SAMPLES)
        redis_write(lane_next(c, item->key.lane), "ZREM {}" KEY_KNOWN " %.*s", (int)(name.n - lead),
                    name.p + lead);
}

/* --- keys --- */

/* As many names of the page as the script reads at once. */
static bool piece_copy(struct copy *c)
{
    size_t n = c->items_n - c->item_at;
    struct buf *out = redis_write(c->from, "EVAL %.*s %zu {}" KEY_EVENTS " +%zu", SLICE_ARG(lua_copy_read),
                                  1 + n, 2 * n + 1);
    for (uint32_t i = c->item_at; i < c->items_n; i++)
        request_key(out, redis_tag(c->from), item_name(c, &c->items[i]));
    request_int(out, COPY_BYTES);
    for (uint32_t i = c->item_at; i < c->items_n; i++)
        request_text(out, c->items[i].key.type);
    const struct redis_answer *r = redis_answered(c->from);
    if (!answer_is(r, REDIS_ARRAY) || r->n == 0) return copy_refused(c, "the old Redis", r);
    for (size_t i = 0; i < r->n; i++) {
        /* As it was read. One that has changed may have been copied as another type, into another lane. */
        const struct copy_item *item = &c->items[c->item_at + i];
        int64_t left_ms = 0;
        const struct redis_answer *dump, *type;
        bool there = answer_scan(&r->elements[i], "(*i*)", &dump, &left_ms, &type);
        bool zset = there && slice_eq(type->str, SLICE("zset"));
        unsigned lane = zset ? item->key.zset_lane : item->key.lane;
        unsigned other = zset ? item->key.lane : item->key.zset_lane;
        if (other != lane && (c->scanned || !there)) unlink_put(c, item, other);
        if (there)
            restore_put(c, item, lane, dump->str, left_ms);
        else
            unlink_put(c, item, lane);
    }
    c->item_at += (uint32_t)r->n;
    return lanes_send(c);
}

static bool copy_goes_on(struct copy *c)
{
    c->step(c);
    if (c->track->lost) copy_lose(c, "the old Redis", c->track->text);
    return !c->lost;
}

static bool page_copy(struct copy *c)
{
    while (copy_goes_on(c) && c->item_at < c->items_n)
        if (!piece_copy(c)) return false;
    return !c->lost;
}

static void page_begin(struct copy *c)
{
    c->item_at = c->items_n = 0;
    buf_reset(&c->names);
}

static void name_sort(struct copy *c, struct slice name)
{
    struct moved_key key = moved_key_of(c->counters, name, c->lanes);
    bool wanted = key.kind != MOVED_TOKEN || c->counters->ops->token_keep_s > 0;
    c->seen++;
    if (key.kind == MOVED_BY_MEMBER)
        (void)map_put(&c->shared, name, (void *)(uintptr_t)key.type);
    else if (key.kind != MOVED_NOT && key.kind != MOVED_ANEW && wanted) {
        HEAP_GROW(c->items, c->items_n, c->items_cap, 2 * COPY_PAGE);
        c->items[c->items_n++] = (struct copy_item){.at = c->names.n, .n = name.n, .key = key};
        buf_put_slice(&c->names, name);
    }
}

/* The page of an answer of SCAN and the like, and the cursor of the next; NULL: it is none. */
static const struct redis_answer *page_of(const struct redis_answer *r, char cursor[24])
{
    struct slice next;
    const struct redis_answer *page;
    if (!answer_scan(r, "(sa)", &next, &page) || next.n >= 24) return NULL;
    snprintf(cursor, 24, SLICE_FMT, SLICE_ARG(next));
    return page;
}

static bool all_copy(struct copy *c)
{
    do {
        const struct redis_answer *r = redis_call(c->from, "SCAN %s COUNT %d", c->cursor, COPY_PAGE);
        const struct redis_answer *keys = page_of(r, c->cursor);
        if (keys == NULL) return copy_refused(c, "the old Redis", r);
        page_begin(c);
        for (size_t i = 0; i < keys->n; i++)
            name_sort(c, keys->elements[i].str);
        c->scanned = strcmp(c->cursor, "0") == 0;
        if (!page_copy(c)) return false;
    } while (!c->scanned);
    return true;
}

/* --- rounds --- */

/* Of the rest just one: what changes now is what expires, and that expires in its lane, too. */
static bool round_wanted(const struct copy *c)
{
    size_t n = c->track->changed.n;
    if (c->rest) return c->rounds == 0;
    return n > FEW_NAMES && c->rounds < ROUNDS_MAX && (c->rounds == 0 || n < c->round_names);
}

/* False: no name is left. */
static bool round_page(struct copy *c)
{
    struct slice name;
    void *none;
    page_begin(c);
    while (c->items_n < COPY_PAGE && map_next(&c->round, &c->round_at, &name, &none))
        name_sort(c, name);
    return c->items_n > 0;
}

static bool rounds_copy(struct copy *c)
{
    for (;;) {
        while (round_page(c))
            if (!page_copy(c)) return false;
        if (!round_wanted(c)) return true;
        map_close(&c->round);
        c->round = c->track->changed;
        map_init(&c->track->changed);
        c->round_at = 0;
        c->round_names = c->round.n;
        c->total += c->round.n;
        c->rounds++;
    }
}

/* --- members --- */

/* Those of the page that belong into one lane go with one command. */
static bool members_share(struct copy *c, struct slice key, bool hash, const struct redis_answer *page)
{
    uint32_t *n = heap_zalloc(c->lanes * sizeof *n);
    uint16_t *lane_of = heap_alloc((page->n / 2 + 1) * sizeof *lane_of);
    for (size_t i = 0; i + 1 < page->n; i += 2) {
        unsigned lane = moved_lane_of(c->counters, key, page->elements[i].str, c->lanes);
        lane_of[i / 2] = (uint16_t)lane;
        n[lane]++;
    }
    for (uint32_t lane = 0; lane < c->lanes; lane++) {
        if (n[lane] == 0) continue;
        struct buf *out = redis_write(lane_next(c, lane), "%s {}%.*s +%zu", hash ? "HSET" : "ZADD",
                                      SLICE_ARG(key), 2 * (size_t)n[lane]);
        for (size_t i = 0; i + 1 < page->n; i += 2) {
            if (lane_of[i / 2] != lane) continue;
            request_slice(out, page->elements[hash ? i : i + 1].str);
            request_slice(out, page->elements[hash ? i + 1 : i].str);
        }
    }
    heap_free(lane_of);
    heap_free(n);
    return lanes_send(c);
}

/* A key of another type stays, as those that are copied whole. */
static bool shared_copy(struct copy *c)
{
    struct slice key;
    void *type;
    for (size_t at = 0; map_next(&c->shared, &at, &key, &type);) {
        bool hash = strcmp(type, "hash") == 0;
        snprintf(c->cursor, sizeof c->cursor, "0");
        do {
            const struct redis_answer *r =
                redis_call(c->from, "%s {}%.*s %s COUNT %d", hash ? "HSCAN" : "ZSCAN", SLICE_ARG(key),
                           c->cursor, MEMBERS);
            if (answer_error_is(r, "WRONGTYPE")) break;
            const struct redis_answer *page = page_of(r, c->cursor);
            if (page == NULL) return copy_refused(c, "the old Redis", r);
            if (!members_share(c, key, hash, page) || !copy_goes_on(c)) return false;
        } while (strcmp(c->cursor, "0") != 0);
    }
    return true;
}

/* --- the whole --- */

static bool tokens_copy(struct copy *c)
{
    for (uint32_t lane = 0; lane < c->lanes; lane++) {
        const struct copy_tokens *t = &c->tokens[lane];
        if (t->n == 0) continue;
        redis_write(lane_next(c, lane), "DEL {}" KEY_TOKENS);
        struct buf *out = redis_write(lane_next(c, lane), "HSET {}" KEY_TOKENS " +%zu", (size_t)t->n * 2);
        for (uint32_t i = 0; i < t->n; i++) {
            request_int(out, t->second[i]);
            request_int(out, t->count[i]);
        }
    }
    return lanes_send(c);
}

/* A primary that is lost then must not take it along. After most of the copy: if they are too few, counting goes on. */
static bool replicas_wait(struct copy *c)
{
    c->waited = true;
    for (uint32_t lane = 0; lane < c->lanes && c->replicas > 0; lane++)
        redis_write(lane_next(c, lane), "WAIT %u %u", c->replicas, c->to[lane].config.answer_ms / 2);
    return lanes_send(c);
}

bool copy_most(struct copy *c)
{
    snprintf(c->cursor, sizeof c->cursor, "0");
    map_init(&c->shared);
    map_init(&c->round);
    c->asked = heap_zalloc(c->lanes * sizeof *c->asked);
    c->tokens = heap_zalloc(c->lanes * sizeof *c->tokens);
    const struct redis_answer *size = redis_call(c->from, "DBSIZE");
    if (answer_is(size, REDIS_INTEGER)) c->total = (uint64_t)size->integer;
    return all_copy(c) && rounds_copy(c) && replicas_wait(c);
}

bool copy_rest(struct copy *c)
{
    c->rest = true;
    c->waited = false;
    c->rounds = 0;
    c->seen = c->total = 0;
    return copy_goes_on(c) && rounds_copy(c) && shared_copy(c) && tokens_copy(c) && replicas_wait(c);
}

void copy_free(struct copy *c)
{
    buf_free(&c->names);
    heap_free(c->items);
    heap_free(c->asked);
    heap_free(c->tokens);
    map_close(&c->shared);
    map_close(&c->round);
}

/* --- an earlier copy --- */

static struct slice bare(struct slice tag, struct slice key)
{
    return slice_starts(key, tag) ? slice_of(key.p + tag.n, key.n - tag.n) : slice_of(key.p, 0);
}

/* UNLINK wants a name: the first one never exists. */
bool lane_sweep(struct redis_link *l, const struct counters *counters, uint32_t lanes, char *why, size_t size)
{
    char cursor[24] = "0";
    const struct redis_answer *r;
    do {
        struct buf gone = {0};
        size_t n = 0;
        r = redis_call(l, "SCAN %s COUNT %d MATCH {}*", cursor, SWEEP_PAGE);
        const struct redis_answer *keys = page_of(r, cursor);
        if (keys == NULL) break;
        for (size_t i = 0; i < keys->n; i++) {
            struct slice key = keys->elements[i].str;
            if (moved_key_of(counters, bare(redis_tag(l), key), lanes).kind == MOVED_NOT) continue;
            request_slice(&gone, key);
            n++;
        }
        buf_put_slice(redis_write(l, "UNLINK {}" KEY_MARK_PREFIX " +%zu", n), buf_slice(&gone));
        buf_free(&gone);
        r = redis_answered(l);
    } while (answer_is(r, REDIS_INTEGER) && strcmp(cursor, "0") != 0);
    answer_why(r, why, size);
    return answer_is(r, REDIS_INTEGER);
}

/* Each frame writes the first, and no mover writes either. The first ends after SEQ_TTL_S, the other never. */
bool lane_counted(struct redis_link *l, bool *counted, char *why, size_t size)
{
    char cursor[24] = "0";
    *counted = false;
    do {
        const struct redis_answer *r = redis_call(l, "SCAN %s COUNT %d MATCH {}tally:*", cursor, SWEEP_PAGE);
        const struct redis_answer *keys = page_of(r, cursor);
        if (keys == NULL) {
            answer_why(r, why, size);
            return false;
        }
        for (size_t i = 0; i < keys->n; i++) {
            struct slice name = bare(redis_tag(l), keys->elements[i].str);
            *counted |= slice_starts(name, SLICE(KEY_SEQ_PREFIX)) || slice_eq(name, SLICE(KEY_ACCEPTED));
        }
    } while (!*counted && strcmp(cursor, "0") != 0);
    return true;
}
