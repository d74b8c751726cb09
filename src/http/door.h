/* http/door.h - a blocking connection to the service's own RESP door, opened when it is needed and again after a cut. One
 * thread at a time; private to the room. */
#ifndef HTTP_DOOR_H
#define HTTP_DOOR_H

#include "base/slice.h"
#include "http/http.h"

#include <hiredis/hiredis.h>

#define DOOR_ANSWER_MS 15000 /* longer than the service takes to say that Redis or MySQL does not answer it */

struct door {
    const struct http_ports *ports;
    uint32_t answer_ms;
    redisContext *link; /* NULL: not connected */
};

void door_init(struct door *d, const struct http_ports *ports, uint32_t answer_ms);
void door_close(struct door *d);

/* The reply, also an error; the caller frees it. NULL: the service does not answer. */
redisReply *door_ask(struct door *d, const struct slice *words, size_t n);
/* Several at once: sent together, answers[i] as of door_ask, all of them or none. */
bool door_ask_all(struct door *d, const struct slice *const *words, const size_t *ns, size_t n,
                  redisReply **answers);
/* For a caller that uses hiredis itself; NULL: no connection. After an error on it the next use connects again. */
redisContext *door_link(struct door *d);

#endif
