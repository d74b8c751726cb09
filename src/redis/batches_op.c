/* redis/batches_op.c - tally:batches and the registries behind it. */
#include "redis/batches_op.h"
#include "base/heap.h"
#include "redis/lua.h"
#include "redis/registry.h"
#include "redis/request.h"
#include <stdio.h>

_Static_assert(SEQ_TTL_S == 2592000, "beat.lua keeps the seq key as long as a frame does");

/* ids from elements[from] on. False: not all of them are ids. */
static bool ids_file(const struct redis_answer *r, size_t from, struct batch_id **ids, uint32_t *n)
{
    *n = 0;
    *ids = r->n > from ? heap_alloc((r->n - from) * sizeof **ids) : NULL;
    for (size_t i = from; i < r->n; i++) {
        if (r->elements[i].type != REDIS_STRING || !batch_id_read(r->elements[i].str, &(*ids)[*n])) goto bad;
        ++*n;
    }
    return true;
bad:
    heap_free(*ids);
    *ids = NULL;
    *n = 0;
    return false;
}

/* --- adoption --- */

static void on_adopted(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
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

static void counters_put(struct buf *out, const struct counters *cs)
{
    request_int(out, (int64_t)cs->n);
    for (size_t i = 0; i < cs->n; i++)
        request_slice(out, cs->all[i].name);
}

/* live: RESP of live_n owners */
static void adopt_ask(struct redis_link *l, struct adopt *a, struct slice live, size_t live_n)
{
    static const char *const modes[] = {
        [ADOPT_INSTANCE] = "instance", [ADOPT_STALE] = "stale", [ADOPT_DEAD] = "dead"};
    const struct life *life = l->config.life;
    struct buf *out = redis_link_begin(l);
    struct buf owner = {0};
    name_owner(&owner, life);
    request_eval(out, lua_adopt, 1, 9 + a->counters->n + live_n);
    REQUEST_LIT(out, KEY_BATCHES);
    request_text(out, modes[a->mode]);
    request_int(out, a->stale_ms);
    request_int(out, a->limit);
    request_slice(out, buf_slice(&owner));
    request_slice(out, life->instance);
    request_int(out, BATCH_FORMAT);
    request_int(out, a->dry_run);
    REQUEST_LIT(out, KEY_BATCH_PREFIX);
    counters_put(out, a->counters);
    buf_put_slice(out, live);
    buf_free(&owner);
    redis_link_expect(l, 1, on_adopted, a);
    redis_link_flush(l);
}

/* One line of CLIENT LIST: is it a link of some tallyd, and whose? `name=tallyd:<instance>:<life>:<role>` */
static bool owner_of_line(struct slice line, struct slice *owner)
{
    static const struct slice mark = {" name=tallyd:", 13};
    const char *p = line.n > 0 ? memmem(line.p, line.n, mark.p, mark.n) : NULL;
    if (p == NULL) return false;
    p += mark.n;
    const char *end = memchr(p, ' ', (size_t)(line.p + line.n - p));
    if (end == NULL) end = line.p + line.n;
    const char *colon = memrchr(p, ':', (size_t)(end - p));
    if (colon == NULL) return false;
    *owner = slice_of(p, (size_t)(colon - p));
    return true;
}

static void on_clients(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct adopt *a = arg;
    struct buf live = {0};
    struct slice owner;
    size_t n = 0;
    (void)at;
    if (!answer_is(r, REDIS_STRING)) {
        answer_why(r, a->text, sizeof a->text);
        a->lost = true;
        a->done(a);
        return;
    }
    for (struct slice rest = r->str; rest.n > 0;) {
        const char *eol = memchr(rest.p, '\n', rest.n);
        struct slice line = slice_of(rest.p, eol != NULL ? (size_t)(eol - rest.p) : rest.n);
        if (owner_of_line(line, &owner)) request_slice(&live, owner), n++;
        rest = slice_of(line.p + line.n, rest.n - line.n);
        if (rest.n > 0) rest.p++, rest.n--;
    }
    adopt_ask(l, a, buf_slice(&live), n);
    buf_free(&live);
}

void redis_adopt(struct redis_link *l, struct adopt *a)
{
    a->ids = NULL;
    a->ids_n = a->unknown = 0;
    a->lost = false;
    a->text[0] = '\0';
    if (a->mode != ADOPT_DEAD) {
        adopt_ask(l, a, slice_of(NULL, 0), 0);
        return;
    }
    request_words(redis_link_begin(l), "CLIENT LIST");
    redis_link_expect(l, 1, on_clients, a);
    redis_link_flush(l);
}

/* --- which stand --- */

static void on_standing(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct standing *s = arg;
    (void)l, (void)at;
    s->lost = !answer_is(r, REDIS_ARRAY) || !ids_file(r, 0, &s->ids, &s->ids_n);
    s->done(s);
}

void redis_standing(struct redis_link *l, struct standing *s)
{
    struct buf *out = redis_link_begin(l);
    s->ids = NULL;
    s->ids_n = 0;
    request_eval(out, lua_standing, 1, 2);
    REQUEST_LIT(out, KEY_BATCHES);
    REQUEST_LIT(out, KEY_BATCH_PREFIX);
    request_slice(out, s->key);
    redis_link_expect(l, 1, on_standing, s);
    redis_link_flush(l);
}

static int64_t int_or(const struct redis_answer *r, int64_t otherwise)
{
    int64_t v;
    return answer_integer(r, &v) ? v : otherwise;
}

static void on_list(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct batch_list *b = arg;
    (void)l, (void)at;
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
    b->done(b);
}

void redis_batch_list(struct redis_link *l, struct batch_list *b)
{
    struct buf *out = redis_link_begin(l);
    request_eval(out, lua_batch_list, 1, 1);
    REQUEST_LIT(out, KEY_BATCHES);
    REQUEST_LIT(out, KEY_BATCH_PREFIX);
    redis_link_expect(l, 1, on_list, b);
    redis_link_flush(l);
}

/* --- signs of life --- */

static void on_beat(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)l, (void)arg, (void)r, (void)at; /* the next beat is the answer to one that failed */
}

void redis_beat(struct redis_link *l, const struct life *life, struct slice host, const struct batch_id *ids,
                uint32_t ids_n)
{
    struct buf *out = redis_link_begin(l);
    struct buf name = {0};
    request_eval(out, lua_beat, 3, 1 + (size_t)ids_n);
    REQUEST_LIT(out, KEY_BATCHES);
    name_instance(&name, life->instance);
    request_slice(out, buf_slice(&name));
    buf_reset(&name);
    name_seq(&name, life);
    request_slice(out, buf_slice(&name));
    buf_reset(&name);
    buf_printf(&name, "%s|" SLICE_FMT, life->id, SLICE_ARG(host));
    request_slice(out, buf_slice(&name));
    for (uint32_t i = 0; i < ids_n; i++) {
        char hex[33];
        batch_id_hex(&ids[i], hex);
        request_text(out, hex);
    }
    buf_free(&name);
    redis_link_expect(l, 1, on_beat, NULL);
    redis_link_flush(l);
}

static void holder_file(struct redis_instance *i, const struct redis_answer *r)
{
    i->lost = !answer_is(r, REDIS_STRING) && !answer_is(r, REDIS_NIL);
    if (!answer_is(r, REDIS_STRING)) return;
    slice_show(r->str, sizeof i->holder - 1, i->holder, sizeof i->holder);
    i->taken = !slice_starts(r->str, slice_str(i->life->id));
}

static bool holder_linked(const struct redis_instance *i, struct slice clients)
{
    struct buf name = {0};
    size_t life_n = strcspn(i->holder, "|");
    buf_printf(&name, " name=tallyd:" SLICE_FMT ":%.*s:", SLICE_ARG(i->life->instance), (int)life_n,
               i->holder);
    bool found = clients.n > 0 && memmem(clients.p, clients.n, name.p, name.n) != NULL;
    buf_free(&name);
    return found;
}

static void on_instance(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_instance *i = arg;
    (void)l;
    if (at == 0 && r != NULL) {
        holder_file(i, r);
        return;
    }
    i->lost = i->lost || !answer_is(r, REDIS_STRING);
    i->linked = !i->lost && i->taken && holder_linked(i, r->str);
    i->done(i);
}

void redis_instance(struct redis_link *l, struct redis_instance *i)
{
    struct buf *out = redis_link_begin(l);
    struct buf name = {0};
    i->lost = i->taken = i->linked = false;
    i->holder[0] = '\0';
    name_instance(&name, i->life->instance);
    request_array(out, 2);
    REQUEST_LIT(out, "GET");
    request_slice(out, buf_slice(&name));
    buf_free(&name);
    request_words(out, "CLIENT LIST");
    redis_link_expect(l, 2, on_instance, i);
    redis_link_flush(l);
}
