/* admin/migrate.c - `tallyd migrate`: tallyd's own tables, and with --tables the merchant's, with --views what panels
 * read. */
#include "admin/human.h"
#include "admin/verbs.h"
#include "mysql/ledger.h"
#include "mysql/schema.h"
#include "redis/batch.h"
#include "status/ask.h"

#include <stdio.h>

#define ANSWER_S 86400 /* an index on a large table is longer under way than any answer to the service */

static enum err print(const struct call *call, const struct setup *setup)
{
    struct buf sql = {0};
    schema_print(&sql);
    if (call->tables) schema_print_tables(&setup->counters, &sql);
    if (call->views) BUF_LIT(&sql, "\n");
    if (call->views) views_print(&setup->counters, &sql);
    fwrite(sql.p, 1, sql.n, stdout);
    buf_free(&sql);
    return ERR_NONE;
}

/* --- a ledger that was dropped: which batches it would have known --- */

struct ledgerless {
    struct batch_list list;
    size_t n;
};

static void batch_listed(void *arg, const struct batch_seen *b)
{
    struct ledgerless *s = arg;
    if (s->n++ == 0) printf("batches in Redis, merged in part, as a whole or not at all:\n");
    printf("  " SLICE_FMT " of " SLICE_FMT ", hashes: %u\n", SLICE_ARG(b->id), SLICE_ARG(b->counter),
           b->hashes);
}

static enum err lanes_list(struct ask *ask, struct ledgerless *s, struct error *e)
{
    for (uint32_t lane = 0; lane < ask->at.lanes; lane++) {
        if (lane != ask->lane && ask_lane(ask, lane, e) != ERR_NONE) return e->code;
        s->list = (struct batch_list){.batch = batch_listed, .arg = s};
        redis_batch_list(&ask->link, &s->list);
        redis_settle(&ask->link);
        if (s->list.lost) return error_set(e, ERR_UNAVAILABLE, "it did not answer");
    }
    return ERR_NONE;
}

static void batches_print(const struct setup *setup)
{
    const struct source where = setup_source(setup);
    struct ask ask;
    struct error e;
    struct ledgerless s = {0};
    enum err code = ask_open_patiently(&ask, &where, &e);
    if (code == ERR_NONE) {
        code = lanes_list(&ask, &s, &e);
        ask_close(&ask);
    }
    if (code != ERR_NONE)
        printf("tallyd cannot tell which %sbatches are in Redis: %s\n", s.n > 0 ? "other " : "", e.text);
    else if (s.n == 0)
        printf("there is no batch in Redis\n");
}

static enum err apply_own(struct db *db, const struct call *call, const struct setup *setup, struct error *e)
{
    uint32_t from, to;
    unsigned dropped;
    enum err code = schema_dropped(db, &dropped, e);
    if (code != ERR_NONE) return code;
    if ((dropped >> SCHEMA_LEDGER & 1) != 0)
        batches_print(setup);
    else if (call->ledger_lost)
        printf("tally_ledger is not lost: --ledger-lost changes nothing\n");
    fflush(stdout);
    code = schema_migrate(db, call->ledger_lost, &from, &to, e);
    if (code != ERR_NONE) return code;
    for (unsigned i = 0; i < SCHEMA_OWN_TABLES; i++)
        if ((dropped >> i & 1) != 0)
            printf("%s was dropped, and is made again, empty. Lost with it: %s\n", schema_own[i].name,
                   schema_own[i].lost);
    if (from == to)
        printf("tallyd's tables are at version %u already\n", to);
    else
        printf("tallyd's tables are at version %u now (%u before)\n", to, from);
    return ERR_NONE;
}

/* One table after the other: each CREATE TABLE waits for locks, which may take long on a busy server. */
static enum err apply_tables(struct db *db, const struct counters *cs, struct error *e)
{
    struct bar bar;
    enum err code = ERR_NONE;
    uint32_t made = 0;
    bar_init(&bar, stdout, "making tables");
    for (size_t i = 0; code == ERR_NONE && i < cs->n; i++) {
        const struct counters one = {.all = &cs->all[i], .n = 1, .ops = cs->ops};
        uint32_t created = 0;
        if (bar.terminal) bar_show(&bar, i, cs->n);
        code = schema_migrate_tables(db, &one, &created, e);
        made += created;
    }
    if (bar.terminal && code == ERR_NONE) bar_show(&bar, cs->n, cs->n);
    bar_end(&bar);
    if (code == ERR_NONE)
        printf("of the %zu tables that the configuration names, %u were made\n", cs->n, made);
    return code;
}

static enum err apply_views(struct db *db, const struct setup *setup, struct error *e)
{
    struct views_made made;
    enum err code = views_apply(db, &setup->counters, &made, e);
    if (code != ERR_NONE) return code;
    printf("%u views are there\n", made.views);
    if (made.nameless > 0)
        printf("%u counters have no view: a view's name has at most 64 characters, and tally_stored_ takes "
               "13 of them\n",
               made.nameless);
    if (made.role)
        printf("the role tally_reader may read them: GRANT tally_reader TO <user>\n");
    else
        printf("the role tally_reader was not made (%s); an administrator of MySQL can make it: run the end "
               "of what `tallyd migrate --print --views` prints\n",
               made.role_text);
    return ERR_NONE;
}

static enum err connect_and_apply(const struct call *call, const struct setup *setup)
{
    struct error e;
    struct db_config patient = setup->mysql; /* borrows its texts */
    patient.read_timeout_s = ANSWER_S;
    struct db *db = db_create(&patient);
    enum err code = db_open(db) == CODE_OK ? apply_own(db, call, setup, &e) : db_error(db, &e);
    if (code == ERR_NONE)
        code = call->another_redis ? realms_free_make(db, setup->lanes, setup->lanes, &e)
                                   : realms_first(db, setup->lanes, &e);
    if (code == ERR_NONE && call->another_redis)
        printf("MySQL now counts for one more Redis: the next one without a tally:realm\n");
    if (code == ERR_NONE && call->tables) code = apply_tables(db, &setup->counters, &e);
    if (code == ERR_NONE && call->views) code = apply_views(db, setup, &e);
    db_destroy(&db);
    return code == ERR_NONE ? code : call_failed(&e);
}

enum err verb_migrate(const struct call *call)
{
    return call_configured(call, call->print ? print : connect_and_apply);
}
