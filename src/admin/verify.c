/* admin/verify.c - `tallyd verify`: proves the books of every counter, or what can be proved of one store. */
#include "admin/choice.h"
#include "admin/verbs.h"
#include "status/proof.h"
#include "status/store.h"

#include <stdio.h>

struct servers {
    struct ask ask;
    struct db *db;
};

static enum err servers_open(struct servers *s, const struct source *where, struct error *e)
{
    enum err code = ask_open_patiently(&s->ask, where, e);
    if (code != ERR_NONE) return code;
    s->db = db_create(where->mysql);
    if (db_open(s->db) == CODE_OK) return ERR_NONE;
    code = db_error(s->db, e);
    db_destroy(&s->db);
    ask_close(&s->ask);
    return code;
}

static void servers_close(struct servers *s)
{
    db_destroy(&s->db);
    ask_close(&s->ask);
}

/* --- the books --- */

static enum err prove(const struct source *where, struct sums *sums, struct error *e)
{
    struct servers servers;
    enum err code = servers_open(&servers, where, e);
    if (code != ERR_NONE) return code;
    code = proof_read(&servers.ask, servers.db, &proof_limits_verb, sums, e);
    servers_close(&servers);
    return code;
}

static void report_text(const struct sums *sums, struct buf *text)
{
    size_t unbalanced = sums_print(sums, text);
    if (unbalanced == 0)
        BUF_LIT(text, "The books balance.\n");
    else
        buf_printf(text, "The books of %zu counter%s do not balance.\n", unbalanced,
                   unbalanced == 1 ? "" : "s");
}

static void report_json(const struct sums *sums, struct buf *text)
{
    struct json j = {.out = text};
    json_open(&j, NULL, '{');
    json_bool(&j, "balanced", sums_unbalanced(sums) == 0);
    sums_json(sums, &j, "counters");
    json_int(&j, "stray_fields", (int64_t)sums->stray);
    json_close(&j, '}');
    buf_put_char(text, '\n');
}

static enum err report(const struct call *call, const struct sums *sums)
{
    struct buf text = {0};
    (call->json ? report_json : report_text)(sums, &text);
    enum err code = text_print(&text);
    if (code != ERR_NONE) return code;
    return sums_unbalanced(sums) == 0 ? ERR_NONE : ERR_FAILED;
}

static enum err verify_all(const struct call *call, const struct setup *setup, const struct counter *only)
{
    const struct source where = setup_source(setup);
    struct sums sums;
    struct error e;
    sums_init(&sums, &setup->counters);
    enum err code = prove(&where, &sums, &e);
    if (code == ERR_NONE && only != NULL) sums_only(&sums, only->name);
    code = code == ERR_NONE ? report(call, &sums) : call_failed(&e);
    sums_close(&sums);
    return code;
}

/* --- one store --- */

struct store_report {
    bool json;
    struct buf text, problems;
    struct json of_text, of_problems;
    size_t problems_n;
};

static void on_problem(void *arg, const char *what, const char *next)
{
    struct store_report *r = arg;
    r->problems_n++;
    if (!r->json) {
        buf_printf(&r->problems, "! %s\n  -> %s\n", what, next);
        return;
    }
    json_open(&r->of_problems, NULL, '{');
    json_text(&r->of_problems, "what", what);
    json_text(&r->of_problems, "next", next);
    json_close(&r->of_problems, '}');
}

static void store_text(struct store_report *r, const struct store_proof *p)
{
    const sum_t columns[] = {p->stored, p->pending, p->claimed, p->stored + p->pending + p->claimed};
    char text[48];
    buf_printf(&r->text, "%-24.*s", SLICE_ARG(p->counter->name));
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        sum_write(columns[i], text);
        buf_printf(&r->text, " %15s", text);
    }
    buf_printf(&r->text, " %10lld %10lld\n", (long long)p->rows, (long long)p->rejects);
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
    buf_printf(&r->text, "%-24s %15s %15s %15s %15s %10s %10s\n", "counter", "stored", "pending", "claimed",
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
        if (r->problems_n == 0) BUF_LIT(&r->text, "Each count stands in one place, and is on its way.\n");
    }
    buf_free(&r->problems);
}

static enum err keys_prove(const struct source *where, const struct choice_keys *keys, struct store_report *r,
                           struct error *e)
{
    struct servers servers;
    enum err code = servers_open(&servers, where, e);
    if (code != ERR_NONE) return code;
    for (size_t i = 0; code == ERR_NONE && i < keys->n; i++) {
        struct store_proof p = {.counter = keys->counters[i], .key = keys->all[i]};
        code = store_prove(&servers.ask, servers.db, &p, on_problem, r, e);
        if (code == ERR_NONE) (r->json ? store_json : store_text)(r, &p);
    }
    servers_close(&servers);
    return code;
}

static enum err verify_store(const struct call *call, const struct setup *setup, const struct counter *only)
{
    const struct source where = setup_source(setup);
    struct store_report r = {.json = call->json};
    struct choice_keys keys;
    struct error e;
    if (choice_keys(call, setup, only, &keys, &e) != ERR_NONE) return call_failed(&e);
    report_begin(&r, call->store);
    enum err code = keys_prove(&where, &keys, &r, &e);
    choice_keys_close(&keys);
    report_end(&r);
    if (code != ERR_NONE) {
        buf_free(&r.text);
        return call_failed(&e);
    }
    code = text_print(&r.text);
    return code == ERR_NONE && r.problems_n > 0 ? ERR_FAILED : code;
}

enum err verb_verify(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    const struct counter *only;
    struct error e;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    enum err code = choice_counter(call, &setup, &only, &e);
    if (code != ERR_NONE)
        call_failed(&e);
    else
        code = (call->store != NULL ? verify_store : verify_all)(call, &setup, only);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
