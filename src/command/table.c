/* command/table.c - the command table, and what Redis 7.0 says to a request that does not fit it (server.c,
 * processCommand). */
#include "command/inside.h"

#include <stdio.h>

#define WRITE (SPEC_QUEUES | SPEC_FAST | SPEC_KEY)
#define READ (SPEC_READ | SPEC_ASKS | SPEC_KEY)
#define EXPIRY (SPEC_EXPIRY | WRITE)
#define LOOK (SPEC_READ | SPEC_QUEUES | SPEC_FAST)

const struct spec specs[] = {
    [SPEC_HINCRBY] = {"hincrby", 4, SPEC_HIT | WRITE, hit_run, "hash",
                      "Adds to a counter; answers the pending value", NULL},
    {"ctr.incrby", -4, SPEC_HIT | WRITE, hit_run, "counter",
     "As HINCRBY; with a token it counts once, however often it is sent [TOKEN id]", NULL},
    [SPEC_TODAY] = {"ctr.hit", -2, SPEC_HIT | WRITE, hit_run, "counter",
                    "As HINCRBY, in the field of today in the store's time zone [n] [TOKEN id]", NULL},
    {"ctr.pending", 2, READ, run_pending, "counter", "The counts of a key that are not claimed yet", NULL},
    {"ctr.total", -3, READ, run_total, "counter",
     "Live totals: in MySQL, claimed and pending; fields, or FROM first TO last [OR STALE]", NULL},
    {"ctr.sync", 2, SPEC_ADMIN | SPEC_ASKS | SPEC_KEY, run_sync, "counter",
     "Waits until all that was counted before is in MySQL (a key, or ALL)", NULL},
    {"ctr.recover", -1, SPEC_ADMIN | SPEC_ASKS, run_recover, "counter",
     "Adopts and merges what dead instances left [DRYRUN]", NULL},
    {"series.incrby", -3, SPEC_OP | WRITE, op_run, "series",
     "Adds to a time series; answers how many precisions keep that time [AT s]", NULL},
    {"series.get", -3, READ, run_series_get, "series", "The samples of a precision [FROM s] [TO s]", NULL},
    {"series.list", 1, SPEC_READ | SPEC_ADMIN | SPEC_ASKS, run_series_list, "series",
     "The names of all series, with precision", NULL},
    {"box.incrby", -3, SPEC_OP | WRITE, op_run, "box",
     "Adds to a bucket of a timebox; answers its hits [AT s]", NULL},
    {"box.recent", 4, READ, run_box_recent, "box", "The newest buckets and their hits", NULL},
    {"box.top", 3, READ, run_box_extreme, "box", "The buckets with the most hits", NULL},
    {"box.bottom", 3, READ, run_box_extreme, "box", "The buckets with the fewest hits", NULL},
    {"event.add", -3, SPEC_OP | WRITE, op_run, "event", "Records an event; answers its id [AT s] [ID id]",
     NULL},
    {"event.range", -5, READ, run_event_range, "event", "The events of a time [LIMIT offset count]", NULL},
    {"event.count", 5, READ, run_event_count, "event",
     "How many events in each of the last span / window windows", NULL},
    {"uniq.add", 4, SPEC_OP | WRITE, op_run, "uniq", "A visitor of a day; answers 1 when new that day", NULL},
    {"uniq.count", -3, READ, run_uniq_count, "uniq",
     "Different visitors of a day, or of a first to a last day", NULL},
    {"wait", 3, SPEC_ASKS, run_wait, "generic",
     "Waits until that many replicas have this connection's hits, at most timeout ms", NULL},
    {"waitaof", 4, SPEC_ASKS, run_waitaof, "generic",
     "Waits until Redis' disk, and that many replicas' disks, have this connection's hits", NULL},
    {"ping", -1, SPEC_QUEUES | SPEC_FAST, run_ping, "connection", "Answers PONG, or the message", NULL},
    {"echo", 2, SPEC_QUEUES | SPEC_FAST, run_echo, "connection", "Answers the message", NULL},
    {"hello", -1, SPEC_FAST | SPEC_STRANGER, run_hello, "connection", "Chooses RESP2 or RESP3", NULL},
    {"auth", -2, SPEC_FAST | SPEC_STRANGER, run_auth, "connection", "Authenticates the connection", NULL},
    {"acl", -2, 0, NULL, "server", "Who one is", acl_specs},
    {"select", 2, SPEC_QUEUES | SPEC_FAST, run_select, "connection", "Database 0 is the only one", NULL},
    {"client", -2, 0, NULL, "connection", "About this connection", client_specs},
    {"quit", -1, SPEC_AT_ONCE | SPEC_FAST | SPEC_STRANGER, run_quit, "connection", "Closes the connection",
     NULL},
    {"reset", 1, SPEC_AT_ONCE | SPEC_FAST | SPEC_STRANGER, run_reset, "connection", "Resets the connection",
     NULL},
    {"multi", 1, SPEC_AT_ONCE | SPEC_FAST, run_multi, "transactions", "Starts a transaction", NULL},
    {"exec", 1, SPEC_AT_ONCE, run_exec, "transactions", "Runs the transaction, whole or not at all", NULL},
    {"discard", 1, SPEC_AT_ONCE | SPEC_FAST, run_discard, "transactions", "Forgets the transaction", NULL},
    {"watch", -2, SPEC_AT_ONCE | SPEC_FAST, run_watch, "transactions", "Refused: there is nothing to watch",
     NULL},
    {"unwatch", 1, SPEC_QUEUES | SPEC_FAST, run_unwatch, "transactions", "Accepted: nothing is ever watched",
     NULL},
    {"command", -1, 0, run_command, "server", "About the commands", command_specs},
    {"config", -2, 0, NULL, "server", "The settings that clients of a Redis ask for", config_specs},
    {"info", -1, 0, run_info, "server", "State and statistics [section]", NULL},
    {"role", 1, SPEC_QUEUES | SPEC_FAST, run_role, "server", "master: tallyd has no replicas", NULL},
    {"time", 1, SPEC_QUEUES | SPEC_FAST, run_time, "server", "Seconds and microseconds since 1970", NULL},
    {"hget", 3, READ, run_total, "hash", "A live total, as of CTR.TOTAL", NULL},
    {"hmget", -3, READ, run_total, "hash", "Live totals, as of CTR.TOTAL", NULL},
    {"expire", -3, EXPIRY, run_expire, "generic", "Accepted: a counter does not expire", NULL},
    {"pexpire", -3, EXPIRY, run_expire, "generic", "Accepted: a counter does not expire", NULL},
    {"expireat", -3, EXPIRY, run_expire, "generic", "Accepted: a counter does not expire", NULL},
    {"pexpireat", -3, EXPIRY, run_expire, "generic", "Accepted: a counter does not expire", NULL},
    {"persist", 2, EXPIRY, run_expire, "generic", "Accepted: a counter does not expire", NULL},
    {"exists", -2, SPEC_KEYS | LOOK, run_exists, "generic", "How many of the keys are those of counters",
     NULL},
    {"ttl", 2, SPEC_KEY | LOOK, run_ttl, "generic", "-1: a counter's key, which does not expire; -2: none",
     NULL},
    {"pttl", 2, SPEC_KEY | LOOK, run_ttl, "generic", "-1: a counter's key, which does not expire; -2: none",
     NULL},
    {"incr", 2, SPEC_HIT | WRITE, hit_run, "string",
     "Adds 1 to a counter without fields; answers the pending value", NULL},
    {"incrby", 3, SPEC_HIT | WRITE, hit_run, "string", "Adds to a counter without fields", NULL},
    {"decr", 2, SPEC_HIT | WRITE, hit_run, "string", "Takes 1 from a counter without fields", NULL},
    {"decrby", 3, SPEC_HIT | WRITE, hit_run, "string", "Takes from a counter without fields", NULL},
    {"get", 2, READ, run_total, "string", "The live total of a counter without fields", NULL},
    {0},
};

/* Of Redis alone: apps that counted there read with them. */
static const struct spec hash_reads[] = {
    {.name = "hgetall"}, {.name = "hlen"},  {.name = "hkeys"},   {.name = "hvals"},
    {.name = "hexists"}, {.name = "hscan"}, {.name = "hstrlen"}, {0}};

/* All names begin with a letter, and few with the same. */
const struct spec *spec_find(const struct spec *table, struct slice name)
{
    char first = name.n > 0 ? (char)(name.p[0] | 0x20) : '\0';
    for (const struct spec *at = table; at->name != NULL; at++)
        if (at->name[0] == first && slice_ieq(name, slice_str(at->name))) return at;
    return NULL;
}

void spec_put_name(const struct spec *spec, struct buf *out)
{
    for (const struct spec *at = specs; at->name != NULL; at++) {
        if (at == spec) buf_printf(out, "%s", at->name);
        for (const struct spec *sub = at->subs; sub != NULL && sub->name != NULL; sub++)
            if (sub == spec) buf_printf(out, "%s|%s", at->name, sub->name);
    }
}

/* As Redis' printf("%.*s") of a C string: ends at a NUL byte. */
static void table_text_put(struct buf *b, struct slice s, size_t most)
{
    size_t n = s.n < most ? s.n : most;
    buf_put(b, s.p, strnlen(s.p, n));
}

static void reply_unknown(const struct request *r, struct buf *out)
{
    struct buf line = {0};
    BUF_LIT(&line, "ERR unknown command '");
    table_text_put(&line, r->args[0], 128);
    BUF_LIT(&line, "', with args beginning with: ");
    size_t args_at = line.n;
    for (uint32_t i = 1; i < r->args_n && line.n - args_at < 128; i++) {
        size_t most = 128 - (line.n - args_at);
        buf_put_char(&line, '\'');
        table_text_put(&line, r->args[i], most);
        BUF_LIT(&line, "' ");
    }
    if (spec_find(hash_reads, r->args[0]) != NULL) {
        line.n--; /* the space */
        BUF_LIT(&line, "; tallyd keeps no hashes to read: send CTR.TOTAL key field ..., or SELECT from the "
                       "counter's table");
    }
    reply_error_slice(out, buf_slice(&line));
    buf_free(&line);
}

static void reply_unknown_sub(const struct spec *whole, struct slice sub, struct buf *out)
{
    char upper[32];
    size_t n = strlen(whole->name);
    PRE(n < sizeof(upper));
    for (size_t i = 0; i <= n; i++)
        upper[i] = whole->name[i] >= 'a' ? (char)(whole->name[i] - 'a' + 'A') : whole->name[i];
    struct buf line = {0};
    BUF_LIT(&line, "ERR unknown subcommand '");
    table_text_put(&line, sub, 128);
    buf_printf(&line, "'. Try %s HELP.", upper);
    reply_error_slice(out, buf_slice(&line));
    buf_free(&line);
}

bool spec_arity_fits(const struct spec *spec, uint32_t args_n)
{
    return spec->arity >= 0 ? args_n == (uint32_t)spec->arity : args_n >= (uint32_t)-spec->arity;
}

const struct spec *spec_resolve(const struct session *s, const struct request *r, const struct spec **whole,
                                struct buf *out)
{
    const struct spec *spec = *whole = spec_find(specs, r->args[0]);
    if (spec == NULL) {
        const char *refusal = counter_refusal(s, r);
        if (refusal != NULL)
            reply_error(out, refusal);
        else
            reply_unknown(r, out);
        return NULL;
    }
    if (spec->subs != NULL && r->args_n >= 2) {
        spec = spec_find(spec->subs, r->args[1]);
        if (spec == NULL) {
            reply_unknown_sub(*whole, r->args[1], out);
            return NULL;
        }
    }
    if (spec_arity_fits(spec, r->args_n)) return spec;
    const char *name = (*whole)->name;
    const char *before = (*whole)->run == run_exec ? "EXECABORT Transaction discarded because of:" : "ERR";
    if (spec == *whole)
        reply_errorf(out, "%s wrong number of arguments for '%s' command", before, name);
    else
        reply_errorf(out, "ERR wrong number of arguments for '%s|%s' command", name, spec->name);
    return NULL;
}

/* As Redis tallyd closes at once, without a reply: a web page may have sent this, by a browser inside the network. Also what begins a
 * PROXY protocol header of version 1 or 2: an answer to it would be taken for that to the client's first command. */
const char *spec_is_strange(const struct request *r)
{
    if (slice_ieq(r->args[0], SLICE("post")) || slice_ieq(r->args[0], SLICE("host:")))
        return "a client sent HTTP to the RESP door: a web page may be using a browser; tallyd closed the "
               "connection";
    if (slice_eq(r->args[0], SLICE("PROXY")) || slice_eq(r->args[0], SLICE("\0")))
        return "a proxy sends a PROXY protocol header to an address that is not for proxies: write ?proxy=on "
               "behind it in "
               "listen.resp, or take send-proxy off the proxy's server line; tallyd closed the connection";
    return NULL;
}
