/* redis/ops_world.h - frames of ops: what is put into them, and what their answers are. */
#ifndef UNIT_REDIS_OPS_WORLD_H
#define UNIT_REDIS_OPS_WORLD_H

#include "unit/redis/frames_world.h"

/* Returns how much of the last frame failed when it was sent again. */
static inline uint32_t replay_failed(void)
{
    struct kept_frame k = kept_again();
    replay(&k);
    assert_int_equal(g->outcome, FRAME_APPLIED);
    return k.failed;
}

static inline void send_applied(void)
{
    sent_is(FRAME_APPLIED);
}

static inline void replay_applied(void)
{
    assert_int_equal(replay_failed(), 0);
}

static inline struct frame_op *op_new(enum op_kind kind, const char *name, int64_t at, int64_t delta)
{
    struct frame_op *op = frame_add_op(&g->f, kind, slice_str(name), SLICE(""), at);
    op->delta = delta;
    return op;
}

static inline struct frame_op *event_op(const char *name, const char *type)
{
    return frame_add_op(&g->f, OP_EVENT, slice_str(name), slice_str(type), 0);
}

/* at: an event's second, a visitor's number. */
static inline void item_new(struct frame_op *op, int64_t at, const char *text)
{
    frame_add_item(&g->f, op, at, slice_str(text));
}

/* How often Redis ran that command since CONFIG RESETSTAT. */
static inline int calls(const char *command)
{
    char line[60];
    snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
    const char *at = strstr(redis_do("INFO commandstats"), line);
    return at == NULL ? 0 : atoi(at + strlen(line));
}

static inline void assert_op_error(uint32_t op, const char *text)
{
    const struct frame_op *o = &g->f.ops[op];
    assert_slice(o->error_n > 0 ? FRAME_ERROR(&g->f, o) : SLICE(""), text);
}

/* ... and no op failed. */
static inline void send_clean(void)
{
    send_applied();
    for (uint32_t i = 0; i < g->f.ops_n; i++)
        assert_op_error(i, "");
}

static const char wrong_type[] = "WRONGTYPE Operation against a key holding the wrong kind of value";

#endif
