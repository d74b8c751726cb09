/* mysql/panel.h - what panels read of the merchants' tables and of tally_counters: plain SELECTs on a connection of its
 * own, with short time limits, apart from the writers'. Blocking, one thread at a time. A connection that the server
 * closed is opened again once. Every function returns ERR_UNAVAILABLE when MySQL cannot be reached. Rows are good for
 * the call. */
#ifndef MYSQL_PANEL_H
#define MYSQL_PANEL_H

#include "mysql/db.h"
#include "series/counter.h"
#include "series/row.h"
#include "series/zones.h"

struct columns;

struct panel {
    struct db_config config; /* the service's, with shorter limits; borrows its texts */
    const struct counters *counters;
    struct db *db;
    struct columns *forms; /* one a counter, read at the first need on each connection */
    bool *formed;
    uint64_t opened; /* db_opened when they were read */
};

#define PANEL_LIMIT_S 3 /* of connecting, and of each statement */

void panel_init(struct panel *p, const struct db_config *config, const struct counters *counters);
void panel_close(struct panel *p);

struct panel_rows { /* which rows are asked for, and the callback for them */
    const struct counter *counter;
    const struct parts *parts;
    struct slice store;     /* of the counter's kind; ignored when it has none */
    const struct slice *is; /* a value a part, or p NULL; not of the time */
    struct slice from, to;  /* of the time, in digits; p NULL: all of it */
    bool by_time; /* a sum for each time; else a sum for each value of the other parts, the highest first */
    uint32_t top; /* how many of these */
    void (*row)(void *arg, const struct slice *values, int64_t count); /* a value a part, a time in digits */
    void *arg;
};

enum err panel_rows_read(struct panel *p, const struct panel_rows *r, struct error *e) MUST_CHECK;

/* tally_counters.complete_until, ms since 1970; 0: not written yet. */
enum err panel_until(struct panel *p, const struct counter *c, int64_t *until_ms, struct error *e) MUST_CHECK;

/* Does it have a row in the table of any counter that could have such a store? */
enum err panel_store_known(struct panel *p, struct slice store, bool *known, struct error *e) MUST_CHECK;
/* The first n stores of a counter's table whose names begin with prefix; sorted as the column sorts. */
enum err panel_stores(struct panel *p, const struct counter *c, struct slice prefix, uint32_t n,
                      void (*store)(void *arg, struct slice name), void *arg, struct error *e) MUST_CHECK;

/* Names of fields of a counter with labels, as its table has them: at most n calls, no call for a field without a name.
 * id is the field, byte for byte. */
enum err panel_labels(struct panel *p, const struct counter *c, const struct slice *fields, size_t n,
                      void (*label)(void *arg, struct slice id, struct slice name), void *arg,
                      struct error *e) MUST_CHECK;

/* --- reads the zone of each store (store_zone) from the merchant's table: when it is created, then once a minute, in a thread of
 * its own. When MySQL cannot be asked, the last reading is used; before the first one, the default. --- */

#define STORE_ZONES_EVERY_S 60

struct store_zones;

/* Reads once before it returns, if `now`. Borrows all until store_zones_destroy. NULL: no thread can be made. */
struct store_zones *store_zones_create(const struct db_config *config, const struct lookup *where,
                                       const char *standard, struct zones *into, bool now);
void store_zones_stop(struct store_zones *r); /* asks it to end, and does not wait */
void store_zones_destroy(struct store_zones **r);

#endif
