/* redis/wait_op.c - see wait_op.h. A round is a write of our own, since WAIT speaks only of its link's writes (rule
 * S9). Its key is not the fence's (rule S43). Then, for WAIT, INFO gives the offset of the replication stream after the
 * write. So the next round may begin at once: INFO tells for all rounds how far each replica is. A short WAIT after it
 * makes the replicas report at once. WAITAOF speaks of the last write alone, and a later write would move that mark. So
 * its next round begins when this one is over or ROUND_MS old. */
#include "redis/wait_op.h"
#include "base/slice.h"
#include "redis/check_op.h"
#include "redis/lua.h"
#include "redis/request.h"
#include <stdio.h>

#define WAIT_MS 10
#define SLICE_MS 50 /* Redis may round it up to 100 */
#define ASK_LEAST_MS 20
#define ASK_MOST_MS 250
#define ROUND_MS 2000
#define STOP_MS 1000

static struct redis_durable *wait_of(struct list *node)
{
    return CONTAINER_OF(node, struct redis_durable, link);
}

static void wait_end(struct redis_durable *w, const char *text)
{
    list_remove(&w->link);
    snprintf(w->text, sizeof w->text, "%s", text);
    w->done(w); /* last line: w may be gone after it */
}

static bool wait_is_over(const struct redis_waits *ws, const struct redis_durable *w)
{
    bool late = w->until_ms != 0 && w->until_ms <= mono_ms();
    bool enough = w->got_local >= w->local && w->got_replicas >= w->replicas && w->offset != 0;
    return late || (enough && !place_is_held(ws->link->config.place)) ||
           (ws->stop_by_ms != 0 && ws->stop_by_ms <= mono_ms());
}

/* Ends all of l whose time is over, whose goal is reached, or whose server has changed. A done() may ask for more,
 * which goes to ws->fresh. */
static void waits_look(struct redis_waits *ws, struct list *l)
{
    struct list now;
    list_init(&now);
    list_move_all(&now, l);
    for (struct list *node; (node = list_pop(&now)) != NULL;) {
        struct redis_durable *w = wait_of(node);
        list_push(l, node);
        const struct redis_place *p = ws->link->config.place;
        if (strcmp(p->run_id, w->run_id) != 0 || p->changes != w->changes)
            wait_end(w, REDIS_UNBLOCKED);
        else if (wait_is_over(ws, w) || w->left(w))
            wait_end(w, "");
    }
}

static void list_append(struct list *to, struct list *from)
{
    for (struct list *node; (node = list_pop(from)) != NULL;)
        list_push(to, node);
}

/* --- what Redis says --- */

/* The link that wrote is gone; the server may be the same. */
static void round_lost(struct redis_waits *ws)
{
    list_append(&ws->sent, &ws->written);
    list_append(&ws->fresh, &ws->sent);
    list_for_each (node, &ws->fresh)
        wait_of(node)->offset = 0;
}

/* UNBLOCKED: it is being demoted. Clients hear that when links come up on another server, so that it is told once. */
static bool server_left(const struct redis_answer *r, const char *why)
{
    return answer_error_is(r, "READONLY") || answer_error_is(r, "MASTERDOWN") ||
           answer_error_is(r, "LOADING") || answer_error_is(r, "UNBLOCKED") ||
           strstr(why, "cannot be used with replica instances") != NULL;
}

/* The requests that the error is about: with WAITAOF those that want this server's file, if there are any. */
static void round_refused(struct redis_waits *ws, const struct redis_answer *r)
{
    struct list now;
    char why[REDIS_WHY_BYTES];
    bool about_local = false;
    answer_why(r, why, sizeof why);
    if (server_left(r, why)) {
        round_lost(ws);
        return;
    }
    list_append(&ws->written, &ws->sent);
    list_for_each (node, &ws->written)
        about_local = about_local || wait_of(node)->local > 0;
    list_init(&now);
    list_move_all(&now, &ws->written);
    for (struct list *node; (node = list_pop(&now)) != NULL;) {
        list_push(&ws->written, node);
        if (!about_local || wait_of(node)->local > 0) wait_end(wait_of(node), why);
    }
}

static void on_wait_write(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    (void)at;
    if (r == NULL || (answer_is_array(r, 2) && !redis_link_whole(l, ws->number, &r->elements[1])))
        round_lost(ws);
    else if (!answer_is_array(r, 2))
        round_refused(ws, r);
}

/* How many replicas have acknowledged the stream up to there. */
static int64_t info_acks(struct slice info, int64_t offset)
{
    char key[24];
    struct slice line;
    int64_t acks = 0;
    for (int i = 0; snprintf(key, sizeof key, "slave%d", i), info_get(info, key, &line); i++) {
        char text[300];
        long long acked = -1;
        slice_show(line, sizeof text - 1, text, sizeof text);
        const char *p = strstr(text, ",offset=");
        bool online = strstr(text, ",state=online,") != NULL;
        if (online && p != NULL && sscanf(p, ",offset=%lld", &acked) == 1 && acked >= offset) acks++;
    }
    return acks;
}

/* Numbers that come while a failover is under way mean nothing: see fence_op.c. */
static void got_set(struct redis_waits *ws, struct redis_durable *w, int64_t local, int64_t replicas)
{
    if (place_is_held(ws->link->config.place)) return;
    if (local > w->got_local) w->got_local = local;
    if (replicas > w->got_replicas) w->got_replicas = replicas;
}

static void on_replication(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    struct slice text;
    int64_t offset;
    (void)l, (void)at;
    if (r == NULL || (answer_is(r, REDIS_STRING) && !info_is(r->str, "role", "master"))) {
        round_lost(ws);
        return;
    }
    if (!answer_is(r, REDIS_STRING) || !info_get(r->str, "master_repl_offset", &text) ||
        !num_parse(text, &offset)) {
        round_refused(ws, r);
        return;
    }
    list_for_each (node, &ws->sent)
        wait_of(node)->offset = offset + (offset == 0); /* 0 if there never was a replica */
    list_append(&ws->written, &ws->sent);
    list_for_each (node, &ws->written)
        got_set(ws, wait_of(node), 0, info_acks(r->str, wait_of(node)->offset));
}

/* The answer to WAIT or WAITAOF, the last request of a round: for all that were written. */
static void on_count(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    int64_t local = 0, replicas = 0;
    bool fits = ws->aof ? answer_is_array(r, 2) && answer_integer(&r->elements[0], &local) &&
                              answer_integer(&r->elements[1], &replicas)
                        : answer_is(r, REDIS_INTEGER) && answer_integer(r, &replicas);
    (void)l, (void)at;
    ws->busy = false;
    if (r == NULL) {
        round_lost(ws);
        return;
    }
    if (ws->aof) {
        list_for_each (node, &ws->sent)
            wait_of(node)->offset = 1; /* it was written */
        list_append(&ws->written, &ws->sent);
    }
    if (!fits) round_refused(ws, r);
    list_for_each (node, &ws->written)
        if (fits) got_set(ws, wait_of(node), local, replicas);
    waits_look(ws, &ws->written);
    if (!list_empty(&ws->fresh)) uv_timer_start(&ws->timer, ws->timer.timer_cb, 0, WAIT_MS);
}

static void on_polled(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    on_replication(l, arg, r, at);
    ws->busy = false;
    waits_look(ws, &ws->written);
}

/* --- asking --- */

/* The least numbers with which one more client can get its answer. */
static void least_wanted(const struct redis_waits *ws, int64_t *local, int64_t *replicas)
{
    const struct list *lists[] = {&ws->sent, &ws->written};
    bool first = true;
    *local = *replicas = 0;
    for (size_t i = 0; i < 2; i++)
        list_for_each (node, (struct list *)lists[i]) {
            const struct redis_durable *w = wait_of(node);
            if (w->local <= w->got_local && w->replicas <= w->got_replicas) continue;
            int64_t most = w->replicas < INT32_MAX ? w->replicas : INT32_MAX;
            if (first || most < *replicas) *replicas = most;
            if (first || w->local < *local) *local = w->local;
            first = false;
        }
    if (*replicas < 0) *replicas = 0;
}

static void count_put(struct redis_waits *ws)
{
    int64_t local, replicas;
    struct buf *out = redis_link_begin(ws->link);
    least_wanted(ws, &local, &replicas);
    request_array(out, ws->aof ? 4 : 3);
    request_text(out, ws->aof ? "WAITAOF" : "WAIT");
    if (ws->aof) request_int(out, local);
    request_int(out, replicas);
    request_int(out, SLICE_MS);
    redis_link_expect(ws->link, 1, on_count, ws);
}

static void round_begin(struct redis_waits *ws)
{
    ws->wrote_ms = mono_ms();
    list_append(&ws->sent, &ws->fresh);
    struct buf *out = redis_link_begin(ws->link);
    ws->number = redis_link_number(ws->link);
    request_eval(out, lua_fence, 2, 1);
    request_key(out, redis_tag(ws->link), buf_slice(&ws->key));
    request_key(out, redis_tag(ws->link), buf_slice(&ws->seq_key));
    request_int(out, (int64_t)++ws->n);
    redis_link_expect(ws->link, 1, on_wait_write, ws);
    if (!ws->aof) {
        request_words(redis_link_begin(ws->link), "INFO replication");
        redis_link_expect(ws->link, 1, on_replication, ws);
    }
    count_put(ws);
}

static void poll_put(struct redis_waits *ws)
{
    if (ws->aof) {
        count_put(ws);
        return;
    }
    request_words(redis_link_begin(ws->link), "INFO replication");
    redis_link_expect(ws->link, 1, on_polled, ws);
}

/* Seldomer the longer nothing came of it. */
static bool poll_is_due(const struct redis_waits *ws)
{
    uint64_t now_ms = mono_ms(), every_ms = (now_ms - ws->wrote_ms) / 10;
    if (every_ms < ASK_LEAST_MS) every_ms = ASK_LEAST_MS;
    if (every_ms > ASK_MOST_MS) every_ms = ASK_MOST_MS;
    return !list_empty(&ws->written) && now_ms - ws->asked_ms >= every_ms;
}

static void waits_tick(uv_timer_t *timer)
{
    struct redis_waits *ws = timer->data;
    waits_look(ws, &ws->fresh);
    waits_look(ws, &ws->sent);
    waits_look(ws, &ws->written);
    if (list_empty(&ws->fresh) && list_empty(&ws->sent) && list_empty(&ws->written)) {
        uv_timer_stop(timer);
        return;
    }
    if (ws->busy || !redis_link_is_up(ws->link)) return;
    bool over = !ws->aof || list_empty(&ws->written) || mono_ms() - ws->wrote_ms >= ROUND_MS;
    bool begins = !list_empty(&ws->fresh) && over;
    if (!begins && !poll_is_due(ws)) return;
    ws->busy = true;
    ws->asked_ms = mono_ms();
    if (begins)
        round_begin(ws);
    else
        poll_put(ws);
    redis_link_flush(ws->link);
}

void redis_wait_for(struct redis_waits *ws, struct redis_durable *w)
{
    w->got_local = w->got_replicas = w->offset = 0;
    w->text[0] = '\0';
    w->until_ms = w->timeout_ms == 0 ? 0 : mono_ms() + w->timeout_ms;
    memcpy(w->run_id, ws->link->config.place->run_id, sizeof w->run_id);
    w->changes = ws->link->config.place->changes;
    list_push(&ws->fresh, &w->link);
    if (!ws->begun) redis_link_start(ws->link);
    ws->begun = true;
    uv_timer_start(&ws->timer, waits_tick, 0, WAIT_MS);
}

void redis_waits_stop(struct redis_waits *ws)
{
    ws->stop_by_ms = mono_ms() + STOP_MS;
}

/* --- begin and end --- */

static void wait_link_up(struct redis_link *l)
{
    (void)l; /* the next tick sees it */
}

static void wait_link_down(struct redis_link *l, const char *why)
{
    (void)why;
    round_lost(l->arg);
}

void redis_waits_init(struct redis_waits *ws, struct redis_link *link, const struct life *life, bool aof)
{
    *ws = (struct redis_waits){.link = link, .life = life, .aof = aof};
    link->up = wait_link_up;
    link->down = wait_link_down;
    link->arg = ws;
    if (aof)
        name_waitaof(&ws->key, life);
    else
        name_wait(&ws->key, life);
    name_seq(&ws->seq_key, life);
    list_init(&ws->fresh);
    list_init(&ws->sent);
    list_init(&ws->written);
    uv_timer_init(link->loop, &ws->timer);
    ws->timer.data = ws;
}

static void on_waits_closed(uv_handle_t *handle)
{
    struct redis_waits *ws = handle->data;
    buf_free(&ws->key);
    buf_free(&ws->seq_key);
    ws->closed(ws); /* last line: ws may be gone after it */
}

void redis_waits_close(struct redis_waits *ws, void (*closed)(struct redis_waits *ws))
{
    struct list *node;
    ws->closed = closed;
    round_lost(ws);
    while ((node = list_pop(&ws->fresh)) != NULL)
        wait_end(wait_of(node), "ERR tallyd is stopping");
    uv_close((uv_handle_t *)&ws->timer, on_waits_closed);
}
