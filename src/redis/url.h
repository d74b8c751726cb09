/* redis/url.h - where Redis is: redis://[user:password@]host[:port][,host[:port]...][/db], the same with TLS as
 * rediss://, or unix:///path[?db=n]. Of several hosts tallyd uses the primary (place.h). redis+cluster:// and
 * rediss+cluster:// name nodes of a Redis Cluster: any of them says where the lane's slot is (cluster.h). */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "base/log.h"
#include "base/slice.h"

#define REDIS_PORT_DEFAULT 6379
#define REDIS_HOSTS_MAX 8

struct redis_host {
    char *name; /* or address */
    int port;
};

/* Owns its strings (heap, NUL-terminated); redis_url_close frees them. */
struct tls_context;
struct redis_url {
    struct redis_host hosts[REDIS_HOSTS_MAX];
    unsigned hosts_n;
    char *path;            /* of the unix socket; NULL: TCP */
    char *user, *password; /* NULL: none */
    int db;
    bool secure;  /* rediss:// */
    bool cluster; /* redis+cluster:// */
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
