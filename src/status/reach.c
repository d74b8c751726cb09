/* status/reach.c - see reach.h. */
#include "status/reach.h"
#include "base/heap.h"
#include "redis/cluster.h"
#include "redis/sentinel.h"
#include <stdio.h>

#define REACH_MS 5000
#define REACH_WRITE_MAX ((size_t)1 << 30) /* the largest value that is copied, with others before it */

static void reach_up(struct redis_link *l)
{
    (void)l;
}

static void reach_down(struct redis_link *l, const char *why)
{
    (void)l, (void)why;
}

static void reach_make(struct reach *r, uv_loop_t *loop, const struct life *life, const struct source *where)
{
    *r = (struct reach){.lanes = where->lanes};
    r->places = heap_alloc(r->lanes * sizeof *r->places);
    r->links = heap_alloc(r->lanes * sizeof *r->links);
    for (r->open = 0; r->open < r->lanes; r->open++) {
        const struct redis_link_config config = {.place = &r->places[r->open],
                                                 .life = life,
                                                 .role = "cli",
                                                 .quiet = true,
                                                 .once = true,
                                                 .write_max = REACH_WRITE_MAX,
                                                 .connect_ms = REACH_MS,
                                                 .answer_ms = (uint32_t)where->conf->redis_timeout_ms};
        place_init_lane(&r->places[r->open], where->redis, r->open, r->lanes);
        redis_link_init(&r->links[r->open], loop, &config);
        r->links[r->open].up = reach_up;
        r->links[r->open].down = reach_down;
    }
}

static enum err reach_seek(struct reach *r, uv_loop_t *loop, const struct source *where, struct error *e)
{
    if (where->sentinels->n > 0) {
        r->sentinels = sentinels_create(loop, where->sentinels, &r->places[0]);
        return sentinels_wait(r->sentinels, REACH_MS, e);
    }
    if (!where->redis->cluster) return ERR_NONE;
    struct redis_place **places = heap_alloc(r->lanes * sizeof(*places));
    for (uint32_t i = 0; i < r->lanes; i++)
        places[i] = &r->places[i];
    r->cluster = cluster_create(loop, places, r->lanes);
    heap_free(places);
    return cluster_wait(r->cluster, REACH_MS, e);
}

enum err reach_open(struct reach *r, uv_loop_t *loop, const struct life *life, const struct source *where,
                    struct error *e)
{
    reach_make(r, loop, life, where);
    enum err code = reach_seek(r, loop, where, e);
    for (uint32_t i = 0; code == ERR_NONE && i < r->lanes; i++)
        code = redis_link_connect(&r->links[i], REACH_MS, e);
    return code;
}

static void reach_link_closed(struct redis_link *l)
{
    *(bool *)l->arg = true;
}

static void reach_finder_closed(void *closed)
{
    *(bool *)closed = true;
}

void reach_close(struct reach *r)
{
    for (uint32_t i = 0; i < r->open; i++) {
        bool closed = false;
        r->links[i].arg = &closed;
        redis_link_close(&r->links[i], reach_link_closed);
        redis_run_until(&r->links[i], &closed);
    }
    bool closed = r->sentinels == NULL && r->cluster == NULL;
    if (r->sentinels != NULL) sentinels_close(r->sentinels, reach_finder_closed, &closed);
    if (r->cluster != NULL) cluster_close(r->cluster, reach_finder_closed, &closed);
    if (r->open > 0) redis_run_until(&r->links[0], &closed);
    heap_free(r->links);
    heap_free(r->places);
    *r = (struct reach){0};
}
