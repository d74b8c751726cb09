/* app/wire_coalesce.c - coalesce's ports given by the frame link, its answers to the clients' connections. */
#include "app/service.h"
#include "base/latencies.h"
#include "base/log.h"

static void send_frame(void *arg, struct frame *f)
{
    struct service *s = arg;
    s->frame_sent_us = mono_us(); /* one frame is in flight */
    redis_frames_send(&s->frames, f);
}
static void send_claim(void *arg, struct claim *c)
{
    redis_frames_claim(&((struct service *)arg)->frames, c);
}
static void kill_client(void *arg, int64_t id)
{
    redis_frames_kill(&((struct service *)arg)->frames, id);
}
static void read_values(void *arg, struct frame *f)
{
    redis_frames_values(&((struct service *)arg)->frames, f);
}

static void look(void *arg, const struct link_look *l)
{
    redis_frames_look(&((struct service *)arg)->frames, l);
}

static void journals_lost(void *arg)
{
    journals_soon(arg);
}

static void due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    sync_due(((struct service *)arg)->sync, c, key, why);
}

static void answered(void *arg, struct outlet *o)
{
    (void)arg;
    struct conn *conn = conn_of(o);
    session_answered(conn_session(conn));
    conn_answered(conn);
}

static void room(void *arg, struct outlet *o)
{
    (void)arg;
    session_room(conn_session(conn_of(o)));
}

static void fatal(void *arg, const char *text)
{
    service_fail(arg, ERR_FAILED, text);
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
    return redis_time_ms(&((struct service *)arg)->frame_link);
}

static void on_frame(void *arg, struct frame *f, enum frame_outcome outcome)
{
    struct service *s = arg;
    if (outcome == FRAME_APPLIED) histogram_add(&latencies.frame, mono_us() - s->frame_sent_us);
    coalesce_on_frame(s->coalesce, f, outcome);
}
static void on_claim(void *arg, struct claim *c)
{
    coalesce_on_claim(((struct service *)arg)->coalesce, c);
}
static void on_killed(void *arg)
{
    coalesce_on_killed(((struct service *)arg)->coalesce);
}
static void on_values(void *arg, struct frame *f)
{
    coalesce_on_values(((struct service *)arg)->coalesce, f);
}
static void on_look(void *arg, int64_t seq, const bool *stands, const bool *ours)
{
    coalesce_on_look(((struct service *)arg)->coalesce, seq, stands, ours);
}

static struct coalesce_config config_of(const struct conf *conf)
{
    struct coalesce_config config = coalesce_config_default;
    config.cells_max = (uint32_t)conf->limits_frame;
    config.answers_max = (uint32_t)conf->limits_answers;
    config.bytes_max = (uint32_t)conf->limits_frame_bytes;
    config.entries_max = (uint32_t)conf->limits_hashes;
    config.series_max = (uint32_t)conf->limits_names;
    config.doubt_ms = config.busy_ms = (uint32_t)conf->limits_busy_ms;
    return config;
}

void wire_coalesce(struct service *s)
{
    struct coalesce_ports ports = {
        .arg = s,
        .send_frame = send_frame,
        .send_claim = send_claim,
        .kill = kill_client,
        .life = &s->settings->life,
        .look = look,
        .journals_lost = journals_lost,
        .read_values = read_values,
        .due = due,
        .answered = answered,
        .room = room,
        .fatal = fatal,
        .mono_ms = now_ms,
        .mono_us = now_us,
        .redis_ms = redis_now_ms,
    };
    struct coalesce_config config = config_of(s->settings->conf);
    s->coalesce = coalesce_create(&ports, &s->settings->setup.counters, &config);
    s->frames.on_frame = on_frame;
    s->frames.on_claim = on_claim;
    s->frames.on_killed = on_killed;
    s->frames.on_look = on_look;
    s->frames.on_values = on_values;
    s->frames.arg = s;
    s->frames.limits = s->settings->setup.counters.ops;
}
