/* status/status.h - the state of one tallyd. */
#ifndef STATUS_STATUS_H
#define STATUS_STATUS_H

#include "base/json.h"
#include "base/slice.h"
#include "base/stats.h"
#include "conf/conf.h"
#include "mysql/books.h"
#include "mysql/schema.h"
#include "status/ask.h"
#include "status/sums.h"

#include <hiredis/hiredis.h>

/* --- a refused row (mysql/books.h) for programs. --- */

/* One object: id, counter, store (null: its key is of no configured counter, or has none), key, field, delta (a text:
 * it may be no number), reason, rejected_at (seconds since 1970). */
void reject_json(struct json *j, const struct reject *r, const struct counters *counters);

/* --- the state of everything, gathered at once: the running service, Redis, MySQL, each counter, the batches. A figure that could
 * not be read is unknown, with the reason, and never 0. Blocking, with time limits: milliseconds, or some seconds when a server
 * does not answer. Stateless: any thread may call it with a struct status of its own (all but the main one between db_thread_begin
 * and db_thread_end). --- */

struct redisContext;

#define STATUS_WHY_BYTES 400
#define STATUS_BATCHES_SIZED 50    /* the oldest ones, whose fields are counted */
#define STATUS_BATCHES_LOOKED 1000 /* the oldest ones, whose chunks are looked up in the ledger */
#define STATUS_NAMES_MAX 10
#define STATUS_REPLICAS 8
#define STATUS_SENTINELS 16
#define STATUS_MEMORY_PERCENT 90 /* of its maxmemory, from which on a Redis is nearly full */
#define STATUS_REFUSALS 32
#define STATUS_DIRTY_LOOKED 20000 /* hashes that are counted by counter */

struct status_how {
    struct redisContext *service; /* the caller's connection to the service; NULL: connects by itself */
    uint32_t rate_ms; /* at least this long between two reads of the hits; 0: one read, hits_per_s unknown */
    bool books;       /* proves the books, unless there is too much to add up */
    bool brief;       /* no schema, no sizes of batches, by counter only its rejects */
};

struct figure {
    bool known;
    int64_t value;
};

/* null: not known. */
void figure_json(struct json *j, const char *key, struct figure f);
void seconds_json(struct json *j, const char *key, struct figure ms); /* with three decimals */

struct status_sentinel {
    char at[300];
    char state[16]; /* "answers", or what it does instead, as in the log */
    bool heard;     /* it is subscribed to its events */
};

struct status_refusal { /* see base/stats.h */
    char reason[24];
    int64_t minute, all;
    char why[440]; /* an example */
};

struct status_service {
    bool up;     /* answers as a tallyd does */
    bool secure; /* not up, but a server answers at a tls:// address */
    char why[STATUS_WHY_BYTES];
    char version[32], instance[NAME_BYTES_MAX + 1];
    int64_t pid, uptime_s, connections, connections_most;
    bool redis_up, mysql_up, stopping, recovering; /* as it sees them */
    char held[STATUS_WHY_BYTES]; /* why it merges nothing, with the correction; empty: it merges */
    struct figure hits_per_s;    /* see status_rate */
    struct figure leftovers;     /* claimed hashes of no batch, by its last walk */
    char redis_server[300], redis_run_id[RUN_ID_BYTES + 3]; /* that its links are on, or were last */
    char redis_links[64];                                /* which of them are up: "frame=1,sync=1,fence=0" */
    struct figure redis_moved_ms;                        /* since they moved to it; not known: never */
    int64_t lanes, lanes_up;                             /* of several, how many have Redis; 0: it has one */
    int64_t sentinels, sentinels_up, sentinels_majority; /* known, answering; 0: Redis has none */
    struct status_refusal refusal[STATUS_REFUSALS];      /* why hits were refused */
    size_t refusal_n;
    struct status_sentinel sentinel[STATUS_SENTINELS]; /* that it asks */
    size_t sentinel_n;
    char stalled[32]; /* why batches of an unknown counter make no progress; empty: they do */
    struct stats stats;
};

struct status_replica {
    char at[80]; /* host:port as the primary knows it */
    bool online;
    int64_t lag_s, behind_bytes; /* since its last acknowledgement; of the replication stream */
};

struct status_lane { /* of several */
    bool up, held;   /* held: it lost merged batches, so it merges nothing */
    char why[STATUS_WHY_BYTES], at[300];
    int64_t dirty;
    struct figure oldest_ms;
};

struct
    status_redis { /* of several lanes: all are up, sums, the oldest, and what is of one server of a lane */
    bool up;
    uint32_t lanes;           /* 1 but on a cluster */
    struct status_lane *lane; /* NULL: one */
    char why[STATUS_WHY_BYTES];
    char version[48], policy[32], fsync[16], role[16], run_id[RUN_ID_BYTES], at[300];
    enum conf_durability durability; /* redis.durability and redis.replicas, which this look used */
    int64_t replicas_wanted;
    int64_t memory_bytes, memory_most_bytes; /* 0: no limit */
    int64_t replicas, uptime_s;
    struct status_replica replica[STATUS_REPLICAS]; /* the first of them */
    size_t replica_n;
    bool aof_on, aof_writes; /* its last write to the AOF succeeded */
    char unfit[1000];        /* as redis_check_facts() says, with the correction; empty: it is fit */
    int64_t now_ms;          /* its time */
    uint64_t gen;
    bool nameless;           /* it has no tally:realm */
    int64_t dirty;           /* hashes that hold counts not yet claimed */
    struct figure oldest_ms; /* since the first hit in the oldest of them */
    bool sorted;             /* all were counted by counter */
    int64_t held;            /* hashes that no counter claims, and some of their names */
    char *held_names[STATUS_NAMES_MAX];
    size_t held_names_n;
};

struct status_mysql {
    bool up, read; /* read: tallyd's tables as well */
    char why[STATUS_WHY_BYTES];
    char version[64], server[300]; /* as db_server() has it */
    bool mariadb, read_only;
    uint64_t gen; /* the ledger's highest, read before Redis' */
};

struct status_counter {
    const struct counter *counter;   /* borrowed */
    struct figure dirty, oldest_ms;  /* as of struct status_redis, of this counter */
    struct figure complete_until_ms; /* every hit before is in its table; value 0: not yet said */
    struct figure merged, rejected;  /* sums of deltas, as tally_counters has them */
    struct figure rejects;           /* rows in tally_rejects that wait for replay or drop */
    char stalled
        [32]; /* why nothing of it is merged though it is due, as the service's log says; empty: it is */
    char stores_wait
        [500]; /* how many stores wait since too many of their rows were refused or some are locked, and of which; empty: none */
};

struct status_batch {
    struct batch_id id;
    char counter[NAME_BYTES_MAX + 1], owner[2 * NAME_BYTES_MAX + 1];
    bool configured;           /* its counter is */
    int64_t format;            /* BATCH_FORMAT of the tallyd that claimed it; -1: not known */
    int64_t age_ms, silent_ms; /* since its oldest hit; since its owner's last sign of life */
    int64_t hashes;
    struct figure fields;                /* of the oldest STATUS_BATCHES_SIZED */
    struct figure chunks, chunks_merged; /* not known before its first chunk is merged */
    char held[400];                      /* why the service holds it, as its log says; empty: it does not */
};

/* All of it: it is kept (mysql.keep), or about to be discarded. */
static inline bool status_is_merged(const struct status_batch *b)
{
    return b->chunks.known && b->chunks_merged.value == b->chunks.value;
}

struct status_books {
    bool known;
    char why[STATUS_WHY_BYTES];
    struct sums sums;
    size_t unbalanced; /* counters */
};

struct status {
    int64_t at_ms;    /* since 1970, this machine's clock */
    uint64_t mono_ms; /* of the same moment, for status_rate */
    struct status_service service;
    struct status_redis redis;
    struct status_mysql mysql;
    struct status_counter *counters; /* in the order of the configuration */
    size_t counters_n;
    struct status_batch *batches; /* all that exist, the oldest hit first */
    size_t batches_n;
    struct schema_report schema; /* of MySQL: what it refuses, with the correction */
    struct status_books books;
};

/* out needs no init and is closed by the caller; where stays borrowed until then. */
void status_probe(const struct source *where, const struct status_how *how, struct status *out);
void status_close(struct status *s);

/* Fills now's hits_per_s from an earlier status, unless the service was restarted in between. */
void status_rate(const struct status *before, struct status *now);

/* Redis lost merged batches, so merging waits (sync/README.md, rule S22). False also when that is not known. */
bool status_rolled_back(const struct status *s);

/* Calls problem for each fault, the worst first, with the step that mends it; texts for the call only. ERR_UNAVAILABLE:
 * Redis or MySQL cannot be reached; ERR_FAILED: there is another fault. */
typedef void status_problem(void *arg, const char *what, const char *next);
enum err status_judge(const struct status *s, status_problem *problem, void *arg);

void status_json(struct buf *out, const struct status *s); /* one object; README has its shape */
status_problem problem_json;                               /* arg: a struct json; an object */

/* --- asks the running tallyd over RESP: blocking, through hiredis, with time limits. --- */

/* The next step when service_connect() found only TLS. */
#define SERVICE_SECURE_NEXT                                                                                  \
    "give listen.control, a unix socket such as unix:///run/tallyd/control.sock, and restart tallyd"

/* Connects to the first configured address whose server answers PING. NULL: none does; *secure: one listens at a tls://
 * address, or for proxies, where verbs cannot go. */
redisContext *service_connect(const struct conf *conf, bool *secure);

/* Puts INFO's text into out, which it resets first. False: no answer, or not a tallyd's. */
bool service_info(redisContext *link, struct buf *out) MUST_CHECK;

/* The number, or the text (cut to size, unprintable bytes as '?'), of INFO's line `name:`. False: no such line. */
bool service_number(const struct buf *info, const char *name, int64_t *out);
bool service_text(const struct buf *info, const char *name, char *out, size_t size);
bool service_flag(const struct buf *info, const char *name); /* is it there, and not 0? */

#endif
