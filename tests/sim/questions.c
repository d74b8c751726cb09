/* tests/sim/questions.c - see questions.h. */
#include "sim/questions.h"
#include "sim/ports.h"
#include "sim/totals.h"
#include "sim/world.h"

#include "base/heap.h"
#include <stdio.h>
#include <stdlib.h>

struct question {
    struct list link;
    void (*answer)(struct process *life, void *target);
    void *target;
};

void questions_ask(struct process *life, void (*answer)(struct process *life, void *target), void *target)
{
    struct arena *before = arena_enter(&life->w->arena);
    struct question *q = heap_zalloc(sizeof *q);
    q->answer = answer;
    q->target = target;
    list_push(&life->questions, &q->link);
    arena_enter(before);
}

void questions_answer(struct process *life)
{
    struct question *q = CONTAINER_OF(list_pop(&life->questions), struct question, link);
    struct arena *before = daemon_enter(life);
    q->answer(life, q->target);
    daemon_leave(life, before);
    heap_free(q);
}

void questions_forget(struct process *life)
{
    for (struct list *node; (node = list_pop(&life->questions)) != NULL;)
        heap_free(CONTAINER_OF(node, struct question, link));
}

/* --- the gate --- */

static void answer_check(struct process *life, void *target)
{
    struct gate_check *c = target;
    const struct mysql *m = &life->w->mysql;
    const struct counters *counters = world_counters_of(life->w, life->instance);
    TRACE(life->w, "life %d: the gate's check of MySQL, %s", life->index, m->up ? "up" : "down");
    c->seen = m->up;
    c->fit = c->seen && !m->schema_unfit;
    c->refusals = c->seen && (m->schema_unfit || m->table_unfit);
    if (c->fit) mysql_look(life->w, c->redis, &c->had, &c->look);
    for (size_t i = 0; c->seen && i < counters->n; i++)
        sync_counter_fit(life->sync, &counters->all[i], i > 0 || !m->table_unfit);
    c->done(c);
}

static void port_check(void *arg, struct gate_check *c)
{
    questions_ask(arg, answer_check, c);
}

/* At once: asked like the others it would take turns from them, and change nothing but what seeds show. */
static void port_sign(void *arg)
{
    struct process *life = arg;
    if (life->w->mysql.up) mysql_sign(life->w, &life->gate.epoch);
}

static void port_history(void *arg, struct history_read *h)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_HISTORY, h);
    if (q != NULL) q->history.give = !batch_id_is_zero(&h->realm);
}

static void port_fence(void *arg, struct fence *f)
{
    ports_ask(arg, ROLE_FENCE, REQ_FENCE, f);
}

static const char *port_run_id(void *arg)
{
    const struct process *life = arg;
    bool same = strcmp(life->run_id[ROLE_FRAME], life->run_id[ROLE_SYNC]) == 0;
    if (!coalesce_caught_up(life->coalesce) && world_rule(life->w, WORLD_CAUGHT_UP)) return "";
    return same || !world_rule(life->w, WORLD_ALL_LINKS) ? life->run_id[ROLE_SYNC] : "";
}

static unsigned realm_of(const struct process *life)
{
    return mysql_realm(life->w, &life->gate.epoch.realm);
}

/* --- pruning --- */

static void answer_cutoff(struct process *life, void *target)
{
    struct prune_rows *r = target;
    r->ok = life->w->mysql.up;
    snprintf(r->cutoff, sizeof r->cutoff, "%lld", (long long)(life->w->now_ms - life->w->config.keep_ms));
    r->done(r);
}

static void answer_rows(struct process *life, void *target)
{
    struct prune_rows *r = target;
    r->ok = life->w->mysql.up;
    r->more = false;
    if (r->ok) mysql_prune(life->w, realm_of(life), strtoll(r->cutoff, NULL, 10), r->standing, r->standing_n);
    r->done(r);
}

static void port_cutoff(void *arg, struct prune_rows *r)
{
    questions_ask(arg, answer_cutoff, r);
}

static void port_rows(void *arg, struct prune_rows *r)
{
    questions_ask(arg, answer_rows, r);
}

static void port_standing(void *arg, struct standing *s)
{
    struct request *q = ports_ask(arg, ROLE_SYNC, REQ_STANDING, s);
    if (q != NULL) q->ids.hash = -1;
}

/* --- complete_until --- */

static void answer_until(struct process *life, void *target)
{
    struct until_write *t = target;
    unsigned realm = realm_of(life);
    const struct batch_id *epoch = &life->w->mysql.realms[realm].epoch.id;
    bool ours = !world_rule(life->w, WORLD_EPOCH) || batch_id_same(&life->gate.epoch.id, epoch);
    t->ran = life->w->mysql.up;
    for (size_t i = 0; t->ran && ours && i < world_counters_of(life->w, life->instance)->n; i++)
        mysql_until(life->w, realm, (int)i, t->until[i]);
    t->done(t);
}

static void port_write(void *arg, struct until_write *t)
{
    questions_ask(arg, answer_until, t);
}

static void port_dirty(void *arg, struct dirty_state *d)
{
    ports_ask(arg, ROLE_SYNC, REQ_DIRTY, d);
}

static void port_batches(void *arg, struct batch_list *b)
{
    ports_ask(arg, ROLE_SYNC, REQ_BATCHES, b);
}

static int64_t port_redis_ms(void *arg)
{
    return life_redis_ms(arg);
}

static int64_t port_lag_ms(void *arg)
{
    const struct process *life = arg;
    return coalesce_lag_ms(life->coalesce, life->w->config.answer_ms);
}

static uint64_t port_mono_ms(void *arg)
{
    return life_mono_ms(arg);
}

void questions_wire(struct process *life)
{
    struct gate_ports gate = {.arg = life,
                              .check = port_check,
                              .history = port_history,
                              .fence = port_fence,
                              .sign = port_sign,
                              .run_id = port_run_id,
                              .mono_ms = port_mono_ms};
    struct prune_ports prune = {.arg = life,
                                .cutoff = port_cutoff,
                                .standing = port_standing,
                                .rows = port_rows,
                                .mono_ms = port_mono_ms};
    struct until_ports until = {.arg = life,
                                .dirty = port_dirty,
                                .batches = port_batches,
                                .write = port_write,
                                .redis_ms = port_redis_ms,
                                .lag_ms = port_lag_ms,
                                .mono_ms = port_mono_ms};
    const struct sim_config *c = &life->w->config;
    gate_init(&life->gate, life->sync, &gate);
    prune_init(&life->prune, &life->gate, &prune, c->prune_ms);
    totals_wire(life);
    until_init(&life->until, &life->gate, world_counters_of(life->w, life->instance), &until, c->until_ms);
}
