/* tests/sim/filing.c - see filing.h. */
#include "sim/filing.h"
#include "sim/world.h"

#include "base/heap.h"
#include "redis/frame_op.h"
#include <stdarg.h>
#include <stdio.h>

#define FLIGHTS 2 /* with one_in_flight out */
#define ANSWERS 1024

struct filing {
    struct redis_frames frames;
    struct redis_link link;
    struct frame *frame; /* sent, or its values asked for; NULL: none */
    redis_reply_cb *hear;
    uint32_t replies;
};

/* --- redis/link.h --- */

struct buf *redis_link_begin(struct redis_link *l)
{
    CONTAINER_OF(l, struct filing, link)->hear = NULL;
    buf_reset(&l->out);
    return &l->out;
}

void redis_link_expect(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    struct filing *own = CONTAINER_OF(l, struct filing, link);
    PRE(arg == &own->frames);
    if (own->hear != NULL) return; /* of WATCH, after a frame */
    own->hear = cb;
    own->replies = replies;
}

void redis_link_expect_transaction(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg)
{
    redis_link_expect(l, replies, cb, arg);
}

void redis_link_flush(struct redis_link *l)
{
    (void)l;
}

void redis_link_flush_now(struct redis_link *l)
{
    (void)l;
}

void redis_link_crash_after(struct redis_link *l, enum crash_point p)
{
    (void)l, (void)p;
}

void redis_link_cut(struct redis_link *l, const char *why)
{
    fault_found(((struct process *)l->arg)->w, FAULT_PROTOCOL, "redis/ gives up its link: %s", why);
}

void redis_link_numbered(struct redis_link *l, uint64_t number)
{
    ((struct process *)l->arg)->number = (int64_t)number;
}

void redis_link_changed(struct redis_link *l)
{
    fault_found(((struct process *)l->arg)->w, FAULT_PROTOCOL, "redis/ takes an answer for nil");
}

int64_t redis_time_ms(const struct redis_link *l)
{
    return life_redis_ms(l->arg);
}

void place_served(struct redis_place *p)
{
    (void)p;
}

void redis_link_astray(struct redis_link *l)
{
    fault_found(((struct process *)l->arg)->w, FAULT_PROTOCOL, "redis/ takes an answer for a cluster's");
}

/* --- one of them --- */

static void on_frame(void *arg, struct frame *f, enum frame_outcome outcome)
{
    coalesce_on_frame(((struct process *)arg)->coalesce, f, outcome);
}

static void on_values(void *arg, struct frame *f)
{
    coalesce_on_values(((struct process *)arg)->coalesce, f);
}

void filing_open(struct process *life)
{
    life->filings = heap_zalloc(FLIGHTS * sizeof *life->filings);
    for (struct filing *own = life->filings; own < life->filings + FLIGHTS; own++) {
        static struct redis_place no_cluster;
        own->link.arg = life;
        own->link.config.place = &no_cluster;
        redis_frames_init(&own->frames, &own->link, &life->life);
        own->frames.on_frame = on_frame;
        own->frames.on_values = on_values;
        own->frames.arg = life;
        own->frames.limits = life->w->counters.ops;
    }
}

void filing_close(struct process *life)
{
    for (struct filing *own = life->filings; own < life->filings + FLIGHTS; own++) {
        redis_frames_close(&own->frames);
        buf_free(&own->link.out);
    }
    heap_free(life->filings);
}

static struct filing *of(struct process *life, const struct frame *f)
{
    for (struct filing *own = life->filings; own < life->filings + FLIGHTS; own++)
        if (own->frame == f) return own;
    UNREACHABLE();
}

void filing_send(struct process *life, struct frame *f)
{
    struct filing *own = of(life, NULL);
    own->frame = f;
    redis_frames_send(&own->frames, f);
}

void filing_read_values(struct process *life, struct frame *f)
{
    struct filing *own = of(life, NULL);
    own->frame = f;
    redis_frames_values(&own->frames, f);
}

void filing_cut(struct process *life)
{
    for (struct filing *own = life->filings; own < life->filings + FLIGHTS; own++) {
        if (own->frame != NULL) own->hear(&own->link, &own->frames, NULL, 0);
        own->frame = NULL;
    }
}

/* --- answers --- */

static struct redis_answer all[ANSWERS], nested[ANSWERS];
static uint32_t all_n, nested_n;
static char texts[16 * ANSWERS];
static size_t texts_n;

static void answers_reset(void)
{
    all_n = nested_n = 0;
    texts_n = 0;
}

static struct redis_answer integer(int64_t n)
{
    return (struct redis_answer){.type = REDIS_INTEGER, .integer = n};
}

static struct redis_answer line(enum redis_type type, const char *text)
{
    return (struct redis_answer){.type = type, .str = slice_str(text)};
}

__attribute__((format(printf, 1, 2))) static struct redis_answer bulk(const char *fmt, ...)
{
    char *text = texts + texts_n;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof texts - texts_n, fmt, args);
    va_end(args);
    texts_n += (size_t)n + 1;
    INVARIANT(texts_n <= sizeof texts);
    return line(REDIS_STRING, text);
}

static void say(struct redis_answer a)
{
    INVARIANT(all_n < ANSWERS);
    all[all_n++] = a;
}

static struct redis_answer array(uint32_t n)
{
    INVARIANT(nested_n + n <= ANSWERS);
    nested_n += n;
    return (struct redis_answer){.type = REDIS_ARRAY, .elements = nested + nested_n - n, .n = n};
}

/* --- of a frame, in the order of the wire --- */

static const struct wire_op *op_after(const struct wire_frame *f, const struct wire_op *op, enum op_kind kind)
{
    for (op = op == NULL ? f->ops : op + 1; op < f->ops + f->ops_n; op++)
        if (op->kind == kind && !op->silent) return op;
    return NULL;
}

static void hashes_say(const struct wire_frame *f)
{
    for (unsigned i = 0; i < f->hashes_n; i++) {
        if (!f->hashes[i].zadd) continue;
        say(integer(1));
        return;
    }
}

static void locks_say(const struct wire_frame *f)
{
    for (unsigned i = 0; i < f->hashes_n; i++) {
        const struct wire_hash *h = &f->hashes[i];
        if (!h->ask_lock) continue;
        say(h->lock_granted ? line(REDIS_STATUS, "OK") : (struct redis_answer){.type = REDIS_NIL});
        say(integer(h->lock_pttl_ms));
    }
}

static void tokens_say(const struct wire_frame *f)
{
    if (f->tokens_n == 0) return;
    struct redis_answer a = array(f->tokens_n + 1);
    for (unsigned i = 0; i < f->tokens_n; i++) {
        const struct wire_token *t = &f->tokens[i];
        a.elements[i] = t->error != NULL ? line(REDIS_ERROR, t->error)
                                         : bulk("%c%lld", t->is_new ? 'n' : 'o', (long long)t->value);
    }
    a.elements[f->tokens_n] = integer(0);
    say(a);
}

/* What the sample is behind all that joins the op. */
static int64_t sample_of(const struct wire_frame *f, const struct wire_op *op, int p)
{
    while (op + 1 < f->ops + f->ops_n && op[1].joins[p])
        op++;
    return op->samples[p];
}

static void series_say(const struct wire_frame *f)
{
    const struct wire_op *op;
    bool known = false;
    for (op = NULL; (op = op_after(f, op, OP_SERIES)) != NULL;)
        known |= op->known != 0;
    if (known) say(integer(0));
    for (op = NULL; (op = op_after(f, op, OP_SERIES)) != NULL;)
        for (int p = 0; p < SIM_PRECISIONS && !op->owed; p++)
            if (!op->joins[p]) say(integer(sample_of(f, op, p)));
}

/* The last number, then which of the own ids are refused: the first is 1. */
static struct redis_answer drawn(const struct wire_frame *f, const struct wire_op *op)
{
    uint32_t own = 0;
    struct redis_answer a = array(1);
    a.elements[0] = integer(op->value);
    for (unsigned i = 0; i < op->items_n; i++) {
        const struct wire_item *item = &f->items[op->first_item + i];
        own += item->own_text || item->number > 0;
        if (!item->refused) continue;
        *array(1).elements = integer(own);
        a.n++;
    }
    return a.n > 1 ? a : integer(op->value);
}

static struct redis_answer scripted(const struct wire_frame *f, const struct wire_op *op)
{
    if (op->kind == OP_EVENT) return drawn(f, op);
    if (op->kind == OP_TIMEBOX) return integer(op->value);
    static const char each_new[SIM_HITS + 1] = "111111111111111111111111";
    return op->error != NULL ? line(REDIS_ERROR, op->error) : bulk("%.*s", (int)op->items_n, each_new);
}

static void script_say(const struct wire_frame *f, enum op_kind kind)
{
    const struct wire_op *op;
    uint32_t n = 0;
    for (op = NULL; (op = op_after(f, op, kind)) != NULL;)
        n += !op->stands && !op->given;
    if (n == 0) return;
    struct redis_answer a = array(n), *next = a.elements;
    for (op = NULL; (op = op_after(f, op, kind)) != NULL;)
        if (!op->stands && !op->given) *next++ = scripted(f, op);
    say(a);
}

static void given_say(const struct wire_frame *f, const struct wire_op *op)
{
    int64_t added = op->items_n;
    for (unsigned i = 0; i < op->items_n; i++)
        added -= f->items[op->first_item + i].lost;
    say(integer(added));
}

static void events_say(const struct wire_frame *f)
{
    const struct wire_op *op, *any = op_after(f, NULL, OP_EVENT);
    bool named = false, holding = false;
    if (any == NULL) return;
    say(bulk("%lld", (long long)any->gone));
    for (op = any; op != NULL; op = op_after(f, op, OP_EVENT))
        named |= op->given && op->named;
    if (named) say(integer(0));
    script_say(f, OP_EVENT);
    for (op = any; op != NULL; op = op_after(f, op, OP_EVENT)) {
        if (!op->given || op->items_n == 0) continue;
        given_say(f, op);
        holding = true;
    }
    if (holding) say(integer(0));
}

static void appends_say(const struct wire_frame *f)
{
    for (unsigned i = 0; i < f->appends_n; i++) {
        const struct wire_append *a = &f->appends[i];
        unsigned lines = (a->opens && !a->ends) + (a->n > 0) + 2 * (a->ends ? 1U : 0U);
        for (; lines > 0; lines--)
            say(integer(1));
    }
}

static void frame_say(const struct frame *f, const struct wire_frame *wire)
{
    answers_reset();
    hashes_say(wire);
    for (unsigned i = 0; i < wire->cells_n; i++) {
        const struct wire_cell *c = &wire->cells[i];
        say(c->error != NULL ? line(REDIS_ERROR, c->error) : integer(c->value));
    }
    for (unsigned i = 0; i < f->shares_n; i++)
        say(integer(1));
    locks_say(wire);
    tokens_say(wire);
    series_say(wire);
    for (const struct wire_op *op = NULL; (op = op_after(wire, op, OP_TIMEBOX)) != NULL;)
        if (op->stands) say(bulk("%lld", (long long)op->value));
    script_say(wire, OP_TIMEBOX);
    events_say(wire);
    script_say(wire, OP_UNIQ);
    appends_say(wire);
    say(line(REDIS_STATUS, "OK"));
}

/* A full Redis refuses a command as it is queued, and then EXEC. */
void filing_answer(struct process *life, struct frame *f, const struct wire_frame *wire)
{
    static const char full[] = "OOM command not allowed when used memory > 'maxmemory'.";
    static const char abort[] = "EXECABORT Transaction discarded because of previous errors.";
    struct filing *own = of(life, f);
    struct redis_answer exec = line(REDIS_ERROR, abort), refusal = line(REDIS_ERROR, full);
    own->frame = NULL;
    if (wire->refused) {
        own->hear(&own->link, &own->frames, &refusal, 1);
    } else {
        frame_say(f, wire);
        exec = (struct redis_answer){.type = REDIS_ARRAY, .elements = all, .n = all_n};
    }
    own->hear(&own->link, &own->frames, &exec, own->replies - 1);
}

void filing_answer_values(struct process *life, struct frame *f, const struct wire_frame *wire)
{
    struct filing *own = of(life, f);
    const struct redis_answer nil = {.type = REDIS_NIL};
    answers_reset();
    for (unsigned i = 0; i < wire->cells_n; i++) {
        const struct wire_cell *c = &wire->cells[i];
        say(c->error != NULL ? line(REDIS_ERROR, c->error) : bulk("%lld", (long long)c->value));
    }
    for (unsigned i = 0; i < wire->tokens_n; i++) {
        const struct wire_token *t = &wire->tokens[i];
        say(t->stands ? bulk("%.*s:%lld", TOKEN_PAYLOAD, f->tokens[i].payload, (long long)t->value) : nil);
    }
    INVARIANT(all_n == own->replies);
    own->frame = NULL;
    for (uint32_t i = 0; i < all_n; i++)
        own->hear(&own->link, &own->frames, &all[i], i);
}
