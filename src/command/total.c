/* command/total.c - CTR.TOTAL key field [field ...] | FROM first TO last [OR STALE], and HMGET, HGET and GET with Redis' shapes of a
 * reply: what a merchant would see if all were merged now. The numbers come from sync/ (total.c); here are the last ones, for OR
 * STALE. */
#include "base/heap.h"
#include "command/inside.h"
#include "series/range.h"
#include "series/row.h"

_Static_assert(RANGE_MAX <= TOTAL_FIELDS_ASKED_MAX, "a range is that many fields");

static void total_answer(struct total_request *t, bool is_array, void (*put)(struct buf *out, int64_t total))
{
    struct session *s = CONTAINER_OF(t, struct session, ask.total);
    struct buf *out = &s->outlet->out;
    uint32_t n = t->sums ? 1 : t->fields_n;
    heap_free((void *)t->fields);
    if (ask_answers(s, t->outcome, t->text)) {
        if (is_array) reply_array(out, n);
        for (uint32_t i = 0; i < n; i++)
            put(out, t->totals[i]);
        if (put == reply_bulk_int) tracking_forget(s, t->key, out);
    }
    ask_end(s);
}

static void total_done(struct total_request *t)
{
    total_answer(t, true, reply_int);
}

static void hmget_done(struct total_request *t)
{
    total_answer(t, true, reply_bulk_int);
}

static void hget_done(struct total_request *t)
{
    total_answer(t, false, reply_bulk_int);
}

/* --- OR STALE: the last totals that were asked for so, the latest at the end of the list --- */

#define LAST_BYTES (sizeof(struct last) + 64) /* beside its name, which the map has, too */

#define LATE_MS 1000 /* clients of PHP often wait 2 s at most */

struct last {
    struct list place;
    int64_t total;
    uint64_t at_ms; /* mono */
    size_t name_n;
    char name[];
};

void lasts_init(struct command *c)
{
    map_init(&c->lasts.all);
    list_init(&c->lasts.oldest);
    list_init(&c->lasts.asked);
}

static void last_forget(struct command *c, struct last *l)
{
    list_remove(&l->place);
    c->lasts.bytes -= LAST_BYTES + 2 * l->name_n;
    map_remove(&c->lasts.all, slice_of(l->name, l->name_n));
    heap_free(l);
}

void lasts_close(struct command *c)
{
    while (!list_empty(&c->lasts.oldest))
        last_forget(c, CONTAINER_OF(c->lasts.oldest.next, struct last, place));
    map_close(&c->lasts.all);
    buf_free(&c->lasts.name);
}

static void total_name_add(struct buf *b, struct slice part)
{
    uint16_t n = (uint16_t)part.n;
    buf_put(b, (const char *)&n, sizeof n);
    buf_put_slice(b, part);
}

/* Of the i-th total; no two have the same name. */
static struct slice total_last_name(struct command *c, const struct total_request *t, uint32_t i)
{
    struct buf *name = &c->lasts.name;
    buf_reset(name);
    total_name_add(name, t->key);
    total_name_add(name, t->fields[i]);
    if (t->sums) total_name_add(name, t->fields[t->fields_n - 1]);
    return buf_slice(name);
}

static void last_keep(struct command *c, struct slice name, int64_t total)
{
    struct last *l = map_get(&c->lasts.all, name);
    if (l == NULL) {
        l = heap_alloc(sizeof *l + name.n);
        l->name_n = name.n;
        memcpy(l->name, name.p, name.n);
        map_put(&c->lasts.all, name, l);
        c->lasts.bytes += LAST_BYTES + 2 * name.n;
    } else {
        list_remove(&l->place);
    }
    l->total = total;
    l->at_ms = mono_ms();
    list_push(&c->lasts.oldest, &l->place);
    while (c->lasts.bytes > c->config.lasts_max)
        last_forget(c, CONTAINER_OF(c->lasts.oldest.next, struct last, place));
}

/* False: one of them is not known. */
static bool lasts_find(struct command *c, const struct total_request *t, uint32_t n, int64_t *totals,
                       uint64_t *since_ms)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct last *l = map_get(&c->lasts.all, total_last_name(c, t, i));
        if (l == NULL) return false;
        totals[i] = l->total;
        if (l->at_ms < *since_ms) *since_ms = l->at_ms;
    }
    return true;
}

/* It may outlive its session's patience. */
struct stale_ask {
    struct total_request total;
    struct session *session; /* NULL: it was told the last totals */
    struct command *command;
    struct list place; /* in lasts.asked, before LATE_MS */
    uint64_t since_ms; /* mono */
    struct buf bytes;  /* of key and fields */
};

static void stale_answer(struct stale_ask *a, enum ask_outcome outcome, const int64_t *totals,
                         uint64_t age_ms)
{
    struct session *s = a->session;
    uint32_t n = a->total.sums ? 1 : a->total.fields_n;
    if (ask_answers(s, outcome, a->total.text)) {
        reply_array(&s->outlet->out, n + 1);
        for (uint32_t i = 0; i < n; i++)
            reply_int(&s->outlet->out, totals[i]);
        reply_int(&s->outlet->out, (int64_t)(age_ms / 1000));
    }
    a->session = NULL;
    ask_end(s);
}

/* False: one of the last totals is not known. */
static bool stale_answer_last(struct stale_ask *a)
{
    int64_t last[TOTAL_FIELDS_ASKED_MAX];
    uint64_t now_ms = mono_ms(), since_ms = now_ms;
    uint32_t n = a->total.sums ? 1 : a->total.fields_n;
    if (!lasts_find(a->command, &a->total, n, last, &since_ms)) return false;
    STAT_ADD(totals_stale, 1);
    stale_answer(a, ASK_DONE, last, now_ms - since_ms);
    return true;
}

static void stale_free(struct stale_ask *a)
{
    list_remove(&a->place);
    heap_free((void *)a->total.fields);
    buf_free(&a->bytes);
    heap_free(a);
}

static void stale_done(struct total_request *t)
{
    struct stale_ask *a = CONTAINER_OF(t, struct stale_ask, total);
    struct command *c = a->command;
    uint32_t n = t->sums ? 1 : t->fields_n;
    for (uint32_t i = 0; i < n && t->outcome == ASK_DONE; i++)
        last_keep(c, total_last_name(c, t, i), t->totals[i]);
    if (a->session == NULL)
        c->lasts.late_n--;
    else if (t->outcome == ASK_DONE || !stale_answer_last(a))
        stale_answer(a, t->outcome, t->totals, 0);
    stale_free(a);
}

static void stale_ask(struct session *s)
{
    const struct command_ports *ports = &s->command->config.ports;
    struct lasts *lasts = &s->command->lasts;
    struct stale_ask *a = heap_zalloc(sizeof *a);
    a->total = s->ask.total;
    a->session = s;
    a->command = s->command;
    a->since_ms = mono_ms();
    a->bytes = s->key;
    s->key = (struct buf){0};
    list_push(&lasts->asked, &a->place);
    if (lasts->late_n > 0 && stale_answer_last(a))
        stale_free(a);
    else
        ports->total(ports->arg, s->lane, &a->total);
}

/* A MySQL or a Redis that does not answer is as good as away, for those whose last totals are known. */
void lasts_tick(struct command *c, uint64_t now_ms)
{
    while (!list_empty(&c->lasts.asked)) {
        struct stale_ask *a = CONTAINER_OF(c->lasts.asked.next, struct stale_ask, place);
        if (now_ms < a->since_ms + LATE_MS) return;
        list_remove(&a->place);
        if (stale_answer_last(a)) c->lasts.late_n++;
    }
}

/* --- the request --- */

/* A request of totals, as it is read: `words` of it are command, key and fields. */
struct total_words {
    const struct counter *counter;
    uint32_t words;
    struct range range; /* n = 0: none */
};

static bool fields_fit(struct session *s, const struct request *r, const struct total_words *w,
                       struct buf *out)
{
    const struct counter *c = w->counter;
    if (w->words - 2 > TOTAL_FIELDS_ASKED_MAX)
        return reply_errorf(out, "ERR too many fields: at most %d at once", TOTAL_FIELDS_ASKED_MAX);
    if (w->words == 2 && c->field != FIELD_NONE)
        return reply_errorf(out, "ERR counter '" SLICE_FMT "' counts by field: send HGET key field",
                            SLICE_ARG(c->name));
    for (uint32_t i = 2; i < w->words; i++) {
        if (counter_field_valid(c, r->args[i])) continue;
        return hit_refuse_field(s, r->args[1], r->args[i], out);
    }
    return true;
}

static struct value_type time_type(const struct counter *c)
{
    struct value_type type = c->spelled;
    type.kind = counter_field_kind(c);
    return type;
}

/* FROM first TO last */
static bool range_fits(struct session *s, const struct request *r, struct total_words *w, struct buf *out)
{
    char digits[2][PLAIN_BYTES], why[120];
    struct slice ends[2];
    const struct value_type type = time_type(w->counter);
    if (w->words != 6 || !word_is(r->args[4], "TO")) return words_syntax(out);
    for (uint32_t i = 0; i < 2; i++) {
        if (value_plain(&type, r->args[3 + 2 * i], digits[i], &ends[i])) continue;
        return hit_refuse_field(s, r->args[1], r->args[3 + 2 * i], out);
    }
    if (range_read(w->counter->field, ends[0], ends[1], 0, 0, &w->range, why, sizeof why)) return true;
    return reply_errorf(out, "ERR %s", why);
}

/* Key and fields one after the other in s->key; the slices have memory of their own. */
static void fields_keep(struct session *s, const struct request *r, const struct total_words *w,
                        struct total_request *t)
{
    const struct value_type type = w->range.n > 0 ? time_type(w->counter) : (struct value_type){0};
    char digits[RANGE_FIELD_BYTES];
    t->fields_n = w->range.n > 0 ? (uint32_t)w->range.n : w->words > 2 ? w->words - 2 : 1;
    struct slice *fields = heap_alloc(t->fields_n * sizeof *fields);
    buf_reset(&s->key);
    buf_put_slice(&s->key, r->args[1]);
    for (uint32_t i = 0; i < t->fields_n; i++) {
        size_t before = s->key.n;
        if (w->range.n > 0)
            value_spell(&type, slice_of(digits, range_field(&w->range, i, digits)), &s->key);
        else
            buf_put_slice(&s->key, w->words > 2 ? r->args[i + 2] : FIELD_ONLY);
        fields[i].n = s->key.n - before;
    }
    const char *at = s->key.p;
    t->key = slice_of(at, r->args[1].n);
    at += r->args[1].n;
    for (uint32_t i = 0; i < t->fields_n; at += fields[i++].n)
        fields[i].p = at;
    t->fields = fields;
}

enum taken run_total(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool is_hget = word_is(r->args[0], "HGET") || word_is(r->args[0], "GET"),
         is_hmget = word_is(r->args[0], "HMGET"), is_plain = !is_hget && !is_hmget;
    bool stale = is_plain && r->args_n >= 4 && word_is(r->args[r->args_n - 2], "OR") &&
                 word_is(r->args[r->args_n - 1], "STALE");
    struct total_words w = {.counter = hit_counter(s, r->args[1], out), .words = r->args_n - (stale ? 2 : 0)};
    if (w.counter == NULL) return TAKEN;
    bool is_range =
        is_plain && w.words > 2 && field_digits(w.counter->field) > 0 && word_is(r->args[2], "FROM");
    if (!(is_range ? range_fits(s, r, &w, out) : fields_fit(s, r, &w, out))) return TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    s->ask.total = (struct total_request){.who = s->user,
                                          .counter = w.counter,
                                          .sums = is_range,
                                          .done = is_hget    ? hget_done
                                                  : is_hmget ? hmget_done
                                                  : stale    ? stale_done
                                                             : total_done};
    fields_keep(s, r, &w, &s->ask.total);
    ask_begin(s);
    if (stale)
        stale_ask(s);
    else
        ports->total(ports->arg, s->lane, &s->ask.total);
    return TAKEN;
}
