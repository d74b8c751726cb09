/* redis/clean_op.c - see index.h. A script ends before the next name when it has looked at a piece of fields. Of a
 * larger hash it takes a page, and the answer says where to go on. An HSCAN cursor that a restart of Redis made stale
 * can skip fields: the next pass finds them. */
#include "base/heap.h"
#include "redis/ask.h"
#include "redis/index.h"

#define CLEAN_ARGS 3

/* --- pages --- */

static void names_page_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_page *p = arg;
    (void)l, (void)at;
    p->lost = r == NULL;
    if (answer_is(r, REDIS_ARRAY)) {
        p->all = answer_texts(r, 1, &p->names);
        p->n = (uint32_t)r->n;
        p->at_end = p->n < p->limit;
    } else
        answer_why(r, p->text, sizeof p->text);
    p->done(p);
}

void redis_page(struct redis_link *l, struct redis_page *p)
{
    p->names = (struct buf){0};
    p->all = NULL;
    p->n = 0;
    p->at_end = false;
    p->text[0] = '\0';
    redis_write(l, "ZRANGEBYLEX {}%.*s %s%.*s + LIMIT 0 %u", SLICE_ARG(p->key), p->after.n > 0 ? "(" : "-",
                SLICE_ARG(p->after), p->limit);
    redis_link_ask(l, 1, names_page_done, p);
}

/* --- requests --- */

static void clean_name_put(struct buf *out, struct slice tag, struct buf *name)
{
    request_key(out, tag, buf_slice(name));
    buf_reset(name);
}

/* How many samples, events or cached windows Redis looks at in less than a millisecond. */
static const int64_t pieces[] = {
    [REDIS_CLEAN_SERIES] = 2000, [REDIS_CLEAN_EVENTS] = 500, [REDIS_CLEAN_WINDOWS] = 500};

static void clean_args_put(struct buf *out, const struct redis_clean *c)
{
    request_int(out, c->now_most_s);
    request_slice(out, c->cursor[0] != '\0' ? slice_str(c->cursor) : SLICE("0"));
    request_int(out, pieces[c->kind]);
}

static void clean_series_put(struct buf *out, struct slice tag, struct buf *name, const struct redis_clean *c)
{
    request_eval(out, lua_clean_series, 1 + (size_t)c->names_n, CLEAN_ARGS + 1);
    REQUEST_KEY(out, tag, KEY_KNOWN);
    for (uint32_t i = 0; i < c->names_n; i++) {
        name_samples_of(name, c->names[i]);
        clean_name_put(out, tag, name);
    }
    clean_args_put(out, c);
    request_int(out, c->limits->samples);
}

/* A member that is not <name>:<type> is not tallyd's: its log is looked at as any other, but it has no cache. */
static void clean_events_put(struct buf *out, struct slice tag, struct buf *name, const struct redis_clean *c)
{
    struct slice event, type;
    request_eval(out, lua_clean_events, 2 + 2 * (size_t)c->names_n, CLEAN_ARGS + 1 + (size_t)c->names_n);
    REQUEST_KEY(out, tag, KEY_EVENTS);
    REQUEST_KEY(out, tag, KEY_EVENTS_GONE);
    for (uint32_t i = 0; i < c->names_n; i++) {
        request_key(out, tag, c->names[i]);
        if (event_split(c->names[i], &event, &type))
            name_windows(name, type);
        else
            buf_put_slice(name, c->names[i]);
        clean_name_put(out, tag, name);
    }
    clean_args_put(out, c);
    request_int(out, c->limits->events_keep_s);
    for (uint32_t i = 0; i < c->names_n; i++)
        request_slice(out, event_split(c->names[i], &event, &type) ? event : c->names[i]);
}

static void clean_windows_put(struct buf *out, struct slice tag, struct buf *name,
                              const struct redis_clean *c)
{
    const struct op_limits *l = c->limits;
    PRE(l->tiers_n > 0);
    request_eval(out, lua_clean_windows, c->names_n, CLEAN_ARGS + 2 * (size_t)l->tiers_n);
    for (uint32_t i = 0; i < c->names_n; i++) {
        name_windows(name, c->names[i]);
        clean_name_put(out, tag, name);
    }
    clean_args_put(out, c);
    for (uint32_t i = 0; i < l->tiers_n; i++) {
        request_int(out, l->tiers[i].window_s);
        request_int(out, l->tiers[i].keep_s);
    }
}

/* False: no answer of our scripts. */
static bool clean_file(struct redis_clean *c, const struct redis_answer *r)
{
    int64_t finished, removed, gone, odd;
    struct slice cursor;
    if (!answer_scan(r, "(iiiiis)", &finished, &removed, &gone, &odd, &c->now_s, &cursor)) return false;
    if (finished < 0 || finished > c->names_n || cursor.n >= sizeof c->cursor) return false;
    c->finished = (uint32_t)finished;
    c->removed = (uint64_t)removed;
    c->gone = (uint32_t)gone;
    c->odd = (uint32_t)odd;
    bool midst = !slice_eq(cursor, SLICE("0"));
    if (midst) memcpy(c->cursor, cursor.p, cursor.n);
    c->cursor[midst ? cursor.n : 0] = '\0';
    return true;
}

static void clean_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_clean *c = arg;
    (void)l, (void)at;
    c->lost = r == NULL;
    if (!clean_file(c, r)) answer_why(r, c->text, sizeof c->text);
    c->done(c);
}

void redis_clean(struct redis_link *l, struct redis_clean *c)
{
    static void (*const put[])(struct buf *, struct slice, struct buf *, const struct redis_clean *) = {
        [REDIS_CLEAN_SERIES] = clean_series_put,
        [REDIS_CLEAN_EVENTS] = clean_events_put,
        [REDIS_CLEAN_WINDOWS] = clean_windows_put,
    };
    struct buf name = {0};
    PRE(c->names_n > 0 && c->names_n <= REDIS_CLEAN_NAMES_MAX);
    c->text[0] = '\0';
    put[c->kind](redis_link_begin(l), redis_tag(l), &name, c);
    buf_free(&name);
    redis_link_ask(l, 1, clean_done, c);
}
