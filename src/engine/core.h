/* engine/core.h - what every part of a lane works with: the links to one Redis, the writers to MySQL, coalesce/, sync/ and
 * the gate between them. Parts see this and not each other; lane.h puts them together. */
#ifndef ENGINE_CORE_H
#define ENGINE_CORE_H

#include "base/turns.h"
#include "coalesce/coalesce.h"
#include "mysql/writer.h"
#include "redis/batch.h"
#include "redis/check_op.h"
#include "redis/durable.h"
#include "redis/frame_op.h"
#include "redis/seek.h"
#include "series/asks.h"
#include "sync/total.h"

#include <uv.h>

/* --- only one life uses an instance's name on one Redis. Before a life counts there, it sees that no living one has the name, and
 * ends the links of dead ones. Both are asked on the lane's sync link, while that is up, and again until they are done. One loop.
 * --- */

struct name {
    struct redis_link *link;         /* borrowed */
    const char *host;                /* where this life is; borrowed */
    void (*taken)(struct name *n);   /* once: it is ours, and links of earlier lives are ended */
    void (*refused)(struct name *n); /* error says why. It goes on trying */
    /* read-only */
    bool free; /* when asked last, no living life had it */
    bool ours; /* for good */
    struct error
        error; /* ERR_CONFIG: another tallyd has it; ERR_UNAVAILABLE: Redis refuses; ERR_NONE: neither */
    /* private */
    bool may_take, busy;
    uint64_t began_ms, asked_ms, unlinked_ms, next_ms;
    struct redis_instance instance;
    struct redis_kill kill;
};

void name_tick(struct name *n, uint64_t now_ms); /* every 20 ms or so, and when the link comes up */
void name_take(struct name *n, uint64_t now_ms); /* until this call it is only looked whether it is free */

/* --- the links and machines of a lane --- */

enum stage {
    STAGE_STARTING,
    STAGE_RUNNING,
    STAGE_DRAINING, /* told to stop: no new clients or claims, what is under way goes on */
    STAGE_CLOSING,  /* time is up or all is done: writers, links and handles are closed */
};

struct lane_config {      /* what it points to is borrowed until lane_destroy() */
    uint32_t lane, lanes; /* which of how many; 0 of 1 on a Redis of its own */
    const struct counters *counters;
    const struct redis_url *redis;
    const struct sentinels_config *sentinels; /* n 0: none */
    const struct life *life;
    const char *host;              /* "<boot id>:<network namespace>": where the life is */
    uint32_t timeout_ms, replicas; /* redis.timeout, redis.replicas */
    enum redis_keeps keeps;        /* redis.durability */
    bool mysql_volatile;           /* a MySQL that may forget is accepted */
    bool take_over;                /* it merges for this Redis, whoever merges for another one of its realm */
    bool serves; /* counts hits, and cleans series and events (upkeep.h); else it only merges */
    uint64_t ledger_keep_ms, mysql_keep_ms;
    struct coalesce_config coalesce;
};

struct recovery;

#define READS_AT_ONCE 4
struct read_place {
    struct read_task *task;      /* NULL: none */
    uint64_t asked_us, until_us; /* until_us > 0: it rests before its next piece */
};
#define FENCE_LINKS 4 /* a fence waits for an fsync, which comes once a second */

struct core {
    struct lane_config config;
    uv_loop_t *loop;
    struct writer_pool *pool; /* NULL: not yet, or closed */
    enum stage stage;
    struct redis_place place; /* of all links */
    struct redis_scouts scouts;
    struct sentinels *sentinels; /* NULL: there are none, or they are closed */
    struct redis_link frame_link, sync_link;
    struct name name; /* until it is ours only the sync link is begun, and nothing is claimed */
    struct redis_frames frames;
    struct aof_watch aof;
    struct redis_link fence_links[FENCE_LINKS]; /* all but the first only where they are needed */
    struct redis_fences fences[FENCE_LINKS];    /* a chain */
    struct redis_scans scans;
    struct redis_link wait_link, waitaof_link;
    struct redis_waits waits, waitaofs; /* of clients */
    struct turns pendings;              /* CTR.PENDINGs that wait: users take turns, a piece each */
    bool pending_out;                   /* a piece is being read, or a rest follows it */
    uint64_t pending_until_us;          /* of the rest; 0: it is none */
    uint32_t pending_owed;              /* bytes that were read and not rested for */
    uv_timer_t rests;                   /* the end of the next one */
    struct list givings; /* those that were read: their clients get a part in each turn of the loop */
    struct turns reads;  /* of series, timeboxes, events and visitors that wait, likewise */
    struct read_place reading[READS_AT_ONCE];
    struct coalesce *coalesce;
    struct sync *sync;
    struct gate gate;
    struct recovery *recovery; /* under way, NULL: none */
};

void core_link_init(struct core *c, struct redis_link *l, const char *role);
bool core_up(const struct core *c); /* its links are, but for fences' further ones */
void wire_sync(struct core *c);     /* makes c->sync */
void wire_gate(struct core *c);     /* makes c->gate, after it */
void wire_totals(struct core *c, struct totals *t);
/* As writer_pool_job; without a pool it answers at once that the job did not run. */
void core_job(struct core *c, struct db_job *job);
void core_pause(uv_loop_t *loop, uint64_t ms); /* runs the loop */

/* A port that is one call: of is what its arg is. */
#define PORT(name, of, call, ...)                                                                            \
    static void name(void *arg, __VA_ARGS__)                                                                 \
    {                                                                                                        \
        of = arg;                                                                                            \
        call;                                                                                                \
    }

/* Ports that several machines share; core: the struct core. */
uint64_t core_mono_ms(void *core);
uint64_t core_age_ms(void *core); /* runs while the host sleeps */
int64_t core_redis_ms(void *core);
void core_fence(void *core, struct fence *fence);
void core_standing(void *core, struct standing *standing);

/* --- requests of clients to one lane (series/asks.h), except totals. --- */

void asks_init(struct core *c);
void asks_close(struct core *c,
                uv_close_cb closed); /* gives what is read at once; closed gets a handle whose data is c */
void ask_pending(struct core *c, struct pending_request *q);
bool asks_turn(struct core *c); /* in each turn of the loop; true: the next may not wait for events */
void ask_sync(struct core *c, struct sync_request *q);
void ask_recover(struct core *c, struct recover_request *q);
void ask_wait(struct core *c, struct wait_request *q);
void ask_read(struct core *c, struct read_request *q);

#endif
