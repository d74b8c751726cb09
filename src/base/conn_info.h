/* base/conn_info.h - figures of a connection, for CLIENT INFO. */
#ifndef BASE_CONN_INFO_H
#define BASE_CONN_INFO_H

#include <stdbool.h>
#include <stddef.h>

#define CONN_ADDRESS_BYTES 160

struct conn_info {
    char peer[CONN_ADDRESS_BYTES], local[CONN_ADDRESS_BYTES]; /* "127.0.0.1:4711", "[::1]:4711", "/path:0" */
    int fd;                                                   /* -1: none any more */
    bool is_unix;
    bool reads;          /* from its client, now */
    size_t kept_bytes;   /* of requests that are not whole or not taken yet */
    size_t unsent_bytes; /* of answers that the socket had no room for, without the outlet's */
    size_t memory; /* of the block of both the connection and its session, and of what these three count */
};

#endif
