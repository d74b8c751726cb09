/* series/zones.h - which time zone a store has, and what hour it is there. One thread publishes a table of all stores;
 * any thread may ask. The loop has a view of its own, which takes no lock, makes no system call and allocates nothing
 * for a hit. */
#ifndef SERIES_ZONES_H
#define SERIES_ZONES_H

#include "base/map.h"
#include "base/zone.h"

#include <pthread.h>
#include <stdatomic.h>

#define ZONES_STORES_MOST 1000000 /* further ones have the default zone */
#define ZONES_MOST 1024           /* different ones */
#define ZONE_HOUR_BYTES 10        /* YYYYMMDDHH */

struct zone_table {   /* immutable once published */
    struct zone *all; /* all[0]: of a store that has none of its own */
    size_t n;
    struct map stores; /* -> one of all */
    size_t unknown;    /* stores whose zone this system does not have: they have the default */
    char unknown_names[4 * ZONE_NAME_MAX]; /* the first of these, '' for an empty one */
    size_t unknown_untold;                 /* stores whose zone is not among them */
    unsigned holders;                      /* of zones.lock */
    struct zone_table *next;               /* of zones.left */
};

struct zones {
    pthread_mutex_t lock; /* of latest, left and all holders */
    struct zone_table *latest;
    struct zone_table
        /* no view has it: the publisher frees them, since freeing a million stores takes the loop too long */
        *left;
    _Atomic uint64_t version; /* one more with each table */
    bool named;               /* a zone, or a table of stores' zones, is configured */
};

/* standard: the zone of stores that have none, NULL: UTC. If it cannot be read, UTC is used, and *e (may be NULL) says
 * so. */
struct zone_table *zone_table_create(const char *standard, struct error *e);
/* Gives the store the zone of that name. Add each store once; the last one counts. */
void zone_table_add(struct zone_table *t, struct slice store, struct slice name);

void zone_table_drop(struct zone_table *t); /* one that is not published */

void zones_init(struct zones *z, struct zone_table *first, bool named);
void zones_publish(struct zones *z, struct zone_table *t); /* takes it over */
void zones_close(struct zones *z);                         /* no view is left */

struct zone_clock { /* at a moment, of a store */
    char name[ZONE_NAME_MAX + 1];
    int32_t offset_s; /* of the zone from UTC */
    int64_t day_s;    /* when its day began, in seconds since 1970 */
};
struct zone_clock zones_clock(struct zones *z, struct slice store, int64_t at_s); /* any thread */

struct zone_hour { /* cached: holds for from_s <= t < until_s */
    int64_t from_s, until_s;
    char text[ZONE_HOUR_BYTES];
};

struct zone_view {
    struct zones *of;
    uint64_t version;
    struct zone_table *table;
    struct zone_hour *hours; /* one a zone of the table */
};

void zone_view_init(struct zone_view *v, struct zones *of);
void zone_view_close(struct zone_view *v);
/* Takes the table that is published now. Call it before the two below. */
void zone_view_refresh(struct zone_view *v);
/* The store's zone in this table: true as long as v->version is the same. */
uint32_t zone_view_of(const struct zone_view *v, struct slice store);
/* YYYYMMDDHH of that zone at that time, from 1970 to 9999; good until the next call. */
void zone_view_turn(struct zone_view *v, uint32_t zone, int64_t at_s);
static inline struct slice zone_view_hour(struct zone_view *v, uint32_t zone, int64_t at_s)
{
    const struct zone_hour *h = &v->hours[zone];
    if (at_s < h->from_s || at_s >= h->until_s) zone_view_turn(v, zone, at_s);
    return slice_of(h->text, ZONE_HOUR_BYTES);
}

#endif
