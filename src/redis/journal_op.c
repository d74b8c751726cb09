/* redis/journal_op.c - see batch.h. */
#include "base/heap.h"
#include "redis/ask.h"
#include "redis/batch.h"
#include "redis/check_op.h"
#include "series/names.h"

#define ANSWER_BYTES (256 << 10)

/* --- the list --- */

static bool names_file(struct journal_list *list, const struct redis_answer *r)
{
    if (!answer_is(r, REDIS_ARRAY) || r->n % 2 != 0) return false;
    struct slice *texts = answer_texts(r, 1, &list->texts);
    list->all = heap_zalloc((r->n / 2 + 1) * sizeof *list->all);
    for (list->n = 0; list->n < r->n / 2; list->n++) {
        list->all[list->n].name = texts[2 * list->n];
        list->all[list->n].owner = texts[2 * list->n + 1];
    }
    heap_free(texts);
    return true;
}

static void journals_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct journal_list *list = arg;
    struct redis_client c;
    (void)l;
    if (at == 0)
        list->lost = !names_file(list, r);
    else
        list->lost |= !answer_is(r, REDIS_STRING);
    for (struct slice clients = at == 1 && !list->lost ? r->str : SLICE(""); client_next(&clients, &c);)
        for (size_t i = 0; i < list->n; i++)
            list->all[i].linked |= client_is_of(&c, list->all[i].owner);
    if (r == NULL || at == 1) list->done(list);
}

void redis_journals(struct redis_link *l, struct journal_list *list)
{
    list->n = 0;
    list->lost = false;
    memcpy(list->run_id, l->facts.run_id, sizeof list->run_id);
    redis_write(l, "HGETALL {}" KEY_JOURNALS);
    redis_write(l, "CLIENT LIST");
    redis_link_ask(l, 2, journals_done, list);
}

/* --- one of them --- */

static void take_fail(struct journal_take *t, const struct redis_answer *r)
{
    answer_why(r, t->why, sizeof t->why);
    t->lost = true;
    t->done(t);
}

static void take_piece_ask(struct redis_link *l, struct journal_take *t);

static void take_piece_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct journal_take *t = arg;
    (void)at;
    if (!answer_is(r, REDIS_STRING)) return take_fail(t, r);
    buf_put_slice(&t->bytes, r->str);
    if (r->str.n == ANSWER_BYTES) return take_piece_ask(l, t);
    t->taken = true;
    t->done(t);
}

static void take_piece_ask(struct redis_link *l, struct journal_take *t)
{
    redis_write(l, "GETRANGE {}" KEY_JOURNAL_PREFIX "%.*s %zu %zu", SLICE_ARG(t->name), t->bytes.n,
                t->bytes.n + ANSWER_BYTES - 1);
    redis_link_ask(l, 1, take_piece_done, t);
}

static void take_ended_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct journal_take *t = arg;
    (void)at;
    if (!answer_is(r, REDIS_INTEGER))
        take_fail(t, r);
    else if (r->integer == 0)
        t->done(t);
    else
        take_piece_ask(l, t);
}

static void take_ended_ask(struct redis_link *l, struct journal_take *t)
{
    redis_write(l, "EVAL %.*s 2 {}" KEY_JOURNALS " {}" KEY_JOURNALS_TAKEN " %.*s " OWNER_FMT,
                SLICE_ARG(lua_journal_ended), SLICE_ARG(t->name), OWNER_ARG(l->config.life));
    redis_link_ask(l, 1, take_ended_done, t);
}

static void take_kill_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct journal_take *t = arg;
    if (!answer_is(r, REDIS_INTEGER) && !t->lost) {
        answer_why(r, t->why, sizeof t->why);
        t->lost = true;
    }
    if (r != NULL && at + 1 < t->killing) return;
    if (t->lost)
        t->done(t);
    else
        take_ended_ask(l, t);
}

/* Our own links are not ended, even if we owned the journal once before. */
static bool must_end(const struct journal_take *t, const struct redis_client *c, struct slice mine)
{
    struct slice rest = buf_slice(&t->owners);
    while (rest.n > 0) {
        struct slice owner = text_part(&rest, ' ');
        if (!slice_eq(owner, mine) && client_is_of(c, owner)) return true;
    }
    return false;
}

static void take_list_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct journal_take *t = arg;
    struct redis_client c;
    struct buf mine = {0};
    (void)at;
    if (!answer_is(r, REDIS_STRING)) return take_fail(t, r);
    name_owner(&mine, l->config.life);
    for (struct slice clients = r->str; client_next(&clients, &c);) {
        if (!must_end(t, &c, buf_slice(&mine))) continue;
        client_kill_put(l, &c);
        t->killing++;
    }
    buf_free(&mine);
    if (t->killing > 0)
        redis_link_ask(l, t->killing, take_kill_done, t);
    else
        take_ended_ask(l, t);
}

static void journal_take_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct journal_take *t = arg;
    (void)at;
    if (answer_is(r, REDIS_INTEGER)) {
        t->done(t);
    } else if (!answer_is(r, REDIS_STRING)) {
        take_fail(t, r);
    } else if (r->str.n == 0) {
        take_piece_ask(l, t);
    } else {
        buf_put_slice(&t->owners, r->str);
        redis_write(l, "CLIENT LIST");
        redis_link_ask(l, 1, take_list_done, t);
    }
}

void redis_journal_take(struct redis_link *l, struct journal_take *t)
{
    t->taken = t->lost = false;
    t->killing = 0;
    buf_reset(&t->bytes);
    buf_reset(&t->owners);
    redis_write(l,
                "EVAL %.*s 3 {}" KEY_JOURNALS " {}" KEY_JOURNALS_TAKEN " {}" KEY_SEQ_PREFIX
                "%.*s %.*s %.*s " OWNER_FMT,
                SLICE_ARG(lua_journal_take), SLICE_ARG(t->owner), SLICE_ARG(t->name), SLICE_ARG(t->owner),
                OWNER_ARG(l->config.life));
    redis_link_ask(l, 1, journal_take_done, t);
}
