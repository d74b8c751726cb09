/* lib/redis_world.h - a loop, a private redis-server, a counter set, and one link: what most tests of redis/
 * need. */
#ifndef LIB_REDIS_WORLD_H
#define LIB_REDIS_WORLD_H

#include "lib/unit.h"

#include "lib/redis_server.h"
#include "redis/ask.h"
#include "redis/check_op.h"
#include "redis/link.h"
#include "series/counter.h"

struct world {
    uv_loop_t loop;
    uv_timer_t pulse; /* so that a wait looks at its condition */
    struct redis_server server;
    struct redis_url url;
    struct redis_place place;
    struct life life;
    struct redis_link link;
    struct counter all[2];
    struct counters counters;
    int ups, downs, closed;
    char why[REDIS_WHY_BYTES];
};
static struct world *world; /* opened last */

#define redis_do(...) redis_ask(&world->server, __VA_ARGS__)
#define redis_has(expected, ...) assert_redis(&world->server, (expected), __VA_ARGS__)

static inline void world_pulse(uv_timer_t *timer)
{
    (void)timer;
}

static inline void world_up(struct redis_link *l)
{
    ((struct world *)l->arg)->ups++;
}

static inline void world_down(struct redis_link *l, const char *why)
{
    struct world *w = l->arg;
    w->downs++;
    snprintf(w->why, sizeof w->why, "%s", why);
}

static inline void world_closed(struct redis_link *l)
{
    ((struct world *)l->arg)->closed++;
}

/* Runs the loop until cond; a test that waits for longer than 60 s has failed. */
#define WAIT_UNTIL(w, cond)                                                                                  \
    do {                                                                                                     \
        uint64_t until_ms_ = mono_ms() + 60000;                                                              \
        while (!(cond)) {                                                                                    \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                                 \
            if (mono_ms() > until_ms_) fail_msg("waited in vain for: %s", #cond);                            \
        }                                                                                                    \
    } while (0)

static int answers; /* that callbacks of COUNTS() have had in this world */

/* The callback of such a request. */
#define COUNTS(name, type)                                                                                   \
    static void name(struct type *request)                                                                   \
    {                                                                                                        \
        (void)request;                                                                                       \
        answers++;                                                                                           \
    }

/* Asks, and waits for one answer. */
#define ANSWERED(call)                                                                                       \
    do {                                                                                                     \
        int before_ = answers;                                                                               \
        call;                                                                                                \
        assert_int_equal(answers, before_); /* never from inside the call */                                 \
        WAIT_UNTIL(world, answers == before_ + 1);                                                           \
    } while (0)

static inline void world_counters(struct world *w)
{
    w->all[0] = (struct counter){.name = SLICE("unique_visitors"),
                                 .key = {SLICE("s"), SLICE(":unique_visitors:daily"), true, NULL},
                                 .lock = {SLICE("s"), SLICE(":unique_visitors:sync"), true, NULL},
                                 .field = FIELD_DATE,
                                 .hits = 50,
                                 .every_s = 60,
                                 .table = SLICE("daily_visitors")};
    w->all[1] = (struct counter){.name = SLICE("product_views"),
                                 .key = {SLICE("s"), SLICE(":product_views"), true, NULL},
                                 .lock = {SLICE("s"), SLICE(":product_views:sync"), true, NULL},
                                 .field = FIELD_INTEGER,
                                 .hits = 50,
                                 .every_s = 60,
                                 .table = SLICE("product_views")};
    w->counters = (struct counters){.all = w->all, .n = 2};
}

static inline void world_link(struct world *w, struct redis_link *l, const char *role)
{
    struct redis_link_config config = {
        .place = &w->place, .life = &w->life, .role = role, .answer_ms = 20000};
    redis_link_init(l, &w->loop, &config);
    l->up = world_up;
    l->down = world_down;
    l->arg = w;
}

static inline void world_link_up(struct world *w, const char *role)
{
    world_link(w, &w->link, role);
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->ups == 1);
}

/* A loop and a place for a server, nothing started. */
static inline struct world *world_empty(void)
{
    struct world *w = world = calloc(1, sizeof *w);
    answers = 0;
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->pulse);
    uv_timer_start(&w->pulse, world_pulse, 10, 10);
    redis_server_place(&w->server);
    w->url.path = w->server.socket; /* not ours to free: redis_url_close is not called */
    place_init(&w->place, &w->url);
    life_init(&w->life, SLICE("shop"));
    world_counters(w);
    return w;
}

static inline struct world *world_with_server(const char *const *args)
{
    struct world *w = world_empty();
    for (int i = 0; args != NULL && args[i] != NULL; i++)
        w->server.args[i] = args[i];
    redis_server_run(&w->server);
    return w;
}

static inline struct world *world_open(void) /* all of it, the link up */
{
    struct world *w = world_with_server(NULL);
    world_link_up(w, "frame");
    return w;
}

/* What a fence asks of a server before 8.0, whatever this one is; until the link comes up anew. */
static inline void world_timed(struct world *w)
{
    w->link.facts.version = REDIS_WAITAOF_TRUE - 1;
}

static inline void world_link_close(struct world *w, struct redis_link *l)
{
    int before = w->closed;
    redis_link_close(l, world_closed);
    WAIT_UNTIL(w, w->closed == before + 1);
}

static inline void world_end(struct world *w) /* links are closed already */
{
    uv_close((uv_handle_t *)&w->pulse, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    redis_server_stop(&w->server);
    free(w);
}

static inline void world_close(struct world *w)
{
    world_link_close(w, &w->link);
    world_end(w);
}

static inline void on_forgot(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)l, (void)arg, (void)at;
    assert_true(answer_is_ok(r));
}

static inline int world_setup(void **state)
{
    *state = world_open();
    return 0;
}

static inline int world_teardown(void **state)
{
    world_close(*state);
    return 0;
}

#define WORLD_TEST(f) UNIT_IN(f, world_setup, world_teardown)

/* The test has taken away what frames left there: no link is to notice. */
static inline void link_forget(struct redis_link *l)
{
    redis_link_numbered(l, 0);
    request_words(redis_link_begin(l), "UNWATCH");
    redis_link_ask(l, 1, on_forgot, NULL);
}

#endif
