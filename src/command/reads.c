/* command/reads.c - reads of series, timeboxes, events and visitors: asked as in asks.c, answered with a flat array in RESP2 and
 * RESP3 alike. */
#include "command/inside.h"
#include "series/names.h"

#define WINDOW_MAX_S                                                                                         \
    INT64_C(315360000) /* ten years; times the most windows of a reply it is exact in Redis' Lua */

/* "<precision>:<name>" of all series, less those that this session may not name. */
static void names_reply(const struct session *s, const struct query_answer *a, struct buf *out)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) reply_array(out, n);
        for (size_t i = 0; i < a->n; i++) {
            struct slice text = QUERY_TEXT(a, &a->values[i]);
            const char *colon = memchr(text.p, ':', text.n);
            size_t head = colon == NULL ? 0 : (size_t)(colon - text.p) + 1;
            if (!guard_names(s, slice_of(text.p + head, text.n - head))) continue;
            if (pass == 1)
                reply_bulk(out, text);
            else
                n++;
        }
    }
}

static void values_reply(const struct query_answer *a, struct buf *out)
{
    reply_array(out, a->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct query_value *v = &a->values[i];
        if (v->is_text)
            reply_bulk(out, QUERY_TEXT(a, v));
        else
            reply_int(out, v->number);
    }
}

static void reads_done(struct read_request *q)
{
    struct session *s = CONTAINER_OF(q, struct session, ask.read);
    if (ask_answers(s, q->outcome, q->text)) {
        if (q->query.kind == QUERY_NAMES)
            names_reply(s, q->answer, &s->outlet->out);
        else
            values_reply(q->answer, &s->outlet->out);
    }
    answer_end(s);
    ask_end(s);
}

static enum taken read_ask(struct session *s, enum op_kind kind, const struct query *q, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    if (q->kind != QUERY_NAMES && !names_fit(s, kind, q->name, q->type, q->from, out)) return TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    if (!answer_begin(s, q, out)) return s->state == SESSION_QUEUED ? LEFT : TAKEN;
    s->ask.read = (struct read_request){.who = s->user, .query = *q, .done = reads_done};
    buf_reset(&s->key);
    buf_reserve(&s->key, q->name.n + q->type.n + 1); /* not NULL, even without a name */
    buf_put_slice(&s->key, q->name);
    buf_put_slice(&s->key, q->type);
    s->ask.read.query.name = slice_of(s->key.p, q->name.n);
    s->ask.read.query.type = slice_of(s->key.p + q->name.n, q->type.n);
    if (q->kind != QUERY_NAMES) (void)lane_of_op(s, kind, q->name);
    ask_begin(s);
    if (q->kind == QUERY_NAMES && s->command->config.lanes_n > 1)
        fan_names(s);
    else
        ports->read(ports->arg, s->lane, &s->ask.read);
    return TAKEN;
}

/* ---- SERIES.GET, SERIES.LIST: Redis in Action's get_counter ---- */

static bool precision_read(struct session *s, struct slice w, uint32_t *precision_s, struct buf *out)
{
    const struct op_limits *l = s->command->config.counters->ops;
    struct buf line = {0};
    int64_t asked;
    if (!word_positive(w, &asked, out)) return false;
    for (uint32_t i = 0; i < l->precisions_n; i++) {
        if (l->precisions[i] != asked) continue;
        *precision_s = l->precisions[i];
        return true;
    }
    buf_printf(&line, "ERR precision %lld is not kept; kept are", (long long)asked);
    for (uint32_t i = 0; i < l->precisions_n; i++)
        buf_printf(&line, "%s %u", i > 0 ? "," : "", l->precisions[i]);
    reply_error_slice(out, buf_slice(&line));
    buf_free(&line);
    return false;
}

/* [FROM s] [TO s], in any order, each at most once. */
static bool span_read(const struct request *r, struct query *q, struct buf *out)
{
    bool has_from = false, has_to = false;
    for (uint32_t i = 3; i < r->args_n; i += 2) {
        bool is_from = word_is(r->args[i], "FROM"), is_to = word_is(r->args[i], "TO");
        if (i + 1 == r->args_n || (!is_from && !is_to) || (is_from && has_from) || (is_to && has_to))
            return words_syntax(out);
        if (!word_second(r->args[i + 1], is_from ? &q->from : &q->to, out)) return false;
        has_from |= is_from;
        has_to |= is_to;
    }
    return true;
}

/* SERIES.GET name precision [FROM s] [TO s]: slot, n, slot, n ... of the samples that begin in that time */
enum taken run_series_get(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_SERIES, .name = r->args[1], .type = NO_TYPE, .to = INT64_MAX};
    if (!precision_read(s, r->args[2], &q.precision_s, out) || !span_read(r, &q, out)) return TAKEN;
    return read_ask(s, OP_SERIES, &q, out);
}

enum taken run_series_list(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    return read_ask(s, OP_SERIES, &(struct query){.kind = QUERY_NAMES, .name = NO_TYPE, .type = NO_TYPE},
                    out);
}

/* ---- BOX.RECENT, BOX.TOP, BOX.BOTTOM: bounded timeboxes ---- */

/* BOX.RECENT name offset limit: bucket, hits ... from the newest on, the first `offset` left out */
enum taken run_box_recent(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_TIMEBOX_RECENT, .name = r->args[1], .type = NO_TYPE};
    if (!word_not_negative(r->args[2], &q.offset, out) || !word_positive(r->args[3], &q.limit, out))
        return TAKEN;
    return read_ask(s, OP_TIMEBOX, &q, out);
}

/* BOX.TOP name n, BOX.BOTTOM name n: bucket, hits ... of the busiest, of the quietest */
enum taken run_box_extreme(struct session *s, const struct request *r, struct buf *out)
{
    bool top = word_is(r->args[0], "BOX.TOP");
    struct query q = {
        .kind = top ? QUERY_TIMEBOX_TOP : QUERY_TIMEBOX_BOTTOM, .name = r->args[1], .type = NO_TYPE};
    return word_positive(r->args[2], &q.limit, out) ? read_ask(s, OP_TIMEBOX, &q, out) : TAKEN;
}

/* ---- EVENT.RANGE, EVENT.COUNT: every event by its second, counted in any windows later ---- */

static const struct query_limits *limits_of(const struct session *s)
{
    return &s->command->config.counters->ops->read;
}

static bool part_read(const struct session *s, const struct request *r, struct query *q, struct buf *out)
{
    if (r->args_n == 5) return true;
    if (r->args_n != 8 || !word_is(r->args[5], "LIMIT")) return words_syntax(out);
    if (!word_not_negative(r->args[6], &q->offset, out) || !word_positive(r->args[7], &q->limit, out))
        return false;
    if (q->limit <= limits_of(s)->most) return true;
    return reply_errorf(out, "ERR at most %u events come at once; ask for more with a larger offset",
                        limits_of(s)->most);
}

/* EVENT.RANGE name type from to [LIMIT offset count]: id, second, id, second ... */
enum taken run_event_range(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_EVENTS, .name = r->args[1], .type = r->args[2], .limit = -1};
    if (!word_second(r->args[3], &q.from, out) || !word_second(r->args[4], &q.to, out) ||
        !part_read(s, r, &q, out))
        return TAKEN;
    return read_ask(s, OP_EVENT, &q, out);
}

/* EVENT.COUNT name type span window: the counts of the last span / window windows, aligned to Redis' clock, oldest first;
 * the last of them is the open one. */
enum taken run_event_count(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_WINDOWS, .name = r->args[1], .type = r->args[2]};
    int64_t span_s;
    if (!word_positive(r->args[3], &span_s, out) || !word_positive(r->args[4], &q.window_s, out))
        return TAKEN;
    int64_t n = span_s / q.window_s;
    q.windows_n = (uint32_t)n;
    if (n == 0)
        reply_error(out, "ERR the span is shorter than one window");
    else if (n > limits_of(s)->most)
        reply_errorf(out, "ERR span / window is %lld windows; at most %u are counted at once", (long long)n,
                     limits_of(s)->most);
    else if (q.window_s > WINDOW_MAX_S)
        reply_errorf(out, "ERR a window is at most %lld s", (long long)WINDOW_MAX_S);
    else
        return read_ask(s, OP_EVENT, &q, out);
    return TAKEN;
}

/* ---- UNIQ.COUNT: different visitors of a day, or of several ---- */

/* UNIQ.COUNT name day [day]: how many, and "exact" or "estimated"; of the days from the first to the last, united */
enum taken run_uniq_count(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_VISITORS, .name = r->args[1], .type = NO_TYPE};
    if (r->args_n > 4)
        return reply_error(out, "ERR wrong number of arguments for 'uniq.count' command"), TAKEN;
    if (!word_day(r->args[2], &q.from, out) || !word_day(r->args[r->args_n - 1], &q.to, out)) return TAKEN;
    uint32_t most = s->command->config.counters->ops->read.days;
    int64_t n = day_number(q.to) - day_number(q.from) + 1;
    if (q.to < q.from)
        reply_errorf(out, "ERR day %lld is after day %lld; the first day comes first", (long long)q.from,
                     (long long)q.to);
    else if (n > most)
        reply_errorf(out, "ERR that is %lld days; at most %u are united at once", (long long)n, most);
    else
        return read_ask(s, OP_UNIQ, &q, out);
    return TAKEN;
}
