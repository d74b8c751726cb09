/* app/journals.c - journals of services that died before they had brought everything home: at start those of earlier
 * lives of this name, every LOOK_MS those of others of whom no link stands any more, and ours after Redis lost its tail,
 * as they stand there. One at a time; coalesce brings them home.
 * (!) They are taken on the frame link: whoever takes one from us ends that link, or we look again on the next one. */
#include "app/service.h"
#include "base/log.h"

#define LOOK_MS UINT64_C(10000)
#define AGAIN_MS UINT64_C(1000)

void journals_soon(struct service *s)
{
    s->journals.at_ms = 0;
    s->journals.again = s->journals.listing || s->journals.taking;
}

static void journals_end(struct service *s)
{
    struct journals *j = &s->journals;
    redis_journals_free(&j->list);
    buf_free(&j->take.bytes);
    j->listing = j->taking = false;
    if (j->again) j->at_ms = 0;
    j->again = false;
}

/* Ours are in coalesce, but for those that it forgot; of our name are only dead ones (start.c). */
static bool is_orphan(const struct service *s, const struct redis_journal *of)
{
    const struct life *mine = &s->settings->life;
    struct buf prefix = {0};
    name_owner(&prefix, mine);
    bool own = slice_eq(of->owner, buf_slice(&prefix));
    buf_reset(&prefix);
    buf_put_slice(&prefix, mine->instance);
    buf_put_char(&prefix, ':');
    bool of_name = slice_starts(of->owner, buf_slice(&prefix));
    buf_free(&prefix);
    return (own || of_name || !of->linked) && !coalesce_has_journal(s->coalesce, of->name);
}

static void take_next(struct service *s);

static void on_take(struct redis_journal_take *t)
{
    struct service *s = t->arg;
    if (t->taken && !coalesce_has_journal(s->coalesce, t->name))
        coalesce_adopt(s->coalesce, t->name, buf_slice(&t->bytes));
    if (t->lost) {
        log_event(LOG_WARN, "journal_not_taken", "name=" SLICE_FMT " error=%s", SLICE_ARG(t->name),
                  LOGQ(t->why));
        s->journals.at_ms = mono_ms() + AGAIN_MS;
        journals_end(s);
        return;
    }
    take_next(s);
}

static void take_next(struct service *s)
{
    struct journals *j = &s->journals;
    while (j->at < j->list.n && !is_orphan(s, &j->list.all[j->at]))
        j->at++;
    if (j->at == j->list.n || s->stage != STAGE_RUNNING) {
        journals_end(s);
        return;
    }
    const struct redis_journal *next = &j->list.all[j->at++];
    struct buf kept = j->take.bytes;
    j->take = (struct redis_journal_take){.name = next->name,
                                          .owner = next->owner,
                                          .life = &s->settings->life,
                                          .bytes = kept,
                                          .done = on_take,
                                          .arg = s};
    redis_journal_take(&s->frame_link, &j->take);
}

static void on_list(struct redis_journals *list)
{
    struct service *s = list->arg;
    s->journals.listing = false;
    s->journals.taking = true;
    s->journals.at = 0;
    if (list->lost) s->journals.at_ms = mono_ms() + AGAIN_MS;
    take_next(s);
}

void journals_tick(struct service *s, uint64_t now_ms)
{
    struct journals *j = &s->journals;
    if (s->stage != STAGE_RUNNING || !service_links_up(s)) return;
    if (j->listing || j->taking || now_ms < j->at_ms) return;
    j->at_ms = now_ms + LOOK_MS;
    j->listing = true;
    j->list = (struct redis_journals){.done = on_list, .arg = s};
    redis_journals(&s->sync_link, &j->list);
}

bool journals_quiet(const struct service *s)
{
    return !s->journals.listing && !s->journals.taking;
}
