/* command/uniques.c - UNIQ.COUNT: different visitors of a day, or of several. */
#include "command/inside.h"
#include "series/names.h"

static bool days_read(const struct session *s, const struct request *r, struct query *q, struct buf *out)
{
    if (r->args_n > 4) {
        reply_error(out, "ERR wrong number of arguments for 'uniq.count' command");
        return false;
    }
    if (!word_day(r->args[2], &q->from, out) || !word_day(r->args[r->args_n - 1], &q->to, out)) return false;
    if (q->to < q->from) {
        reply_errorf(out, "ERR day %lld is after day %lld; the first day comes first", (long long)q->from,
                     (long long)q->to);
        return false;
    }
    uint32_t most = s->command->config.counters->ops->read.days;
    int64_t n = day_number(q->to) - day_number(q->from) + 1;
    if (n <= most) return true;
    reply_errorf(out, "ERR that is %lld days; at most %u are united at once", (long long)n, most);
    return false;
}

/* UNIQ.COUNT name day [day]: how many, and "exact" or "estimated"; of the days from the first to the last, united */
enum taken run_uniq_count(struct session *s, const struct request *r, struct buf *out)
{
    struct query q = {.kind = QUERY_VISITORS, .name = r->args[1], .type = NO_TYPE};
    return days_read(s, r, &q, out) ? read_ask(s, OP_UNIQ, &q, out) : TAKEN;
}
