/* http/socket.h - an address of listen.http as a listening socket. Blocks for a moment, at start only. Private to the room. */
#ifndef HTTP_SOCKET_H
#define HTTP_SOCKET_H

#include "conf/conf.h"

/* -1: e says why. A unix socket's file has the mode and group of the address; one that is dead is replaced, one that lives is refused. */
int socket_listen(const struct conf_address *a, struct error *e);
/* Nobody new is let in, and the file of a unix socket goes; who still looks at fd may. fd -1: nothing. */
void socket_quiet(const struct conf_address *a, int fd);
void socket_close(const struct conf_address *a, int fd); /* that, and fd */

#endif
