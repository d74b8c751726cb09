/* admin/servers.h - Redis and MySQL, connected, for a verb that asks both. */
#ifndef ADMIN_SERVERS_H
#define ADMIN_SERVERS_H

#include "status/ask.h"

struct servers {
    struct ask ask;
    struct db_config reading; /* borrows its texts; a MySQL that takes no writes will do */
    struct db *db;
};

/* ERR_UNAVAILABLE: one of them cannot be reached; e says which, and what to do next. Nothing is open then. */
enum err servers_open(struct servers *s, const struct source *where, struct error *e) MUST_CHECK;
void servers_close(struct servers *s);

#endif
