/* http/exchange.h - one request and its answer, as a route sees it; private to the room. A route fills in status, type
 * and body, once, by exchange_json() or exchange_refuse(); the server does the rest. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "base/json.h"
#include "http/csv.h"
#include "http/pool.h"
#include "http/target.h"
#include "http/who.h"
#include "series/op.h"

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

/* 200, application/json, and a writer into body. */
struct json exchange_json(struct exchange *x);
/* The parameter `format`: csv, or json, the default. False: refused. */
bool exchange_wants_csv(struct exchange *x, bool *csv) MUST_CHECK;
/* 200, text/csv to be saved under "<a>-<b>.csv", of which the letters, digits, '.', '_' and '-' are kept. */
struct csv exchange_csv(struct exchange *x, struct slice a, struct slice b);
/* {"error":..., "next":...}; the body so far is dropped. */
void exchange_refuse(struct exchange *x, unsigned status, const char *next, const char *fmt, ...)
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
/* The reply when it is of that type. NULL: refused. */
redisReply *exchange_ask(struct exchange *x, struct worker *w, const struct slice *words, size_t n, int type);

#endif
