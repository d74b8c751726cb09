/* users/glob.h - which keys a user may name: patterns like those of Redis' ACLs (`~pattern`): `*`, `?`, `[a-z]`, `[^a]`,
 * and `\` before a literal character. Bytes, not letters; the whole key must match. */
#ifndef USERS_GLOB_H
#define USERS_GLOB_H

#include "base/slice.h"

struct glob {
    struct slice prefix; /* the literal start; owned by the caller of glob_init() */
    struct slice rest;   /* the pattern after them */
    bool is_prefix;      /* rest is `*`: a compare of the prefix is all */
    uint64_t head, mask; /* its first eight bytes, and which of them it has */
};

/* text is borrowed for as long as g is used. */
void glob_init(struct glob *g, struct slice text);

bool glob_match_rest(struct slice pattern, struct slice text);

/* Nearly all keys have eight bytes, and most prefixes no more. */
static inline bool glob_starts(const struct glob *g, struct slice key)
{
    uint64_t head;
    if (key.n < sizeof(head) || g->prefix.n > sizeof(head)) return slice_starts(key, g->prefix);
    memcpy(&head, key.p, sizeof(head));
    return ((head ^ g->head) & g->mask) == 0;
}

static inline bool glob_match(const struct glob *g, struct slice key)
{
    size_t n = g->prefix.n;
    if (!glob_starts(g, key)) return false;
    return g->is_prefix || glob_match_rest(g->rest, slice_of(key.p + n, key.n - n));
}

#endif
