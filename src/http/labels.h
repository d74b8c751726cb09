/* http/labels.h - names of items (counters.*.labels), read from MySQL and kept. Bounded by LABELS_MOST; a name is asked for
 * again after LABELS_AGE_MS, and while MySQL does not answer the last known one is used. Any thread. Private to the
 * room. */
#ifndef HTTP_LABELS_H
#define HTTP_LABELS_H

#include "base/map.h"
#include "mysql/panel.h"

#include <pthread.h>

#define LABELS_MOST 16384
#define LABELS_AGE_MS 60000
#define LABEL_BYTES_MAX 256 /* a longer name is cut at the end of a character */

/* Two generations: when the young one is half of all, the old one is dropped. A name that is used moves to the young
 * one. */
struct label_cache {
    pthread_mutex_t lock;
    struct map young, old; /* "<counter> <field>" -> struct label */
};

void label_cache_init(struct label_cache *c);
void label_cache_close(struct label_cache *c);

struct labels { /* one an item; p NULL: it has no name */
    struct slice *all;
    size_t n;
};

/* Of n items. The counter has labels. p NULL: MySQL is away. */
struct labels labels_read(struct label_cache *cache, struct panel *p, const struct counter *counter,
                          const struct slice *ids, size_t n);
void labels_free(struct labels *l);

#endif
