/* redis/ops_world.h - one frame of ops at a time, on a real server: filled by the test, sent, its answers filed. */
#ifndef UNIT_REDIS_OPS_WORLD_H
#define UNIT_REDIS_OPS_WORLD_H

#include "lib/redis_world.h"
#include "redis/frame_op.h"

#define NOW 1700000000 /* the frame's second; 1699999980 is its minute */

struct got {
    struct redis_frames frames;
    struct frame f;
    struct op_limits limits;
    struct world *w;
    int frames_n, values, kept_n;
    enum frame_outcome outcome;
};
static struct got *g; /* of the test that runs */

static inline void on_frame(void *arg, struct frame *f, enum frame_outcome outcome)
{
    assert_ptr_equal(f, &g->f);
    g->frames_n++;
    g->outcome = outcome;
}

static inline void on_values(void *arg, struct frame *f)
{
    g->values++;
}

static inline void on_kept(void *arg, struct kept_frame *k, enum frame_outcome outcome)
{
    g->kept_n++;
    g->outcome = outcome;
}

static inline int got_open(void **state)
{
    g = calloc(1, sizeof *g);
    g->w = world_open();
    g->limits = (struct op_limits){.precisions = {1, 60, 3600},
                                   .precisions_n = 3,
                                   .samples = 120,
                                   .timebox_width_s = 60,
                                   .timebox_keep = 3,
                                   .uniq_limit = 1000,
                                   .ahead_s = 60};
    redis_frames_init(&g->frames, &g->w->link, &g->w->life);
    g->frames.on_frame = on_frame;
    g->frames.on_values = on_values;
    g->frames.on_kept = on_kept;
    g->frames.arg = g;
    g->frames.limits = &g->limits;
    return 0;
}

static inline int got_close(void **state)
{
    world_close(g->w);
    redis_frames_close(&g->frames);
    frame_free(&g->f);
    free(g);
    return 0;
}

#define OPS_TEST(f) UNIT_IN(f, got_open, got_close)

static inline void begin(void)
{
    frame_reset(&g->f);
    g->f.dirty_ms = INT64_C(1000) * NOW + 1;
    g->f.seq++;
}

static inline void send_and_wait(void)
{
    int before = g->frames_n;
    redis_frames_send(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->frames_n == before + 1);
}

static inline void send_applied(void)
{
    send_and_wait();
    assert_int_equal(g->outcome, FRAME_APPLIED);
}

/* Sends the last frame again, as to a Redis that lost it; returns how much of it failed. */
static inline uint32_t replay_failed(void)
{
    const struct frame *f = &g->f;
    int before = g->kept_n;
    struct kept_frame k = {.seq = f->seq,
                           .dirty_ms = f->dirty_ms,
                           .lines = f->again_lines,
                           .cells = f->again_cells,
                           .bytes = f->again};
    link_forget(&g->w->link);
    redis_frames_replay(&g->frames, &k);
    WAIT_UNTIL(g->w, g->kept_n == before + 1);
    assert_int_equal(g->outcome, FRAME_APPLIED);
    return k.failed;
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
