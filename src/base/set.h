/* base/set.h - an open-addressing map from byte strings to pointers; copies its keys. For what is not on the way of a
 * hit (that has its own table, coalesce/registry.h). */
#ifndef BASE_SET_H
#define BASE_SET_H

#include "base/slice.h"

struct set {
    struct set_slot *slots;
    size_t n, cap, dead;
};

void set_init(struct set *s);
void set_close(struct set *s);                              /* frees the keys; the values are the caller's */
bool set_put(struct set *s, struct slice key, void *value); /* false: it was there, its value replaced */
bool set_has(const struct set *s, struct slice key);
void *set_get(const struct set *s, struct slice key); /* NULL: not there */
bool set_remove(struct set *s, struct slice key);     /* false: was not there */
/* Walks all in the order in which they came: *at starts at 0; returns false at the end. The set must not change meanwhile. */
bool set_next(const struct set *s, size_t *at, struct slice *key, void **value);

#endif
