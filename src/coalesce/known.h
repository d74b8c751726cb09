/* coalesce/known.h - what is known to be in Redis. For each series: the second of its last op sent; a new slot needs a
 * ZADD in `known:`, an old one does not. For each bucket of a timebox: that it was in both sets. This is a cache
 * without names. When two share a 64-bit code, or an entry is lost, that costs at most a ZADD: now, or owed after the
 * answer showed a fresh sample or bucket. (For two buckets it also costs one hit's answer.) Nothing is allocated before
 * the first entry. */
#ifndef COALESCE_KNOWN_H
#define COALESCE_KNOWN_H

#include "series/op.h"

#define KNOWN_WAYS 4

struct known {
    struct known_way *ways;
    uint32_t most, sets;
};

void known_init(struct known *k, uint32_t most);
void known_close(struct known *k);
/* Notes an op at `at`. Bit i: the slot of precision i differs from that of the last op. */
uint64_t known_note(struct known *k, const struct op_limits *l, uint64_t code, int64_t at);
bool known_is(const struct known *k, uint64_t code);
/* A value for its user, 0 at first; good until the next addition. NULL: not known. */
int64_t *known_value(const struct known *k, uint64_t code);
int64_t *known_add(struct known *k, uint64_t code,
                   int64_t at); /* at: what is older makes room first; its value is 0 */
void known_forget(struct known *k, uint64_t code);
void known_forget_all(struct known *k);
static inline uint64_t known_all(const struct op_limits *l)
{
    return (UINT64_C(1) << l->precisions_n) - 1;
}

#endif
