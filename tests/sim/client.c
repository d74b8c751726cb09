/* tests/sim/client.c - see client.h. */
#include "sim/world.h"

#include "base/num.h"

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
    return c->parked ? c->may_go_on : !life->w->calm && hits_left(life->w);
}

/* Visitors are of stores of the first counter. */
static int draw_target(struct world *w)
{
    int hash = (int)world_below(w, w->config.hashes), target = (int)world_below(w, OP_VISITORS_TARGET + 1);
    if (target < OP_VISITORS_TARGET) return target;
    return OP_VISITORS_TARGET + (world_counter_of(w, hash) == 0 ? hash : 0);
}

static struct expect draw_hit(struct world *w)
{
    struct expect e = {.token = w->config.tokens_percent > 0 && world_percent(w, w->config.tokens_percent)};
    if (e.token && world_percent(w, w->config.again_percent)) {
        e.again = tokens_draw(w, &e.hash, &e.field, &e.k);
        if (e.again) return e;
    }
    e.hash = (int)world_below(w, w->config.hashes);
    e.field = (int)world_below(w, w->config.fields);
    e.token = e.token && tokens_fit(w, e.hash);
    return e;
}

static struct expect draw_expect(struct world *w)
{
    if (world_percent(w, 5)) return (struct expect){.hash = EXPECT_LITERAL};
    if (w->config.ops_percent > 0 && world_percent(w, w->config.ops_percent))
        return (struct expect){.hash = EXPECT_OP, .field = draw_target(w)};
    return draw_hit(w);
}

static void park(struct process *life, struct client *c, struct expect e)
{
    coalesce_park(life->coalesce, &c->outlet);
    c->parked = true;
    c->again = e;
}

static void send_literal(struct process *life, struct client *c, struct expect e)
{
    if (c->outlet.waiting == 0) return; /* then it would be written at once, past coalesce */
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
    enum add_result result = coalesce_add(life->coalesce, &c->outlet, world_hash_name(w, e.hash),
                                          world_field_name(e.field), world_delta(w, e.field, e.k));
    TRACE(w, "client of life %d: hit %u on %.*s field %d: %d", life->index, e.k,
          SLICE_ARG(world_hash_name(w, e.hash)), e.field, (int)result);
    if (result == ADD_OK) {
        life->hits++;
        expect_push(c, e);
    } else if (result == ADD_FULL) {
        (*n)--;
        park(life, c, e);
    } else if (result == ADD_DOWN || result == ADD_BUSY ||
               (result == ADD_NO_COUNTER && !life_knows(life, e.hash))) {
        oracle_told(w, e.hash, e.field, e.k, TOLD_REFUSED, NULL);
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
    enum add_result result = tokens_send(life, &c->outlet, e.hash, e.field, e.k);
    TRACE(w, "client of life %d: hit %u with a token%s on %.*s field %d: %d", life->index, e.k,
          e.again ? ", again," : "", SLICE_ARG(world_hash_name(w, e.hash)), e.field, (int)result);
    if (result == ADD_FULL) {
        if (!e.again) (*n)--;
        park(life, c, e);
        return;
    }
    w->oracle.hits[e.hash][e.field][e.k].sent++;
    if (result == ADD_OK)
        expect_push(c, e);
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

void client_hit(struct process *life, struct client *c)
{
    struct expect e = c->parked ? c->again : draw_expect(life->w);
    c->parked = c->may_go_on = false;
    if (e.hash == EXPECT_LITERAL)
        send_literal(life, c, e);
    else if (e.hash == EXPECT_OP)
        send_op(life, c, e);
    else if (e.token)
        send_token(life, c, e);
    else
        send_hit(life, c, e);
}

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

void client_read(struct process *life, struct client *c)
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

static void forget_expects(struct world *w, struct client *c)
{
    while (c->n > 0) {
        struct expect e = expect_pop(c);
        if (e.hash == EXPECT_OP) ops_told_unknown(w, e.field, e.k);
        if (e.hash >= 0) told(w, e, TOLD_UNKNOWN, NULL);
    }
}

void client_leave(struct process *life, struct client *c)
{
    TRACE(life->w, "client of life %d leaves, %u answers owed", life->index, c->outlet.waiting);
    if (c->parked) coalesce_unpark(life->coalesce, &c->outlet);
    c->parked = c->may_go_on = false;
    c->outlet.gone = true;
    forget_expects(life->w, c);
    client_recycle(c);
}

void client_recycle(struct client *c)
{
    if (!c->outlet.gone || c->outlet.waiting > 0) return;
    buf_free(&c->outlet.out);
    client_init(c);
}

/* The heap of the life is gone, and the outlet's bytes with it. */
void client_crashed(struct process *life, struct client *c)
{
    forget_expects(life->w, c);
    client_init(c);
}
