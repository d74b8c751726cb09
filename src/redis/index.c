/* redis/index.c - see index.h. */
#include "redis/index.h"
#include "base/heap.h"
#include "base/log.h"
#include "redis/ask.h"

/* --- The script that moves names between the indexes works when Redis is full. --- */

#define NAMES_A_SCRIPT 500

/* --- what is due --- */

/* Name, score, name, score ... Only another program writes a score that is no integer: due at once. */
static void on_due(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct due_poll *d = arg;
    (void)l, (void)at;
    d->lost = !answer_is(r, REDIS_ARRAY);
    if (!d->lost) {
        d->keys = answer_texts(r, 2, &d->names);
        d->scores = heap_alloc((r->n + 1) * sizeof *d->scores);
        for (; 2 * d->keys_n + 1 < r->n; d->keys_n++)
            if (!answer_integer(&r->elements[2 * d->keys_n + 1], &d->scores[d->keys_n]))
                d->scores[d->keys_n] = 0;
    }
    if (d->done != NULL) d->done(d);
}

void redis_due(struct redis_link *l, struct due_poll *d)
{
    d->names = (struct buf){0};
    d->keys = NULL;
    d->scores = NULL;
    d->keys_n = 0;
    if (d->highest)
        redis_write(l, "ZREVRANGEBYSCORE {}" KEY_DIRTY " +inf -inf WITHSCORES LIMIT %u %u", d->skip,
                    d->limit);
    else
        redis_write(l, "ZRANGEBYSCORE {}" KEY_DIRTY " -inf %" PRId64 " WITHSCORES LIMIT %u %u", d->before_ms,
                    d->skip, d->limit);
    redis_link_ask(l, 1, on_due, d);
}

/* --- held and restored --- */

static uint32_t moves_put(struct redis_link *l, const char *from, const char *to, const struct slice *names,
                          size_t n)
{
    uint32_t scripts = 0;
    for (size_t at = 0; at < n; scripts++) {
        size_t end = n - at < NAMES_A_SCRIPT ? n : at + NAMES_A_SCRIPT;
        struct buf *out =
            redis_write(l, "EVAL %.*s 2 {}%s {}%s +%zu", SLICE_ARG(lua_dirty_move), from, to, end - at);
        for (; at < end; at++)
            request_slice(out, names[at]);
    }
    return scripts;
}

static void on_held(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    char line[200];
    (void)l, (void)arg, (void)at;
    if (r == NULL || r->type == REDIS_INTEGER)
        return; /* lost: they are still in the dirty index, and polled again */
    answer_why(r, line, sizeof line);
    log_event(LOG_WARN, "hold_names", "error=%s", LOGQ(line));
}

void redis_hold_names(struct redis_link *l, const struct slice *names, uint32_t n)
{
    if (n == 0) return;
    uint32_t scripts = moves_put(l, KEY_DIRTY, KEY_HELD, names, n);
    redis_link_ask(l, scripts, on_held, NULL);
}

static void on_restored(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_restore *s = arg;
    int64_t n = 0;
    (void)l;
    if (answer_is(r, REDIS_INTEGER) && answer_integer(r, &n))
        s->restored += (uint32_t)n;
    else
        s->lost = true;
    if (r == NULL || at + 1 == s->scripts) s->done(s);
}

static void on_held_names(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_restore *s = arg;
    struct slice *ours;
    size_t n = 0;
    (void)at;
    s->lost = !answer_is(r, REDIS_ARRAY);
    if (s->lost || r->n == 0) {
        s->done(s);
        return;
    }
    ours = heap_alloc(r->n * sizeof *ours);
    for (size_t i = 0; i < r->n; i++)
        if (counters_match(s->counters, r->elements[i].str) != NULL) ours[n++] = r->elements[i].str;
    s->scripts = moves_put(l, KEY_HELD, KEY_DIRTY, ours, n);
    heap_free(ours);
    if (s->scripts == 0) return s->done(s);
    redis_link_ask(l, s->scripts, on_restored, s);
}

void redis_restore(struct redis_link *l, struct redis_restore *s)
{
    s->restored = s->scripts = 0;
    redis_write(l, "ZRANGE {}" KEY_HELD " 0 -1");
    redis_link_ask(l, 1, on_held_names, s);
}

/* --- its state --- */

static void on_state(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct dirty_state *d = arg;
    int64_t *const counts[] = {&d->dirty, &d->held, &d->batches};
    (void)l;
    if (at < 3) {
        d->lost |= !answer_integer(r, counts[at]);
    } else {
        d->lowest_ms = INT64_MAX;
        d->lost |= !answer_is(r, REDIS_ARRAY) ||
                   (r->n > 0 && (r->n != 2 || !answer_integer(&r->elements[1], &d->lowest_ms)));
    }
    if ((r == NULL || at == 3) && d->done != NULL) d->done(d);
}

void redis_dirty_state(struct redis_link *l, struct dirty_state *d)
{
    d->lost = false;
    redis_write(l, "ZCARD {}" KEY_DIRTY);
    redis_write(l, "ZCARD {}" KEY_HELD);
    redis_write(l, "ZCARD {}" KEY_BATCHES);
    redis_write(l, "ZRANGE {}" KEY_DIRTY " 0 0 WITHSCORES");
    redis_link_ask(l, 4, on_state, d);
}

/* --- SCAN, and for each page one script that puts back missing names and says which suspects have no registry. SCAN shows every
 * key that exists from begin to end at least once (redis-doc: commands/scan.md); a hash that was created meanwhile has its ZADD
 * from its frame. A score in the future means that a clock was set back since: the score becomes now (LT), since its hash would
 * not be due by time before that. --- */

#define STEP_DEFAULT 200

struct redis_suspect { /* a hash that looks claimed */
    const struct counter *counter;
    size_t at, n, pending_n; /* its name in walk->names; the pending hash's is the beginning of it */
    struct batch_id id;
    bool has_id;
};

static void walk_scan_ask(struct redis_walk *w);

static void on_timer_closed(uv_handle_t *handle)
{
    struct redis_walk *w = handle->data;
    buf_free(&w->cursor);
    buf_free(&w->names);
    heap_free(w->suspects);
    w->done(w); /* last line: w may be gone after it */
}

static void walk_finish(struct redis_walk *w)
{
    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

static void walk_fail(struct redis_walk *w, const struct redis_answer *r)
{
    w->lost = true;
    answer_why(r, w->text, sizeof w->text);
    walk_finish(w);
}

static void walk_pause_over(uv_timer_t *timer)
{
    walk_scan_ask(timer->data);
}

void redis_walk_stop(struct redis_walk *w)
{
    w->stopping = true;
    if (!uv_is_active((uv_handle_t *)&w->timer)) return;
    uv_timer_stop(&w->timer);
    walk_fail(w, NULL);
}

static void walk_step_end(struct redis_walk *w)
{
    if (w->at_end)
        walk_finish(w);
    else if (w->stopping)
        walk_fail(w, NULL);
    else if (w->pause_ms > 0)
        uv_timer_start(&w->timer, walk_pause_over, w->pause_ms, 0);
    else
        walk_scan_ask(w);
}

/* --- one page --- */

/* `<pending hash>_<anything>`: the longest beginning that is a pending hash's name. */
static const struct counter *suspect_match(const struct counters *cs, struct slice key, size_t *pending_n)
{
    for (size_t i = key.n; i-- > 1;) {
        if (key.p[i] != '_' || i + 1 == key.n) continue;
        const struct counter *c = counters_match(cs, slice_of(key.p, i));
        *pending_n = i;
        if (c != NULL) return c;
    }
    return NULL;
}

/* Appends the pending hashes of this page to `found`, as RESP; returns how many. */
static uint32_t page_sort(struct redis_walk *w, const struct redis_answer *keys, struct buf *found)
{
    struct slice tag = redis_tag(w->link);
    uint32_t n = 0;
    size_t pending_n;
    for (size_t i = 0; i < keys->n; i++) {
        struct slice key = keys->elements[i].str;
        if (!slice_starts(key, tag)) continue;
        key = slice_of(key.p + tag.n, key.n - tag.n);
        const struct counter *c = counters_match(w->counters, key);
        w->keys++;
        if (c != NULL) {
            if (!w->read_only) request_slice(found, key), n++;
        } else if ((c = suspect_match(w->counters, key, &pending_n)) != NULL) {
            HEAP_GROW(w->suspects, w->suspects_n, w->suspects_cap, 64);
            struct redis_suspect *s = &w->suspects[w->suspects_n++];
            *s = (struct redis_suspect){.counter = c, .at = w->names.n, .n = key.n, .pending_n = pending_n};
            s->has_id = claimed_split(key, NULL, &s->id);
            buf_put_slice(&w->names, key);
        }
    }
    return n;
}

static void walk_page_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_walk *w = arg;
    (void)l, (void)at;
    if (!answer_is_array(r, 1 + (size_t)w->suspects_n)) return walk_fail(w, r);
    w->restored += (uint64_t)r->elements[0].integer;
    for (uint32_t i = 0; i < w->suspects_n; i++) {
        const struct redis_suspect *s = &w->suspects[i];
        const char *name = w->names.p + s->at;
        if (r->elements[1 + i].integer == 0) continue;
        w->leftover(w, s->counter, slice_of(name, s->n), slice_of(name, s->pending_n),
                    s->has_id ? &s->id : NULL);
    }
    walk_step_end(w);
}

static void page_ask(struct redis_walk *w, struct slice found, uint32_t found_n)
{
    struct buf *out = redis_write(w->link, "EVAL %.*s 1 {}" KEY_DIRTY " {}" KEY_BATCH_PREFIX " %u +%zu",
                                  SLICE_ARG(lua_walk), found_n, (size_t)found_n + 2 * (size_t)w->suspects_n);
    buf_put_slice(out, found);
    for (uint32_t i = 0; i < w->suspects_n; i++) {
        const struct redis_suspect *s = &w->suspects[i];
        char hex[33] = "";
        if (s->has_id) batch_id_hex(&s->id, hex);
        request_slice(out, slice_of(w->names.p + s->at, s->n));
        request_text(out, hex);
    }
    redis_link_ask(w->link, 1, walk_page_done, w);
}

static void walk_scan_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_walk *w = arg;
    const struct redis_answer *keys;
    struct slice cursor;
    struct buf found = {0};
    (void)l, (void)at;
    if (!answer_scan(r, "(sa)", &cursor, &keys)) return walk_fail(w, r);
    buf_reset(&w->cursor);
    buf_put_slice(&w->cursor, cursor);
    w->at_end = slice_eq(cursor, SLICE("0"));
    w->suspects_n = 0;
    buf_reset(&w->names);
    uint32_t found_n = page_sort(w, keys, &found);
    if (found_n > 0 || w->suspects_n > 0)
        page_ask(w, buf_slice(&found), found_n);
    else
        walk_step_end(w);
    buf_free(&found);
}

static void walk_scan_ask(struct redis_walk *w)
{
    const char *format =
        redis_tag(w->link).n > 0 ? "SCAN %.*s COUNT %u TYPE hash MATCH {}*" : "SCAN %.*s COUNT %u TYPE hash";
    redis_write(w->link, format, SLICE_ARG(buf_slice(&w->cursor)), w->step);
    redis_link_ask(w->link, 1, walk_scan_done, w);
}

void redis_walk(struct redis_link *l, struct redis_walk *w)
{
    w->link = l;
    w->keys = w->restored = 0;
    w->lost = w->at_end = w->stopping = false;
    w->text[0] = '\0';
    w->suspects = NULL;
    w->suspects_n = w->suspects_cap = 0;
    w->names = w->cursor = (struct buf){0};
    if (w->step == 0) w->step = STEP_DEFAULT;
    uv_timer_init(l->loop, &w->timer);
    w->timer.data = w;
    BUF_LIT(&w->cursor, "0");
    walk_scan_ask(w);
}
