/* redis/url.h - where Redis is: redis://[user:password@]host[:port][/db], the same with TLS behind rediss://, or
 * unix:///path[?db=n]. */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "base/error.h"
#include "base/slice.h"

#define REDIS_PORT_DEFAULT 6379

/* Owns its strings (heap, NUL-terminated); redis_url_close frees them. */
struct tls_context;
struct redis_url {
    char *host;            /* name or address; NULL: a unix socket */
    char *path;            /* of the unix socket; NULL: TCP */
    char *user, *password; /* NULL: none */
    int port, db;
    bool secure; /* rediss:// */
    struct tls_context
        *tls; /* of secure: how; set by the owner before the first link, destroyed by redis_url_close */
};

/* User, password, host and path are percent-decoded. On failure out is empty and e names what was expected,
 * without repeating any part that may be a secret. */
enum err redis_url_parse(struct slice text, struct redis_url *out, struct error *e);
void redis_url_set_password(struct redis_url *url,
                            struct slice password); /* from a file or the environment */
void redis_url_close(struct redis_url *url);

#endif
