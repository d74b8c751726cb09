/* admin/verify.c - `tallyd verify`: proves the books of every counter. */
#include "admin/verbs.h"
#include "status/proof.h"

#include <stdio.h>

/* Redis is connected to first and asked last of all that can fail, so that nothing long stands between its answer and
 * MySQL's snapshot. */
static enum err prove(const struct source *where, struct sums *sums, struct error *e)
{
    struct ask ask;
    enum err code = ask_open_patiently(&ask, where, e);
    if (code != ERR_NONE) return code;
    struct db *db = db_create(where->mysql);
    code = db_open(db) == CODE_OK ? proof_read(&ask, db, &proof_limits_verb, sums, e) : db_error(db, e);
    db_destroy(&db);
    ask_close(&ask);
    return code;
}

static enum err report(const struct sums *sums)
{
    struct buf text = {0};
    size_t unbalanced = sums_print(sums, &text);
    if (unbalanced == 0)
        printf("%.*sThe books balance.\n", (int)text.n, text.p);
    else
        printf("%.*sThe books of %zu counter%s do not balance.\n", (int)text.n, text.p, unbalanced,
               unbalanced == 1 ? "" : "s");
    buf_free(&text);
    return unbalanced == 0 ? ERR_NONE : ERR_FAILED;
}

enum err verb_verify(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    struct sums sums;
    struct error e;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    const struct source where = setup_source(&setup);
    sums_init(&sums, &setup.counters);
    enum err code = prove(&where, &sums, &e);
    code = code == ERR_NONE ? report(&sums) : call_failed(&e);
    sums_close(&sums);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
