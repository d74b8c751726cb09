/* admin/verify.c - `tallyd verify`: the books of every counter. */
#include "admin/verify.h"

#include "admin/choice.h"
#include "admin/servers.h"
#include "status/proof.h"

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
    enum err code = prove(&where, &sums, &e);
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
        code = (call->store != NULL ? verify_store : verify_all)(call, &setup, only);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
