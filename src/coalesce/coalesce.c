/* coalesce/coalesce.c - takes hits and other replies, in the order of arrival. */
#include "coalesce/coalesce.h"
#include "base/heap.h"
#include "base/stats.h"
#include "coalesce/inside.h"
#include <stdio.h>

#define BUSY_ALIKE_MS 1000

#ifdef TALLYD_RULES
uint32_t coalesce_rules_off;
#endif

/* No option changes the frame's own limits: 1,000 cells take about 1 ms of Redis, and other clients wait for it. With
 * more than 65,536 answers tallyd reads no more requests until the frame is sent. */
const struct coalesce_config coalesce_config_default = {
    .cells_max = 1000,
    .at_once_cells = 100,
    .gather_turns = 10,
    .gather_answers = 1000,
    .hit_max = DELTA_MAX,
    .answers_max = 65536,
    .bytes_max = 4 << 20,
    .entries_max = 1000000,
    .series_max = 1 << 18,
    .lease_first = 32,
    .lease_most = 1000,
    .journal_least = 16,
    .journal_ms = 500,
    .journal_ops_max = 1 << 18,
    .journal_bytes_max = 16 << 20,
    .checkpoint_lines = 600,
    .doubt_ms = 5000,
    .busy_ms = 5000,
    .replay_bytes = 64 << 20,
};

static const struct sm_state link_states[] = {
    [LINK_DOWN] = {"down", TO(LINK_KILL) | TO(LINK_LOOK)},
    [LINK_KILL] = {"kill", TO(LINK_DOWN) | TO(LINK_LOOK) | TO_UNRULED(LINK_READY)},
    [LINK_LOOK] = {"look", TO(LINK_DOWN) | TO(LINK_READY) | TO_UNRULED(LINK_KILL)},
    [LINK_READY] = {"ready", TO(LINK_DOWN)},
};

struct coalesce *coalesce_create(const struct coalesce_ports *ports, const struct counters *counters,
                                 const struct coalesce_config *config)
{
    struct coalesce *c = heap_zalloc(sizeof *c);
    c->ports = *ports;
    c->config = *config;
    c->counters = counters;
    for (size_t i = 0; i < counters->n; i++)
        c->feeds |= counter_feeds_any(&counters->all[i]);
    PRE(!c->feeds || counters->ops != NULL);
    known_init(&c->known, config->series_max);
    leases_init(&c->leases, config->series_max, config->lease_first, config->lease_most);
    known_init(&c->buckets, config->series_max);
    hash_cache_init(&c->hash_cache, config->entries_max);
    for (int i = 0; i < GROUPS; i++)
        group_init(&c->groups[i], config->cells_max);
    c->now = &c->groups[0];
    group_reuse(c->now, coalesce_epoch(c));
    list_init(&c->claims);
    list_init(&c->refused);
    list_init(&c->parked);
    list_init(&c->journals);
    list_init(&c->settles);
    c->homed = config->checkpoint_lines / 8 + 1; /* until one was measured */
    replay_init(c);
    sm_init(&c->link, link_states, LINK_DOWN);
    coalesce_down(c, "MASTERDOWN Redis is not connected yet");
    return c;
}

void coalesce_destroy(struct coalesce **c)
{
    if (*c == NULL) return;
    for (int i = 0; i < GROUPS; i++)
        group_close(&(*c)->groups[i]);
    hash_cache_close(&(*c)->hash_cache);
    buf_free(&(*c)->raw);
    buf_free(&(*c)->owed_names);
    known_close(&(*c)->known);
    leases_close(&(*c)->leases);
    journals_destroy(*c);
    replay_destroy(*c);
    heap_free((*c)->ops_owed);
    known_close(&(*c)->buckets);
    heap_free((*c)->owed);
    heap_free(*c);
    *c = NULL;
}

void coalesce_down(struct coalesce *c, const char *why)
{
    snprintf(c->down_why, sizeof c->down_why, "%s", why);
    snprintf(c->down_text, sizeof c->down_text, "%s; nothing was counted", c->down_why);
}

const char *coalesce_down_why(const struct coalesce *c)
{
    return c->down_why;
}

const char *coalesce_down_text(const struct coalesce *c)
{
    return c->down_text;
}

uint64_t coalesce_name_code(const struct coalesce *c, enum op_kind kind, struct slice name, struct slice type)
{
    const uint64_t parts[] = {hash_cache_code(&c->hash_cache, name),
                              kind == OP_EVENT ? hash_cache_code(&c->hash_cache, type) : 0, kind};
    return hash_cache_code(&c->hash_cache, slice_of((const char *)parts, sizeof parts));
}

uint64_t coalesce_op_code(const struct coalesce *c, uint64_t name_code, int64_t at, bool fed)
{
    const uint64_t parts[] = {name_code, (uint64_t)at, fed};
    return hash_cache_code(&c->hash_cache, slice_of((const char *)parts, sizeof parts));
}

__attribute__((noinline, cold)) static struct hash_entry *entry_add(struct coalesce *c, struct slice key,
                                                                    uint64_t code)
{
    const struct counter *counter = counters_match(c->counters, key);
    return counter == NULL ? NULL : hash_cache_add(&c->hash_cache, key, code, counter);
}

struct hash_entry *coalesce_entry(struct coalesce *c, struct slice key)
{
    uint64_t code = hash_cache_code(&c->hash_cache, key);
    struct hash_entry *e = hash_cache_find(&c->hash_cache, key, code);
    return e != NULL ? e : entry_add(c, key, code);
}

const struct counter *coalesce_counter(struct coalesce *c, struct slice key)
{
    const struct hash_entry *e = coalesce_entry(c, key);
    return e == NULL ? NULL : e->counter;
}

int64_t coalesce_hit_max(const struct coalesce *c)
{
    return c->config.hit_max;
}

/* Who was told -BUSY waits anew the next time, but for the rest of that pipeline. */
enum add_result coalesce_full(const struct coalesce *c, struct outlet *o)
{
    uint64_t waited_ms = o->parked_ms == 0 ? 0 : c->ports.mono_ms(c->ports.arg) - o->parked_ms;
    if (waited_ms < c->config.busy_ms) return ADD_FULL;
    if (waited_ms < c->config.busy_ms + BUSY_ALIKE_MS) return ADD_BUSY;
    o->parked_ms = 0;
    return ADD_FULL;
}

enum add_result coalesce_down_or_held(const struct coalesce *c, struct outlet *o)
{
    if (c->held) return coalesce_full(c, o);
    o->parked_ms = 0;
    return ADD_DOWN;
}

void coalesce_look(struct coalesce *c, struct coalesce_hit *h)
{
    h->code = hash_cache_code(&c->hash_cache, h->bytes.key);
    hash_cache_prefetch(&c->hash_cache, h->code);
}

uint64_t coalesce_code(const struct coalesce *c, struct slice key)
{
    return hash_cache_code(&c->hash_cache, key);
}

void coalesce_look_coded(struct coalesce *c, const struct coalesce_hit *h)
{
    hash_cache_prefetch(&c->hash_cache, h->code);
}

void coalesce_codes_as(struct coalesce *c, const struct coalesce *other)
{
    PRE(c->hash_cache.n == 0);
    c->hash_cache.seed = other->hash_cache.seed;
}

void coalesce_look_again(struct coalesce *c, const struct coalesce_hit *h)
{
    hash_cache_prefetch_entry(&c->hash_cache, h->code);
}

/* Nearly all hits of a day have that day's date. */
static bool field_fits(struct coalesce *c, const struct counter *counter, struct slice field)
{
    if (counter->field != FIELD_DATE || counter->spelled.spelling != SPELLED_DIGITS)
        return counter_field_valid(counter, field);
    if (slice_eq(field, slice_of(c->date, sizeof c->date))) return true;
    if (!field_valid(FIELD_DATE, field)) return false;
    memcpy(c->date, field.p, sizeof c->date);
    return true;
}

/* The first hit of its key and field in this frame. */
static enum add_result take_new(struct coalesce *c, struct outlet *o, const struct coalesce_hit *h,
                                struct hash_entry *e, uint64_t field_code, uint32_t *cell)
{
    struct group *g = c->now;
    if (!coalesce_delta_fits(c, h->bytes.delta)) return ADD_DELTA;
    if (!field_fits(c, e->counter, h->bytes.field)) return ADD_FIELD;
    if (sm_now(&c->link) != LINK_READY) return coalesce_down_or_held(c, o);
    if (coalesce_answers_full(c, h->bytes.raw.n) || group_cells(g) >= c->config.cells_max)
        return coalesce_full(c, o);
    *cell = group_add_cell(g, e, h->bytes.raw, h->bytes.field, field_code, h->bytes.delta);
    g->frame.cells[*cell].hit_is_event = c->feeds && counter_feeds(e->counter, FEED_EVENT);
    if (c->feeds && !c->transaction && counter_feeds_any(e->counter)) g->op_quarters += checkpoint_price(c);
    return ADD_OK;
}

/* A frame gets cells only while the link is ready. A further hit on a cell costs Redis nothing, except for its
 * event. */
static enum add_result take_more(struct coalesce *c, struct outlet *o, const struct coalesce_hit *h,
                                 struct frame_cell *cell)
{
    if (!coalesce_delta_fits(c, h->bytes.delta)) return ADD_DELTA;
    if (coalesce_answers_full(c, 0)) return coalesce_full(c, o);
    if (cell->hit_is_event) {
        if (group_cells(c->now) >= c->config.cells_max) return coalesce_full(c, o);
        c->now->op_quarters++;
    }
    cell->delta += h->bytes.delta;
    cell->hits++;
    return ADD_OK;
}

static inline struct hash_entry *entry_of(struct coalesce *c, const struct coalesce_hit *h)
{
    struct hash_entry *e = hash_cache_find(&c->hash_cache, h->bytes.key, h->code);
    return e != NULL ? e : entry_add(c, h->bytes.key, h->code);
}

/* h with key and field as a frame sends them, as long as nothing else is made so. */
static struct coalesce_hit whole(struct coalesce *c, const struct coalesce_hit *h)
{
    struct coalesce_hit made = *h;
    struct slice head = h->bytes.raw, field = h->bytes.field;
    buf_reset(&c->raw);
    buf_reserve(&c->raw, head.n + h->bytes.key.n + field.n + 64);
    if (head.n > 0)
        buf_put_slice(&c->raw, head);
    else
        put_bulk(&c->raw, h->bytes.key);
    if (field.n == 8) /* nearly always */
        BUF_LIT(&c->raw, "$8\r\n"), buf_put_slice(&c->raw, field), BUF_LIT(&c->raw, "\r\n");
    else
        put_bulk(&c->raw, field);
    made.bytes.raw = buf_slice(&c->raw);
    made.bytes.field.p = c->raw.p + c->raw.n - 2 - field.n;
    return made;
}

static inline __attribute__((always_inline)) enum add_result
take(struct coalesce *c, struct outlet *o, const struct coalesce_hit *h, struct hash_entry *e, bool is_whole)
{
    struct group *g = c->now;
    struct coalesce_hit made;
    uint64_t field_code;
    uint32_t cell = group_find(g, e, h->bytes.field, &field_code);
    if (!is_whole && cell == GROUP_NO_CELL) made = whole(c, h), h = &made;
    enum add_result got = cell == GROUP_NO_CELL ? take_new(c, o, h, e, field_code, &cell)
                                                : take_more(c, o, h, &g->frame.cells[cell]);
    if (got != ADD_OK) return got;
    g->weight += (uint64_t)llabs(h->bytes.delta);
    o->parked_ms = 0;
    coalesce_came(c);
    group_expect(g, o, cell, g->frame.cells[cell].delta);
    return ADD_OK;
}

enum add_result coalesce_take(struct coalesce *c, struct outlet *o, const struct coalesce_hit *h)
{
    struct hash_entry *e = entry_of(c, h);
    return e == NULL ? ADD_NO_COUNTER : take(c, o, h, e, true);
}

enum add_result coalesce_take_today(struct coalesce *c, struct outlet *o, struct coalesce_hit *h,
                                    struct zone_view *v, int64_t at_s)
{
    struct hash_entry *e = entry_of(c, h);
    if (e == NULL) return ADD_NO_COUNTER;
    size_t digits = field_digits(e->counter->field);
    if (digits == 0 || e->counter->spelled.spelling != SPELLED_DIGITS) return ADD_FIELD;
    if (e->zone_version != (uint32_t)v->version) {
        e->zone = zone_view_of(v, counter_store(e->counter, h->bytes.key));
        e->zone_version = (uint32_t)v->version;
    }
    h->bytes.field = slice_of(zone_view_hour(v, e->zone, at_s).p, digits);
    h->bytes.delta = 1;
    return take(c, o, h, e, false);
}

enum add_result coalesce_add(struct coalesce *c, struct outlet *o, struct slice key, struct slice field,
                             int64_t delta)
{
    struct coalesce_hit h = {.bytes = {.key = key, .field = field, .delta = delta}};
    coalesce_look(c, &h);
    struct hash_entry *e = entry_of(c, &h);
    return e == NULL ? ADD_NO_COUNTER : take(c, o, &h, e, false);
}

enum add_result coalesce_try(struct coalesce *c, struct slice key, struct slice field, int64_t delta)
{
    const struct counter *counter = coalesce_counter(c, key);
    if (counter == NULL) return ADD_NO_COUNTER;
    if (!counter_field_valid(counter, field)) return ADD_FIELD;
    return coalesce_delta_fits(c, delta) ? ADD_OK : ADD_DELTA;
}

bool coalesce_room(struct coalesce *c, uint32_t cells, size_t bytes, bool *never)
{
    const struct group *g = c->now;
    *never = cells > c->config.cells_max || bytes > c->config.bytes_max;
    if (c->held && sm_now(&c->link) != LINK_READY) return false; /* only for hits on its cells */
    return g->weight <= WEIGHT_MAX - COALESCE_ROOM_WEIGHT && group_cells(g) + cells <= c->config.cells_max &&
           g->answers_n + cells < c->config.answers_max &&
           g->frame.bytes.n + g->literals.n + bytes <= c->config.bytes_max;
}

void coalesce_transaction(struct coalesce *c, bool begins)
{
    PRE(c->transaction != begins);
    c->transaction = begins;
}

enum add_result coalesce_literal(struct coalesce *c, struct outlet *o, struct slice bytes)
{
    PRE(o->waiting > 0);
    if (coalesce_answers_full(c, bytes.n)) return ADD_FULL;
    group_expect_literal(c->now, o, bytes);
    return ADD_OK;
}

void coalesce_hush(struct coalesce *c, struct outlet *o, uint32_t n)
{
    PRE(n <= o->waiting);
    if (n > 0) group_hush(c->now, o, n);
}

void coalesce_park(struct coalesce *c, struct outlet *o)
{
    if (o->parked_ms == 0) o->parked_ms = c->ports.mono_ms(c->ports.arg);
    if (!list_linked(&o->parked)) list_push(&c->parked, &o->parked);
}

void coalesce_unpark(struct coalesce *c, struct outlet *o)
{
    (void)c;
    if (list_linked(&o->parked)) list_remove(&o->parked);
}

/* Clients that still find no room park again. When the group is full, or nothing new is sent, the others keep their
 * place. */
static void parked_go_on(struct coalesce *c)
{
    struct list waiting;
    list_init(&waiting);
    list_move_all(&waiting, &c->parked);
    bool link_ready = sm_now(&c->link) == LINK_READY;
    while (!list_empty(&waiting)) {
        bool is_full = coalesce_answers_full(c, 0) || group_cells(c->now) >= c->config.cells_max;
        if (link_ready && (is_full || !coalesce_caught_up(c))) break;
        struct outlet *o = CONTAINER_OF(list_pop(&waiting), struct outlet, parked);
        c->ports.room(c->ports.arg, o);
    }
    while (!list_empty(&c->parked))
        list_push(&waiting, list_pop(&c->parked));
    list_move_all(&c->parked, &waiting);
}

/* Corrections and owed ZADDs have no client that a refusal would slow down: after one they wait a while. */
static bool side_to_send(const struct coalesce *c)
{
    if (c->now->frame.shares_n == 0 && !coalesce_owes(c) && !checkpoint_waits(c)) return false;
    return c->ports.mono_ms(c->ports.arg) >= c->side_at_ms;
}

bool coalesce_send_next(struct coalesce *c)
{
    if (!coalesce_caught_up(c) || c->held || c->flight_n >= flight_depth()) return false;
    if (!group_works(c->now) && !side_to_send(c)) return false;
    flight_send(c, c->now);
    return true;
}

/* Clients that were answered together send their next requests one by one. A frame for the first of them alone would
 * make the others wait for it, and would cost Redis and tallyd as much as one for all. */
static bool gathers(struct coalesce *c)
{
    const struct group *g = c->now;
    bool grew = g->answers_n > c->gathered_n;
    c->gathered_n = g->answers_n;
    bool is_small =
        group_works(g) && group_size(g) < c->config.at_once_cells && g->answers_n < c->config.gather_answers;
    bool may_send = c->flight_n == 0 && !c->held && coalesce_caught_up(c);
    if (grew && is_small && may_send && c->gathered_turns < c->config.gather_turns) {
        c->gathered_turns++;
        return true;
    }
    c->gathered_n = c->gathered_turns = 0;
    return false;
}

bool coalesce_turn(struct coalesce *c)
{
    claims_refuse_all(c);
    flight_turn_ends(c);
    const struct group *g = c->now;
    c->turn_s = 0;
    replay_turn(c);
    if (gathers(c)) return true;
    if (!coalesce_send_next(c) && !group_works(g) && g->answers_n > 0 && !flight_answers_out(c)) {
        struct list touched;
        list_init(&touched);
        group_answer(c->now, &touched);
        buf_reset(&c->now->literals);
        flight_touch(c, &touched);
    }
    if (!list_empty(&c->parked)) parked_go_on(c);
    c->turn_s = 0;
    return false;
}

void coalesce_hold(struct coalesce *c, bool hold)
{
    int link = sm_now(&c->link);
    c->releases = !hold && (link == LINK_KILL || link == LINK_LOOK);
    c->held = hold || c->releases;
    if (!c->held && link == LINK_DOWN) doubt_fail_collected(c);
}

uint64_t coalesce_frame(const struct coalesce *c)
{
    return c->now->epoch;
}

bool coalesce_collects(const struct coalesce *c)
{
    return group_works(c->now);
}

uint64_t coalesce_hits(const struct coalesce *c)
{
    return c->hits;
}

bool coalesce_caught_up(const struct coalesce *c)
{
    return sm_now(&c->link) == LINK_READY && c->replay.next == NULL;
}

bool coalesce_idle(const struct coalesce *c)
{
    return c->replay.next == NULL && group_empty(c->now) && c->flight_n == 0 && !coalesce_owes(c) &&
           list_empty(&c->journals) && list_empty(&c->claims) && list_empty(&c->refused);
}
