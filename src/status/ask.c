/* status/ask.c - see ask.h. */
#include "status/ask.h"
#include "base/heap.h"
#include "redis/cluster.h"
#include "redis/gen_op.h"
#include "redis/sentinel.h"

#include <stdio.h>

#define CONNECT_WAIT_MS 5000

static void link_closed(struct redis_link *l)
{
    CONTAINER_OF(l, struct ask, link)->closed = true;
}

static void finder_closed(void *closed)
{
    *(bool *)closed = true;
}

/* Nothing to do: a verb uses link->was_up and the error of redis_link_connect. */
static void link_up(struct redis_link *l)
{
    (void)l;
}

static void link_down(struct redis_link *l, const char *why)
{
    (void)l;
    (void)why;
}

static void ask_make(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms)
{
    *a = (struct ask){.lanes = where->lanes, .wait_ms = wait_ms};
    uv_loop_init(&a->loop);
    life_init(&a->life, slice_str(where->conf->instance));
    a->config = (struct redis_link_config){.life = &a->life,
                                           .role = "cli",
                                           .quiet = true,
                                           .keeps = (enum redis_keeps)where->conf->redis_durability,
                                           .connect_ms = wait_ms,
                                           .answer_ms = answer_ms};
    a->places = heap_alloc(a->lanes * sizeof *a->places);
    a->realms = heap_zalloc(a->lanes * sizeof *a->realms);
    for (uint32_t i = 0; i < a->lanes; i++)
        place_init_lane(&a->places[i], where->redis, i, a->lanes);
}

static void link_make(struct ask *a, uint32_t lane)
{
    a->lane = lane;
    a->config.place = &a->places[lane];
    redis_link_init(&a->link, &a->loop, &a->config);
    a->link.up = link_up;
    a->link.down = link_down;
}

static void link_end(struct ask *a)
{
    a->closed = false;
    redis_link_close(&a->link, link_closed);
    redis_run_until(&a->link, &a->closed);
}

static void realm_told(struct gen_read *g)
{
    *(bool *)g->arg = true;
}

/* The realm changes only when an operator accepts a rollback. Why a Redis has none is reported by the next question. */
static void realm_read(struct ask *a)
{
    bool done = false;
    struct gen_read gen = {.done = realm_told, .arg = &done};
    redis_gen(&a->link, &gen);
    redis_run_until(&a->link, &done);
    a->realms[a->lane] = gen.realm;
}

static struct cluster *cluster_ask(struct ask *a)
{
    struct redis_place **places = heap_alloc(a->lanes * sizeof(*places));
    for (uint32_t i = 0; i < a->lanes; i++)
        places[i] = &a->places[i];
    struct cluster *c = cluster_create(&a->loop, places, a->lanes);
    heap_free(places);
    return c;
}

/* Asks the sentinels or nodes where Redis is, if there are any. */
static enum err place_seek(struct ask *a, const struct source *where, struct error *e)
{
    e->code = ERR_NONE;
    if (where->sentinels->n > 0) {
        a->sentinels = sentinels_create(&a->loop, where->sentinels, &a->places[0]);
        return sentinels_wait(a->sentinels, a->wait_ms, e);
    }
    if (where->redis->cluster) {
        a->cluster = cluster_ask(a);
        return cluster_wait(a->cluster, a->wait_ms, e);
    }
    return ERR_NONE;
}

static enum err lane_connect(struct ask *a, struct error *e)
{
    enum err code = redis_link_connect(&a->link, a->wait_ms, e);
    if (code == ERR_NONE) realm_read(a);
    if (code == ERR_NONE) return ERR_NONE;
    e->text[strcspn(e->text, ";")] = '\0'; /* what follows is meant for clients */
    if (code != ERR_UNAVAILABLE) return code;
    char why[sizeof(e->text)];
    snprintf(why, sizeof(why), "%s", e->text);
    return error_set(e, code, "%.600s; see that it runs, and that redis.url and its password are right", why);
}

enum err ask_find(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e)
{
    ask_make(a, where, wait_ms, answer_ms);
    link_make(a, 0);
    if (place_seek(a, where, e) != ERR_NONE) ask_close(a);
    return e->code;
}

enum err ask_open(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e)
{
    if (ask_find(a, where, wait_ms, answer_ms, e) != ERR_NONE) return e->code;
    if (lane_connect(a, e) == ERR_NONE) return ERR_NONE;
    ask_close(a);
    return e->code;
}

enum err ask_lane(struct ask *a, uint32_t lane, struct error *e)
{
    link_end(a);
    link_make(a, lane);
    return lane_connect(a, e);
}

enum err ask_open_patiently(struct ask *a, const struct source *where, struct error *e)
{
    return ask_open(a, where, CONNECT_WAIT_MS, (uint32_t)where->conf->redis_timeout_ms, e);
}

void ask_close(struct ask *a)
{
    link_end(a);
    a->closed = a->sentinels == NULL && a->cluster == NULL;
    if (a->sentinels != NULL) sentinels_close(a->sentinels, finder_closed, &a->closed);
    if (a->cluster != NULL) cluster_close(a->cluster, finder_closed, &a->closed);
    redis_run_until(&a->link, &a->closed);
    uv_run(&a->loop, UV_RUN_NOWAIT);
    int left = uv_loop_close(&a->loop);
    INVARIANT(left == 0);
    heap_free(a->places);
    heap_free(a->realms);
}
