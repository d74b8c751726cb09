/* coalesce/leases.h - numbers that this process may give out, for each event log that Redis took an op of since the
 * last cut. An event that gets its number here needs no script: one plain ZADD a log.
 *   A log is learned when its op is known to be applied: then it is a sorted set, and its name is in tally:events.
 *   An op that finds the lease empty draws the next one, beyond its own numbers; each lease is eight times as large as the
 *     previous one. None of its numbers is in the log at that moment, and tallyd accepts no client's own id among them
 *     afterwards (KEY_LEASED). Numbers not used are lost: ids are unique, not dense.
 *   (!) A cut forgets all: a Redis that lost its tail does not know what it leased.
 * This is a cache without names: if two logs shared a seeded 64-bit code, one would give out the other's numbers. A
 * forgotten log costs a script, and its numbers. Nothing is allocated before the first event. */
#ifndef COALESCE_LEASES_H
#define COALESCE_LEASES_H

#include <stdbool.h>
#include <stdint.h>

struct lease {
    uint64_t code;
    int64_t next;  /* the number that is given next */
    uint64_t seq;  /* the frame that drew it */
    int64_t gone;  /* frame.events_gone when its name was last known to be in tally:events */
    uint64_t used; /* leases.now at its last use, 0: free */
    uint16_t left; /* numbers */
    uint16_t want; /* how many the next lease has */
    bool barred;   /* it has own ids that are numbers: it gets no lease */
};

struct leases {
    struct lease *ways;
    uint64_t now;               /* uses so far */
    uint32_t sets, first, most; /* first, most: numbers of a lease */
};

/* logs: how many are remembered; a lease has `first` to `most` numbers, most <= UINT16_MAX. */
void leases_init(struct leases *l, uint32_t logs, uint32_t first, uint32_t most);
void leases_close(struct leases *l);
struct lease *leases_find(struct leases *l, uint64_t code); /* NULL: that log is not known */
struct lease *leases_learn(struct leases *l,
                           uint64_t code); /* found, or in the place of the one unused longest */
void leases_forget(struct leases *l, uint64_t code);
void leases_forget_all(struct leases *l);

int64_t lease_take(struct lease *l); /* there is one left */
uint32_t leases_wanted(const struct leases *l,
                       const struct lease *of); /* how many to draw; of: NULL, not known */
void leases_fill(const struct leases *l, struct lease *of, int64_t last, uint32_t n,
                 uint64_t seq); /* n > 0 numbers, the last of them, drawn by that frame */
void lease_bar(struct lease *l);

#endif
