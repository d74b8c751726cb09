/* listen/address.h - where to listen: `tcp://host:port`, `tls://[::1]:port`, `unix:///path?mode=0660&group=name`. */
#ifndef LISTEN_ADDRESS_H
#define LISTEN_ADDRESS_H

#include "base/error.h"
#include "base/slice.h"
#include "base/unix_options.h"

#include <sys/socket.h>
#include <sys/un.h>

struct address {
    bool is_unix, is_tls;
    struct unix_options options;                            /* unix */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* unix: always terminated */
    char host[256];                                         /* tcp: a name or a numeric address */
    char port[6];
};

/* The text alone; whether host exists is found out when it is bound. */
enum err address_parse(struct slice url, struct address *out, struct error *e);

#endif
