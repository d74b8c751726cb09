/* http/exchange.h - one request and its answer, as a route sees it; private to the room. A route fills in status, type
 * and body, once, by exchange_json() or exchange_refuse(); the server does the rest. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "base/json.h"
#include "base/slice.h"
#include "base/turns.h"
#include "conf/conf.h"
#include "http/http.h"
#include "mysql/panel.h"
#include "series/op.h"
#include "status/status.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <sys/socket.h>

/* The files that the program contains: the panel, dygraphs, openapi.yaml. Embedded by embed.cmake. */

struct asset {
    const char *name; /* as under /assets/ */
    const char *etag; /* "\"<hash of the text>\"" */
    struct slice text;
};
extern const struct asset assets[];
extern const size_t assets_n;

const struct asset *asset_find(struct slice name); /* NULL: no such asset */

/* A blocking connection to the service's own RESP door, opened when it is needed and again after a cut. One thread at a time;
 * private to the room. */

#define DOOR_ANSWER_MS 15000 /* longer than the service takes to say that Redis or MySQL does not answer it */

struct door {
    const struct http_ports *ports;
    uint32_t answer_ms;
    redisContext *link; /* NULL: not connected */
};

/* The reply, also an error; the caller frees it. NULL: the service does not answer. */
redisReply *door_ask(struct door *d, const struct slice *words, size_t n);
/* Several at once: sent together, answers[i] as of door_ask, all of them or none. */
bool door_ask_all(struct door *d, const struct slice *const *words, const size_t *ns, size_t n,
                  redisReply **answers);
/* For a caller that uses hiredis itself; NULL: no connection. After an error on it the next use connects again. */
redisContext *door_link(struct door *d);

/* The workers: threads that may wait. Each has a connection to the service's RESP door and one to MySQL, for its job alone.
 * Askers take turns, each with its jobs in the order of arrival, and one worker is left for others: many slow jobs of a token
 * delay no other. Private to the room. */

#define POOL_WORKERS 4
#define POOL_OF_ONE (POOL_WORKERS - 1) /* workers that one asker may have */

struct worker {
    struct pool *pool;
    pthread_t thread;
    struct door door;
    struct panel panel;
    bool busy;       /* with a job ... */
    const void *who; /* ... of this asker */
};

/* Embedded in the asker's struct; the pool's from pool_submit until run() is called, which may free it. */
struct job {
    struct turn turn; /* turn.who: the token, NULL: this machine, and tallyd itself */
    void (*run)(struct job *job, struct worker *w); /* w NULL: the pool stops, refuse */
};

struct pool {
    pthread_mutex_t lock; /* of queue and stopping */
    pthread_cond_t more;
    struct turns queue; /* of struct job */
    bool stopping;
    struct worker workers[POOL_WORKERS];
    size_t started;
};

void pool_init(struct pool *p, const struct http_ports *ports, const struct source *where);
bool pool_start(struct pool *p) MUST_CHECK; /* false: no more threads; pool_stop ends those that began */
/* False: it stops, the job is the caller's. */
bool pool_submit(struct pool *p, struct job *job) MUST_CHECK;
/* Waits for the jobs under way, answers those that wait, and returns when the threads have ended. */
void pool_stop(struct pool *p);
void pool_close(struct pool *p);

/* CSV as RFC 4180 has it, in UTF-8: comma, CRLF, quotation marks where they are needed. A text that a spreadsheet would run as a
 * formula gets a ' before it; a number does not. Pure; private to the room. */

struct csv {
    struct buf *out; /* borrowed */
    bool more;       /* the row has a cell */
};

void csv_text(struct csv *c,
              struct slice text); /* any bytes; what is no UTF-8, or a control byte, becomes U+FFFD */
void csv_int(struct csv *c, int64_t v);
void csv_figure(struct csv *c, struct figure f); /* empty when it is not known */
void csv_end(struct csv *c);                     /* of the row */

/* What a request asks for: the segments of its path and the parameters of its query, percent-decoded. Pure. The target owns the
 * bytes; slices are good until target_close. */

#define TARGET_SEGMENTS_MAX 8
#define TARGET_ARGS_MAX 16

struct target_piece { /* of bytes */
    size_t at, n;
};

struct target {
    struct buf bytes;
    struct target_piece segments[TARGET_SEGMENTS_MAX];
    size_t segments_n; /* "/" has none; "/api/" has "api" and "" */
    struct target_piece names[TARGET_ARGS_MAX], values[TARGET_ARGS_MAX];
    size_t args_n;
};

/* Both return NULL, or in a phrase what is wrong. The path begins with '/' and has no query. %2F does not split
 * segments, "." and ".." are names like others. Every % must begin a %XX, and none may be a NUL byte. */
const char *target_read_path(struct target *t, struct slice path);
const char *target_add_arg(struct target *t, struct slice name, struct slice value); /* each name once */
void target_close(struct target *t);

struct slice target_segment(const struct target *t, size_t i);
struct slice target_arg_name(const struct target *t, size_t i);
/* The value of a parameter. False: it was not given. */
bool target_arg(const struct target *t, const char *name, struct slice *value);

/* Which client asks, and what it may see. Pure; texts are borrowed for the call.  A request from this machine needs no token,
 * unless http.local is `token`. Its peer is a loopback address or a unix socket, its Host is a loopback name (else a foreign page
 * may have led a browser here: DNS rebinding), and no proxy forwarded it. All others need a token. tallyd cannot distinguish a
 * proxy that adds no header and speaks HTTP/1.1 from a client: `token` is for that case. */

struct who {
    bool known;
    const struct conf_bearer *bearer; /* NULL: from this machine */
};

struct who_asks {
    const struct sockaddr *peer;
    const char *host;          /* the header; NULL: none */
    const char *authorization; /* likewise */
    bool forwarded;            /* a proxy's header is there, or it is HTTP/1.0, as nginx speaks by default */
    bool local_token;          /* http.local is `token` */
};

/* Is this a header that proxies, balancers and content networks add? */
bool header_is_of_a_proxy(const char *name);

/* Did a page of another origin make a browser send this? Sec-Fetch-Site tells, else Origin; a request with neither
 * comes from no browser. Each is a header, NULL: none. */
bool is_cross_origin(const char *fetch_site, const char *origin, const char *host);

struct who who_asks(const struct who_asks *q, const struct conf_bearers *bearers);

/* Does this name of a series, box, event or visitors belong to that store, by the patterns of the configuration (feeds,
 * uniques.name)? type: of events. */
bool name_is_of(const struct counters *counters, enum op_kind kind, struct slice name, struct slice type,
                struct slice store);

/* The store that it is bound to; p NULL: none, it sees everything. */
struct slice who_store(const struct who *w);

struct http;
struct route;
struct MHD_Connection;
struct MHD_Response;

struct exchange {
    struct http *http;
    struct MHD_Connection *connection;
    struct job job;            /* the pool's while the connection is suspended */
    bool answered;             /* status is final */
    size_t taken_bytes;        /* of a body that is thrown away */
    const struct route *route; /* NULL: refused before one was found */
    struct target target;
    struct who who;
    char *if_none_match; /* NULL: none */
    /* the answer */
    unsigned status;
    const char *type;   /* Content-Type */
    const char *etag;   /* NULL: none, and not to be kept */
    const char *allow;  /* of a 405 */
    char *file;         /* to be saved under this name; NULL: shown. Owned */
    struct slice fixed; /* instead of body: bytes that last as long as the program */
    struct buf body;
};

#define NO_STORE SLICE("-") /* instead of a store: of counters whose key has no <store> */

/* 200, application/json, and a writer into body, which that bracket begins; 0: nothing yet. */
struct json exchange_json(struct exchange *x, char bracket);
/* The parameter `format`: csv, or json, the default. False: refused. */
bool exchange_wants_csv(struct exchange *x, bool *csv) MUST_CHECK;
/* 200, text/csv to be saved under "<a>-<b>.csv", of which the letters, digits, '.', '_' and '-' are kept. */
struct csv exchange_csv(struct exchange *x, struct slice a, struct slice b);
/* {"error":..., "next":...}; the body so far is dropped. Always false, for checks that end so. */
bool exchange_refuse(struct exchange *x, unsigned status, const char *next, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Bytes of the program: 304 when the reader has them already. */
void exchange_fixed(struct exchange *x, struct slice bytes, const char *type, const char *etag);

/* The segment of the path for the i-th {} of the route. */
struct slice exchange_part(const struct exchange *x, size_t i);
/* A whole number given as a parameter, standard when it is not. False: refused. */
bool exchange_number(struct exchange *x, const char *name, int64_t least, int64_t most, int64_t standard,
                     int64_t *out) MUST_CHECK;
/* May it see this store; may it see a name of that kind? type: of events. False: refused. */
bool exchange_sees_store(struct exchange *x, struct slice store) MUST_CHECK;
bool exchange_sees_name(struct exchange *x, enum op_kind kind, struct slice name,
                        struct slice type) MUST_CHECK;
/* The door did not answer as expected: reply is NULL or an error. Frees reply. */
void exchange_refuse_reply(struct exchange *x, redisReply *reply);
/* The reply, an array. NULL: refused. */
redisReply *exchange_ask(struct exchange *x, struct worker *w, const struct slice *words, size_t n);

/* The table of all paths; private to the room. A test compares them with openapi.yaml. */

enum access {
    ACCESS_ANYBODY,  /* holds no data of a shop */
    ACCESS_KNOWN,    /* this machine or a token; a token bound to a store sees that store only */
    ACCESS_OPERATOR, /* the same, but no token that is bound to a store */
};

typedef void route_fn(struct exchange *x, struct worker *w);

struct route {
    const char *method; /* GET answers HEAD, too */
    const char *path;   /* "/api/stores/{store}/counters/{counter}" */
    const char *args;   /* parameters that it knows, ' ' between them */
    enum access access;
    bool waits; /* it is answered by a worker; else by the thread of the sockets, with w NULL */
    route_fn *run;
};

extern const struct route routes[];
extern const size_t routes_n;

/* NULL: no such route. *allow is then the methods that the path has, "" for no such path. */
const struct route *route_find(const char *method, const struct target *t, const char **allow);
/* Which segment of its path is the i-th {}. */
size_t route_variable(const struct route *r, size_t i);
bool route_knows(const struct route *r, struct slice arg);

/* api_*.c and others */
route_fn run_asset, run_healthz, run_readyz, run_metrics, run_counters, run_stores, run_store, run_figures,
    run_series_names, run_series, run_timebox, run_events, run_uniques, run_rejects, run_replay, run_drop,
    run_status, run_books, run_pulse, run_history;

#endif
