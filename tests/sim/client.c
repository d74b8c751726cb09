/* tests/sim/client.c - see client.h. */
#include "sim/world.h"

#include "base/slice.h"

void client_init(struct client *c)
{
    memset(c, 0, sizeof *c);
    list_init(&c->outlet.touched);
    list_init(&c->outlet.parked);
}

static void expect_push(struct client *c, struct expect e)
{
    PRE(c->n < CLIENT_EXPECTS);
    c->expects[(c->first + c->n++) % CLIENT_EXPECTS] = e;
}

static struct expect expect_pop(struct client *c)
{
    PRE(c->n > 0);
    struct expect e = c->expects[c->first];
    c->first = (c->first + 1) % CLIENT_EXPECTS;
    c->n--;
    return e;
}

/* --- lanes --- */

struct client *client_of(const struct process *life, struct outlet *o)
{
    if (life->w->config.lanes == 1) return CONTAINER_OF(o, struct client, outlet);
    return (struct client *)CONTAINER_OF(o, struct way, outlet)->session;
}

/* Where the life's lane writes its answers. */
static struct outlet *outlet_at(const struct process *life, struct client *c)
{
    unsigned lanes = life->w->config.lanes;
    if (lanes == 1) return &c->outlet;
    if (c->order == NULL) c->order = order_create((struct session *)c, lanes);
    return &c->order->ways[life->lane].outlet;
}

/* The life's coalesce took a request. */
static void expect_at(const struct process *life, struct client *c, struct expect e)
{
    expect_push(c, e);
    if (c->order == NULL) return;
    order_expect_one(c->order, life->lane);
    c->outlet.waiting++;
}

static void swap(uint16_t *a, uint16_t *b)
{
    uint16_t was = *a;
    *a = *b;
    *b = was;
}

/* Without the rule: as the lanes answer. */
static void take_unordered(struct client *c)
{
    struct order *o = c->order;
    for (uint32_t i = o->first; i != o->end; i++) {
        uint16_t *head = &o->ring[o->first & o->mask];
        swap(head, &o->ring[i & o->mask]);
        if (!order_ready(o)) {
            swap(head, &o->ring[i & o->mask]);
            continue;
        }
        order_take(o, &c->outlet);
        i = o->first - 1;
    }
}

/* As session_answered() of command/session.c. */
static void order_answers(const struct process *life, struct client *c)
{
    if (c->outlet.gone) {
        if (order_gone(c->order, &c->outlet)) c->order = NULL;
    } else if (lanes_rule(life->w, LANES_ORDER)) {
        order_take(c->order, &c->outlet);
    } else {
        take_unordered(c);
    }
}

/* The lane of the next answer; -1: one of our own; -2: no answer is owed. */
static int next_lane(const struct client *c)
{
    const struct order *o = c->order;
    if (o == NULL || o->first == o->end || c->outlet.gone) return -2;
    uint32_t of = o->ring[o->first & o->mask];
    return of == o->lanes ? -1 : (int)of;
}

bool client_is_behind(const struct client *c)
{
    return next_lane(c) != -2 && order_ready(c->order);
}

bool client_waits(const struct world *w, const struct client *c)
{
    bool any_away = w->away >= 0 || world_any_restored(w);
    if (!any_away) return c->parked || c->outlet.waiting > 0;
    int lane = next_lane(c);
    bool parked = c->parked && !world_is_away(w, c->parked_at);
    return parked || (lane >= 0 && !world_is_away(w, (unsigned)lane));
}

/* The lane of a hit: hits of one store always go to the same lane. */
static unsigned lane_of_hit(const struct process *life, int hash)
{
    unsigned lane = world_lane_of(life->w, hash);
    if (!lanes_rule(life->w, LANES_FIXED)) lane += (unsigned)life->index;
    return lane % life->w->config.lanes;
}

/* --- what it sends --- */

static bool hits_left(const struct world *w)
{
    uint64_t n = 0;
    for (unsigned h = 0; h < w->config.hashes; h++)
        for (unsigned f = 0; f < w->config.fields; f++)
            n += w->oracle.hits_n[h][f];
    return n < w->config.hits_most;
}

bool client_can_hit(const struct process *life, const struct client *c)
{
    if (life->stopping || c->outlet.gone || c->n == CLIENT_EXPECTS) return false;
    bool tried = life->w->away == (int)c->parked_at && life->w->now_ms == c->parked_ms;
    return c->parked ? c->may_go_on && !tried : !life->w->calm && hits_left(life->w);
}

/* Visitors are of stores of the first counter. */
static int draw_target(struct world *w)
{
    int hash = (int)world_below(w, w->config.hashes), target = (int)world_below(w, OP_VISITORS_TARGET + 1);
    if (target < OP_VISITORS_TARGET) return target;
    return OP_VISITORS_TARGET + (world_counter_of(w, hash) == 0 ? hash : 0);
}

/* The last client's hits are of one lane. */
static int draw_hash(struct world *w, const struct process *life, const struct client *c)
{
    bool one = w->config.lanes > 1 && c == &life->daemon->clients[SIM_CLIENTS - 1];
    int hash;
    do
        hash = (int)world_below(w, w->config.hashes);
    while (one && world_lane_of(w, hash) != world_lane_of(w, life->instance));
    return hash;
}

static struct expect draw_hit(struct process *life, const struct client *c)
{
    struct world *w = life->w;
    struct expect e = {.token = w->config.tokens_percent > 0 && world_percent(w, w->config.tokens_percent)};
    if (e.token && world_percent(w, w->config.again_percent)) {
        e.again = tokens_draw(w, &e.hash, &e.field, &e.k);
        if (e.again) return e;
    }
    e.hash = draw_hash(w, life, c);
    e.field = (int)world_below(w, w->config.fields);
    e.token = e.token && tokens_fit(w, e.hash);
    return e;
}

static struct expect draw_expect(struct process *life, const struct client *c)
{
    struct world *w = life->w;
    if (world_percent(w, 5)) return (struct expect){.hash = EXPECT_LITERAL};
    if (w->config.ops_percent > 0 && world_percent(w, w->config.ops_percent))
        return (struct expect){.hash = EXPECT_OP, .field = draw_target(w)};
    return draw_hit(life, c);
}

static void park(struct process *life, struct client *c, struct expect e)
{
    coalesce_park(life->coalesce, outlet_at(life, c));
    c->parked = true;
    c->parked_at = life->lane;
    c->parked_ms = life->w->now_ms;
    c->again = e;
}

/* Over lanes an error line waits its turn like any answer. False: no answer is owed, so the client gets it at once. */
static bool refused_behind(struct client *c, struct expect e)
{
    if (c->order == NULL || c->outlet.waiting == 0) return false;
    order_local(c->order, &c->outlet, SLICE("-BUSY tallyd says so\r\n"));
    expect_push(c, e);
    return true;
}

static void send_literal(struct process *life, struct client *c, struct expect e)
{
    if (c->outlet.waiting == 0) return; /* then it would be written at once, past coalesce */
    if (c->order != NULL) {
        order_local(c->order, &c->outlet, SLICE("+PONG\r\n"));
        expect_push(c, e);
        return;
    }
    enum add_result result = coalesce_literal(life->coalesce, &c->outlet, SLICE("+PONG\r\n"));
    if (result == ADD_OK)
        expect_push(c, e);
    else if (result == ADD_FULL)
        park(life, c, e);
    else if (result != ADD_DOWN && result != ADD_BUSY)
        fault_found(life->w, FAULT_PROTOCOL, "a literal was answered with %d", (int)result);
}

static void send_hit(struct process *life, struct client *c, struct expect e)
{
    struct world *w = life->w;
    unsigned *n = &w->oracle.hits_n[e.hash][e.field];
    if (*n == SIM_HITS) return;
    e.k = (*n)++;
    enum add_result result = coalesce_add(life->coalesce, outlet_at(life, c), world_hash_name(w, e.hash),
                                          world_field_name(w, e.hash, e.field), world_delta(w, e.field, e.k));
    TRACE(w, "client of life %d: hit %u on %.*s field %d: %d", life->index, e.k,
          SLICE_ARG(world_hash_name(w, e.hash)), e.field, (int)result);
    if (result == ADD_OK) {
        life->hits++;
        expect_at(life, c, e);
    } else if (result == ADD_FULL) {
        (*n)--;
        park(life, c, e);
    } else if (result == ADD_DOWN || result == ADD_BUSY ||
               (result == ADD_NO_COUNTER && !life_knows(life, e.hash))) {
        if (!refused_behind(c, e)) oracle_told(w, e.hash, e.field, e.k, TOLD_REFUSED, NULL);
    } else {
        fault_found(w, FAULT_PROTOCOL, "a good hit was answered with %d", (int)result);
    }
}

/* With a token: a new one, or one that was sent before. */
static void send_token(struct process *life, struct client *c, struct expect e)
{
    struct world *w = life->w;
    unsigned *n = &w->oracle.hits_n[e.hash][e.field];
    if (!e.again && *n == SIM_HITS) return;
    if (!e.again) e.k = (*n)++;
    enum add_result result = tokens_send(life, outlet_at(life, c), e.hash, e.field, e.k);
    TRACE(w, "client of life %d: hit %u with a token%s on %.*s field %d: %d", life->index, e.k,
          e.again ? ", again," : "", SLICE_ARG(world_hash_name(w, e.hash)), e.field, (int)result);
    if (result == ADD_FULL) {
        if (!e.again) (*n)--;
        park(life, c, e);
        return;
    }
    w->oracle.hits[e.hash][e.field][e.k].sent++;
    if (result == ADD_OK)
        expect_at(life, c, e);
    else if (result == ADD_DOWN || result == ADD_BUSY ||
             (result == ADD_NO_COUNTER && !life_knows(life, e.hash)))
        oracle_told_token(w, e.hash, e.field, e.k, TOLD_REFUSED, NULL);
    else
        fault_found(w, FAULT_PROTOCOL, "a good token was answered with %d", (int)result);
}

static void send_op(struct process *life, struct client *c, struct expect e)
{
    struct world *w = life->w;
    unsigned *n = &w->oracle.ops_n[e.field];
    if (*n == SIM_HITS) return;
    e.k = (*n)++;
    enum add_result result = ops_send(life, &c->outlet, e.field, e.k);
    TRACE(w, "client of life %d: op %u on target %d: %d", life->index, e.k, e.field, (int)result);
    if (result == ADD_OK) {
        expect_push(c, e);
    } else if (result == ADD_FULL) {
        (*n)--;
        park(life, c, e);
    } else if (result == ADD_DOWN || result == ADD_BUSY) {
        ops_refused(w, e.field, e.k);
    } else {
        fault_found(w, FAULT_PROTOCOL, "a good op was answered with %d", (int)result);
    }
}

static void client_send(struct process *life, struct client *c, struct expect e)
{
    if (e.hash == EXPECT_LITERAL)
        send_literal(life, c, e);
    else if (e.hash == EXPECT_OP)
        send_op(life, c, e);
    else if (e.token)
        send_token(life, c, e);
    else
        send_hit(life, c, e);
}

void client_hit(struct process *life, struct client *c)
{
    struct world *w = life->w;
    struct expect e = c->parked ? c->again : draw_expect(life, c);
    unsigned lane = w->lane;
    c->parked = c->may_go_on = false;
    world_at(w, e.hash < 0 ? lane : lane_of_hit(life, e.hash));
    client_send(life->daemon->life, c, e);
    world_at(w, lane);
}

/* --- replies to the client --- */

static void told(struct world *w, struct expect e, enum told what, const int64_t *value)
{
    if (e.token)
        oracle_told_token(w, e.hash, e.field, e.k, what, value);
    else
        oracle_told(w, e.hash, e.field, e.k, what, value);
}

static void answered(struct process *life, struct expect e, struct slice line)
{
    struct world *w = life->w;
    bool literal = slice_eq(line, SLICE("+PONG"));
    int64_t value;
    if (literal != (e.hash == EXPECT_LITERAL)) {
        fault_found(w, FAULT_ANSWER, "answers out of order: got %.*s", SLICE_ARG(line));
    } else if (literal) {
        return;
    } else if (e.hash == EXPECT_OP) {
        ops_told(w, e.field, e.k, line);
    } else if (line.p[0] == ':' && num_parse(slice_of(line.p + 1, line.n - 1), &value)) {
        told(w, e, TOLD_DONE, &value);
    } else if (slice_starts(line, SLICE("-ERR outcome unknown"))) {
        w->oracle.hits[e.hash][e.field][e.k].answered_unknown = true;
        told(w, e, TOLD_UNKNOWN, NULL);
    } else if (line.p[0] == '-') {
        TRACE(w, "client: %.*s", SLICE_ARG(line));
        told(w, e, TOLD_REFUSED, NULL);
    } else {
        fault_found(w, FAULT_ANSWER, "not a reply to an increment: %.*s", SLICE_ARG(line));
    }
}

/* All that was written. */
static void client_read(struct process *life, struct client *c)
{
    struct slice rest = buf_slice(&c->outlet.out);
    while (rest.n > 0) {
        const char *end = memchr(rest.p, '\r', rest.n);
        if (end == NULL || end + 1 == rest.p + rest.n || end[1] != '\n' || c->n == 0) {
            fault_found(life->w, FAULT_ANSWER, "answered twice, or half a line: %.*s", SLICE_ARG(rest));
            break;
        }
        struct slice line = slice_of(rest.p, (size_t)(end - rest.p));
        rest = slice_of(end + 2, rest.n - line.n - 2);
        if (line.n > 0 && line.p[0] == '$') { /* a bulk string: no CR LF is in one */
            end = rest.n > 0 ? memchr(rest.p, '\r', rest.n) : NULL;
            line = slice_of(rest.p, end == NULL ? 0 : (size_t)(end - rest.p));
            rest = end == NULL ? slice_of(rest.p, 0) : slice_of(end + 2, rest.n - line.n - 2);
        }
        answered(life, expect_pop(c), line);
    }
    buf_reset(&c->outlet.out);
}

void client_answered(struct process *life, struct outlet *o)
{
    struct client *c = client_of(life, o);
    if (c->order != NULL) order_answers(life, c);
    client_read(life, c);
}

static void forget_expects(struct world *w, struct client *c)
{
    while (c->n > 0) {
        struct expect e = expect_pop(c);
        if (e.hash == EXPECT_OP) ops_told_unknown(w, e.field, e.k);
        if (e.hash >= 0) told(w, e, TOLD_UNKNOWN, NULL);
    }
}

static void unpark(struct daemon *d, struct client *c)
{
    struct process *life = d->lives[c->parked_at];
    if (c->parked) coalesce_unpark(life->coalesce, outlet_at(life, c));
    c->parked = c->may_go_on = false;
}

void client_leave(struct daemon *d, struct client *c)
{
    struct world *w = d->life->w;
    TRACE(w, "client of life %d leaves, %u answers owed", d->life->index, c->outlet.waiting);
    unpark(d, c);
    c->outlet.gone = true;
    forget_expects(w, c);
    if (c->order != NULL && order_gone(c->order, &c->outlet)) c->order = NULL;
    client_recycle(c);
}

void client_close(struct daemon *d, struct client *c)
{
    unpark(d, c);
    if (c->order != NULL) (void)order_gone(c->order, &c->outlet);
    buf_free(&c->outlet.out);
    client_init(c);
}

void client_recycle(struct client *c)
{
    if (!c->outlet.gone || c->outlet.waiting > 0) return;
    buf_free(&c->outlet.out);
    client_init(c);
}

/* The heap of the life is gone, and the outlet's bytes with it. */
void client_crashed(struct world *w, struct client *c)
{
    forget_expects(w, c);
    client_init(c);
}
