/* http/inside.h - what the files of http/ share.
 *   server.c                 addresses, libmicrohttpd, the life of an exchange
 *   route.c, exchange.c      what is asked; who.c: by which client, and may it
 *   https.c                  TLS, and connections from which a request is awaited
 *   pool.c                   requests that wait, and the pulse: does the service live?
 *   caches.c, labels.c       what was read of Redis and MySQL
 *   api_*.c, figures_read.c, metrics.c   the answers */
#ifndef HTTP_INSIDE_H
#define HTTP_INSIDE_H

#include "base/list.h"
#include "base/log.h"
#include "conf/conf.h"
#include "http/caches.h"
#include "http/exchange.h"
#include "http/http.h"
#include "status/status.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The tokens that are valid now: all threads read them, a reload replaces them. A request borrows its token, so old sets are kept
 * until the end. Private to the room. */

struct bearer_set;

struct bearers {
    const struct conf_bearers *now; /* atomic; the first are borrowed until close */
    struct bearer_set *last;        /* the reloader's: those of reloads, the last one first */
};

void bearers_close(struct bearers *s);
const struct conf_bearers *bearers_now(const struct bearers *s); /* any thread; until close */
/* Takes them over, and leaves none in bearers. */
void bearers_take(struct bearers *s, struct conf_bearers *bearers);

/* TLS of libmicrohttpd, by GnuTLS, with the files of listen.tls, which a SIGHUP reads again. Each session gets the credentials of
 * that moment when it begins, and keeps them. Private to the room. */

#define HTTPS_PRIORITIES                                                                                     \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:"   \
    "-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"

struct https_files;
struct tls_context;

struct https {
    struct tls_context *c; /* names the files, and says which were read; NULL: no address has TLS */
    unsigned read_n;       /* of c's, at the last https_read */
    uint32_t handshake_ms; /* that a handshake may take */
    struct https_files
        *now;  /* atomic; the newest. A session borrows its own, so older ones are kept until the end */
    bool over; /* atomic: handshakes are cut off by tallyd itself */
};

/* The files as c has read them last; the old ones remain when GnuTLS does not take them. */
enum err https_read(struct https *s, struct error *e) MUST_CHECK;
void https_close(struct https *s);

struct handshake { /* of a connection; its daemon's thread's */
    const struct https *of;
    const struct https_files *files;
    struct gnutls_session_int *session;
    uint64_t began_ms;   /* mono */
    bool hello, out, in; /* the client's hello was taken; ours, the client's finished */
};

/* For a daemon that has no certificate but those of its sessions. */
void *https_no_certificate(void);

/* Connections of an address from which a request is awaited. Half of the connections that it may have, and each for
 * HEAD_TIMEOUT_MS: beyond that the oldest is closed when a new one comes, so there is room for another client. */

#define IDLE_TIMEOUT_S 10U /* a connection on which nothing moves is closed */

struct heads {
    pthread_mutex_t lock;
    struct list awaited; /* the oldest first */
    unsigned n, most;
    const char *door;          /* its address */
    const struct https *https; /* NULL: without TLS */
};

void heads_init(struct heads *h, unsigned most, const char *door, const struct https *https);
/* libmicrohttpd's, of each connection: its begin and end. */
void heads_notify(void *heads, struct MHD_Connection *connection, void **context,
                  enum MHD_ConnectionNotificationCode what);
void heads_got(struct MHD_Connection *connection);   /* a request is here, whole, */
void heads_await(struct MHD_Connection *connection); /* and answered */

/* A thread that asks the service for its state twice a second, and waits only for it. Private to the room. */

struct beat {   /* what the service said of itself last */
    bool asked; /* else nothing of the rest is known but turns */
    bool turns; /* it answered not long ago, or was not asked for long */
    bool redis_up, mysql_up;
    char held[STATUS_WHY_BYTES]; /* why it merges nothing; empty: it does */
};

struct pulse {
    struct http *http;
    pthread_t thread;
    struct door door;       /* the thread's */
    pthread_mutex_t lock;   /* of all below */
    pthread_cond_t changed; /* stopping, asked */
    bool running, stopping;
    bool asked; /* for the first time: the service answered, or did not */
    struct beat beat;
    uint64_t answered_ms; /* mono; when this was made, until there is an answer */
    int64_t started_s;    /* wall, of this room; any thread */
};

void pulse_init(struct pulse *p, struct http *h);
bool pulse_start(struct pulse *p) MUST_CHECK;
void pulse_stop(struct pulse *p); /* waits for the thread */
void pulse_close(struct pulse *p);

struct beat pulse_beat(struct pulse *p);
/* A worker: waits until the service was asked once. An earlier answer would say that Redis and MySQL are down. */
void pulse_await(struct pulse *p);

/* What the operator's charts show, of the last hour: a point is taken every 10 s, by a worker, for it waits for Redis. */

#define HISTORY_EVERY_MS 10000
#define HISTORY_POINTS 360

struct history_point {
    int64_t time_s; /* wall */
    int64_t rows_in_flight;
    struct figure pending_hashes, oldest_ms;
};

struct history {
    pthread_mutex_t lock; /* of all but due_ms */
    struct job job;
    bool taking;                                 /* the job is the pool's */
    uint64_t due_ms;                             /* mono; the pulse's */
    struct history_point points[HISTORY_POINTS]; /* the i-th is at i % HISTORY_POINTS */
    size_t n;                                    /* taken so far */
};

void history_tick(struct http *h); /* the pulse's thread */

struct MHD_Daemon;

#define MARKS 256
struct mark { /* a digest of what is pending in a hash */
    uint64_t of, digest;
    uint64_t until_ms; /* mono; it is good until then */
};

struct http {
    const struct source *where;
    struct http_ports ports;
    struct pool pool;
    struct pulse pulse;
    struct history history;
    struct status_cache status_cache;
    struct answer_cache answer_cache;
    struct label_cache label_cache;
    struct counter stores; /* its items are stores, its labels their names; no more of it is set */
    struct bearers bearers;
    struct https https;
    struct MHD_Daemon **daemons; /* one an address */
    struct heads *heads;         /* likewise */
    int *sockets;                /* that they listened at, at the end; -1: none */
    size_t daemons_n;
    struct mark marks[MARKS]; /* each at the place that `of` says */
    pthread_mutex_t lock;     /* of the marks and the next two */
    pthread_cond_t answered;  /* no exchange is left */
    size_t exchanges;
    pthread_t ender;
    bool running, ending;
};

#endif
