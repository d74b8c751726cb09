/* redis/frame_given.c - events whose ids are known when the frame is sent: one plain ZADD a log, a third of what a
 * script costs. The rest of the script's work is done for all of them together, in the same MULTI: before them, names
 * that tally:events may have lost are put back (op->named); after them, cached windows are dropped. */
#include "base/log.h"
#include "redis/frame_parts.h"
#include "redis/lua.h"

#define EVENTS_A_ZADD 1000

static struct frame_op *given_next(const struct frame *f, const struct frame_op *op)
{
    struct frame_op *next = op_next(f, OP_EVENT, op);
    while (next != NULL && !op_is_given(next))
        next = op_next(f, OP_EVENT, next);
    return next;
}

/* --- names --- */

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

/* --- events --- */

static uint32_t zadds_of(const struct frame_op *op)
{
    return (op->items_n + EVENTS_A_ZADD - 1) / EVENTS_A_ZADD;
}

static struct slice id_of(const struct frame *f, const struct op_item *item, char digits[24])
{
    if (item->text_n > 0) return FRAME_TEXT(f, item->text_at, item->text_n);
    return slice_of(digits, num_write(item->value, digits));
}

static void zadds_put(struct buf *out, const struct frame *f, const struct frame_op *op, struct slice tag,
                      struct slice log)
{
    char digits[24];
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
        request_slice(out, id_of(f, item, digits));
    }
}

static const struct redis_answer *zadds_file(struct frame *f, struct frame_op *op,
                                             const struct redis_answer *r)
{
    int64_t numbered = 0;
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next)
        numbered += f->items[i].text_n == 0;
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
