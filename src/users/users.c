/* users/users.c - see users.h; with the patterns of their keys and the commands that they may be given. */
#include "users/users.h"

#include "base/heap.h"
#include "base/log.h"
#include "users/prover.h"

#include <stdlib.h>

/* CLIENT LIST and CLIENT KILL also need admin: command/guard.c. */
const struct grant grants[] = {
    {"hincrby", GRANT_WRITE, NAMES_KEY},
    {"ctr.incrby", GRANT_WRITE, NAMES_KEY},
    {"ctr.hit", GRANT_WRITE, NAMES_KEY},
    {"ctr.pending", GRANT_READ, NAMES_KEY},
    {"ctr.total", GRANT_READ, NAMES_KEY},
    {"ctr.sync", GRANT_ADMIN, NAMES_SYNC},
    {"ctr.recover", GRANT_ADMIN, NAMES_ALL},
    {"series.incrby", GRANT_WRITE, NAMES_KEY},
    {"series.get", GRANT_READ, NAMES_KEY},
    {"series.list", GRANT_ADMIN, NAMES_NONE}, /* its answer has only the names that the user may see */
    {"box.incrby", GRANT_WRITE, NAMES_KEY},
    {"box.recent", GRANT_READ, NAMES_KEY},
    {"box.top", GRANT_READ, NAMES_KEY},
    {"box.bottom", GRANT_READ, NAMES_KEY},
    {"event.add", GRANT_WRITE, NAMES_EVENT},
    {"event.range", GRANT_READ, NAMES_EVENT},
    {"event.count", GRANT_READ, NAMES_EVENT},
    {"uniq.add", GRANT_WRITE, NAMES_KEY},
    {"uniq.count", GRANT_READ, NAMES_KEY},
    {"wait", GRANT_WRITE, NAMES_NONE},
    {"waitaof", GRANT_WRITE, NAMES_NONE},
    {"ping", GRANT_FREE, NAMES_NONE},
    {"echo", GRANT_FREE, NAMES_NONE},
    {"hello", GRANT_FREE, NAMES_NONE},
    {"auth", GRANT_FREE, NAMES_NONE},
    {"select", GRANT_FREE, NAMES_NONE},
    {"client", GRANT_FREE, NAMES_NONE},
    {"quit", GRANT_FREE, NAMES_NONE},
    {"reset", GRANT_FREE, NAMES_NONE},
    {"multi", GRANT_FREE, NAMES_NONE},
    {"exec", GRANT_FREE, NAMES_NONE},
    {"discard", GRANT_FREE, NAMES_NONE},
    {"watch", GRANT_FREE, NAMES_NONE},
    {"unwatch", GRANT_FREE, NAMES_NONE},
    {"command", GRANT_FREE, NAMES_NONE},
    {"config", GRANT_FREE, NAMES_NONE}, /* GET of five fixed settings */
    {"acl", GRANT_FREE, NAMES_NONE},    /* WHOAMI alone */
    {"role", GRANT_FREE, NAMES_NONE},
    {"info", GRANT_FREE, NAMES_NONE}, /* without GRANT_ADMIN no figures, only what client libraries read */
    {"time", GRANT_FREE, NAMES_NONE},
    {"hget", GRANT_READ, NAMES_KEY},
    {"hmget", GRANT_READ, NAMES_KEY},
    {"expire", GRANT_WRITE, NAMES_KEY},
    {"pexpire", GRANT_WRITE, NAMES_KEY},
    {"expireat", GRANT_WRITE, NAMES_KEY},
    {"pexpireat", GRANT_WRITE, NAMES_KEY},
    {"persist", GRANT_WRITE, NAMES_KEY},
    {"exists", GRANT_FREE, NAMES_NONE}, /* a key that the user may not name is none of a counter's */
    {"ttl", GRANT_FREE, NAMES_KEY},     /* the configuration alone tells */
    {"pttl", GRANT_FREE, NAMES_KEY},
    {"incr", GRANT_WRITE, NAMES_KEY},
    {"incrby", GRANT_WRITE, NAMES_KEY},
    {"decr", GRANT_WRITE, NAMES_KEY},
    {"decrby", GRANT_WRITE, NAMES_KEY},
    {"get", GRANT_READ, NAMES_KEY},
};
const size_t grants_n = sizeof(grants) / sizeof(grants[0]);
_Static_assert(sizeof(grants) / sizeof(grants[0]) <= 64, "bits of a word");

const struct grant *grant_find(struct slice name)
{
    for (size_t i = 0; i < grants_n; i++)
        if (slice_ieq(slice_str(grants[i].name), name)) return &grants[i];
    return NULL;
}

uint64_t grants_of(enum grant_group group)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < grants_n; i++)
        if (grants[i].group == group) bits |= GRANT_BIT(&grants[i]);
    return bits;
}

/* The bits of a command's or a group's name (`read`, `write`, `admin`, `all`); 0: unknown name. */
static uint64_t grants_named(struct slice name)
{
    if (slice_ieq(name, SLICE("read"))) return grants_of(GRANT_READ);
    if (slice_ieq(name, SLICE("write"))) return grants_of(GRANT_WRITE);
    if (slice_ieq(name, SLICE("admin"))) return grants_of(GRANT_ADMIN);
    if (slice_ieq(name, SLICE("all")))
        return grants_of(GRANT_READ) | grants_of(GRANT_WRITE) | grants_of(GRANT_ADMIN);
    const struct grant *g = grant_find(name);
    return g == NULL ? 0 : GRANT_BIT(g);
}

/* Follows redis 7.0 (src/util.c, stringmatchlen), except that ranges compare unsigned bytes: [a-\xff] matches `b` here,
 * but not in Redis. Time is bounded by the product of the lengths: only the last of several stars is ever tried again. */

#define ACTIVE_MS 1000
#define SHARE_LEAST 32

/* Half a frame for all users, so that the other half is there for a user that is alone. Unauthenticated clients send
 * little but AUTH: 20,000 a second is far below what the loop can parse. */
const struct users_limits users_limits_default = {.frame_requests = 500, .strangers_rate = 20000};

static void limits_set(struct user *u, const struct user_spec *spec)
{
    uint32_t tenth = spec->rate / 10 > USER_BURST_LEAST ? spec->rate / 10 : USER_BURST_LEAST;
    u->rate = spec->rate;
    u->burst = spec->burst > 0 ? spec->burst : tenth;
    u->multi_max = spec->multi > 0 ? spec->multi : UINT32_MAX;
    u->connections_max = spec->connections;
    u->budget_milli = (int64_t)u->burst * 1000;
    u->part = UINT32_MAX;
}

static void lists_init(struct user *u)
{
    list_init(&u->waiting);
    list_init(&u->paced);
}

void users_init(struct users *u, const struct users_limits *limits)
{
    *u = (struct users){.frame_requests = limits->frame_requests};
    limits_set(&u->stranger, &(struct user_spec){.rate = limits->strangers_rate});
    lists_init(&u->stranger);
}

static enum err commands_take(struct user *u, const struct user_spec *spec, struct error *e)
{
    char shown[64];
    if (spec->commands_n == 0) u->commands = grants_of(GRANT_READ) | grants_of(GRANT_WRITE);
    for (size_t i = 0; i < spec->commands_n; i++) {
        uint64_t bits = grants_named(spec->commands[i]);
        if (bits == 0)
            return error_set(e, ERR_CONFIG,
                             "there is no command or group \"%s\"; groups are read, write, admin and all",
                             slice_show(spec->commands[i], 40, shown, sizeof(shown)));
        u->commands |= bits;
    }
    u->may_hit = user_may(u, grant_find(SLICE("hincrby")));
    return ERR_NONE;
}

static void user_close(struct user *u)
{
    for (size_t i = 0; i < u->keys_n; i++)
        heap_free(u->texts[i]);
    heap_free(u->texts);
    heap_free(u->keys);
    heap_free(u->name);
    if (u->hash != NULL) explicit_bzero(u->hash, strlen(u->hash));
    heap_free(u->hash);
    explicit_bzero(u, sizeof(*u));
}

enum err users_add(struct users *u, const struct user_spec *spec, enum user_field *which, struct error *e)
{
    struct user fresh = {.name = heap_strndup(spec->name.p, spec->name.n), .hash = heap_strdup(spec->hash)};
    limits_set(&fresh, spec);
    fresh.texts = heap_zalloc((spec->keys_n + 1) * sizeof(*fresh.texts));
    fresh.keys = heap_zalloc((spec->keys_n + 1) * sizeof(*fresh.keys));
    for (; fresh.keys_n < spec->keys_n; fresh.keys_n++) {
        struct slice text = spec->keys[fresh.keys_n];
        fresh.texts[fresh.keys_n] = heap_strndup(text.p, text.n);
        glob_init(&fresh.keys[fresh.keys_n], slice_of(fresh.texts[fresh.keys_n], text.n));
        fresh.all_keys |= slice_eq(text, SLICE("*"));
    }
    *which = USER_COMMANDS;
    enum err code = commands_take(&fresh, spec, e);
    if (code == ERR_NONE && !password_hash_fits(spec->hash)) {
        *which = USER_PASSWORD;
        code = error_set(
            e, ERR_CONFIG,
            "is not a yescrypt or scrypt hash that takes %d to %d MiB; `tallyd hash` makes one of a password",
            PASSWORD_MIB_LEAST, PASSWORD_MIB_MOST);
    }
    if (code != ERR_NONE) {
        user_close(&fresh);
        return code;
    }
    u->all = heap_realloc(u->all, (u->n + 1) * sizeof(*u->all));
    u->all[u->n++] = fresh;
    return ERR_NONE;
}

static int users_by_name(const void *a, const void *b)
{
    const struct user *left = a, *right = b;
    return slice_cmp(slice_str(left->name), slice_str(right->name));
}

void users_sort(struct users *u)
{
    if (u->n > 0) qsort(u->all, u->n, sizeof(*u->all), users_by_name);
    for (size_t i = 0; i < u->n; i++)
        lists_init(&u->all[i]);
}

void users_close(struct users *u)
{
    for (size_t i = 0; i < u->n; i++)
        user_close(&u->all[i]);
    heap_free(u->all);
    *u = (struct users){0};
}

static int name_is(const void *name, const void *user)
{
    return slice_cmp(*(const struct slice *)name, slice_str(((const struct user *)user)->name));
}

struct user *user_find(const struct users *u, struct slice name)
{
    return u->n == 0 ? NULL : bsearch(&name, u->all, u->n, sizeof(*u->all), name_is);
}

bool user_is_same(const struct user *a, const struct user *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->hash, b->hash) == 0;
}

/* --- budget and share --- */

static void budget_fill(struct user *u, uint64_t now_ms)
{
    int64_t most = (int64_t)u->burst * 1000;
    if (now_ms <= u->budget_ms) return;
    uint64_t gone_ms = now_ms - u->budget_ms;
    u->budget_ms = now_ms;
    u->budget_milli += gone_ms > 3600000 ? most : (int64_t)gone_ms * u->rate;
    if (u->budget_milli > most) u->budget_milli = most;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of a whole frame; a user that is alone may have all of it. */
static uint32_t share_whole(const struct users *all)
{
    if (all->active <= 1) return UINT32_MAX;
    uint32_t share = all->frame_requests / all->active;
    return share > SHARE_LEAST ? share : SHARE_LEAST;
}

static uint32_t user_share(const struct users *all, const struct user *u)
{
    uint32_t share = share_whole(all);
    if (share == UINT32_MAX) return share;
    return share > u->taken ? share - u->taken : 0;
}

void user_part(struct user *u, uint32_t most)
{
    u->part = most;
    u->room = 0;
}

void user_allow(struct user *u, uint64_t now_ms, bool rides)
{
    if (!u->dry) return;
    budget_fill(u, now_ms);
    int64_t left = u->budget_milli / 1000;
    int64_t chunk = least_of((int64_t)u->rate * USER_CHUNK_MS, (int64_t)u->burst * 250) / 1000;
    if (chunk < 1) chunk = 1;
    if (rides)
        u->allowed = left > 0 ? (uint32_t)least_of(left, USER_RIDES) : 0;
    else
        u->allowed = left >= chunk ? (uint32_t)chunk : 0;
    u->room = 0;
}

/* Also of a look that is some milliseconds older than the user's last. */
static bool is_active(const struct user *u, uint64_t now_ms)
{
    return now_ms < u->active_ms + ACTIVE_MS;
}

static uint32_t room_in(struct users *all, struct user *u, uint64_t frame, uint64_t now_ms)
{
    if (u->frame != frame) {
        if (now_ms >= all->active_ms + ACTIVE_MS) {
            all->active_ms = now_ms;
            all->active = is_active(&all->stranger, now_ms);
            for (size_t i = 0; i < all->n; i++)
                all->active += is_active(&all->all[i], now_ms);
        }
        if (!is_active(u, now_ms)) all->active++;
        u->active_ms = now_ms;
        u->frame = frame;
        u->taken = (uint32_t)least_of(u->ahead, share_whole(all));
        u->ahead -= u->taken;
    }
    uint32_t share = user_share(all, u);
    if (u->rate == 0 || share == 0) return share;
    budget_fill(u, now_ms);
    int64_t left = u->budget_milli / 1000;
    if (left <= 0)
        u->dry = true;
    else if (u->budget_milli >= (int64_t)u->burst * 500)
        u->dry = false;
    uint32_t most = u->dry ? u->allowed : (uint32_t)left;
    return most < share ? most : share;
}

uint32_t user_room(struct users *all, struct user *u, uint64_t frame, uint64_t now_ms)
{
    u->room = (uint32_t)least_of(room_in(all, u, frame, now_ms), u->part);
    u->room_of = all->active;
    return u->room;
}

void user_took(struct user *u, uint32_t requests)
{
    u->taken += requests;
    user_queued(u, requests);
}

void user_weighed(struct user *u, uint32_t more)
{
    u->taken += more;
    u->room -= more < u->room ? more : u->room;
}

void user_took_at_once(const struct users *all, struct user *u, uint32_t requests)
{
    uint32_t now = (uint32_t)least_of(requests, user_share(all, u));
    u->taken += now;
    u->room = 0;
    if (share_whole(all) != UINT32_MAX) u->ahead += requests - now;
}

void user_queued(struct user *u, uint32_t requests)
{
    u->room -= requests < u->room ? requests : u->room;
    u->allowed -= requests < u->allowed ? requests : u->allowed;
    if (u->part != UINT32_MAX) u->part -= requests < u->part ? requests : u->part;
    u->budget_milli -= (int64_t)requests * 1000;
}

void glob_init(struct glob *g, struct slice text)
{
    size_t n = 0;
    while (n < text.n && memchr("*?[\\", text.p[n], 4) == NULL)
        n++;
    g->prefix = slice_of(text.p, n);
    g->rest = slice_of(text.p + n, text.n - n);
    g->is_prefix = slice_eq(g->rest, SLICE("*"));
    size_t head_n = n < sizeof(g->head) ? n : sizeof(g->head);
    g->head = g->mask = 0;
    memcpy(&g->head, text.p, head_n);
    memset(&g->mask, 0xFF, head_n);
}

/* Is c in the `[...]` at p->p? Moves p past it; a class without an end ends with the pattern, as in Redis. */
static bool class_has(struct slice *p, char c)
{
    size_t i = 1;
    bool inverted = i < p->n && p->p[i] == '^', found = false;
    if (inverted) i++;
    for (; i < p->n && p->p[i] != ']'; i++) {
        if (p->p[i] == '\\' && i + 1 < p->n) {
            found |= p->p[++i] == c;
        } else if (i + 2 < p->n && p->p[i + 1] == '-') {
            unsigned char from = (unsigned char)p->p[i], to = (unsigned char)p->p[i + 2],
                          at = (unsigned char)c;
            found |= from <= to ? at >= from && at <= to : at >= to && at <= from;
            i += 2;
        } else {
            found |= p->p[i] == c;
        }
    }
    if (i < p->n) i++;
    *p = slice_of(p->p + i, p->n - i);
    return found != inverted;
}

/* The first sign of pattern (no star) takes the byte c; moves pattern past it. */
static bool one_takes(struct slice *pattern, char c)
{
    struct slice p = *pattern;
    if (p.p[0] == '[') return class_has(pattern, c);
    size_t n = p.p[0] == '\\' && p.n >= 2 ? 2 : 1;
    *pattern = slice_of(p.p + n, p.n - n);
    return p.p[0] == '?' || p.p[n - 1] == c;
}

bool glob_match_rest(struct slice pattern, struct slice text)
{
    struct slice after_star = {NULL, 0}, retry = {NULL, 0};
    while (text.n > 0) {
        if (pattern.n > 0 && pattern.p[0] == '*') {
            pattern = after_star = slice_of(pattern.p + 1, pattern.n - 1);
            retry = text;
        } else if (pattern.n > 0 && one_takes(&pattern, text.p[0])) {
            text = slice_of(text.p + 1, text.n - 1);
        } else if (after_star.p != NULL) { /* the star takes one byte more */
            pattern = after_star;
            text = retry = slice_of(retry.p + 1, retry.n - 1);
        } else {
            return false;
        }
    }
    while (pattern.n > 0 && pattern.p[0] == '*')
        pattern = slice_of(pattern.p + 1, pattern.n - 1);
    return pattern.n == 0;
}
