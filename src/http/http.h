/* http/http.h - tallyd over HTTP: metrics, health, a JSON API (openapi.yaml) and the panel. It runs
 * beside the loop, in threads of its own:
 *   one of libmicrohttpd's for each address: sockets and parsing; blocks for nothing
 *   a few workers: all that waits, for the service's own RESP door, for Redis, for MySQL
 *   the pulse: asks the door for its state twice a second
 * It touches no data of the loop. It asks the service over connections that `connect` gives, as any client does; figures
 * come from base/stats.h, which are atomic. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/log.h"
#include "status/ask.h"

struct tls_context;
struct zones;
struct http_ports {
    void *arg;
    struct zones *zones;     /* of stores; borrowed until http_destroy */
    struct tls_context *tls; /* of addresses with TLS; NULL: none has it. Borrowed until http_destroy */
    /* A new stream socket, connected to the RESP door; the caller closes it. -1: none now. From any thread. */
    int (*connect)(void *arg);
    /* After http_stop: all threads but the calling one have ended. Once, from a thread of this room. */
    void (*stopped)(void *arg);
};

struct http;

/* where and all that it points to is borrowed until http_destroy. */
struct http *http_create(const struct source *where, const struct http_ports *ports);
/* Listens at the addresses of listen.http, of which there is one at least, and begins. On an error nothing runs. */
enum err http_start(struct http *h, struct error *e) MUST_CHECK;
/* New connections use the files as ports.tls has read them last. On an error those of before. */
enum err http_certificates(struct http *h, struct error *e) MUST_CHECK;
/* Replaces the tokens by these: takes them over and leaves none in tokens. */
void http_bearers(struct http *h, struct conf_bearers *tokens);
/* Takes no more requests, finishes the answers under way, refuses those that wait for a worker.
 * Returns at once. */
void http_stop(struct http *h);
/* After stopped(), or when it was not started. */
void http_destroy(struct http **h);

#endif
