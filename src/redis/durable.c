/* redis/durable.c - see durable.h. */
#include "redis/durable.h"
#include "base/log.h"
#include "base/stats.h"
#include "redis/ask.h"
#include "redis/check_op.h"
#include <stdio.h>

/* --- what both write, ask and walk --- */

static void mark_init(struct redis_mark *m, const struct life *life, const char *prefix)
{
    *m = (struct redis_mark){0};
    name_of_life(&m->key, prefix, life);
    name_of_life(&m->seq_key, KEY_SEQ_PREFIX, life);
}

static void mark_put(struct redis_mark *m, struct redis_link *l, redis_reply_cb *written, void *arg)
{
    m->number = redis_link_number(l);
    redis_write(l, "EVAL %.*s 2 {}%.*s {}%.*s %" PRIu64, SLICE_ARG(lua_fence), SLICE_ARG(buf_slice(&m->key)),
                SLICE_ARG(buf_slice(&m->seq_key)), ++m->n);
    redis_link_expect(l, 1, written, arg);
}

static void mark_free(struct redis_mark *m)
{
    buf_free(&m->key);
    buf_free(&m->seq_key);
}

static void wait_put(struct redis_link *l, bool aof, int64_t local, int64_t replicas, uint32_t ms)
{
    if (aof)
        redis_write(l, "WAITAOF %" PRId64 " %" PRId64 " %u", local, replicas, ms);
    else
        redis_write(l, "WAIT %" PRId64 " %u", replicas, ms);
}

/* False: not an answer to it. */
static bool wait_read(const struct redis_answer *r, bool aof, int64_t *local, int64_t *replicas)
{
    if (aof) return answer_scan(r, "(ii)", local, replicas);
    return answer_is(r, REDIS_INTEGER) && answer_integer(r, replicas);
}

/* Those that are in l now, each once: it may be ended, and then others may be added. */
static void each_once(struct list *l, void (*look)(void *of, struct list *node, const char *why), void *of,
                      const char *why)
{
    struct list now;
    list_init(&now);
    list_move_all(&now, l);
    for (struct list *node; (node = list_pop(&now)) != NULL;) {
        list_push(l, node);
        look(of, node, why);
    }
}

static void list_append(struct list *to, struct list *from)
{
    for (struct list *node; (node = list_pop(from)) != NULL;)
        list_push(to, node);
}

/* --- fences. A group of them shares one write and one wait; the next group forms meanwhile, or goes down the next link. The timed
 * form is for servers without a WAITAOF that can be believed (durable.h). Timed fences overlap, so a slow barrier costs delay, not
 * throughput.
 * (!) Each WAIT, and each look of the timed form, also reads the key that the fence wrote. In between the server may be demoted,
 * take over other data and be promoted again, all on this connection. WAIT would then speak of offsets of other data. --- */

#define POLL_MS 100
#define REWRITE_MS 60000
#define LOST_MS 100           /* a lost link is noticed within that */
#define FENCE_KEY_S 86400     /* as in fence.lua */
#define WAIT_SLICE_MS 1000    /* one WAIT; asked again until the fence gives up, since it blocks the link */
#define SPACED_MS 400         /* so that four links last for longer than a second */
#define BACKGROUND_SLICE_MS 5 /* when only background fences wait; asked again every POLL_MS */
#define NO_AOF "Redis keeps no AOF that an fsync follows: CONFIG SET appendonly yes"
#define OTHER_DATA "Redis took over another server's data"
#define LINK_LOST "the Redis link was lost"

static void group_begin(struct redis_fences *fs);
static void poll_next(struct redis_fences *fs);

static struct fence *fence_of(struct list *node)
{
    return CONTAINER_OF(node, struct fence, link);
}

static bool by_waitaof(const struct redis_fences *fs)
{
    const struct redis_facts *f = &fs->link->facts;
    return fs->keeps == REDIS_KEEPS_DISK && f->aof_on && f->version >= REDIS_WAITAOF_TRUE;
}

/* why NULL: it has passed.
 * (!) While frames are held a failover is under way, and this server may be replaced already: what this server and one
 * of its replicas have is then not what the promoted one has. */
static void fence_end(void *of, struct list *node, const char *why)
{
    const struct redis_fences *fs = of;
    struct fence *f = fence_of(node);
    if (why == NULL && place_is_held(fs->link->config.place)) why = "a failover is under way";
    list_remove(&f->link);
    f->passed = why == NULL;
    snprintf(f->text, sizeof f->text, "%s", f->passed ? "" : why);
    if (f->passed && !f->background) {
        STAT_ADD(fences, 1);
        histogram_add(&latencies.barrier, mono_us() - f->asked_us);
        CRASH(fence_done);
    }
    f->done(f); /* last line: f may be gone after it */
}

/* The callbacks may ask for new fences, which go to fs->waiting. */
static void group_end(struct redis_fences *fs, const char *why)
{
    fs->flying = false;
    each_once(&fs->group, fence_end, fs, why);
    group_begin(fs);
}

/* Are the fences' writes up to n still there? */
static bool key_is_whole(const struct redis_answer *r, uint64_t n)
{
    int64_t has;
    return answer_integer(r, &has) && has >= 0 && (uint64_t)has >= n;
}

/* Why a key is not whole. An error says nothing of what the server has, as without a right to the key. */
static void key_lacks(struct redis_fences *fs, const struct redis_answer *r)
{
    if (r->type == REDIS_ERROR) return answer_why(r, fs->why, sizeof fs->why);
    snprintf(fs->why, sizeof fs->why, "%s", OTHER_DATA);
}

static bool is_of_link(const struct redis_fences *fs, const struct fence *f)
{
    return redis_link_is_up(fs->link) && f->client_id == fs->link->client_id;
}

/* --- the timed form --- */

static void timed_look(void *of, struct list *node, const char *why)
{
    struct redis_fences *fs = of;
    struct fence *f = fence_of(node);
    enum aof_verdict said = AOF_WAITS;
    if (fs->look_known)
        said = aof_wait_look(&f->sync, fs->watch, &fs->look);
    else
        f->sync = (struct aof_wait){.again_ms = mono_ms() + POLL_MS, .why = "Redis does not answer INFO"};
    if (said == AOF_SYNCED)
        fence_end(fs, node, NULL);
    else if (said == AOF_OFF)
        fence_end(fs, node, NO_AOF);
    else if (mono_ms() > f->until_ms)
        fence_end(fs, node, f->sync.why != NULL ? f->sync.why : why);
}

static void on_nothing(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)l, (void)arg, (void)r, (void)at;
}

/* One is enough; refused, the fences' text says it. */
static void rewrite_put(struct redis_fences *fs)
{
    uint64_t now_ms = mono_ms();
    if (fs->rewrite_ms > 0 && now_ms < fs->rewrite_ms + REWRITE_MS) return;
    fs->rewrite_ms = now_ms;
    log_event(LOG_WARN, "redis_rewrites", "why=%s",
              LOGQ("Redis' clock was put back; until its AOF is rewritten it would sync nothing"));
    redis_write(fs->link, "BGREWRITEAOF");
    redis_link_ask(fs->link, 1, on_nothing, fs);
}

/* INFO, CONFIG GET, our own key; perhaps EXPIRE. */
static void on_fence_look(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fences *fs = arg;
    (void)l;
    if (r != NULL && at == 0) fs->look_known = answer_is(r, REDIS_STRING) && aof_look_read(&fs->look, r->str);
    if (r != NULL && at == 1) redis_fsync_file(&fs->look.facts, r);
    if (r != NULL && at == 2) {
        fs->push = false;
        if (fs->look_known) {
            aof_watch_look(fs->watch, &fs->look);
            fs->push = aof_look_wants_push(&fs->look);
            if (aof_watch_wants_rewrite(fs->watch, &fs->look)) rewrite_put(fs);
        }
        key_lacks(fs, r); /* if it does */
        if (key_is_whole(r, fs->asked_n))
            each_once(&fs->timed, timed_look, fs, "Redis did not finish its fsync in time; look at its disk");
        else
            each_once(&fs->timed, fence_end, fs, fs->why);
    }
    if (r != NULL && at + 1 < fs->look_n) return;
    fs->look_n = 0;
    poll_next(fs);
}

/* When the link that wrote is gone, Redis may have lost what it wrote, too. */
static void timed_lost(void *of, struct list *node, const char *why)
{
    if (!is_of_link(of, fence_of(node))) fence_end(of, node, why);
}

static void on_poll(uv_timer_t *timer)
{
    struct redis_fences *fs = timer->data;
    each_once(&fs->timed, timed_lost, fs, LINK_LOST);
    if (list_empty(&fs->timed) || fs->look_n > 0) return;
    struct slice key = buf_slice(&fs->mark.key);
    fs->look = (struct aof_look){.asked_ms = mono_ms(), .pushed = fs->push};
    fs->asked_n = fs->mark.n;
    fs->look_n = fs->push ? 4 : 3;
    redis_write(fs->link, "INFO server persistence stats");
    redis_write(fs->link, REDIS_FSYNC_ASK);
    redis_write(fs->link, "GET {}%.*s", SLICE_ARG(key));
    if (fs->push) redis_write(fs->link, "EXPIRE {}%.*s %d", SLICE_ARG(key), FENCE_KEY_S);
    redis_link_ask(fs->link, fs->look_n, on_fence_look, fs);
}

/* One look at a time, when the first of them wants it. */
static void poll_next(struct redis_fences *fs)
{
    uint64_t now_ms = mono_ms(), at_ms = now_ms + LOST_MS;
    if (fs->look_n > 0 || list_empty(&fs->timed)) return;
    list_for_each (node, &fs->timed)
        if (fence_of(node)->sync.again_ms < at_ms) at_ms = fence_of(node)->sync.again_ms;
    uv_timer_start(&fs->poll, on_poll, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

/* --- write, then WAIT or WAITAOF --- */

static void group_wait_put(struct redis_fences *fs);

static bool all_background(const struct list *fences)
{
    list_for_each (node, fences)
        if (!fence_of(node)->background) return false;
    return true;
}

/* (!) WAIT covers only its own connection's writes. */
static void on_rested(uv_timer_t *timer)
{
    struct redis_fences *fs = timer->data;
    if (!fs->resting) return;
    fs->resting = false;
    if (is_of_link(fs, fence_of(fs->group.next)))
        group_wait_put(fs);
    else
        group_end(fs, LINK_LOST);
}

/* With those that came meanwhile, and a new write. */
static void group_again(struct redis_fences *fs)
{
    fs->resting = fs->flying = false;
    list_append(&fs->waiting, &fs->group);
    group_begin(fs);
}

/* The link is free meanwhile. A fence that may not wait takes these with it. */
static void group_rest(struct redis_fences *fs)
{
    if (!all_background(&fs->waiting)) {
        group_again(fs);
        return;
    }
    fs->resting = true;
    uv_timer_start(&fs->rest, on_rested, POLL_MS, 0);
}

/* Enough replicas have the write; must the disk of this server be asked, too? */
static void group_waited(struct redis_fences *fs)
{
    if (fs->keeps != REDIS_KEEPS_DISK || (by_waitaof(fs) && fs->vouched)) {
        group_end(fs, NULL);
        return;
    }
    list_append(&fs->timed, &fs->group);
    poll_next(fs);
    fs->flying = false;
    group_begin(fs);
}

/* WAIT's answer, our own key; behind WAITAOF INFO, which says whether its answer holds. */
static void on_waited(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fences *fs = arg;
    int64_t local = 1, replicas = 0;
    struct aof_look look = {0};
    (void)l;
    if (r == NULL) return group_end(fs, LINK_LOST);
    if (at == 0) {
        fs->known = wait_read(r, by_waitaof(fs), &local, &replicas);
        fs->enough = local >= 1 && replicas >= (int64_t)fs->replicas;
        answer_why(r, fs->why, sizeof fs->why);
    } else if (at == 1) {
        fs->whole = key_is_whole(r, fs->mark.n);
        if (fs->known && !fs->whole) key_lacks(fs, r);
    } else
        fs->vouched = answer_is(r, REDIS_STRING) && aof_look_read(&look, r->str) && aof_look_vouches(&look);
    if (at + 1 < fs->wait_n) return;
    if (!fs->known)
        group_end(fs, fs->why);
    else if (!fs->whole)
        group_end(fs, fs->why);
    else if (fs->enough)
        group_waited(fs);
    else if (mono_ms() >= fence_of(fs->group.next)->until_ms)
        group_end(fs, by_waitaof(fs)
                          ? "WAITAOF was not reached in time: disk or replicas are behind"
                          : "WAIT was not reached in time: fewer replicas than redis.replicas answer");
    else if (all_background(&fs->group))
        group_rest(fs);
    else
        group_wait_put(fs);
}

static void group_wait_put(struct redis_fences *fs)
{
    /* Well below the link's own limit; otherwise a WAIT without an answer would look like a dead server. */
    uint32_t ms = fs->link->config.answer_ms / 2;
    if (ms > WAIT_SLICE_MS) ms = WAIT_SLICE_MS;
    if (all_background(&fs->group)) ms = BACKGROUND_SLICE_MS;
    fs->wait_n = by_waitaof(fs) ? 3 : 2;
    wait_put(fs->link, by_waitaof(fs), 1, fs->replicas, ms);
    redis_write(fs->link, "GET {}%.*s", SLICE_ARG(buf_slice(&fs->mark.key)));
    if (by_waitaof(fs)) redis_write(fs->link, "INFO server persistence stats");
    redis_link_ask(fs->link, fs->wait_n, on_waited, fs);
}

static void on_write(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fences *fs = arg;
    const struct redis_answer *seq;
    struct slice replid;
    char why[200];
    (void)at;
    if (!answer_scan(r, "(s*)", &replid, &seq) || replid.n >= RUN_ID_BYTES) {
        answer_why(r, why, sizeof why);
        return group_end(fs, why);
    }
    if (!redis_link_whole(l, fs->mark.number, seq)) return group_end(fs, OTHER_DATA);
    list_for_each (node, &fs->group)
        slice_show(replid, RUN_ID_BYTES - 1, fence_of(node)->replid, RUN_ID_BYTES);
    if (!all_background(&fs->group)) CRASH(fence_mid);
    if (by_waitaof(fs) || fs->replicas > 0)
        group_wait_put(fs);
    else
        group_waited(fs);
}

/* Everything that waits becomes one group, unless one is under way. */
static void group_begin(struct redis_fences *fs)
{
    if (fs->flying || list_empty(&fs->waiting)) return;
    fs->flying = true;
    fs->begun_ms = mono_ms();
    list_move_all(&fs->group, &fs->waiting);
    list_for_each (node, &fs->group) {
        struct fence *f = fence_of(node);
        memcpy(f->run_id, fs->link->facts.run_id, sizeof f->run_id);
        f->client_id = fs->link->client_id;
    }
    mark_put(&fs->mark, fs->link, on_write, fs);
    redis_link_flush(fs->link);
}

static void on_spaced(uv_timer_t *timer)
{
    group_begin(timer->data);
}

/* (!) WAITAOF holds its link until the next fsync, up to a second; what comes meanwhile needs no later one. The links' groups
 * begin at least SPACED_MS apart, so that four last for that second, whatever comes. rest_ms: until this link's may begin. */
static struct redis_fences *fences_free(struct redis_fences *fs, uint64_t *rest_ms)
{
    struct redis_fences *oldest = fs;
    uint64_t now_ms = mono_ms(), since_ms = 0;
    while (fs->flying) {
        if (fs->begun_ms < oldest->begun_ms) oldest = fs;
        if (fs->begun_ms > since_ms) since_ms = fs->begun_ms;
        if ((fs = fs->next) == NULL) return oldest;
        if (!fs->begun) redis_link_start(fs->link);
        fs->begun = true;
        if (!redis_link_is_up(fs->link)) return oldest;
    }
    if (since_ms > 0 && now_ms < since_ms + SPACED_MS) *rest_ms = since_ms + SPACED_MS - now_ms;
    return fs;
}

void redis_fence(struct redis_fences *fs, struct fence *f)
{
    uint64_t rest_ms = 0;
    /* A background group holds the link for BACKGROUND_SLICE_MS, and takes this one along. */
    if (by_waitaof(fs) && !f->background && !all_background(&fs->group)) fs = fences_free(fs, &rest_ms);
    f->passed = false;
    f->text[0] = '\0';
    f->sync = (struct aof_wait){0};
    f->asked_us = mono_us();
    f->until_ms = mono_ms() + fs->wait_ms;
    list_push(&fs->waiting, &f->link);
    if (fs->resting && !f->background)
        group_again(fs);
    else if (rest_ms == 0)
        group_begin(fs);
    else if (!uv_is_active((uv_handle_t *)&fs->rest))
        uv_timer_start(&fs->rest, on_spaced, rest_ms, 0);
}

void redis_fences_init(struct redis_fences *fs, struct redis_link *link, const struct life *life,
                       struct aof_watch *watch, uint32_t nth)
{
    *fs = (struct redis_fences){.link = link, .watch = watch, .wait_ms = 10000};
    mark_init(&fs->mark, life, KEY_FENCE_PREFIX);
    if (nth > 0) buf_printf(&fs->mark.key, ":%u", nth);
    list_init(&fs->waiting);
    list_init(&fs->group);
    list_init(&fs->timed);
    uv_timer_init(link->loop, &fs->poll);
    uv_timer_init(link->loop, &fs->rest);
    fs->poll.data = fs->rest.data = fs;
}

static void on_closed(uv_handle_t *handle)
{
    struct redis_fences *fs = handle->data;
    if (handle != (uv_handle_t *)&fs->rest) return; /* the last */
    mark_free(&fs->mark);
    if (fs->closed != NULL) fs->closed(fs); /* last line: fs may be gone after it */
}

void redis_fences_close(struct redis_fences *fs, void (*closed)(struct redis_fences *fs))
{
    static const char why[] = "tallyd is stopping";
    fs->closed = closed;
    each_once(&fs->timed, fence_end, fs, why);
    if (!fs->flying) each_once(&fs->waiting, fence_end, fs, why);
    if (fs->resting) group_end(fs, why);
    uv_close((uv_handle_t *)&fs->poll, on_closed);
    uv_close((uv_handle_t *)&fs->rest, on_closed);
}

/* --- clients' WAITs. A round is a write. Then, for WAIT, INFO gives the offset of the replication stream after the write. So the
 * next round may begin at once: INFO tells for all rounds how far each replica is. A short WAIT after it makes the replicas report
 * at once. WAITAOF speaks of the last write alone, and a later write would move that mark. So its next round begins when this one
 * is over or ROUND_MS old. --- */

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

/* Ends it when its time is over, its goal is reached, or its server has changed. A done() may ask for more, which goes to
 * ws->fresh. */
static void wait_look(void *of, struct list *node, const char *unblocked)
{
    const struct redis_waits *ws = of;
    struct redis_durable *w = wait_of(node);
    const struct redis_place *p = ws->link->config.place;
    uint64_t now_ms = mono_ms();
    bool late =
        (w->until_ms != 0 && w->until_ms <= now_ms) || (ws->stop_by_ms != 0 && ws->stop_by_ms <= now_ms);
    bool enough = w->got_local >= w->local && w->got_replicas >= w->replicas && w->offset != 0;
    if (strcmp(p->run_id, w->run_id) != 0 || p->changes != w->changes)
        wait_end(w, unblocked);
    else if (late || (enough && !place_is_held(p)) || w->left(w))
        wait_end(w, "");
}

static void waits_look(struct redis_waits *ws, struct list *l)
{
    each_once(l, wait_look, ws, REDIS_UNBLOCKED);
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

static void local_refused(void *of, struct list *node, const char *why)
{
    const bool *about_local = of;
    if (!*about_local || wait_of(node)->local > 0) wait_end(wait_of(node), why);
}

/* The requests that the error is about: with WAITAOF those that want this server's file, if there are any. */
static void round_refused(struct redis_waits *ws, const struct redis_answer *r)
{
    char why[REDIS_WHY_BYTES];
    bool about_local = false;
    answer_why(r, why, sizeof why);
    if (server_left(r, why)) return round_lost(ws);
    list_append(&ws->written, &ws->sent);
    list_for_each (node, &ws->written)
        about_local = about_local || wait_of(node)->local > 0;
    each_once(&ws->written, local_refused, &about_local, why);
}

static void on_wait_write(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    (void)at;
    if (r == NULL || (answer_is_array(r, 2) && !redis_link_whole(l, ws->mark.number, &r->elements[1])))
        round_lost(ws);
    else if (!answer_is_array(r, 2))
        round_refused(ws, r);
}

/* How many replicas have acknowledged the stream up to there. */
static int64_t info_acks(struct slice info, int64_t offset)
{
    struct info_replica one;
    int64_t acks = 0;
    for (uint32_t i = 0; info_replica(info, i, &one); i++)
        acks += one.online && one.offset >= offset;
    return acks;
}

/* Numbers that come while a failover is under way mean nothing: see fence_end(). */
static void got_set(struct redis_waits *ws, struct redis_durable *w, int64_t local, int64_t replicas)
{
    if (place_is_held(ws->link->config.place)) return;
    if (local > w->got_local) w->got_local = local;
    if (replicas > w->got_replicas) w->got_replicas = replicas;
}

/* The write was answered. */
static void round_written(struct redis_waits *ws, int64_t offset)
{
    list_for_each (node, &ws->sent)
        wait_of(node)->offset = offset;
    list_append(&ws->written, &ws->sent);
}

static void on_replication(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    struct slice text;
    int64_t offset;
    (void)l, (void)at;
    if (r == NULL || (answer_is(r, REDIS_STRING) && !info_is(r->str, "role", "master")))
        return round_lost(ws);
    if (!answer_is(r, REDIS_STRING) || !info_get(r->str, "master_repl_offset", &text) ||
        !num_parse(text, &offset))
        return round_refused(ws, r);
    round_written(ws, offset + (offset == 0)); /* 0 if there never was a replica */
    list_for_each (node, &ws->written)
        got_set(ws, wait_of(node), 0, info_acks(r->str, wait_of(node)->offset));
}

/* The answer to WAIT or WAITAOF, the last request of a round: for all that were written. */
static void on_count(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    int64_t local = 0, replicas = 0;
    bool fits = wait_read(r, ws->aof, &local, &replicas);
    (void)l, (void)at;
    ws->busy = false;
    if (r == NULL) return round_lost(ws);
    if (ws->aof) round_written(ws, 1);
    if (!fits) round_refused(ws, r);
    list_for_each (node, &ws->written)
        if (fits) got_set(ws, wait_of(node), local, replicas);
    waits_look(ws, &ws->written);
    if (!list_empty(&ws->fresh)) uv_timer_start(&ws->timer, ws->timer.timer_cb, 0, WAIT_MS);
}

static void waits_polled(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_waits *ws = arg;
    on_replication(l, arg, r, at);
    ws->busy = false;
    waits_look(ws, &ws->written);
}

/* --- asking --- */

/* The least numbers with which one more client can get its answer. */
static void wanted_put(struct redis_waits *ws)
{
    const struct list *lists[] = {&ws->sent, &ws->written};
    bool first = true;
    int64_t local = 0, replicas = 0;
    for (size_t i = 0; i < 2; i++)
        list_for_each (node, (struct list *)lists[i]) {
            const struct redis_durable *w = wait_of(node);
            if (w->local <= w->got_local && w->replicas <= w->got_replicas) continue;
            int64_t most = w->replicas < INT32_MAX ? w->replicas : INT32_MAX;
            if (first || most < replicas) replicas = most;
            if (first || w->local < local) local = w->local;
            first = false;
        }
    wait_put(ws->link, ws->aof, local, replicas < 0 ? 0 : replicas, SLICE_MS);
    redis_link_expect(ws->link, 1, on_count, ws);
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
    if (begins) {
        ws->wrote_ms = mono_ms();
        list_append(&ws->sent, &ws->fresh);
        mark_put(&ws->mark, ws->link, on_wait_write, ws);
    }
    if (!ws->aof) {
        redis_write(ws->link, "INFO replication");
        redis_link_expect(ws->link, 1, begins ? on_replication : waits_polled, ws);
    }
    if (ws->aof || begins) wanted_put(ws);
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

static void wait_link_down(struct redis_link *l, const char *why)
{
    (void)why;
    round_lost(l->arg);
}

void redis_waits_init(struct redis_waits *ws, struct redis_link *link, const struct life *life, bool aof)
{
    *ws = (struct redis_waits){.link = link, .aof = aof};
    link->up = NULL; /* the next tick sees it */
    link->down = wait_link_down;
    link->arg = ws;
    mark_init(&ws->mark, life, aof ? KEY_WAITAOF_PREFIX : KEY_WAIT_PREFIX);
    list_init(&ws->fresh);
    list_init(&ws->sent);
    list_init(&ws->written);
    uv_timer_init(link->loop, &ws->timer);
    ws->timer.data = ws;
}

static void on_waits_closed(uv_handle_t *handle)
{
    struct redis_waits *ws = handle->data;
    mark_free(&ws->mark);
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
