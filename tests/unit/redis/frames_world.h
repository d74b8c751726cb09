/* redis/frames_world.h - one frame at a time, on a real server or a fake: filled by the test, sent, its answers filed. */
#ifndef UNIT_REDIS_FRAMES_WORLD_H
#define UNIT_REDIS_FRAMES_WORLD_H

#include "lib/redis_fake.h"
#include "redis/frame_op.h"

#define NOW 1700000000 /* the frame's second; 1699999980 is its minute */

struct got {
    struct redis_frames frames;
    struct frame f;
    struct op_limits limits;
    struct world *w;
    int frames_n, claims_n, killed, looks, values, kept_n, done; /* done: of what the test itself asked */
    enum frame_outcome outcome;
    int64_t seq;
    bool stands[4], ours[4];
    char mine[64]; /* as tally:journals names us */
};
static struct got *g; /* of the test that runs */

static inline void on_frame(void *arg, struct frame *f, enum frame_outcome outcome)
{
    assert_ptr_equal(f, &g->f);
    g->frames_n++;
    g->outcome = outcome;
}

static inline void on_claim(void *arg, struct claim *c)
{
    g->claims_n++;
}

static inline void on_killed(void *arg)
{
    g->killed++;
}

static inline void on_look(void *arg, int64_t seq, const bool *stands, const bool *ours)
{
    g->looks++;
    g->seq = seq;
    for (uint32_t i = 0; i < g->frames.look_n; i++)
        g->stands[i] = stands[i];
    for (uint32_t i = 0; i < g->frames.look_n - g->frames.look_claims; i++)
        g->ours[i] = ours[i];
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

static inline void got_of(struct world *w)
{
    g = calloc(1, sizeof *g);
    g->w = w;
    g->limits = (struct op_limits){.precisions = {1, 60, 3600},
                                   .precisions_n = 3,
                                   .samples = 120,
                                   .timebox_width_s = 60,
                                   .timebox_keep = 3,
                                   .uniq_limit = 1000,
                                   .ahead_s = 60};
    redis_frames_init(&g->frames, &w->link, &w->life);
    g->frames.on_frame = on_frame;
    g->frames.on_claim = on_claim;
    g->frames.on_killed = on_killed;
    g->frames.on_look = on_look;
    g->frames.on_values = on_values;
    g->frames.on_kept = on_kept;
    g->frames.arg = g;
    g->frames.limits = &g->limits;
    snprintf(g->mine, sizeof g->mine, "shop:%s", w->life.id);
}

static inline int got_open(void **state)
{
    got_of(world_open());
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

#define FRAME_TEST(f) UNIT_IN(f, got_open, got_close)

/* With a server that says what f says. */
static inline void got_fake(struct fake *f)
{
    struct world *w = world_empty();
    fake_start(w, f);
    world_link_up(w, "frame");
    got_of(w);
}

static inline void got_fake_close(struct fake *f)
{
    fake_stop(f);
    got_close(NULL);
}

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
    assert_int_equal(g->frames_n, before);
    WAIT_UNTIL(g->w, g->frames_n == before + 1);
}

#define sent_is(expected) send_and_wait(), assert_int_equal(g->outcome, (expected))

/* To a Redis that lost it. */
static inline void replay(struct kept_frame *k)
{
    int before = g->kept_n;
    link_forget(&g->w->link);
    redis_frames_replay(&g->frames, k);
    assert_int_equal(g->kept_n, before);
    WAIT_UNTIL(g->w, g->kept_n == before + 1);
}

/* The frame as coalesce keeps it; its buffer is the frame's still. */
static inline struct kept_frame kept_again(void)
{
    const struct frame *f = &g->f;
    return (struct kept_frame){.seq = f->seq,
                               .dirty_ms = f->dirty_ms,
                               .lines = f->again_lines,
                               .cells = f->again_cells,
                               .bytes = f->again};
}

#endif
