/* app/service.c - one loop for everything, its end-of-turn work, its timers and signals. */
#include "app/service.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

#define TICK_MS 20
#define HANDED_OVER_MS 1000 /* for which clients that have just come to a shared port are served */

/* During the start it is only remembered: what is being started must not be closed meanwhile. */
void service_stop(struct service *s)
{
    s->stop_asked = true;
    if (s->stage != STAGE_RUNNING) return;
    log_event(LOG_INFO, "stopping", "within_ms=%llu", (unsigned long long)s->settings->stop_timeout_ms);
    notify_stopping(&s->notify);
    s->stage = STAGE_DRAINING;
    s->stop_by_ms = mono_ms() + s->settings->stop_timeout_ms;
}

void service_fail(struct service *s, enum err code, const char *text)
{
    if (s->failure.code == ERR_NONE) error_set(&s->failure, code, "%s", text);
    log_event(LOG_ERROR, "failed", "error=%s", LOGQ(text));
    service_stop(s);
}

uint32_t service_lanes_up(const struct service *s)
{
    uint32_t n = 0;
    EACH_LANE (l, s)
        n += lane_up(l);
    return n;
}

/* Whose gate is shut, if one is. */
static const struct lane *worst_lane(const struct service *s)
{
    const struct lane *worst = s->lanes;
    EACH_LANE (l, s) {
        const struct gate *gate = &l->core.gate;
        if (gate->rolled_back) return l;
        if (!gate_open(gate)) worst = l;
    }
    return worst;
}

/* For the one line of `systemctl status`: the worst first. */
static const char *state_of(const struct service *s)
{
    const struct gate *gate = &worst_lane(s)->core.gate;
    uint32_t up = service_lanes_up(s);
    if (s->stage == STAGE_STARTING) return "starting";
    if (s->stage != STAGE_RUNNING) return "stopping: sends answers, ends merges";
    if (up == 0) return "Redis is away: hits are refused";
    if (up < s->lanes_n) return "a part of the cluster is away: its hits are refused";
    if (gate->rolled_back) return gate->text;
    if (!gate->mysql_up) return "counts; MySQL is away, so hits wait in Redis";
    if (gate->asks) return "counts; asks whether a tallyd lives that merges for another Redis of its realm";
    if (!gate_open(gate)) return "counts; merging waits until MySQL and its tables fit";
    if (STAT_GET(batches_held) > 0) return "counts; batches are held, the log says why";
    return "counts and merges";
}

/* The order of stop: clients get their answers, runs end or time is up, then everything is closed: writers, lanes, handles. Redis
 * has what is not merged by then, and the next start adopts it. */

static void redis_closed(void *arg)
{
    struct service *s = arg;
    if (--s->closing_n == 0) {
        uv_close((uv_handle_t *)&s->turn, NULL);
        uv_close((uv_handle_t *)&s->again, NULL);
        uv_close((uv_handle_t *)&s->tick, NULL);
        uv_close((uv_handle_t *)&s->web.news, NULL);
        uv_close((uv_handle_t *)&s->users.pace, NULL);
        for (int i = 0; i < 3; i++)
            uv_close((uv_handle_t *)&s->signals[i], NULL);
    }
}

static void service_lane_closed(struct lane *l)
{
    redis_closed(l->arg);
}

static void pool_closed(void *arg)
{
    struct service *s = arg;
    s->pool = NULL;
    s->closing_n = s->lanes_n + (s->cluster != NULL);
    if (s->cluster != NULL) cluster_close(s->cluster, redis_closed, s);
    s->cluster = NULL;
    EACH_LANE (l, s) {
        lane_pool(l, NULL);
        lane_close(l, service_lane_closed);
    }
}

static void listen_closed(void *arg)
{
    ((struct service *)arg)->listen_closed = true;
}

static void service_drain_tick(struct service *s, uint64_t now_ms)
{
    bool late = now_ms >= s->stop_by_ms;
    if (!s->draining && !late && s->listen != NULL) {
        if (s->served_until_ms == 0)
            s->served_until_ms = now_ms + (listen_hand_over(s->listen) ? HANDED_OVER_MS : 0);
        if (now_ms < s->served_until_ms && STAT_GET(connections_open) > 0) return;
    }
    if (!s->draining) {
        EACH_LANE (l, s)
            lane_stop(l);
        wire_sides_stop(s);
        if (s->listen == NULL)
            s->listen_closed = true;
        else
            listen_stop(s->listen, listen_closed, s);
    }
    s->draining = true;
    if (late && !s->listen_closed && !s->dropped) {
        s->dropped = true;
        listen_drop_all(s->listen);
    }
    bool quiet = true;
    EACH_LANE (l, s)
        quiet &= lane_quiet(l);
    if (s->web.http != NULL || (!late && !(s->listen_closed && quiet)))
        return; /* its threads borrow what goes now */
    if (!quiet)
        log_event(LOG_WARN, "stopped_early", "why=%s",
                  LOGQ("time is up; counts that are not merged wait in Redis"));
    /* From here on sync only waits for what is out, so nothing asks a room that is closed already. */
    s->stage = STAGE_CLOSING;
    EACH_LANE (l, s)
        lane_abandon(l);
    if (s->pool == NULL)
        pool_closed(s);
    else
        writer_pool_close(s->pool, 1000, pool_closed, s);
}

static void service_again(uv_idle_t *handle)
{
    (void)handle; /* an active idle handle is what keeps the loop from waiting for events */
}

/* Sends what was collected, and writes what was answered. */
static void on_turn(uv_prepare_t *handle)
{
    struct service *s = handle->data;
    if (s->listen != NULL) listen_turn(s->listen);
    command_join(s->command);
    bool again = false;
    EACH_LANE (l, s)
        again |= lane_turn(l);
    command_turn(s->command);
    if (s->listen != NULL) listen_flush_all(s->listen);
    if (again)
        uv_idle_start(&s->again, service_again);
    else
        uv_idle_stop(&s->again);
}

static void service_tick(uv_timer_t *timer)
{
    struct service *s = timer->data;
    uint64_t now_ms = mono_ms();
    char text[NOTIFY_STATUS_BYTES];
    notify_tick(&s->notify, now_ms);
    if (notify_status_due(&s->notify, now_ms)) {
        snprintf(text, sizeof text, "%s; clients %lld, hits %lld, rows merged %lld, fields on their way %lld",
                 state_of(s), (long long)STAT_GET(connections_open), (long long)STAT_GET(hits),
                 (long long)STAT_GET(rows_merged), (long long)STAT_GET(fields_in_flight));
        notify_status(&s->notify, now_ms, text);
    }
    uint64_t worst_s = 0;
    EACH_LANE (l, s) {
        lane_tick(l, now_ms);
        uint64_t stalled_s = sync_stalled_s(l->core.sync);
        if (stalled_s > worst_s) worst_s = stalled_s;
    }
    STAT_SET(merging_stalled, worst_s);
    command_tick(s->command, now_ms);
    certificates_tick(s->settings, now_ms, &s->certificates_at_ms);
    if (s->stage == STAGE_DRAINING) service_drain_tick(s, now_ms);
}

static void reload_refused(const struct error *e)
{
    log_event(LOG_ERROR, "reload", "error=%s next=%s", LOGQ(e->text),
              LOGQ("nothing was changed; correct the file, then send SIGHUP again"));
}

static void reload(struct service *s)
{
    struct conf wanted;
    struct error e;
    if (s->stage == STAGE_RUNNING) notify_reloading(&s->notify);
    if (s->path == NULL) {
        log_event(LOG_WARN, "reload", "why=%s", LOGQ("this service was started without a file"));
    } else if (conf_load(s->path, NULL, &wanted, &e) != ERR_NONE) {
        reload_refused(&e);
    } else {
        if (wire_users_reload(s, &wanted, &e)) {
            settings_reload(s->settings, &wanted);
            wire_http_reload(s, &wanted); /* its certificates are those that were just read */
            wire_zones_reload(s);
        } else {
            reload_refused(&e);
        }
        conf_free(&wanted);
    }
    if (s->stage == STAGE_RUNNING) notify_ready(&s->notify);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct service *s = handle->data;
    if (number == SIGHUP)
        reload(s);
    else
        service_stop(s);
}

static void handles_open(struct service *s)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    uv_prepare_init(&s->loop, &s->turn);
    uv_idle_init(&s->loop, &s->again);
    uv_timer_init(&s->loop, &s->tick);
    s->turn.data = s->again.data = s->tick.data = s;
    for (int i = 0; i < 3; i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_signal, numbers[i]);
    }
    uv_prepare_start(&s->turn, on_turn);
    uv_timer_start(&s->tick, service_tick, TICK_MS, TICK_MS);
}

static void work_nothing(uv_work_t *work)
{
    (void)work;
}

enum err service_run(struct service *s, struct settings *settings, const char *path, bool serves,
                     void (*started)(struct service *s, void *arg), void *arg, struct error *e)
{
    *s = (struct service){.settings = settings, .path = path, .serves = serves};
    if (uv_loop_init(&s->loop) != 0)
        return error_set(e, ERR_FAILED, "cannot make an event loop: out of descriptors?");
    /* libuv makes its threads with the first work, and ends the process when it cannot. So this happens now, not when
     * memory is short. */
    int busy = uv_queue_work(&s->loop, &s->first_work, work_nothing, NULL);
    INVARIANT(busy == 0);
    s->notify.fd = -1;
    if (serves) notify_init(&s->notify);
    service_init(s);
    handles_open(s);
    if (service_start(s, e) != ERR_NONE) s->failure = *e;
    bool runs = s->failure.code == ERR_NONE && !s->stop_asked;
    s->stage = runs ? STAGE_RUNNING : STAGE_DRAINING;
    s->stop_by_ms = 0;
    if (runs) service_begin(s);
    if (runs && started != NULL) started(s, arg);
    thread_prompt(); /* those made until now keep the kernel's slice */
    uv_run(&s->loop, UV_RUN_DEFAULT);
    wire_http_close(s);
    if (s->listen != NULL) listen_destroy(&s->listen);
    command_destroy(&s->command);
    wire_sides_close(s);
    EACH_LANE (l, s)
        lane_destroy(l);
    heap_free(s->coalesces);
    heap_free(s->lanes);
    notify_close(&s->notify);
    busy = uv_loop_close(&s->loop);
    INVARIANT(busy == 0);
    if (s->failure.code != ERR_NONE) *e = s->failure;
    return s->failure.code;
}
