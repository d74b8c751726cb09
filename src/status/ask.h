/* status/ask.h - where the state of a running tallyd is read from, and blocking connections to its Redis. */
#ifndef STATUS_ASK_H
#define STATUS_ASK_H

#include "conf/conf.h"
#include "mysql/db.h"
#include "redis/ask.h"
#include "redis/place.h"
#include "series/counter.h"

/* --- where the state of a running tallyd is read from: its configuration, its Redis, its MySQL. All borrowed. --- */

struct sentinels_config;

struct source {
    const struct conf *conf;
    const struct counters *counters;  /* in the order of conf's */
    const struct lookup *store_names; /* for http/ */
    const struct redis_url *redis;
    uint32_t lanes;                           /* 1 but on a cluster */
    const struct sentinels_config *sentinels; /* n 0: none */
    const struct db_config *mysql;
};

/* --- blocking connections to Redis, for any thread: to one lane after the other with a loop of their own (struct ask), or to all
 * at once (struct reach). --- */

struct finder {                 /* where each lane is */
    struct redis_place *places; /* one a lane */
    uint32_t lanes;
    struct sentinels *sentinels; /* NULL: none */
    struct cluster *cluster;     /* likewise */
};

struct ask {
    uv_loop_t loop;
    struct life life;
    struct redis_link_config config;
    struct finder at;
    uint32_t lane; /* that link is on */
    uint32_t wait_ms;
    struct redis_link link;
    struct batch_id *realms; /* tally:realm of each lane that was asked; zero: it has none */
};

/* Connected to lane 0, not checked; where's parts are borrowed until ask_close. wait_ms: how long it tries to connect;
 * answer_ms: how long an answer may take. On an error (ERR_UNAVAILABLE, with what to do next) nothing is left open. */
enum err ask_open(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e) MUST_CHECK;
/* As ask_open, but not connected: it knows where each lane is, and ask_lane() is next. */
enum err ask_find(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e) MUST_CHECK;
/* For a verb that needs Redis: with the time limits of the configuration. */
enum err ask_open_patiently(struct ask *a, const struct source *where, struct error *e) MUST_CHECK;
/* Goes on to another lane: connects, and reads its realm. On an error link is up to none, and ask_lane() may be tried
 * with another one. */
enum err ask_lane(struct ask *a, uint32_t lane, struct error *e) MUST_CHECK;
void ask_close(struct ask *a);

struct reach {
    struct finder at;
    struct redis_link *links; /* one a lane */
    uint32_t open;            /* links that are */
};

/* Connected, not checked; a link that is lost is not made again, so what is asked there later is lost, too. Several may share a
 * loop. where's parts and life are borrowed until reach_close(), which an error needs, too. */
enum err reach_open(struct reach *r, uv_loop_t *loop, const struct life *life, const struct source *where,
                    struct error *e) MUST_CHECK;
void reach_close(struct reach *r);

/* Has a cluster as many lanes as redis.lanes says? The number is fixed when it is first used: with another number tallyd would look
 * for every key elsewhere. It is kept in the slot of a cluster's only lane, whatever it is: so a tallyd finds it before it knows the
 * number, and finds a tallyd that was here when there was one lane.
 * keep: a cluster that has no number yet gets this one. ERR_CONFIG: it has another, e says what to do. ERR_BUSY: a
 * move into it is under way. ERR_NONE for a Redis that is no cluster, which has one lane. */
enum err lanes_agree(const struct source *where, bool keep, struct error *e) MUST_CHECK;
/* Keeps nothing. Where a move is under way it asks again after each pause(), until that is false. */
enum err lanes_agree_after(const struct source *where, bool (*pause)(void *arg, const struct error *why),
                           void *arg, struct error *e) MUST_CHECK;

#endif
