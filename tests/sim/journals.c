/* tests/sim/journals.c - see journals.h. */
#include "sim/ports.h"
#include "sim/world.h"

#include "base/heap.h"
#include "base/slice.h"

static void name_copy(char out[SIM_JOURNAL_NAME], struct slice name)
{
    INVARIANT(name.n < SIM_JOURNAL_NAME);
    memcpy(out, name.p, name.n);
    out[name.n] = '\0';
}

/* --- frames --- */

void journals_to_wire(struct wire_frame *wire, const struct frame *f)
{
    PRE(f->appends_n <= SIM_APPENDS && f->records.n <= sizeof wire->records);
    if (f->records.n > 0) memcpy(wire->records, f->records.p, f->records.n);
    for (uint32_t i = 0; i < f->appends_n; i++) {
        const struct frame_append *a = &f->appends[i];
        struct wire_append *to = &wire->appends[wire->appends_n++];
        *to = (struct wire_append){.opens = a->opens, .ends = a->ends, .at = a->bytes_at, .n = a->bytes_n};
        name_copy(to->name, FRAME_TEXT(f, a->name_at, a->name_n));
    }
}

static struct twin_journal *find(struct world *w, const char *name)
{
    for (int i = 0; i < SIM_JOURNALS; i++) {
        struct twin_journal *j = &w->redis->now.journal[i];
        if ((j->stands || j->listed) && strcmp(j->name, name) == 0) return j;
    }
    return NULL;
}

/* As Redis' APPEND, whether it is listed or not. */
static struct twin_journal *find_or_make(struct world *w, const char *name)
{
    struct twin_journal *j = find(w, name);
    for (int i = 0; i < SIM_JOURNALS && j == NULL; i++)
        if (!w->redis->now.journal[i].stands && !w->redis->now.journal[i].listed) {
            j = &w->redis->now.journal[i];
            *j = (struct twin_journal){.owner = -1};
            memcpy(j->name, name, SIM_JOURNAL_NAME);
        }
    INVARIANT(j != NULL);
    return j;
}

static void append_run(struct world *w, const struct link *l, const struct wire_frame *f,
                       const struct wire_append *a)
{
    struct twin_journal *j = find_or_make(w, a->name);
    if (a->opens) {
        j->listed = true;
        j->owner = l->life;
    }
    INVARIANT(j->n + a->n <= SIM_JOURNAL_BYTES);
    memcpy(j->bytes + j->n, f->records + a->at, a->n);
    j->n += a->n;
    j->stands |= a->n > 0;
    if (a->ends) *j = (struct twin_journal){0};
}

void journals_run(struct world *w, const struct link *l, const struct wire_frame *f)
{
    for (unsigned i = 0; i < f->appends_n; i++)
        append_run(w, l, f, &f->appends[i]);
}

void journals_show_owners(struct world *w, const struct link *l, struct wire_look *look)
{
    for (unsigned i = 0; i < look->journals_n; i++) {
        const struct twin_journal *j = find(w, look->journals[i]);
        look->ours[i] = j != NULL && j->listed && j->owner == l->life;
    }
}

/* --- taking over --- */

static void port_list(void *arg, struct journal_list *list)
{
    ports_ask(arg, ROLE_SYNC, REQ_JOURNALS, list);
}

/* An owner is d<instance>:<life>. */
static void port_take(void *arg, struct journal_take *t)
{
    struct process *life = arg;
    enum role role = world_rule(life->w, WORLD_TAKE_LINK) ? ROLE_FRAME : ROLE_SYNC;
    struct request *q = ports_ask(life, role, REQ_JOURNAL_TAKE, t);
    if (q == NULL) return;
    name_copy(q->take.name, t->name);
    const char *colon = memchr(t->owner.p, ':', t->owner.n);
    int64_t owner = 0;
    if (!num_parse(slice_of(colon + 1, (size_t)(t->owner.p + t->owner.n - colon) - 1), &owner)) UNREACHABLE();
    q->take.owner = (int)owner;
    memcpy(q->take.list_run_id, life->takeover.list.run_id, sizeof q->take.list_run_id);
}

void journals_wire(struct process *life)
{
    struct takeover_ports ports = {.arg = life, .list = port_list, .take = port_take};
    takeover_init(&life->takeover, life->coalesce, &ports, life->w->config.takeover_ms);
}

void journals_list_run(struct world *w, struct wire_journals *list)
{
    for (int i = 0; i < SIM_JOURNALS; i++) {
        const struct twin_journal *j = &w->redis->now.journal[i];
        if (!j->listed) continue;
        memcpy(list->all[list->n].name, j->name, SIM_JOURNAL_NAME);
        list->all[list->n].owner = j->owner;
        list->all[list->n++].linked = redis_has_link(w->redis, j->owner);
    }
}

void journals_listed(struct process *life, const struct wire_journals *wire, struct journal_list *list)
{
    list->all = heap_zalloc((wire->n + 1) * sizeof *list->all);
    buf_reserve(&list->texts, sizeof *wire); /* so that slices of it stay */
    for (list->n = 0; list->n < wire->n; list->n++) {
        struct listed_journal *j = &list->all[list->n];
        int owner = wire->all[list->n].owner;
        j->linked = wire->all[list->n].linked;
        j->name = slice_of(list->texts.p + list->texts.n, strlen(wire->all[list->n].name));
        buf_put_slice(&list->texts, slice_str(wire->all[list->n].name));
        size_t at = list->texts.n;
        buf_printf(&list->texts, "d%d:%d", life->w->instance_of[owner], owner);
        j->owner = slice_of(list->texts.p + at, list->texts.n - at);
    }
    list->done(list);
}

/* lua/journal_take.lua */
static bool take_begin(struct world *w, struct link *l, struct twin_journal *j, struct wire_take *take)
{
    bool its = j != NULL && j->listed && j->owner == take->owner;
    take->taken = its || (j != NULL && j->listed && !world_rule(w, WORLD_TAKE_OWNER));
    if (!take->taken) return false;
    if (!world_rule(w, WORLD_TAKE_ALL)) j->to_end = 0;
    if (take->owner != l->life) j->to_end |= UINT64_C(1) << take->owner;
    take->to_end = j->to_end & ~(UINT64_C(1) << l->life);
    if (take->owner != l->life && world_rule(w, WORLD_TAKE_TOUCHES)) w->redis->now.touched[take->owner]++;
    j->owner = l->life;
    redis_wrote(w, l);
    return true;
}

static void take_kill(struct world *w, const struct wire_take *take)
{
    char run_id[RUN_ID_BYTES];
    redis_run_id(w->redis->run, run_id);
    bool elsewhere = strcmp(run_id, take->list_run_id) != 0;
    if ((take->to_end >> take->owner & 1) != 0 && redis_has_link(w->redis, take->owner) && elsewhere)
        fault_found(w, FAULT_PROTOCOL, "links of life %d are ended by a list of another server", take->owner);
    for (int life = 0; life < SIM_LIVES && world_rule(w, WORLD_JOURNAL_KILL); life++)
        if ((take->to_end >> life & 1) != 0) redis_kill_life(w->redis, life);
}

/* lua/journal_ended.lua */
static bool take_ended(struct world *w, struct link *l, struct twin_journal *j, struct wire_take *take)
{
    take->taken = j != NULL && j->owner == l->life;
    if (!take->taken) return false;
    j->to_end = 0;
    redis_wrote(w, l);
    return true;
}

bool journals_take_run(struct world *w, struct link *l, struct wire_take *take, unsigned step)
{
    struct twin_journal *j = find(w, take->name);
    if (step == 0) return take_begin(w, l, j, take);
    if (step == 1) {
        take_kill(w, take);
        return true;
    }
    if (step == 2) return take_ended(w, l, j, take);
    if (j == NULL) return false;
    take->n = j->n;
    memcpy(take->bytes, j->bytes, j->n);
    return false;
}

void journals_taken(const struct wire_take *wire, struct journal_take *take)
{
    take->taken = wire->taken;
    buf_reset(&take->bytes);
    buf_put(&take->bytes, wire->bytes, wire->n);
    take->done(take);
}

/* --- reads --- */

/* What another daemon took over, a dead one left, or Redis lost the end of, comes when a daemon brings it home. */
static bool others_have_some(const struct process *life)
{
    const struct link *frame_link = life->links[ROLE_FRAME];
    bool here = frame_link != NULL && frame_link->server_open && !moves_is_away(life->w, frame_link);
    if (!here || moves_lacks(life)) return true; /* it does not know yet */
    for (int i = 0; i < SIM_JOURNALS; i++) {
        const struct twin_journal *j = &life->w->redis->now.journal[i];
        if (j->listed && !coalesce_has_journal(life->coalesce, slice_str(j->name))) return true;
    }
    return false;
}

static bool was_answered(const struct process *life, unsigned k)
{
    const struct hit *hit = &life->w->oracle.ops[OP_SERIES_TARGET][k];
    return hit->told == TOLD_DONE && hit->ran_by == life->index;
}

static void on_settled(struct coalesce_settle *s)
{
    struct sim_read *read = CONTAINER_OF(s, struct sim_read, settle);
    struct world *w = read->life->w;
    int64_t total = w->redis->now.ops.series[0].total;
    TRACE(w, "life %d: a read of a series or a timebox %s", read->life->index,
          s->failed ? "is refused" : "may begin");
    read->busy = false;
    for (unsigned k = 0; k < SIM_HITS && !s->failed && !others_have_some(read->life); k++) {
        bool owed = (read->answered & 1U << k) != 0 && !w->oracle.ops[OP_SERIES_TARGET][k].lost;
        bool applied = w->oracle.ops[OP_SERIES_TARGET][k].applied > 0;
        if (owed && applied && hit_times(total, k) == 0)
            fault_found(w, FAULT_LOSS, "op %u on the series was answered, and a read does not see it", k);
    }
}

void journals_read(struct process *life)
{
    struct sim_read *read = &life->read;
    if (read->busy) return;
    bool of_series = world_percent(life->w, 60);
    *read = (struct sim_read){.life = life};
    read->settle = (struct coalesce_settle){.kind = of_series ? OP_SERIES : OP_TIMEBOX,
                                            .name = SLICE("o"),
                                            .type = SLICE(""),
                                            .all = world_percent(life->w, 20),
                                            .done = on_settled};
    for (unsigned k = 0; k < SIM_HITS && of_series && !others_have_some(life); k++)
        if (was_answered(life, k)) read->answered |= 1U << k;
    struct arena *before = daemon_enter(life);
    read->busy = true;
    if (!coalesce_settle(life->coalesce, &read->settle)) on_settled(&read->settle);
    daemon_leave(life, before);
}

bool journals_stand(const struct world *w)
{
    for (int i = 0; i < SIM_JOURNALS; i++)
        if (w->redis->now.journal[i].stands || w->redis->now.journal[i].listed) return true;
    return false;
}
