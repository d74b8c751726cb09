/* redis/link.h - one connection to Redis that reconnects by itself: resolve -> connect -> handshake -> up, and after
 * each cut again, with backoff and jitter. hiredis' reader parses; the socket is a uv stream of ours, since hiredis
 * 0.14's libuv adapter hangs forever on a refused connection. A request is bytes and the number of replies it expects;
 * answers come in order. A cut answers every pending request once with a NULL reply: its outcome is unknown. A request
 * made while the link is not up is also answered with NULL, at the next turn of the loop, and was never sent. No
 * callback is ever called from inside the call that asked. One loop, no locks. Start ignores SIGPIPE for the process
 * unless a handler is set: libuv writes without MSG_NOSIGNAL. */
#ifndef REDIS_LINK_H
#define REDIS_LINK_H

#include "base/clock.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/sm.h"
#include "redis/place.h"
#include "redis/reader.h"
#include "series/names.h"
#include <uv.h>

#define REDIS_WHY_BYTES 300

enum redis_keeps { REDIS_KEEPS_DISK, REDIS_KEEPS_REPLICAS, REDIS_KEEPS_NOTHING }; /* what holds a claim */

/* What the server said of itself in the handshake of this connection. */
struct redis_facts {
    int version; /* 7.0.15 -> 70015; Valkey says the Redis version it is compatible with */
    char version_text[48];
    char run_id[RUN_ID_BYTES]; /* names the server process */
    char replid[RUN_ID_BYTES],
        replid2[RUN_ID_BYTES]; /* of its data; of its primary's until it was promoted */
    bool master, loading, aof_on, cluster;
    bool moved;           /* KEY_MOVE stands; asked by a link that counts */
    bool cluster_wanted;  /* by the URL, not the server */
    char policy[32];      /* maxmemory-policy */
    int64_t used_percent; /* of maxmemory; 0: it has none */
    char appendfsync[16]; /* always, everysec, no; empty: CONFIG GET was refused */
    bool lax_fsync;       /* no-appendfsync-on-rewrite; true, too, when CONFIG GET was refused */
};

struct redis_link_config {
    struct redis_place *place; /* borrowed for the link's life */
    const struct life *life;   /* likewise; for CLIENT SETNAME */
    const char *role;          /* "frame", "sync", "fence", "clean", "cli" */
    bool check;  /* redis_check_facts (check_op.h) at each connect; refused: stays down, tries again */
    bool counts; /* its owner counts hits: a Redis whose counts have moved is refused; with check */
    bool
        plain; /* of a sentinel, or to look at a server: AUTH and PING are the whole handshake; it asks nothing by itself */
    enum redis_keeps keeps; /* for that check */
    bool quiet;             /* logs no ups and downs: its owner logs them */
    bool once;              /* once it was up, it is not made again */
    uint32_t connect_ms;    /* resolve, connect and handshake together; 0: 5,000 */
    /* cut when nothing was read for this long while an answer is due; 0: 5,000 */
    uint32_t answer_ms;
    uint32_t retry_ms, retry_most_ms; /* backoff, 0: 50 and 2,000 */
    size_t write_max;     /* bytes not yet taken by the socket, over which the link is cut; 0: 64 MiB */
    uint32_t pending_max; /* requests pending, likewise; 0: 65,536 */
};

struct tls_session;
struct redis_link;
struct redis_expect;

/* One reply of a request; at counts its replies from 0. r NULL: the link was cut (or was not up). This is then the last
 * call for that request, and at says how many replies had come. */
typedef void redis_reply_cb(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at);

enum redis_link_state {
    LINK_IDLE,      /* not started, or closed */
    LINK_RESOLVING, /* uv_getaddrinfo */
    LINK_CONNECTING,
    LINK_HANDSHAKE,
    LINK_UP,
    LINK_CLOSING, /* the socket is being given back */
    LINK_WAITING, /* for the next try */
    LINK_STATES
};

struct redis_link {
    /* set between init and start; each may be NULL */
    void (*up)(struct redis_link *l);
    /* Once for each try that ended, also for one that never came up (then was_up is false). why: an error line for
     * clients, its prefix first; borrowed for the call, and l->why after it. */
    void (*down)(struct redis_link *l, const char *why);
    /* What arrives without a request, as on a subscribed connection; without it that ends the connection. */
    void (*push)(struct redis_link *l, const struct redis_answer *r);
    void *arg;
    /* read-only; facts and client_id are the newest connection's */
    struct redis_link_config config;
    struct redis_facts facts;
    int64_t client_id;
    bool was_up;
    char why[REDIS_WHY_BYTES]; /* of the last down; empty: none yet */
    /* ERR_CONFIG: the check refused the newest connection; the text has the correction */
    struct error refusal;
    /* private */
    uv_loop_t *loop;
    struct sm sm;
    uv_timer_t tick, soon; /* limits, retry, TIME; what must not happen inside a call */
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    uv_write_t write;
    bool io_open, resolve_busy, write_busy, reading, closing, doomed;
    uint8_t handles;            /* of tick and soon, not yet closed */
    struct list here;           /* in the place's links */
    struct redis_target target; /* of this try */
    unsigned host_at;           /* the target's number in the URL */
    bool at_once;               /* the next try needs no pause: it was told to go elsewhere */
    unsigned attempt, tries;    /* since the last steady connection; since the last that was up */
    bool no_role;               /* the user may not ask ROLE */
    uint64_t began_ms, up_ms, wait_until_ms, read_ms, tick_ms, time_asked_ms;
    uint64_t number_asked;  /* the number that the seq key is asked for; 0: it is not */
    int64_t time_offset_ms; /* Redis' time less mono */
    bool time_known;
    struct redis_reader *reader;
    char *inbox;               /* what the socket is read into */
    struct redis_expect *ring; /* pending requests */
    uint32_t ring_cap, ring_at, ring_n;
    struct redis_expect *refused; /* requests made while not up */
    uint32_t refused_cap, refused_n;
    struct buf out, writing, dropped; /* collected; handed to uv_write; of requests made while not up */
    struct tls_session *tls;          /* of this connection; NULL: plain */
    char *opened;                     /* what an inbox of TLS holds; NULL: never was TLS */
    uint32_t crash_after;             /* set of crash points that are due once all is written */
    uint8_t steps[12], steps_n;       /* of the handshake, in the order of their replies */
    char doom[REDIS_WHY_BYTES];       /* why, once doomed; the first reason is kept */
    void (*closed)(struct redis_link *l);
};

void redis_link_init(struct redis_link *l, uv_loop_t *loop, const struct redis_link_config *config);
void redis_link_start(struct redis_link *l);
/* Cuts, answers pending requests with NULL, closes the handles, then calls closed (may be NULL), once; from that call
 * on the struct is the caller's again. No up or down from here on. Allowed in any state after init. */
void redis_link_close(struct redis_link *l, void (*closed)(struct redis_link *l));
static inline bool redis_link_is_up(const struct redis_link *l)
{
    return sm_now(&l->sm) == LINK_UP && !l->doomed;
}

/* A request: append RESP to the buffer that begin returns, then say which replies are expected, then flush. Several
 * requests may be collected before one flush. Inside a reply callback the flush waits until all replies that were read
 * are handled. */
struct buf *redis_link_begin(struct redis_link *l);
void redis_link_expect(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg);
/* MULTI ... EXEC: of its replies, cb gets the last, and each that is not +OK and then +QUEUED as it should be. */
void redis_link_expect_transaction(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg);
void redis_link_flush(struct redis_link *l);
void redis_link_ask(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg); /* both */
void redis_link_flush_now(
    struct redis_link *l); /* also from inside a callback, where the other waits for its end */
void redis_link_crash_after(struct redis_link *l, enum crash_point p); /* passes p once all is written */

/* Ends this connection at the next turn of the loop (or after the callback); it reconnects by itself. why as in
 * down; the first reason is kept. */
void redis_link_cut(struct redis_link *l, const char *why);

/* The server has our frames up to number; 0: none, or it is not known. A request whose answer must be complete notes
 * redis_link_number() when it asks, and reads the seq key as well. It believes the answer if seq is at least that
 * number. If not, the server took over another one's data and still has our links: all of them leave, and the frame
 * link looks for what is missing. */
void redis_link_numbered(struct redis_link *l, uint64_t number);
uint64_t redis_link_number(const struct redis_link *l);
bool redis_link_whole(struct redis_link *l, uint64_t number, const struct redis_answer *seq);
void redis_link_changed(struct redis_link *l);

/* In a cluster: the slot is moving to another node, so a frame did not run. Frames are held, and this connection
 * ends. */
void redis_link_astray(struct redis_link *l);

/* Redis' own time: TIME every two seconds and the monotonic clock in between. Before the first connect it is the local
 * wall clock. */
int64_t redis_time_ms(const struct redis_link *l);

/* The prefix of all keys; empty on a Redis that is no cluster. */
static inline struct slice redis_tag(const struct redis_link *l)
{
    return tag_slice(&l->config.place->tag);
}

/* For the verbs of the command line, which own their loop. Runs it until *done, or until the link is up, refused, or
 * not reached within wait_ms (ERR_UNAVAILABLE; ERR_CONFIG for a failed check). */
void redis_run_until(struct redis_link *l, const bool *done);
enum err redis_link_connect(struct redis_link *l, uint64_t wait_ms, struct error *e);

#endif
