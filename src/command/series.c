/* command/series.c - SERIES.GET, SERIES.LIST: Redis in Action's get_counter. */
#include "command/inside.h"

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
