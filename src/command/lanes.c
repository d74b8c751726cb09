/* command/lanes.c - which lane a request is of, when there are several, and what a session does at each.
 *
 * A hit's lane is that of its key's store. Matching patterns costs more than the rest of a hit, so the lane is
 * remembered by the key's code, which all lanes' caches of hashes share. */
#include "base/clock.h"
#include "base/heap.h"
#include "command/inside.h"
#include "protocol/request.h"
#include "series/moved.h"
#include "series/names.h"

/* An entry is the code of a key with the lane in its last byte; the entry's place says what that byte was. Where names
 * replace each other often the table grows: 512 KiB at first, at most 8 MiB. (!) Two keys with the same 64 bits (the
 * seed is drawn at the start) are taken for one. With a million names that happens once in 30 million starts; a store's
 * hits then count in another's lane. */
#define CODES_FIRST (1 << 16)
#define CODES_MAX (1 << 20)

static void codes_make(struct codes *t, uint32_t n)
{
    heap_free(t->all);
    *t = (struct codes){.all = heap_alloc(n * sizeof *t->all), .mask = n - 1};
    for (uint64_t i = 0; i < n; i++)
        t->all[i] = ~i & 0xff00; /* no code that leads here */
}

void lanes_init(struct command *c)
{
    const struct command_config *config = &c->config;
    PRE(config->lanes_n > 0 && config->lanes_n <= LANES_MAX && config->lanes[0] != NULL);
    if (config->lanes_n == 1) return;
    codes_make(&c->codes, CODES_FIRST);
    for (uint32_t i = 1; i < config->lanes_n; i++)
        coalesce_codes_as(config->lanes[i], config->lanes[0]);
}

__attribute__((noinline, cold)) static uint32_t lane_match(struct command *c, struct slice key, uint64_t code)
{
    struct codes *t = &c->codes;
    uint32_t lane = lane_of_key(c->config.counters, key, c->config.lanes_n);
    if (++t->missed > 2 * (t->mask + 1) && t->mask + 1 < CODES_MAX) codes_make(t, 2 * (t->mask + 1));
    t->all[code & t->mask] = (code & ~UINT64_C(0xff)) | lane;
    return lane;
}

static inline uint32_t lane_find(struct command *c, struct slice key, uint64_t code)
{
    uint64_t known = c->codes.all[code & c->codes.mask];
    return (known ^ code) >> 8 == 0 ? (uint32_t)(known & 0xff) : lane_match(c, key, code);
}

struct coalesce *lane_enter(struct session *s, uint32_t lane)
{
    const struct command_config *config = &s->command->config;
    s->lane = lane;
    if (config->lanes_n > 1 && s->order == NULL) s->order = order_create(s, config->lanes_n);
    return config->lanes[lane];
}

struct coalesce *lane_of_hit(struct session *s, struct slice key)
{
    const struct command_config *config = &s->command->config;
    if (config->lanes_n == 1) return config->lanes[0];
    return lane_enter(s, lane_find(s->command, key, coalesce_code(config->lanes[0], key)));
}

struct coalesce *lane_of_op(struct session *s, enum op_kind kind, struct slice name)
{
    const struct command_config *config = &s->command->config;
    if (config->lanes_n == 1) return config->lanes[0];
    return lane_enter(s, lane_of_name(config->counters, kind, name, config->lanes_n));
}

struct outlet *command_outlet(const struct command *c, struct outlet *o)
{
    return c->config.lanes_n == 1 ? o : CONTAINER_OF(o, struct way, outlet)->session->outlet;
}

void lanes_leave(struct session *s)
{
    const struct command_config *config = &s->command->config;
    if (s->order == NULL) {
        coalesce_unpark(config->lanes[0], s->outlet);
        return;
    }
    for (uint32_t i = 0; i < config->lanes_n; i++)
        coalesce_unpark(config->lanes[i], &s->order->ways[i].outlet);
    if (order_gone(s->order, s->outlet)) s->order = NULL;
}

/* ---- hits ---- */

struct ahead_lanes {
    struct coalesce_hit hits[AHEAD];
    size_t ends[AHEAD];
    uint16_t lanes[AHEAD];
    uint32_t n;
};

static inline void ahead_lanes_read(struct session *s, struct slice in, uint32_t most, bool today,
                                    struct ahead_lanes *a)
{
    struct command *c = s->command;
    struct coalesce *const *lanes = c->config.lanes;
    const struct user *user = s->user;
    size_t used = 0;
    uint32_t n;
    for (n = 0; n < most && used < in.n; n++) {
        struct coalesce_hit *hit = &a->hits[n];
        struct slice rest = slice_of(in.p + used, in.n - used);
        size_t bytes = today ? request_today(rest, &hit->bytes) : request_hit(rest, &hit->bytes);
        if (bytes == 0 || (user != NULL && !user_names(user, hit->bytes.key))) break;
        hit->code = coalesce_code(lanes[0], hit->bytes.key);
        uint32_t lane = lane_find(c, hit->bytes.key, hit->code);
        coalesce_look_coded(lanes[lane], hit);
        a->lanes[n] = (uint16_t)lane;
        a->ends[n] = used += bytes;
    }
    a->n = n;
}

static inline uint32_t ahead_lanes_take(struct session *s, bool today, struct ahead_lanes *a)
{
    struct zone_view *zones = s->command->config.zones;
    int64_t second = today ? hit_second(s) : 0;
    struct coalesce *const *lanes = s->command->config.lanes;
    struct order *o = s->order;
    uint32_t i, n = a->n;
    for (i = 0; i < n && n > 1; i++)
        coalesce_look_again(lanes[a->lanes[i]], &a->hits[i]);
    for (i = 0; i < n; i++) {
        struct coalesce *lane = lanes[a->lanes[i]];
        struct outlet *outlet = &o->ways[a->lanes[i]].outlet;
        if ((today ? coalesce_take_today(lane, outlet, &a->hits[i], zones, second)
                   : coalesce_take(lane, outlet, &a->hits[i])) != ADD_OK)
            break;
    }
    order_expect(o, a->lanes, i);
    s->outlet->waiting += i;
    return i;
}

static inline __attribute__((always_inline)) size_t ahead_lanes(struct session *s, struct slice in,
                                                                uint32_t room, bool today)
{
    struct ahead_lanes a;
    size_t used = 0;
    uint32_t n;
    if (s->order == NULL) s->order = order_create(s, s->command->config.lanes_n);
    do {
        ahead_lanes_read(s, slice_of(in.p + used, in.n - used), room < AHEAD ? room : AHEAD, today, &a);
        n = ahead_lanes_take(s, today, &a);
        used += n > 0 ? a.ends[n - 1] : 0;
        room -= n;
    } while (n == AHEAD);
    return used;
}

__attribute__((flatten)) size_t hits_take_lanes(struct session *s, struct slice in, uint32_t room)
{
    return ahead_lanes(s, in, room, false);
}

__attribute__((flatten)) size_t todays_take_lanes(struct session *s, struct slice in, uint32_t room)
{
    zone_view_refresh(s->command->config.zones);
    return ahead_lanes(s, in, room, true);
}

/* ---- a frame of any lane ---- */

uint64_t lanes_frame(const struct command *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->config.lanes_n; i++)
        sum += coalesce_frame(c->config.lanes[i]);
    return sum;
}

bool lanes_collect(const struct command *c)
{
    bool any = false;
    for (uint32_t i = 0; i < c->config.lanes_n; i++)
        any |= coalesce_collects(c->config.lanes[i]);
    return any;
}
