/* base/stats.h - one table of counters and gauges, for INFO and /metrics. Relaxed atomics: writer threads count too. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdint.h>

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

#endif
