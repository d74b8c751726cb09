/* base/map.h - an open-addressing map from byte strings to pointers; copies its keys. Hits use coalesce/hash_cache.h
 * instead. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/slice.h"

struct map {
    struct map_slot *slots;
    size_t n, cap, dead;
};

void map_init(struct map *m);
void map_close(struct map *m);                              /* frees the keys; the values are the caller's */
bool map_put(struct map *m, struct slice key, void *value); /* false: it was there, its value replaced */
bool map_has(const struct map *m, struct slice key);
void *map_get(const struct map *m, struct slice key); /* NULL: not there */
bool map_remove(struct map *m, struct slice key);     /* false: was not there */
/* Walks all in the order of insertion: *at starts at 0; false at the end. The map must not change meanwhile. */
bool map_next(const struct map *m, size_t *at, struct slice *key, void **value);

#endif
