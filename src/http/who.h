/* http/who.h - who asks, and what it may see. Pure; texts are borrowed for the call.
 *
 * This machine needs no token: a peer at a loopback address or a unix socket, that names the loopback as the host it
 * wants (else it may be a browser that a page of somebody else's leads here: DNS rebinding), and that forwards nobody (else
 * it is a proxy, and who asks is somewhere else). Everybody else has a token. */
#ifndef HTTP_WHO_H
#define HTTP_WHO_H

#include "conf/conf.h"
#include "series/op.h"

#include <sys/socket.h>

struct who {
    bool known;
    const struct conf_bearer *bearer; /* NULL: from this machine */
};

struct who_asks {
    const struct sockaddr *peer;
    const char *host;          /* the header; NULL: none */
    const char *authorization; /* likewise */
    bool forwarded;            /* Forwarded or X-Forwarded-For is there */
};

struct who who_asks(const struct who_asks *q, const struct conf_bearers *bearers);

/* Does this name of a series, box, event or visitors belong to that store, by the patterns of the configuration (feeds,
 * uniques.name)? type: of events. */
bool name_is_of(const struct counters *counters, enum op_kind kind, struct slice name, struct slice type,
                struct slice store);

/* The store that it is bound to; p NULL: none, it sees everything. */
struct slice who_store(const struct who *w);

#endif
