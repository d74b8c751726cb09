/* tests/sim/totals.c - live totals: asked for at random; the script of Redis, MySQL's snapshot, and what must be in one. */
#include "sim/totals.h"
#include "sim/ports.h"
#include "sim/questions.h"
#include "sim/world.h"

#include "base/heap.h"
#include "base/slice.h"

/* --- Redis --- */

static void port_redis(void *arg, struct total_read *r)
{
    struct process *life = arg;
    struct request *q = ports_ask(life, ROLE_SYNC, REQ_TOTAL, r);
    if (q != NULL) q->total.hash = world_hash_of(life->w, r->key);
}

void totals_run(const struct redis *r, struct wire_total *t)
{
    t->wrong_type = r->now.wrong_type[t->hash];
    t->gen = r->now.gen;
    t->pending = r->now.pending[t->hash];
    for (int i = 0; i < SIM_BATCHES; i++) {
        const struct twin_batch *b = &r->now.batch[i];
        if (!b->used || !b->stands || b->hlen[t->hash] == 0) continue;
        t->ids[t->n] = b->id;
        t->claimed[t->n++] = b->claimed[t->hash];
    }
}

static struct slice digits_of(const struct twin_hash *h, int field, char digits[21])
{
    return slice_of(digits, (h->has & 1 << field) != 0 ? num_write(h->value[field], digits) : 0);
}

void totals_deliver(const struct world *w, struct total_read *r, const struct wire_total *t)
{
    char digits[21];
    r->lost = t->wrong_type;
    r->gen = (int64_t)t->gen;
    for (uint32_t f = 0; f < r->fields_n && !r->lost; f++)
        r->pending(r->arg, f, digits_of(&t->pending, world_field_of(w, t->hash, r->fields[f]), digits));
    for (unsigned i = 0; i < t->n && !r->lost; i++)
        for (uint32_t f = 0; f < r->fields_n; f++)
            r->claimed(r->arg, &t->ids[i], f,
                       digits_of(&t->claimed[i], world_field_of(w, t->hash, r->fields[f]), digits));
    r->done(r);
}

void totals_lost(struct total_read *r)
{
    r->lost = r->cut = true;
    r->done(r);
}

/* --- MySQL --- */

/* Owned by the books. */
static struct slice left_of(const struct world *w, const struct ledger_row *row)
{
    struct buf names = {0};
    if (world_rule(w, WORLD_BY_CHUNK)) mysql_put_left(w, row->left, &names);
    return buf_slice(&names);
}

static void put_chunk(struct world *w, struct books *b, const struct ledger_row *row)
{
    bool whole = !world_rule(w, WORLD_BY_CHUNK);
    b->chunks = heap_realloc(b->chunks, (b->chunks_n + 1) * sizeof *b->chunks);
    struct slice first = whole ? SLICE("") : slice_of(row->first, row->first_n);
    struct slice last = whole ? SLICE("\xff") : slice_of(row->last, row->last_n);
    b->chunks[b->chunks_n++] =
        (struct books_chunk){.batch = row->batch,
                             .first_key = slice_of(heap_strndup(first.p, first.n), first.n),
                             .last_key = slice_of(heap_strndup(last.p, last.n), last.n),
                             .waiting = left_of(w, row)};
}

static void read_books(struct world *w, struct books_totals *t)
{
    const struct mysql *m = &w->mysql;
    unsigned realm = mysql_realm(w, &t->epoch.realm);
    t->stale = !batch_id_same(&t->epoch.id, &m->realms[realm].epoch.id);
    for (size_t i = 0; i < t->n; i++) {
        struct books_total *of = &t->all[i];
        of->stored = heap_zalloc((of->fields_n + 1) * sizeof *of->stored);
        for (size_t f = 0; f < of->fields_n; f++)
            of->stored[f] = mysql_count(w, t->counter, of->key, of->fields[f]);
        for (size_t k = 0; k < m->ledger_n; k++)
            of->newer |= m->ledger[k].realm == realm && &w->counter[m->ledger[k].counter] == t->counter &&
                         (int64_t)m->ledger[k].gen > of->gen;
    }
    for (size_t k = 0; k < m->ledger_n; k++)
        for (size_t i = 0; i < t->ids_n; i++)
            if (memcmp(&t->ids[i], &m->ledger[k].batch, sizeof t->ids[i]) == 0)
                put_chunk(w, &t->books, &m->ledger[k]);
}

static void answer_stored(struct process *life, void *target)
{
    struct total_stored *s = target;
    s->ran = life->w->mysql.up;
    if (s->ran) read_books(life->w, &s->books);
    if (s->ran) total_sum(s);
    s->done(s);
}

static void port_mysql(void *arg, struct total_stored *s)
{
    questions_ask(arg, answer_stored, s);
}

static uint64_t port_mono_ms(void *arg)
{
    return life_mono_ms(arg);
}

/* --- clients --- */

void totals_wire(struct process *life)
{
    struct total_ports ports = {
        .arg = life, .redis = port_redis, .mysql = port_mysql, .mono_ms = port_mono_ms};
    totals_init(&life->totals, life->sync, &life->gate, &ports, life->w->config.coalesce.busy_ms,
                life->w->config.sync.give_up_ms);
}

/* The others may merge an old primary's batch under a gen that it counted as well. */
static bool is_of_old(const struct sim_total *t)
{
    const struct world *w = t->life->w;
    return w->config.moves && w->config.daemons > 1 && (t->astray || t->run != w->redis->run);
}

static void total_done(struct total_request *q)
{
    struct sim_total *t = CONTAINER_OF(q, struct sim_total, request);
    struct world *w = t->life->w;
    TRACE(w, "life %d: CTR.TOTAL of hash %d ends with %d", t->life->index, t->hash, (int)q->outcome);
    t->busy = false;
    if (is_of_old(t)) return;
    bool sees_all = !moves_strayed(t->life, t->strays);
    for (uint32_t f = 0; f < q->fields_n && q->outcome == ASK_DONE; f++)
        oracle_total(w, t->life->index, t->hash, (int)f, sees_all ? t->answered[t->hash][f] : 0,
                     q->totals[f]);
}

void totals_draw(struct process *life)
{
    struct world *w = life->w;
    struct sim_total *t = &life->asked[world_below(w, SIM_TOTALS)];
    int hash = (int)world_below(w, w->config.hashes);
    if (t->busy || !life_knows(life, hash) || world_lane_of(w, hash) != life->lane) return;
    *t = (struct sim_total){.life = life,
                            .hash = hash,
                            .busy = true,
                            .astray = moves_astray(life),
                            .run = w->redis->run,
                            .strays = life->strays};
    oracle_answered(life, t->answered);
    for (unsigned f = 0; f < w->config.fields; f++)
        t->fields[f] = world_field_name(w, hash, (int)f);
    t->request = (struct total_request){.key = world_hash_name(w, hash),
                                        .counter = &w->counter[world_counter_of(w, hash)],
                                        .fields = t->fields,
                                        .fields_n = w->config.fields,
                                        .done = total_done};
    TRACE(w, "life %d: CTR.TOTAL of hash %d", life->index, hash);
    struct arena *before = daemon_enter(life);
    totals_ask(&life->totals, &t->request);
    daemon_leave(life, before);
}
