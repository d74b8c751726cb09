/* command/words.c - checks the arguments of a request: each false comes with the error line in out. The wording is
 * Redis' where Redis has the same error. */
#include "base/slice.h"
#include "command/inside.h"
#include "series/names.h"
#include "series/op.h"

#define ZONES_S (14 * 3600) /* in the Pacific the day begins this long before it does on Redis' clock */

bool word_int(struct slice w, int64_t *v, struct buf *out)
{
    return num_parse(w, v) || reply_error(out, "ERR value is not an integer or out of range");
}

static bool word_least(struct slice w, int64_t least, int64_t *v, struct buf *out)
{
    if (!word_int(w, v, out)) return false;
    return *v >= least || reply_error(out, "ERR value is out of range, must be positive");
}

bool word_positive(struct slice w, int64_t *v, struct buf *out)
{
    return word_least(w, 1, v, out);
}

bool word_not_negative(struct slice w, int64_t *v, struct buf *out)
{
    return word_least(w, 0, v, out);
}

bool word_delta(const struct session *s, struct slice w, int64_t *v, struct buf *out)
{
    int64_t most = coalesce_hit_max(s->command->config.lanes[0]);
    if (!word_int(w, v, out)) return false;
    if (*v <= most && *v >= -most) return true;
    return reply_errorf(out,
                        "ERR increment '" SLICE_FMT "' is too large: at most %lld either way (limits.hit)",
                        SLICE_ARG(w), (long long)most);
}

bool word_second(struct slice w, int64_t *v, struct buf *out)
{
    if (!word_int(w, v, out)) return false;
    if (*v >= 0) return true;
    return reply_errorf(out, "ERR time '" SLICE_FMT "' is before 1970; times are seconds since then",
                        SLICE_ARG(w));
}

bool word_text(const char *what, struct slice w, struct buf *out)
{
    if (w.n >= 1 && w.n <= OP_TEXT_BYTES_MAX) return true;
    return reply_errorf(out, "ERR %s is 1 to %d bytes", what, OP_TEXT_BYTES_MAX);
}

bool word_token(struct slice w, struct buf *out)
{
    bool is_good = w.n >= 1 && w.n <= TOKEN_BYTES_MAX;
    for (size_t i = 0; i < w.n && is_good; i++)
        is_good = w.p[i] > ' ' && w.p[i] <= '~';
    if (is_good) return true;
    return reply_errorf(out, "ERR a TOKEN is 1 to %d printable ASCII characters without a space",
                        TOKEN_BYTES_MAX);
}

bool word_day(struct slice w, int64_t *day, struct buf *out)
{
    if (!field_valid(FIELD_DATE, w) || !num_parse(w, day))
        return reply_errorf(out, "ERR day '%s' is not %s", SLICE_SHOW(w, SHOWN_BYTES),
                            field_kind_expected(FIELD_DATE));
    return *day >= DAY_FIRST || reply_errorf(out, "ERR day '" SLICE_FMT "' is before 1970", SLICE_ARG(w));
}

bool word_is(struct slice w, const char *upper)
{
    return slice_ieq(w, slice_str(upper));
}

bool words_syntax(struct buf *out)
{
    return reply_error(out, "ERR syntax error");
}

bool words_options(const struct request *r, struct coalesce_op *op, struct slice *id, struct buf *out)
{
    for (uint32_t i = 3; i < r->args_n; i += 2) {
        if (i + 1 == r->args_n) return words_syntax(out);
        struct slice value = r->args[i + 1];
        if (word_is(r->args[i], "AT") && op->at == COALESCE_NOW) {
            if (!word_second(value, &op->at, out)) return false;
        } else if (id != NULL && word_is(r->args[i], "ID") && id->p == NULL) {
            if (!word_text("an ID", value, out)) return false;
            *id = value;
        } else {
            return words_syntax(out);
        }
    }
    return true;
}

int64_t redis_now_s(const struct session *s)
{
    const struct command_ports *ports = &s->command->config.ports;
    return ports->redis_ms(ports->arg) / 1000;
}

bool second_begun(const struct session *s, int64_t at, struct buf *out)
{
    int64_t ahead_s = s->command->config.counters->ops->ahead_s, now_s = redis_now_s(s);
    if (at <= now_s + ahead_s) return true;
    return reply_errorf(out, "ERR time %lld is %lld s ahead of Redis' clock; at most %lld s are allowed",
                        (long long)at, (long long)(at - now_s), (long long)ahead_s);
}

/* A day is one of the merchant's time zone. Each day takes memory, so one of long ago is refused. */
bool day_begun(const struct session *s, int64_t day, struct buf *out)
{
    const struct op_limits *limits = s->command->config.counters->ops;
    int64_t now_s = redis_now_s(s), most = limits->uniq_days;
    if (day > day_of_s(now_s + limits->ahead_s + ZONES_S))
        return reply_errorf(out, "ERR day %lld has not begun yet in any time zone", (long long)day);
    if (most > 0 && day_number(day) < (now_s - ZONES_S) / 86400 - most)
        return reply_errorf(out, "ERR day %lld is more than %lld days back (uniques.days)", (long long)day,
                            (long long)most);
    return true;
}

bool names_fit(struct session *s, enum op_kind kind, struct slice name, struct slice type, int64_t day,
               struct buf *out)
{
    struct command *c = s->command;
    buf_reset(&c->why);
    if (op_names_fit(c->config.counters, kind, name, type, day, &c->name, &c->why)) return true;
    return reply_error_slice(out, buf_slice(&c->why));
}
