/* world.h - coalesce's surroundings for its tests: a link that records what is sent, a Redis of a few rows
 * behind it, and clients that are single letters. Nothing is answered from inside a call: the test says when.
 * Header only: each test has one of its own.
 *
 * `did` is what came out of coalesce, in order: F frame, C claim, K kill, L look, V values, ! fatal, ~key
 * due by time, ^key due by its hits, J journals are lost; and a client's letter: lower case for an answer, upper case for room. */
#ifndef COALESCE_WORLD_H
#define COALESCE_WORLD_H

#include "lib/unit.h"

#include "base/heap.h"
#include "base/slice.h"
#include "base/stats.h"
#include "coalesce/coalesce.h"
#include "series/batches.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define WHY "MASTERDOWN gone"
#define REFUSED "-" WHY "; nothing was counted"
#define UNKNOWN                                                                                              \
    "-ERR outcome unknown: the link to Redis was lost before its answer; the increment may or may not have " \
    "been counted\r\n"
#define LOST                                                                                                 \
    "-ERR counted, but the answer was lost with the link to Redis, as an error would be: a key of another "  \
    "type, an id that is refused\r\n"
#define NOW INT64_C(1700000000) /* Redis' second */
#define RUN_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RUN_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct client {
    struct outlet o;
    char letter;
    bool greedy; /* told of room it takes some and parks again */
};

struct row {       /* one field in the test's Redis */
    char name[80]; /* key, blank, field */
    int64_t value;
};

struct kept_journal { /* in the test's Redis, as tally:journal: and tally:journals have it */
    char name[64];    /* empty: free */
    bool listed;
    struct buf bytes;
};

struct kept_token { /* in the test's Redis; text: as redis/ writes it */
    char name[80], text[64];
};

struct world {
    struct coalesce *c;
    uint64_t mono_ms;
    int64_t redis_ms;
    struct frame *frame, *values; /* asked, not answered */
    struct claim *claims[8];
    uint32_t claims_n, looked, journals_looked;
    char journals_asked[8][64]; /* for each of those looked for, its name */
    struct kept_journal journals[8];
    struct kept_token tokens[16];
    uint32_t tokens_n;
    bool others; /* have taken over our journals */
    int64_t killed;
    char did[4096];
    struct row rows[256];
    uint32_t rows_n;
    int64_t accepted;        /* of all counters */
    int64_t ticker;          /* of all events */
    int64_t gone;            /* tally:events:gone; -1: another program's key */
    uint64_t given;          /* events whose ids were known before */
    int64_t given_sum;       /* of those ids */
    int64_t seq;             /* -1: no key */
    bool grants;             /* SET NX says OK */
    bool keeps;              /* frames have something that could be sent again */
    struct kept_frame *kept; /* sent again, no answer yet */
    struct fence *fence;     /* asked for, no answer yet */
    unsigned caught_up;
    int64_t pttl_ms;
    struct client clients[26];
    uint64_t allocations;
};

static struct world *world; /* of the test that runs */

static const struct counter counters_all[] = {
    {.name = {"visitors", 8},
     .key = {{"s", 1}, {":v", 2}, true, NULL},
     .lock = {{"s", 1}, {":sync", 5}, true, NULL},
     .field = FIELD_DATE,
     .hits = 50,
     .every_s = 60},
    {.name = {"views", 5},
     .key = {{"p", 1}, {"", 0}, true, NULL},
     .lock = {{"lock:", 5}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = INT64_MAX,
     .every_s = 10},
};
static const struct op_limits limits_two = {
    .precisions = {1, 60},
    .precisions_n = 2,
    .samples = 100,
    .timebox_width_s = 60,
    .timebox_keep = 4,
    .uniq_limit = 1000,
    .uniq_name = {{"v", 1}, {"", 0}, true, NULL},
    .uniq_counter = &counters_all[0],
};
static const struct counters counters_two = {
    .all = (struct counter *)counters_all, .n = 2, .ops = &limits_two};

static inline void world_did(const char *fmt, ...)
{
    size_t n = strlen(world->did);
    va_list args;
    va_start(args, fmt);
    vsnprintf(world->did + n, sizeof world->did - n, fmt, args);
    va_end(args);
}

/* What happened since the last call. */
static inline void assert_did(const char *want)
{
    assert_string_equal(world->did, want);
    world->did[0] = '\0';
}

static inline void forget_did(void)
{
    world->did[0] = '\0';
}

/* --- ports --- */

static inline void port_send_frame(void *arg, struct frame *f)
{
    assert_null(world->frame);
    world->frame = f;
    if (world->keeps) buf_put(&f->again, "x", 1);
    world_did("F");
}
static inline void port_caught_up(void *arg)
{
    world->caught_up++;
}
static inline void port_send_kept(void *arg, struct kept_frame *k)
{
    world->kept = k;
    world_did("R");
}
static inline void port_fence(void *arg, struct fence *f)
{
    assert_null(world->fence);
    world->fence = f;
}
static inline void port_send_claim(void *arg, struct claim *claim)
{
    world->claims[world->claims_n++] = claim;
    world_did("C");
}
static inline void port_kill(void *arg, int64_t id)
{
    world->killed = id;
    world_did("K");
}
static inline void port_look(void *arg, const struct link_look *l)
{
    assert_int_equal(l->claims_n, world->claims_n);
    for (uint32_t i = 0; i < l->claims_n; i++)
        assert_ptr_equal(l->claims[i], world->claims[i]);
    world->looked = l->claims_n;
    world->journals_looked = l->journals_n;
    assert_true(l->journals_n <= 8);
    for (uint32_t i = 0; i < l->journals_n; i++)
        snprintf(world->journals_asked[i], 64, SLICE_FMT, SLICE_ARG(l->journals[i]));
    world_did("L");
}
static inline void port_journals_lost(void *arg)
{
    world_did("J");
}
static inline void port_values(void *arg, struct frame *f)
{
    world->values = f;
    world_did("V");
}
static inline void port_due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    world_did("%c" SLICE_FMT " ", why == DUE_HITS ? '^' : '~', SLICE_ARG(key));
}
static inline void port_fatal(void *arg, const char *text)
{
    world_did("!");
}
static inline uint64_t port_mono(void *arg)
{
    return world->mono_ms;
}
static inline uint64_t port_mono_us(void *arg)
{
    return world->mono_ms * 1000;
}
static inline int64_t port_redis(void *arg)
{
    return world->redis_ms;
}
static inline void port_answered(void *arg, struct outlet *o)
{
    world_did("%c", CONTAINER_OF(o, struct client, o)->letter);
}
static inline void port_room(void *arg, struct outlet *o);

static const struct life world_life = {.instance = {"unit", 4}, .id = "0123456789abcdef"};

static const struct coalesce_ports world_ports = {
    .life = &world_life,
    .journals_lost = port_journals_lost,
    .send_frame = port_send_frame,
    .send_claim = port_send_claim,
    .send_kept = port_send_kept,
    .fence = port_fence,
    .caught_up = port_caught_up,
    .kill = port_kill,
    .look = port_look,
    .read_values = port_values,
    .due = port_due,
    .answered = port_answered,
    .room = port_room,
    .fatal = port_fatal,
    .mono_ms = port_mono,
    .mono_us = port_mono_us,
    .redis_ms = port_redis,
};

/* --- clients --- */

static inline struct client *client(char letter)
{
    return &world->clients[letter - 'a'];
}

static inline enum add_result hit(char letter, const char *key, const char *field, int64_t delta)
{
    return coalesce_add(world->c, &client(letter)->o, slice_str(key), slice_str(field), delta);
}

static inline enum add_result op(char letter, const struct coalesce_op *o)
{
    return coalesce_op(world->c, &client(letter)->o, o);
}

static inline void series(char letter, const char *name, int64_t n, int64_t at)
{
    struct coalesce_op o = {.kind = OP_SERIES, .name = slice_str(name), .n = n, .at = at};
    assert_int_equal(op(letter, &o), ADD_OK);
}

static inline void box(char letter, const char *name, int64_t n, int64_t at)
{
    struct coalesce_op o = {.kind = OP_TIMEBOX, .name = slice_str(name), .n = n, .at = at};
    assert_int_equal(op(letter, &o), ADD_OK);
}

#define HIT(letter, key, field, delta) assert_int_equal(hit(letter, key, field, delta), ADD_OK)

static inline enum add_result literal(char letter, const char *text)
{
    return coalesce_literal(world->c, &client(letter)->o, slice_str(text));
}

static inline void port_room(void *arg, struct outlet *o)
{
    struct client *k = CONTAINER_OF(o, struct client, o);
    world_did("%c", toupper(k->letter));
    if (!k->greedy) return;
    char field[24];
    snprintf(field, sizeof field, "%u", k->o.waiting + 1000 * (unsigned)k->letter);
    enum add_result got = hit(k->letter, "p1", field, 1);
    if (got == ADD_FULL) coalesce_park(world->c, o);
    if (got == ADD_BUSY) world_did("-");
}

/* The client was told exactly this since the last call. */
static inline void assert_told(char letter, const char *want)
{
    struct buf *out = &client(letter)->o.out;
    buf_put_char(out, '\0');
    assert_string_equal(out->p, want);
    buf_reset(out);
}

/* --- the test's Redis --- */

static inline struct row *row_of(struct slice key, struct slice field)
{
    char name[80];
    snprintf(name, sizeof name, SLICE_FMT " " SLICE_FMT, SLICE_ARG(key), SLICE_ARG(field));
    for (uint32_t i = 0; i < world->rows_n; i++)
        if (strcmp(world->rows[i].name, name) == 0) return &world->rows[i];
    assert_true(world->rows_n < 256);
    struct row *r = &world->rows[world->rows_n++];
    memcpy(r->name, name, sizeof name);
    r->value = 0;
    return r;
}

static inline int64_t row(const char *key, const char *field)
{
    return row_of(slice_str(key), slice_str(field))->value;
}

static inline void series_runs(struct frame *f, struct frame_op *op)
{
    op->value = 0;
    for (uint32_t i = 0; i < limits_two.precisions_n; i++) {
        if (!op_keeps(&limits_two, i, op->which, f->dirty_ms / 1000)) continue;
        char slot[64];
        snprintf(slot, sizeof slot, "%u:%lld", limits_two.precisions[i],
                 (long long)op_slot(op->which, limits_two.precisions[i]));
        struct row *r = row_of(FRAME_NAME(f, op), slice_str(slot));
        r->value += op->delta;
        if (r->value == op->delta && (op->known >> i & 1) == 0) op->fresh = true;
        op->value++;
    }
}

static inline void box_runs(struct frame *f, struct frame_op *op)
{
    char bucket[24], time[32];
    snprintf(bucket, sizeof bucket, "%lld", (long long)op->which);
    snprintf(time, sizeof time, "tb %lld", (long long)op->which);
    op->late =
        !op->stands && op->which < f->dirty_ms / 1000 - limits_two.timebox_width_s * limits_two.timebox_keep;
    if (op->late) return;
    struct row *hits = row_of(FRAME_NAME(f, op), slice_str(bucket));
    op->value = hits->value += op->delta;
    if (op->stands)
        op->fresh = op->value == op->delta;
    else if (!op->owed || hits->value != 0)
        row_of(FRAME_NAME(f, op), slice_str(time))->value = op->which;
}

static inline void visitor_runs(struct frame *f, struct frame_op *op, struct op_item *item)
{
    char visitor[64], day[24];
    snprintf(visitor, sizeof visitor, "%lld %lld " SLICE_FMT, (long long)op->which, (long long)item->at,
             SLICE_ARG(FRAME_TEXT(f, item->text_at, item->text_n)));
    snprintf(day, sizeof day, "%lld", (long long)op->which);
    struct row *r = row_of(FRAME_NAME(f, op), slice_str(visitor));
    item->value = r->value++ == 0;
    if (op->counter == NULL || item->value == 0) return;
    row_of(FRAME_TEXT(f, op->key_at, op->key_n), slice_str(day))->value++;
    world->accepted++;
}

static inline void op_runs(struct frame *f, struct frame_op *op)
{
    op->fresh = op->late = false;
    op->error_n = 0;
    if (op->silent) return;
    if (op->kind == OP_SERIES && !op->owed) series_runs(f, op);
    if (op->kind == OP_TIMEBOX) box_runs(f, op);
    if (op->kind == OP_EVENT && op->fed) world->ticker += op->delta;
    bool draws = op->kind == OP_EVENT && !op_is_given(op);
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        struct op_item *item = &f->items[i];
        if (op->kind == OP_UNIQ) visitor_runs(f, op, item);
        if (op->kind == OP_EVENT && op->which == EVENT_GIVEN && !op->owed) {
            world->given++;
            world->given_sum += item->value;
        }
        if (draws) item->value = item->text_n > 0 ? 0 : ++world->ticker;
    }
    if (draws) op->value = world->ticker += op->lease_n;
}

static inline struct kept_journal *journal_of(const char *name) /* NULL: there is no such journal */
{
    for (int i = 0; i < 8; i++)
        if (strcmp(world->journals[i].name, name) == 0) return &world->journals[i];
    return NULL;
}

static inline struct kept_token *token_of(struct slice name) /* NULL: there is no such token */
{
    for (uint32_t i = 0; i < world->tokens_n; i++)
        if (slice_eq(slice_str(world->tokens[i].name), name)) return &world->tokens[i];
    return NULL;
}

static inline void token_runs(struct frame *f, struct frame_token *t)
{
    const struct kept_token *have = token_of(FRAME_NAME(f, t));
    t->is_new = have == NULL;
    if (have != NULL) {
        if (!frame_token_read(t, slice_str(have->text))) frame_fail_token(f, t, SLICE("ERR other payload"));
        return;
    }
    struct kept_token *new = &world->tokens[world->tokens_n++];
    struct row *r = row_of(f->hashes[t->hash].key, FRAME_FIELD(f, t));
    t->value = r->value += t->delta;
    world->accepted += t->delta;
    snprintf(new->name, sizeof new->name, SLICE_FMT, SLICE_ARG(FRAME_NAME(f, t)));
    snprintf(new->text, sizeof new->text, "%.*s:%lld", TOKEN_PAYLOAD, t->payload, (long long)t->value);
}

static inline void append_runs(const struct frame *f, const struct frame_append *a)
{
    char name[64];
    snprintf(name, sizeof name, SLICE_FMT, SLICE_ARG(FRAME_TEXT(f, a->name_at, a->name_n)));
    struct kept_journal *j = journal_of(name);
    if (j == NULL) j = journal_of("");
    assert_non_null(j);
    memcpy(j->name, name, sizeof name);
    j->listed |= a->opens;
    if (a->bytes_n > 0) buf_put(&j->bytes, f->records.p + a->bytes_at, a->bytes_n);
    if (!a->ends) return;
    buf_free(&j->bytes);
    *j = (struct kept_journal){0};
}

/* Redis ran the frame; whether tallyd gets the answer is another matter. */
static inline void redis_runs(struct frame *f)
{
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_cell *c = &f->cells[i];
        struct row *r = row_of(f->hashes[c->hash].key, FRAME_FIELD(f, c));
        r->value += c->delta;
        c->value = r->value;
        if (c->value == c->delta) f->hashes[c->hash].fresh = true;
    }
    for (uint32_t i = 0; i < f->tokens_n; i++)
        token_runs(f, &f->tokens[i]);
    for (uint32_t i = 0; i < f->ops_n; i++)
        op_runs(f, &f->ops[i]);
    for (uint32_t i = 0; i < f->appends_n; i++)
        append_runs(f, &f->appends[i]);
    for (uint32_t i = 0; i < f->shares_n; i++)
        world->accepted += f->shares[i].delta;
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        f->hashes[i].lock_granted = f->hashes[i].ask_lock && world->grants;
        f->hashes[i].lock_pttl_ms = world->pttl_ms;
    }
    f->events_gone = world->gone;
    world->seq = (int64_t)f->seq;
}

static inline void answer_clear(struct frame *f)
{
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->cells_n; i++)
        f->cells[i].error_n = 0;
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        f->tokens[i].error_n = 0;
        f->tokens[i].is_new = false;
    }
    for (uint32_t i = 0; i < f->hashes_n; i++)
        f->hashes[i].fresh = f->hashes[i].lock_granted = false;
}

/* The frame that is out comes back. */
static inline struct frame *frame_back(void)
{
    struct frame *f = world->frame;
    assert_non_null(f);
    world->frame = NULL;
    answer_clear(f);
    return f;
}

/* Redis runs the frame that is out, and says so. */
static inline void frame_applied(void)
{
    struct frame *f = frame_back();
    redis_runs(f);
    coalesce_on_frame(world->c, f, FRAME_APPLIED);
}

/* All its cells of this field fail with this error, the others are applied. */
static inline void frame_applied_but(const char *field, const char *error)
{
    struct frame *f = frame_back();
    redis_runs(f);
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_cell *c = &f->cells[i];
        if (!slice_eq(FRAME_FIELD(f, c), slice_str(field))) continue;
        row_of(f->hashes[c->hash].key, FRAME_FIELD(f, c))->value -= c->delta;
        c->error_at = (uint32_t)f->errors.n;
        c->error_n = (uint32_t)strlen(error);
        buf_put_slice(&f->errors, slice_str(error));
    }
    coalesce_on_frame(world->c, f, FRAME_APPLIED);
}

/* All its ops on this name fail with this error. */
static inline void frame_applied_but_op(const char *name, const char *error)
{
    struct frame *f = frame_back();
    redis_runs(f);
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (slice_eq(FRAME_NAME(f, &f->ops[i]), slice_str(name)))
            frame_fail_op(f, &f->ops[i], slice_str(error));
    coalesce_on_frame(world->c, f, FRAME_APPLIED);
}

/* Its slot is moving to another node of a cluster; the link is cut after it. */
static inline void frame_astray(void)
{
    coalesce_on_frame(world->c, frame_back(), FRAME_ASTRAY);
}

static inline void frame_refused(const char *error)
{
    struct frame *f = frame_back();
    buf_put_slice(&f->errors, slice_str(error));
    coalesce_on_frame(world->c, f, FRAME_REFUSED);
}

static inline void values_read(void)
{
    struct frame *f = world->values;
    assert_non_null(f);
    world->values = NULL;
    answer_clear(f);
    for (uint32_t i = 0; i < f->cells_n; i++)
        f->cells[i].value = row_of(f->hashes[f->cells[i].hash].key, FRAME_FIELD(f, &f->cells[i]))->value;
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        const struct kept_token *have = token_of(FRAME_NAME(f, &f->tokens[i]));
        if (have == NULL || !frame_token_read(&f->tokens[i], slice_str(have->text)))
            frame_fail_token(f, &f->tokens[i], SLICE("ERR not counted"));
    }
    coalesce_on_values(world->c, f);
}

static inline void turn(void)
{
    coalesce_turn(world->c);
}

static inline void turn_applied(void)
{
    turn();
    frame_applied();
}

static inline void tick_after(uint64_t ms)
{
    world->mono_ms += ms;
    coalesce_tick(world->c);
}

static inline void cut(void)
{
    world->frame = world->values = NULL;
    coalesce_cut(world->c, WHY);
}

static inline void turn_refused(const char *error)
{
    turn();
    frame_refused(error);
}

static inline void nothing_goes(void)
{
    turn();
    assert_null(world->frame);
}

static inline void turn_cut(void)
{
    turn();
    cut();
}

/* The frame that goes out now runs, but its answer is lost. */
static inline void turn_ran_cut(void)
{
    turn();
    redis_runs(world->frame);
    cut();
}

/* Turns until no frame goes out. */
static inline void turns_applied(void)
{
    for (turn(); world->frame != NULL; turn())
        frame_applied();
}

/* Whether each claim that was out exists, one value a claim; NULL: none exists. */
static inline void look_answered(const bool *stands)
{
    static const bool none[8];
    bool ours[8] = {0};
    for (uint32_t i = 0; i < world->journals_looked; i++) {
        const struct kept_journal *j = journal_of(world->journals_asked[i]);
        ours[i] = !world->others && j != NULL && j->listed;
    }
    world->claims_n = 0;
    coalesce_on_look(world->c, world->seq, stands != NULL ? stands : none, ours);
}

/* --- claims --- */

struct test_claim {
    struct claim claim;
    struct slice keys[4];
    bool fresh[4];
    unsigned done;
};

static inline void on_claim_done(struct claim *c)
{
    CONTAINER_OF(c, struct test_claim, claim)->done++;
    world_did("c");
}

static inline void claim_keys(struct test_claim *t, uint32_t counter, const char *a, const char *b)
{
    *t = (struct test_claim){.keys = {slice_str(a), slice_str(b != NULL ? b : "")}};
    t->claim = (struct claim){.counter = &counters_all[counter],
                              .keys = t->keys,
                              .keys_n = b != NULL ? 2 : 1,
                              .fresh = t->fresh,
                              .done = on_claim_done};
    coalesce_claim(world->c, &t->claim);
}

static inline void claim_answered(enum claim_outcome outcome)
{
    struct claim *claim = world->claims[0];
    world->claims_n--;
    memmove(world->claims, world->claims + 1, world->claims_n * sizeof(struct claim *));
    claim->outcome = outcome;
    coalesce_on_claim(world->c, claim);
}

/* --- set up --- */

static inline void *counting_realloc(void *arg, void *p, size_t size)
{
    if (world != NULL) world->allocations++;
    return realloc(p, size);
}
static inline void counting_free(void *arg, void *p)
{
    free(p);
}
static const struct heap counting_heap = {counting_realloc, counting_free, NULL};

static inline void world_make_of(const struct coalesce_config *config, const struct counters *counters)
{
    heap_replace(&counting_heap);
    world = calloc(1, sizeof *world);
    world->mono_ms = 1000000;
    world->redis_ms = NOW * 1000;
    world->seq = -1;
    world->pttl_ms = 60000;
    for (int i = 0; i < 26; i++) {
        world->clients[i].letter = (char)('a' + i);
        list_init(&world->clients[i].o.touched);
        list_init(&world->clients[i].o.parked);
    }
    struct coalesce_config at_once = *config; /* a turn sends; test_bounds.c has what waits */
    at_once.gather_turns =
        config->gather_turns == coalesce_config_default.gather_turns ? 0 : config->gather_turns;
    if (config->replay_bytes == coalesce_config_default.replay_bytes)
        at_once.replay_bytes = 0; /* test_replay.c */
    world->c = coalesce_create(&world_ports, counters, &at_once);
}

static inline void world_make(const struct coalesce_config *config)
{
    world_make_of(config, &counters_two);
}

static inline void link_up(const char *run_id, int64_t id)
{
    coalesce_up(world->c, run_id, id);
}

/* ... and none of our claims stands. */
static inline void link_ready(const char *run_id, int64_t id)
{
    link_up(run_id, id);
    look_answered(NULL);
}

/* The same server again: the old link is killed first. */
static inline void back_up_on(const char *run_id, int64_t id)
{
    link_up(run_id, id);
    coalesce_on_killed(world->c);
    look_answered(NULL);
}

static inline void back_up(int64_t id)
{
    back_up_on(RUN_A, id);
}

/* A link that is ready, with nothing sent yet. */
static inline int world_open(void **state)
{
    world_make(&coalesce_config_default);
    link_ready(RUN_A, 7);
    assert_did("L");
    return 0;
}

static inline void world_reopen(const struct coalesce_config *config);

static inline int world_close(void **state)
{
    for (int i = 0; i < 26; i++)
        buf_free(&world->clients[i].o.out);
    for (int i = 0; i < 8; i++)
        buf_free(&world->journals[i].bytes);
    coalesce_destroy(&world->c);
    assert_null(world->c);
    free(world);
    world = NULL;
    heap_replace(NULL);
    return 0;
}

/* The same with bounds of the test's own. */
static inline void world_reopen(const struct coalesce_config *config)
{
    world_close(NULL);
    world_make(config);
    link_ready(RUN_A, 7);
    forget_did();
}

#define reopen_with(...) /* reopen_with(config.cells_max = 3) */                                             \
    do {                                                                                                     \
        struct coalesce_config config = coalesce_config_default;                                             \
        __VA_ARGS__;                                                                                         \
        world_reopen(&config);                                                                               \
    } while (0)

#define TEST(f) UNIT_IN(f, world_open, world_close)

/* --- looking into a frame --- */

static inline const struct frame_hash *hash_of(const struct frame *f, const char *key)
{
    for (uint32_t i = 0; i < f->hashes_n; i++)
        if (slice_eq(f->hashes[i].key, slice_str(key))) return &f->hashes[i];
    return NULL;
}

static inline bool zadds(const char *key)
{
    const struct frame_hash *h = hash_of(world->frame, key);
    assert_non_null(h);
    return h->zadd;
}

static inline bool asks_lock(const char *key)
{
    const struct frame_hash *h = hash_of(world->frame, key);
    assert_non_null(h);
    return h->ask_lock;
}

static inline int64_t share(const char *counter)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < world->frame->shares_n; i++)
        if (slice_eq(world->frame->shares[i].counter->name, slice_str(counter)))
            sum += world->frame->shares[i].delta;
    return sum;
}

/* One hit, sent. */
static inline void hit_goes(char letter, const char *key, const char *field, int64_t delta)
{
    HIT(letter, key, field, delta);
    turn();
}

/* ... and answered. */
static inline void round_of(char letter, const char *key, const char *field, int64_t delta)
{
    HIT(letter, key, field, delta);
    turn_applied();
}

#endif
