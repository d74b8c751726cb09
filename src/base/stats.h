/* base/stats.h - one table of counters and gauges and one of timings, for INFO and /metrics. Relaxed atomics: writer
 * threads count too. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include "base/slice.h"

#include <stdint.h>

/* Durations in whole microseconds: a bucket for each power of two, from 16 us to an hour; the last has all longer ones.
 * Any thread writes and reads, with relaxed atomics. Count and sum may differ by what is being added; both only grow. */

#define HISTOGRAM_LEAST_POWER 4 /* of two: up to 16 us is one bucket */
#define HISTOGRAM_POWERS 28     /* up to 2^31 us, each known exactly */
#define HISTOGRAM_BUCKETS (HISTOGRAM_POWERS + 1)

struct histogram { /* all zero: empty */
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t sum_us;
};

void histogram_add_many(struct histogram *h, uint64_t us, uint64_t n); /* n of them took us */
static inline void histogram_add(struct histogram *h, uint64_t us)
{
    histogram_add_many(h, us, 1);
}

/* A copy that does not change, for the calls below. */
void histogram_read(const struct histogram *h, struct histogram *out);
uint64_t histogram_count(const struct histogram *h);
/* How many took at most 2^power us, for powers from HISTOGRAM_LEAST_POWER on. */
uint64_t histogram_within(const struct histogram *h, unsigned power);

/* name, meaning */
#define STATS(X)                                                                                             \
    X(connections_accepted, "connections accepted")                                                          \
    X(connections_refused, "connections refused over the limit")                                             \
    X(cross_protocol, "connections closed because a browser sent HTTP to the RESP door")                     \
    X(tls_refused, "TLS handshakes that failed")                                                             \
    X(tls_put_off, "times that a TLS handshake had to wait for others")                                      \
    X(connections_open, "connections open now")                                                              \
    X(connections_stalled, "connections closed because their clients read nothing")                          \
    X(net_input_bytes, "bytes read from clients")                                                            \
    X(net_output_bytes, "bytes written to clients")                                                          \
    X(unread_bytes, "bytes of answers that clients have not read, now")                                      \
    X(hits, "increments taken at the socket")                                                                \
    X(hits_refused, "increments refused with an error")                                                      \
    X(hits_unknown, "increments answered with outcome unknown")                                              \
    X(tokens, "increments that a new token counted")                                                         \
    X(tokens_known, "increments whose token was known: answered, not counted again")                         \
    X(tokens_standing, "tokens in Redis at the last count; at most a twelfth too many")                      \
    X(frames, "frames sent")                                                                                 \
    X(frames_refused, "frames that Redis refused whole")                                                     \
    X(frames_resent, "frames sent again after a cut")                                                        \
    X(frames_lost, "answered frames that Redis lost")                                                        \
    X(frames_replayed, "answered frames that Redis lost, and got again")                                     \
    X(replay_bytes, "bytes of answered frames that are kept until Redis cannot lose them, now")              \
    X(cells, "HINCRBYs sent in frames")                                                                      \
    X(ops_journaled, "ops of frames that went into a journal first")                                         \
    X(journals_adopted, "journals taken over from others")                                                   \
    X(claims, "claims sent")                                                                                 \
    X(claims_doubt, "claims whose reply was lost")                                                           \
    X(links_cut, "Redis links lost")                                                                         \
    X(batches_adopted, "batches taken over from others")                                                     \
    X(batches_done, "batches merged and discarded")                                                          \
    X(batches_held, "batches held now")                                                                      \
    X(fields_in_flight, "fields claimed and not yet discarded, now")                                         \
    X(batches_kept, "batches merged and not yet discarded (mysql.keep), now")                                \
    X(rows_kept, "their rows")                                                                               \
    X(chunks_merged, "chunks merged")                                                                        \
    X(chunks_already, "chunks that the ledger already knew")                                                 \
    X(chunks_retried, "chunk transactions tried again")                                                      \
    X(chunks_retried_deadlock, "of them, after a deadlock or a lock wait")                                   \
    X(chunks_retried_link, "of them, after a lost link")                                                     \
    X(chunks_retried_size, "of them, because the statement was too big")                                     \
    X(rows_merged, "rows merged into MySQL")                                                                 \
    X(rows_rejected, "rows put into tally_rejects")                                                          \
    X(stores_waiting, "stores that wait, since MySQL refused more rows of theirs than they may have "        \
                      "rejects, or rows are locked, now")                                                    \
    X(merging_stalled, "seconds without a merge although hits are due, now; 0: merging goes on")             \
    X(fences, "durability barriers passed")                                                                  \
    X(totals, "live totals asked for")                                                                       \
    X(totals_stale, "live totals that could not be read, answered with the last one (OR STALE)")             \
    X(totals_again, "live totals read again: a later claim was merged meanwhile")                            \
    X(totals_held, "live totals for which claims of their counter were held")                                \
    X(recover_total, "batches and leftovers that the running recovery found")                                \
    X(recover_done, "of them, finished")

struct stats {
#define X(name, meaning) int64_t name;
    STATS(X)
#undef X
};
extern struct stats stats;

#define STAT_ADD(name, by) ((void)__atomic_fetch_add(&stats.name, (int64_t)(by), __ATOMIC_RELAXED))
#define STAT_SET(name, to) __atomic_store_n(&stats.name, (int64_t)(to), __ATOMIC_RELAXED)
#define STAT_GET(name) __atomic_load_n(&stats.name, __ATOMIC_RELAXED)

/* name, what is timed */
#define LATENCIES(X)                                                                                         \
    X(hit, "an increment, from its bytes to its answer")                                                     \
    X(frame, "a frame, from when it was sent to Redis' answer")                                              \
    X(scan, "reading the claimed hashes of a batch")                                                         \
    X(barrier, "a durability barrier, with the wait for the one before")                                     \
    X(merge, "the MySQL transaction of a chunk")

struct latencies {
#define X(name, meaning) struct histogram name;
    LATENCIES(X)
#undef X
};
extern struct latencies latencies;

/* --- hits that were refused, by reason: an app that looks at no reply loses them, so status, panel, log and metrics say so. A wrong
 * key, a wrong field and a missing right are told apart further, since each is another app's fault: by the prefix that the error
 * names, else by the key with '#' for its digits. Of the loop alone; the one set of its process, as stats. --- */

#define REFUSALS_MAX 32         /* the last one is all other reasons together */
#define REFUSAL_FAULTS 4        /* prefixes, and other keys, of a reason; the others share a place */
#define REFUSAL_MINUTE_PARTS 12 /* of 5 s each */

struct refused {
    char reason[24]; /* no_counter, field, value, or the first word of the error: oom, noperm, busy ... */
    char fault[40];  /* 'p' and a prefix, 'k' and a key; empty: all others */
    char text[400];  /* one of the last second: the error as the client got it, its key, and the client */
    uint64_t all, told_at_ms, logged_at_ms, not_logged;
    struct {
        uint64_t part, n; /* n of that part of the clock */
    } minute[REFUSAL_MINUTE_PARTS];
};

/* n hits got that error, a reply with or without its '-' (its first line counts). key, peer: of one of them; "": not known. */
void refusals_add(uint64_t n, struct slice error, struct slice key, const char *peer);

/* What is at that place, from 0 on. NULL: there are no more. */
const struct refused *refusals_at(uint32_t at);

/* How many in the last minute, or up to 5 s less. */
uint64_t refusal_minute(const struct refused *r);

#endif
