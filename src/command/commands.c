/* command/commands.c - COMMAND: the command table (table.c) as Redis 7.0 shows its own. Flags, ACL categories and key
 * positions come from a row's flags and group; a command has one key, in front, or none, and EXISTS has keys alone. */
#include "command/inside.h"
#include "users/users.h"

#include <ctype.h>
#include <stdio.h>

#define NAME_BYTES 64 /* of "command|subcommand" */
#define WORDS_MAX 12

struct words {
    const char *all[WORDS_MAX];
    size_t n;
};

static void word_add(struct words *w, bool wanted, const char *word)
{
    if (!wanted) return;
    INVARIANT(w->n < WORDS_MAX);
    w->all[w->n++] = word;
}

static void words_put(const struct words *w, int resp, struct buf *out)
{
    reply_set(out, resp, w->n);
    for (size_t i = 0; i < w->n; i++)
        reply_simple(out, w->all[i]);
}

static bool has(const struct spec *spec, unsigned flags)
{
    return (spec->flags & flags) != 0;
}

static struct words flags_of(const struct spec *spec)
{
    struct words w = {.n = 0};
    word_add(&w, has(spec, SPEC_HIT | SPEC_OP | SPEC_EXPIRY), "write");
    word_add(&w, has(spec, SPEC_READ), "readonly");
    word_add(&w, has(spec, SPEC_HIT | SPEC_OP), "denyoom");
    word_add(&w, has(spec, SPEC_ADMIN), "admin");
    word_add(&w, has(spec, SPEC_ASKS), "blocking");
    word_add(&w, has(spec, SPEC_FAST), "fast");
    word_add(&w, has(spec, SPEC_STRANGER), "no_auth");
    word_add(&w, spec->run == run_sync, "no_mandatory_keys");
    word_add(&w, spec->run != NULL && !has(spec, SPEC_QUEUES | SPEC_AT_ONCE), "no_multi");
    return w;
}

static struct words categories_of(const struct spec *spec)
{
    struct words w = {.n = 0};
    bool has_keys = has(spec, SPEC_KEY | SPEC_KEYS);
    word_add(&w, has_keys && strcmp(spec->group, "generic") == 0, "@keyspace");
    word_add(&w, has(spec, SPEC_READ), "@read");
    word_add(&w, has(spec, SPEC_HIT | SPEC_OP | SPEC_EXPIRY), "@write");
    word_add(&w, strcmp(spec->group, "hash") == 0, "@hash");
    word_add(&w, has(spec, SPEC_ADMIN), "@admin");
    word_add(&w, has(spec, SPEC_FAST), "@fast");
    word_add(&w, !has(spec, SPEC_FAST), "@slow");
    word_add(&w, has(spec, SPEC_ASKS), "@blocking");
    word_add(&w, has(spec, SPEC_ADMIN), "@dangerous");
    word_add(&w, strcmp(spec->group, "connection") == 0, "@connection");
    word_add(&w, strcmp(spec->group, "transactions") == 0, "@transaction");
    return w;
}

static size_t specs_count(const struct spec *table)
{
    size_t n = 0;
    while (table != NULL && table[n].name != NULL)
        n++;
    return n;
}

/* "client|id"; whole == spec: "client". */
static struct slice full_name(const struct spec *whole, const struct spec *spec, char out[NAME_BYTES])
{
    int n = whole == spec ? snprintf(out, NAME_BYTES, "%s", whole->name)
                          : snprintf(out, NAME_BYTES, "%s|%s", whole->name, spec->name);
    INVARIANT(n > 0 && n < NAME_BYTES);
    return slice_of(out, (size_t)n);
}

static const struct spec *find_full(struct slice name, const struct spec **whole)
{
    const char *bar = name.n == 0 ? NULL : memchr(name.p, '|', name.n);
    size_t n = bar == NULL ? name.n : (size_t)(bar - name.p);
    *whole = spec_find(specs, slice_of(name.p, n));
    if (*whole == NULL || bar == NULL) return *whole;
    if ((*whole)->subs == NULL) return NULL;
    return spec_find((*whole)->subs, slice_of(bar + 1, name.n - n - 1));
}

/* ---- COMMAND, COMMAND INFO, COMMAND DOCS ---- */

/* The ten parts of Redis 7.0: name, arity, flags, first key, last key, step, ACL categories, tips, key specs,
 * subcommands. */
static void put_command(const struct spec *whole, const struct spec *spec, int resp, struct buf *out)
{
    char name[NAME_BYTES];
    struct words flags = flags_of(spec), categories = categories_of(spec);
    reply_array(out, 10);
    reply_bulk(out, full_name(whole, spec, name));
    reply_int(out, spec->arity);
    words_put(&flags, resp, out);
    reply_int(out, has(spec, SPEC_KEY | SPEC_KEYS));
    reply_int(out, has(spec, SPEC_KEYS) ? -1 : has(spec, SPEC_KEY));
    reply_int(out, has(spec, SPEC_KEY | SPEC_KEYS));
    words_put(&categories, resp, out);
    for (int i = 0; i < 2; i++)
        reply_set(out, resp, 0);
    if (spec->subs == NULL) {
        reply_set(out, resp, 0);
        return;
    }
    reply_array(out, specs_count(spec->subs));
    for (const struct spec *sub = spec->subs; sub->name != NULL; sub++)
        put_command(spec, sub, resp, out);
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
        put_command(at, at, s->resp, out);
    return TAKEN;
}

static enum taken run_command_count(struct session *s, const struct request *r, struct buf *out)
{
    (void)s, (void)r;
    reply_int(out, (int64_t)specs_count(specs));
    return TAKEN;
}

static enum taken run_command_info(struct session *s, const struct request *r, struct buf *out)
{
    if (r->args_n == 2) return run_command(s, r, out);
    reply_array(out, r->args_n - 2);
    for (uint32_t i = 2; i < r->args_n; i++) {
        const struct spec *whole, *spec = find_full(r->args[i], &whole);
        if (spec == NULL)
            reply_null(out, s->resp);
        else
            put_command(whole, spec, s->resp, out);
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

/* ---- COMMAND LIST ---- */

enum filter_kind { FILTER_NONE, FILTER_MODULE, FILTER_ACLCAT, FILTER_PATTERN };

struct filter {
    enum filter_kind kind;
    struct slice with;
};

/* FILTERBY MODULE|ACLCAT|PATTERN what. False: a syntax error. */
static bool filter_read(const struct request *r, struct filter *f)
{
    *f = (struct filter){.kind = FILTER_NONE};
    if (r->args_n == 2) return true;
    if (r->args_n != 5 || !word_is(r->args[2], "FILTERBY")) return false;
    f->with = r->args[4];
    if (word_is(r->args[3], "MODULE")) f->kind = FILTER_MODULE;
    if (word_is(r->args[3], "ACLCAT")) f->kind = FILTER_ACLCAT;
    if (word_is(r->args[3], "PATTERN")) f->kind = FILTER_PATTERN;
    return f->kind != FILTER_NONE;
}

/* Case does not matter. */
static bool name_matches(struct slice name, struct slice pattern)
{
    struct buf lower = {0};
    for (size_t i = 0; i < pattern.n; i++)
        buf_put_char(&lower, (char)tolower((unsigned char)pattern.p[i]));
    bool matches = glob_match_rest(buf_slice(&lower), name);
    buf_free(&lower);
    return matches;
}

static bool filter_lets(const struct filter *f, const struct spec *spec, struct slice name)
{
    struct words w = categories_of(spec);
    if (f->kind == FILTER_NONE) return true;
    if (f->kind == FILTER_PATTERN) return name_matches(name, f->with);
    for (size_t i = 0; i < w.n && f->kind == FILTER_ACLCAT; i++)
        if (slice_ieq(slice_str(w.all[i] + 1), f->with)) return true;
    return false; /* there are no modules */
}

/* The names of spec and its subcommands; returns how many. */
static size_t commands_list_put(const struct filter *f, const struct spec *whole, struct buf *out)
{
    char text[NAME_BYTES];
    size_t n = 0;
    const struct spec *spec = whole, *next = whole->subs;
    while (spec != NULL && spec->name != NULL) {
        struct slice name = full_name(whole, spec, text);
        if (filter_lets(f, spec, name)) {
            reply_bulk(out, name);
            n++;
        }
        spec = next;
        if (next != NULL) next++;
    }
    return n;
}

static enum taken run_command_list(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    struct filter f;
    struct buf names = {0};
    size_t n = 0;
    if (!filter_read(r, &f)) return words_syntax(out), TAKEN;
    for (const struct spec *at = specs; at->name != NULL; at++)
        n += commands_list_put(&f, at, &names);
    reply_array(out, n);
    buf_put_slice(out, buf_slice(&names));
    buf_free(&names);
    return TAKEN;
}

/* ---- COMMAND GETKEYS ---- */

static enum taken run_command_getkeys(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    const struct spec *spec = spec_find(specs, r->args[2]);
    if (spec != NULL && spec->subs != NULL && r->args_n > 3) spec = spec_find(spec->subs, r->args[3]);
    if (spec == NULL)
        reply_error(out, "ERR Invalid command specified");
    else if (!has(spec, SPEC_KEY | SPEC_KEYS))
        reply_error(out, "ERR The command has no key arguments");
    else if (!spec_arity_fits(spec, r->args_n - 2))
        reply_error(out, "ERR Invalid number of arguments specified for command");
    else {
        bool none = spec->run == run_sync && word_is(r->args[3], "ALL");
        uint32_t n = none ? 0 : has(spec, SPEC_KEYS) ? r->args_n - 3 : 1;
        reply_array(out, n);
        for (uint32_t i = 0; i < n; i++)
            reply_bulk(out, r->args[3 + i]);
    }
    return TAKEN;
}

const struct spec command_specs[] = {
    {"count", 2, 0, run_command_count, "server", "How many commands there are", NULL},
    {"list", -2, 0, run_command_list, "server", "Their names [FILTERBY MODULE|ACLCAT|PATTERN what]", NULL},
    {"info", -2, 0, run_command_info, "server", "Arity, flags and keys of commands", NULL},
    {"docs", -2, 0, run_command_docs, "server", "What commands do", NULL},
    {"getkeys", -4, 0, run_command_getkeys, "server", "The keys of a request", NULL},
    {"help", 2, 0, run_help, "server", "This text", NULL},
    {0},
};
