/* app/stop.c - the order of stop: clients hear their answers, runs end or time is up, then everything is
 * given back: writers, lane, handles. What is not merged by then stands in Redis, and the next start
 * adopts it. */
#include "app/service.h"
#include "base/log.h"

static void handles_close(struct lane *l)
{
    struct service *s = l->arg;
    uv_close((uv_handle_t *)&s->turn, NULL);
    uv_close((uv_handle_t *)&s->again, NULL);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->web.news, NULL);
    uv_close((uv_handle_t *)&s->users.pace, NULL);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
}

static void pool_closed(void *arg)
{
    struct service *s = arg;
    s->pool = NULL;
    lane_pool(&s->lane, NULL);
    lane_close(&s->lane, handles_close);
}

/* From here on sync only waits for what is out, so nothing asks a room that is closed already. */
static void service_close(struct service *s)
{
    s->stage = STAGE_CLOSING;
    lane_abandon(&s->lane);
    if (s->pool == NULL)
        pool_closed(s);
    else
        writer_pool_close(s->pool, 1000, pool_closed, s);
}

static void listen_closed(void *arg)
{
    ((struct service *)arg)->listen_closed = true;
}

static void drain_begin(struct service *s)
{
    lane_stop(&s->lane);
    wire_http_stop(s);
    wire_users_stop(s);
    wire_zones_stop(s);
    if (s->listen == NULL)
        s->listen_closed = true;
    else
        listen_stop(s->listen, listen_closed, s);
}

void service_drain_tick(struct service *s, uint64_t now_ms)
{
    if (!s->draining) drain_begin(s);
    s->draining = true;
    bool late = now_ms >= s->stop_by_ms;
    if (late && !s->listen_closed && !s->dropped) {
        s->dropped = true;
        listen_drop_all(s->listen);
    }
    bool quiet = lane_quiet(&s->lane);
    if (!wire_http_over(s) || (!late && !(s->listen_closed && quiet)))
        return; /* its threads borrow what goes now */
    if (!quiet)
        log_event(LOG_WARN, "stopped_early", "why=%s",
                  LOGQ("time is up; counts that are not merged wait in Redis"));
    service_close(s);
}
