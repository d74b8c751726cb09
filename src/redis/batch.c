/* redis/batch.c - tally:batches and the registries that it lists, batch by batch; tally:gen and what goes with it. */
#include "redis/batch.h"
#include "base/heap.h"
#include "base/log.h"
#include "redis/ask.h"
#include "redis/check_op.h"
#include <stdio.h>

/* --- tally:batches and the registries that it lists. --- */

_Static_assert(SEQ_TTL_S == 2592000, "beat.lua keeps the seq key as long as a frame does");

/* ids from elements[from] on. False: it is no array, or not all of them are ids. */
static bool ids_file(const struct redis_answer *r, size_t from, struct batch_id **ids, uint32_t *n)
{
    *n = 0;
    *ids = NULL;
    if (!answer_is(r, REDIS_ARRAY)) return false;
    if (r->n > from) *ids = heap_alloc((r->n - from) * sizeof **ids);
    for (size_t i = from; i < r->n; i++) {
        if (r->elements[i].type == REDIS_STRING && batch_id_read(r->elements[i].str, &(*ids)[(*n)++]))
            continue;
        heap_free(*ids);
        *ids = NULL;
        *n = 0;
        return false;
    }
    return true;
}

/* --- adoption --- */

static void adopt_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct adopt *a = arg;
    int64_t unknown = 0;
    (void)l, (void)at;
    a->lost = !answer_is(r, REDIS_ARRAY) || r->n < 1 || !answer_integer(&r->elements[0], &unknown) ||
              !ids_file(r, 1, &a->ids, &a->ids_n);
    if (a->lost)
        answer_why(r, a->text, sizeof a->text);
    else
        a->unknown = (uint32_t)unknown;
    a->done(a);
}

/* live: RESP of live_n owners */
static void adopt_put(struct redis_link *l, struct adopt *a, struct slice live, size_t live_n)
{
    static const char *const modes[] = {
        [ADOPT_INSTANCE] = "instance", [ADOPT_OWN] = "own", [ADOPT_STALE] = "stale", [ADOPT_DEAD] = "dead"};
    const struct life *life = l->config.life;
    struct buf *out = redis_write(l,
                                  "EVAL %.*s 1 {}" KEY_BATCHES " %s %" PRId64 " %" PRId64 " " OWNER_FMT
                                  " %.*s %d %d {}" KEY_BATCH_PREFIX " %zu +%zu",
                                  SLICE_ARG(lua_adopt), modes[a->mode], (int64_t)a->stale_ms,
                                  (int64_t)a->limit, OWNER_ARG(life), SLICE_ARG(life->instance), BATCH_FORMAT,
                                  a->dry_run, a->counters->n, a->counters->n + live_n);
    for (size_t i = 0; i < a->counters->n; i++)
        request_slice(out, a->counters->all[i].name);
    buf_put_slice(out, live);
    redis_link_ask(l, 1, adopt_done, a);
}

static void adopt_list_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct adopt *a = arg;
    struct buf live = {0};
    struct redis_client c;
    size_t n = 0;
    if (!answer_is(r, REDIS_STRING)) return adopt_done(l, a, r, at);
    for (struct slice clients = r->str; client_next(&clients, &c); n++)
        request_slice(&live, c.owner);
    adopt_put(l, a, buf_slice(&live), n);
    buf_free(&live);
}

void redis_adopt(struct redis_link *l, struct adopt *a)
{
    a->ids = NULL;
    a->ids_n = a->unknown = 0;
    a->lost = false;
    a->text[0] = '\0';
    if (a->mode != ADOPT_DEAD) return adopt_put(l, a, slice_of(NULL, 0), 0);
    redis_write(l, "CLIENT LIST");
    redis_link_ask(l, 1, adopt_list_done, a);
}

/* --- which batches exist --- */

static void standing_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct standing *s = arg;
    (void)at;
    s->lost = !answer_is_array(r, 3) || !answer_is(&r->elements[1], REDIS_STRING) ||
              !redis_link_whole(l, s->number, &r->elements[2]) ||
              !ids_file(&r->elements[0], 0, &s->ids, &s->ids_n);
    if (!s->lost) slice_show(r->elements[1].str, sizeof s->replid - 1, s->replid, sizeof s->replid);
    s->done(s);
}

void redis_standing(struct redis_link *l, struct standing *s)
{
    s->ids = NULL;
    s->ids_n = 0;
    s->number = redis_link_number(l);
    redis_write(l, "EVAL %.*s 2 {}" KEY_BATCHES " {}" KEY_SEQ_PREFIX OWNER_FMT " {}" KEY_BATCH_PREFIX " %.*s",
                SLICE_ARG(lua_standing), OWNER_ARG(l->config.life), SLICE_ARG(s->key));
    redis_link_ask(l, 1, standing_done, s);
}

static int64_t int_or(const struct redis_answer *r, int64_t otherwise)
{
    int64_t v;
    return answer_integer(r, &v) ? v : otherwise;
}

static void batch_list_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct batch_list *b = arg;
    (void)l;
    if (at == 1) {
        /* Asked last: all of it is of that history. */
        struct slice replid = SLICE("-"); /* as history.lua has it */
        if (!answer_is(r, REDIS_STRING)) b->lost = true;
        if (!b->lost) (void)info_get(r->str, "master_replid", &replid);
        slice_show(replid, sizeof b->replid - 1, b->replid, sizeof b->replid);
        if (b->done != NULL) b->done(b);
        return;
    }
    b->lost = !answer_is(r, REDIS_ARRAY);
    for (size_t i = 0; !b->lost && i < r->n; i++) {
        const struct redis_answer *e = r->elements[i].elements;
        if (!answer_is_array(&r->elements[i], 8)) continue;
        const struct batch_seen seen = {.id = e[0].str,
                                        .counter = e[2].str,
                                        .owner = e[3].str,
                                        .format = int_or(&e[7], -1),
                                        .beat_ms = int_or(&e[1], -1),
                                        .gen = int_or(&e[4], -1),
                                        .lowest_ms = int_or(&e[5], -1),
                                        .hashes = (uint32_t)int_or(&e[6], 0)};
        b->batch(b->arg, &seen);
    }
    if (r == NULL && b->done != NULL) b->done(b);
}

void redis_batch_list(struct redis_link *l, struct batch_list *b)
{
    redis_write(l, "EVAL %.*s 1 {}" KEY_BATCHES " {}" KEY_BATCH_PREFIX, SLICE_ARG(lua_batch_list));
    redis_write(l, "INFO replication");
    redis_link_ask(l, 2, batch_list_done, b);
}

/* --- signs of life --- */

static void beat_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    int64_t ended;
    char keys[400] = "";
    (void)l, (void)arg, (void)at; /* the next beat is the answer to one that failed */
    if (!answer_is(r, REDIS_ARRAY) || r->n < 2 || !answer_integer(&r->elements[0], &ended)) return;
    for (size_t i = 1, n = 0; i < r->n && answer_is(&r->elements[i], REDIS_STRING); i++, n = strlen(keys)) {
        if (n > 0) keys[n++] = ' ';
        slice_show(r->elements[i].str, 100, keys + n, sizeof keys - n);
    }
    log_event(
        LOG_WARN, "ttl_ended", "hashes=%lld keys=%s next=%s", (long long)ended, LOGQ(keys),
        LOGQ("another program sets a TTL on keys that count, whose hits would be lost; mend that program"));
}

void redis_beat(struct redis_link *l, const struct life *life, struct slice host, const struct batch_id *ids,
                uint32_t ids_n)
{
    struct buf *out = redis_write(l,
                                  "EVAL %.*s 4 {}" KEY_BATCHES " {}" KEY_INSTANCE_PREFIX
                                  "%.*s {}" KEY_SEQ_PREFIX OWNER_FMT " {}" KEY_DIRTY " %s|%.*s +%zu",
                                  SLICE_ARG(lua_beat), SLICE_ARG(life->instance), OWNER_ARG(life), life->id,
                                  SLICE_ARG(host), (size_t)ids_n);
    for (uint32_t i = 0; i < ids_n; i++) {
        char hex[33];
        batch_id_hex(&ids[i], hex);
        request_text(out, hex);
    }
    redis_link_ask(l, 1, beat_done, NULL);
}

static void instance_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_instance *i = arg;
    (void)l;
    if (at == 0 && r != NULL) {
        i->lost = !answer_is(r, REDIS_STRING) && !answer_is(r, REDIS_NIL);
        if (i->lost) answer_why(r, i->text, sizeof i->text);
        if (answer_is(r, REDIS_STRING)) {
            slice_show(r->str, sizeof i->holder - 1, i->holder, sizeof i->holder);
            i->taken = !slice_starts(r->str, slice_str(i->life->id));
        }
        return;
    }
    if (!i->lost && !answer_is(r, REDIS_STRING)) {
        i->lost = true;
        answer_why(r, i->text, sizeof i->text);
    }
    if (!i->lost && i->taken) {
        struct buf owner = {0};
        struct redis_client c;
        buf_printf(&owner, SLICE_FMT ":%.*s", SLICE_ARG(i->life->instance), (int)strcspn(i->holder, "|"),
                   i->holder);
        for (struct slice clients = r->str; client_next(&clients, &c);)
            i->linked |= client_is_of(&c, buf_slice(&owner));
        buf_free(&owner);
    }
    i->done(i);
}

void redis_instance(struct redis_link *l, struct redis_instance *i)
{
    i->lost = i->taken = i->linked = false;
    i->holder[0] = '\0';
    redis_write(l, "GET {}" KEY_INSTANCE_PREFIX "%.*s", SLICE_ARG(i->life->instance));
    redis_write(l, "CLIENT LIST");
    redis_link_ask(l, 2, instance_done, i);
}

/* --- the end of a batch in Redis. A script, not a MULTI: while Redis is full it refuses to queue any command (processCommand:
 * queueing takes memory), even UNLINK, and the discard is what frees memory. --- */

static void discard_put(struct redis_link *l, const struct batch *b)
{
    char hex[33];
    struct buf name = {0};
    batch_id_hex(&b->id, hex);
    size_t renamed = 0;
    for (size_t i = 0; i < b->hashes_n; i++)
        renamed += !b->hashes[i].packed;
    struct buf *out = redis_write(l, "EVAL %.*s %zu {}" KEY_BATCH_PREFIX "%s {}" KEY_BATCHES " +%zu",
                                  SLICE_ARG(lua_discard), 2 + renamed, hex, renamed + 1);
    for (size_t i = 0; i < b->hashes_n; i++) {
        if (b->hashes[i].packed) continue;
        buf_reset(&name);
        name_claimed(&name, batch_hash_name(b, i), &b->id);
        request_key(out, redis_tag(l), buf_slice(&name));
    }
    request_text(out, hex);
    buf_free(&name);
}

static void on_discarded(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct discard *d = arg;
    (void)l, (void)at;
    d->done_ok = answer_is(r, REDIS_INTEGER);
    if (d->done_ok)
        CRASH(discard_done);
    else
        answer_why(r, d->text, sizeof d->text);
    d->done(d); /* last line: d may be gone after it */
}

void redis_discard(struct redis_link *l, struct discard *d)
{
    d->done_ok = false;
    d->text[0] = '\0';
    discard_put(l, d->batch);
    redis_link_expect(l, 1, on_discarded, d);
    CRASH(discard_before_send);
    redis_link_crash_after(l, CRASH_discard_after_send);
    redis_link_flush(l);
}

/* --- Scripts compare gens as Lua's numbers, which are exact up to 2^53, far above any count of claims. Strings of unequal length
 * would not sort by value. --- */

static void gen_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct gen_read *g = arg;
    int64_t gen = 0;
    (void)l, (void)at;
    const struct redis_answer *e = answer_is_array(r, 2) ? r->elements : NULL;
    bool known = e != NULL && (e[0].type == REDIS_NIL || (answer_integer(&e[0], &gen) && gen >= 0));
    g->gen = known ? (uint64_t)gen : 0;
    g->lost = !known ||
              (e[1].type != REDIS_NIL && !(e[1].type == REDIS_STRING && batch_id_read(e[1].str, &g->realm)));
    if (g->lost) answer_why(r, g->text, sizeof g->text);
    if (g->done != NULL) g->done(g);
}

void redis_gen(struct redis_link *l, struct gen_read *g)
{
    char hex[33];
    if (!g->accept) {
        g->realm = (struct batch_id){{0}};
        redis_write(l, "MGET {}" KEY_GEN " {}" KEY_REALM);
    } else {
        batch_id_hex(&g->realm, hex);
        redis_write(l, "EVAL %.*s 3 {}" KEY_GEN " {}" KEY_GENS " {}" KEY_REALM " %" PRId64 " %s",
                    SLICE_ARG(lua_gen_raise), (int64_t)g->least, hex);
    }
    redis_link_ask(l, 1, gen_done, g);
}

/* --- history --- */

static bool history_file(struct history_read *h, const struct redis_answer *r)
{
    const struct redis_answer *realm, *gens;
    struct slice replid;
    int64_t gen;
    if (!answer_scan(r, "(*ias)", &realm, &gen, &gens, &replid) || gen < 0 || replid.n >= sizeof h->replid)
        return false;
    h->realm = (struct batch_id){{0}};
    if (realm->str.n > 0 && !batch_id_read(realm->str, &h->realm)) return false;
    h->gen = (uint64_t)gen;
    snprintf(h->replid, sizeof h->replid, SLICE_FMT, SLICE_ARG(replid));
    h->gens = heap_alloc((gens->n / 2 + 1) * sizeof *h->gens);
    for (size_t i = 0; i + 1 < gens->n; i += 2) {
        struct claim_gen *one = &h->gens[h->gens_n];
        if (!answer_integer(&gens->elements[i], &gen) || !batch_id_read(gens->elements[i + 1].str, &one->id))
            return false;
        one->gen = (uint64_t)gen;
        h->gens_n++;
    }
    return true;
}

static void history_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct history_read *h = arg;
    (void)at;
    snprintf(h->run_id, sizeof h->run_id, "%s", l->facts.run_id);
    h->lost = !history_file(h, r);
    if (h->lost) answer_why(r, h->text, sizeof h->text);
    if (h->done != NULL) h->done(h);
}

void redis_history(struct redis_link *l, struct history_read *h)
{
    char hex[33] = "";
    if (!batch_id_is_zero(&h->realm)) batch_id_hex(&h->realm, hex);
    PRE(h->gens == NULL && h->gens_n == 0);
    h->text[0] = '\0';
    redis_write(l, "EVAL %.*s 3 {}" KEY_REALM " {}" KEY_GEN " {}" KEY_GENS " %s", SLICE_ARG(lua_history),
                hex);
    redis_link_ask(l, 1, history_done, h);
}
