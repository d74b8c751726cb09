/* command/server.c - what clients and tools ask about the server: TIME, ROLE, CONFIG GET, HELP. */
#include "command/inside.h"

#include <fnmatch.h>
#include <stdio.h>

/* ---- TIME ---- */

enum taken run_time(struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    (void)r;
    int64_t now_ms = ports->redis_ms(ports->arg);
    reply_array(out, 2);
    reply_bulk_int(out, now_ms / 1000);
    reply_bulk_int(out, now_ms % 1000 * 1000);
    return TAKEN;
}

/* ---- ROLE ---- */

enum taken run_role(struct session *s, const struct request *r, struct buf *out)
{
    (void)s, (void)r;
    reply_array(out, 3);
    reply_bulk_str(out, "master");
    reply_int(out, 0); /* its replication offset */
    reply_array(out, 0);
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

/* ---- <command> HELP ---- */

enum taken run_help(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    const struct spec *whole = spec_find(specs, r->args[0]);
    PRE(whole != NULL && whole->subs != NULL);
    size_t n = 1;
    for (const struct spec *at = whole->subs; at->name != NULL; at++)
        n++;
    reply_array(out, n);
    char line[160];
    snprintf(line, sizeof(line), "%s <subcommand> [<arg> ...]. Subcommands are:", whole->name);
    reply_simple(out, line);
    for (const struct spec *at = whole->subs; at->name != NULL; at++) {
        snprintf(line, sizeof(line), "%s - %s", at->name, at->summary);
        reply_simple(out, line);
    }
    return TAKEN;
}
