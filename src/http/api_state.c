/* http/api_state.c - how the service does: /api/status, /api/books, /api/pulse, /api/history, /healthz, /readyz; and the rows that MySQL refused. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "http/inside.h"
#include "status/proof.h"
#include "status/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

#define FIGURES_AGE_MS 900
/* For so many of a hash its mark is kept a millisecond: it is read in a thirtieth of that. */
#define FIELDS_A_MS 50

void run_status(struct exchange *x, struct worker *w)
{
    struct status s;
    struct status_how how = {.service = door_link(&w->door), .books = true};
    status_probe(x->http->where, &how, &s);
    exchange_json(x, 0);
    status_json(&x->body, &s);
    status_close(&s);
}

/* --- the books --- */

static void books_put(struct exchange *x, const struct sums *s)
{
    struct json j = exchange_json(x, '{');
    json_bool(&j, "balanced", sums_proved(s));
    json_int(&j, "as_of", wall_ms() / 1000);
    json_open(&j, "counters", '[');
    for (size_t i = 0; i < s->n; i++) {
        const struct sum *c = &s->all[i];
        json_open(&j, NULL, '{');
        json_text(&j, "counter", c->name);
        sum_columns_json(&j, c);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

void run_books(struct exchange *x, struct worker *w)
{
    struct ask ask;
    struct error e;
    struct sums sums;
    sums_init(&sums, x->http->where->counters);
    enum err code = ask_open_patiently(&ask, x->http->where, &e);
    if (code == ERR_NONE) {
        struct db *db = db_create(&w->panel.config);
        code =
            db_open(db) == CODE_OK ? proof_read(&ask, db, &proof_limits_verb, &sums, &e) : db_error(db, &e);
        db_destroy(&db);
        ask_close(&ask);
    }
    if (code == ERR_NONE)
        books_put(x, &sums);
    else
        exchange_refuse(x, 503, "see tallyd status and tallyd verify, and ask again", "%s", e.text);
    sums_close(&sums);
}

/* --- what moves --- */

/* The same for the same fields and counts in any order. */
static struct mark mark_read(struct worker *w, struct slice key, uint64_t of)
{
    struct slice words[] = {SLICE("CTR.PENDING"), key};
    redisReply *reply = door_ask(&w->door, words, 2);
    struct mark m = {.of = of};
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY) {
        m.digest = reply->elements;
        for (size_t i = 0; i + 1 < reply->elements; i += 2) {
            const redisReply *field = reply->element[i], *count = reply->element[i + 1];
            m.digest += XXH3_64bits_withSeed(count->str, count->len, XXH3_64bits(field->str, field->len));
        }
        m.until_ms = mono_ms() + reply->elements / 2 / FIELDS_A_MS;
    }
    freeReplyObject(reply);
    return m;
}

/* Of what is pending; 0: it could not be read. A large hash is work for the loop, so its digest is kept for a while, for all
 * who ask. */
static uint64_t pending_digest(struct http *h, struct worker *w, const struct counter *c, struct slice store)
{
    struct buf key = {0};
    struct mark m = {0};
    if (!c->key.has_store && c->key.places == NULL) pattern_put(&c->key, store, &key);
    if (key.n > 0 || counter_key(c, store, &key)) {
        uint64_t of = XXH3_64bits(key.p, key.n);
        pthread_mutex_lock(&h->lock);
        m = h->marks[of % MARKS];
        pthread_mutex_unlock(&h->lock);
        if (m.of != of || mono_ms() >= m.until_ms) {
            m = mark_read(w, buf_slice(&key), of);
            pthread_mutex_lock(&h->lock);
            h->marks[of % MARKS] = m;
            pthread_mutex_unlock(&h->lock);
        }
    }
    buf_free(&key);
    return m.digest;
}

/* A hit may be claimed before it is ever seen as pending, and a worker does not know which stores a batch is of. So after any
 * claim or merge all of a store's figures may have moved. */
static void moved_put(struct json *j, struct http *h, struct worker *w, struct slice store, bool mysql_up)
{
    const struct counters *counters = h->where->counters;
    const int64_t all[] = {STAT_GET(claims), STAT_GET(batches_done), mysql_up};
    json_open(j, "moved", '{');
    for (size_t i = 0; i < counters->n; i++) {
        const struct counter *c = &counters->all[i];
        char name[TEXT_BYTES_MAX + 1], mark[17];
        if (!c->key.has_store && !slice_eq(store, NO_STORE)) continue;
        snprintf(name, sizeof name, SLICE_FMT, SLICE_ARG(c->name));
        snprintf(mark, sizeof mark, "%016" PRIx64,
                 XXH3_64bits_withSeed(all, sizeof all, pending_digest(h, w, c, store)));
        json_text(j, name, mark);
    }
    json_close(j, '}');
}

static void pulse_figures_put(void *arg, const struct status_figures *seen)
{
    struct json *j = arg;
    json_int(j, "hits", STAT_GET(hits));
    json_int(j, "hits_refused", STAT_GET(hits_refused));
    json_int(j, "frames", STAT_GET(frames));
    json_int(j, "cells", STAT_GET(cells));
    json_int(j, "rows_merged", STAT_GET(rows_merged));
    json_int(j, "batches_done", STAT_GET(batches_done));
    json_int(j, "rows_in_flight", STAT_GET(fields_in_flight));
    json_int(j, "batches_held", STAT_GET(batches_held));
    json_int(j, "connections", STAT_GET(connections_open));
    figure_json(j, "pending_hashes", seen->dirty);
    seconds_json(j, "oldest_unmerged_s", seen->oldest_ms);
    figure_json(j, "batches_in_flight", seen->batches);
    figure_json(j, "rejects", seen->rejects);
}

/* A Pulse of openapi.yaml: small, since each open panel asks for it every two seconds. */
void run_pulse(struct exchange *x, struct worker *w)
{
    struct slice store = slice_of(NULL, 0);
    struct http *h = x->http;
    if (target_arg(&x->target, "store", &store) && !exchange_sees_store(x, store)) return;
    if (store.p != NULL && (store.n == 0 || store.n > TEXT_BYTES_MAX)) {
        exchange_refuse(x, 400, "name a store, or leave it out",
                        "store is empty, or longer than a store can be");
        return;
    }
    struct beat beat = pulse_beat(&h->pulse);
    struct json j = exchange_json(x, '{');
    json_int(&j, "time", wall_ms() / 1000);
    json_int(&j, "started", h->pulse.started_s);
    json_text(&j, "redis", beat.redis_up ? "up" : "down");
    json_text(&j, "mysql", beat.mysql_up ? "up" : "down");
    if (store.p != NULL) moved_put(&j, h, w, store, beat.mysql_up);
    if (who_store(&x->who).p == NULL)
        status_cache_use(&h->status_cache, door_link(&w->door), FIGURES_AGE_MS, true, pulse_figures_put, &j);
    json_close(&j, '}');
}

/* --- the last hour --- */

static void point_take(void *arg, const struct status_figures *seen)
{
    struct history *h = arg;
    const struct history_point point = {.time_s = wall_ms() / 1000,
                                        .rows_in_flight = STAT_GET(fields_in_flight),
                                        .pending_hashes = seen->dirty,
                                        .oldest_ms = seen->oldest_ms};
    pthread_mutex_lock(&h->lock);
    struct history_point *next = h->points + h->n++ % HISTORY_POINTS;
    *next = point;
    pthread_mutex_unlock(&h->lock);
}

static void history_work(struct job *job, struct worker *w)
{
    struct history *h = CONTAINER_OF(job, struct history, job);
    struct http *http = CONTAINER_OF(h, struct http, history);
    if (w != NULL)
        status_cache_use(&http->status_cache, door_link(&w->door), FIGURES_AGE_MS, false, point_take, h);
    pthread_mutex_lock(&h->lock);
    h->taking = false;
    pthread_mutex_unlock(&h->lock);
}

void history_tick(struct http *http)
{
    struct history *h = &http->history;
    uint64_t now_ms = mono_ms();
    if (now_ms < h->due_ms) return;
    h->due_ms = now_ms + HISTORY_EVERY_MS;
    pthread_mutex_lock(&h->lock);
    bool taking = h->taking;
    h->taking = true;
    pthread_mutex_unlock(&h->lock);
    if (taking) return; /* it waits for a server that does not answer */
    h->job = (struct job){.run = history_work};
    if (!pool_submit(&http->pool, &h->job)) h->taking = false;
}

void run_history(struct exchange *x, struct worker *w)
{
    struct history *h = &x->http->history;
    struct json j = exchange_json(x, '{');
    (void)w;
    json_open(&j, "points", '[');
    pthread_mutex_lock(&h->lock);
    for (size_t i = h->n > HISTORY_POINTS ? h->n - HISTORY_POINTS : 0; i < h->n; i++) {
        const struct history_point *p = &h->points[i % HISTORY_POINTS];
        json_open(&j, NULL, '{');
        json_int(&j, "time", p->time_s);
        figure_json(&j, "pending_hashes", p->pending_hashes);
        json_int(&j, "rows_in_flight", p->rows_in_flight);
        seconds_json(&j, "oldest_unmerged_s", p->oldest_ms);
        json_close(&j, '}');
    }
    pthread_mutex_unlock(&h->lock);
    json_close(&j, ']');
    json_close(&j, '}');
}

/* --- for supervisors and load balancers --- */

#define LOOP_STANDS "the loop of tallyd has not turned for 2 s"

static void text_answer(struct exchange *x, unsigned status, const char *text)
{
    x->answered = true;
    x->status = status;
    x->type = "text/plain; charset=utf-8";
    buf_printf(&x->body, "%s\n", text);
}

void run_healthz(struct exchange *x, struct worker *w)
{
    (void)w;
    bool turns = pulse_beat(&x->http->pulse).turns;
    text_answer(x, turns ? 200 : 503, turns ? "ok" : LOOP_STANDS);
}

void run_readyz(struct exchange *x, struct worker *w)
{
    struct beat beat = pulse_beat(&x->http->pulse);
    (void)w;
    const char *why = !beat.turns      ? LOOP_STANDS
                      : !beat.asked    ? "tallyd has just started"
                      : !beat.redis_up ? "Redis is down: nothing can be counted"
                                       : beat.held;
    text_answer(x, why[0] == '\0' ? 200 : 503, why[0] == '\0' ? "ready" : why);
}

/* The rows that MySQL refused: listed, tried again, given up. */

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

static enum err rejects_list_put(struct exchange *x, struct db *db, const struct rejects_which *which,
                                 uint32_t limit, struct error *e)
{
    uint64_t waiting = 0;
    struct rejects_which all = {0};
    struct rejects_listing l = {.j = exchange_json(x, '{'), .counters = x->http->where->counters};
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
    if (rejects_list_put(x, db, &which, (uint32_t)limit, &e) != ERR_NONE) refuse_error(x, &e);
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

static void reject_done_put(struct exchange *x, const struct reject_id *id, const char *outcome,
                            const char *reason)
{
    char text[REJECT_ID_BYTES];
    reject_id_write(id, text);
    struct json j = exchange_json(x, '{');
    json_text(&j, "id", text);
    json_text(&j, "outcome", outcome);
    json_slice_or_null(&j, "reason", reason[0] == '\0' ? slice_of(NULL, 0) : slice_str(reason));
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
        reject_done_put(x, &id, replay.refused > 0 ? "refused" : "replayed", reason);
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
        reject_done_put(x, &id, "dropped", "");
    db_destroy(&db);
}
