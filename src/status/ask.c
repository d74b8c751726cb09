/* status/ask.c - see ask.h. */
#include "status/ask.h"
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

/* A verb asks link->was_up and the error of redis_link_connect; it has nothing to do on the way. */
static void link_up(struct redis_link *l)
{
    (void)l;
}

static void link_down(struct redis_link *l, const char *why)
{
    (void)l;
    (void)why;
}

static void link_make(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms)
{
    const struct redis_link_config config = {.place = &a->place,
                                             .life = &a->life,
                                             .role = "cli",
                                             .quiet = true,
                                             .keeps = (enum redis_keeps)where->conf->redis_durability,
                                             .connect_ms = wait_ms,
                                             .answer_ms = answer_ms};
    place_init(&a->place, where->redis);
    redis_link_init(&a->link, &a->loop, &config);
    a->link.up = link_up;
    a->link.down = link_down;
}

static void realm_told(struct gen_read *g)
{
    *(bool *)g->arg = true;
}

/* It changes only when an operator accepts a rollback. Why a Redis says nothing is said by what is asked next. */
static void realm_read(struct ask *a)
{
    bool done = false;
    struct gen_read gen = {.done = realm_told, .arg = &done};
    redis_gen(&a->link, &gen);
    redis_run_until(&a->link, &done);
    a->realm = gen.realm;
}

/* Whoever is to say where Redis is. */
static enum err place_seek(struct ask *a, const struct source *where, uint32_t wait_ms, struct error *e)
{
    e->code = ERR_NONE;
    if (where->sentinels->n > 0) {
        a->sentinels = sentinels_create(&a->loop, where->sentinels, &a->place);
        return sentinels_wait(a->sentinels, wait_ms, e);
    }
    if (where->redis->cluster) {
        a->cluster = cluster_create(&a->loop, &a->place);
        return cluster_wait(a->cluster, wait_ms, e);
    }
    return ERR_NONE;
}

enum err ask_open(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e)
{
    *a = (struct ask){0};
    uv_loop_init(&a->loop);
    life_init(&a->life, slice_str(where->conf->instance));
    link_make(a, where, wait_ms, answer_ms);
    if (place_seek(a, where, wait_ms, e) != ERR_NONE) {
        ask_close(a);
        return e->code;
    }
    enum err code = redis_link_connect(&a->link, wait_ms, e);
    if (code == ERR_NONE) realm_read(a);
    if (code == ERR_NONE) return ERR_NONE;
    ask_close(a);
    e->text[strcspn(e->text, ";")] = '\0'; /* what follows is meant for clients */
    if (code != ERR_UNAVAILABLE) return code;
    char why[sizeof(e->text)];
    snprintf(why, sizeof(why), "%s", e->text);
    return error_set(e, code, "%.600s; see that it runs, and that redis.url and its password are right", why);
}

enum err ask_open_patiently(struct ask *a, const struct source *where, struct error *e)
{
    return ask_open(a, where, CONNECT_WAIT_MS, (uint32_t)where->conf->redis_timeout_ms, e);
}

void ask_close(struct ask *a)
{
    a->closed = false;
    redis_link_close(&a->link, link_closed);
    redis_run_until(&a->link, &a->closed);
    a->closed = a->sentinels == NULL && a->cluster == NULL;
    if (a->sentinels != NULL) sentinels_close(a->sentinels, finder_closed, &a->closed);
    if (a->cluster != NULL) cluster_close(a->cluster, finder_closed, &a->closed);
    redis_run_until(&a->link, &a->closed);
    uv_run(&a->loop, UV_RUN_NOWAIT);
    int left = uv_loop_close(&a->loop);
    INVARIANT(left == 0);
}
