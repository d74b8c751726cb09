/* http/inside.h - what the files of http/ share.
 *   server.c                       addresses, libmicrohttpd, the life of an exchange
 *   route.c, exchange.c, target.c  what is asked; who.c: by which client, and may it
 *   heads.c, https.c               connections from which a request is awaited; TLS
 *   pool.c, door.c                 requests that wait
 *   pulse.c                        does the service live?
 *   api_*.c, metrics.c, assets.c   the answers */
#ifndef HTTP_INSIDE_H
#define HTTP_INSIDE_H

#include "http/answer_cache.h"
#include "http/bearers.h"
#include "http/exchange.h"
#include "http/heads.h"
#include "http/http.h"
#include "http/labels.h"
#include "http/pulse.h"
#include "http/status_cache.h"

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
    struct status_cache status_cache;
    struct answer_cache answer_cache;
    struct label_cache label_cache;
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
