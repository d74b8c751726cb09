/* command/hits.c - increments: HINCRBY and CTR.INCRBY. Their replies come with the frame (coalesce/). */
#include "base/num.h"
#include "base/stats.h"
#include "command/inside.h"

void hit_refuse_key(struct slice key, struct buf *out)
{
    char shown[4 * SHOWN_BYTES];
    reply_errorf(out, "ERR no counter is configured for key '%s'",
                 slice_show(key, SHOWN_BYTES, shown, sizeof(shown)));
}

void hit_refuse_field(struct session *s, struct slice key, struct slice field, struct buf *out)
{
    const struct counter *c = coalesce_counter(s->command->config.coalesce, key);
    PRE(c != NULL);
    char shown[4 * SHOWN_BYTES];
    reply_errorf(out, "ERR field '%s' of counter '" SLICE_FMT "' is not %s",
                 slice_show(field, SHOWN_BYTES, shown, sizeof(shown)), SLICE_ARG(c->name),
                 field_kind_expected(c->field));
}

void hit_refuse(struct session *s, const struct request *r, enum add_result result, struct buf *out)
{
    STAT_ADD(hits_refused, 1);
    switch (result) {
    case ADD_NO_COUNTER:
        hit_refuse_key(r->args[1], out);
        return;
    case ADD_FIELD:
        hit_refuse_field(s, r->args[1], r->args[2], out);
        return;
    case ADD_DELTA:
        reply_errorf(out, "ERR increment '" SLICE_FMT "' is too large: at most %lld either way",
                     SLICE_ARG(r->args[3]), (long long)DELTA_MAX);
        return;
    case ADD_DOWN:
        reply_error(out, coalesce_down_text(s->command->config.coalesce));
        return;
    case ADD_FULL:
    case ADD_BUSY:
        reply_error(out, "BUSY Redis does not keep up; nothing was counted, try again");
        return;
    case ADD_OK:
        break;
    }
    UNREACHABLE();
}

enum taken hit_run(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce *c = s->command->config.coalesce;
    int64_t n;
    if (!num_parse(r->args[3], &n)) {
        STAT_ADD(hits_refused, 1);
        reply_error(out, "ERR value is not an integer or out of range");
        return TAKEN;
    }
    enum add_result got = coalesce_add(c, s->outlet, r->args[1], r->args[2], n);
    if (got == ADD_OK) return TAKEN;
    if (got != ADD_FULL) {
        hit_refuse(s, r, got, out);
        return TAKEN;
    }
    coalesce_park(c, s->outlet);
    session_wait(s, SESSION_PARKED);
    return LEFT;
}
