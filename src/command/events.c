/* command/events.c - EVENT.RANGE, EVENT.COUNT: every event by its second, counted in any windows later. */
#include "command/inside.h"

#define WINDOW_MAX_S                                                                                         \
    INT64_C(315360000) /* ten years; times the most windows of a reply it is exact in Redis' Lua */

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
    reply_errorf(out, "ERR at most %u events come at once; ask for more with a larger offset",
                 limits_of(s)->most);
    return false;
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

static bool windows_read(const struct session *s, const struct request *r, struct query *q, struct buf *out)
{
    int64_t span_s;
    if (!word_positive(r->args[3], &span_s, out) || !word_positive(r->args[4], &q->window_s, out))
        return false;
    int64_t n = span_s / q->window_s;
    if (n == 0) {
        reply_error(out, "ERR the span is shorter than one window");
    } else if (n > limits_of(s)->most) {
        reply_errorf(out, "ERR span / window is %lld windows; at most %u are counted at once", (long long)n,
                     limits_of(s)->most);
    } else if (q->window_s > WINDOW_MAX_S) {
        reply_errorf(out, "ERR a window is at most %lld s", (long long)WINDOW_MAX_S);
    } else {
        q->windows_n = (uint32_t)n;
        return true;
    }
    return false;
}

/* EVENT.COUNT name type span window: the counts of the last span / window windows, aligned to Redis' clock, oldest first;
 * the last of them is the open one. */
enum taken run_event_count(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_WINDOWS, .name = r->args[1], .type = r->args[2]};
    return windows_read(s, r, &q, out) ? read_ask(s, OP_EVENT, &q, out) : TAKEN;
}
