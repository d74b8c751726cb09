/* engine/journals.c - journals of services that died before they had brought everything home: at start those of earlier
 * lives of this name, every LOOK_MS those of others of whom no link stands any more, and ours after Redis lost its tail,
 * as they stand there. One at a time; coalesce brings them home.
 * (!) They are taken on the frame link: whoever takes one from us ends that link, or we look again on the next one. */
#include "engine/journals.h"
#include "base/log.h"

#define LOOK_MS UINT64_C(10000)
#define AGAIN_MS UINT64_C(1000)

void journals_soon(struct journals *j)
{
    j->at_ms = 0;
    j->again = j->listing || j->taking;
}

static void journals_end(struct journals *j)
{
    redis_journals_free(&j->list);
    buf_free(&j->take.bytes);
    j->listing = j->taking = false;
    if (j->again) j->at_ms = 0;
    j->again = false;
}

/* Ours are in coalesce, but for those that it forgot; of our name are only dead ones (start.c). */
static bool is_orphan(const struct core *c, const struct redis_journal *of)
{
    const struct life *mine = c->config.life;
    struct buf prefix = {0};
    name_owner(&prefix, mine);
    bool own = slice_eq(of->owner, buf_slice(&prefix));
    buf_reset(&prefix);
    buf_put_slice(&prefix, mine->instance);
    buf_put_char(&prefix, ':');
    bool of_name = slice_starts(of->owner, buf_slice(&prefix));
    buf_free(&prefix);
    return (own || of_name || !of->linked) && !coalesce_has_journal(c->coalesce, of->name);
}

static void take_next(struct journals *j);

static void on_take(struct redis_journal_take *t)
{
    struct journals *j = t->arg;
    if (t->taken && !coalesce_has_journal(j->core->coalesce, t->name))
        coalesce_adopt(j->core->coalesce, t->name, buf_slice(&t->bytes));
    if (t->lost) {
        log_event(LOG_WARN, "journal_not_taken", "name=" SLICE_FMT " error=%s", SLICE_ARG(t->name),
                  LOGQ(t->why));
        j->at_ms = mono_ms() + AGAIN_MS;
        journals_end(j);
        return;
    }
    take_next(j);
}

static void take_next(struct journals *j)
{
    while (j->at < j->list.n && !is_orphan(j->core, &j->list.all[j->at]))
        j->at++;
    if (j->at == j->list.n || j->core->stage != STAGE_RUNNING) {
        journals_end(j);
        return;
    }
    const struct redis_journal *next = &j->list.all[j->at++];
    struct buf kept = j->take.bytes;
    j->take = (struct redis_journal_take){.name = next->name,
                                          .owner = next->owner,
                                          .life = j->core->config.life,
                                          .bytes = kept,
                                          .done = on_take,
                                          .arg = j};
    redis_journal_take(&j->core->frame_link, &j->take);
}

static void on_list(struct redis_journals *list)
{
    struct journals *j = list->arg;
    j->listing = false;
    j->taking = true;
    j->at = 0;
    if (list->lost) j->at_ms = mono_ms() + AGAIN_MS;
    take_next(j);
}

void journals_tick(struct journals *j, uint64_t now_ms)
{
    if (j->core->stage != STAGE_RUNNING || !core_up(j->core)) return;
    if (j->listing || j->taking || now_ms < j->at_ms) return;
    j->at_ms = now_ms + LOOK_MS;
    j->listing = true;
    j->list = (struct redis_journals){.done = on_list, .arg = j};
    redis_journals(&j->core->sync_link, &j->list);
}

bool journals_quiet(const struct journals *j)
{
    return !j->listing && !j->taking;
}
