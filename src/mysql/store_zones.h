/* mysql/store_zones.h - reads the zone of each store (store_zone) from the merchant's table: when it is created, then
 * once a minute, in a thread of its own. When MySQL cannot be asked, the last reading is used; before the first one,
 * the default. */
#ifndef MYSQL_STORE_ZONES_H
#define MYSQL_STORE_ZONES_H

#include "mysql/db.h"
#include "series/counter.h"
#include "series/zones.h"

#define STORE_ZONES_EVERY_S 60

struct store_zones;

/* Reads once before it returns, if `now`. Borrows all until store_zones_destroy. NULL: no thread can be made. */
struct store_zones *store_zones_create(const struct db_config *config, const struct lookup *where,
                                       const char *standard, struct zones *into, bool now);
void store_zones_stop(struct store_zones *r); /* asks it to end, and does not wait */
void store_zones_destroy(struct store_zones **r);

#endif
