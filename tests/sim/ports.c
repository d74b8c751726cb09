/* tests/sim/ports.c - requests on their way out; see ports.h. deliver.c has the way back. */
#include "sim/ports.h"
#include "sim/filing.h"
#include "sim/world.h"

#include "base/heap.h"
#include "series/frame.h"

/* A request without a link is answered as lost at one of the next turns. */
struct request *ports_ask(struct process *life, enum role role, enum request_kind kind, void *target)
{
    struct link *l = life->links[role];
    TRACE(life->w, "life %d: asks %s%s", life->index, request_name(kind), l == NULL ? ", no link" : "");
    struct arena *before = arena_enter(&life->w->arena);
    struct request *q = NULL;
    if (l != NULL) {
        q = request_send(l, kind, target, life->w->now_ms);
        q->least = life->number;
        if (kind == REQ_FENCE) q->fence = ++life->fences;
        if (kind == REQ_WAIT) q->fence = ++life->client_waits;
    } else if (target != NULL) {
        PRE(role != ROLE_FRAME || kind == REQ_JOURNAL_TAKE);
        struct lost *lost = heap_zalloc(sizeof *lost);
        lost->kind = kind;
        lost->target = target;
        list_push(&life->lost, &lost->link);
    }
    arena_enter(before);
    return q;
}

static int hash_of(struct process *life, struct slice key)
{
    int hash = world_hash_of(life->w, key);
    INVARIANT(hash >= 0);
    return hash;
}

static void wire_cells(struct process *life, struct wire_frame *wire, const struct frame *f)
{
    bool seen[SIM_HASHES][SIM_FIELDS] = {{false}};
    for (uint32_t i = 0; i < f->cells_n; i++) {
        const struct frame_cell *c = &f->cells[i];
        int hash = hash_of(life, f->hashes[c->hash].key),
            field = world_field_of(life->w, hash, FRAME_FIELD(f, c));
        if (seen[hash][field]) fault_found(life->w, FAULT_PROTOCOL, "one field has two cells in a frame");
        if (seen[hash][field]) return;
        seen[hash][field] = true;
        wire->cells[wire->cells_n++] = (struct wire_cell){.hash = hash, .field = field, .delta = c->delta};
    }
}

/* The parts of a frame that are sent again, as redis/ keeps them; without those that failed. */
void ports_keep(struct frame *f, const struct wire_frame *ran)
{
    struct wire_frame *k = heap_zalloc(sizeof *k);
    *k = *ran;
    k->again = true;
    k->appends_n = k->cells_n = k->tokens_n = k->ops_n = 0;
    for (unsigned i = 0; i < ran->cells_n; i++)
        if (ran->cells[i].error == NULL) k->cells[k->cells_n++] = ran->cells[i];
    for (unsigned i = 0; i < ran->tokens_n; i++)
        if (ran->tokens[i].error == NULL) k->tokens[k->tokens_n++] = ran->tokens[i];
    for (unsigned i = 0; i < ran->ops_n; i++)
        if (ran->ops[i].kind == OP_UNIQ && ran->ops[i].error == NULL) k->ops[k->ops_n++] = ran->ops[i];
    bool any = k->cells_n + k->tokens_n + k->ops_n + f->shares_n > 0; /* the other ops are coalesce's */
    buf_reset(&f->again);
    if (any) buf_put(&f->again, (const char *)k, sizeof *k);
    heap_free(k);
}

static bool has_cell(const struct wire_frame *wire, int hash)
{
    for (unsigned i = 0; i < wire->cells_n; i++)
        if (wire->cells[i].hash == hash) return true;
    return false;
}

static void port_send_kept(void *arg, struct kept_frame *k)
{
    struct process *life = arg;
    struct wire_frame *wire = &ports_ask(life, ROLE_FRAME, REQ_REPLAY, k)->frame;
    struct frame lost = {0};
    PRE(k->bytes.n == 0 || k->bytes.n == sizeof *wire);
    if (k->bytes.n > 0) memcpy(wire, k->bytes.p, sizeof *wire);
    wire->again = true;
    wire->seq = k->seq;
    wire->dirty_ms = k->dirty_ms;
    kept_take_ops(&lost, buf_slice(&k->records), k->found);
    ops_to_wire(life, wire, &lost);
    frame_free(&lost);
    for (unsigned i = 0; i < wire->hashes_n; i++) {
        struct wire_hash *h = &wire->hashes[i];
        h->zadd = has_cell(wire, h->hash);
        h->ask_lock = false;
    }
    for (unsigned i = 0; i < wire->cells_n; i++)
        oracle_sent(life->w, wire->cells[i].hash, wire->cells[i].field, wire->cells[i].delta);
    TRACE(life->w, "life %d: frame %llu again, which Redis lost, %u cells, %u tokens, %u ops", life->index,
          (unsigned long long)k->seq, wire->cells_n, wire->tokens_n, wire->ops_n);
}

static void port_caught_up(void *arg)
{
    daemon_caught_up(arg);
}

static void port_send_frame(void *arg, struct frame *f)
{
    struct process *life = arg;
    struct wire_frame *wire = &ports_ask(life, ROLE_FRAME, REQ_FRAME, f)->frame;
    PRE(f->hashes_n <= SIM_HASHES);
    wire->seq = f->seq;
    wire->dirty_ms = f->dirty_ms;
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        const struct frame_hash *h = &f->hashes[i];
        wire->hashes[i] = (struct wire_hash){
            .hash = hash_of(life, h->key), .zadd = h->zadd, .ask_lock = h->ask_lock, .lock_s = h->lock_s};
    }
    wire->hashes_n = f->hashes_n;
    wire_cells(life, wire, f);
    tokens_to_wire(life, wire, f);
    ops_to_wire(life, wire, f);
    journals_to_wire(wire, f);
    for (unsigned i = 0; i < wire->cells_n; i++)
        oracle_sent(life->w, wire->cells[i].hash, wire->cells[i].field, wire->cells[i].delta);
    for (uint32_t i = 0; i < f->shares_n; i++)
        wire->share[f->shares[i].counter - life->w->counter] += f->shares[i].delta;
    filing_send(life, f);
    ports_keep(f, wire);
    TRACE(life->w, "life %d: frame %llu, %u hashes, %u cells, %u tokens, %u ops", life->index,
          (unsigned long long)f->seq, f->hashes_n, f->cells_n, f->tokens_n, f->ops_n);
}

static void port_fence(void *arg, struct fence *f)
{
    ports_ask(arg, ROLE_FENCE, REQ_FENCE, f);
}

static void port_send_claim(void *arg, struct claim *c)
{
    struct process *life = arg;
    PRE(c->keys_n <= SIM_HASHES);
    struct wire_claim *wire = &ports_ask(life, ROLE_FRAME, REQ_CLAIM, c)->claim;
    wire->id = c->id;
    wire->counter = (int)(c->counter - life->w->counter);
    wire->every_s = c->counter->every_s;
    wire->n = c->keys_n;
    for (uint32_t i = 0; i < c->keys_n; i++)
        wire->hashes[i] = hash_of(life, c->keys[i]);
    for (uint32_t i = 0; i < c->keys_n; i++)
        TRACE(life->w, "life %d: claims %.*s", life->index, SLICE_ARG(c->keys[i]));
}

static void port_kill(void *arg, int64_t client_id)
{
    struct process *life = arg;
    ports_ask(life, ROLE_FRAME, REQ_KILL, life)->client_id = client_id;
}

static void port_look(void *arg, const struct link_look *l)
{
    struct process *life = arg;
    struct wire_look *wire = &ports_ask(life, ROLE_FRAME, REQ_LOOK, life)->look;
    PRE(l->claims_n <= sizeof wire->ids / sizeof wire->ids[0] && l->journals_n <= SIM_JOURNALS);
    wire->n = l->claims_n;
    for (uint32_t i = 0; i < l->claims_n; i++)
        wire->ids[i] = l->claims[i]->id;
    wire->journals_n = l->journals_n;
    for (uint32_t i = 0; i < l->journals_n; i++)
        memcpy(wire->journals[i], l->journals[i].p, l->journals[i].n);
}

static void port_journals_lost(void *arg)
{
    struct process *life = arg;
    takeover_soon(&life->takeover);
    life->read.answered = 0; /* reads that wait come before what is read again */
}

static void port_read_values(void *arg, struct frame *f)
{
    struct process *life = arg;
    struct wire_frame *wire = &ports_ask(life, ROLE_FRAME, REQ_VALUES, f)->frame;
    wire_cells(life, wire, f);
    tokens_to_wire(life, wire, f);
    filing_read_values(life, f);
}

static void port_due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    struct process *life = arg;
    sync_due(life->sync, c, key, why);
}

static void port_answered(void *arg, struct outlet *o)
{
    client_answered(arg, o);
}

static void port_room(void *arg, struct outlet *o)
{
    client_of(arg, o)->may_go_on = true;
}

static void port_fatal(void *arg, const char *text)
{
    struct process *life = arg;
    fault_found(life->w, FAULT_PROTOCOL, "life %d stops: %s", life->index, text);
}

static uint64_t port_mono_ms(void *arg)
{
    return life_mono_ms(arg);
}

static uint64_t port_mono_us(void *arg)
{
    return port_mono_ms(arg) * 1000;
}

static int64_t port_redis_ms(void *arg)
{
    return life_redis_ms(arg);
}

struct coalesce_ports ports_coalesce(struct process *life)
{
    return (struct coalesce_ports){.arg = life,
                                   .send_frame = port_send_frame,
                                   .send_claim = port_send_claim,
                                   .send_kept = port_send_kept,
                                   .fence = port_fence,
                                   .caught_up = port_caught_up,
                                   .kill = port_kill,
                                   .life = &life->life,
                                   .look = port_look,
                                   .journals_lost = port_journals_lost,
                                   .read_values = port_read_values,
                                   .due = port_due,
                                   .answered = port_answered,
                                   .room = port_room,
                                   .fatal = port_fatal,
                                   .mono_ms = port_mono_ms,
                                   .mono_us = port_mono_us,
                                   .redis_ms = port_redis_ms};
}

static void port_claim(void *arg, struct claim *c)
{
    struct process *life = arg;
    coalesce_claim(life->coalesce, c);
}

static void port_scan(void *arg, struct scan *s)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_SCAN, s);
    if (q != NULL) q->scan.id = s->batch->id;
}

static void port_merge(void *arg, struct chunk *c)
{
    struct process *life = arg;
    struct arena *before = arena_enter(&life->w->arena);
    mysql_submit(life, c);
    arena_enter(before);
}

static void port_discard(void *arg, struct discard *d)
{
    gate_merged(&((struct process *)arg)->gate, d->batch->gen);
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_DISCARD, d);
    if (q == NULL) return;
    q->scan.id = d->batch->id;
    for (size_t i = 0; i < d->batch->hashes_n; i++)
        q->scan.hlen[hash_of(arg, batch_hash_name(d->batch, i))] = 1;
}

static void port_adopt(void *arg, struct adopt *a)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_ADOPT, a);
    if (q == NULL) return;
    q->ids.mode = a->mode;
    q->ids.stale_ms = a->stale_ms;
    q->ids.limit = a->limit;
}

static void port_due_poll(void *arg, struct due_poll *p)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_DUE_POLL, p);
    if (q == NULL) return;
    q->names.highest = p->highest;
    q->names.before_ms = p->highest ? INT64_MAX : p->before_ms;
    q->names.skip = p->skip;
    q->names.limit = p->limit;
}

static void port_standing(void *arg, struct standing *s)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_STANDING, s);
    if (q != NULL) q->ids.hash = s->key.n > 0 ? hash_of(arg, s->key) : -1;
}

static void port_epoch_over(void *arg)
{
    gate_epoch_over(&((struct process *)arg)->gate);
}

static void port_beat(void *arg, const struct batch_id *ids, uint32_t n)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_BEAT, NULL);
    if (q == NULL) return;
    PRE(n <= SIM_BATCHES);
    q->ids.n = n;
    if (n > 0) memcpy(q->ids.ids, ids, n * sizeof *ids);
}

static void port_hold_names(void *arg, const struct slice *names, uint32_t n)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_HOLD_NAMES, NULL);
    if (q == NULL) return;
    PRE(n <= SIM_HASHES);
    q->names.n = n;
    for (uint32_t i = 0; i < n; i++)
        q->names.hashes[i] = hash_of(arg, names[i]);
}

static void port_draw_id(void *arg, struct batch_id *id)
{
    struct process *life = arg;
    for (size_t i = 0; i < sizeof id->bytes; i++)
        id->bytes[i] = (uint8_t)prng_next(&life->w->prng);
}

static uint64_t port_hits(void *arg)
{
    const struct process *life = arg;
    return life->hits;
}

/* Now and then they wait longer beside chunks. */
static uint64_t port_felt_us(void *arg)
{
    const struct process *life = arg;
    return 300 * life->hits + 100 * (life->hits & ~UINT64_C(15));
}

struct sync_ports ports_sync(struct process *life)
{
    return (struct sync_ports){.arg = life,
                               .claim = port_claim,
                               .scan = port_scan,
                               .fence = port_fence,
                               .merge = port_merge,
                               .discard = port_discard,
                               .adopt = port_adopt,
                               .due_poll = port_due_poll,
                               .standing = port_standing,
                               .epoch_over = port_epoch_over,
                               .beat = port_beat,
                               .hold_names = port_hold_names,
                               .mono_ms = port_mono_ms,
                               .redis_ms = port_redis_ms,
                               .draw_id = port_draw_id,
                               .hits = port_hits,
                               .felt_us = port_felt_us};
}
