/* redis/frame_events.c - events: `<name>:<type>` is a sorted set of ids by their second. What a frame carries of them:
 *   GET   how often a log has left tally:events; ZADD the logs that may have.
 *   EVAL  events that draw: numbers come from the ticker `<name>:index`, all of an op and the lease of its log in one
 *         INCRBY; a client's own id that is a number is checked.
 *   then those whose ids are given (below).
 * An id that exists keeps its first second, and so does one that comes twice. The ticker never gives a number that
 * exists as a client's own id, and no own id becomes a number that the ticker has leased. */
#include "base/log.h"
#include "redis/frame_parts.h"

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

/* --- Events whose ids are known when the frame is sent: one plain ZADD a log, a third of what a script costs. The rest of the
 * script's work is done for all of them together, in the same MULTI: before them, names that tally:events may have lost are put
 * back (op->named); after them, cached windows are dropped. --- */

#define EVENTS_A_ZADD 1000

static struct frame_op *given_next(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_EVENT, op);
    while (next != NULL && !op_is_given(next))
        next = op_next(f, OP_EVENT, next);
    return next;
}

uint32_t events_named_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct frame_op *op;
    size_t n = 0;
    for (op = given_next(f, NULL); op != NULL; op = given_next(f, op))
        n += op->named;
    if (n == 0) return 0;
    request_array(out, 2 + 2 * n);
    BUF_LIT(out, "$4\r\nZADD\r\n");
    REQUEST_KEY(out, fr->tag, KEY_EVENTS);
    for (op = given_next(f, NULL); op != NULL; op = given_next(f, op)) {
        if (!op->named) continue;
        BUF_LIT(out, "$1\r\n0\r\n");
        OP_MEMBER(out, &fr->scratch, name_events(&fr->scratch, FRAME_NAME(f, op), FRAME_TYPE(f, op)));
    }
    return 1;
}

/* When a name is not known to be in tally:events, the count is not known either. */
void events_named_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    if (r->type == REDIS_INTEGER) return;
    frames_trouble(fr, KEY_EVENTS, r);
    f->events_gone = -1;
}

static uint32_t zadds_of(const struct frame_op *op)
{
    return (op->items_n + EVENTS_A_ZADD - 1) / EVENTS_A_ZADD;
}

static void zadds_put(struct buf *out, const struct frame *f, const struct frame_op *op, struct slice tag,
                      struct slice log)
{
    uint32_t at = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next, at++) {
        const struct op_item *item = &f->items[i];
        uint32_t left = op->items_n - at;
        if (at % EVENTS_A_ZADD == 0) {
            request_array(out, 3 + 2 * (size_t)(left < EVENTS_A_ZADD ? left : EVENTS_A_ZADD));
            BUF_LIT(out, "$4\r\nZADD\r\n");
            request_key(out, tag, log);
            BUF_LIT(out, "$2\r\nNX\r\n");
        }
        request_int(out, item->at);
        if (item->text_n > 0)
            request_slice(out, FRAME_TEXT(f, item->text_at, item->text_n));
        else
            request_int(out, item->value);
    }
}

static const struct redis_answer *zadds_file(struct frame *f, struct frame_op *op,
                                             const struct redis_answer *r)
{
    int64_t numbered = numbered_count(f, op);
    for (uint32_t i = 0; i < zadds_of(op); i++, r++) {
        if (r->type == REDIS_INTEGER)
            numbered -= r->integer;
        else
            op_fail(f, op, r);
    }
    if (numbered > 0 && op->error_n == 0) {
        /* No number of a lease can be in the log earlier (KEY_LEASED): another program has changed ticker or log. */
        char name[100];
        log_event(LOG_ERROR, "events_lost", "name=%s events=%lld next=%s",
                  LOGQ(slice_show(FRAME_NAME(f, op), 80, name, sizeof name)), (long long)numbered,
                  LOGQ("its log had numbers of its ticker already; no other program may write or delete "
                       "these keys"));
    }
    return r;
}

uint32_t events_given_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    uint32_t n = 0;
    for (const struct frame_op *op = given_next(f, NULL); op != NULL; op = given_next(f, op)) {
        buf_reset(&fr->scratch);
        name_events(&fr->scratch, FRAME_NAME(f, op), FRAME_TYPE(f, op));
        zadds_put(out, f, op, fr->tag, buf_slice(&fr->scratch));
        n += zadds_of(op);
    }
    return n;
}

void events_given_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)fr, (void)n;
    for (struct frame_op *op = given_next(f, NULL); op != NULL; op = given_next(f, op))
        r = zadds_file(f, op, r);
}

/* --- windows --- */

static const struct frame_op *holding_next(const struct frame *f, const struct frame_op *op)
{
    const struct frame_op *next = given_next(f, op);
    while (next != NULL && next->items_n == 0)
        next = given_next(f, next);
    return next;
}

/* Is op the first of a run of one type? */
static bool begins_run(const struct frame *f, const struct frame_op *op, const struct frame_op *before)
{
    return before == NULL || !slice_eq(FRAME_TYPE(f, before), FRAME_TYPE(f, op));
}

static void types_put(struct buf *out, struct buf *packed, const struct frame *f)
{
    const struct frame_op *before = NULL, *op;
    buf_reset(packed);
    for (op = holding_next(f, NULL); op != NULL; before = op, op = holding_next(f, op)) {
        if (before != NULL && begins_run(f, op, before)) {
            request_slice(out, buf_slice(packed));
            buf_reset(packed);
        }
        int64_t last = -1;
        buf_int(packed, op->name_n);
        buf_put_char(packed, ':');
        buf_put_slice(packed, FRAME_NAME(f, op));
        for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
            if (f->items[i].at == last) continue;
            last = f->items[i].at;
            buf_int(packed, last);
            buf_put_char(packed, ' ');
        }
        buf_put_char(packed, ';');
    }
    request_slice(out, buf_slice(packed));
}

uint32_t events_windows_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    const struct frame_op *before = NULL, *op;
    size_t runs = 0;
    for (op = holding_next(f, NULL); op != NULL; before = op, op = holding_next(f, op))
        runs += begins_run(f, op, before);
    if (runs == 0) return 0;
    request_eval(out, lua_frame_windows, runs, runs);
    for (op = holding_next(f, before = NULL); op != NULL; before = op, op = holding_next(f, op))
        if (begins_run(f, op, before))
            OP_KEY(out, fr->tag, &fr->scratch, name_windows(&fr->scratch, FRAME_TYPE(f, op)));
    types_put(out, &fr->scratch, f);
    return 1;
}

void events_windows_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)f, (void)n;
    if (r->type != REDIS_INTEGER) frames_trouble(fr, "statcache:", r);
}
