/* lib/fake_coalesce.h - a coalesce for tests of command/ alone: takes hits and ops of one counter, and collects what it
 * would answer until the test lets that out. Instead of coalesce/'s own functions, so link a program with command/ only once
 * it includes this. */
#ifndef LIB_FAKE_COALESCE_H
#define LIB_FAKE_COALESCE_H

#include "lib/fake_client.h"

#include "base/clock.h"
#include "base/slice.h"
#include "protocol/reply.h"
#include "series/op.h"

#include <stdio.h>

#define ANSWERS_MAX 4096
#define NOW_S INT64_C(1411200000) /* 2014-09-20 08:00 UTC */

struct answer {
    struct outlet *outlet;
    struct buf bytes;
};

/* What coalesce was just given by the code under test. */
struct fake_taken {
    const struct outlet *outlet;
    bool has_token, today, is_op;
    enum op_kind kind;      /* is_op */
    struct slice key, type; /* of an op: its name */
};

/* Key "s<anything>:views", fields of digits; every hit is answered with its own delta. */
struct coalesce {
    struct answer answers[ANSWERS_MAX];
    uint32_t n;
    uint32_t room; /* answers that fit into a frame */
    bool down, busy;
    uint32_t refuse_literals;    /* that many, though there is room */
    bool liar;                   /* coalesce_room() says yes though it is full */
    uint32_t adds;               /* hits ever taken */
    char field[32];              /* of the last one */
    struct coalesce_op op;       /* the last one taken; its texts in op_texts */
    struct coalesce_token token; /* likewise; answered with ":7" */
    struct slice token_user;
    bool fed; /* every counter feeds something */
    char op_texts[4 * OP_NAME_BYTES_MAX];
    struct slice bulk; /* the reply to an event with an id, when there is one */
    struct outlet *parked[64];
    uint32_t parked_n;
    void (*took)(const struct fake_taken *t); /* NULL: not wanted */
};

static struct counter views = {.name = {"views", 5},
                               .field = FIELD_INTEGER,
                               .key = {{"s", 1}, {":views", 6}, true, NULL},
                               .lock = {{"s", 1}, {":views:sync", 11}, true, NULL}};
static struct op_limits limits = {.precisions = {1, 5, 60},
                                  .precisions_n = 3,
                                  .samples = 120,
                                  .timebox_width_s = 60,
                                  .timebox_keep = 60,
                                  .events_keep_s = INT64_C(1) << 40,
                                  .ahead_s = 60,
                                  .read = {.most = 20000, .days = 400}};
static const struct counters counters = {.all = &views, .n = 1, .ops = &limits};

const struct counter *coalesce_counter(struct coalesce *c, struct slice key)
{
    (void)c;
    return slice_starts(key, SLICE("s")) && slice_ends(key, SLICE(":views")) ? &views : NULL;
}

const char *coalesce_down_why(const struct coalesce *c)
{
    (void)c;
    return "MASTERDOWN Redis is away";
}

const char *coalesce_down_text(const struct coalesce *c)
{
    (void)c;
    return "MASTERDOWN Redis is away; nothing was counted";
}

int64_t coalesce_hit_max(const struct coalesce *c)
{
    (void)c;
    return DELTA_MAX;
}

enum add_result coalesce_try(struct coalesce *c, struct slice key, struct slice field, int64_t delta)
{
    int64_t number;
    if (coalesce_counter(c, key) == NULL) return ADD_NO_COUNTER;
    if (!num_parse(field, &number)) return ADD_FIELD;
    return delta > DELTA_MAX || delta < -DELTA_MAX ? ADD_DELTA : ADD_OK;
}

static void fake_push(struct coalesce *c, struct outlet *o, struct slice bytes)
{
    PRE(c->n < ANSWERS_MAX);
    struct answer *a = &c->answers[c->n++];
    *a = (struct answer){.outlet = o};
    buf_put_slice(&a->bytes, bytes);
    o->waiting++;
}

static void fake_took(const struct coalesce *c, const struct fake_taken *t)
{
    if (c->took != NULL) c->took(t);
}

enum add_result coalesce_add(struct coalesce *c, struct outlet *o, struct slice key, struct slice field,
                             int64_t delta)
{
    enum add_result got = coalesce_try(c, key, field, delta);
    if (got != ADD_OK) return got;
    if (c->down) return ADD_DOWN;
    if (c->n >= c->room) return c->busy ? ADD_BUSY : ADD_FULL;
    struct buf reply = {0};
    reply_int(&reply, delta);
    fake_push(c, o, buf_slice(&reply));
    buf_free(&reply);
    fake_took(c, &(struct fake_taken){.outlet = o, .key = key});
    c->adds++;
    snprintf(c->field, sizeof c->field, SLICE_FMT, SLICE_ARG(field));
    o->parked_ms = 0;
    return ADD_OK;
}

static struct slice fake_keep(char **at, struct slice text)
{
    struct slice kept = slice_of(*at, text.n);
    if (text.n > 0) memcpy(*at, text.p, text.n);
    *at += text.n;
    return kept;
}

enum add_result coalesce_try_token(struct coalesce *c, const struct coalesce_token *t)
{
    enum add_result got = coalesce_try(c, t->key, t->field, t->delta);
    return got == ADD_OK && c->fed ? ADD_FED : got;
}

enum add_result coalesce_add_token(struct coalesce *c, struct outlet *o, const struct coalesce_token *t,
                                   struct slice user)
{
    char *at = c->op_texts;
    enum add_result got = coalesce_try_token(c, t);
    if (got != ADD_OK) return got;
    if (c->down) return ADD_DOWN;
    if (c->n >= c->room) return c->busy ? ADD_BUSY : ADD_FULL;
    c->token = (struct coalesce_token){fake_keep(&at, t->key), fake_keep(&at, t->field),
                                       fake_keep(&at, t->id), t->delta, t->today};
    c->token_user = fake_keep(&at, user);
    fake_push(c, o, SLICE(":7\r\n"));
    fake_took(c, &(struct fake_taken){.outlet = o, .has_token = true, .today = t->today, .key = t->key});
    c->adds++;
    o->parked_ms = 0;
    return ADD_OK;
}

uint32_t coalesce_token_cells(void)
{
    return 5;
}

/* Answered with ":9". */
enum add_result coalesce_op(struct coalesce *c, struct outlet *o, const struct coalesce_op *op)
{
    char *at = c->op_texts;
    if (c->down) return ADD_DOWN;
    if (c->n >= c->room) return c->busy ? ADD_BUSY : ADD_FULL;
    c->op = *op;
    c->op.name = fake_keep(&at, op->name);
    c->op.type = fake_keep(&at, op->type);
    c->op.id = fake_keep(&at, op->id);
    c->op.user = fake_keep(&at, op->user);
    fake_push(c, o, op->kind == OP_EVENT && op->id.n > 0 && c->bulk.n > 0 ? c->bulk : SLICE(":9\r\n"));
    fake_took(c, &(struct fake_taken){
                     .outlet = o, .is_op = true, .kind = op->kind, .key = op->name, .type = op->type});
    c->adds++;
    o->parked_ms = 0;
    return ADD_OK;
}

uint32_t coalesce_op_cells(const struct coalesce *c, enum op_kind kind)
{
    (void)c;
    return kind == OP_SERIES ? limits.precisions_n : 2;
}

uint64_t coalesce_code(const struct coalesce *c, struct slice key)
{
    uint64_t code = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    (void)c;
    for (size_t i = 0; i < key.n; i++)
        code = (code ^ (unsigned char)key.p[i]) * UINT64_C(0x100000001b3);
    return code;
}

void coalesce_codes_as(struct coalesce *c, const struct coalesce *other)
{
    (void)c;
    (void)other;
}

void coalesce_look_coded(struct coalesce *c, const struct coalesce_hit *h)
{
    (void)c;
    (void)h;
}

void coalesce_look(struct coalesce *c, struct coalesce_hit *h)
{
    (void)c;
    (void)h;
}

void coalesce_look_again(struct coalesce *c, const struct coalesce_hit *h)
{
    (void)c;
    (void)h;
}

enum add_result coalesce_take(struct coalesce *c, struct outlet *o, const struct coalesce_hit *h)
{
    return coalesce_add(c, o, h->bytes.key, h->bytes.field, h->bytes.delta);
}

enum add_result coalesce_take_today(struct coalesce *c, struct outlet *o, struct coalesce_hit *h,
                                    struct zone_view *v, int64_t at_s)
{
    struct slice key = h->bytes.key;
    const struct counter *counter = coalesce_counter(c, key);
    if (counter == NULL) return ADD_NO_COUNTER;
    size_t digits = field_digits(counter->field);
    if (digits == 0 || counter->spelled.spelling != SPELLED_DIGITS) return ADD_FIELD;
    struct slice hour = zone_view_hour(v, zone_view_of(v, counter_store(counter, key)), at_s);
    return coalesce_add(c, o, key, slice_of(hour.p, digits), 1);
}

bool coalesce_room(struct coalesce *c, uint32_t hits, size_t bytes, bool *never)
{
    (void)bytes;
    *never = hits > 1000;
    return !*never && (c->liar || c->n + hits <= c->room);
}

enum add_result coalesce_full(const struct coalesce *c, struct outlet *o)
{
    (void)c;
    return o->parked_ms != 0 && mono_ms() - o->parked_ms >= 5000 ? ADD_BUSY : ADD_FULL;
}

void coalesce_transaction(struct coalesce *c, bool begins)
{
    (void)c, (void)begins;
}

enum add_result coalesce_literal(struct coalesce *c, struct outlet *o, struct slice bytes)
{
    PRE(o->waiting > 0);
    if (c->refuse_literals > 0) {
        c->refuse_literals--;
        return ADD_FULL;
    }
    if (c->n >= c->room) return ADD_FULL;
    fake_push(c, o, bytes);
    return ADD_OK;
}

void coalesce_hush(struct coalesce *c, struct outlet *o, uint32_t n)
{
    PRE(n <= o->waiting && n <= c->n);
    for (uint32_t i = c->n - n; i < c->n; i++) {
        INVARIANT(c->answers[i].outlet == o);
        buf_reset(&c->answers[i].bytes);
    }
}

bool coalesce_collects(const struct coalesce *c)
{
    (void)c;
    return false;
}

uint64_t coalesce_frame(const struct coalesce *c)
{
    (void)c;
    return 1;
}

void coalesce_park(struct coalesce *c, struct outlet *o)
{
    if (o->parked_ms == 0) o->parked_ms = mono_ms();
    c->parked[c->parked_n++] = o;
}

void coalesce_unpark(struct coalesce *c, struct outlet *o)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->parked_n; i++)
        if (c->parked[i] != o) c->parked[kept++] = c->parked[i];
    c->parked_n = kept;
}

/* ---- what the test does ---- */

static const struct command *fake_command; /* of several lanes; NULL: there is one */

static inline struct conn *fake_conn(struct outlet *o)
{
    return CONTAINER_OF(fake_command == NULL ? o : command_outlet(fake_command, o), struct conn, outlet);
}

/* As coalesce writes it. */
static void fake_reply(struct outlet *o, struct slice reply)
{
    int64_t v = 0;
    if (o->texts == NULL) {
        buf_put_slice(&o->out, reply);
        return;
    }
    char *to = outlet_reserve(o, 1);
    if (reply.n <= 3 || reply.p[0] != ':' || !num_parse(slice_of(reply.p + 1, reply.n - 3), &v)) {
        size_t at = outlet_text_begin(o, 0);
        buf_put_slice(o->texts, reply);
        outlet_text_end(o, at, reply.n > 0 && reply.p[0] != '-');
    }
    memcpy(to, &v, sizeof v);
    outlet_gave(o, 1);
}

/* The first `upto` answers come, literals and hits in order; each outlet is told once, as coalesce does. */
static inline void fake_answers(struct coalesce *c, uint32_t upto)
{
    struct outlet *told[64];
    uint32_t told_n = 0;
    for (uint32_t i = 0; i < upto; i++) {
        struct answer *a = &c->answers[i];
        a->outlet->waiting--;
        if (!a->outlet->gone) fake_reply(a->outlet, buf_slice(&a->bytes));
        buf_free(&a->bytes);
        bool known = false;
        for (uint32_t k = 0; k < told_n; k++)
            known |= told[k] == a->outlet;
        if (!known) told[told_n++] = a->outlet;
    }
    c->n -= upto;
    memmove(c->answers, c->answers + upto, c->n * sizeof(c->answers[0]));
    for (uint32_t k = 0; k < told_n; k++) {
        struct conn *client = fake_conn(told[k]);
        session_answered(&client->session);
        conn_take(client);
        conn_flush(client);
    }
}

static inline void fake_room(struct coalesce *c, uint32_t room)
{
    struct outlet *who[64];
    uint32_t n = c->parked_n;
    c->room = room;
    memcpy(who, c->parked, sizeof(who));
    c->parked_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct conn *client = fake_conn(who[i]);
        session_room(&client->session);
        conn_flush(client);
    }
}

static inline void fake_forget(struct coalesce *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        buf_free(&c->answers[i].bytes);
    c->n = 0;
}

#endif
