/* http/metrics.c - GET /metrics: the Prometheus text format 0.0.4, of the table in metrics.c, the histograms of
 * base/stats.h, and a few with labels. */
#include "base/heap.h"
#include "base/stats.h"
#include "http/inside.h"
#include "tls/tls.h"

/* The one table of all that /metrics shows, for Prometheus and for authors of rules and dashboards.
 * Names are public. Base units: seconds, bytes; counters end in _total and begin at 0 with the process.
 *
 *  M(name, type, value, help)   one number; value is a struct figure, v a struct values; what is not known (Redis or
 *                               MySQL was not seen) is left out of that scrape
 *
 * Beside these: tallyd_oldest_unmerged_seconds (age of the oldest hit that is not in MySQL; 0: all are),
 * tallyd_chunk_retries_total{class="deadlock|link|size|other"}, tallyd_books_difference{counter=}, tallyd_lane_up,
 * tallyd_lane_held and tallyd_lane_oldest_pending_seconds{lane=} (with several lanes), tallyd_build_info{version=},
 * tallyd_hits_refused_by_reason_total{reason=}, tallyd_hits_refused_prefix{prefix=,pattern=} (while hits of such a key are refused), and
 * a histogram tallyd_<name>_seconds for each line of base/stats.h: hit, frame, scan, barrier, merge. */
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
    M(tallyd_redis_memory_bytes, gauge, v->seen->memory_bytes, "What Redis uses (used_memory)")                                     \
    M(tallyd_redis_memory_most_bytes, gauge, v->seen->memory_most_bytes, "What it may use (maxmemory); 0: no limit")                \
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

#define BUCKET_FIRST 5 /* 2^5 us = 32 us */
#define BUCKET_LAST 26 /* 67 s */

struct values {
    const struct status_figures *seen;
    struct beat beat;
    int64_t started_s;
    struct figure expires_s;
    const struct counters *counters;
    struct buf *out;
};

static struct figure known(int64_t value)
{
    return (struct figure){true, value};
}

static struct figure memory_bytes(void)
{
    uint64_t resident = 0, own;
    bool read = memory_held(&resident, &own);
    return (struct figure){read, (int64_t)resident};
}

static void head_put(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void number_put(struct buf *out, const char *name, const char *type, struct figure value,
                       const char *help)
{
    if (!value.known) return;
    head_put(out, name, type, help);
    buf_printf(out, "%s %lld\n", name, (long long)value.value);
}

static void retries_put(const struct values *v)
{
    int64_t deadlock = STAT_GET(chunks_retried_deadlock), link = STAT_GET(chunks_retried_link);
    int64_t size = STAT_GET(chunks_retried_size), all = STAT_GET(chunks_retried);
    int64_t other = all - deadlock - link - size;
    static const char *const name = "tallyd_chunk_retries_total";
    head_put(v->out, name, "counter", "Transactions of chunks that were tried again, by what MySQL said");
    buf_printf(v->out, "%s{class=\"deadlock\"} %lld\n", name, (long long)deadlock);
    buf_printf(v->out, "%s{class=\"link\"} %lld\n", name, (long long)link);
    buf_printf(v->out, "%s{class=\"size\"} %lld\n", name, (long long)size);
    buf_printf(v->out, "%s{class=\"other\"} %lld\n", name, (long long)(other > 0 ? other : 0));
}

/* A counter's name is [a-z0-9_]: nothing in it needs escaping. */
static void differences_put(const struct values *v)
{
    static const char *const name = "tallyd_books_difference";
    if (!v->seen->balanced.known) return;
    head_put(v->out, name, "gauge",
             "Accepted minus merged, rejected, pending and claimed; 0: the books balance");
    for (size_t i = 0; i < v->counters->n; i++)
        if (v->seen->differences[i].known)
            buf_printf(v->out, "%s{counter=\"" SLICE_FMT "\"} %lld\n", name,
                       SLICE_ARG(v->counters->all[i].name), (long long)v->seen->differences[i].value);
}

static void micros_put(struct buf *out, uint64_t us)
{
    buf_printf(out, "%llu.%06llu", (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
}

static void histogram_put(struct buf *out, const char *name, const struct histogram *live, const char *what)
{
    struct histogram h;
    histogram_read(live, &h);
    uint64_t count = histogram_count(&h);
    buf_printf(out, "# HELP tallyd_%s_seconds Time of %s\n# TYPE tallyd_%s_seconds histogram\n", name, what,
               name);
    for (unsigned power = BUCKET_FIRST; power <= BUCKET_LAST; power++) {
        buf_printf(out, "tallyd_%s_seconds_bucket{le=\"", name);
        micros_put(out, UINT64_C(1) << power);
        buf_printf(out, "\"} %llu\n", (unsigned long long)histogram_within(&h, power));
    }
    buf_printf(out, "tallyd_%s_seconds_bucket{le=\"+Inf\"} %llu\ntallyd_%s_seconds_sum ", name,
               (unsigned long long)count, name);
    micros_put(out, h.sum_us);
    buf_printf(out, "\ntallyd_%s_seconds_count %llu\n", name, (unsigned long long)count);
}

static void lanes_metrics(const struct values *v)
{
    const struct status_figures *seen = v->seen;
    if (seen->lanes_n == 0) return;
    head_put(v->out, "tallyd_lane_up", "gauge", "1: the lane's Redis answers");
    for (uint32_t i = 0; i < seen->lanes_n; i++)
        buf_printf(v->out, "tallyd_lane_up{lane=\"%u\"} %d\n", i, seen->lanes[i].up);
    head_put(v->out, "tallyd_lane_held", "gauge", "1: the lane merges nothing, since its Redis lost batches");
    for (uint32_t i = 0; i < seen->lanes_n; i++)
        buf_printf(v->out, "tallyd_lane_held{lane=\"%u\"} %d\n", i, seen->lanes[i].held);
    head_put(v->out, "tallyd_lane_oldest_pending_seconds", "gauge",
             "Age of the lane's oldest hit that no claim has taken");
    for (uint32_t i = 0; i < seen->lanes_n; i++) {
        long long ms = (long long)seen->lanes[i].oldest_ms.value;
        if (seen->lanes[i].up)
            buf_printf(v->out, "tallyd_lane_oldest_pending_seconds{lane=\"%u\"} %lld.%03lld\n", i, ms / 1000,
                       ms % 1000);
    }
}

static void refusals_metrics(const struct values *v)
{
    head_put(v->out, "tallyd_hits_refused_by_reason_total", "counter",
             "Increments refused with an error, by its reason");
    for (size_t i = 0; i < v->seen->refusal_n; i++) {
        const struct status_refusal *all = v->seen->refusal;
        long long sum = 0;
        size_t first = v->seen->refusal_n;
        for (size_t k = v->seen->refusal_n; k-- > 0;) {
            if (strcmp(all[k].reason, all[i].reason) != 0) continue;
            sum += all[k].all;
            first = k;
        }
        if (first == i)
            buf_printf(v->out, "tallyd_hits_refused_by_reason_total{reason=\"%s\"} %lld\n", all[i].reason,
                       sum);
    }
}

/* What stands in text between `begins` and the next `end`, as a label's value. False: it has none. */
static bool label_put(const char *text, const char *begins, char end, struct buf *out)
{
    const char *at = strstr(text, begins);
    if (at == NULL || strchr(at + strlen(begins), end) == NULL) return false;
    for (at += strlen(begins); *at != end; at++) {
        if (*at == '\\' || *at == '"') buf_put_char(out, '\\');
        buf_put_char(out, *at);
    }
    return true;
}

/* No two have one prefix, and there are few of them (base/refusals.c). */
static void prefixes_metrics(const struct values *v)
{
    head_put(
        v->out, "tallyd_hits_refused_prefix", "gauge",
        "Increments refused in the last minute, whose keys have a prefix that the counter's pattern has not");
    for (size_t i = 0; i < v->seen->refusal_n; i++) {
        const struct status_refusal *r = &v->seen->refusal[i];
        struct buf prefix = {0}, pattern = {0};
        if (r->minute > 0 && label_put(r->why, "take the prefix '", '\'', &prefix) &&
            label_put(r->why, ", but \"", '"', &pattern))
            buf_printf(v->out,
                       "tallyd_hits_refused_prefix{prefix=\"" SLICE_FMT "\",pattern=\"" SLICE_FMT
                       "\"} %lld\n",
                       SLICE_ARG(buf_slice(&prefix)), SLICE_ARG(buf_slice(&pattern)), (long long)r->minute);
        buf_free(&prefix);
        buf_free(&pattern);
    }
}

static void metrics_put(void *arg, const struct status_figures *seen)
{
    struct values *v = arg;
    v->seen = seen;
#define M(name, type, value, help) number_put(v->out, #name, #type, value, help);
    METRICS(M)
#undef M
    struct figure ms = v->seen->oldest_ms;
    if (ms.known) {
        head_put(v->out, "tallyd_oldest_unmerged_seconds", "gauge",
                 "Age of the oldest hit that is not in MySQL");
        buf_printf(v->out, "tallyd_oldest_unmerged_seconds %lld.%03lld\n", (long long)(ms.value / 1000),
                   (long long)(ms.value % 1000));
    }
    retries_put(v);
    differences_put(v);
    lanes_metrics(v);
    refusals_metrics(v);
    prefixes_metrics(v);
}

#define SEEN_AGE_MS 1000

void run_metrics(struct exchange *x, struct worker *w)
{
    struct tls_context *tls = x->http->ports.tls;
    struct values v = {.beat = pulse_beat(&x->http->pulse),
                       .started_s = x->http->pulse.started_s,
                       .expires_s = tls == NULL ? (struct figure){0} : known(tls_context_expires_s(tls)),
                       .counters = x->http->where->counters,
                       .out = &x->body};
    x->answered = true;
    x->status = 200;
    x->type = "text/plain; version=0.0.4; charset=utf-8";
    status_cache_use(&x->http->status_cache, door_link(&w->door), SEEN_AGE_MS, true, metrics_put, &v);
#define X(name, meaning) histogram_put(v.out, #name, &latencies.name, meaning);
    LATENCIES(X)
#undef X
    head_put(v.out, "tallyd_build_info", "gauge", "1; which version runs");
    BUF_LIT(v.out, "tallyd_build_info{version=\"" TALLYD_VERSION "\"} 1\n");
}
