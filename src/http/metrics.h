/* http/metrics.h - the one table of all that /metrics shows, for Prometheus and for authors of rules and dashboards.
 * Names are public. Base units: seconds, bytes; counters end in _total and begin at 0 with the process.
 *
 *  M(name, type, value, help)   one number; value is a struct figure, v a struct values; what is not known (Redis or
 *                               MySQL was not seen) is left out of that scrape
 *
 * Beside these: tallyd_oldest_unmerged_seconds (age of the oldest hit that is not in MySQL; 0: all are),
 * tallyd_chunk_retries_total{class="deadlock|link|size|other"}, tallyd_books_difference{counter=}, tallyd_lane_up,
 * tallyd_lane_held and tallyd_lane_oldest_pending_seconds{lane=} (with several lanes), tallyd_build_info{version=}, and
 * a histogram tallyd_<name>_seconds for each line of base/stats.h: hit, frame, scan, barrier, merge. */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

/* clang-format off */
#define METRICS(M)                                                                                                                  \
    M(tallyd_hits_total, counter, known(STAT_GET(hits)), "Increments taken at the socket")                                          \
    M(tallyd_hits_refused_total, counter, known(STAT_GET(hits_refused)), "Increments refused with an error")                        \
    M(tallyd_hits_unknown_total, counter, known(STAT_GET(hits_unknown)), "Increments answered with outcome unknown")                \
    M(tallyd_frames_total, counter, known(STAT_GET(frames)), "Frames sent to Redis")                                                \
    M(tallyd_frames_lost_total, counter, known(STAT_GET(frames_lost)), "Answered frames that Redis lost")                           \
    M(tallyd_frames_replayed_total, counter, known(STAT_GET(frames_replayed)), "Answered frames that Redis lost, and got again")    \
    M(tallyd_replay_bytes, gauge, known(STAT_GET(replay_bytes)), "Bytes of answered frames kept until Redis cannot lose them")      \
    M(tallyd_cells_total, counter, known(STAT_GET(cells)), "HINCRBYs sent in frames; by the frames, the cells of one")              \
    M(tallyd_links_cut_total, counter, known(STAT_GET(links_cut)), "Links to Redis that were lost")                                 \
    M(tallyd_batches_done_total, counter, known(STAT_GET(batches_done)), "Batches merged and discarded")                            \
    M(tallyd_rows_merged_total, counter, known(STAT_GET(rows_merged)), "Rows merged into MySQL")                                    \
    M(tallyd_rows_rejected_total, counter, known(STAT_GET(rows_rejected)), "Rows put into tally_rejects")                           \
    M(tallyd_pending_hashes, gauge, v->seen->dirty, "Hashes in the dirty index: with hits that no claim has taken")                 \
    M(tallyd_batches_in_flight, gauge, v->seen->batches, "Batches claimed and not yet discarded")                                   \
    M(tallyd_rows_in_flight, gauge, known(STAT_GET(fields_in_flight)), "Fields that this tallyd claimed and has not yet discarded") \
    M(tallyd_batches_kept, gauge, known(STAT_GET(batches_kept)), "Batches that are merged, and kept in Redis (mysql.keep)")          \
    M(tallyd_rows_kept, gauge, known(STAT_GET(rows_kept)), "Their rows")                                                            \
    M(tallyd_batches_held, gauge, known(STAT_GET(batches_held)), "Batches that wait for an operator")                               \
    M(tallyd_stores_waiting, gauge, known(STAT_GET(stores_waiting)), "Stores that wait: MySQL refused too many of their rows, or some are locked")       \
    M(tallyd_rejects, gauge, v->seen->rejects, "Rows that wait in tally_rejects")                                                   \
    M(tallyd_redis_up, gauge, known(v->beat.redis_up), "1: the links to Redis are up")                                              \
    M(tallyd_redis_replicas, gauge, v->seen->replicas, "Replicas that Redis has") \
    M(tallyd_redis_replica_behind_bytes, gauge, v->seen->behind_bytes, "How far the slowest replica is behind") \
    M(tallyd_redis_moved_seconds, gauge, v->seen->moved_s, "Time since the links to Redis moved to another server; left out: never") \
    M(tallyd_redis_sentinels, gauge, v->seen->sentinels, "Sentinels that are known; left out: Redis has none") \
    M(tallyd_redis_sentinels_up, gauge, v->seen->sentinels_up, "Sentinels that answer") \
    M(tallyd_mysql_up, gauge, known(v->beat.mysql_up), "1: MySQL answers the writers")                                              \
    M(tallyd_merging_held, gauge, known(v->beat.held[0] != 0), "1: tallyd merges nothing until an operator has looked")                 \
    M(tallyd_merging_stalled_seconds, gauge, known(STAT_GET(merging_stalled)), "Time without a merge although hits are due; 0: merging goes on") \
    M(tallyd_books_balanced, gauge, v->seen->balanced, "1: the books balanced at the last check")                       \
    M(tallyd_connections, gauge, known(STAT_GET(connections_open)), "Connections to the RESP socket")                               \
    M(tallyd_connections_stalled_total, counter, known(STAT_GET(connections_stalled)),                                              \
      "Connections closed because their clients read nothing (limits.send_timeout)")                                                      \
    M(tallyd_unread_bytes, gauge, known(STAT_GET(unread_bytes)), "Output buffers of all clients (a half of limits.memory)")          \
    M(tallyd_cross_protocol_total, counter, known(STAT_GET(cross_protocol)), "Connections closed because HTTP came to the RESP door") \
    M(tallyd_tls_refused_total, counter, known(STAT_GET(tls_refused)), "TLS handshakes that failed, RESP and HTTP")                 \
    M(tallyd_tls_put_off_total, counter, known(STAT_GET(tls_put_off)), "Times that a TLS handshake of the RESP door had to wait")   \
    M(tallyd_certificate_expires_seconds, gauge, v->expires_s, "When the certificate of tls:// addresses ends, since 1970")         \
    M(tallyd_memory_bytes, gauge, memory_bytes(), "Resident memory of the process")                                                 \
    M(tallyd_start_time_seconds, gauge, known(v->started_s), "When the service began, in seconds since 1970")
/* clang-format on */

#endif
