/* conf/address.h - an address to listen on; private to the room. */
#ifndef CONF_ADDRESS_H
#define CONF_ADDRESS_H

#include "conf/conf.h"

#define UNIX_PATH_MAX 107 /* bytes of a unix socket's path (unix(7)) */

/* Adds one to the list: tcp://IP:port, tcp://[IPv6]:port or unix:///path. False: *why says what stands there.
 */
bool address_read(struct slice text, struct conf_addresses *out, const char **why) MUST_CHECK;
void addresses_free(struct conf_addresses *a);

#endif
