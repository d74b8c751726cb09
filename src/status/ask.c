/* status/ask.c - see ask.h. */
#include "status/ask.h"
#include "base/heap.h"
#include "redis/batch.h"
#include "redis/seek.h"
#include <stdio.h>

#define CONNECT_WAIT_MS 5000
#define REACH_WRITE_MAX ((size_t)1 << 30) /* the largest value that is copied, with others before it */
#define AGAIN_MS 1000

/* --- where the lanes are --- */

static void finder_make(struct finder *f, const struct source *where)
{
    *f = (struct finder){.lanes = where->lanes};
    f->places = heap_alloc(f->lanes * sizeof *f->places);
    for (uint32_t i = 0; i < f->lanes; i++)
        place_init_lane(&f->places[i], where->redis, i, f->lanes);
}

/* Asks the sentinels or nodes where Redis is, if there are any. */
static enum err finder_seek(struct finder *f, uv_loop_t *loop, const struct source *where, uint32_t wait_ms,
                            struct error *e)
{
    e->code = ERR_NONE;
    if (where->sentinels->n > 0) {
        f->sentinels = sentinels_create(loop, where->sentinels, &f->places[0]);
        return sentinels_wait(f->sentinels, wait_ms, e);
    }
    if (!where->redis->cluster) return ERR_NONE;
    struct redis_place **places = heap_alloc(f->lanes * sizeof(*places));
    for (uint32_t i = 0; i < f->lanes; i++)
        places[i] = &f->places[i];
    f->cluster = cluster_create(loop, places, f->lanes);
    heap_free(places);
    return cluster_wait(f->cluster, wait_ms, e);
}

static void ask_finder_closed(void *closed)
{
    *(bool *)closed = true;
}

/* Once all links are closed. */
static void finder_close(struct finder *f, uv_loop_t *loop)
{
    bool closed = f->sentinels == NULL && f->cluster == NULL;
    if (f->sentinels != NULL) sentinels_close(f->sentinels, ask_finder_closed, &closed);
    if (f->cluster != NULL) cluster_close(f->cluster, ask_finder_closed, &closed);
    while (!closed)
        uv_run(loop, UV_RUN_ONCE);
    heap_free(f->places);
}

/* --- one lane after the other --- */

static void link_make(struct ask *a, uint32_t lane)
{
    a->lane = lane;
    a->config.place = &a->at.places[lane];
    redis_link_init(&a->link, &a->loop, &a->config);
}

/* The realm changes only when an operator accepts a rollback. Why a Redis has none is reported by the next question. */
static enum err lane_connect(struct ask *a, struct error *e)
{
    struct gen_read gen = {0};
    enum err code = redis_link_connect(&a->link, a->wait_ms, e);
    if (code == ERR_NONE) {
        redis_gen(&a->link, &gen);
        redis_settle(&a->link);
        a->realms[a->lane] = gen.realm;
        return ERR_NONE;
    }
    e->text[strcspn(e->text, ";")] = '\0'; /* what follows is meant for clients */
    if (code != ERR_UNAVAILABLE) return code;
    char why[sizeof(e->text)];
    snprintf(why, sizeof(why), "%s", e->text);
    return error_set(
        e, code, "%.600s; see that it runs, and that redis.url, its password and its user's rights are right",
        why);
}

enum err ask_find(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e)
{
    *a = (struct ask){.wait_ms = wait_ms};
    uv_loop_init(&a->loop);
    life_init(&a->life, slice_str(where->conf->instance));
    a->config = (struct redis_link_config){.life = &a->life,
                                           .role = "cli",
                                           .quiet = true,
                                           .keeps = (enum redis_keeps)where->conf->redis_durability,
                                           .connect_ms = wait_ms,
                                           .answer_ms = answer_ms};
    finder_make(&a->at, where);
    a->realms = heap_zalloc(where->lanes * sizeof *a->realms);
    link_make(a, 0);
    if (finder_seek(&a->at, &a->loop, where, wait_ms, e) != ERR_NONE) ask_close(a);
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
    redis_end(&a->link);
    link_make(a, lane);
    return lane_connect(a, e);
}

enum err ask_open_patiently(struct ask *a, const struct source *where, struct error *e)
{
    return ask_open(a, where, CONNECT_WAIT_MS, (uint32_t)where->conf->redis_timeout_ms, e);
}

void ask_close(struct ask *a)
{
    redis_end(&a->link);
    finder_close(&a->at, &a->loop);
    uv_run(&a->loop, UV_RUN_NOWAIT);
    int left = uv_loop_close(&a->loop);
    INVARIANT(left == 0);
    heap_free(a->realms);
}

/* --- all lanes --- */

enum err reach_open(struct reach *r, uv_loop_t *loop, const struct life *life, const struct source *where,
                    struct error *e)
{
    struct redis_link_config config = {.life = life,
                                       .role = "cli",
                                       .quiet = true,
                                       .once = true,
                                       .write_max = REACH_WRITE_MAX,
                                       .connect_ms = CONNECT_WAIT_MS,
                                       .answer_ms = (uint32_t)where->conf->redis_timeout_ms};
    finder_make(&r->at, where);
    r->links = heap_alloc(where->lanes * sizeof *r->links);
    for (r->open = 0; r->open < where->lanes; r->open++) {
        config.place = &r->at.places[r->open];
        redis_link_init(&r->links[r->open], loop, &config);
    }
    enum err code = finder_seek(&r->at, loop, where, CONNECT_WAIT_MS, e);
    for (uint32_t i = 0; code == ERR_NONE && i < where->lanes; i++)
        code = redis_link_connect(&r->links[i], CONNECT_WAIT_MS, e);
    return code;
}

void reach_close(struct reach *r)
{
    for (uint32_t i = 0; i < r->open; i++)
        redis_end(&r->links[i]);
    if (r->open > 0) finder_close(&r->at, r->links[0].loop);
    heap_free(r->links);
    *r = (struct reach){0};
}

/* --- how many lanes there are --- */

static enum err lanes_ask(struct ask *home, const struct source *where, bool keep, struct error *e)
{
    char why[200];
    int64_t told = 0;
    const struct redis_answer *r =
        redis_call(&home->link, "EVAL %.*s 3 {}" KEY_LANES " {}" KEY_GEN " {}" KEY_REALM " %u %d",
                   SLICE_ARG(lua_lanes), where->lanes, keep);
    if (!answer_is(r, REDIS_NIL) && !answer_integer(r, &told)) {
        answer_why(r, why, sizeof why);
        return error_set(e, ERR_UNAVAILABLE,
                         "the cluster does not say how many lanes it has (%s); see that it answers, and that "
                         "redis.url's user may read and write the keys {*}*",
                         why);
    }
    if (told < 0)
        return error_set(
            e, ERR_BUSY,
            "`tallyd move` brings another Redis' counts into this cluster: run it to its end first");
    e->code = ERR_NONE;
    if (told == 0 || told == (int64_t)where->lanes) return ERR_NONE;
    return error_set(
        e, ERR_CONFIG,
        "redis.lanes is %u, and this cluster is used with %lld: what it has would be looked for in "
        "other slots. Write redis.lanes: %lld. Another number needs a cluster that tallyd has not "
        "used yet",
        where->lanes, (long long)told, (long long)told);
}

/* The mover ends links of others, this one, too: so it is made again. */
static enum err lanes_ask_after(const struct source *where, bool keep,
                                bool (*pause)(void *arg, const struct error *why), void *arg, struct error *e)
{
    struct ask ask;
    struct source home = *where;
    struct error ignored;
    bool waits = false;
    home.lanes = 1;
    if (!where->redis->cluster) return ERR_NONE;
    if (ask_open_patiently(&ask, &home, e) != ERR_NONE) return e->code;
    while (lanes_ask(&ask, where, keep, e) == ERR_BUSY || (waits && e->code == ERR_UNAVAILABLE)) {
        waits = pause != NULL && pause(arg, e);
        if (!waits) break;
        if (!redis_link_is_up(&ask.link)) (void)redis_link_connect(&ask.link, AGAIN_MS, &ignored);
    }
    ask_close(&ask);
    return e->code;
}

enum err lanes_agree(const struct source *where, bool keep, struct error *e)
{
    return lanes_ask_after(where, keep, NULL, NULL, e);
}

enum err lanes_agree_after(const struct source *where, bool (*pause)(void *arg, const struct error *why),
                           void *arg, struct error *e)
{
    return lanes_ask_after(where, false, pause, arg, e);
}
