/* base/url.h - URLs: scheme://[user[:password]@]host[:port][,host[:port]...][/path][?query], split into pieces as they
 * were written, which percent_decode() decodes. The caller decides what a piece may be, and whether several hosts are
 * allowed. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/log.h"
#include "base/slice.h"

#define UNIX_PATH_MAX                                                                                        \
    107 /* bytes of a unix socket's path (unix(7)); libuv 1.44 would cut a longer one without an error */

struct url {
    struct slice scheme;
    struct slice user, password, host, port, path,
        query;         /* p NULL: not there. IPv6 without brackets; path with its slash */
    bool bracketed;    /* [host] */
    struct slice more; /* the hosts after this one; p NULL: it is the last */
};

/* unix://path?query has neither user nor host. NULL, or what was expected. */
const char *url_split(struct slice text, struct url *out);
/* Sets host, port and bracketed to those of the next host; call it only with more.p != NULL. NULL, or what was
 * expected. */
const char *url_host_next(struct url *u);
bool url_port(struct slice port, int *out); /* 1 to 65535 */

/* Percent-decoding of URLs: %XX is a byte. A NUL byte is refused, since C strings cannot hold it. */

enum percent { PERCENT_OK, PERCENT_ESCAPE /* a % without two hexadecimal digits */, PERCENT_NUL };

/* out has room for text.n bytes; *n is how many were written, also at a fault. */
enum percent percent_decode(struct slice text, char *out, size_t *n) MUST_CHECK;
/* On the heap; NULL: a fault, and what was decoded is wiped, since it may be a password. */
char *percent_string(struct slice text) MUST_CHECK;

#endif
