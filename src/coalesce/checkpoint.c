/* coalesce/checkpoint.c - journals follow the frames: what goes in, what comes home, what is undone, whose they are.
 * journal.h has the rules. Top to bottom: a frame is sent (in, out), what became of it (applied, undo, redo, refused),
 * reads that wait (settle), a link that comes up (look), another daemon's journal (adopt). */
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "coalesce/kinds.h"

#define SETTLE_EVENTS_MAX 2000 /* a frame */

/* --- what there is --- */

static struct journal *oldest(const struct coalesce *c)
{
    return list_empty(&c->journals) ? NULL : CONTAINER_OF(c->journals.next, struct journal, link);
}

static bool is_full(const struct coalesce *c, const struct journal *j)
{
    return j->ops_n >= c->config.journal_ops_max || j->bytes >= c->config.journal_bytes_max;
}

static bool closed_waits(const struct coalesce *c)
{
    const struct journal *j = oldest(c);
    return j != NULL && j->closed;
}

bool checkpoint_waits(const struct coalesce *c)
{
    if (closed_waits(c)) return true;
    list_for_each (node, &c->settles)
        if (CONTAINER_OF(node, struct coalesce_settle, link)->seq == 0) return true;
    return false;
}

static struct journal *begin(struct coalesce *c, struct slice name)
{
    struct journal *j = journal_create(name, ++c->journals_n, c->ports.mono_ms(c->ports.arg));
    list_push(&c->journals, &j->link);
    return j;
}

static void close_now(struct coalesce *c)
{
    if (c->journal != NULL) c->journal->closed = true;
    c->journal = NULL;
}

/* The one that takes ops. */
static struct journal *open_journal(struct coalesce *c)
{
    if (c->journal != NULL && is_full(c, c->journal)) close_now(c);
    if (c->journal != NULL) return c->journal;
    buf_reset(&c->raw);
    name_journal(&c->raw, c->ports.life, c->journals_n + 1);
    return c->journal = begin(c, buf_slice(&c->raw));
}

/* --- in --- */

bool checkpoint_takes(const struct coalesce *c, const struct frame_op *op)
{
    bool (*known)(const struct coalesce *c, const struct frame_op *op) = op_kinds[op->kind].known;
    bool may = op->fed || (known != NULL && known(c, op));
    return may && (c->journal == NULL || !is_full(c, c->journal) || !closed_waits(c));
}

static uint32_t going_in(const struct frame *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->ops_n; i++)
        n += f->ops[i].may_wait;
    return n;
}

static void put(const struct frame *f, struct frame_op *op, struct journal *j, uint32_t number)
{
    op->silent = true;
    op->journal = j;
    op->number = number;
    op->was_told = j->ops[number].told;
    if (!journal_has_events(&j->ops[number])) {
        journal_add(j, number, op->delta);
        return;
    }
    for (uint32_t i = op->first_item; i != OP_END; i = f->items[i].next) {
        const struct op_item *item = &f->items[i];
        journal_add_event(j, number, item->at, item->text_n > 0 ? 0 : item->value,
                          FRAME_TEXT(f, item->text_at, item->text_n));
    }
}

static void put_in(struct frame *f, struct frame_op *op, struct journal *j)
{
    struct journal_record of = {
        .kind = op->kind, .at = op->at, .name = FRAME_NAME(f, op), .type = FRAME_TYPE(f, op)};
    uint32_t number = journal_number(j, op->name_code, &of);
    if (number != OP_END && journal_fits(j, number, op->delta)) put(f, op, j, number);
}

static void put_first(struct coalesce *c, struct frame *f, struct frame_op *op, struct journal *j)
{
    bool answers = op->kind == OP_TIMEBOX && !op->fed;
    if (!op->may_wait || (answers && !buckets_may_wait(c, f, op))) return;
    put_in(f, op, j);
    if (op->silent && op->kind == OP_TIMEBOX) buckets_wait(c, op);
}

static void put_all_in(struct coalesce *c, struct frame *f)
{
    uint32_t n = going_in(f);
    if (n == 0 || n < c->config.journal_least) return;
    struct journal *j = open_journal(c);
    n = 0;
    for (uint32_t i = 0; i < f->ops_n; i++) {
        put_first(c, f, &f->ops[i], j);
        n += f->ops[i].silent;
    }
    STAT_ADD(ops_journaled, n);
}

/* --- out --- */

/* Adding an event to a log costs half of a HINCRBY, a hit on a known bucket two, on another one four. */
static uint32_t lines_of(const struct coalesce *c, const struct frame_op *op)
{
    if (op->kind == OP_SERIES) return c->counters->ops->precisions_n;
    if (op->items_n > 0) return 1 + op->items_n / 2;
    return op->kind == OP_TIMEBOX && buckets_know(c, op) ? 2 : 4;
}

static void events_out(struct frame *f, struct frame_op *op, struct journal *j, uint32_t n)
{
    uint32_t i = op->first_event = j->ops[op->number].first_event;
    for (uint32_t left = n; left > 0; left--, i = j->events[i].next) {
        const struct journal_event *e = &j->events[i];
        struct slice text = slice_of(j->texts.p + e->text_at, e->text_n);
        uint32_t item = frame_add_item(f, op, e->second, text); /* which may move them all */
        f->items[item].value = e->id;
    }
    journal_take_events(j, op->number, n);
}

static void sum_out(struct journal *j, uint32_t number)
{
    j->ops[number].out = j->ops[number].n;
    journal_take(j, number);
}

/* All of it, but of events at most so many; returns what it costs, in lines. */
static uint32_t take_out(struct coalesce *c, struct frame *f, struct journal *j, uint32_t number,
                         uint32_t events_most)
{
    const struct journal_op *from = &j->ops[number];
    struct frame_op *op = frame_add_op(f, from->kind, journal_name(j, from), journal_type(j, from), from->at);
    bool has_events = journal_has_events(from);
    op->fed = true;
    op->name_code = from->code;
    op->code = engine_op_code(c, from->code, from->at, true);
    op->delta = from->n;
    op->journal = j;
    op->number = number;
    op->adds = has_events && from->adds > events_most ? events_most : from->adds;
    if (has_events)
        events_out(f, op, j, op->adds);
    else
        sum_out(j, number);
    return lines_of(c, op);
}

/* A settle takes what stood there when it began, of a long log some in each frame. */
static uint32_t settle_out(struct coalesce *c, struct frame *f, const struct coalesce_settle *s)
{
    uint64_t code = engine_name_code(c, s->kind, s->name, s->type);
    uint32_t events = 0;
    list_for_each (node, &c->journals) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        uint32_t i = journal_first(j, code, s->kind, s->name, s->type);
        for (; i != OP_END && events < SETTLE_EVENTS_MAX; i = j->ops[i].next) {
            if (j->ops[i].adds == 0) continue;
            (void)take_out(c, f, j, i, SETTLE_EVENTS_MAX - events);
            events += f->ops[f->ops_n - 1].items_n;
        }
    }
    return events;
}

static void settles_out(struct coalesce *c, struct frame *f)
{
    list_for_each (node, &c->settles) {
        struct coalesce_settle *s = CONTAINER_OF(node, struct coalesce_settle, link);
        if (s->seq != 0) continue;
        uint32_t events = s->all ? 0 : settle_out(c, f, s);
        s->events -= events < s->events ? events : s->events;
        if (events < SETTLE_EVENTS_MAX || s->events == 0) s->seq = f->seq;
    }
}

/* More comes in than is brought home: the one that takes ops has been waiting to be closed for long. */
static bool is_behind(const struct coalesce *c)
{
    const struct journal *j = c->journal;
    if (j == NULL || !closed_waits(c)) return false;
    return is_full(c, j) ||
           c->ports.mono_ms(c->ports.arg) - j->begun_ms >= 2 * (uint64_t)c->config.journal_ms;
}

static void closed_out(struct coalesce *c, struct frame *f)
{
    uint32_t lines = 0, most = is_behind(c) ? c->config.behind_lines : c->config.checkpoint_lines;
    list_for_each (node, &c->journals) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        while (j->closed && j->from < j->ops_n && lines < most) {
            if (j->ops[j->from].adds > 0) lines += take_out(c, f, j, j->from, 2 * (most - lines));
            if (j->ops[j->from].adds == 0) j->from++;
        }
    }
}

/* --- what the frame says to Redis --- */

static void append(struct frame *f, struct journal *j)
{
    bool ends = j->closed && j->pending == 0 && j->frames == 0;
    if (!ends && j->records.n == 0) return;
    struct frame_append *a =
        frame_add_append(f, buf_slice(&j->name), ends ? SLICE("") : buf_slice(&j->records));
    a->journal = j;
    a->ends = ends;
    a->opens = !j->opened;
    j->opened = true;
    j->frames++;
    j->bytes += a->bytes_n;
    buf_reset(&j->records);
}

static void append_all(struct coalesce *c, struct frame *f)
{
    for (struct list *node = c->journals.next, *next; node != &c->journals; node = next) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        next = node->next;
        bool never_was = j->closed && j->pending == 0 && !j->opened && j->records.n == 0 && j->frames == 0;
        if (never_was)
            journal_destroy(j);
        else
            append(f, j);
    }
}

void checkpoint_on_send(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (f->ops_n > 0) put_all_in(c, f);
    settles_out(c, f);
    closed_out(c, f);
    append_all(c, f);
}

/* --- what became of it --- */

static void settle_end(struct coalesce_settle *s, const char *why)
{
    list_remove(&s->link);
    s->failed = why != NULL;
    s->why = why;
    s->done(s);
}

static bool age_stands(const struct coalesce *c, uint64_t age)
{
    const struct journal *j = oldest(c);
    return j != NULL && j->age <= age;
}

static void settles_applied(struct coalesce *c, uint64_t seq)
{
    struct list done;
    list_init(&done);
    for (struct list *node = c->settles.next, *next; node != &c->settles; node = next) {
        struct coalesce_settle *s = CONTAINER_OF(node, struct coalesce_settle, link);
        next = node->next;
        if (s->seq == 0 || s->seq > seq || (s->all && age_stands(c, s->age))) continue;
        list_remove(node);
        list_push(&done, node);
    }
    while (!list_empty(&done))
        settle_end(CONTAINER_OF(done.next, struct coalesce_settle, link), NULL);
}

static void settles_fail(struct coalesce *c, bool sent_only, const char *why)
{
    struct list failed;
    list_init(&failed);
    for (struct list *node = c->settles.next, *next; node != &c->settles; node = next) {
        next = node->next;
        if (sent_only && CONTAINER_OF(node, struct coalesce_settle, link)->seq == 0) continue;
        list_remove(node);
        list_push(&failed, node);
    }
    while (!list_empty(&failed))
        settle_end(CONTAINER_OF(failed.next, struct coalesce_settle, link), why);
}

void checkpoint_applied(struct coalesce *c, const struct group *g)
{
    const struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->appends_n; i++) {
        const struct frame_append *a = &f->appends[i];
        if (a->journal == NULL) continue;
        a->journal->frames--;
        if (a->ends) journal_destroy(a->journal);
    }
    settles_applied(c, f->seq);
}

static void undo_op(struct coalesce *c, const struct frame_op *op)
{
    struct journal *j = op->journal;
    if (j == NULL) return;
    if (op->silent && op->kind == OP_TIMEBOX) buckets_undo(c, op);
    bool has_events = journal_has_events(&j->ops[op->number]);
    if (op->silent && has_events)
        journal_undo_events(j, op->number, op->items_n, op->was_told);
    else if (op->silent)
        journal_undo_add(j, op->number, op->delta, op->was_told);
    else if (has_events)
        journal_undo_gone(j, op->number, op->first_event, op->adds);
    else {
        j->ops[op->number].out = 0;
        journal_undo_take(j, op->number, op->delta, op->adds);
    }
}

/* Backwards, so that what was told first is untold last. */
void checkpoint_undo(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    if (g->undone || !HOLDS(RULE_JOURNAL_UNDO)) return;
    g->undone = true;
    for (uint32_t i = f->ops_n; i-- > 0;)
        undo_op(c, &f->ops[i]);
    for (uint32_t i = 0; i < f->appends_n; i++) {
        struct frame_append *a = &f->appends[i];
        if (a->journal == NULL) continue;
        a->journal->frames--;
        if (a->opens) a->journal->opened = false;
        a->journal = NULL;
    }
    f->appends_n = 0;
    buf_reset(&f->records);
}

/* A client's hits on a timebox go straight: what was to be answered Redis may have forgotten with its tail.
 * What went into a journal that is not ours any more goes into another one (events by the script, which draws their
 * numbers anew: Redis may have forgotten that it gave them); what came out of it is its new owner's. */
static void redo_op(struct frame *f, struct frame_op *op, struct journal *other)
{
    struct journal *j = op->journal;
    if (op->silent && op->kind == OP_TIMEBOX && !op->fed) {
        op->silent = false;
        op->journal = NULL;
    } else if (j != NULL && op->silent)
        put(f, op, j, op->number);
    else if (j != NULL && journal_has_events(&j->ops[op->number]))
        journal_take_events(j, op->number, op->adds);
    else if (j != NULL)
        sum_out(j, op->number);
    else if (op->adds > 0)
        op->silent = true;
    else if (op->silent) {
        op->silent = false;
        if (op->kind != OP_EVENT || op->at != EVENT_GIVEN) put_in(f, op, other);
    }
}

/* Does something go into a journal that is not ours any more? */
static bool lost_one(const struct frame *f)
{
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (f->ops[i].silent && f->ops[i].journal == NULL && f->ops[i].adds == 0) return true;
    return false;
}

void checkpoint_redo(struct coalesce *c, struct group *g)
{
    if (!g->undone) return;
    g->undone = false;
    struct journal *other = lost_one(&g->frame) ? open_journal(c) : NULL;
    for (uint32_t i = 0; i < g->frame.ops_n; i++)
        redo_op(&g->frame, &g->frame.ops[i], other);
    append_all(c, &g->frame);
}

void checkpoint_refused(struct coalesce *c, const struct group *g)
{
    char why[200];
    slice_show(buf_slice(&g->frame.errors), 150, why, sizeof why);
    settles_fail(c, true, why);
}

void checkpoint_cut(struct coalesce *c)
{
    settles_fail(c, false, c->down_why);
}

void checkpoint_tick(struct coalesce *c)
{
    const struct journal *j = c->journal;
    if (sm_now(&c->link) == LINK_DOWN) settles_fail(c, false, c->down_why);
    if (j == NULL || closed_waits(c)) return;
    if (is_full(c, j) || c->ports.mono_ms(c->ports.arg) - j->begun_ms >= c->config.journal_ms) close_now(c);
}

void coalesce_flush(struct coalesce *c)
{
    close_now(c);
}

/* --- reads --- */

static bool find_pending(const struct coalesce *c, struct coalesce_settle *s)
{
    bool found = false;
    s->events = 0;
    uint64_t code = engine_name_code(c, s->kind, s->name, s->type);
    list_for_each (node, &c->journals) {
        const struct journal *j = CONTAINER_OF(node, struct journal, link);
        uint32_t i = journal_first(j, code, s->kind, s->name, s->type);
        for (; i != OP_END; i = j->ops[i].next) {
            found |= j->ops[i].adds > 0;
            if (journal_has_events(&j->ops[i])) s->events += j->ops[i].adds;
        }
    }
    return found;
}

/* In a frame that is under way, it has been taken out already, but does not stand in its keys yet. */
static bool is_under_way(const struct coalesce *c)
{
    for (uint32_t i = 0; i < c->flight_n; i++)
        if (c->flight[i]->frame.appends_n > 0) return true;
    return false;
}

bool coalesce_settle(struct coalesce *c, struct coalesce_settle *s)
{
    bool pending = s->all ? !list_empty(&c->journals) : find_pending(c, s) || is_under_way(c);
    if (!pending && sm_now(&c->link) == LINK_READY) return false;
    if (s->all) close_now(c);
    s->seq = 0;
    s->age = c->journals_n;
    list_push(&c->settles, &s->link);
    return true;
}

/* --- whose they are --- */

uint32_t checkpoint_look(struct coalesce *c)
{
    uint32_t n = 0;
    list_for_each (node, &c->journals)
        n += CONTAINER_OF(node, struct journal, link)->opened;
    c->looked = heap_realloc(c->looked, (n + 1) * sizeof *c->looked);
    n = 0;
    list_for_each (node, &c->journals) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        j->looked = j->opened;
        if (j->looked) c->looked[n++] = buf_slice(&j->name);
    }
    return n;
}

static void forget_in(struct frame *f, const struct journal *j)
{
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (f->ops[i].journal == j) f->ops[i].journal = NULL;
    for (uint32_t i = 0; i < f->appends_n; i++)
        if (f->appends[i].journal == j) f->appends[i].journal = NULL;
}

static void forget(struct coalesce *c, struct journal *j)
{
    for (uint32_t i = 0; i < c->flight_n; i++)
        forget_in(&c->flight[i]->frame, j);
    if (j == c->journal) c->journal = NULL;
    j->frames = 0;
    journal_destroy(j);
}

/* Its end ran, and only the answer was lost. */
static bool has_ended(const struct coalesce *c, const struct journal *j)
{
    for (uint32_t i = 0; i < c->flight_n; i++) {
        const struct frame *f = &c->flight[i]->frame;
        for (uint32_t k = 0; k < f->appends_n; k++)
            if (f->appends[k].journal == j && f->appends[k].ends) return true;
    }
    return false;
}

/* (!) Frames that did not run are undone by now: then a journal not opened is one that only they would have made. */
void checkpoint_looked(struct coalesce *c, const bool *ours, bool tail_lost)
{
    uint32_t at = 0;
    bool any = false;
    for (struct list *node = c->journals.next, *next; node != &c->journals; node = next) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        next = node->next;
        bool lost = j->looked && !ours[at++] && j->opened && HOLDS(RULE_JOURNAL_LOOK);
        if (!lost && !tail_lost) continue;
        any |= tail_lost || !has_ended(c, j);
        forget(c, j);
    }
    if (any)
        log_event(LOG_WARN, "journals_given_up", "why=%s",
                  LOGQ(tail_lost ? "Redis lost its tail" : "another took them over"));
    if (tail_lost) c->ports.journals_lost(c->ports.arg);
}

/* --- another one's --- */

static uint64_t record_code(void *arg, const struct journal_record *of)
{
    return engine_name_code(arg, of->kind, of->name, of->type);
}

bool coalesce_has_journal(const struct coalesce *c, struct slice name)
{
    list_for_each (node, &c->journals)
        if (slice_eq(buf_slice(&CONTAINER_OF(node, struct journal, link)->name), name)) return true;
    return false;
}

void coalesce_adopt(struct coalesce *c, struct slice name, struct slice bytes)
{
    PRE(!coalesce_has_journal(c, name));
    char shown[200];
    struct journal *j = begin(c, name);
    j->opened = j->closed = true;
    if (!journal_read(j, bytes, record_code, c))
        log_event(LOG_ERROR, "journal_torn", "name=%s next=%s", slice_show(name, 150, shown, sizeof shown),
                  LOGQ("what stands before the tear is brought home; the rest is not readable"));
    STAT_ADD(journals_adopted, 1);
    log_event(LOG_INFO, "journal_adopted", "name=%s ops=%u", slice_show(name, 150, shown, sizeof shown),
              j->pending);
}

void checkpoint_close(struct coalesce *c)
{
    while (!list_empty(&c->journals)) {
        struct journal *j = oldest(c);
        j->frames = 0;
        journal_destroy(j);
    }
    heap_free(c->looked);
}
