/* engine/asks.c - see core.h. Redis is asked down the sync link: the frame link is for what clients wait for to be counted. */
#include "base/clock.h"
#include "base/heap.h"
#include "engine/core.h"
#include "engine/recovery.h"
#include "redis/check_op.h"
#include "redis/query_op.h"
#include <stdio.h>

/* --- CTR.PENDING --- */

#define PENDING_BYTES_A_MS 4096
/* Of an answer of megabytes in a turn of the loop: hits wait for its end. */
#define PART_ITEMS 256
#define PART_BYTES 16384

struct pending_task {
    struct redis_hash redis;
    struct turn turn;
    struct list giving; /* of core.givings: it is read, and given to the client in parts */
    size_t given;
    struct pending_request *request;
    struct core *core;
};

/* One piece at a time: neither Redis' output buffer nor ours holds more, and frames go between them. */
static void pending_next(struct core *c)
{
    struct turn *turn = c->pending_out ? NULL : turns_pop(&c->pendings);
    if (turn == NULL) return;
    c->pending_out = true;
    redis_hash(&c->sync_link, &CONTAINER_OF(turn, struct pending_task, turn)->redis);
}

static void reads_next(struct core *c);

/* While hits come, a piece of a long read is followed by a rest. */
static bool asks_rest(const struct core *c)
{
    return sync_hits_come(c->sync) && !uv_is_closing((const uv_handle_t *)&c->rests);
}

static void rests_over(uv_timer_t *timer);

static void rests_arm(struct core *c)
{
    uint64_t now_us = mono_us(), first_us = c->pending_until_us;
    for (size_t i = 0; i < READS_AT_ONCE; i++)
        if (first_us == 0 || (c->reading[i].until_us > 0 && c->reading[i].until_us < first_us))
            first_us = c->reading[i].until_us;
    uint64_t us = first_us > now_us ? first_us - now_us : 0;
    if (first_us > 0) uv_timer_start(&c->rests, rests_over, (us + 999) / 1000, 0);
}

static void rests_over(uv_timer_t *timer)
{
    struct core *c = timer->data;
    if (c->pending_until_us > 0 && (!asks_rest(c) || mono_us() >= c->pending_until_us)) {
        c->pending_until_us = 0;
        c->pending_out = false;
        pending_next(c);
    }
    reads_next(c);
}

/* False: it was the last part, and the task is gone. */
static bool part_give(struct pending_task *task)
{
    struct pending_request *q = task->request;
    const struct query_answer *a = &task->redis.answer;
    struct slice items[PART_ITEMS];
    q->items = items;
    q->items_at = task->given;
    size_t bytes = 0;
    for (q->items_n = 0; q->items_n < PART_ITEMS && bytes < PART_BYTES && task->given < a->n; task->given++) {
        items[q->items_n] = QUERY_TEXT(a, &a->values[task->given]);
        bytes += items[q->items_n++].n;
    }
    if (task->given < a->n) return q->part(q), true;
    q->done(q);
    query_answer_free(&task->redis.answer);
    heap_free(task);
    return false;
}

bool asks_turn(struct core *c)
{
    if (list_empty(&c->givings)) return false;
    struct pending_task *task = CONTAINER_OF(list_pop(&c->givings), struct pending_task, giving);
    if (part_give(task)) list_push(&c->givings, &task->giving);
    return !list_empty(&c->givings);
}

/* While hits come, a Redis gives so much of pending hashes and no more: whoever reads a large one again and again delays no hit. */
static void pending_rest(struct core *c, uint32_t bytes)
{
    bool rests = asks_rest(c);
    c->pending_owed = rests ? c->pending_owed + bytes : 0;
    uint64_t ms = c->pending_owed / PENDING_BYTES_A_MS;
    c->pending_owed %= PENDING_BYTES_A_MS;
    c->pending_out = ms > 0;
    c->pending_until_us = ms > 0 ? mono_us() + 1000 * ms : 0;
    if (ms > 0)
        rests_arm(c);
    else
        pending_next(c);
}

void asks_init(struct core *c)
{
    list_init(&c->pendings.first);
    list_init(&c->givings);
    list_init(&c->reads.first);
    uv_timer_init(c->loop, &c->rests);
    c->rests.data = c;
}

void asks_close(struct core *c, uv_close_cb closed)
{
    while (asks_turn(c)) {
    }
    uv_close((uv_handle_t *)&c->rests, closed);
    rests_over(&c->rests);
}

/* The user's next piece is of the same hash, so that it holds one at a time. */
static void pending_came(struct redis_hash *h, bool more)
{
    struct pending_task *task = CONTAINER_OF(h, struct pending_task, redis);
    struct core *c = task->core;
    uint32_t bytes = h->piece_bytes;
    if (more)
        turns_push_again(&c->pendings, &task->turn);
    else {
        struct pending_request *q = task->request;
        q->items_all = task->redis.answer.n;
        q->outcome = task->redis.outcome;
        q->text = task->redis.text;
        if (part_give(task)) list_push(&c->givings, &task->giving);
    }
    pending_rest(c, bytes);
}

void ask_pending(struct core *c, struct pending_request *q)
{
    struct pending_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->core = c;
    task->turn.who = q->who;
    task->redis = (struct redis_hash){
        .key = q->key, .bytes_max = c->config.counters->ops->read.texts_max, .came = pending_came};
    turns_push(&c->pendings, &task->turn);
    pending_next(c);
}

/* --- CTR.SYNC --- */

struct wait_task {
    struct sync_wait wait;
    struct sync_request *request;
};

static void asked_sync_done(struct sync_wait *w)
{
    struct wait_task *task = CONTAINER_OF(w, struct wait_task, wait);
    struct sync_request *q = task->request;
    q->outcome = w->outcome;
    q->rows = w->rows;
    heap_free(task);
    q->done(q);
}

void ask_sync(struct core *c, struct sync_request *q)
{
    struct wait_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->wait.key = q->key;
    task->wait.done = asked_sync_done;
    sync_wait_for(c->sync, &task->wait);
}

/* --- WAIT, WAITAOF --- */

struct durable_task {
    struct redis_durable redis;
    struct wait_request *request;
};

static bool durable_left(struct redis_durable *w)
{
    struct wait_request *q = CONTAINER_OF(w, struct durable_task, redis)->request;
    return q->left(q);
}

static void durable_done(struct redis_durable *w)
{
    struct durable_task *task = CONTAINER_OF(w, struct durable_task, redis);
    struct wait_request *q = task->request;
    bool unblocked = strcmp(w->text, REDIS_UNBLOCKED) == 0;
    q->outcome = w->text[0] == '\0' ? ASK_DONE : unblocked ? ASK_UNBLOCKED : ASK_FAILED;
    q->text = w->text;
    q->local = w->got_local;
    q->replicas = w->got_replicas;
    q->done(q);
    heap_free(task);
}

/* (!) The links came up on another server since: it may lack what was answered on the previous one. */
void ask_wait(struct core *c, struct wait_request *q)
{
    char text[160];
    bool unknown = q->disk && c->frame_link.facts.version < REDIS_WAITAOF;
    q->outcome = unknown ? ASK_FAILED : core_up(c) ? ASK_UNBLOCKED : ASK_REDIS_DOWN;
    q->text = unknown ? text : REDIS_UNBLOCKED;
    if (unknown)
        snprintf(text, sizeof text,
                 "ERR unknown command 'WAITAOF', with args beginning with: '%lld' '%lld' '%llu' ",
                 (long long)q->local, (long long)q->replicas, (unsigned long long)q->timeout_ms);
    if (unknown || !core_up(c) || c->place.moved_ms > q->since_ms) {
        q->done(q);
        return;
    }
    struct durable_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->redis = (struct redis_durable){.local = q->local,
                                         .replicas = q->replicas,
                                         .timeout_ms = q->timeout_ms,
                                         .left = durable_left,
                                         .done = durable_done};
    redis_wait_for(q->disk ? &c->waitaofs : &c->waits, &task->redis);
}

/* --- CTR.RECOVER --- */

struct recover_task {
    struct recover_request *request;
    struct buf bytes; /* "kind name\0" each */
    size_t lines;
};

static void asked_recover_found(void *arg, const char *kind, struct slice name)
{
    struct recover_task *task = arg;
    buf_printf(&task->bytes, "%s ", kind);
    buf_put_slice(&task->bytes, name);
    buf_put_char(&task->bytes, '\0');
    task->lines++;
}

static void asked_recover_done(void *arg, const struct recovered *r)
{
    struct recover_task *task = arg;
    struct recover_request *q = task->request;
    struct slice *lines = heap_alloc((task->lines + 1) * sizeof *lines);
    const char *p = task->bytes.p;
    for (size_t i = 0; i < task->lines; i++) {
        lines[i] = slice_str(p);
        p += lines[i].n + 1;
    }
    char text[450];
    snprintf(text, sizeof text, "ERR %s", r->text);
    q->outcome = r->failed ? ASK_FAILED : ASK_DONE;
    q->text = text;
    q->adopted = r->adopted;
    q->rows_merged = r->rows_merged;
    q->rows_already = r->rows_already;
    q->lines = lines;
    q->lines_n = task->lines;
    q->done(q);
    heap_free(lines);
    buf_free(&task->bytes);
    heap_free(task);
}

/* (!) It claims, so not before the links of earlier lives are ended. */
void ask_recover(struct core *c, struct recover_request *q)
{
    if (!c->name.ours) {
        q->outcome = ASK_REDIS_DOWN;
        q->done(q);
        return;
    }
    struct recover_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    struct recovery_how how = {
        .dry_run = q->dry_run, .found = asked_recover_found, .done = asked_recover_done, .arg = task};
    if (recovery_start(c, &how)) return;
    heap_free(task);
    q->outcome = ASK_FAILED;
    q->text = "ERR a recovery is under way already; wait for it to end";
    q->done(q);
}

/* --- series, timeboxes, events and visitors --- */

#define READ_RESTS 4     /* times what the piece took */
#define READ_US_MAX 2000 /* of which it counts so much: a slow Redis is slow enough */

struct read_task {
    struct redis_query redis;
    struct turn turn;
    struct coalesce_settle settle;
    struct read_request *request;
    struct core *core;
};

static bool is_reading(const struct core *c, const void *who)
{
    for (size_t i = 0; i < READS_AT_ONCE; i++)
        if (c->reading[i].task != NULL && c->reading[i].task->turn.who == who) return true;
    return false;
}

static struct read_task *read_of_next(struct core *c)
{
    list_for_each (node, &c->reads.first) {
        struct turn *turn = CONTAINER_OF(node, struct turn, link);
        if (is_reading(c, turn->who)) continue;
        turns_take(&c->reads, turn);
        return CONTAINER_OF(turn, struct read_task, turn);
    }
    return NULL;
}

/* Of each user one piece at a time, and few in all: a frame, and another's read, waits for no more. */
static void reads_next(struct core *c)
{
    uint64_t now_us = mono_us();
    for (struct read_place *at = c->reading; at < c->reading + READS_AT_ONCE; at++) {
        if (at->until_us > 0 && (now_us >= at->until_us || !asks_rest(c))) {
            turns_push(&c->reads, &at->task->turn);
            *at = (struct read_place){0};
        }
        if (at->task != NULL || (at->task = read_of_next(c)) == NULL) continue;
        at->asked_us = now_us;
        redis_query(&c->sync_link, &at->task->redis);
    }
    rests_arm(c);
}

static void read_came(struct redis_query *r, bool more)
{
    struct read_task *task = CONTAINER_OF(r, struct read_task, redis);
    struct core *c = task->core;
    struct read_place *at = c->reading;
    while (at->task != task)
        at++;
    uint64_t now_us = mono_us(), us = now_us - at->asked_us;
    if (more && asks_rest(c)) {
        at->until_us = now_us + READ_RESTS * (us < READ_US_MAX ? us : READ_US_MAX);
    } else if (*at = (struct read_place){0}, more) {
        turns_push(&c->reads, &task->turn);
    } else {
        struct read_request *q = task->request;
        q->outcome = task->redis.outcome;
        q->text = task->redis.text;
        q->answer = &task->redis.answer;
        q->done(q);
        heap_free(task);
    }
    reads_next(c);
}

static void read_begin(struct read_task *task)
{
    turns_push(&task->core->reads, &task->turn);
    reads_next(task->core);
}

static void settle_done(struct coalesce_settle *settle)
{
    struct read_task *task = CONTAINER_OF(settle, struct read_task, settle);
    if (!settle->failed) {
        read_begin(task);
        return;
    }
    struct read_request *q = task->request;
    q->outcome = ASK_FAILED;
    q->text = settle->why;
    q->done(q);
    heap_free(task);
}

void ask_read(struct core *c, struct read_request *q)
{
    static const enum op_kind kinds[] = {
        [QUERY_SERIES] = OP_SERIES,          [QUERY_NAMES] = OP_SERIES,
        [QUERY_TIMEBOX_RECENT] = OP_TIMEBOX, [QUERY_TIMEBOX_TOP] = OP_TIMEBOX,
        [QUERY_TIMEBOX_BOTTOM] = OP_TIMEBOX, [QUERY_EVENTS] = OP_EVENT,
        [QUERY_WINDOWS] = OP_EVENT};
    const struct query *query = &q->query;
    struct read_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->core = c;
    task->turn.who = q->who;
    task->redis =
        (struct redis_query){.query = &q->query, .limits = c->config.counters->ops, .came = read_came};
    bool in_keys = query->kind == QUERY_VISITORS;
    if (!in_keys) /* the part of it that is still in a journal; visitors never are */
        task->settle = (struct coalesce_settle){.kind = kinds[query->kind],
                                                .name = query->name,
                                                .type = query->type,
                                                .all = query->kind == QUERY_NAMES,
                                                .done = settle_done};
    if (in_keys || !coalesce_settle(c->coalesce, &task->settle)) read_begin(task);
}
