/* redis/frame_op.c - one frame on the wire: MULTI ... EXEC in one buffer, its answers back into the frame. Redis
 * answers each queued command at once with +QUEUED or with the error that makes EXEC abort, then EXEC with the array of
 * results. Anything else means that this was no transaction: the link is cut, and the number in tally:seq shows what
 * ran. */
#include "redis/frame_op.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "redis/frame_parts.h"
#include "series/frame.h"
#include <stddef.h>
#include <stdio.h>

#define SUM_NEAR_END (INT64_C(1) << 62) /* a frame adds less than the rest of the way */
#define FEEDS_TOLD_MS 1000
#define REFUSAL_TOLD_MS 1000

static const struct slice bound_prefix = {"EXECABORT Transaction discarded because of: ", 44};

/* --- what parts share --- */

void frames_trouble(struct redis_frames *fr, const char *key, const struct redis_answer *r)
{
    fr->trouble_key = key;
    fr->trouble = r;
}

struct frame_op *op_next(const struct frame *f, enum op_kind kind, const struct frame_op *op)
{
    for (uint32_t i = op == NULL ? 0 : (uint32_t)(op - f->ops) + 1; i < f->ops_n; i++)
        if (f->ops[i].kind == kind && !f->ops[i].silent) return &f->ops[i];
    return NULL;
}

/* The first error of an op is its error. */
void op_fail(struct frame *f, struct frame_op *op, const struct redis_answer *r)
{
    char line[200] = "ERR Redis gave an answer of an unexpected shape";
    if (op->error_n > 0) return;
    if (r->type == REDIS_ERROR) answer_why(r, line, sizeof line);
    frame_fail_op(f, op, slice_str(line));
}

void op_script_file(struct frame *f, op_walk *next, const struct op_limits *l, const struct redis_answer *r,
                    op_take *take)
{
    size_t n = 0;
    struct frame_op *op;
    for (op = next(f, NULL); op != NULL; op = next(f, op))
        n++;
    const struct redis_answer *each = answer_is_array(r, n) ? r->elements : NULL;
    for (op = next(f, NULL); op != NULL; op = next(f, op)) {
        const struct redis_answer *own = each != NULL ? each++ : r;
        if (op->owed) continue; /* it has no value, and an error there is the next hit's as well */
        if (own->type == REDIS_ERROR || own == r || !take(f, op, own, l)) op_fail(f, op, own);
    }
}

/* --- parts --- */

static uint32_t dirty_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    size_t n = 0;
    for (uint32_t i = 0; i < f->hashes_n; i++)
        n += f->hashes[i].zadd;
    if (n == 0) return 0;
    request_array(out, 3 + 2 * n);
    BUF_LIT(out, "$4\r\nZADD\r\n");
    REQUEST_KEY(out, fr->tag, KEY_DIRTY);
    BUF_LIT(out, "$2\r\nNX\r\n");
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        if (!f->hashes[i].zadd) continue;
        request_int(out, f->dirty_ms);
        request_slice(out, f->hashes[i].key);
    }
    return 1;
}

static void dirty_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)f, (void)n;
    if (r->type != REDIS_INTEGER) frames_trouble(fr, KEY_DIRTY, r);
}

static uint32_t cells_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    for (uint32_t i = 0; i < f->cells_n; i++) {
        const struct frame_cell *c = &f->cells[i];
        BUF_LIT(out, "*4\r\n$7\r\nHINCRBY\r\n");
        if (fr->tag.n == 0) {
            buf_put_slice(out, FRAME_RAW(f, c));
        } else {
            request_key(out, fr->tag, f->hashes[c->hash].key);
            request_slice(out, FRAME_FIELD(f, c));
        }
        request_int(out, c->delta);
    }
    return f->cells_n;
}

static void cell_file(struct frame *f, struct frame_cell *c, const struct redis_answer *r)
{
    char line[200];
    if (r->type == REDIS_INTEGER) {
        c->value = r->integer;
        if (c->value == c->delta) f->hashes[c->hash].fresh = true;
        return;
    }
    answer_why(r, line, sizeof line);
    c->error_at = (uint32_t)f->errors.n;
    c->error_n = (uint32_t)strlen(line);
    buf_put(&f->errors, line, c->error_n);
}

static void cells_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)fr;
    for (uint32_t i = 0; i < n; i++)
        cell_file(f, &f->cells[i], &r[i]);
}

/* Without those that Redis refused, when the frame is kept. */
static uint32_t shares_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->shares_n; i++)
        n += !f->shares[i].refused;
    if (n == 0) return 0;
    if (fr->wraps) {
        request_eval(out, lua_frame_shares, 1, 2 * (size_t)n);
        REQUEST_KEY(out, fr->tag, KEY_ACCEPTED);
    }
    for (uint32_t i = 0; i < f->shares_n; i++) {
        if (f->shares[i].refused) continue;
        if (!fr->wraps) {
            BUF_LIT(out, "*4\r\n$7\r\nHINCRBY\r\n");
            REQUEST_KEY(out, fr->tag, KEY_ACCEPTED);
        }
        request_slice(out, f->shares[i].counter->name);
        request_int(out, f->shares[i].delta);
    }
    return fr->wraps ? 1 : n;
}

static void shares_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    bool by_script = fr->wraps, listed = by_script && answer_is_array(r, f->shares_n);
    fr->wraps = false;
    for (uint32_t i = 0; i < f->shares_n; i++) {
        struct frame_share *s = &f->shares[i];
        const struct redis_answer *own = listed ? &r->elements[i] : by_script ? r : &r[i];
        bool is_sum = own->type == REDIS_INTEGER;
        s->refused = answer_error_is(own, "ERR increment or decrement would overflow");
        if (s->refused) buf_put_slice(&f->errors, own->str); /* of no client */
        fr->wraps |= s->refused || (is_sum && (own->integer > SUM_NEAR_END || own->integer < -SUM_NEAR_END));
        if (!is_sum && !s->refused) frames_trouble(fr, KEY_ACCEPTED, own);
    }
}

static uint32_t locks_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    uint32_t lines = 0;
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        const struct frame_hash *h = &f->hashes[i];
        if (!h->ask_lock) continue;
        struct slice lock = slice_of(f->bytes.p + h->lock_at, h->lock_n);
        BUF_LIT(out, "*6\r\n$3\r\nSET\r\n");
        request_key(out, fr->tag, lock);
        request_slice(out, fr->life->instance);
        BUF_LIT(out, "$2\r\nNX\r\n$2\r\nEX\r\n");
        request_int(out, h->lock_s);
        BUF_LIT(out, "*2\r\n$4\r\nPTTL\r\n");
        request_key(out, fr->tag, lock);
        lines += 2;
    }
    return lines;
}

static void locks_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)fr, (void)n;
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        struct frame_hash *h = &f->hashes[i];
        if (!h->ask_lock) continue;
        h->lock_granted = answer_is_ok(r++);
        if (!answer_integer(r++, &h->lock_pttl_ms)) h->lock_pttl_ms = 0;
    }
}

/* Three commands at most each. */
static uint32_t appends_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    uint32_t lines = 0;
    for (uint32_t i = 0; i < f->appends_n; i++) {
        const struct frame_append *a = &f->appends[i];
        struct slice name = FRAME_TEXT(f, a->name_at, a->name_n);
        buf_reset(&fr->scratch);
        name_journal_key(&fr->scratch, name);
        if (a->opens && !a->ends) {
            BUF_LIT(out, "*4\r\n$4\r\nHSET\r\n");
            REQUEST_KEY(out, fr->tag, KEY_JOURNALS);
            request_slice(out, name);
            request_slice(out, buf_slice(&fr->owner));
            lines++;
        }
        if (a->bytes_n > 0) {
            BUF_LIT(out, "*3\r\n$6\r\nAPPEND\r\n");
            request_key(out, fr->tag, buf_slice(&fr->scratch));
            request_slice(out, slice_of(f->records.p + a->bytes_at, a->bytes_n));
            lines++;
        }
        if (!a->ends) continue;
        BUF_LIT(out, "*2\r\n$6\r\nUNLINK\r\n");
        request_key(out, fr->tag, buf_slice(&fr->scratch));
        BUF_LIT(out, "*3\r\n$4\r\nHDEL\r\n");
        REQUEST_KEY(out, fr->tag, KEY_JOURNALS);
        request_slice(out, name);
        lines += 2;
    }
    return lines;
}

static void appends_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)f;
    for (uint32_t i = 0; i < n; i++)
        if (r[i].type != REDIS_INTEGER) frames_trouble(fr, KEY_JOURNAL_PREFIX, &r[i]);
}

static uint32_t seq_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    BUF_LIT(out, "*5\r\n$3\r\nSET\r\n");
    request_key(out, fr->tag, buf_slice(&fr->seq_key));
    request_int(out, (int64_t)f->seq);
    BUF_LIT(out, "$2\r\nEX\r\n");
    request_int(out, SEQ_TTL_S);
    return 1;
}

static void seq_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)f, (void)n;
    if (!answer_is_ok(r)) frames_trouble(fr, KEY_SEQ_PREFIX, r);
}

/* The keys are moving to another node of a cluster: the next link asks again. False: r is something else, or there is
 * no cluster in which another node might have them. */
static bool stray_cut(struct redis_link *l, const struct redis_answer *r)
{
    if (l->config.place->redirected == NULL || !answer_error_is(r, "TRYAGAIN")) return false;
    redis_link_astray(l);
    return true;
}

/* Also with the error of a cluster in which no node serves the slot. */
static bool cut_as_told(struct redis_link *l, const struct redis_answer *r)
{
    char line[200];
    if (!answer_error_is(r, "CLUSTERDOWN")) return stray_cut(l, r);
    answer_why(r, line, sizeof line);
    redis_link_cut(l, line);
    return true;
}

/* After each frame, for the next one: (!) EXEC does nothing when the number has changed meanwhile. No other connection
 * sets it. But a server that is demoted, takes over another one's data and is promoted again has touched it, and keeps
 * its links. */
static void watch_put(struct redis_frames *fr, struct buf *out)
{
    BUF_LIT(out, "*2\r\n$5\r\nWATCH\r\n");
    request_key(out, fr->tag, buf_slice(&fr->seq_key));
}

static void on_watched(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)arg, (void)at;
    if (r == NULL || answer_is_ok(r)) return;
    if (!cut_as_told(l, r)) redis_link_cut(l, "MASTERDOWN Redis refuses WATCH to tallyd's user");
}

/* EXEC's answer is nil, or of no known shape. */
static void exec_odd(struct redis_frames *fr, const struct redis_answer *r)
{
    if (r->type == REDIS_NIL) return redis_link_changed(fr->link);
    redis_link_cut(
        fr->link,
        "MASTERDOWN Redis gave an unexpected answer to a transaction; it is unknown what was counted");
}

/* --- the frame --- */

/* In the order of the wire. A part is skipped when the frame has nothing of it (OF counts). */
#define OF(member) offsetof(struct frame, member)
#define ALWAYS SIZE_MAX
static const struct frame_part {
    size_t of;
    bool again; /* it is sent again to a Redis that lacks the frame */
    frame_put *put;
    frame_file *file;
} parts[FRAME_PARTS] = {
    {OF(hashes_n), false, dirty_put, dirty_file},
    {OF(cells_n), true, cells_put, cells_file}, /* (!) the first of those: redis_frames_replay() */
    {OF(shares_n), true, shares_put, shares_file},
    {OF(hashes_n), false, locks_put, locks_file},
    {OF(tokens_n), true, tokens_put, tokens_file},
    {OF(ops_n), false, series_known_put, series_known_file},
    {OF(ops_n), false, samples_put, samples_file},
    {OF(ops_n), false, timebox_hits_put, timebox_hits_file},
    {OF(ops_n), false, timeboxes_put, timeboxes_file},
    {OF(ops_n), false, events_gone_put, events_gone_file},
    {OF(ops_n), false, events_named_put, events_named_file},
    {OF(ops_n), false, events_drawn_put, events_drawn_file},
    {OF(ops_n), false, events_given_put, events_given_file},
    {OF(ops_n), false, events_windows_put, events_windows_file},
    {OF(ops_n), true, visitors_put, visitors_file},
    {OF(appends_n), false, appends_put, appends_file},
    {ALWAYS, false, seq_put, seq_file},
};

static bool frame_has_part(const struct frame *f, const struct frame_part *part)
{
    return part->of == ALWAYS || *(const uint32_t *)((const char *)f + part->of) > 0;
}

/* Keeps the part of a frame just written that would be sent again if Redis lost it; `from` is where its body begins. */
static void again_copy(struct redis_frames *fr, struct frame *f, const char *out, size_t from)
{
    size_t n = 0, at = from;
    f->again_cells = f->cells_n;
    f->again_lines = 0;
    for (int i = 0; i < FRAME_PARTS; at = fr->ends[i++])
        if (parts[i].again) n += fr->ends[i] - at;
    buf_free(&f->again);
    if (n == 0) return;
    f->again.p = heap_alloc(f->again.cap = n);
    at = from;
    fr->again = true;
    for (int i = 0; i < FRAME_PARTS; at = fr->ends[i++]) {
        if (!parts[i].again) continue;
        if (fr->bounded && fr->sent[i] > 0 && (parts[i].put == visitors_put || parts[i].put == tokens_put))
            parts[i].put(fr, &f->again, f);
        else
            buf_put(&f->again, out + at, fr->ends[i] - at);
        f->again_lines += fr->sent[i];
    }
    fr->again = false;
}

/* What failed is not sent again, since its client knows that it was not counted. Shares that were added remain: the next
 * frame takes back the part of failed cells. */
static void again_without_failed(struct redis_frames *fr, struct frame *f)
{
    struct frame good = *f;
    size_t all = f->cells_n * sizeof *f->cells;
    good.cells = heap_alloc(all + f->tokens_n * sizeof *f->tokens + f->ops_n * sizeof *f->ops);
    good.tokens = (void *)((char *)good.cells + all);
    good.ops = (void *)(good.tokens + f->tokens_n);
    good.cells_n = good.tokens_n = good.ops_n = 0;
    for (uint32_t i = 0; i < f->cells_n; i++)
        if (f->cells[i].error_n == 0) good.cells[good.cells_n++] = f->cells[i];
    for (uint32_t i = 0; i < f->tokens_n; i++)
        if (f->tokens[i].error_n == 0) good.tokens[good.tokens_n++] = f->tokens[i];
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (f->ops[i].error_n == 0) good.ops[good.ops_n++] = f->ops[i];
    buf_reset(&f->again);
    f->again_cells = good.cells_n;
    f->again_lines = 0;
    fr->again = true;
    for (int i = 0; i < FRAME_PARTS; i++)
        if (parts[i].again && frame_has_part(&good, &parts[i]))
            f->again_lines += parts[i].put(fr, &f->again, &good);
    fr->again = false;
    heap_free(good.cells);
}

static void answers_clear(struct frame *f)
{
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        f->tokens[i].error_n = 0;
        f->tokens[i].is_new = false;
    }
    for (uint32_t i = 0; i < f->cells_n; i++)
        f->cells[i].error_n = 0;
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        struct frame_hash *h = &f->hashes[i];
        h->fresh = h->lock_granted = false;
        h->lock_pttl_ms = 0;
    }
}

/* --- back --- */

/* No client waits for what a feed moves, or what comes out of a journal, so its errors are logged here: at most once a
 * second, with their number. */
static void feeds_tell(struct redis_frames *fr, const struct frame *f)
{
    const struct frame_op *failed = NULL;
    char name[100], line[200];
    for (uint32_t i = 0; i < f->ops_n; i++) {
        if (!f->ops[i].fed || f->ops[i].error_n == 0) continue;
        failed = &f->ops[i];
        fr->feeds_failed++;
    }
    uint64_t now_ms = mono_ms();
    if (failed == NULL || now_ms < fr->feeds_told_ms + FEEDS_TOLD_MS) return;
    slice_show(FRAME_NAME(f, failed), 80, name, sizeof name);
    slice_show(FRAME_ERROR(f, failed), sizeof line - 4, line, sizeof line);
    log_event(LOG_ERROR, "feed_failed", "name=%s error=%s failed=%llu next=%s", LOGQ(name), LOGQ(line),
              (unsigned long long)fr->feeds_failed,
              LOGQ("it was counted, but could not be added there; free that key, or use another name"));
    fr->feeds_failed = 0;
    fr->feeds_told_ms = now_ms;
}

static void applied_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r)
{
    /* What an op that waits in a journal answers was known when the frame was sent. */
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        if (op->silent) continue;
        op->value = 0;
        op->late = op->fresh = false;
        op->error_n = 0;
    }
    fr->trouble = NULL;
    for (int i = 0; i < FRAME_PARTS; i++) {
        if (fr->sent[i] > 0) parts[i].file(fr, f, r, fr->sent[i]);
        r += fr->sent[i];
    }
    /* Reports faults that no client's answer shows: in the dirty index, the books or the seq key. */
    char line[200];
    if (fr->trouble != NULL && !fr->told) {
        fr->told = true;
        answer_why(fr->trouble, line, sizeof line);
        log_event(LOG_ERROR, "frame_side", "key=%s error=%s", fr->trouble_key, LOGQ(line));
    }
    if (f->ops_n > 0) feeds_tell(fr, f);
    if (fr->keeps && f->errors.n > 0) again_without_failed(fr, f);
}

/* f->errors becomes the first error at queue time, or what EXEC itself was refused for. */
static void refusal_file(struct frame *f, const struct redis_answer *r)
{
    char line[200];
    struct slice text = r->str;
    if (f->errors.n > 0) return;
    if (slice_starts(text, bound_prefix)) text = slice_of(text.p + bound_prefix.n, text.n - bound_prefix.n);
    slice_show(text, sizeof line - 1, line, sizeof line);
    buf_put_slice(&f->errors, slice_str(line));
}

static void queued_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t at)
{
    static const struct slice queued = {"QUEUED", 6};
    bool good = at == 0 ? answer_is_ok(r) : answer_is(r, REDIS_STATUS) && slice_eq(r->str, queued);
    if (good || (f == &fr->lost && stray_cut(fr->link, r))) return;
    if (r->type == REDIS_ERROR && at > 0)
        refusal_file(f, r);
    else
        redis_link_cut(fr->link,
                       "MASTERDOWN Redis did not take a transaction; it is unknown what was counted");
}

static void exec_file(struct redis_frames *fr, const struct redis_answer *r)
{
    struct frame *f = fr->frame;
    enum frame_outcome outcome = FRAME_APPLIED;
    fr->heard_us = mono_us();
    if (answer_is_array(r, fr->lines - 1)) {
        redis_link_numbered(fr->link, f->seq);
        applied_file(fr, f, r->elements);
        place_served(fr->link->config.place);
    } else if (r->type == REDIS_ERROR) {
        refusal_file(f, r);
        outcome = FRAME_REFUSED;
        const struct redis_answer first = {.type = REDIS_ERROR, .str = buf_slice(&f->errors)};
        if (stray_cut(fr->link, &first)) outcome = FRAME_ASTRAY;
    } else {
        fr->frame = NULL;
        return exec_odd(fr, r);
    }
    fr->frame = NULL;
    CRASH(frame_applied);
    fr->on_frame(fr->arg, f, outcome);
}

static void on_line(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    (void)l;
    if (r == NULL)
        fr->frame = NULL; /* down() reports it */
    else if (at < fr->lines)
        queued_file(fr, fr->frame, r, at);
    else
        exec_file(fr, r);
}

void redis_frames_send(struct redis_frames *fr, struct frame *f)
{
    PRE(fr->frame == NULL);
    struct buf *out = redis_link_begin(fr->link);
    fr->frame = f;
    answers_clear(f);
    BUF_LIT(out, "*1\r\n$5\r\nMULTI\r\n");
    size_t from = out->n;
    fr->lines = 1;
    fr->bounded = false;
    for (int i = 0; i < FRAME_PARTS; i++) {
        fr->sent[i] = frame_has_part(f, &parts[i]) ? parts[i].put(fr, out, f) : 0;
        fr->ends[i] = out->n;
        fr->lines += fr->sent[i];
    }
    if (fr->keeps) again_copy(fr, f, out->p, from);
    BUF_LIT(out, "*1\r\n$4\r\nEXEC\r\n");
    watch_put(fr, out);
    redis_link_expect_transaction(fr->link, fr->lines + 1, on_line, fr);
    redis_link_expect(fr->link, 1, on_watched, fr);
    CRASH(frame_before_send);
    redis_link_crash_after(fr->link, CRASH_frame_after_send);
    redis_link_flush_now(fr->link);
}

/* --- a frame that Redis lost --- */

/* Of a bulk string; *p moves past it. The bytes are ours. */
static struct slice bulk_take(const char **p)
{
    size_t n = 0;
    for (++*p; **p != '\r'; ++*p)
        n = 10 * n + (size_t)(**p - '0');
    struct slice s = slice_of(*p + 2, n);
    *p = s.p + n + 2;
    return s;
}

/* The key of the next HINCRBY; *p moves past the command. */
static struct slice cell_take(const char **p)
{
    *p += sizeof "*4\r\n" - 1;
    (void)bulk_take(p);
    struct slice key = bulk_take(p);
    (void)bulk_take(p), (void)bulk_take(p);
    return key;
}

/* Of one command: also counts errors of single tokens or visitors in a script's answer, and own ids that are refused
 * now, which are a list behind the number drawn. */
static uint32_t errors_of(const struct redis_answer *r)
{
    uint32_t n = r->type == REDIS_ERROR;
    for (size_t i = 0; r->type == REDIS_ARRAY && i < r->n; i++) {
        const struct redis_answer *own = &r->elements[i];
        n += own->type == REDIS_ERROR;
        if (own->type == REDIS_ARRAY && own->n > 0) n += (uint32_t)own->n - 1;
    }
    return n;
}

static uint32_t reply_sum(const struct redis_answer *r)
{
    int64_t n = 0;
    for (size_t i = 0; r->type == REDIS_ARRAY && i < r->n; i++)
        if (r->elements[i].type == REDIS_INTEGER) n += r->elements[i].integer;
    return (uint32_t)n;
}

static void kept_exec(struct redis_frames *fr, const struct redis_answer *r)
{
    struct kept_frame *k = fr->kept;
    bool applied = answer_is_array(r, fr->lines - 1);
    if (r->type == REDIS_ERROR) {
        /* New hits wait until Redis takes it. It is sent again ten times a second; one line a second says why. */
        char text[200];
        uint64_t now_ms = mono_ms();
        refusal_file(&fr->lost, r);
        if (now_ms >= fr->refusal_told_ms + REFUSAL_TOLD_MS) {
            fr->refusal_told_ms = now_ms;
            slice_show(buf_slice(&fr->lost.errors), 150, text, sizeof text);
            log_event(LOG_WARN, "replay_refused", "seq=%llu error=%s", (unsigned long long)fr->kept->seq,
                      LOGQ(text));
        }
    }
    fr->kept = NULL;
    if (!applied && r->type != REDIS_ERROR) return exec_odd(fr, r);
    if (stray_cut(fr->link, r)) return;
    if (applied) redis_link_numbered(fr->link, k->seq);
    k->failed = 0;
    for (size_t i = 0; r->type == REDIS_ARRAY && i < r->n; i++)
        k->failed += errors_of(&r->elements[i]);
    k->renumbered = applied && fr->kept_events ? reply_sum(&r->elements[r->n - 2]) : 0;
    fr->on_kept(fr->arg, k, applied ? FRAME_APPLIED : FRAME_REFUSED);
}

static void on_kept_line(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    (void)l;
    if (r == NULL)
        fr->kept = NULL;
    else if (at < fr->lines)
        queued_file(fr, &fr->lost, r, at);
    else
        kept_exec(fr, r);
}

static uint32_t kept_ops_put(struct redis_frames *fr, struct buf *out, const struct kept_frame *k)
{
    struct frame *f = &fr->lost;
    uint32_t lines = 0;
    fr->kept_events = false;
    frame_reset(f);
    f->dirty_ms = k->dirty_ms;
    kept_take_ops(f, buf_slice(&k->records), k->found);
    if (f->ops_n == 0) return 0;
    for (int i = 0; i < FRAME_PARTS; i++)
        if (parts[i].of == OF(ops_n) && !parts[i].again) lines += parts[i].put(fr, out, f);
    fr->kept_events = events_kept_put(fr, out, f) > 0;
    return lines + fr->kept_events;
}

void redis_frames_replay(struct redis_frames *fr, struct kept_frame *k)
{
    PRE(fr->frame == NULL && fr->kept == NULL);
    struct buf *out = redis_link_begin(fr->link);
    fr->kept = k;
    BUF_LIT(out, "*1\r\n$5\r\nMULTI\r\n");
    if (k->cells > 0) {
        /* (!) For each hash: the ZADD that made it known dirty may be lost as well, or a claim has taken the hash since. */
        const char *p = k->bytes.p;
        request_array(out, 3 + 2 * (size_t)k->cells);
        BUF_LIT(out, "$4\r\nZADD\r\n");
        REQUEST_KEY(out, fr->tag, KEY_DIRTY);
        BUF_LIT(out, "$2\r\nNX\r\n");
        for (uint32_t i = 0; i < k->cells; i++) {
            request_int(out, k->dirty_ms);
            struct slice key = cell_take(&p);
            request_slice(out, slice_of(key.p + fr->tag.n, key.n - fr->tag.n));
        }
    }
    buf_put_slice(out, buf_slice(&k->bytes));
    fr->lines = 1 + (k->cells > 0) + k->lines;
    fr->lines += kept_ops_put(fr, out, k);
    fr->lines += seq_put(fr, out, &(struct frame){.seq = k->seq});
    BUF_LIT(out, "*1\r\n$4\r\nEXEC\r\n");
    watch_put(fr, out);
    redis_link_expect_transaction(fr->link, fr->lines + 1, on_kept_line, fr);
    redis_link_expect(fr->link, 1, on_watched, fr);
    redis_link_flush_now(fr->link);
}

/* --- the values of a frame whose answer was lost --- */

/* Without this answer nothing may go on: the next connection asks again. */
static void doubt_cut(struct redis_frames *fr, const struct redis_answer *r)
{
    char line[200], why[REDIS_WHY_BYTES];
    if (cut_as_told(fr->link, r)) return;
    answer_why(r, line, sizeof line);
    snprintf(why, sizeof why, "MASTERDOWN Redis did not say what became of the last frame (%s)", line);
    redis_link_cut(fr->link, why);
}

/* False: the answer is of no use. A value that is no integer, or a key of another type, shows that the HINCRBY failed
 * as well. */
static bool value_file(const struct redis_frames *fr, struct frame *f, uint32_t at,
                       const struct redis_answer *r)
{
    const struct redis_answer odd = {.type = REDIS_ERROR, .str = SLICE("ERR hash value is not an integer")};
    struct redis_answer got = {.type = REDIS_INTEGER};
    if (at >= f->cells_n) return tokens_told(fr, f, at - f->cells_n, r);
    if (r->type == REDIS_NIL || answer_integer(r, &got.integer))
        r = &got; /* gone: claimed since, so 0 is pending */
    else if (r->type == REDIS_STRING)
        r = &odd;
    else if (!answer_error_is(r, "WRONGTYPE"))
        return false;
    bool fresh = f->hashes[f->cells[at].hash].fresh;
    cell_file(f, &f->cells[at], r);
    f->hashes[f->cells[at].hash].fresh = fresh; /* this was no HINCRBY */
    return true;
}

static void on_value(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    struct frame *f = fr->values;
    (void)l;
    if (r == NULL || f == NULL) return;
    if (f->cells_n + f->tokens_n > 0 && !value_file(fr, f, at, r)) {
        fr->values = NULL; /* what still comes of this connection is not looked at */
        doubt_cut(fr, r);
        return;
    }
    if (at + 1 < f->cells_n + f->tokens_n) return;
    if (fr->keeps && f->errors.n > 0) again_without_failed(fr, f);
    fr->on_values(fr->arg, f);
}

void redis_frames_values(struct redis_frames *fr, struct frame *f)
{
    struct buf *out = redis_link_begin(fr->link);
    fr->values = f;
    answers_clear(f);
    uint32_t lines = f->cells_n + f->tokens_n;
    if (lines == 0) request_words(out, "PING"); /* so that the answer comes, as always, after this call */
    for (uint32_t i = 0; i < f->cells_n; i++) {
        BUF_LIT(out, "*3\r\n$4\r\nHGET\r\n");
        request_key(out, fr->tag, f->hashes[f->cells[i].hash].key);
        request_slice(out, FRAME_FIELD(f, &f->cells[i]));
    }
    tokens_ask(out, fr->tag, f);
    redis_link_expect(fr->link, lines > 0 ? lines : 1, on_value, fr);
    redis_link_flush(fr->link);
}

/* --- after a cut --- */

static void on_killed(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    (void)l, (void)at;
    if (r == NULL) return;
    if (r->type == REDIS_INTEGER)
        fr->on_killed(fr->arg);
    else
        doubt_cut(fr, r);
}

void redis_frames_kill(struct redis_frames *fr, int64_t client_id)
{
    struct buf *out = redis_link_begin(fr->link);
    BUF_LIT(out, "*4\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n");
    request_int(out, client_id);
    redis_link_expect(fr->link, 1, on_killed, fr);
    redis_link_flush(fr->link);
}

static bool look_file(struct redis_frames *fr, const struct redis_answer *r, uint32_t at)
{
    int64_t v = -1;
    if (at == 0) {
        bool known = r->type == REDIS_NIL || (answer_integer(r, &v) && v >= 0);
        fr->look_seq = v;
        if (known) redis_link_numbered(fr->link, v < 0 ? 0 : (uint64_t)v);
        return known;
    }
    if (at <= fr->look_claims) {
        fr->stands[at - 1] = r->integer != 0;
        return r->type == REDIS_INTEGER;
    }
    fr->stands[at - 1] = r->type == REDIS_STRING && slice_eq(r->str, buf_slice(&fr->owner));
    return r->type == REDIS_STRING || r->type == REDIS_NIL;
}

static void on_look(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_frames *fr = arg;
    if (r == NULL) return;
    if (at == 0)
        on_watched(l, fr, r, 0);
    else if (!look_file(fr, r, at - 1))
        doubt_cut(fr, r);
    else if (at == fr->look_n + 1)
        fr->on_look(fr->arg, fr->look_seq, fr->stands, fr->stands + fr->look_claims);
}

void redis_frames_look(struct redis_frames *fr, const struct link_look *l)
{
    struct buf *out = redis_link_begin(fr->link);
    uint32_t n = l->claims_n + l->journals_n;
    if (n >= fr->stands_cap) { /* also for nothing there are places to point to */
        fr->stands_cap = n + 1;
        fr->stands = heap_realloc(fr->stands, fr->stands_cap * sizeof *fr->stands);
    }
    fr->look_n = n;
    fr->look_claims = l->claims_n;
    watch_put(fr, out);
    BUF_LIT(out, "*2\r\n$3\r\nGET\r\n");
    request_key(out, fr->tag, buf_slice(&fr->seq_key));
    for (uint32_t i = 0; i < l->claims_n; i++) {
        buf_reset(&fr->scratch);
        name_batch(&fr->scratch, &l->claims[i]->id);
        BUF_LIT(out, "*2\r\n$6\r\nEXISTS\r\n");
        request_key(out, fr->tag, buf_slice(&fr->scratch));
    }
    for (uint32_t i = 0; i < l->journals_n; i++) {
        BUF_LIT(out, "*3\r\n$4\r\nHGET\r\n");
        REQUEST_KEY(out, fr->tag, KEY_JOURNALS);
        request_slice(out, l->journals[i]);
    }
    redis_link_expect(fr->link, n + 2, on_look, fr);
    redis_link_flush(fr->link);
}

void redis_frames_init(struct redis_frames *fr, struct redis_link *link, const struct life *life)
{
    *fr = (struct redis_frames){.link = link, .life = life, .tag = redis_tag(link)};
    name_of_life(&fr->seq_key, KEY_SEQ_PREFIX, life);
    name_owner(&fr->owner, life);
}

void redis_frames_close(struct redis_frames *fr)
{
    STAT_ADD(tokens_standing, -fr->tokens_standing);
    buf_free(&fr->seq_key);
    buf_free(&fr->owner);
    buf_free(&fr->scratch);
    frame_free(&fr->lost);
    heap_free(fr->claims);
    heap_free(fr->stands);
}
