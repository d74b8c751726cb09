/* status/probe_mysql.c - MySQL's side: the books as they are, how far batches are merged, rejects, and what in its
 * schema prevents merging. */
#include "status/probe.h"

#include "base/heap.h"
#include "mysql/books.h"
#include "mysql/ledger.h"

#include <stdio.h>

static void unread(struct status *s, const struct error *e)
{
    s->mysql.read = false;
    if (s->mysql.why[0] == '\0')
        snprintf(s->mysql.why, sizeof s->mysql.why, "%.*s", STATUS_WHY_BYTES - 1, e->text);
}

void probe_mysql_first(struct db *db, const struct batch_id *realm, struct status *s)
{
    struct error e;
    s->mysql.up = db_open(db) == CODE_OK;
    if (!s->mysql.up) {
        db_error(db, &e);
        unread(s, &e);
        return;
    }
    snprintf(s->mysql.version, sizeof s->mysql.version, "%s", db_version(db));
    s->mysql.mariadb = db_is_mariadb(db);
    s->mysql.read_only = db_read_only(db);
    s->mysql.read = true;
    snprintf(s->mysql.server, sizeof s->mysql.server, "%s", db_server(db));
    if (ledger_gen_highest(db, realm, &s->mysql.gen, &e) != ERR_NONE) unread(s, &e);
}

static struct status_counter *counter_find(struct status *s, struct slice name)
{
    for (size_t i = 0; i < s->counters_n; i++)
        if (slice_eq(s->counters[i].counter->name, name)) return &s->counters[i];
    return NULL;
}

static void books_file(const struct books *books, struct status *s)
{
    for (size_t i = 0; i < s->counters_n; i++) /* a counter without a row has merged nothing yet */
        s->counters[i].merged.known = s->counters[i].rejected.known = s->counters[i].complete_until_ms.known =
            true;
    for (size_t i = 0; i < books->counters_n; i++) {
        const struct books_counter *from = &books->counters[i];
        struct status_counter *to = counter_find(s, slice_str(from->name));
        if (to == NULL) continue;
        to->merged.value = from->merged;
        to->rejected.value = from->rejected;
        to->complete_until_ms.value = from->complete_until_ms;
    }
}

static void chunks_file(const struct books *books, struct status *s)
{
    for (size_t i = 0; i < books->chunks_n; i++) {
        for (size_t k = 0; k < s->batches_n && k < STATUS_BATCHES_LOOKED; k++) {
            struct status_batch *b = &s->batches[k];
            if (memcmp(&b->id, &books->chunks[i].batch, sizeof b->id) != 0) continue;
            b->chunks = (struct figure){.known = true, .value = books->chunks[i].chunks};
            bool whole = books->chunks[i].waiting.n == 0;
            b->chunks_merged = (struct figure){.known = true, .value = b->chunks_merged.value + whole};
        }
    }
}

static void rejects_take(void *arg, struct slice counter, uint64_t rows)
{
    struct status_counter *c = counter_find(arg, counter);
    if (c != NULL) c->rejects.value = (int64_t)rows;
}

void probe_mysql_lane(struct db *db, const struct source *where, const struct batch_id *realm, bool brief,
                      struct status *s)
{
    bool kept = where->conf->mysql_keep_ms > 0; /* of those it counts which are merged */
    size_t n = s->batches_n < STATUS_BATCHES_LOOKED ? s->batches_n : STATUS_BATCHES_LOOKED;
    struct batch_id ids[STATUS_BATCHES_LOOKED];
    struct books books = {0};
    struct error e;
    if (!s->mysql.read || (brief && !kept)) return;
    for (size_t i = 0; i < n; i++)
        ids[i] = s->batches[i].id;
    if (books_read(db, realm, UINT64_MAX >> 1, ids, n, &books, &e) == ERR_NONE) {
        books_file(&books, s);
        chunks_file(&books, s);
    } else {
        unread(s, &e);
    }
    books_close(&books);
}

void probe_mysql(struct db *db, const struct source *where, bool brief, struct status *s)
{
    const struct schema_rules rules = {.accept_flush = where->conf->mysql_durability == CONF_RELAXED,
                                       .lanes = where->lanes};
    struct error e;
    if (!s->mysql.up) return;
    if (!brief && schema_check(db, where->counters, &rules, &s->schema, &e) != ERR_NONE) unread(s, &e);
    if (!s->mysql.read) return;
    enum err code = rejects_standing(db, rejects_take, s, &e);
    for (size_t i = 0; i < s->counters_n; i++)
        s->counters[i].rejects.known = code == ERR_NONE;
    if (code != ERR_NONE) unread(s, &e);
}
