/* redis/frame_events.c - events: `<name>:<type>` is a sorted set of ids by their second. What a frame carries of them:
 *   GET   how often a log has left tally:events; ZADD the logs that may have.
 *   EVAL  events that draw: numbers come from the ticker `<name>:index`, all of an op and the lease of its log in one
 *         INCRBY; a client's own id that is a number is checked.
 *   then those whose ids are given (frame_given.c).
 * An id that exists keeps its first second, and so does one that comes twice. The ticker never gives a number that
 * exists as a client's own id, and no own id becomes a number that the ticker has leased. */
#include "redis/frame_parts.h"
#include "redis/lua.h"

static bool is_numbered(const struct op_item *item)
{
    return item->text_n == 0;
}

static void pair_put(struct buf *out, int64_t at, int64_t n)
{
    request_int(out, at);
    request_int(out, n);
}

/* The events without an id of their own as (second, how many), in the order of arrival; returns how many pairs. out
 * NULL: only counts them. */
static uint32_t drawing_seconds_put(struct buf *out, const struct frame *f, const struct frame_op *op)
{
    uint32_t runs = 0;
    int64_t at = op->which, n = op->fed ? op->delta : 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (!is_numbered(item)) continue;
        if (n > 0 && item->at != at) {
            if (out != NULL) pair_put(out, at, n);
            runs++;
            n = 0;
        }
        at = item->at;
        n++;
    }
    if (n > 0 && out != NULL) pair_put(out, at, n);
    return runs + (n > 0);
}

static uint32_t numbered_count(const struct frame *f, const struct frame_op *op)
{
    uint32_t n = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        n += is_numbered(&f->items[i]);
    return n;
}

static void drawing_put(struct buf *out, const struct frame *f, const struct frame_op *op)
{
    request_slice(out, FRAME_NAME(f, op));
    request_int(out, drawing_seconds_put(NULL, f, op));
    request_int(out, op->items_n - numbered_count(f, op));
    request_int(out, op->lease_n);
    request_int(out, op->has_numbers);
    (void)drawing_seconds_put(out, f, op);
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        if (is_numbered(item)) continue;
        request_int(out, item->at);
        request_slice(out, FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

/* The ops of the script: all whose ids are not given. */
static struct frame_op *drawing_next(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_EVENT, op);
    while (next != NULL && (op_is_given(next) || next->which == EVENT_KEPT))
        next = op_next(f, OP_EVENT, next);
    return next;
}

uint32_t events_drawn_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    struct buf *name = &fr->scratch;
    size_t keys = 2, args = 0;
    const struct frame_op *op;
    for (op = drawing_next(f, NULL); op != NULL; op = drawing_next(f, op)) {
        keys += 3;
        args += 5 + 2 * ((size_t)drawing_seconds_put(NULL, f, op) + op->items_n - numbered_count(f, op));
    }
    if (args == 0) return 0;
    request_eval(out, lua_frame_events, keys, args);
    REQUEST_KEY(out, fr->tag, KEY_EVENTS);
    REQUEST_KEY(out, fr->tag, KEY_LEASED);
    for (op = drawing_next(f, NULL); op != NULL; op = drawing_next(f, op)) {
        OP_KEY(out, fr->tag, name, name_events(name, FRAME_NAME(f, op), FRAME_TYPE(f, op)));
        OP_KEY(out, fr->tag, name, name_ticker(name, FRAME_NAME(f, op)));
        OP_KEY(out, fr->tag, name, name_windows(name, FRAME_TYPE(f, op)));
    }
    for (op = drawing_next(f, NULL); op != NULL; op = drawing_next(f, op))
        drawing_put(out, f, op);
    return 1;
}

uint32_t events_gone_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    (void)fr;
    if (op_next(f, OP_EVENT, NULL) == NULL) return 0;
    BUF_LIT(out, "*2\r\n$3\r\nGET\r\n");
    REQUEST_KEY(out, fr->tag, KEY_EVENTS_GONE);
    return 1;
}

void events_gone_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    f->events_gone = 0;
    if (r->type == REDIS_NIL || answer_integer(r, &f->events_gone)) return;
    frames_trouble(fr, KEY_EVENTS_GONE, r);
    f->events_gone = -1;
}

static bool drawing_take(struct frame *f, struct frame_op *op, const struct redis_answer *r,
                         const struct op_limits *l)
{
    bool some_refused = r->type == REDIS_ARRAY && r->n > 1;
    (void)l;
    int64_t drawn = op->lease_n + (int64_t)numbered_count(f, op);
    if (!answer_integer(some_refused ? r->elements : r, &op->value) || op->value < drawn) return false;
    int64_t next = op->value - drawn + 1;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        f->items[i].value = is_numbered(&f->items[i]) ? next++ : 0;
    /* The script says which of the own ids it refused. */
    if (!some_refused) return true;
    uint32_t own = 0;
    size_t at = 1;
    int64_t refused = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        if (is_numbered(&f->items[i])) continue;
        if (at < r->n && !answer_integer(&r->elements[at], &refused)) return false;
        if (at == r->n || ++own != refused) continue;
        f->items[i].value = EVENT_REFUSED;
        at++;
    }
    return at == r->n;
}

void events_drawn_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    op_script_file(f, drawing_next, fr->limits, r, drawing_take);
}

/* --- of a frame that is sent again --- */

static struct frame_op *kept_op_next(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_EVENT, op);
    while (next != NULL && next->which != EVENT_KEPT)
        next = op_next(f, OP_EVENT, next);
    return next;
}

uint32_t events_kept_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    struct buf *name = &fr->scratch;
    size_t keys = 1, args = 0;
    const struct frame_op *op;
    for (op = kept_op_next(f, NULL); op != NULL; op = kept_op_next(f, op)) {
        keys += 3;
        args += 3 + 2 * (size_t)op->items_n;
    }
    if (args == 0) return 0;
    request_eval(out, lua_frame_events_kept, keys, args);
    REQUEST_KEY(out, fr->tag, KEY_EVENTS);
    for (op = kept_op_next(f, NULL); op != NULL; op = kept_op_next(f, op)) {
        OP_KEY(out, fr->tag, name, name_events(name, FRAME_NAME(f, op), FRAME_TYPE(f, op)));
        OP_KEY(out, fr->tag, name, name_ticker(name, FRAME_NAME(f, op)));
        OP_KEY(out, fr->tag, name, name_windows(name, FRAME_TYPE(f, op)));
    }
    for (op = kept_op_next(f, NULL); op != NULL; op = kept_op_next(f, op)) {
        request_slice(out, FRAME_NAME(f, op));
        request_int(out, op->ours);
        request_int(out, op->items_n);
        for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
            pair_put(out, f->items[i].at, f->items[i].value);
    }
    return 1;
}
