/* engine/core.c - see core.h. */
#include "engine/core.h"
#include "redis/batch.h"
#include <stdio.h>

void core_link_init(struct core *c, struct redis_link *l, const char *role)
{
    const struct redis_link_config config = {
        .place = &c->place,
        .life = c->config.life,
        .role = role,
        .check = true,
        .counts = c->config.serves,
        .keeps = c->config.keeps,
        .connect_ms = c->config.timeout_ms,
        .answer_ms = c->config.timeout_ms,
    };
    redis_link_init(l, c->loop, &config);
}

bool core_up(const struct core *c)
{
    return redis_link_is_up(&c->frame_link) && redis_link_is_up(&c->sync_link) &&
           redis_link_is_up(&c->fence_links[0]);
}

void core_job(struct core *c, struct db_job *job)
{
    if (c->pool != NULL) {
        writer_pool_job(c->pool, job);
        return;
    }
    job->ran = false;
    snprintf(job->text, sizeof job->text, "tallyd is stopping");
    job->done(job);
}

uint64_t core_mono_ms(void *core)
{
    (void)core;
    return mono_ms();
}

uint64_t core_age_ms(void *core)
{
    (void)core;
    return age_ms();
}

int64_t core_redis_ms(void *core)
{
    return redis_time_ms(&((struct core *)core)->frame_link);
}

void core_fence(void *core, struct fence *fence)
{
    redis_fence(((struct core *)core)->fences, fence);
}

void core_standing(void *core, struct standing *standing)
{
    redis_standing(&((struct core *)core)->sync_link, standing);
}

static void pause_over(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}
static void pause_closed(uv_handle_t *handle)
{
    *(bool *)handle->data = true;
}

void core_pause(uv_loop_t *loop, uint64_t ms)
{
    uv_timer_t timer;
    bool over = false;
    uv_timer_init(loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, pause_over, ms, 0);
    while (!over)
        uv_run(loop, UV_RUN_ONCE);
    over = false;
    uv_close((uv_handle_t *)&timer, pause_closed);
    while (!over)
        uv_run(loop, UV_RUN_ONCE);
}
