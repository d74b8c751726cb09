/* app/service.c - one loop for everything, its end-of-turn work, its timers and signals. */
#include "app/service.h"
#include "app/certificates.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/thread.h"
#include <signal.h>
#include <stdio.h>

#define TICK_MS 20

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

static void on_again(uv_idle_t *handle)
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
        uv_idle_start(&s->again, on_again);
    else
        uv_idle_stop(&s->again);
}

static void supervisor_tick(struct service *s, uint64_t now_ms)
{
    char text[NOTIFY_STATUS_BYTES];
    notify_tick(&s->notify, now_ms);
    if (!notify_status_due(&s->notify, now_ms)) return;
    service_status(s, text, sizeof text);
    notify_status(&s->notify, now_ms, text);
}

static void lanes_tick(struct service *s, uint64_t now_ms)
{
    uint64_t worst_s = 0;
    EACH_LANE (l, s) {
        lane_tick(l, now_ms);
        uint64_t stalled_s = sync_stalled_s(l->core.sync);
        if (stalled_s > worst_s) worst_s = stalled_s;
    }
    STAT_SET(merging_stalled, worst_s);
}

static void on_tick(uv_timer_t *timer)
{
    struct service *s = timer->data;
    uint64_t now_ms = mono_ms();
    supervisor_tick(s, now_ms);
    lanes_tick(s, now_ms);
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
    uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
}

static void rooms_close(struct service *s)
{
    wire_http_close(s);
    if (s->listen != NULL) listen_destroy(&s->listen);
    command_destroy(&s->command);
    wire_users_close(s);
    wire_zones_close(s);
    EACH_LANE (l, s)
        lane_destroy(l);
    heap_free(s->coalesces);
    heap_free(s->lanes);
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
    rooms_close(s);
    notify_close(&s->notify);
    busy = uv_loop_close(&s->loop);
    INVARIANT(busy == 0);
    if (s->failure.code != ERR_NONE) *e = s->failure;
    return s->failure.code;
}
