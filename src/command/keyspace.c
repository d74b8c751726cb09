/* command/keyspace.c - what apps send about a counter's key as a key: EXPIRE and the like, which are accepted and do nothing, since
 * the hash leaves Redis when it is merged; EXISTS and TTL, which the configuration answers; and the commands of Redis that would
 * set or delete a count, which are refused. Refused ones are in no list of commands. */
#include "command/inside.h"

static const struct counter *key_counter(const struct session *s, struct slice key)
{
    return counters_match(s->command->config.counters, key);
}

/* ---- EXPIRE key seconds [NX|XX|GT|LT], PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST key ---- */

enum { OPTION_NX = 1, OPTION_XX = 2, OPTION_GT = 4, OPTION_LT = 8, OPTIONS = 4 };

/* 0, and the error in out: there is no such option. */
static unsigned expire_option(struct slice word, struct buf *out)
{
    static const char *const names[OPTIONS] = {"NX", "XX", "GT", "LT"};
    for (unsigned i = 0; i < OPTIONS; i++)
        if (word_is(word, names[i])) return 1U << i;
    reply_errorf(out, "ERR Unsupported option %s", SLICE_SHOW(word, SHOWN_BYTES));
    return 0;
}

static bool expire_options(const struct request *r, struct buf *out)
{
    unsigned all = 0;
    for (uint32_t i = 3; i < r->args_n; i++) {
        unsigned option = expire_option(r->args[i], out);
        if (option == 0) return false;
        all |= option;
    }
    if ((all & OPTION_NX) != 0 && all != OPTION_NX)
        return reply_error(out, "ERR NX and XX, GT or LT options at the same time are not compatible");
    if ((all & OPTION_GT) != 0 && (all & OPTION_LT) != 0)
        return reply_error(out, "ERR GT and LT options at the same time are not compatible");
    return true;
}

/* The name says the unit, and whether it is a time or a while from now. */
static bool expire_time(const struct session *s, const struct request *r, struct buf *out)
{
    const struct command_ports *ports = &s->command->config.ports;
    const char *name = spec_find(specs, r->args[0])->name;
    int64_t at, unit = name[0] == 'p' ? 1 : 1000;
    int64_t from = slice_ends(slice_str(name), SLICE("at")) ? 0 : ports->redis_ms(ports->arg);
    if (!word_int(r->args[2], &at, out)) return false;
    if (!__builtin_mul_overflow(at, unit, &at) && !__builtin_add_overflow(at, from, &at)) return true;
    return reply_errorf(out, "ERR invalid expire time in '%s' command", name);
}

enum taken run_expire(struct session *s, const struct request *r, struct buf *out)
{
    bool has_time = r->args_n > 2;
    if (has_time && (!expire_options(r, out) || !expire_time(s, r, out))) return TAKEN;
    if (key_counter(s, r->args[1]) != NULL)
        reply_int(out, 1);
    else
        hit_refuse_key(s, r->args[1], out);
    return TAKEN;
}

/* ---- EXISTS key [key ...], TTL key, PTTL key ---- */

enum taken run_exists(struct session *s, const struct request *r, struct buf *out)
{
    int64_t n = 0;
    for (uint32_t i = 1; i < r->args_n; i++)
        n += guard_names(s, r->args[i]) && key_counter(s, r->args[i]) != NULL;
    reply_int(out, n);
    return TAKEN;
}

enum taken run_ttl(struct session *s, const struct request *r, struct buf *out)
{
    reply_int(out, key_counter(s, r->args[1]) != NULL ? -1 : -2);
    return TAKEN;
}

/* ---- what would set or delete ---- */

static bool sets_or_deletes(struct slice name)
{
    static const char *const all[] = {"set",    "setnx",  "setex",       "psetex", "getset",  "getdel",
                                      "mset",   "append", "incrbyfloat", "del",    "unlink",  "hset",
                                      "hsetnx", "hmset",  "hdel",        "rename", "renamenx"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (slice_ieq(name, slice_str(all[i]))) return true;
    return false;
}

const char *counter_refusal(const struct session *s, const struct request *r)
{
    bool is_float = word_is(r->args[0], "HINCRBYFLOAT");
    if (r->args_n < 2 || (!is_float && !sets_or_deletes(r->args[0]))) return NULL;
    if (!guard_names(s, r->args[1]) || key_counter(s, r->args[1]) == NULL) return NULL;
    return is_float ? "ERR counts are integers: send HINCRBY key field n with an integer n"
                    : "ERR counters only go by increments: send HINCRBY key field n; an operator corrects a "
                      "count with 'tallyd adjust'";
}
