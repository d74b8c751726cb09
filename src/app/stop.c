/* app/stop.c - the order of stop: clients hear their answers, runs end or time is up, then everything is
 * given back: writers, links, fences, handles. What is not merged by then stands in Redis, and the next start
 * adopts it. */
#include "app/recovery.h"
#include "app/service.h"
#include "base/log.h"

static void handles_close(struct redis_fences *fences)
{
    struct service *s = CONTAINER_OF(fences, struct service, fences);
    sync_tick(s->sync); /* abandoned, it asks for nothing: who still waits is told */
    uv_close((uv_handle_t *)&s->turn, NULL);
    uv_close((uv_handle_t *)&s->again, NULL);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->cleaner.timer, NULL);
    uv_close((uv_handle_t *)&s->web.news, NULL);
    uv_close((uv_handle_t *)&s->users.pace, NULL);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
}

static void on_fence_link(struct redis_link *l)
{
    struct service *s = l->arg;
    redis_fences_close(&s->fences, handles_close);
}

static void on_frame_link(struct redis_link *l)
{
    struct service *s = l->arg;
    coalesce_abandon(s->coalesce, "ERR tallyd is stopping");
    redis_link_close(&s->fence_link, on_fence_link);
}

static void on_sync_link(struct redis_link *l)
{
    struct service *s = l->arg;
    redis_link_close(&s->frame_link, on_frame_link);
}

static void on_clean_link(struct redis_link *l)
{
    struct service *s = l->arg;
    redis_link_close(&s->sync_link, on_sync_link);
}

static void on_pool_closed(void *arg)
{
    struct service *s = arg;
    s->pool = NULL;
    redis_link_close(&s->clean_link, on_clean_link);
}

/* From here on sync only waits for what is out, so nothing asks a room that is closed already. */
static void service_close(struct service *s)
{
    s->stage = STAGE_CLOSING;
    sync_abandon(s->sync);
    if (s->pool == NULL)
        on_pool_closed(s);
    else
        writer_pool_close(s->pool, 1000, on_pool_closed, s);
}

static void on_listen_closed(void *arg)
{
    ((struct service *)arg)->listen_closed = true;
}

static void drain_begin(struct service *s)
{
    sync_stop(s->sync);
    gate_stop(&s->gate);
    upkeep_stop(s);
    recovery_stop(s);
    wire_http_stop(s);
    wire_users_stop(s);
    if (s->listen == NULL)
        s->listen_closed = true;
    else
        listen_stop(s->listen, on_listen_closed, s);
}

void service_drain_tick(struct service *s, uint64_t now_ms)
{
    if (!s->draining) drain_begin(s);
    s->draining = true;
    coalesce_flush(s->coalesce);
    bool late = now_ms >= s->stop_by_ms;
    if (late && !s->listen_closed && !s->dropped) {
        s->dropped = true;
        listen_drop_all(s->listen);
    }
    bool quiet = coalesce_idle(s->coalesce) && sync_quiet(s->sync) && s->recovery == NULL &&
                 upkeep_quiet(s) && journals_quiet(s) && cleaner_quiet(s);
    if (!wire_http_over(s) || (!late && !(s->listen_closed && quiet)))
        return; /* its threads borrow what goes now */
    if (!quiet)
        log_event(LOG_WARN, "stopped_early", "why=%s",
                  LOGQ("time is up; what is not merged stands in Redis"));
    service_close(s);
}
