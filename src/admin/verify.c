/* admin/verify.c - `tallyd verify`: the books of every counter. */
#include "admin/verify.h"

#include "admin/choice.h"
#include "admin/servers.h"
#include "mysql/realm.h"
#include "status/proof.h"

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

static enum err prove(const struct call *call, const struct source *where, struct sums *sums, struct error *e)
{
    struct servers servers;
    enum err code = servers_open(&servers, where, e);
    if (code != ERR_NONE) return code;
    code = proof_read(&servers.ask, servers.db, &proof_limits_verb, sums, e);
    if (code == ERR_NONE && call->all && !call->json) code = realms_print(&servers, e);
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
    json_int(&j, "batches_lost", (int64_t)sums->lost);
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
    enum err code = prove(call, &where, &sums, &e);
    if (code == ERR_NONE && only != NULL) sums_only(&sums, only->name);
    code = code == ERR_NONE ? report(call, &sums) : call_failed(&e);
    sums_close(&sums);
    return code;
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
        code = (call->store != NULL || call->key != NULL ? verify_store : verify_all)(call, &setup, only);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
