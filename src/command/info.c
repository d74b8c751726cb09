/* command/info.c - INFO: Redis' sections and fields as far as they are true of tallyd, and its own. A section is separated
 * from the next by an empty line, and nothing follows the last. And for it how often each command was called, and how long that
 * took: HINCRBYs that are taken many at once (session.c) are counted as often, with one sum. */
#include "base/heap.h"
#include "base/stats.h"
#include "command/inside.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

static uint64_t calls_all(const struct command *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < SPECS_MAX; i++)
        n += c->calls[i].n;
    return n;
}

void calls_timed(struct calls *k, uint64_t begun_us, uint32_t n)
{
    k->next = k->n + CALLS_TIMED;
    if (n == 0) return; /* no call was taken */
    k->timed += n;
    k->timed_us += mono_us() - begun_us;
}

uint64_t calls_us(const struct calls *k)
{
    return k->timed == 0 ? 0 : (uint64_t)((double)k->timed_us * (double)k->n / (double)k->timed);
}

enum taken calls_run(struct session *s, const struct spec *whole, const struct spec *spec,
                     const struct request *r, struct buf *out)
{
    struct calls *k = &s->command->calls[whole - specs]; /* s may be gone after the call */
    uint64_t begun_us = calls_begin(k);
    enum taken taken = spec->run(s, r, out);
    calls_end(k, begun_us, taken == TAKEN ? 1 : 0);
    return taken;
}

void calls_tick(struct command *c, uint64_t now_ms)
{
    struct ops_rate *o = &c->ops;
    if (o->taken > 0 && now_ms - o->at_ms[(o->taken - 1) % OPS_SAMPLES] < OPS_SAMPLE_MS) return;
    o->at_ms[o->taken % OPS_SAMPLES] = now_ms;
    o->n[o->taken % OPS_SAMPLES] = calls_all(c);
    o->taken++;
}

static uint64_t calls_per_s(const struct command *c)
{
    const struct ops_rate *o = &c->ops;
    if (o->taken < 2) return 0;
    uint32_t oldest = o->taken < OPS_SAMPLES ? 0 : o->taken % OPS_SAMPLES;
    uint32_t newest = (o->taken - 1) % OPS_SAMPLES;
    return (o->n[newest] - o->n[oldest]) * 1000 / (o->at_ms[newest] - o->at_ms[oldest]);
}

/* ---- INFO ---- */

/* As in Redis 7.0. */
static bool is_default(const char *title)
{
    return strcmp(title, "Commandstats") != 0;
}

static bool section_is_asked(const struct info_asked *asked, const char *title)
{
    for (uint32_t i = 0; i < asked->n; i++) {
        struct slice section = asked->sections[i];
        if (slice_ieq(section, slice_str(title)) || slice_ieq(section, SLICE("all")) ||
            slice_ieq(section, SLICE("everything")))
            return true;
        if (slice_ieq(section, SLICE("default")) && is_default(title)) return true;
    }
    return asked->n == 0 && is_default(title);
}

bool info_begins(const struct info_asked *asked, const char *title, struct buf *out)
{
    if (!section_is_asked(asked, title)) return false;
    if (out->n > 0) BUF_LIT(out, "\r\n");
    buf_printf(out, "# %s\r\n", title);
    return true;
}

static void figure_put(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "%s:%llu\r\n", name, (unsigned long long)value);
}

/* redis_version: the Redis whose protocol and wording this is; some clients check it first. */
static void info_server(const struct command *c, struct buf *out)
{
    struct utsname os = {0};
    uint64_t uptime_s = (mono_ms() - c->started_ms) / 1000;
    uname(&os);
    buf_printf(out, "tallyd_version:%s\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", TALLYD_VERSION);
    buf_printf(out, "os:%s %s %s\r\n", os.sysname, os.release, os.machine);
    figure_put(out, "arch_bits", 8 * sizeof(void *));
    figure_put(out, "process_id", (uint64_t)getpid());
    buf_printf(out, "run_id:%s\r\n", c->run_id);
    figure_put(out, "uptime_in_seconds", uptime_s);
    figure_put(out, "uptime_in_days", uptime_s / 86400);
}

/* blocked_clients: those that wait for the answer to a slow command (CTR.TOTAL, CTR.SYNC ...), for room, or for their user's
 * rate. A hit that waits for its frame does not block its client. */
static void info_clients(const struct command *c, struct buf *out)
{
    figure_put(out, "connected_clients", (uint64_t)STAT_GET(connections_open));
    figure_put(out, "maxclients", c->config.clients_max);
    figure_put(out, "blocked_clients", c->blocked_n);
}

/* As Redis writes bytes for people: "1.50M". */
static void put_human(struct buf *out, const char *name, uint64_t bytes)
{
    static const char units[] = "BKMGTPE";
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 1024 && units[unit + 1] != '\0')
        n /= 1024, unit++;
    buf_printf(out, "%s:%.*f%c\r\n", name, unit == 0 ? 0 : 2, n, units[unit]);
}

/* used_memory includes what is free in the heap: mallinfo2() would tell them apart, but walks all free pieces, 0.2 s for a
 * million. maxmemory 0: there is no such limit. */
static void info_memory(struct buf *out)
{
    uint64_t resident, own;
    if (memory_held(&resident, &own)) {
        figure_put(out, "used_memory", own);
        put_human(out, "used_memory_human", own);
        figure_put(out, "used_memory_rss", resident);
        put_human(out, "used_memory_rss_human", resident);
    }
    figure_put(out, "maxmemory", 0);
}

static void info_stats(const struct command *c, struct buf *out)
{
    figure_put(out, "total_connections_received", (uint64_t)STAT_GET(connections_accepted));
    figure_put(out, "total_commands_processed", calls_all(c));
    figure_put(out, "instantaneous_ops_per_sec", calls_per_s(c));
    figure_put(out, "rejected_connections", (uint64_t)STAT_GET(connections_refused));
    figure_put(out, "total_net_input_bytes", (uint64_t)STAT_GET(net_input_bytes));
    figure_put(out, "total_net_output_bytes", (uint64_t)STAT_GET(net_output_bytes));
#define X(name, meaning) buf_printf(out, #name ":%lld\r\n", (long long)STAT_GET(name));
    STATS(X)
#undef X
}

/* A subcommand counts as its command. */
static void info_commandstats(const struct command *c, struct buf *out)
{
    for (size_t i = 0; specs[i].name != NULL; i++) {
        const struct calls *k = &c->calls[i];
        if (k->n == 0) continue;
        uint64_t us = calls_us(k);
        buf_printf(out, "cmdstat_%s:calls=%llu,usec=%llu,usec_per_call=%.2f\r\n", specs[i].name,
                   (unsigned long long)k->n, (unsigned long long)us, (double)us / (double)k->n);
    }
}

/* Without GRANT_ADMIN only what client libraries check at the start; the rest is about all stores together. */
enum taken run_info(struct session *s, const struct request *r, struct buf *out)
{
    const struct command *c = s->command;
    const struct info_asked asked = {.sections = r->args + 1, .n = r->args_n - 1};
    struct buf text = {0};
    bool admin = guard_is_admin(s);
    if (info_begins(&asked, "Server", &text)) info_server(c, &text);
    if (admin && info_begins(&asked, "Clients", &text)) info_clients(c, &text);
    if (admin && info_begins(&asked, "Memory", &text)) info_memory(&text);
    if (info_begins(&asked, "Persistence", &text)) /* tallyd stores nothing by itself */
        BUF_LIT(&text,
                "loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\naof_rewrite_in_progress:0\r\n");
    if (admin && info_begins(&asked, "Stats", &text)) info_stats(c, &text);
    if (info_begins(&asked, "Replication", &text)) BUF_LIT(&text, "role:master\r\nconnected_slaves:0\r\n");
    if (admin && info_begins(&asked, "Commandstats", &text)) info_commandstats(c, &text);
    if (info_begins(&asked, "Cluster", &text)) BUF_LIT(&text, "cluster_enabled:0\r\n");
    if (admin && c->config.ports.info != NULL) c->config.ports.info(c->config.ports.arg, &asked, &text);
    reply_verbatim(out, s->resp, buf_slice(&text));
    buf_free(&text);
    return TAKEN;
}
