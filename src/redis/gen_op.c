/* redis/gen_op.c - see gen_op.h. Scripts compare gens as Lua's numbers, which are exact up to 2^53, far above any count
 * of claims. Strings of unequal length would not sort by value. */
#include "redis/gen_op.h"
#include "base/heap.h"
#include "redis/lua.h"
#include "redis/request.h"
#include <stdio.h>

static bool gen_file(struct gen_read *g, const struct redis_answer *r)
{
    int64_t gen = 0;
    if (!answer_is_array(r, 2)) return false;
    const struct redis_answer *realm = &r->elements[1];
    if (r->elements[0].type != REDIS_NIL && (!answer_integer(&r->elements[0], &gen) || gen < 0)) return false;
    g->gen = (uint64_t)gen;
    return realm->type == REDIS_NIL || (realm->type == REDIS_STRING && batch_id_read(realm->str, &g->realm));
}

static void gen_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct gen_read *g = arg;
    (void)l;
    (void)at;
    g->gen = 0;
    g->lost = !gen_file(g, r);
    if (g->lost) answer_why(r, g->text, sizeof g->text);
    if (g->done != NULL) g->done(g);
}

void redis_gen(struct redis_link *l, struct gen_read *g)
{
    struct buf *out = redis_link_begin(l);
    char hex[33];
    if (!g->accept) {
        g->realm = (struct batch_id){{0}};
        request_array(out, 3);
        REQUEST_LIT(out, "MGET");
        REQUEST_KEY(out, redis_tag(l), KEY_GEN);
        REQUEST_KEY(out, redis_tag(l), KEY_REALM);
    } else {
        batch_id_hex(&g->realm, hex);
        request_eval(out, lua_gen_raise, 3, 2);
        REQUEST_KEY(out, redis_tag(l), KEY_GEN);
        REQUEST_KEY(out, redis_tag(l), KEY_GENS);
        REQUEST_KEY(out, redis_tag(l), KEY_REALM);
        request_int(out, (int64_t)g->least);
        request_text(out, hex);
    }
    redis_link_ask(l, 1, gen_done, g);
}

/* --- history --- */

static bool gens_file(struct history_read *h, const struct redis_answer *r)
{
    int64_t gen;
    if (!answer_is(r, REDIS_ARRAY)) return false;
    h->gens = heap_alloc((r->n / 2 + 1) * sizeof *h->gens);
    for (size_t i = 0; i + 1 < r->n; i += 2) {
        struct claim_gen *one = &h->gens[h->gens_n];
        if (!answer_integer(&r->elements[i], &gen) || !batch_id_read(r->elements[i + 1].str, &one->id))
            return false;
        one->gen = (uint64_t)gen;
        h->gens_n++;
    }
    return true;
}

static bool history_file(struct history_read *h, const struct redis_answer *r)
{
    int64_t gen;
    if (!answer_is_array(r, 4) || !answer_is(&r->elements[3], REDIS_STRING)) return false;
    struct slice realm = r->elements[0].str, replid = r->elements[3].str;
    h->realm = (struct batch_id){{0}};
    if (realm.n > 0 && !batch_id_read(realm, &h->realm)) return false;
    if (!answer_integer(&r->elements[1], &gen) || gen < 0 || replid.n >= sizeof h->replid) return false;
    h->gen = (uint64_t)gen;
    snprintf(h->replid, sizeof h->replid, SLICE_FMT, SLICE_ARG(replid));
    return gens_file(h, &r->elements[2]);
}

static void history_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct history_read *h = arg;
    (void)at;
    snprintf(h->run_id, sizeof h->run_id, "%s", l->facts.run_id);
    h->lost = !history_file(h, r);
    if (h->lost) answer_why(r, h->text, sizeof h->text);
    h->done(h);
}

void redis_history(struct redis_link *l, struct history_read *h)
{
    struct buf *out = redis_link_begin(l);
    char hex[33] = "";
    if (!batch_id_is_zero(&h->realm)) batch_id_hex(&h->realm, hex);
    PRE(h->gens == NULL && h->gens_n == 0);
    h->text[0] = '\0';
    request_eval(out, lua_history, 3, 1);
    REQUEST_KEY(out, redis_tag(l), KEY_REALM);
    REQUEST_KEY(out, redis_tag(l), KEY_GEN);
    REQUEST_KEY(out, redis_tag(l), KEY_GENS);
    request_text(out, hex);
    redis_link_ask(l, 1, history_done, h);
}
