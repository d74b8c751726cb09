/* protocol/request.h - RESP bytes to requests, as Redis 7.0 reads them: multibulk and inline, the same tolerance, the
 * same error texts. Nothing is copied and nothing is allocated per request. Arguments point into the input (inline ones
 * with quotes into the request's own buffer) and are good until the next call with the same struct request. The result
 * depends on the bytes alone, never on how they were split. */
#ifndef PROTOCOL_REQUEST_H
#define PROTOCOL_REQUEST_H

#include "base/outlet.h"
#include "base/slice.h"

struct request_limits {
    uint32_t args_max;  /* arguments of a request, 1,024 */
    uint32_t bulk_max;  /* bytes of one argument, 64 KiB */
    uint32_t line_max;  /* bytes of an inline request or of a header line, 64 KiB as in Redis */
    uint32_t bytes_max; /* bytes of a whole request, 1 MiB */
    bool stranger;      /* an unauthenticated client: errors say so */
};
extern const struct request_limits request_limits_default;
extern const struct request_limits request_limits_stranger; /* Redis' own */

/* One parsed request. It is large, so all connections of a loop share one: it is used up before the next one is
 * parsed. */
struct request {
    struct slice *args; /* args_n of them */
    uint32_t args_n;    /* 0: an empty line, `*0` or `*-1`: nothing to do */
    struct slice raw;   /* its bytes in the input; raw.n of them are used up */
    const char
        *error; /* INVALID, OVERSIZE: Redis' text, for reply_error(); the connection is beyond repair */
    /* private */
    struct request_limits limits;
    struct buf unquoted;
    char error_text[64];
};

/* How far one connection has come inside its unfinished request, so that a large one that arrives byte by byte is not
 * read from its beginning each time. All zero: at the start of one. */
struct parser {
    uint32_t at;   /* bytes of the request's first line and of its arguments that are whole */
    uint32_t left; /* arguments still to come; 0: at the start */
    uint32_t size; /* arguments of the request */
};

/* From the next request on; args_max must not be above that of request_init(). */
static inline void request_limit(struct request *r, const struct request_limits *limits)
{
    r->limits = *limits;
}

enum parsed { PARSED_OK, PARSED_UNFIN, PARSED_INVALID, PARSED_OVERSIZE };

void request_init(struct request *r, const struct request_limits *limits);
void request_close(struct request *r);

/* Takes one request from the front of in. UNFIN: no whole request yet, call again with the same bytes and more after
 * them. OK leaves p as new, so the same bytes may also be parsed once more. */
enum parsed request_parse(struct request *r, struct parser *p, struct slice in);

/* --- the shapes of nearly every request, read without the general parser's state: `*4 $7 HINCRBY key field n` and `*2 $7 CTR.HIT
 * key`, whole in the input, headers of one or two digits. Anything else is for request_parse(). --- */

size_t request_hit(struct slice in,
                   struct hit_bytes *h); /* bytes of the request, 0: not of this shape; h points into in */
size_t request_today(struct slice in, struct hit_bytes *h); /* likewise; only key, and raw up to the field */

#endif
