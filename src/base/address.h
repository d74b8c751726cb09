/* base/address.h - where tallyd listens: tcp://IP:port, tls://[IPv6]:port, unix:///path?mode=0660&group=www-data; behind a
 * proxy tcp://IP:port?proxy=on&from=10.0.0.0/8,192.168.1.7; for several processes on one port tcp://IP:port?reuseport=1.
 * Numbers only, no host names: a service's listeners should not depend on DNS. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include "base/log.h"
#include "base/slice.h"

#include <sys/types.h>

#define NETWORKS_MAX 8

struct networks {
    size_t n;
    struct network {
        unsigned char of[16]; /* IPv4 behind ::ffff:0:0 */
        unsigned bits;        /* of them that count */
    } all[NETWORKS_MAX];
};

/* Owns its strings. */
struct address {
    char *text;              /* as given */
    char *host;              /* "127.0.0.1", "::1" without brackets; NULL: a unix socket */
    char *path;              /* of the unix socket; NULL: TCP */
    int port;                /* 1..65535; 0: any, not read from a text */
    bool tls;                /* TCP with TLS */
    bool shared;             /* by several processes, among which the kernel deals out its clients */
    struct networks proxies; /* whose connections begin with a PROXY protocol header; n 0: none does */
    mode_t mode;             /* of the unix socket; 0: none was given, 0660 */
    char group[33];          /* a name or a number; empty: the group of the process */
};

/* NULL, or what the text is, as "an address without a port"; then *out owns nothing. */
const char *address_parse(struct slice text, struct address *out) MUST_CHECK;
void address_free(struct address *a);
struct sockaddr;
bool networks_have(const struct networks *n, const struct sockaddr *peer);

/* A listening socket, -1: e says why. Blocks for a moment, at start only. A unix socket's file has its mode and group
 * before any client can connect. The file of a dead process is replaced; one that another process serves is refused. */
int address_listen(const struct address *a, int backlog, struct error *e) MUST_CHECK;
void address_unlink(const struct address *a); /* of a unix socket that listens */

#endif
