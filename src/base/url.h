/* base/url.h - scheme://[user[:password]@]host[:port][,host[:port]...][/path][?query], split into pieces as they were
 * written: percent.h decodes. The caller decides what a piece may be, and whether several hosts are allowed. */
#ifndef BASE_URL_H
#define BASE_URL_H

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

#endif
