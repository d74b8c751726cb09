/* users/glob.h - which keys a user may name: patterns as Redis' own for ACLs (`~pattern`): `*`, `?`, `[a-z]`, `[^a]`, and
 * `\` before a literal character. Bytes, not letters; the whole key must match. */
#ifndef USERS_GLOB_H
#define USERS_GLOB_H

#include "base/slice.h"

struct glob {
    struct slice prefix; /* the literal start; owned by the caller of glob_init() */
    struct slice rest;   /* the pattern behind them */
    bool is_prefix;      /* rest is `*`: a compare of the prefix is all */
};

/* text is borrowed for as long as g is used. */
void glob_init(struct glob *g, struct slice text);

bool glob_match_rest(struct slice pattern, struct slice text);

static inline bool glob_match(const struct glob *g, struct slice key)
{
    size_t n = g->prefix.n;
    if (key.n < n || (n > 0 && memcmp(key.p, g->prefix.p, n) != 0)) return false;
    return g->is_prefix || glob_match_rest(g->rest, slice_of(key.p + n, key.n - n));
}

#endif
