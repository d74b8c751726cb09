/* coalesce/settle.c - reads that wait until what journals have of a name is in its own keys. A settle takes out what
 * there was when it began. It ends when the frame that carried the last of it is applied. */
#include "base/stats.h"
#include "coalesce/inside.h"
#include "coalesce/journal.h"

#define SETTLE_EVENTS_MAX 2000 /* a frame */

bool settles_wait(const struct coalesce *c)
{
    list_for_each (node, &c->settles)
        if (CONTAINER_OF(node, struct coalesce_settle, link)->seq == 0) return true;
    return false;
}

static bool find_pending(const struct coalesce *c, struct coalesce_settle *s)
{
    bool found = false;
    s->events = 0;
    uint64_t code = coalesce_name_code(c, s->kind, s->name, s->type);
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

/* What a frame under way brings home has left the journal already, but is not in its keys yet. */
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
    if (s->all) journals_shut(c);
    s->seq = 0;
    s->age = c->journals_n;
    list_push(&c->settles, &s->link);
    return true;
}

/* --- with a frame --- */

/* A settle takes what was there when it began; of a long log, some in each frame. */
static uint32_t settle_out(struct coalesce *c, struct frame *f, const struct coalesce_settle *s)
{
    uint64_t code = coalesce_name_code(c, s->kind, s->name, s->type);
    uint32_t events = 0;
    list_for_each (node, &c->journals) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        uint32_t i = journal_first(j, code, s->kind, s->name, s->type);
        for (; i != OP_END; i = j->ops[i].next) {
            bool is_full = events == SETTLE_EVENTS_MAX && journal_has_events(&j->ops[i]);
            if (j->ops[i].adds == 0 || is_full) continue;
            (void)checkpoint_take_out(c, f, j, i, SETTLE_EVENTS_MAX - events);
            events += f->ops[f->ops_n - 1].items_n;
        }
    }
    return events;
}

void settles_out(struct coalesce *c, struct frame *f)
{
    list_for_each (node, &c->settles) {
        struct coalesce_settle *s = CONTAINER_OF(node, struct coalesce_settle, link);
        if (s->seq != 0) continue;
        uint32_t events = s->all ? 0 : settle_out(c, f, s);
        s->events -= events < s->events ? events : s->events;
        if (events < SETTLE_EVENTS_MAX || s->events == 0) s->seq = f->seq;
    }
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
    const struct journal *j = journals_oldest(c);
    return j != NULL && j->age <= age;
}

void settles_applied(struct coalesce *c, uint64_t seq)
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

void settles_refused(struct coalesce *c, const struct group *g)
{
    char why[200];
    slice_show(buf_slice(&g->frame.errors), 150, why, sizeof why);
    settles_fail(c, true, why);
    list_for_each (node, &c->settles) /* what the frame took of a long log is in the journal again */
        (void)find_pending(c, CONTAINER_OF(node, struct coalesce_settle, link));
}

void settles_cut(struct coalesce *c)
{
    settles_fail(c, false, c->down_why);
}

void settles_tick(struct coalesce *c)
{
    int link = sm_now(&c->link);
    uint64_t behind_ms = c->ports.mono_ms(c->ports.arg) - c->replay.begun_ms;
    if (link == LINK_DOWN) settles_cut(c);
    if (link == LINK_READY && c->replay.next != NULL && behind_ms >= c->config.busy_ms)
        settles_fail(c, false, BEHIND_WHY);
}
