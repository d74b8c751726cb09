/* lua_redis.h - a Redis for scripts of redis/, in this process: their Lua is run unchanged, on a few keys in memory and at a
 * time that the target moves. It knows the commands that these scripts use, answers them as Redis 7.0 does, and ends the
 * process at any other. Numbers from Lua go as "%.17g", to Lua as doubles, as there.
 *
 * Owns its keys. Replies are trees on the heap, given back by reply_free(). */
#ifndef LUA_REDIS_H
#define LUA_REDIS_H

#include "fuzz.h"

#include "base/slice.h"
#include "redis/reader.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#define REDIS_ARGS_MAX 4096

struct redis_field {
    struct buf name, value; /* of a zset: the score */
};

struct redis_key {
    struct buf name, text; /* text: of a string */
    enum redis_key_type { KEY_STRING, KEY_HASH, KEY_ZSET, KEY_LIST } type;
    struct redis_field *fields;
    size_t n, cap;
    int64_t gone_ms; /* 0: it stays */
};

struct lua_redis {
    struct redis_key *keys;
    size_t n, cap;
    int64_t now_ms;
};

static struct lua_redis redis;

#define WRONGTYPE "WRONGTYPE Operation against a key holding the wrong kind of value"

/* ---- replies ---- */

static struct redis_answer reply_text(enum redis_type type, struct slice text)
{
    char *p = heap_alloc(text.n + 1);
    memcpy(p, text.p == NULL ? "" : text.p, text.n);
    return (struct redis_answer){.type = type, .str = slice_of(p, text.n)};
}

static struct redis_answer reply_number(int64_t v)
{
    return (struct redis_answer){.type = REDIS_INTEGER, .integer = v};
}

static struct redis_answer reply_array_of(size_t n)
{
    return (struct redis_answer){
        .type = REDIS_ARRAY, .elements = heap_zalloc((n + 1) * sizeof(struct redis_answer)), .n = n};
}

static void reply_free(struct redis_answer *r)
{
    for (size_t i = 0; r->type == REDIS_ARRAY && i < r->n; i++)
        reply_free(&r->elements[i]);
    heap_free(r->elements);
    heap_free((char *)(void *)r->str.p);
}

/* ---- keys ---- */

static void key_free(struct redis_key *k)
{
    for (size_t i = 0; i < k->n; i++) {
        buf_free(&k->fields[i].name);
        buf_free(&k->fields[i].value);
    }
    heap_free(k->fields);
    buf_free(&k->name);
    buf_free(&k->text);
}

static void redis_close(void)
{
    for (size_t i = 0; i < redis.n; i++)
        key_free(&redis.keys[i]);
    heap_free(redis.keys);
    redis = (struct lua_redis){.keys = NULL};
}

/* NULL: there is no such key, or it has expired. */
static struct redis_key *key_find(struct slice name)
{
    for (size_t i = 0; i < redis.n; i++) {
        struct redis_key *k = &redis.keys[i];
        if (!slice_eq(buf_slice(&k->name), name)) continue;
        if (k->gone_ms == 0 || k->gone_ms > redis.now_ms) return k;
        key_free(k);
        *k = redis.keys[--redis.n];
        return NULL;
    }
    return NULL;
}

static struct redis_key *key_make(struct slice name, enum redis_key_type type)
{
    struct redis_key *k = key_find(name);
    if (k != NULL) return k;
    if (redis.n == redis.cap) {
        redis.cap = redis.cap * 2 + 16;
        redis.keys = heap_realloc(redis.keys, redis.cap * sizeof *redis.keys);
    }
    k = &redis.keys[redis.n++];
    *k = (struct redis_key){.type = type};
    buf_put_slice(&k->name, name);
    return k;
}

static struct redis_field *field_find(const struct redis_key *k, struct slice name)
{
    for (size_t i = 0; k != NULL && i < k->n; i++)
        if (slice_eq(buf_slice(&k->fields[i].name), name)) return &k->fields[i];
    return NULL;
}

static void field_put(struct redis_key *k, struct slice name, struct slice value)
{
    struct redis_field *f = field_find(k, name);
    if (f == NULL) {
        if (k->n == k->cap) {
            k->cap = k->cap * 2 + 8;
            k->fields = heap_realloc(k->fields, k->cap * sizeof *k->fields);
        }
        f = &k->fields[k->n++];
        *f = (struct redis_field){.name = {.p = NULL}};
        buf_put_slice(&f->name, name);
    }
    buf_reset(&f->value);
    buf_put_slice(&f->value, value);
}

/* ---- commands ---- */

static struct redis_answer run_hincrby(const struct slice *args)
{
    struct redis_key *k = key_make(args[1], KEY_HASH);
    struct redis_field *f = field_find(k, args[2]);
    int64_t delta, value = 0;
    char digits[24];
    MUST(num_parse(args[3], &delta));
    if (f != NULL && !num_parse(buf_slice(&f->value), &value))
        return reply_text(REDIS_ERROR, SLICE("ERR hash value is not an integer"));
    if (__builtin_add_overflow(value, delta, &value))
        return reply_text(REDIS_ERROR, SLICE("ERR increment or decrement would overflow"));
    field_put(k, args[2], slice_of(digits, num_write(value, digits)));
    return reply_number(value);
}

static struct redis_answer run_hgetall(const struct redis_key *k)
{
    struct redis_answer r = reply_array_of(k == NULL ? 0 : 2 * k->n);
    for (size_t i = 0; i < r.n; i++)
        r.elements[i] = reply_text(REDIS_STRING,
                                   buf_slice(i % 2 == 0 ? &k->fields[i / 2].name : &k->fields[i / 2].value));
    return r;
}

static struct redis_answer run_hdel(struct redis_key *k, struct slice name)
{
    struct redis_field *f = field_find(k, name);
    if (f == NULL) return reply_number(0);
    buf_free(&f->name);
    buf_free(&f->value);
    *f = k->fields[--k->n];
    return reply_number(1);
}

static struct redis_answer run_zadd(const struct slice *args)
{
    struct redis_key *k = key_make(args[1], KEY_ZSET);
    MUST(slice_ieq(args[2], SLICE("nx")));
    if (field_find(k, args[4]) != NULL) return reply_number(0);
    field_put(k, args[4], args[3]);
    return reply_number(1);
}

static struct redis_answer run_set(const struct slice *args)
{
    int64_t keep_s;
    struct redis_key *k = key_make(args[1], KEY_STRING);
    MUST(slice_ieq(args[3], SLICE("ex")) && num_parse(args[4], &keep_s) && keep_s > 0);
    k->type = KEY_STRING;
    k->gone_ms = redis.now_ms + keep_s * 1000;
    buf_reset(&k->text);
    buf_put_slice(&k->text, args[2]);
    return reply_text(REDIS_STATUS, SLICE("OK"));
}

static struct redis_answer value_or_nil(const struct buf *b)
{
    return b == NULL ? (struct redis_answer){.type = REDIS_NIL} : reply_text(REDIS_STRING, buf_slice(b));
}

static struct redis_answer run_hmget(const struct redis_key *k, const struct slice *args, size_t n)
{
    struct redis_answer r = reply_array_of(n - 2);
    for (size_t i = 0; i < r.n; i++) {
        const struct redis_field *f = field_find(k, args[2 + i]);
        r.elements[i] = value_or_nil(f == NULL ? NULL : &f->value);
    }
    return r;
}

static struct redis_answer run_expireat(struct redis_key *k, struct slice second)
{
    int64_t gone_s;
    MUST(num_parse(second, &gone_s));
    if (k != NULL) k->gone_ms = gone_s * 1000;
    return reply_number(k != NULL);
}

static struct redis_answer run_clock(void)
{
    char digits[24];
    struct redis_answer r = reply_array_of(2);
    r.elements[0] = reply_text(REDIS_STRING, slice_of(digits, num_write(redis.now_ms / 1000, digits)));
    r.elements[1] = reply_text(REDIS_STRING, slice_of(digits, num_write(redis.now_ms % 1000 * 1000, digits)));
    return r;
}

static const struct redis_command {
    const char *name;
    size_t args_n;
    enum redis_key_type type; /* of its key, KEY_LIST: it has none */
} redis_commands[] = {{"get", 2, KEY_STRING},   {"set", 5, KEY_LIST},   {"hget", 3, KEY_HASH},
                      {"hgetall", 2, KEY_HASH}, {"hdel", 3, KEY_HASH},  {"hincrby", 4, KEY_HASH},
                      {"zadd", 5, KEY_ZSET},    {"zcard", 2, KEY_ZSET}, {"expireat", 3, KEY_LIST},
                      {"hmget", 3, KEY_HASH},   {"time", 1, KEY_LIST}};
#define REDIS_HMGET 9
#define REDIS_COMMANDS (sizeof redis_commands / sizeof redis_commands[0])

static struct redis_answer redis_run(const struct slice *args, size_t n)
{
    size_t which = 0;
    while (which < REDIS_COMMANDS && !slice_ieq(slice_str(redis_commands[which].name), args[0]))
        which++;
    MUST(which < REDIS_COMMANDS);
    MUST(which == REDIS_HMGET ? n >= 3 : n == redis_commands[which].args_n);
    struct redis_key *k = n > 1 ? key_find(args[1]) : NULL;
    if (k != NULL && redis_commands[which].type != KEY_LIST && k->type != redis_commands[which].type)
        return reply_text(REDIS_ERROR, SLICE(WRONGTYPE));
    struct redis_field *f = n > 2 ? field_find(k, args[2]) : NULL;
    switch (which) {
    case 0:
        return value_or_nil(k == NULL ? NULL : &k->text);
    case 1:
        return run_set(args);
    case 2:
        return value_or_nil(f == NULL ? NULL : &f->value);
    case 3:
        return run_hgetall(k);
    case 4:
        return run_hdel(k, args[2]);
    case 5:
        return run_hincrby(args);
    case 6:
        return run_zadd(args);
    case 7:
        return reply_number(k == NULL ? 0 : (int64_t)k->n);
    case 8:
        return run_expireat(k, args[2]);
    case REDIS_HMGET:
        return run_hmget(k, args, n);
    default:
        return run_clock();
    }
}

/* ---- Lua ---- */

static void lua_put_reply(lua_State *lua, const struct redis_answer *r)
{
    switch (r->type) {
    case REDIS_NIL:
        lua_pushboolean(lua, 0);
        return;
    case REDIS_INTEGER:
        lua_pushnumber(lua, (lua_Number)r->integer);
        return;
    case REDIS_STRING:
        lua_pushlstring(lua, r->str.p, r->str.n);
        return;
    case REDIS_STATUS:
    case REDIS_ERROR:
        lua_newtable(lua);
        lua_pushlstring(lua, r->str.p, r->str.n);
        lua_setfield(lua, -2, r->type == REDIS_ERROR ? "err" : "ok");
        return;
    case REDIS_ARRAY:
        lua_newtable(lua);
        for (size_t i = 0; i < r->n; i++) {
            lua_put_reply(lua, &r->elements[i]);
            lua_rawseti(lua, -2, (int)i + 1);
        }
    }
}

static struct redis_answer lua_take_reply(lua_State *lua, int at);

static struct redis_answer lua_take_table(lua_State *lua, int at)
{
    size_t n;
    lua_getfield(lua, at, "err");
    const char *text = lua_tolstring(lua, -1, &n);
    struct redis_answer r = {.type = REDIS_NIL};
    if (text != NULL) r = reply_text(REDIS_ERROR, slice_of(text, n));
    lua_pop(lua, 1);
    if (text != NULL) return r;
    r = reply_array_of(lua_objlen(lua, at));
    for (size_t i = 0; i < r.n; i++) {
        lua_rawgeti(lua, at, (int)i + 1);
        r.elements[i] = lua_take_reply(lua, lua_gettop(lua));
        lua_pop(lua, 1);
    }
    return r;
}

static struct redis_answer lua_take_reply(lua_State *lua, int at)
{
    size_t n;
    const char *text;
    switch (lua_type(lua, at)) {
    case LUA_TNUMBER:
        return reply_number((int64_t)lua_tonumber(lua, at));
    case LUA_TSTRING:
        text = lua_tolstring(lua, at, &n);
        return reply_text(REDIS_STRING, slice_of(text, n));
    case LUA_TTABLE:
        return lua_take_table(lua, at);
    default:
        return (struct redis_answer){.type = REDIS_NIL};
    }
}

static int lua_redis_pcall(lua_State *lua)
{
    struct slice args[8];
    char digits[8][40];
    int n = lua_gettop(lua);
    MUST(n >= 1 && n <= 8);
    for (int i = 0; i < n; i++) {
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            args[i] = slice_of(
                digits[i], (size_t)snprintf(digits[i], sizeof digits[i], "%.17g", lua_tonumber(lua, i + 1)));
        } else {
            MUST(lua_type(lua, i + 1) == LUA_TSTRING);
            args[i].p = lua_tolstring(lua, i + 1, &args[i].n);
        }
    }
    struct redis_answer r = redis_run(args, (size_t)n);
    lua_put_reply(lua, &r);
    reply_free(&r);
    return 1;
}

static int lua_redis_error_reply(lua_State *lua)
{
    MUST(lua_type(lua, 1) == LUA_TSTRING);
    lua_newtable(lua);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "err");
    return 1;
}

/* Lua's memory is its own: what it collects when is no leak of an execution, and nothing that libFuzzer should count. Blocks of
 * 32 bytes, 64, 128 ...; NULL ends the script, and so the process. */
static void *lua_memory(void *arg, void *p, size_t old, size_t size)
{
    static _Alignas(16) char arena[8 << 20];
    static size_t used;
    struct free_block {
        struct free_block *next;
    };
    static struct free_block *free_blocks[64];
    size_t had = 0, has = 0;
    (void)arg;
    while (p != NULL && ((size_t)32 << had) < old)
        had++;
    while (((size_t)32 << has) < size)
        has++;
    if (p != NULL && size > 0 && had == has) return p;
    struct free_block *fresh = NULL;
    if (size > 0 && free_blocks[has] != NULL) {
        fresh = free_blocks[has];
        free_blocks[has] = fresh->next;
    } else if (size > 0 && sizeof arena - used >= (size_t)32 << has) {
        fresh = (struct free_block *)(void *)(arena + used);
        used += (size_t)32 << has;
    }
    if (p != NULL && fresh != NULL) memcpy(fresh, p, old < size ? old : size);
    if (p != NULL && (size == 0 || fresh != NULL)) {
        ((struct free_block *)p)->next = free_blocks[had];
        free_blocks[had] = p;
    }
    return fresh;
}

static void lua_library(lua_State *lua, const char *name, lua_CFunction opens)
{
    lua_pushcfunction(lua, opens);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}

/* One for all executions: a script leaves nothing there but its globals KEYS and ARGV. */
static lua_State *lua_begin(void)
{
    lua_State *lua = lua_newstate(lua_memory, NULL);
    MUST(lua != NULL);
    lua_library(lua, "", luaopen_base);
    lua_library(lua, LUA_TABLIBNAME, luaopen_table);
    lua_library(lua, LUA_STRLIBNAME, luaopen_string);
    lua_library(lua, LUA_MATHLIBNAME, luaopen_math);
    lua_newtable(lua);
    lua_pushcfunction(lua, lua_redis_pcall);
    lua_setfield(lua, -2, "pcall");
    lua_pushcfunction(lua, lua_redis_error_reply);
    lua_setfield(lua, -2, "error_reply");
    lua_setglobal(lua, "redis");
    return lua;
}

static void lua_put_list(lua_State *lua, const char *name, const struct slice *all, size_t n)
{
    lua_newtable(lua);
    for (size_t i = 0; i < n; i++) {
        lua_pushlstring(lua, all[i].p, all[i].n);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_setglobal(lua, name);
}

/* Without the "#!lua" line, which is for Redis. Compiled once: the text is the key of the registry. */
static void lua_put_script(lua_State *lua, struct slice script)
{
    lua_pushlstring(lua, script.p, script.n);
    lua_rawget(lua, LUA_REGISTRYINDEX);
    if (lua_isfunction(lua, -1)) return;
    lua_pop(lua, 1);
    MUST(slice_starts(script, SLICE("#!lua\n")));
    MUST(luaL_loadbuffer(lua, script.p + 5, script.n - 5, "script") == 0);
    lua_pushlstring(lua, script.p, script.n);
    lua_pushvalue(lua, -2);
    lua_rawset(lua, LUA_REGISTRYINDEX);
}

/* EVAL script keys_n key ... arg ... */
static struct redis_answer redis_eval(const struct slice *args, size_t n)
{
    static lua_State *lua;
    int64_t keys_n;
    if (lua == NULL) lua = lua_begin();
    MUST(n >= 3 && slice_eq(args[0], SLICE("EVAL")) && num_parse(args[2], &keys_n));
    MUST(keys_n >= 0 && (size_t)keys_n <= n - 3);
    lua_put_list(lua, "KEYS", args + 3, (size_t)keys_n);
    lua_put_list(lua, "ARGV", args + 3 + keys_n, n - 3 - (size_t)keys_n);
    lua_put_script(lua, args[1]);
    int failed = lua_pcall(lua, 0, 1, 0);
    if (failed != 0) fprintf(stderr, "%s\n", lua_tostring(lua, -1));
    MUST(failed == 0);
    struct redis_answer r = lua_take_reply(lua, lua_gettop(lua));
    lua_settop(lua, 0);
    return r;
}

/* One request of the wire, as redis/ writes it; *in moves past it. */
static struct redis_answer redis_wire(struct slice *in)
{
    static struct slice args[REDIS_ARGS_MAX];
    int64_t n, size;
    MUST(take_byte(in) == '*');
    struct slice head = take_line(in);
    MUST(num_parse(slice_of(head.p, head.n - 1), &n) && n > 0 && n <= REDIS_ARGS_MAX);
    for (int64_t i = 0; i < n; i++) {
        MUST(take_byte(in) == '$');
        head = take_line(in);
        MUST(num_parse(slice_of(head.p, head.n - 1), &size) && size >= 0 && (size_t)size + 2 <= in->n);
        args[i] = take_bytes(in, (size_t)size);
        MUST(slice_eq(take_bytes(in, 2), SLICE("\r\n")));
    }
    return slice_eq(args[0], SLICE("EVAL")) ? redis_eval(args, (size_t)n) : redis_run(args, (size_t)n);
}

#endif
