/* redis/claim.c - claims: of due hashes (frame_op.h), and of hashes that other programs left. */
#include "base/heap.h"
#include "base/log.h"
#include "redis/ask.h"
#include "redis/batch.h"
#include "redis/frame_op.h"
#include "series/batch.h"

/* --- the claim (sync/README.md, rules S2, S3 and S39), one script. It reads first and writes then, and writes the registry before
 * it takes a hash away. RENAMENX of an existing hash to a name that does not exist cannot fail, so an error leaves no hash renamed
 * and unregistered. EVAL sends the whole script, so there is no NOSCRIPT, and no question whether to send the claim again after
 * later frames; an id is sent once. --- */

#define KEYS_FIXED 5
#define CLAIM_ARGS 10

static void claim_put(struct redis_frames *fr, const struct claim *c)
{
    char hex[33];
    batch_id_hex(&c->id, hex);
    struct buf *out = redis_write(fr->link,
                                  "EVAL %.*s %zu {}" KEY_DIRTY " {}" KEY_GEN " {}" KEY_GENS " {}" KEY_BATCHES
                                  " {}" KEY_BATCH_PREFIX "%s +%zu",
                                  SLICE_ARG(lua_claim), (size_t)KEYS_FIXED + c->keys_n, hex,
                                  CLAIM_ARGS + 2 * (size_t)c->keys_n);
    for (uint32_t i = 0; i < c->keys_n; i++)
        request_key(out, fr->tag, c->keys[i]);
    request_slice(out, c->counter->name);
    request_int(out, BATCH_FORMAT);
    request_slice(out, buf_slice(&fr->owner));
    request_slice(out, fr->life->instance);
    request_int(out, c->counter->every_s);
    request_int(out, CLAIM_FIELDS_MAX);
    request_text(out, hex);
    request_int(out, GENS_KEPT);
    request_int(out, PACK_FIELDS_MAX);
    request_int(out, PACK_BYTES_MAX);
    for (uint32_t i = 0; i < c->keys_n; i++) {
        bool stays = (c->fresh != NULL && c->fresh[i]) || !counter_locks(c->counter);
        buf_reset(&fr->scratch);
        if (!stays) counter_lock_name(c->counter, c->keys[i], &fr->scratch);
        request_key(out, stays ? slice_of(NULL, 0) : fr->tag, buf_slice(&fr->scratch));
    }
}

/* What the answer begins with. False: no answer of our scripts. */
static bool counts_read(const struct redis_answer *r, int64_t v[4])
{
    if (!answer_is(r, REDIS_ARRAY) || r->n < 4) return false;
    for (int i = 0; i < 4; i++)
        if (!answer_integer(&r->elements[i], &v[i]) || v[i] < 0) return false;
    return true;
}

static bool claim_file(struct claim *c, const struct redis_answer *r)
{
    int64_t v[4];
    if (!counts_read(r, v)) return false;
    if (v[0] + v[1] > c->keys_n) return false;
    c->outcome = v[0] > 0 ? CLAIM_STANDS : CLAIM_EMPTY;
    c->renamed = (uint32_t)v[0];
    c->left = (uint32_t)v[1];
    c->fields = (uint64_t)v[2];
    char key[200];
    for (size_t i = 4; i < r->n; i++) {
        if (r->elements[i].type != REDIS_STRING) continue;
        slice_show(r->elements[i].str, 150, key, sizeof key);
        log_event(LOG_WARN, "not_a_hash", "counter=" SLICE_FMT " key=%s next=%s", SLICE_ARG(c->counter->name),
                  LOGQ(key), LOGQ("tallyd took the key out of the dirty index; rename or delete it"));
    }
    return true;
}

static void claim_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    PRE(fr->claims_n > 0);
    struct claim *c = fr->claims[0];
    fr->claims_n--;
    memmove(fr->claims, fr->claims + 1, fr->claims_n * sizeof(struct claim *));
    (void)at;
    if (r == NULL) return; /* down() reports it; the next link looks for the registry */
    c->text[0] = '\0';
    if (r->type == REDIS_ERROR) {
        c->outcome = CLAIM_REFUSED;
        c->renamed = c->left = 0;
        c->fields = 0;
        answer_why(r, c->text, sizeof c->text);
    } else if (!claim_file(c, r)) {
        redis_link_cut(l, "MASTERDOWN Redis gave an unexpected answer to a claim; tallyd looks for it again");
        return;
    }
    CRASH(claim_done);
    /* If two answers came together, the later one seems to have taken no time. */
    uint64_t now_us = mono_us(), from_us = c->sent_us > fr->heard_us ? c->sent_us : fr->heard_us;
    c->took_us = now_us - from_us;
    fr->heard_us = now_us;
    fr->on_claim(fr->arg, c);
}

void redis_frames_claim(struct redis_frames *fr, struct claim *c)
{
    PRE(c->keys_n > 0 && c->keys_n <= CLAIM_HASHES_MAX);
    c->sent_us = mono_us();
    HEAP_GROW(fr->claims, fr->claims_n, fr->claims_cap, 8);
    fr->claims[fr->claims_n++] = c;
    claim_put(fr, c);
    redis_link_expect(fr->link, 1, claim_done, fr);
    CRASH(claim_before_send);
    redis_link_crash_after(fr->link, CRASH_claim_after_send);
    redis_link_flush(fr->link);
}

/* --- the claim of hashes that other programs left, one script. Like claim.c it reads first, and writes the registry before it
 * renames. Values go to tally:accepted by HINCRBY, one by one: exact in 64 bits. A value that is no integer gets an error, which
 * is counted and otherwise ignored. --- */

#define FIELDS_MAX 20000 /* HINCRBYs of one script, a few ms each thousand */

static void leftover_put(struct redis_link *l, const struct redis_leftover *o)
{
    char hex[33];
    size_t n = o->n;
    struct buf name = {0};
    batch_id_hex(&o->id, hex);
    struct buf *out = redis_write(l,
                                  "EVAL %.*s %zu {}" KEY_GEN " {}" KEY_GENS " {}" KEY_BATCHES
                                  " {}" KEY_BATCH_PREFIX "%s {}" KEY_ACCEPTED " +%zu",
                                  SLICE_ARG(lua_leftover), 5 + 2 * n, hex, 2 * n + 7 + n);
    for (uint32_t i = 0; i < n; i++) {
        request_key(out, redis_tag(l), o->names[i]);
        buf_reset(&name);
        name_claimed(&name, o->pendings[i], &o->id);
        request_key(out, redis_tag(l), buf_slice(&name));
    }
    request_slice(out, o->counter->name);
    request_int(out, BATCH_FORMAT);
    buf_reset(&name);
    name_owner(&name, o->life);
    request_slice(out, buf_slice(&name));
    request_int(out, FIELDS_MAX);
    request_text(out, hex);
    request_int(out, o->accept);
    request_int(out, GENS_KEPT);
    for (uint32_t i = 0; i < n; i++)
        request_slice(out, o->pendings[i]);
    buf_free(&name);
}

static void leftover_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_leftover *o = arg;
    int64_t v[4];
    (void)l, (void)at;
    if (answer_is_array(r, 4) && counts_read(r, v)) {
        o->renamed = (uint32_t)v[0];
        o->left = (uint32_t)v[1];
        o->fields = (uint64_t)v[2];
        o->odd = (uint32_t)v[3];
        o->outcome = o->renamed > 0 ? CLAIM_STANDS : CLAIM_EMPTY;
    } else {
        o->outcome = answer_is(r, REDIS_ERROR) ? CLAIM_REFUSED : CLAIM_GONE;
        answer_why(r, o->text, sizeof o->text);
    }
    o->done(o);
}

void redis_leftover(struct redis_link *l, struct redis_leftover *o)
{
    PRE(o->n > 0 && o->n <= CLAIM_HASHES_MAX);
    o->renamed = o->left = o->odd = 0;
    o->fields = 0;
    o->text[0] = '\0';
    leftover_put(l, o);
    redis_link_ask(l, 1, leftover_done, o);
}
