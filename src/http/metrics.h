/* http/metrics.h - the one table of what /metrics shows, for Prometheus and for people who write rules and dashboards.
 * Names are public. Base units: seconds, bytes; counters end in _total and begin at 0 with the process.
 *
 *   M(name, type, help)   one number; what is not known (Redis or MySQL was not seen) is left out of that scrape
 *
 * Beside these: tallyd_chunk_retries_total{class=}, tallyd_books_difference{counter=}, tallyd_build_info{version=}, and a
 * histogram tallyd_<name>_seconds for each line of base/latencies.h: hit, frame, scan, barrier, merge. */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

/* clang-format off */
#define METRICS(M)                                                                                                      \
    M(tallyd_hits_total, counter, "Increments taken at the socket")                                                     \
    M(tallyd_hits_refused_total, counter, "Increments refused with an error")                                           \
    M(tallyd_hits_unknown_total, counter, "Increments answered with outcome unknown")                                   \
    M(tallyd_frames_total, counter, "Frames sent to Redis")                                                             \
    M(tallyd_frames_lost_total, counter, "Answered frames that Redis lost")                                             \
    M(tallyd_cells_total, counter, "HINCRBYs sent in frames; divided by the frames, the cells of one")                  \
    M(tallyd_links_cut_total, counter, "Links to Redis that were lost")                                                 \
    M(tallyd_batches_done_total, counter, "Batches merged and discarded")                                               \
    M(tallyd_rows_merged_total, counter, "Rows merged into MySQL")                                                      \
    M(tallyd_rows_rejected_total, counter, "Rows put into tally_rejects")                                               \
    M(tallyd_pending_hashes, gauge, "Hashes in the dirty index: they hold hits that no claim has taken")                \
    M(tallyd_oldest_unmerged_seconds, gauge, "Age of the oldest hit that is not in MySQL; 0: there is none")            \
    M(tallyd_batches_in_flight, gauge, "Batches claimed and not yet discarded")                                         \
    M(tallyd_rows_in_flight, gauge, "Fields of those batches")                                                          \
    M(tallyd_batches_held, gauge, "Batches that wait for an operator")                                                  \
    M(tallyd_rejects, gauge, "Rows that wait in tally_rejects")                                                         \
    M(tallyd_redis_up, gauge, "1: the links to Redis are up")                                                           \
    M(tallyd_mysql_up, gauge, "1: MySQL answers the writers")                                                           \
    M(tallyd_merging_held, gauge, "1: nothing is merged until an operator has looked")                                  \
    M(tallyd_books_balanced, gauge, "1: the books balanced when they were looked at last")                              \
    M(tallyd_connections, gauge, "Connections to the RESP socket")                                                      \
    M(tallyd_memory_bytes, gauge, "Resident memory of the process")                                                     \
    M(tallyd_start_time_seconds, gauge, "When the process began, in seconds since 1970")
/* clang-format on */

#endif
