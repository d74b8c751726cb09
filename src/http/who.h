/* http/who.h - which client asks, and what it may see. Pure; texts are borrowed for the call.
 *
 * A request from this machine needs no token, unless http.local is `token`. Its peer is a loopback address or a unix
 * socket, its Host is a loopback name (else a foreign page may have led a browser here: DNS rebinding), and no proxy
 * forwarded it. All others need a token. tallyd cannot distinguish a proxy that adds no header and speaks HTTP/1.1 from
 * a client: `token` is for that case. */
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

#endif
