/* admin/verify.c - `tallyd verify`. */
#include "admin/choice.h"
#include "admin/verbs.h"
#include "base/json.h"
#include "base/map.h"
#include "mysql/ledger.h"
#include "status/proof.h"
#include <stdio.h>

/* --- `tallyd verify --store`: what can be proved of one store. --- */

struct store_report {
    bool json;
    struct buf text, problems;
    struct json of_text, of_problems;
    size_t problems_n;
};

static void problem_found(void *arg, const char *what, const char *next)
{
    struct store_report *r = arg;
    r->problems_n++;
    if (r->json)
        problem_json(&r->of_problems, what, next);
    else
        buf_printf(&r->problems, "! %s\n  -> %s\n", what, next);
}

static void store_text(struct store_report *r, const struct store_proof *p)
{
    const sum_t columns[] = {p->stored, p->pending, p->claimed, p->stored + p->pending + p->claimed};
    char text[48];
    buf_printf(&r->text, "%-24s",
               SLICE_SHOW(p->counter->key.places != NULL ? p->key : p->counter->name, 200));
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        sum_write(columns[i], text);
        buf_printf(&r->text, " %13s", text);
    }
    buf_printf(&r->text, " %9lld %9lld\n", (long long)p->rows, (long long)p->rejects);
}

static void store_json(struct store_report *r, const struct store_proof *p)
{
    struct json *j = &r->of_text;
    json_open(j, NULL, '{');
    json_slice(j, "name", p->counter->name);
    json_slice(j, "key", p->key);
    sum_json(j, "stored", p->stored);
    sum_json(j, "pending", p->pending);
    sum_json(j, "claimed", p->claimed);
    sum_json(j, "total", p->stored + p->pending + p->claimed);
    json_int(j, "rows", p->rows);
    json_int(j, "rejects", p->rejects);
    json_close(j, '}');
}

static void report_begin(struct store_report *r, const char *store)
{
    r->of_text.out = &r->text;
    r->of_problems.out = &r->problems;
    if (r->json) {
        json_open(&r->of_text, NULL, '{');
        json_text(&r->of_text, "store", store);
        json_open(&r->of_text, "counters", '[');
        return;
    }
    buf_printf(&r->text, "%-24s %13s %13s %13s %13s %9s %9s\n", "counter", "stored", "pending", "claimed",
               "total", "rows", "rejects");
}

static void report_end(struct store_report *r)
{
    if (r->json) {
        json_close(&r->of_text, ']');
        json_bool(&r->of_text, "proved", r->problems_n == 0);
        json_open(&r->of_text, "problems", '[');
        buf_put_slice(&r->text, buf_slice(&r->problems));
        BUF_LIT(&r->text, "]}\n");
    } else {
        buf_put_slice(&r->text, buf_slice(&r->problems));
        if (r->problems_n == 0) BUF_LIT(&r->text, "Each count is in one place, and on its way.\n");
    }
    buf_free(&r->problems);
}

/* --- keys that a store has several of: those that wait, in Redis --- */

struct waiting {
    struct choice_keys *keys;
    const struct counters *counters;
    const struct counter *only;
    struct slice store;
    struct map seen;
};

static void key_take(struct waiting *w, struct slice key)
{
    const struct counter *c = counters_match(w->counters, key);
    if (c == NULL || c->key.places == NULL || (w->only != NULL && c != w->only)) return;
    if (!slice_eq(counter_store(c, key), w->store) || map_has(&w->seen, key)) return;
    map_put(&w->seen, key, w);
    choice_keys_add(w->keys, c, key);
}

static void on_pending(void *arg, struct slice key, struct slice field, struct slice value)
{
    (void)field, (void)value;
    key_take(arg, key);
}

static void on_claimed(void *arg, const struct batch_id *id, struct slice pending, struct slice field,
                       struct slice value)
{
    (void)id, (void)field, (void)value;
    key_take(arg, pending);
}

static enum err waiting_add(struct servers *s, const struct source *where, const struct counter *only,
                            const char *store, struct choice_keys *keys, struct error *e)
{
    struct waiting w = {.keys = keys, .counters = where->counters, .only = only, .store = slice_str(store)};
    uint32_t lane = lane_of_store(w.store, where->lanes);
    enum err code = lane != s->ask.lane ? ask_lane(&s->ask, lane, e) : ERR_NONE;
    struct proof_books b = {.pending = on_pending, .claimed = on_claimed, .arg = &w};
    map_init(&w.seen);
    if (code == ERR_NONE) code = proof_redis(&s->ask.link, &proof_limits_verb, &b, e);
    map_close(&w.seen);
    return code;
}

static enum err keys_prove(struct servers *servers, const struct source *where,
                           const struct choice_keys *keys, struct store_report *r, struct error *e)
{
    enum err code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < keys->n; i++) {
        struct store_proof p = {.counter = keys->counters[i], .key = keys->all[i]};
        struct slice store = counter_store(p.counter, p.key);
        uint32_t lane = lane_of_store(store, where->lanes);
        if (lane != servers->ask.lane) code = ask_lane(&servers->ask, lane, e);
        if (code == ERR_NONE) code = store_prove(&servers->ask, servers->db, &p, problem_found, r, e);
        if (code == ERR_NONE) (r->json ? store_json : store_text)(r, &p);
    }
    return code;
}

/* Of the store that --store names, of this counter or with NULL of all that have it; prints, and says what fails. */
static enum err verify_store(const struct call *call, const struct setup *setup, const struct counter *only)
{
    const struct source where = setup_source(setup);
    struct store_report r = {.json = call->json};
    struct choice_keys keys;
    struct servers servers;
    struct error e;
    if (choice_keys(call, setup, only, &keys, &e) != ERR_NONE) return call_failed(&e);
    report_begin(&r, call->key != NULL ? call->key : call->store);
    enum err code = servers_open(&servers, &where, &e);
    if (code == ERR_NONE) {
        if (call->store != NULL) code = waiting_add(&servers, &where, only, call->store, &keys, &e);
        if (code == ERR_NONE) code = keys_prove(&servers, &where, &keys, &r, &e);
        servers_close(&servers);
    }
    choice_keys_close(&keys);
    report_end(&r);
    if (code != ERR_NONE) {
        buf_free(&r.text);
        return call_failed(&e);
    }
    code = text_print(&r.text);
    return code == ERR_NONE && r.problems_n > 0 ? ERR_FAILED : code;
}

/* --- `tallyd verify`: the books of every counter. --- */

struct realms_text {
    struct buf text;
    const struct ask *ask;
};

static bool is_ours(const struct ask *a, struct slice id)
{
    char hex[33];
    for (uint32_t i = 0; i < a->at.lanes; i++) {
        batch_id_hex(&a->realms[i], hex);
        if (slice_eq(id, slice_str(hex))) return true;
    }
    return false;
}

static void realm_print(void *arg, const struct realm_row *r)
{
    struct realms_text *t = arg;
    buf_printf(&t->text, "realm %.8s: merged " SLICE_FMT ", rejected " SLICE_FMT ", ", r->id.p,
               SLICE_ARG(r->merged), SLICE_ARG(r->rejected));
    if (is_ours(t->ask, r->id))
        BUF_LIT(&t->text, "this Redis\n");
    else if (r->is_free)
        BUF_LIT(&t->text, "free: the next Redis takes it\n");
    else
        buf_printf(&t->text, "another Redis: verify it with the configuration of " SLICE_FMT "\n",
                   SLICE_ARG(r->taken_by));
}

static enum err realms_print(struct servers *servers, struct error *e)
{
    struct realms_text t = {.ask = &servers->ask};
    enum err code = realms_read(servers->db, realm_print, &t, e);
    enum err printed = text_print(&t.text);
    return code == ERR_NONE ? printed : code;
}

static void report_text(const struct sums *sums, struct buf *text)
{
    size_t unbalanced = sums_print(sums, text);
    if (sums_proved(sums))
        BUF_LIT(text, "The books balance.\n");
    else if (unbalanced > 0)
        buf_printf(text, "The books of %zu counter%s do not balance.\n", unbalanced,
                   unbalanced == 1 ? "" : "s");
}

static void report_json(const struct sums *sums, struct buf *text)
{
    struct json j = {.out = text};
    json_open(&j, NULL, '{');
    json_bool(&j, "balanced", sums_proved(sums));
    sums_json(sums, &j);
    json_int(&j, "stray_fields", (int64_t)sums->stray);
    json_int(&j, "batches_lost", (int64_t)sums->lost);
    json_bool(&j, "merged_for_this_redis", sums->realm == REALM_OURS);
    json_close(&j, '}');
    buf_put_char(text, '\n');
}

static enum err verify_all(const struct call *call, const struct setup *setup, const struct counter *only)
{
    const struct source where = setup_source(setup);
    struct sums sums;
    struct servers servers;
    struct error e;
    sums_init(&sums, &setup->counters);
    enum err code = servers_open(&servers, &where, &e);
    if (code == ERR_NONE) {
        code = proof_read(&servers.ask, servers.db, &proof_limits_verb, &sums, &e);
        if (code == ERR_NONE && call->all && !call->json) code = realms_print(&servers, &e);
        servers_close(&servers);
    }
    if (code == ERR_NONE && only != NULL) sums_only(&sums, only->name);
    if (code == ERR_NONE) {
        struct buf text = {0};
        (call->json ? report_json : report_text)(&sums, &text);
        code = text_print(&text);
        if (code == ERR_NONE && !sums_proved(&sums)) code = ERR_FAILED;
    } else {
        code = call_failed(&e);
    }
    sums_close(&sums);
    return code;
}

static enum err verify(const struct call *call, const struct setup *setup)
{
    const struct counter *only;
    struct error e;
    if (choice_counter(call, setup, &only, &e) != ERR_NONE) return call_failed(&e);
    return (call->store != NULL || call->key != NULL ? verify_store : verify_all)(call, setup, only);
}

enum err verb_verify(const struct call *call)
{
    return call_configured(call, verify);
}
