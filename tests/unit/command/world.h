/* world.h - a session's surroundings for its tests: a connection that records what is done to it, and a
 * coalesce that collects answers until the test lets the frame be answered. Header only: each test is one
 * program. */
#ifndef COMMAND_WORLD_H
#define COMMAND_WORLD_H

#include "lib/unit.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/num.h"
#include "command/command.h"
#include "protocol/reply.h"
#include "series/op.h"

#include <stdio.h>

#define ANSWERS_MAX 4096

struct answer {
    struct outlet *outlet;
    struct buf bytes;
};

/* Key "s<anything>:views", fields of digits; every hit is answered with its own delta. */
struct coalesce {
    struct answer answers[ANSWERS_MAX];
    uint32_t n;
    uint32_t room; /* answers that fit into a frame */
    bool down, busy;
    uint32_t refuse_literals;    /* so many, though there is room */
    bool liar;                   /* coalesce_room() says yes though there is none */
    uint32_t adds;               /* hits ever taken */
    struct coalesce_op op;       /* the last one taken; its texts in op_texts */
    struct coalesce_token token; /* likewise; answered with ":7" */
    bool fed;                    /* every counter feeds something */
    char op_texts[4 * OP_NAME_BYTES_MAX];
    struct outlet *parked[64];
    uint32_t parked_n;
};

#define NOW_S INT64_C(1411200000) /* 2014-09-20 08:00 UTC */

static struct counter views = {.name = {"views", 5},
                               .field = FIELD_INTEGER,
                               .key = {{"s", 1}, {":views", 6}, true},
                               .lock = {{"s", 1}, {":views:sync", 11}, true}};
static const struct op_limits limits = {.precisions = {1, 5, 60},
                                        .precisions_n = 3,
                                        .samples = 120,
                                        .box_width_s = 60,
                                        .box_keep = 60,
                                        .events_keep_s = INT64_C(1) << 40,
                                        .ahead_s = 60};
static const struct counters counters = {.all = &views, .n = 1, .ops = &limits};

const struct counter *coalesce_counter(struct coalesce *c, struct slice key)
{
    (void)c;
    return slice_starts(key, SLICE("s")) && slice_ends(key, SLICE(":views")) ? &views : NULL;
}

const char *coalesce_down_text(const struct coalesce *c)
{
    (void)c;
    return "MASTERDOWN Redis is away; nothing was counted";
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
    assert_true(c->n < ANSWERS_MAX);
    struct answer *a = &c->answers[c->n++];
    *a = (struct answer){.outlet = o};
    buf_put_slice(&a->bytes, bytes);
    o->waiting++;
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
    c->adds++;
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

enum add_result coalesce_add_token(struct coalesce *c, struct outlet *o, const struct coalesce_token *t)
{
    char *at = c->op_texts;
    enum add_result got = coalesce_try_token(c, t);
    if (got != ADD_OK) return got;
    if (c->down) return ADD_DOWN;
    if (c->n >= c->room) return c->busy ? ADD_BUSY : ADD_FULL;
    c->token = (struct coalesce_token){fake_keep(&at, t->key), fake_keep(&at, t->field),
                                       fake_keep(&at, t->id), t->delta};
    fake_push(c, o, SLICE(":7\r\n"));
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
    fake_push(c, o, SLICE(":9\r\n"));
    c->adds++;
    o->parked_ms = 0;
    return ADD_OK;
}

uint32_t coalesce_op_cells(const struct coalesce *c, enum op_kind kind)
{
    (void)c;
    return kind == OP_SERIES ? limits.precisions_n : 2;
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

bool coalesce_room(struct coalesce *c, uint32_t hits, size_t bytes, bool *never)
{
    (void)bytes;
    *never = hits > 1000;
    return !*never && (c->liar || c->n + hits <= c->room);
}

enum add_result coalesce_literal(struct coalesce *c, struct outlet *o, struct slice bytes)
{
    assert_true(o->waiting > 0);
    if (c->refuse_literals > 0) {
        c->refuse_literals--;
        return ADD_FULL;
    }
    if (c->n >= c->room) return ADD_FULL;
    fake_push(c, o, bytes);
    return ADD_OK;
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

/* ---- connections ---- */

struct conn {
    struct outlet outlet;
    struct session session;
    struct buf kept;
    struct buf said; /* all that the client was sent */
    bool paused, finished, dropped;
    int holds;
};

static struct coalesce fake;
static struct command *command;
static struct users *world_users; /* set before world_open(): there are users; with a prover */
static struct prover *world_prover;
static const char *world_peer = "127.0.0.1:4711";
static unsigned paces; /* how often somebody began to wait for room */
static struct pending_request *pending_out;
static struct total_request *total_out;
static struct read_request *read_out;
static struct sync_request *sync_out;
static struct recover_request *recover_out;
static bool answer_inside; /* CTR.SYNC is answered from inside the call */

static void conn_take(struct conn *c)
{
    if (c->paused || c->finished || c->dropped || c->kept.n == 0) return;
    size_t used = session_bytes(&c->session, buf_slice(&c->kept));
    assert_true(used <= c->kept.n);
    if (!c->dropped) buf_drop(&c->kept, used);
}

static void conn_flush(struct conn *c)
{
    buf_put_slice(&c->said, buf_slice(&c->outlet.out));
    buf_reset(&c->outlet.out);
}

static void on_pause(struct conn *c)
{
    assert_false(c->dropped);
    c->paused = true;
}
static void on_resume(struct conn *c)
{
    assert_false(c->dropped);
    c->paused = false;
}
static void on_answered(struct conn *c)
{
    assert_false(c->dropped);
}
static void on_finish(struct conn *c)
{
    assert_false(c->dropped);
    c->finished = true;
}
static void on_hold(struct conn *c)
{
    c->holds++;
}
static void on_release(struct conn *c)
{
    c->holds--;
}

static void on_drop(struct conn *c)
{
    if (c->dropped) return;
    c->dropped = c->outlet.gone = true;
    session_close(&c->session);
}

static void on_peer(const struct conn *c, char *out, size_t size)
{
    (void)c;
    snprintf(out, size, "%s", world_peer);
}

static void port_pending(void *arg, struct pending_request *r)
{
    (void)arg;
    pending_out = r;
}

static void port_total(void *arg, struct total_request *r)
{
    (void)arg;
    total_out = r;
}

static void port_sync(void *arg, struct sync_request *r)
{
    (void)arg;
    sync_out = r;
    if (!answer_inside) return;
    sync_out = NULL;
    r->rows = 77;
    r->done(r);
}

static void port_recover(void *arg, struct recover_request *r)
{
    (void)arg;
    recover_out = r;
}

static void port_read(void *arg, struct read_request *r)
{
    (void)arg;
    read_out = r;
}

static void port_pace(void *arg)
{
    (void)arg;
    paces++;
}

static int64_t port_redis_ms(void *arg)
{
    (void)arg;
    return NOW_S * 1000 + 999;
}

static void port_info(void *arg, struct slice section, struct buf *out)
{
    (void)arg;
    if (info_wants(section, "world")) BUF_LIT(out, "# World\r\nround:1\r\n");
}

static void world_open(void)
{
    fake = (struct coalesce){.room = ANSWERS_MAX};
    read_out = NULL;
    answer_inside = false;
    const struct command_config config = {
        .coalesce = &fake,
        .client = {on_pause, on_resume, conn_take, on_answered, on_finish, on_drop, on_hold, on_release,
                   on_peer},
        .counters = &counters,
        .ports = {.pending = port_pending,
                  .sync = port_sync,
                  .recover = port_recover,
                  .info = port_info,
                  .total = port_total,
                  .read = port_read,
                  .redis_ms = port_redis_ms,
                  .pace = port_pace},
        .users = world_users,
        .prover = world_prover,
        .stranger_ms = 10000,
        .limits = request_limits_default,
        .clients_max = 100,
        .multi_max = 2000,
        .busy_ms = 5000,
    };
    command = command_create(&config);
}

static void world_close(void)
{
    command_destroy(&command);
    for (uint32_t i = 0; i < fake.n; i++)
        buf_free(&fake.answers[i].bytes);
}

static struct conn *conn_open(void)
{
    struct conn *c = heap_zalloc(sizeof(*c));
    session_open(&c->session, command, c, &c->outlet);
    return c;
}

static inline struct conn *conn_open_inside(void)
{
    struct conn *c = heap_zalloc(sizeof(*c));
    session_open_inside(&c->session, command, c, &c->outlet);
    return c;
}

static void conn_close(struct conn *c)
{
    on_drop(c);
    assert_int_equal(c->holds, 0);
    buf_free(&c->outlet.out);
    buf_free(&c->kept);
    buf_free(&c->said);
    heap_free(c);
}

static void say_slice(struct conn *c, struct slice bytes)
{
    buf_put_slice(&c->kept, bytes);
    conn_take(c);
    conn_flush(c);
}

#define say(c, text) say_slice(c, SLICE(text))

static inline void tell(struct outlet *const *told, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        struct conn *c = CONTAINER_OF(told[k], struct conn, outlet);
        session_answered(&c->session);
        conn_take(c);
        conn_flush(c);
    }
}

/* The first `upto` answers come, literals and hits in order; each outlet is told once, as coalesce does. */
static inline void answers_come(uint32_t upto)
{
    struct outlet *told[64];
    uint32_t told_n = 0;
    for (uint32_t i = 0; i < upto; i++) {
        struct answer *a = &fake.answers[i];
        a->outlet->waiting--;
        if (!a->outlet->gone) buf_put_slice(&a->outlet->out, buf_slice(&a->bytes));
        buf_free(&a->bytes);
        bool known = false;
        for (uint32_t k = 0; k < told_n; k++)
            known |= told[k] == a->outlet;
        if (!known) told[told_n++] = a->outlet;
    }
    fake.n -= upto;
    memmove(fake.answers, fake.answers + upto, fake.n * sizeof(fake.answers[0]));
    tell(told, told_n);
}

static inline void frame_answered(void)
{
    answers_come(fake.n);
}

static inline void frame_has_room(uint32_t room)
{
    fake.room = room;
    struct outlet *who[64];
    uint32_t n = fake.parked_n;
    memcpy(who, fake.parked, sizeof(who));
    fake.parked_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct conn *c = CONTAINER_OF(who[i], struct conn, outlet);
        session_room(&c->session);
        conn_flush(c);
    }
}

/* What the client was sent since it was asked last. */
#define heard(c, text)                                                                                       \
    do {                                                                                                     \
        buf_put_char(&(c)->said, '\0');                                                                      \
        assert_string_equal((c)->said.p, text);                                                              \
        buf_reset(&(c)->said);                                                                               \
    } while (0)

#endif
