/* app/stop.c - the order of stop: clients get their answers, runs end or time is up, then everything is closed:
 * writers, lanes, handles. Redis has what is not merged by then, and the next start adopts it. */
#include "app/service.h"
#include "base/log.h"

static void handles_close(struct service *s)
{
    uv_close((uv_handle_t *)&s->turn, NULL);
    uv_close((uv_handle_t *)&s->again, NULL);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->web.news, NULL);
    uv_close((uv_handle_t *)&s->users.pace, NULL);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
}

static void redis_closed(void *arg)
{
    struct service *s = arg;
    if (--s->closing_n == 0) handles_close(s);
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

/* From here on sync only waits for what is out, so nothing asks a room that is closed already. */
static void service_close(struct service *s)
{
    s->stage = STAGE_CLOSING;
    EACH_LANE (l, s)
        lane_abandon(l);
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
    EACH_LANE (l, s)
        lane_stop(l);
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
    bool quiet = true;
    EACH_LANE (l, s)
        quiet &= lane_quiet(l);
    if (!wire_http_over(s) || (!late && !(s->listen_closed && quiet)))
        return; /* its threads borrow what goes now */
    if (!quiet)
        log_event(LOG_WARN, "stopped_early", "why=%s",
                  LOGQ("time is up; counts that are not merged wait in Redis"));
    service_close(s);
}
