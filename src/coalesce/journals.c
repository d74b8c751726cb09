/* coalesce/journals.c - the journals of this process (journal.h has the rules). One takes ops; closed ones wait until
 * they are brought home, oldest first. After a link came up or a process died: who owns them. */
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "coalesce/inside.h"

struct journal *journals_oldest(const struct coalesce *c)
{
    return list_empty(&c->journals) ? NULL : CONTAINER_OF(c->journals.next, struct journal, link);
}

uint64_t journals_fullness(const struct coalesce *c, const struct journal *j)
{
    uint64_t ops = (uint64_t)j->ops_n * JOURNAL_FULL / c->config.journal_ops_max;
    uint64_t bytes = j->bytes * JOURNAL_FULL / c->config.journal_bytes_max;
    return ops > bytes ? ops : bytes;
}

bool journals_full(const struct coalesce *c, const struct journal *j)
{
    return journals_fullness(c, j) >= JOURNAL_FULL;
}

bool journals_wait(const struct coalesce *c)
{
    const struct journal *j = journals_oldest(c);
    return j != NULL && j->closed;
}

/* (!) The memory of a journal is kept for the next one: tables of 100,000 names that grow from nothing twice a second
 * would stop the loop for tens of milliseconds. */
void journals_drop(struct coalesce *c, struct journal *j)
{
    PRE(j->frames == 0);
    list_remove(&j->link);
    if (c->spare_journal != NULL) journal_destroy(c->spare_journal);
    c->spare_journal = j;
}

static void spare_free(struct coalesce *c)
{
    if (c->spare_journal != NULL) journal_destroy(c->spare_journal);
    c->spare_journal = NULL;
}

static struct journal *begin(struct coalesce *c, struct slice name)
{
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    struct journal *j = c->spare_journal;
    c->spare_journal = NULL;
    if (j == NULL)
        j = journal_create(name, ++c->journals_n, now_ms);
    else
        journal_begin(j, name, ++c->journals_n, now_ms);
    list_push(&c->journals, &j->link);
    return j;
}

void journals_shut(struct coalesce *c)
{
    if (c->journal != NULL) c->journal->closed = true;
    c->journal = NULL;
}

/* The one that takes ops. */
struct journal *journals_open(struct coalesce *c)
{
    if (c->journal != NULL && journals_full(c, c->journal)) journals_shut(c);
    if (c->journal != NULL) return c->journal;
    buf_reset(&c->raw);
    name_journal(&c->raw, c->ports.life, c->journals_n + 1);
    return c->journal = begin(c, buf_slice(&c->raw));
}

void journals_tick(struct coalesce *c)
{
    const struct journal *j = c->journal;
    if (list_empty(&c->journals)) spare_free(c);
    if (j == NULL || journals_wait(c)) return;
    if (journals_full(c, j) || c->ports.mono_ms(c->ports.arg) - j->begun_ms >= c->config.journal_ms)
        journals_shut(c);
}

void coalesce_flush(struct coalesce *c)
{
    journals_shut(c);
}

/* --- whose they are --- */

uint32_t journals_look(struct coalesce *c)
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

/* (!) Frames that did not run are undone by now, so only they would have opened a journal that is not `opened`. */
void journals_looked(struct coalesce *c, const bool *ours, bool tail_lost)
{
    uint32_t at = 0;
    bool any = false;
    for (struct list *node = c->journals.next, *next; node != &c->journals; node = next) {
        struct journal *j = CONTAINER_OF(node, struct journal, link);
        next = node->next;
        bool lost = j->looked && !ours[at++] && j->opened && HOLDS(RULE_JOURNAL_LOOK);
        if (!lost && !tail_lost) continue;
        any |= tail_lost || !has_ended(c, j);
        for (uint32_t i = 0; i < c->flight_n; i++)
            forget_in(&c->flight[i]->frame, j);
        if (j == c->journal) c->journal = NULL;
        j->frames = 0;
        journals_drop(c, j);
    }
    if (any)
        log_event(LOG_WARN, "journals_given_up", "why=%s",
                  LOGQ(tail_lost ? "Redis lost its tail" : "another took them over"));
    if (tail_lost) c->ports.journals_lost(c->ports.arg);
}

/* --- of another owner --- */

static uint64_t record_code(void *arg, const struct journal_record *of)
{
    return coalesce_name_code(arg, of->kind, of->name, of->type);
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
                  LOGQ("the records before the damage are brought home; the rest cannot be read"));
    STAT_ADD(journals_adopted, 1);
    log_event(LOG_INFO, "journal_adopted", "name=%s ops=%u", slice_show(name, 150, shown, sizeof shown),
              j->pending);
}

void journals_destroy(struct coalesce *c)
{
    while (!list_empty(&c->journals)) {
        struct journal *j = journals_oldest(c);
        j->frames = 0;
        journal_destroy(j);
    }
    spare_free(c);
    heap_free(c->looked);
}
