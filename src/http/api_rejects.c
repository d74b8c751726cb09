/* http/api_rejects.c - the rows that MySQL refused: listed, tried again, given up. */
#include "base/heap.h"
#include "base/log.h"
#include "http/inside.h"
#include "http/route.h"
#include "status/status.h"

#include <stdio.h>

static void refuse_error(struct exchange *x, const struct error *e)
{
    exchange_refuse(x, 503, "see that MySQL answers, then ask again", "%s", e->text);
}

/* A connection with the writers' session, for this request. NULL: refused. */
static struct db *db_for(struct exchange *x, struct worker *w)
{
    struct error e;
    struct db *db = db_create(&w->panel.config);
    if (db_open(db) == CODE_OK) return db;
    db_error(db, &e);
    refuse_error(x, &e);
    db_destroy(&db);
    return NULL;
}

/* --- the list --- */

struct rejects_listing {
    struct json j;
    const struct counters *counters;
};

static void reject_put(void *arg, const struct reject *r)
{
    struct rejects_listing *l = arg;
    reject_json(&l->j, r, l->counters);
}

static enum err list_put(struct exchange *x, struct db *db, const struct rejects_which *which, uint32_t limit,
                         struct error *e)
{
    uint64_t waiting = 0;
    struct rejects_which all = {0};
    struct rejects_listing l = {.j = exchange_json(x), .counters = x->http->where->counters};
    json_open(&l.j, NULL, '{');
    json_open(&l.j, "rejects", '[');
    if (rejects_list(db, which, limit, reject_put, &l, e) != ERR_NONE) return e->code;
    json_close(&l.j, ']');
    if (rejects_count(db, &all, &waiting, e) != ERR_NONE) return e->code;
    json_int(&l.j, "waiting", (int64_t)waiting);
    json_close(&l.j, '}');
    return ERR_NONE;
}

void run_rejects(struct exchange *x, struct worker *w)
{
    int64_t limit;
    struct error e;
    struct rejects_which which = {.counters = x->http->where->counters};
    target_arg(&x->target, "counter", &which.counter);
    if (!exchange_number(x, "limit", 1, 1000, 100, &limit)) return;
    struct db *db = db_for(x, w);
    if (db == NULL) return;
    target_arg(&x->target, "store", &which.store);
    if (list_put(x, db, &which, (uint32_t)limit, &e) != ERR_NONE) refuse_error(x, &e);
    db_destroy(&db);
}

/* --- one of them --- */

/* The one that the path names, still waiting. NULL: refused. */
static struct db *one_for(struct exchange *x, struct worker *w, struct reject_id *id)
{
    struct error e;
    uint64_t waits = 0;
    struct rejects_which which = {.id = id};
    if (!reject_id_read(exchange_part(x, 0), id)) {
        exchange_refuse(x, 404, "see /api/rejects", "no refused row has such an id");
        return NULL;
    }
    struct db *db = db_for(x, w);
    if (db == NULL) return NULL;
    if (rejects_count(db, &which, &waits, &e) != ERR_NONE)
        refuse_error(x, &e);
    else if (waits == 0)
        exchange_refuse(x, 404, "see /api/rejects",
                        "no refused row of that id waits: it was replayed or dropped");
    else
        return db;
    db_destroy(&db);
    return NULL;
}

static void done_put(struct exchange *x, const struct reject_id *id, const char *outcome, const char *reason)
{
    char text[REJECT_ID_BYTES];
    reject_id_write(id, text);
    struct json j = exchange_json(x);
    json_open(&j, NULL, '{');
    json_text(&j, "id", text);
    json_text(&j, "outcome", outcome);
    if (reason[0] != '\0')
        json_text(&j, "reason", reason);
    else
        json_null(&j, "reason");
    json_close(&j, '}');
    log_event(LOG_INFO, "reject", "id=%s outcome=%s by=%s", text, outcome,
              LOGQ(x->who.bearer != NULL ? x->who.bearer->name : "local"));
}

static void reason_keep(void *arg, const struct reject_id *id, const char *reason)
{
    (void)id;
    snprintf(arg, 300, "%.299s", reason);
}

void run_replay(struct exchange *x, struct worker *w)
{
    char reason[300] = "";
    struct error e;
    struct reject_id id;
    struct db *db = one_for(x, w, &id);
    if (db == NULL) return;
    struct rejects_which which = {.id = &id};
    struct rejects_replay replay = {
        .counters = x->http->where->counters, .refuse = reason_keep, .arg = reason};
    if (rejects_replay(db, &which, &replay, &e) != ERR_NONE)
        refuse_error(x, &e);
    else if (replay.replayed + replay.refused == 0)
        exchange_refuse(x, 404, "see /api/rejects", "another request replayed or dropped it just now");
    else
        done_put(x, &id, replay.refused > 0 ? "refused" : "replayed", reason);
    db_destroy(&db);
}

void run_drop(struct exchange *x, struct worker *w)
{
    struct error e;
    uint64_t dropped = 0;
    struct reject_id id;
    struct db *db = one_for(x, w, &id);
    if (db == NULL) return;
    struct rejects_which which = {.id = &id};
    if (rejects_drop(db, &which, &dropped, &e) != ERR_NONE)
        refuse_error(x, &e);
    else if (dropped == 0)
        exchange_refuse(x, 404, "see /api/rejects", "another request replayed or dropped it just now");
    else
        done_put(x, &id, "dropped", "");
    db_destroy(&db);
}
