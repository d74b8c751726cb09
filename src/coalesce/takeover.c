/* coalesce/takeover.c - see coalesce.h. A look lists all journals, then takes the orphans among them one by one. A lost
 * link ends it, and so does a frame link to another server (!): the owners may have links there. The next look begins
 * with a new list. */
#include "base/heap.h"
#include "base/log.h"
#include "coalesce/coalesce.h"
#include "coalesce/inside.h"

static void takeover_end(struct takeover *t, bool lost)
{
    heap_free(t->list.all);
    buf_free(&t->list.texts);
    buf_free(&t->take.bytes);
    buf_free(&t->take.owners);
    t->busy = false;
    if (lost) t->at_ms = t->coalesce->ports.mono_ms(t->coalesce->ports.arg) + t->every_ms / 10;
}

/* coalesce has ours, except those that it forgot. Other lives of our instance are dead, since two do not run at
 * once. */
static bool is_orphan(const struct coalesce *c, const struct listed_journal *of)
{
    struct slice instance = c->ports.life->instance, owner = of->owner;
    bool of_instance = slice_starts(owner, instance) && owner.n > instance.n && owner.p[instance.n] == ':';
    bool orphan = (of_instance && HOLDS(RULE_TAKEOVER_OWN)) || !of->linked;
    return orphan && !coalesce_has_journal(c, of->name);
}

static void take_done(struct journal_take *take);

static void take_next(struct takeover *t)
{
    if (strcmp(t->list.run_id, t->coalesce->run_id) != 0 && HOLDS(RULE_TAKEOVER_SERVER)) {
        takeover_end(t, true);
        return;
    }
    while (t->at < t->list.n && !is_orphan(t->coalesce, &t->list.all[t->at]))
        t->at++;
    if (t->at == t->list.n || t->stopped) {
        takeover_end(t, false);
        return;
    }
    const struct listed_journal *next = &t->list.all[t->at++];
    struct buf bytes = t->take.bytes, owners = t->take.owners;
    t->take = (struct journal_take){.name = next->name,
                                    .owner = next->owner,
                                    .bytes = bytes,
                                    .owners = owners,
                                    .done = take_done,
                                    .arg = t};
    t->ports.take(t->ports.arg, &t->take);
}

static void take_done(struct journal_take *take)
{
    struct takeover *t = take->arg;
    if (take->lost) {
        log_event(LOG_WARN, "journal_not_taken", "name=" SLICE_FMT " error=%s", SLICE_ARG(take->name),
                  LOGQ(take->why));
        takeover_end(t, true);
        return;
    }
    if (take->taken && !coalesce_has_journal(t->coalesce, take->name))
        coalesce_adopt(t->coalesce, take->name, buf_slice(&take->bytes));
    take_next(t);
}

static void list_done(struct journal_list *list)
{
    struct takeover *t = list->arg;
    if (list->lost)
        takeover_end(t, true);
    else
        take_next(t);
}

void takeover_init(struct takeover *t, struct coalesce *c, const struct takeover_ports *ports,
                   uint32_t every_ms)
{
    *t = (struct takeover){.ports = *ports, .coalesce = c, .every_ms = every_ms};
}

void takeover_soon(struct takeover *t)
{
    t->at_ms = 0;
}

void takeover_tick(struct takeover *t)
{
    uint64_t now_ms = t->coalesce->ports.mono_ms(t->coalesce->ports.arg);
    if (t->busy || t->stopped || now_ms < t->at_ms) return;
    t->at_ms = now_ms + t->every_ms;
    t->busy = true;
    t->at = 0;
    t->list = (struct journal_list){.done = list_done, .arg = t};
    t->ports.list(t->ports.arg, &t->list);
}

void takeover_stop(struct takeover *t)
{
    t->stopped = true;
}
