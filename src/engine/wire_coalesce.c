/* engine/wire_coalesce.c - connects coalesce's ports to the frame link; its answers go to the lane's ports. Also the
 * ports of the takeover of journals. */
#include "base/stats.h"
#include "engine/lane.h"
#include "redis/journal_op.h"

#define TAKEOVER_MS 10000

static void send_frame(void *arg, struct frame *f)
{
    struct lane *l = arg;
    l->frame_sent_us = mono_us(); /* one frame is in flight */
    redis_frames_send(&l->core.frames, f);
}
static void send_claim(void *arg, struct claim *c)
{
    redis_frames_claim(&((struct lane *)arg)->core.frames, c);
}
static void send_kept(void *arg, struct kept_frame *k)
{
    redis_frames_replay(&((struct lane *)arg)->core.frames, k);
}
static void fence(void *arg, struct fence *f)
{
    redis_fence(((struct lane *)arg)->core.fences, f);
}
static void caught_up(void *arg)
{
    lane_caught_up(arg);
}
static void kill_client(void *arg, int64_t id)
{
    redis_frames_kill(&((struct lane *)arg)->core.frames, id);
}
static void read_values(void *arg, struct frame *f)
{
    redis_frames_values(&((struct lane *)arg)->core.frames, f);
}

static void look(void *arg, const struct link_look *of)
{
    redis_frames_look(&((struct lane *)arg)->core.frames, of);
}

static void journals_lost(void *arg)
{
    takeover_soon(&((struct lane *)arg)->takeover);
}

static void port_journals(void *arg, struct journal_list *list)
{
    redis_journals(&((struct core *)arg)->sync_link, list);
}

static void port_take(void *arg, struct journal_take *t)
{
    redis_journal_take(&((struct core *)arg)->frame_link, t);
}

static void due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    sync_due(((struct lane *)arg)->core.sync, c, key, why);
}

static uint64_t now_ms(void *arg)
{
    (void)arg;
    return mono_ms();
}

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
static void on_kept(void *arg, struct kept_frame *k, enum frame_outcome outcome)
{
    coalesce_on_kept(((struct lane *)arg)->core.coalesce, k, outcome);
}
static void on_claim(void *arg, struct claim *c)
{
    coalesce_on_claim(((struct lane *)arg)->core.coalesce, c);
}
static void killed(void *arg)
{
    coalesce_on_killed(((struct lane *)arg)->core.coalesce);
}
static void on_values(void *arg, struct frame *f)
{
    coalesce_on_values(((struct lane *)arg)->core.coalesce, f);
}
static void on_look(void *arg, int64_t seq, const bool *stands, const bool *ours)
{
    coalesce_on_look(((struct lane *)arg)->core.coalesce, seq, stands, ours);
}

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
        .mono_ms = now_ms,
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
