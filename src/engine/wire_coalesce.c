/* engine/wire_coalesce.c - connects coalesce's ports to the frame link; its answers go to the lane's ports. Also the
 * ports of the takeover of journals. */
#include "base/stats.h"
#include "engine/lane.h"
#include "redis/batch.h"

#define TAKEOVER_MS 10000

static void send_frame(void *arg, struct frame *f)
{
    struct lane *l = arg;
    l->frame_sent_us = mono_us(); /* one frame is in flight */
    redis_frames_send(&l->core.frames, f);
}
PORT(send_claim, struct lane *to, redis_frames_claim(&to->core.frames, c), struct claim *c)
PORT(send_kept, struct lane *to, redis_frames_replay(&to->core.frames, k), struct kept_frame *k)
PORT(fence, struct lane *to, redis_fence(to->core.fences, f), struct fence *f)

static void caught_up(void *arg)
{
    lane_caught_up(arg);
}
PORT(kill_client, struct lane *to, redis_frames_kill(&to->core.frames, id), int64_t id)
PORT(read_values, struct lane *to, redis_frames_values(&to->core.frames, f), struct frame *f)
PORT(look, struct lane *to, redis_frames_look(&to->core.frames, of), const struct link_look *of)

static void journals_lost(void *arg)
{
    takeover_soon(&((struct lane *)arg)->takeover);
}

PORT(port_journals, struct core *to, redis_journals(&to->sync_link, list), struct journal_list *list)
PORT(port_take, struct core *to, redis_journal_take(&to->frame_link, t), struct journal_take *t)
PORT(due, struct lane *to, sync_due(to->core.sync, c, key, why), const struct counter *c, struct slice key,
     enum due_why why)

static uint64_t now_us(void *arg)
{
    (void)arg;
    return mono_us();
}

static int64_t redis_now_ms(void *arg)
{
    return redis_time_ms(&((struct lane *)arg)->core.frame_link);
}

static void on_frame(void *arg, struct frame *f, enum frame_outcome outcome)
{
    struct lane *l = arg;
    if (outcome == FRAME_APPLIED) histogram_add(&latencies.frame, mono_us() - l->frame_sent_us);
    coalesce_on_frame(l->core.coalesce, f, outcome);
}
PORT(on_kept, struct lane *to, coalesce_on_kept(to->core.coalesce, k, outcome), struct kept_frame *k,
     enum frame_outcome outcome)
PORT(on_claim, struct lane *to, coalesce_on_claim(to->core.coalesce, c), struct claim *c)

static void killed(void *arg)
{
    coalesce_on_killed(((struct lane *)arg)->core.coalesce);
}
PORT(on_values, struct lane *to, coalesce_on_values(to->core.coalesce, f), struct frame *f)
PORT(on_look, struct lane *to, coalesce_on_look(to->core.coalesce, seq, stands, ours), int64_t seq,
     const bool *stands, const bool *ours)

void wire_coalesce(struct lane *l)
{
    struct core *c = &l->core;
    struct coalesce_ports ports = {
        .arg = l,
        .send_frame = send_frame,
        .send_claim = send_claim,
        .send_kept = send_kept,
        .fence = fence,
        .kill = kill_client,
        .life = c->config.life,
        .look = look,
        .journals_lost = journals_lost,
        .read_values = read_values,
        .due = due,
        .caught_up = caught_up,
        .answered = l->ports.answered,
        .room = l->ports.room,
        .fatal = l->ports.failed,
        .mono_ms = core_mono_ms,
        .mono_us = now_us,
        .redis_ms = redis_now_ms,
    };
    struct takeover_ports takeover = {.arg = c, .list = port_journals, .take = port_take};
    c->coalesce = coalesce_create(&ports, c->config.counters, &c->config.coalesce);
    takeover_init(&l->takeover, c->coalesce, &takeover, TAKEOVER_MS);
    c->frames.on_frame = on_frame;
    c->frames.on_claim = on_claim;
    c->frames.on_killed = killed;
    c->frames.on_look = on_look;
    c->frames.on_values = on_values;
    c->frames.on_kept = on_kept;
    c->frames.keeps = c->config.coalesce.replay_bytes > 0;
    c->frames.arg = l;
    c->frames.limits = c->config.counters->ops;
}
