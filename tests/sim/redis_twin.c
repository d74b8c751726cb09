/* tests/sim/redis_twin.c - see redis_twin.h. The commands here; frames and claims, which change counts,
 * first. */
#include "sim/totals.h"
#include "sim/world.h"

#include "base/heap.h"
#include "base/sm.h"
#include <stdio.h>

static void batch_copy(struct twin_batch *to, const struct twin_batch *from)
{
    if (from->used)
        *to = *from;
    else if (to->used)
        *to = (struct twin_batch){0};
}

static void journal_copy(struct twin_journal *to, const struct twin_journal *from)
{
    memcpy(to, from, offsetof(struct twin_journal, bytes) + from->n);
}

void redis_state_copy(struct twin_state *to, const struct twin_state *from)
{
    memcpy(to, from, offsetof(struct twin_state, batch));
    for (int i = 0; i < SIM_BATCHES; i++)
        batch_copy(&to->batch[i], &from->batch[i]);
    for (int i = 0; i < SIM_JOURNALS; i++)
        journal_copy(&to->journal[i], &from->journal[i]);
}

/* The log begins with what is there now. */
static void past_begin(struct redis *r, uint64_t offset, uint64_t now_ms)
{
    r->past_n = 1;
    r->past[0].offset = offset;
    r->past[0].at_ms = now_ms;
    redis_state_copy(r->past[0].state, &r->now);
}

void redis_init(struct redis *r, bool fresh)
{
    memset(&r->now, 0, sizeof r->now);
    r->now.realm = !fresh;
    for (int i = 0; i < SIM_LIVES; i++)
        r->now.seq[i] = -1;
    for (int i = 0; i < PAST_MAX; i++)
        r->past[i].state = &r->kept[i];
    past_begin(r, 0, 0);
    r->offset = r->durable = 0;
    r->run = r->runs = r->history = r->histories = 1;
    r->is_other = r->alone = false;
    r->chosen = UINT64_MAX;
    r->refuses = r->dumped = r->restored = false;
    list_init(&r->links);
    r->client_id = 0;
    r->executions = NULL;
    r->executions_n = r->executions_cap = 0;
}

void redis_close(struct redis *r)
{
    while (!list_empty(&r->links))
        link_free(CONTAINER_OF(r->links.next, struct link, all));
    heap_free(r->executions);
}

void redis_run_id(unsigned run, char out[RUN_ID_BYTES])
{
    snprintf(out, RUN_ID_BYTES, "%040u", run);
}

/* The log. */

/* Their states go to the end, to be used again. */
static void past_drop(struct redis *r, unsigned first, unsigned n)
{
    struct past dropped[PAST_MAX];
    unsigned behind = r->past_n - first - n;
    memcpy(dropped, &r->past[first], n * sizeof dropped[0]);
    memmove(&r->past[first], &r->past[first + n], behind * sizeof r->past[0]);
    memcpy(&r->past[first + behind], dropped, n * sizeof dropped[0]);
    r->past_n -= n;
}

void redis_past_only(struct redis *r, unsigned which)
{
    past_drop(r, 0, which);
    r->past_n = 1;
}

void redis_wrote(struct world *w, struct link *l)
{
    struct redis *r = w->redis;
    if (r->is_other) return;
    if (r->past_n == PAST_MAX) past_drop(r, 1 + (unsigned)world_below(w, PAST_MAX - 2), 1);
    struct past *p = &r->past[r->past_n++];
    p->offset = ++r->offset;
    p->at_ms = w->now_ms;
    redis_state_copy(p->state, &r->now);
    if (l != NULL) l->wrote_at = r->offset;
}

void redis_fsync(struct redis *r, uint64_t up_to)
{
    if (up_to <= r->durable || r->alone) return;
    r->durable = up_to;
    unsigned old = 0;
    if (up_to > r->chosen) up_to = r->chosen;
    while (old + 1 < r->past_n && r->past[old].offset < up_to)
        old++;
    past_drop(r, 0, old);
}

void redis_age(struct redis *r, uint64_t now_ms, uint64_t lag_ms)
{
    uint64_t up_to = 0;
    for (unsigned i = 0; i < r->past_n && r->past[i].at_ms + lag_ms <= now_ms; i++)
        up_to = r->past[i].offset;
    redis_fsync(r, up_to);
}

void redis_restart(struct world *w, bool lose_tail)
{
    struct redis *r = w->redis;
    list_for_each (node, &r->links)
        link_kill(CONTAINER_OF(node, struct link, all));
    r->run = ++r->runs;
    r->history = ++r->histories;
    if (!lose_tail) return;
    unsigned to = world_percent(w, 50) ? 0 : (unsigned)world_below(w, r->past_n);
    r->past_n = to + 1;
    redis_state_copy(&r->now, r->past[to].state);
    r->offset = r->past[to].offset;
    TRACE(w, "redis: lost all after offset %llu", (unsigned long long)r->offset);
    oracle_lost_tail(w, r->offset);
}

static void copy_make(struct twin_copy *copy, const struct redis *r)
{
    copy->offset = r->offset;
    redis_state_copy(&copy->state, &r->now);
}

/* A copy of all, as BGSAVE makes it. */
void redis_dump(struct redis *r)
{
    r->dumped = true;
    copy_make(&r->dump, r);
}

static void start_anew(struct redis *r)
{
    list_for_each (node, &r->links)
        link_kill(CONTAINER_OF(node, struct link, all));
    r->run = ++r->runs;
    r->history = ++r->histories;
}

static void put_back(struct redis *r, const struct twin_copy *copy, uint64_t now_ms)
{
    redis_state_copy(&r->now, &copy->state);
    r->offset = r->durable = copy->offset;
    past_begin(r, r->offset, now_ms);
}

void redis_restore(struct world *w)
{
    struct redis *r = w->redis;
    TRACE(w, "redis: the copy of offset %llu is put back", (unsigned long long)r->dump.offset);
    r->restored = true;
    copy_make(&r->newest, r);
    r->newest_executions = r->executions_n;
    if (w->config.swaps)
        moves_tell(w, &r->links, &r->now, &r->dump.state);
    else
        start_anew(r);
    put_back(r, &r->dump, w->now_ms);
    oracle_restored(w);
}

void redis_mend(struct world *w)
{
    struct redis *r = w->redis;
    TRACE(w, "redis: what was there before the copy is put back");
    r->restored = false;
    start_anew(r);
    put_back(r, &r->newest, w->now_ms);
    oracle_mended(w);
}

void redis_reap(struct list *links)
{
    for (struct list *node = links->next, *next; node != links; node = next) {
        next = node->next;
        struct link *l = CONTAINER_OF(node, struct link, all);
        if (link_is_dead(l)) link_free(l);
    }
}

void redis_kill_named(struct redis *r, int instance, int life)
{
    list_for_each (node, &r->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        if (l->instance == instance && l->life != life) link_kill(l);
    }
}

void redis_kill_life(struct redis *r, int life)
{
    list_for_each (node, &r->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        if (l->life == life) link_kill(l);
    }
}

/* Batches. */

struct twin_batch *redis_batch(struct redis *r, const struct batch_id *id)
{
    for (int i = 0; i < SIM_BATCHES; i++) {
        struct twin_batch *b = &r->now.batch[i];
        if (b->used && memcmp(&b->id, id, sizeof *id) == 0) return b;
    }
    return NULL;
}

static struct twin_batch *batch_make(struct redis *r, const struct batch_id *id)
{
    struct twin_batch *b = redis_batch(r, id);
    for (int i = 0; i < SIM_BATCHES && b == NULL; i++)
        if (!r->now.batch[i].used) b = &r->now.batch[i];
    if (b == NULL || b->used) return b;
    memset(b, 0, sizeof *b);
    b->used = true;
    b->id = *id;
    return b;
}

static void batch_tidy(struct twin_batch *b)
{
    bool used = b->stands;
    for (int h = 0; h < SIM_HASHES; h++)
        used |= b->claimed[h].has != 0;
    b->used = used;
}

static unsigned hash_length(const struct twin_hash *h)
{
    return (unsigned)__builtin_popcount(h->has);
}

/* The frame. */

int redis_seq_slot(const struct world *w, const struct link *l)
{
    return world_rule(w, WORLD_LIFE) ? l->life : l->instance;
}

static const char wrong_type[] = "WRONGTYPE Operation against a key holding the wrong kind of value";

const char *redis_cell_error(const struct redis *r, int hash, int field)
{
    if (r->now.wrong_type[hash]) return wrong_type;
    return (r->now.full[hash] >> field & 1) != 0 ? "ERR increment or decrement would overflow" : NULL;
}

static void run_cell(struct redis *r, struct wire_cell *c)
{
    c->error = redis_cell_error(r, c->hash, c->field);
    if (c->error != NULL) return;
    struct twin_hash *h = &r->now.pending[c->hash];
    if ((h->has & 1 << c->field) == 0) h->value[c->field] = 0;
    h->has |= (uint8_t)(1 << c->field);
    h->value[c->field] += c->delta;
    c->value = h->value[c->field];
}

static void run_lock(struct world *w, const struct link *l, struct wire_hash *h)
{
    struct twin_lock *lock = &w->redis->now.lock[h->hash];
    int64_t now_ms = world_redis_ms(w);
    h->lock_granted = lock->until_ms <= now_ms;
    if (h->lock_granted) *lock = (struct twin_lock){l->instance, now_ms + INT64_C(1000) * h->lock_s};
    h->lock_pttl_ms = lock->until_ms - now_ms;
}

static void run_frame(struct world *w, struct link *l, struct wire_frame *f)
{
    struct redis *r = w->redis;
    f->refused = r->refuses && world_percent(w, w->config.refuse_percent);
    if (f->refused) return;
    for (unsigned i = 0; i < f->hashes_n; i++)
        if (f->hashes[i].zadd && r->now.dirty[f->hashes[i].hash] == 0)
            r->now.dirty[f->hashes[i].hash] = f->dirty_ms;
    for (unsigned i = 0; i < f->cells_n; i++)
        run_cell(r, &f->cells[i]);
    for (int i = 0; i < SIM_COUNTERS; i++)
        r->now.accepted[i] += f->share[i];
    for (unsigned i = 0; i < f->hashes_n; i++)
        if (f->hashes[i].ask_lock) run_lock(w, l, &f->hashes[i]);
    tokens_run(w, f);
    ops_run(w, l, f);
    journals_run(w, l, f);
    r->now.seq[redis_seq_slot(w, l)] = (int64_t)f->seq;
    redis_wrote(w, l);
    oracle_executed(w, l, f);
}

/* The claim. */

static bool knows_packed(const struct world *w, const struct link *l)
{
    return !w->config.older || l->instance == 0;
}

static int64_t lowest_score(struct world *w)
{
    int64_t lowest = world_redis_ms(w);
    for (int h = 0; h < SIM_HASHES; h++) {
        int64_t score = w->redis->now.dirty[h];
        if (score != 0 && score < lowest) lowest = score;
    }
    return lowest;
}

static bool claim_one(struct world *w, struct wire_claim *c, struct twin_batch *b, int h)
{
    struct twin_state *s = &w->redis->now;
    if (s->pending[h].has == 0) { /* not there, or a string */
        s->dirty[h] = 0;
        return false;
    }
    if (b->claimed[h].has != 0 && world_rule(w, WORLD_RENAMENX)) return false;
    b->claimed[h] = s->pending[h];
    bool later = (b->packed >> h & 1) != 0 && !world_rule(w, WORLD_PACK);
    if (later)
        c->packed |= 1U << h;
    else
        memset(&s->pending[h], 0, sizeof s->pending[h]);
    s->dirty[h] = 0;
    s->lock[h].until_ms = world_redis_ms(w) + INT64_C(1000) * c->every_s;
    c->fields += hash_length(&b->claimed[h]);
    c->renamed++;
    c->again |= 1U << h;
    return true;
}

static void claim_take(struct world *w, const struct link *l, struct wire_claim *c, struct twin_batch *b)
{
    unsigned at = 0, pack_most = knows_packed(w, l) ? w->config.pack_fields : 0;
    b->lowest_ms = lowest_score(w);
    for (; at < c->n; at++) {
        unsigned length = hash_length(&w->redis->now.pending[c->hashes[at]]);
        if (c->fields > 0 && c->fields + length > w->config.claim_fields_max) break;
        if (length > 0 && length <= pack_most) b->packed |= 1U << c->hashes[at];
        claim_one(w, c, b, c->hashes[at]);
    }
    c->left = c->n - at;
}

static void claim_register(struct world *w, const struct link *l, struct wire_claim *c, struct twin_batch *b)
{
    struct twin_state *s = &w->redis->now;
    if (!b->stands) {
        b->gen = ++s->gen;
        s->gens[b->gen % SIM_GENS] = (struct claim_gen){.gen = b->gen, .id = b->id};
    }
    b->stands = true;
    b->counter = c->counter;
    b->owner = l->life;
    b->beat_ms = world_redis_ms(w);
    for (unsigned i = 0; i < c->n; i++) {
        unsigned length = hash_length(&b->claimed[c->hashes[i]]);
        if (length > 0) b->hlen[c->hashes[i]] = length;
    }
}

/* The script; with the rule about the registry out, the renames alone, and true: there is a second step. So with the rule
 * about what is packed. */
static bool run_claim(struct world *w, struct link *l, struct wire_claim *c)
{
    struct twin_batch *b = batch_make(w->redis, &c->id);
    if (b == NULL || (w->redis->refuses && world_percent(w, w->config.claim_refuse_percent))) {
        if (b != NULL) batch_tidy(b);
        c->outcome = CLAIM_REFUSED;
        return false;
    }
    claim_take(w, l, c, b);
    c->took_us = 8U * c->id.bytes[0];
    c->outcome = c->renamed > 0 ? CLAIM_STANDS : CLAIM_EMPTY;
    bool later = c->renamed > 0 && (!world_rule(w, WORLD_REGISTRY) || c->packed != 0);
    if (c->renamed > 0 && world_rule(w, WORLD_REGISTRY)) claim_register(w, l, c, b);
    batch_tidy(b);
    redis_wrote(w, l);
    return later;
}

static void run_claim_rest(struct world *w, struct link *l, struct wire_claim *c)
{
    for (int h = 0; h < SIM_HASHES; h++)
        if ((c->packed >> h & 1) != 0) memset(&w->redis->now.pending[h], 0, sizeof(struct twin_hash));
    if (!world_rule(w, WORLD_REGISTRY)) {
        struct twin_batch *b = batch_make(w->redis, &c->id);
        INVARIANT(b != NULL);
        claim_register(w, l, c, b);
    }
    redis_wrote(w, l);
}

/* The same request runs a second time, as when a proxy tries again, while the batch exists: it touches only what the first run
 * renamed. */
static void run_claim_again(struct world *w, struct link *l, struct wire_claim *c)
{
    struct twin_batch *b = redis_batch(w->redis, &c->id);
    if (b == NULL || !b->stands) return;
    for (int h = 0; h < SIM_HASHES; h++)
        if ((c->again & 1U << h) != 0) claim_one(w, c, b, h);
    redis_wrote(w, l);
}

/* Scans: the registry with what is packed, then a claimed hash a step, then whether the registry still exists. */

static void scan_registry(struct world *w, const struct link *l, struct wire_scan *s)
{
    const struct twin_batch *b = redis_batch(w->redis, &s->id);
    s->gone = b == NULL || !b->stands;
    if (s->gone) return;
    s->counter = b->counter;
    s->owner = b->owner;
    s->gen = b->gen;
    s->lowest_ms = b->lowest_ms;
    for (int h = 0; h < SIM_HASHES; h++) {
        bool packed = (b->packed >> h & 1) != 0;
        s->hlen[h] = packed && !knows_packed(w, l) ? 0 : b->hlen[h];
        for (int f = 0; packed && f < SIM_FIELDS; f++)
            if ((b->claimed[h].has & 1 << f) != 0)
                s->rows[s->rows_n++] = (struct wire_row){h, f, b->claimed[h].value[f]};
    }
}

static void scan_hash(struct world *w, struct wire_scan *s, int hash)
{
    const struct twin_batch *b = redis_batch(w->redis, &s->id);
    if (b == NULL || (b->packed >> hash & 1) != 0) return;
    const struct twin_hash *h = &b->claimed[hash];
    for (int f = SIM_FIELDS - 1; f >= 0; f--) {
        unsigned times = (h->has & 1 << f) == 0 ? 0 : 1 + world_percent(w, w->config.repeat_percent);
        for (; times > 0; times--)
            s->rows[s->rows_n++] = (struct wire_row){hash, f, h->value[f]};
    }
}

/* True: there are more steps. */
static bool run_scan(struct world *w, const struct link *l, struct wire_scan *s, unsigned step)
{
    if (step == 0) {
        scan_registry(w, l, s);
        return !s->gone;
    }
    if (step <= SIM_HASHES) {
        scan_hash(w, s, (int)step - 1);
        return true;
    }
    const struct twin_batch *b = redis_batch(w->redis, &s->id);
    s->stands = b != NULL && b->stands;
    return false;
}

static bool run_look(struct world *w, struct link *l, struct wire_look *k, unsigned step)
{
    if (step == 0) {
        l->changed = false;
        k->seq = w->redis->now.seq[redis_seq_slot(w, l)];
        return true;
    }
    journals_show_owners(w, l, k);
    for (unsigned i = 0; i < k->n; i++) {
        const struct twin_batch *b = redis_batch(w->redis, &k->ids[i]);
        k->stands[i] = b != NULL && b->stands;
    }
    return false;
}

static void run_values(struct redis *r, struct wire_frame *f)
{
    tokens_read(r, f);
    for (unsigned i = 0; i < f->cells_n; i++) {
        struct wire_cell *c = &f->cells[i];
        const struct twin_hash *h = &r->now.pending[c->hash];
        c->error = r->now.wrong_type[c->hash] ? wrong_type : NULL;
        c->value = (h->has & 1 << c->field) != 0 ? h->value[c->field] : 0;
        if ((r->now.full[c->hash] >> c->field & 1) != 0) c->value = INT64_MAX;
    }
}

static void run_discard(struct world *w, struct link *l, const struct request *q)
{
    struct twin_batch *b = redis_batch(w->redis, &q->scan.id);
    if (b == NULL) return;
    for (int h = 0; h < SIM_HASHES; h++)
        if (q->scan.hlen[h] > 0 || (b->packed >> h & 1) != 0) memset(&b->claimed[h], 0, sizeof b->claimed[h]);
    b->stands = false;
    b->packed = 0;
    batch_tidy(b);
    redis_wrote(w, l);
}

static bool knows(const struct world *w, const struct link *l, int counter)
{
    return (size_t)counter < world_counters_of(w, l->instance)->n;
}

bool redis_has_link(struct redis *r, int life)
{
    list_for_each (node, &r->links) {
        const struct link *l = CONTAINER_OF(node, struct link, all);
        if (l->life == life && l->server_open) return true;
    }
    return false;
}

static bool adoptable(struct world *w, const struct link *l, const struct wire_ids *q,
                      const struct twin_batch *b)
{
    bool stale = b->beat_ms <= world_redis_ms(w) - q->stale_ms;
    if (q->mode == ADOPT_STALE) return stale;
    if (q->mode == ADOPT_OWN) return b->owner == l->life;
    if (q->mode == ADOPT_DEAD) return stale || !redis_has_link(w->redis, b->owner);
    return w->instance_of[b->owner] == l->instance && b->owner != l->life;
}

static void run_adopt(struct world *w, struct link *l, struct wire_ids *q)
{
    for (int i = 0; i < SIM_BATCHES && q->n < q->limit; i++) {
        struct twin_batch *b = &w->redis->now.batch[i];
        if (!b->used || !b->stands || !adoptable(w, l, q, b)) continue;
        bool other_format = b->packed != 0 && !knows_packed(w, l) && world_rule(w, WORLD_FORMAT);
        if (!knows(w, l, b->counter) || other_format) {
            q->unknown++;
            continue;
        }
        b->owner = l->life;
        b->beat_ms = world_redis_ms(w);
        q->ids[q->n++] = b->id;
    }
    if (q->n > 0) redis_wrote(w, l);
}

static void run_standing(struct redis *r, struct wire_ids *q)
{
    for (int i = 0; i < SIM_BATCHES; i++) {
        const struct twin_batch *b = &r->now.batch[i];
        if (b->used && b->stands && (q->hash < 0 || b->hlen[q->hash] > 0)) q->ids[q->n++] = b->id;
    }
}

static void least(int64_t *to, int64_t ms)
{
    if (ms < *to) *to = ms;
}

static void run_dirty(struct world *w, struct request *q)
{
    q->lowest_ms[0] = INT64_MAX;
    for (int h = 0; h < SIM_HASHES; h++)
        if (w->redis->now.dirty[h] != 0) least(&q->lowest_ms[0], w->redis->now.dirty[h]);
}

static void run_batches(const struct redis *r, struct request *q)
{
    for (int c = 0; c < SIM_COUNTERS; c++)
        q->lowest_ms[c] = INT64_MAX;
    for (int i = 0; i < SIM_BATCHES; i++) {
        const struct twin_batch *b = &r->now.batch[i];
        if (b->used && b->stands) least(&q->lowest_ms[b->counter], b->lowest_ms);
    }
}

static void run_beat(struct world *w, struct link *l, const struct wire_ids *q)
{
    for (unsigned i = 0; i < q->n; i++) {
        struct twin_batch *b = redis_batch(w->redis, &q->ids[i]);
        if (b != NULL && b->stands) b->beat_ms = world_redis_ms(w);
    }
    if (q->n > 0) redis_wrote(w, l);
}

static void run_due_poll(struct redis *r, struct wire_names *q)
{
    bool taken[SIM_HASHES] = {false};
    for (uint32_t rank = 0; q->n < q->limit; rank++) {
        int best = -1;
        for (int h = 0; h < SIM_HASHES; h++) {
            int64_t score = r->now.dirty[h];
            if (score == 0 || score > q->before_ms || taken[h]) continue;
            bool is_next = best < 0 || (q->highest ? score > r->now.dirty[best] : score < r->now.dirty[best]);
            if (is_next) best = h;
        }
        if (best < 0) return;
        taken[best] = true;
        if (rank < q->skip) continue;
        q->scores[q->n] = r->now.dirty[best];
        q->hashes[q->n++] = best;
    }
}

static void run_hold_names(struct world *w, struct link *l, const struct wire_names *q)
{
    for (unsigned i = 0; i < q->n; i++) {
        w->redis->now.dirty[q->hashes[i]] = 0;
    }
    redis_wrote(w, l);
}

/* Two steps a hash: is it pending and in no index? then it is put back. */
static bool run_walk(struct world *w, struct link *l, struct wire_names *q, unsigned step)
{
    struct twin_state *s = &w->redis->now;
    int h = (int)step / 2;
    if (step % 2 == 0)
        q->n = s->pending[h].has != 0 && s->dirty[h] == 0 && knows(w, l, world_counter_of(w, h));
    else if (q->n == 1 && s->dirty[h] == 0) {
        TRACE(w, "walk: %.*s was in no index", SLICE_ARG(world_hash_name(w, h)));
        s->dirty[h] = world_redis_ms(w);
        redis_wrote(w, l);
    }
    return step < 2 * SIM_HASHES - 1;
}

static void run_kill(struct redis *r, int64_t client_id)
{
    list_for_each (node, &r->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        if (l->client_id == client_id) link_kill(l);
    }
}

static void run_history(struct world *w, struct link *l, struct wire_history *q)
{
    struct twin_state *s = &w->redis->now;
    if (q->give && !s->realm) {
        s->realm = true;
        TRACE(w, "redis: server %u has a realm", w->redis->run);
        redis_wrote(w, l);
    }
    q->realm = s->realm;
    q->gen = s->gen;
    memcpy(q->gens, s->gens, sizeof s->gens);
}

static void reply_head(struct world *w, const struct link *l, struct request *q)
{
    redis_run_id(w->redis->run, q->run_id);
    redis_run_id(w->redis->history, q->replid);
    q->number = w->redis->now.seq[redis_seq_slot(w, l)];
}

/* A look of a fence: WAIT, then the key that it wrote. (!) By now the server may have other data. A replica refuses WAIT. */
static bool run_fence_look(struct world *w, const struct link *l, struct request *q)
{
    const struct redis *r = w->redis;
    bool is_whole = r->now.fence[l->life] >= q->fence || !world_rule(w, WORLD_FENCE_WRITE);
    if (!is_whole) TRACE(w, "redis: server %u lacks what the fence of life %d wrote", r->run, l->life);
    q->refused = (r->is_other && !w->other->writes) || (!is_whole && world_rule(w, WORLD_FENCE_KEY));
    return !q->refused && l->client_open && q->fence_at > r->durable; /* Redis frees who waits and is gone */
}

/* What it says of server and number is of the write. */
static bool run_fence(struct world *w, struct link *l, struct request *q)
{
    if (q->step > 0) return run_fence_look(w, l, q);
    if (world_rule(w, WORLD_FENCE_WRITE)) {
        w->redis->now.fence[l->life] = q->fence;
        redis_wrote(w, l);
    }
    reply_head(w, l, q);
    q->fence_at = w->config.unfenced ? 0 : w->redis->is_other ? UINT64_MAX : l->wrote_at;
    return true;
}

/* Of a client's WAIT only the write: nothing in the world goes by its answer. */
static void run_wait(struct world *w, struct link *l, const struct request *q)
{
    struct twin_state *s = &w->redis->now;
    unsigned *key = RULE(sync_rules_off, RULE_WAIT_KEY) ? s->wait : s->fence;
    key[l->life] = q->fence;
    redis_wrote(w, l);
}

/* One command, or one step of several; true: the next step is still to come. */
static bool run(struct world *w, struct link *l, struct request *q)
{
    struct redis *r = w->redis;
    switch (q->kind) {
    case REQ_FRAME:
    case REQ_REPLAY:
        if (q->step == 0) {
            q->changed = l->changed && world_rule(w, WORLD_WATCH);
            if (q->changed) TRACE(w, "redis: another one's history");
            if (q->changed) return false;
            run_frame(w, l, &q->frame);
            l->changed = false;
            return tokens_later(w, &q->frame);
        }
        tokens_write(w, &q->frame);
        redis_wrote(w, l);
        return false;
    case REQ_CLAIM:
        if (q->step == 0) return run_claim(w, l, &q->claim);
        run_claim_rest(w, l, &q->claim);
        return false;
    case REQ_KILL:
        run_kill(r, q->client_id);
        return false;
    case REQ_LOOK:
        return run_look(w, l, &q->look, q->step);
    case REQ_VALUES:
        run_values(r, &q->frame);
        return false;
    case REQ_SCAN:
        return run_scan(w, l, &q->scan, q->step);
    case REQ_FENCE:
        return run_fence(w, l, q);
    case REQ_WAIT:
        run_wait(w, l, q);
        return false;
    case REQ_DISCARD:
        run_discard(w, l, q);
        return false;
    case REQ_ADOPT:
        run_adopt(w, l, &q->ids);
        return false;
    case REQ_DUE_POLL:
        run_due_poll(r, &q->names);
        return false;
    case REQ_STANDING:
        run_standing(r, &q->ids);
        return false;
    case REQ_BEAT:
        run_beat(w, l, &q->ids);
        return false;
    case REQ_HOLD_NAMES:
        run_hold_names(w, l, &q->names);
        return false;
    case REQ_WALK:
        return run_walk(w, l, &q->names, q->step);
    case REQ_TOTAL:
        totals_run(r, &q->total);
        return false;
    case REQ_DIRTY:
        run_dirty(w, q);
        return false;
    case REQ_BATCHES:
        run_batches(r, q);
        return false;
    case REQ_HISTORY:
        run_history(w, l, &q->history);
        return false;
    case REQ_JOURNALS:
        journals_list_run(w, &q->journals);
        return false;
    case REQ_JOURNAL_TAKE:
        return journals_take_run(w, l, &q->take, q->step);
    }
    UNREACHABLE();
}

static bool has_older(const struct link *l, uint64_t than_ms)
{
    return !list_empty(&l->sent) && CONTAINER_OF(l->sent.next, struct request, link)->sent_ms < than_ms;
}

static void catch_up(struct world *w, uint64_t sent_before_ms)
{
    list_for_each (node, &w->redis->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        while (has_older(l, sent_before_ms) && redis_can_execute(w->redis, l) && !redis_is_looking(l))
            redis_execute(w, l);
    }
}

void redis_catch_up(struct world *w, uint64_t sent_before_ms)
{
    catch_up(w, sent_before_ms);
    if (!w->other->there) return;
    moves_swap(w);
    catch_up(w, sent_before_ms);
    moves_swap(w);
}

bool redis_can_execute(const struct redis *r, const struct link *l)
{
    if (!l->server_open || list_empty(&l->sent)) return false;
    const struct request *q = CONTAINER_OF(l->sent.next, struct request, link);
    if (!redis_is_looking(l) || q->fence_at <= r->durable) return true;
    if (r->is_other || l->run != r->run) return q->fence_at != UINT64_MAX;
    return r->now.fence[l->life] < q->fence;
}

bool redis_is_looking(const struct link *l)
{
    if (list_empty(&l->sent)) return false;
    const struct request *q = CONTAINER_OF(l->sent.next, struct request, link);
    return q->kind == REQ_FENCE && q->step > 0;
}

struct link *redis_blocked_fence(struct redis *r)
{
    list_for_each (node, &r->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        if (l->role != ROLE_FENCE || !l->server_open || !l->client_open || list_empty(&l->sent)) continue;
        if (!redis_can_execute(r, l)) return l;
    }
    return NULL;
}

void redis_refuse_fence(struct world *w, struct link *l)
{
    struct request *q = CONTAINER_OF(list_pop(&l->sent), struct request, link);
    TRACE(w, "redis: the fence of life %d is not confirmed in time", l->life);
    q->refused = true;
    list_push(&l->done, &q->link);
}

/* A claim that succeeded may run a second time, after whatever else is queued. */
static void maybe_again(struct world *w, struct link *l, const struct request *q)
{
    if (q->kind != REQ_CLAIM || q->target == NULL || q->claim.outcome != CLAIM_STANDS) return;
    if (!world_percent(w, w->config.claim_twice_percent)) return;
    struct request *again = request_send(l, REQ_CLAIM, NULL, w->now_ms);
    again->claim = q->claim;
}

static void execute(struct world *w, struct link *l)
{
    struct request *q = CONTAINER_OF(l->sent.next, struct request, link);
    TRACE(w, "redis: runs %s, step %u, of life %d%s", request_name(q->kind), q->step, l->life,
          l->client_open ? "" : ", whose link is dead");
    q->readonly = moves_refuses(w, q);
    if (q->readonly) {
        TRACE(w, "redis: READONLY");
    } else if (q->kind == REQ_CLAIM && q->target == NULL) {
        run_claim_again(w, l, &q->claim);
    } else if (run(w, l, q)) {
        q->step++;
        if (l->client_open || !request_is_driven(q)) return;
    }
    if (q->kind != REQ_FENCE) reply_head(w, l, q);
    list_remove(&q->link);
    maybe_again(w, l, q);
    if (l->client_open && (q->target != NULL || q->readonly))
        list_push(&l->done, &q->link);
    else
        heap_free(q);
}

void redis_execute(struct world *w, struct link *l)
{
    bool away = !w->redis->is_other && moves_is_away(w, l);
    if (away) moves_swap(w);
    execute(w, l);
    if (away) moves_swap(w);
}
