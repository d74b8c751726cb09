/* command/server.c - what clients and tools ask about the server: INFO, TIME, CONFIG GET, COMMAND, HELP. */
#include "base/clock.h"
#include "base/num.h"
#include "base/stats.h"
#include "command/inside.h"

#include <fnmatch.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- TIME ---- */

enum taken run_time(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    (void)r;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    reply_array(out, 2);
    reply_bulk_int(out, now.tv_sec);
    reply_bulk_int(out, now.tv_nsec / 1000);
    return TAKEN;
}

/* ---- INFO ---- */

bool info_wants(struct slice section, const char *name)
{
    return section.n == 0 || slice_ieq(section, slice_str(name)) || slice_ieq(section, SLICE("all")) ||
           slice_ieq(section, SLICE("everything")) || slice_ieq(section, SLICE("default"));
}

/* redis_version: the Redis whose protocol and wording this is; some clients look at it before they send
 * anything. */
static void info_server(const struct command *c, struct buf *out)
{
    buf_printf(out, "# Server\r\ntallyd_version:%s\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n",
               TALLYD_VERSION);
    buf_printf(out, "process_id:%d\r\nuptime_in_seconds:%llu\r\nloading:0\r\n\r\n", (int)getpid(),
               (unsigned long long)((mono_ms() - c->started_ms) / 1000));
}

static void info_clients(const struct command *c, struct buf *out)
{
    buf_printf(out, "# Clients\r\nconnected_clients:%lld\r\nmaxclients:%u\r\n\r\n",
               (long long)STAT_GET(connections_open), c->config.clients_max);
}

static void info_stats(struct buf *out)
{
    BUF_LIT(out, "# Stats\r\n");
#define X(name, meaning) buf_printf(out, #name ":%lld\r\n", (long long)STAT_GET(name));
    STATS(X)
#undef X
    BUF_LIT(out, "\r\n");
}

/* What client libraries look at before they begin; the rest is figures of all stores together. */
static void info_section(const struct session *s, struct slice section, struct buf *out)
{
    const struct command *c = s->command;
    if (info_wants(section, "server")) info_server(c, out);
    if (!guard_is_admin(s)) return;
    if (info_wants(section, "clients")) info_clients(c, out);
    if (info_wants(section, "stats")) info_stats(out);
    if (c->config.ports.info != NULL) c->config.ports.info(c->config.ports.arg, section, out);
}

enum taken run_info(struct session *s, const struct request *r, struct buf *out)
{
    struct buf text = {0};
    if (r->args_n == 1) info_section(s, slice_of("", 0), &text);
    for (uint32_t i = 1; i < r->args_n && i <= 16; i++)
        info_section(s, r->args[i], &text);
    reply_verbatim(out, s->resp, buf_slice(&text));
    buf_free(&text);
    return TAKEN;
}

/* ---- CONFIG GET ---- */

struct setting {
    const char *name;
    char value[24];
};

static bool asked_for(const struct request *r, const char *name)
{
    for (uint32_t i = 2; i < r->args_n; i++) {
        char pattern[64];
        if (r->args[i].n >= sizeof(pattern)) continue;
        memcpy(pattern, r->args[i].p, r->args[i].n);
        pattern[r->args[i].n] = '\0';
        if (fnmatch(pattern, name, FNM_CASEFOLD) == 0) return true;
    }
    return false;
}

/* Tools ask before they measure. tallyd stores nothing by itself, so `save` and `appendonly` are off. */
static enum taken run_config_get(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_config *config = &s->command->config;
    struct setting all[] = {{"save", ""},
                            {"appendonly", "no"},
                            {"databases", "1"},
                            {"maxclients", ""},
                            {"proto-max-bulk-len", ""}};
    snprintf(all[3].value, sizeof(all[3].value), "%u", config->clients_max);
    snprintf(all[4].value, sizeof(all[4].value), "%u", config->limits.bulk_max);
    const struct setting *asked[sizeof(all) / sizeof(all[0])];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (asked_for(r, all[i].name)) asked[n++] = &all[i];
    reply_map(out, s->resp, n);
    for (size_t i = 0; i < n; i++) {
        reply_bulk_str(out, asked[i]->name);
        reply_bulk_str(out, asked[i]->value);
    }
    return TAKEN;
}

const struct spec config_specs[] = {
    {"get", -3, 0, run_config_get, "server", "Settings whose names match", NULL},
    {"help", 2, 0, run_help, "server", "This text", NULL},
    {0},
};

/* ---- COMMAND ---- */

static size_t specs_count(const struct spec *table)
{
    size_t n = 0;
    while (table != NULL && table[n].name != NULL)
        n++;
    return n;
}

static void put_flags(struct session *s, const struct spec *spec, struct buf *out)
{
    bool is_hit = (spec->flags & (SPEC_HIT | SPEC_OP)) != 0;
    bool no_multi = (spec->flags & (SPEC_QUEUES | SPEC_AT_ONCE)) == 0;
    reply_set(out, s->resp, is_hit ? 3 : 1);
    if (is_hit) {
        reply_simple(out, "write");
        reply_simple(out, "denyoom");
    }
    reply_simple(out, no_multi ? "no_multi" : "fast");
}

/* The ten parts of Redis 7.0: name, arity, flags, first key, last key, step, ACL categories, tips, key specs,
 * subs. */
static void put_command(struct session *s, const struct spec *spec, struct buf *out)
{
    int key = (spec->flags & SPEC_HIT) != 0 || spec->run == run_pending ? 1 : 0;
    reply_array(out, 10);
    reply_bulk_str(out, spec->name);
    reply_int(out, spec->arity);
    put_flags(s, spec, out);
    for (int i = 0; i < 3; i++)
        reply_int(out, key);
    for (int i = 0; i < 3; i++)
        reply_set(out, s->resp, 0);
    reply_array(out, 0);
}

static void put_doc(struct session *s, const struct spec *spec, struct buf *out)
{
    reply_bulk_str(out, spec->name);
    reply_map(out, s->resp, 2);
    reply_bulk_str(out, "summary");
    reply_bulk_str(out, spec->summary);
    reply_bulk_str(out, "group");
    reply_bulk_str(out, spec->group);
}

enum taken run_command(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    reply_array(out, specs_count(specs));
    for (const struct spec *at = specs; at->name != NULL; at++)
        put_command(s, at, out);
    return TAKEN;
}

static enum taken run_command_count(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    (void)r;
    reply_int(out, (int64_t)specs_count(specs));
    return TAKEN;
}

static enum taken run_command_list(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    (void)r;
    reply_array(out, specs_count(specs));
    for (const struct spec *at = specs; at->name != NULL; at++)
        reply_bulk_str(out, at->name);
    return TAKEN;
}

static enum taken run_command_info(struct session *s, const struct request *r, struct buf *out)
{
    if (r->args_n == 2) return run_command(s, r, out);
    reply_array(out, r->args_n - 2);
    for (uint32_t i = 2; i < r->args_n; i++) {
        const struct spec *spec = spec_find(specs, r->args[i]);
        if (spec == NULL)
            reply_null(out, s->resp);
        else
            put_command(s, spec, out);
    }
    return TAKEN;
}

static enum taken run_command_docs(struct session *s, const struct request *r, struct buf *out)
{
    size_t n = r->args_n == 2 ? specs_count(specs) : 0;
    for (uint32_t i = 2; i < r->args_n; i++)
        n += spec_find(specs, r->args[i]) != NULL;
    reply_map(out, s->resp, n);
    for (const struct spec *at = specs; at->name != NULL && r->args_n == 2; at++)
        put_doc(s, at, out);
    for (uint32_t i = 2; i < r->args_n; i++) {
        const struct spec *spec = spec_find(specs, r->args[i]);
        if (spec != NULL) put_doc(s, spec, out);
    }
    return TAKEN;
}

const struct spec command_specs[] = {
    {"count", 2, 0, run_command_count, "server", "How many commands there are", NULL},
    {"list", 2, 0, run_command_list, "server", "Their names", NULL},
    {"info", -2, 0, run_command_info, "server", "Arity, flags and keys of commands", NULL},
    {"docs", -2, 0, run_command_docs, "server", "What commands do", NULL},
    {"help", 2, 0, run_help, "server", "This text", NULL},
    {0},
};

/* ---- <command> HELP ---- */

enum taken run_help(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    const struct spec *whole = spec_find(specs, r->args[0]);
    PRE(whole != NULL && whole->subs != NULL);
    reply_array(out, 1 + specs_count(whole->subs));
    char line[160];
    snprintf(line, sizeof(line), "%s <subcommand> [<arg> ...]. Subcommands are:", whole->name);
    reply_simple(out, line);
    for (const struct spec *at = whole->subs; at->name != NULL; at++) {
        snprintf(line, sizeof(line), "%s - %s", at->name, at->summary);
        reply_simple(out, line);
    }
    return TAKEN;
}
