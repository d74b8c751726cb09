/* command/hits.c - increments: HINCRBY, CTR.INCRBY, which may have a token, and CTR.HIT, whose field is today; and what writes to
 * series, timeboxes, events and visitors, which goes into the frame as a hit does. Their replies come with the frame (coalesce/). */
#include "base/stats.h"
#include "command/inside.h"
#include "protocol/request.h"

#define PREFIX_MOST 100

/* What follows a prefix of the key, and has a counter: many clients put one before each key. n = 0: there is none. */
static struct slice key_behind_prefix(struct session *s, struct slice key)
{
    for (size_t n = 1; n < key.n && n <= PREFIX_MOST; n++) {
        struct slice rest = slice_of(key.p + n, key.n - n);
        if (memchr("_:-./|", key.p[n - 1], 6) != NULL && coalesce_counter(lane_coalesce(s), rest) != NULL)
            return rest;
    }
    return slice_of(key.p, 0);
}

/* The counter that has integers where this key has another text, and none behind a prefix; NULL: there is none. */
static const struct counter *counter_but_for_text(struct session *s, struct slice key, struct slice rest,
                                                  struct slice *place, struct slice *value)
{
    const struct counters *all = s->command->config.counters;
    for (size_t i = 0; i < all->n; i++) {
        const struct counter *c = &all->all[i];
        if (pattern_misfit(&c->key, c->store, key, place, value) &&
            !pattern_match(&c->key, c->store, rest, NULL))
            return c;
    }
    return NULL;
}

void hit_refuse_key(struct session *s, struct slice key, struct buf *out)
{
    struct slice rest = key_behind_prefix(s, key), prefix = slice_of(key.p, key.n - rest.n), place, value;
    const struct counter *other = counter_but_for_text(s, key, rest, &place, &value);
    struct buf why = {0};
    if (other != NULL && slice_eq(place, SLICE("store")))
        buf_printf(&why,
                   ": '%s' is no integer, as the stores of counter '" SLICE_FMT
                   "' are (counters.*.store: text)",
                   SLICE_SHOW(value, SHOWN_BYTES), SLICE_ARG(other->name));
    else if (other != NULL)
        buf_printf(&why,
                   ": '%s' is no integer, as each <" SLICE_FMT "> of counter '" SLICE_FMT
                   "' is (counters.*.kinds: { " SLICE_FMT ": text })",
                   SLICE_SHOW(value, SHOWN_BYTES), SLICE_ARG(place), SLICE_ARG(other->name),
                   SLICE_ARG(place));
    else if (rest.n > 0) {
        BUF_LIT(&why, ", but \"");
        pattern_text(&coalesce_counter(lane_coalesce(s), rest)->key, &why);
        buf_printf(&why,
                   "\" is for '%s': take the prefix '%s' out of the client, or put it into the counter's key",
                   SLICE_SHOW(rest, SHOWN_BYTES), SLICE_SHOW(prefix, PREFIX_MOST));
    }
    reply_errorf(out, "ERR no counter is configured for key '%s'" SLICE_FMT, SLICE_SHOW(key, SHOWN_BYTES),
                 SLICE_ARG(buf_slice(&why)));
    buf_free(&why);
}

const struct counter *hit_counter(struct session *s, struct slice key, struct buf *out)
{
    const struct counter *c = coalesce_counter(lane_of_hit(s, key), key);
    if (c == NULL) hit_refuse_key(s, key, out);
    return c;
}

bool hit_refuse_field(struct session *s, struct slice key, struct slice field, struct buf *out)
{
    const struct counter *c = coalesce_counter(lane_of_hit(s, key), key);
    PRE(c != NULL);
    struct buf expected = {0};
    counter_field_expected(c, &expected);
    reply_errorf(out, "ERR field '%s' of counter '" SLICE_FMT "' is not " SLICE_FMT,
                 SLICE_SHOW(field, SHOWN_BYTES), SLICE_ARG(c->name), SLICE_ARG(buf_slice(&expected)));
    buf_free(&expected);
    return false;
}

static bool is_of_today(const struct request *r)
{
    return word_is(r->args[0], "CTR.HIT");
}

static bool is_decr(const struct request *r)
{
    return (r->args[0].p[0] | 0x20) == 'd';
}

/* INCR, INCRBY, DECR, DECRBY; no other increment begins so. */
static bool is_incr(const struct request *r)
{
    return is_decr(r) || (r->args[0].p[0] | 0x20) == 'i';
}

static void hit_refuse_token(struct session *s, struct slice key, struct buf *out)
{
    const struct counter *c = coalesce_counter(lane_of_hit(s, key), key);
    PRE(c != NULL);
    reply_errorf(out,
                 "ERR counter '" SLICE_FMT
                 "' feeds other counts, which a token cannot keep from moving twice; nothing was counted",
                 SLICE_ARG(c->name));
}

void hit_refused(struct session *s, struct slice key, const struct buf *out, size_t before)
{
    struct command *c = s->command;
    STAT_ADD(hits_refused, 1);
    if (c->refused_id != s->id) c->config.client.peer(s->conn, c->refused_peer, sizeof c->refused_peer);
    c->refused_id = s->id;
    refusals_add(1, slice_of(out->p + before, out->n - before), key, c->refused_peer);
}

static void refusal_reply(struct session *s, const struct request *r, enum add_result result, struct buf *out)
{
    int64_t delta;
    switch (result) {
    case ADD_NO_COUNTER:
        hit_refuse_key(s, r->args[1], out);
        return;
    case ADD_FIELD:
        hit_refuse_field(s, r->args[1], r->args[2], out);
        return;
    case ADD_DELTA:
        (void)word_delta(s, r->args[is_of_today(r) || is_incr(r) ? 2 : 3], &delta, out); /* it says so */
        return;
    case ADD_FED:
        hit_refuse_token(s, r->args[1], out);
        return;
    case ADD_DOWN:
        reply_error(out, coalesce_down_text(lane_coalesce(s)));
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

void hit_refuse(struct session *s, const struct request *r, enum add_result result, struct buf *out)
{
    size_t before = out->n;
    refusal_reply(s, r, result, out);
    hit_refused(s, r->args[1], out, before);
}

int64_t hit_second(const struct session *s)
{
    int64_t now_s = redis_now_s(s);
    return now_s < 0 ? 0 : now_s;
}

/* Today, this hour or this month, in the store's zone. False: the counter's field is no time. */
static bool today_of(struct session *s, const struct counter *c, struct slice key, struct slice *field)
{
    struct zone_view *zones = s->command->config.zones;
    size_t digits = field_digits(c->field);
    if (digits == 0) return false;
    zone_view_refresh(zones);
    struct slice hour = zone_view_hour(zones, zone_view_of(zones, counter_store(c, key)), hit_second(s));
    *field = slice_of(hour.p, digits);
    if (c->spelled.spelling == SPELLED_DIGITS) return true;
    struct buf *today = &s->command->today;
    buf_reset(today);
    value_spell(&c->spelled, *field, today);
    *field = buf_slice(today);
    return true;
}

/* [TOKEN id], the last words from `at` on. */
static bool token_read(const struct request *r, uint32_t at, struct coalesce_token *hit, struct buf *out)
{
    if (r->args_n == at) return true;
    if (r->args_n != at + 2 || !word_is(r->args[at], "TOKEN")) return words_syntax(out);
    hit->id = r->args[at + 1];
    return word_token(hit->id, out);
}

/* CTR.HIT key [n] [TOKEN id] */
static bool today_read(struct session *s, const struct request *r, struct coalesce_token *hit,
                       struct buf *out)
{
    *hit = (struct coalesce_token){.key = r->args[1], .delta = 1, .today = true};
    uint32_t at = r->args_n % 2 == 1 ? 3 : 2;
    if (at == 3 && !word_int(r->args[2], &hit->delta, out)) return false;
    if (!token_read(r, at, hit, out)) return false;
    const struct counter *c = hit_counter(s, hit->key, out);
    if (c == NULL || today_of(s, c, hit->key, &hit->field)) return c != NULL;
    return reply_errorf(out,
                        "ERR counter '" SLICE_FMT
                        "' counts by %s, so it has no field of today; CTR.HIT is for "
                        "counters by date, hour or month, use HINCRBY",
                        SLICE_ARG(c->name), field_kind_name(c->field));
}

/* INCR key, INCRBY key n: of a counter whose key says all. */
static bool incr_read(struct session *s, const struct request *r, struct coalesce_token *hit, struct buf *out)
{
    *hit = (struct coalesce_token){.key = r->args[1], .field = FIELD_ONLY, .delta = 1};
    if (r->args_n == 3 && !word_int(r->args[2], &hit->delta, out)) return false;
    if (is_decr(r)) {
        if (hit->delta == INT64_MIN) return reply_error(out, "ERR decrement would overflow"), false;
        hit->delta = -hit->delta;
    }
    const struct counter *c = hit_counter(s, hit->key, out);
    if (c == NULL || c->field == FIELD_NONE) return c != NULL;
    return reply_errorf(out, "ERR counter '" SLICE_FMT "' counts by field: send HINCRBY key field n",
                        SLICE_ARG(c->name));
}

bool hit_read(struct session *s, const struct request *r, struct coalesce_token *hit, struct buf *out)
{
    if (is_of_today(r)) return today_read(s, r, hit, out);
    if (is_incr(r)) return incr_read(s, r, hit, out);
    *hit = (struct coalesce_token){.key = r->args[1], .field = r->args[2]};
    return word_int(r->args[3], &hit->delta, out) && token_read(r, 4, hit, out);
}

enum add_result hit_add(struct session *s, const struct coalesce_token *hit)
{
    struct coalesce *c = lane_of_hit(s, hit->key);
    struct outlet *o = lane_outlet(s);
    if (hit->id.n == 0) return lane_added(s, coalesce_add(c, o, hit->key, hit->field, hit->delta));
    struct slice user = slice_str(s->user != NULL ? s->user->name : "");
    enum add_result got = coalesce_add_token(c, o, hit, user);
    if (got == ADD_OK) guard_weighed(s, SCRIPT_HITS);
    return lane_added(s, got);
}

/* The end of a request that writes: taken, refused, or parked until there is room. */
static enum taken hit_end(struct session *s, const struct request *r, enum add_result got, struct buf *out)
{
    if (got == ADD_OK) return TAKEN;
    if (got != ADD_FULL) return hit_refuse(s, r, got, out), TAKEN;
    coalesce_park(lane_coalesce(s), lane_outlet(s));
    session_wait(s, SESSION_PARKED);
    return LEFT;
}

enum taken hit_run(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce_token hit;
    size_t before = out->n;
    if (!hit_read(s, r, &hit, out)) return hit_refused(s, r->args[1], out, before), TAKEN;
    return hit_end(s, r, hit_add(s, &hit), out);
}

/* ---- SERIES.INCRBY, BOX.INCRBY, EVENT.ADD, UNIQ.ADD ---- */

/* SERIES.INCRBY name n [AT s], BOX.INCRBY name n [AT s] */
static bool incrby_read(const struct session *s, const struct request *r, struct coalesce_op *op,
                        struct buf *out)
{
    return word_delta(s, r->args[2], &op->n, out) && words_options(r, op, NULL, out);
}

/* EVENT.ADD name type [AT s] [ID id] */
static bool event_read(const struct request *r, struct coalesce_op *op, struct buf *out)
{
    op->type = r->args[2];
    return words_options(r, op, &op->id, out);
}

/* UNIQ.ADD name day visitor. A visitor that is an integer from 0 on may have a bit; any other is a text. */
static bool visitor_read(const struct request *r, struct coalesce_op *op, struct buf *out)
{
    if (!word_day(r->args[2], &op->at, out) || !word_text("a visitor", r->args[3], out)) return false;
    if (!num_parse(r->args[3], &op->visitor) || op->visitor < 0) op->id = r->args[3];
    return true;
}

static bool op_words(const struct session *s, const struct request *r, struct coalesce_op *op,
                     struct buf *out)
{
    switch (r->args[0].p[0] | 0x20) { /* the command table has it, so it is one of four */
    case 's':
        op->kind = OP_SERIES;
        return incrby_read(s, r, op, out);
    case 'b':
        op->kind = OP_TIMEBOX;
        return incrby_read(s, r, op, out);
    case 'e':
        op->kind = OP_EVENT;
        return event_read(r, op, out);
    case 'u':
        op->kind = OP_UNIQ;
        if (s->user != NULL && s->command->config.counters->ops->uniq_growth > 0)
            op->user = slice_str(s->user->name);
        return visitor_read(r, op, out);
    default:
        UNREACHABLE();
    }
}

bool op_read(struct session *s, const struct request *r, struct coalesce_op *op, struct buf *out)
{
    *op = (struct coalesce_op){.name = r->args[1], .type = NO_TYPE, .at = COALESCE_NOW};
    return op_words(s, r, op, out) && names_fit(s, op->kind, op->name, op->type, op->at, out);
}

/* The cleaner would delete an event older than events.keep at once, and its windows would be counted without their
 * other events, which are gone already. */
static bool event_is_kept(const struct session *s, int64_t at, struct buf *out)
{
    int64_t keep_s = s->command->config.counters->ops->events_keep_s;
    if (at >= redis_now_s(s) - keep_s) return true;
    return reply_errorf(out, "ERR time %lld is too long ago: events are kept for %lld s (events.keep)",
                        (long long)at, (long long)keep_s);
}

bool op_in_time(const struct session *s, const struct coalesce_op *op, struct buf *out)
{
    if (op->at == COALESCE_NOW) return true;
    if (op->kind == OP_UNIQ) return day_begun(s, op->at, out);
    return (op->kind != OP_EVENT || event_is_kept(s, op->at, out)) && second_begun(s, op->at, out);
}

enum add_result op_add(struct session *s, const struct coalesce_op *op)
{
    struct coalesce *c = lane_of_op(s, op->kind, op->name);
    enum add_result got = coalesce_op(c, lane_outlet(s), op);
    INVARIANT(got == ADD_OK || got == ADD_FULL || got == ADD_BUSY || got == ADD_DOWN);
    if (got == ADD_OK) guard_weighed(s, op->kind == OP_UNIQ ? SCRIPT_HITS : coalesce_op_cells(c, op->kind));
    return lane_added(s, got);
}

enum taken op_run(struct session *s, const struct request *r, struct buf *out)
{
    struct coalesce_op op;
    size_t before = out->n;
    if (!op_read(s, r, &op, out) || !op_in_time(s, &op, out))
        return hit_refused(s, r->args[1], out, before), TAKEN;
    return hit_end(s, r, op_add(s, &op), out);
}
