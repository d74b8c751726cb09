/* redis/fence_op.c - see fence_op.h. A group of fences shares one write and one wait; the next group forms meanwhile, or goes
 * down the next link.
 * The timed form is for servers without a WAITAOF that can be believed (aof_watch.h). Timed fences overlap, so a slow
 * barrier costs delay, not throughput.
 * (!) Each WAIT, and each look of the timed form, also reads the key that the fence wrote. In between the server may be demoted,
 * take over other data and be promoted again, all on this connection. WAIT would then speak of offsets of other data. */
#include "redis/fence_op.h"
#include "base/log.h"
#include "base/stats.h"
#include "redis/check_op.h"
#include "redis/lua.h"
#include "redis/request.h"
#include <stdio.h>

#define POLL_MS 100
#define REWRITE_MS 60000
#define LOST_MS 100           /* a lost link is noticed within that */
#define FENCE_KEY_S 86400     /* as in fence.lua */
#define WAIT_SLICE_MS 1000    /* one WAIT; asked again until the fence gives up, since it blocks the link */
#define SPACED_MS 400         /* so that four links last for longer than a second */
#define BACKGROUND_SLICE_MS 5 /* when only background fences wait; asked again every POLL_MS */

static void group_begin(struct redis_fences *fs);
static void poll_next(struct redis_fences *fs);

static bool by_waitaof(const struct redis_fences *fs)
{
    const struct redis_facts *f = &fs->link->facts;
    return fs->keeps == REDIS_KEEPS_DISK && f->aof_on && f->version >= REDIS_WAITAOF_TRUE;
}

/* (!) While frames are held a failover is under way, and this server may be replaced already: what this server and one
 * of its replicas have is then not what the promoted one has. */
static void fence_end(struct redis_fences *fs, struct fence *f, bool passed, const char *text)
{
    if (passed && place_is_held(fs->link->config.place)) {
        passed = false;
        text = "a failover is under way";
    }
    list_remove(&f->link);
    f->passed = passed;
    snprintf(f->text, sizeof f->text, "%s", text);
    if (passed && !f->background) {
        STAT_ADD(fences, 1);
        histogram_add(&latencies.barrier, mono_us() - f->asked_us);
        CRASH(fence_done);
    }
    f->done(f); /* last line: f may be gone after it */
}

/* Ends all of this list. The callbacks may ask for new fences, which go to fs->waiting. */
static void list_end(struct redis_fences *fs, struct list *l, bool passed, const char *text)
{
    struct list now;
    list_init(&now);
    list_move_all(&now, l);
    while (!list_empty(&now))
        fence_end(fs, CONTAINER_OF(now.next, struct fence, link), passed, text);
}

static void group_end(struct redis_fences *fs, bool passed, const struct redis_answer *r, const char *text)
{
    char why[200];
    if (text == NULL) answer_why(r, why, sizeof why);
    fs->flying = false;
    list_end(fs, &fs->group, passed, text != NULL ? text : why);
    group_begin(fs);
}

/* --- our own key --- */

#define NO_AOF "Redis keeps no AOF that an fsync follows: CONFIG SET appendonly yes"
#define OTHER_DATA "Redis took over another server's data"

static void key_put(struct redis_fences *fs, struct buf *out)
{
    request_array(out, 2);
    REQUEST_LIT(out, "GET");
    request_key(out, redis_tag(fs->link), buf_slice(&fs->key));
}

/* Are the fences' writes up to n still there? */
static bool key_is_whole(const struct redis_answer *r, uint64_t n)
{
    int64_t has;
    return answer_integer(r, &has) && has >= 0 && (uint64_t)has >= n;
}

/* --- the timed form --- */

static void timed_look(struct redis_fences *fs, struct fence *f)
{
    enum aof_verdict said = AOF_WAITS;
    if (fs->look_known)
        said = aof_wait_look(&f->sync, fs->watch, &fs->look);
    else
        f->sync = (struct aof_wait){.again_ms = mono_ms() + POLL_MS, .why = "Redis does not answer INFO"};
    if (said == AOF_SYNCED)
        fence_end(fs, f, true, "");
    else if (said == AOF_OFF)
        fence_end(fs, f, false, NO_AOF);
    else if (mono_ms() > f->until_ms)
        fence_end(fs, f, false,
                  f->sync.why != NULL ? f->sync.why
                                      : "Redis did not finish its fsync in time; look at its disk");
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
    request_words(redis_link_begin(fs->link), "BGREWRITEAOF");
    redis_link_ask(fs->link, 1, on_nothing, fs);
}

static void fence_look_file(struct redis_fences *fs, const struct redis_answer *key)
{
    fs->push = false;
    if (fs->look_known) {
        aof_watch_look(fs->watch, &fs->look);
        fs->push = aof_look_wants_push(&fs->look);
        if (aof_watch_wants_rewrite(fs->watch, &fs->look)) rewrite_put(fs);
    }
    if (key_is_whole(key, fs->asked_n)) {
        struct list now;
        list_init(&now);
        list_move_all(&now, &fs->timed);
        while (!list_empty(&now)) {
            struct fence *f = CONTAINER_OF(list_pop(&now), struct fence, link);
            list_push(&fs->timed, &f->link);
            timed_look(fs, f);
        }
    } else
        list_end(fs, &fs->timed, false, OTHER_DATA);
}

/* INFO, CONFIG GET, our own key; perhaps EXPIRE. */
static void on_fence_look(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fences *fs = arg;
    (void)l;
    if (r != NULL && at == 0) fs->look_known = answer_is(r, REDIS_STRING) && aof_look_read(&fs->look, r->str);
    if (r != NULL && at == 1) redis_fsync_file(&fs->look.facts, r);
    if (r != NULL && at == 2) fence_look_file(fs, r);
    if (r != NULL && at + 1 < fs->look_n) return;
    fs->look_n = 0;
    poll_next(fs);
}

static void fence_look_put(struct redis_fences *fs)
{
    struct buf *out = redis_link_begin(fs->link);
    fs->look = (struct aof_look){.asked_ms = mono_ms(), .pushed = fs->push};
    fs->asked_n = fs->n;
    fs->look_n = fs->push ? 4 : 3;
    request_words(out, "INFO server persistence stats");
    request_words(out, REDIS_FSYNC_ASK);
    key_put(fs, out);
    if (fs->push) {
        request_array(out, 3);
        REQUEST_LIT(out, "EXPIRE");
        request_key(out, redis_tag(fs->link), buf_slice(&fs->key));
        request_int(out, FENCE_KEY_S);
    }
    redis_link_expect(fs->link, fs->look_n, on_fence_look, fs);
    redis_link_flush(fs->link);
}

static void on_poll(uv_timer_t *timer)
{
    struct redis_fences *fs = timer->data;
    /* The link that wrote is gone: Redis may have lost what it wrote, too. */
    bool up = redis_link_is_up(fs->link);
    struct list now;
    list_init(&now);
    list_move_all(&now, &fs->timed);
    while (!list_empty(&now)) {
        struct fence *f = CONTAINER_OF(list_pop(&now), struct fence, link);
        list_push(&fs->timed, &f->link);
        if (!up || f->client_id != fs->link->client_id) fence_end(fs, f, false, "the Redis link was lost");
    }
    if (!list_empty(&fs->timed) && fs->look_n == 0) fence_look_put(fs);
}

/* One look at a time, when the first of them wants it. */
static void poll_next(struct redis_fences *fs)
{
    uint64_t now_ms = mono_ms(), at_ms = UINT64_MAX;
    if (fs->look_n > 0 || list_empty(&fs->timed)) return;
    list_for_each (node, &fs->timed) {
        const struct fence *f = CONTAINER_OF(node, struct fence, link);
        if (f->sync.again_ms < at_ms) at_ms = f->sync.again_ms;
    }
    if (at_ms > now_ms + LOST_MS) at_ms = now_ms + LOST_MS;
    uv_timer_start(&fs->poll, on_poll, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

/* --- write, then WAIT or WAITAOF --- */

static void wait_put(struct redis_fences *fs);

static bool all_background(const struct list *fences)
{
    list_for_each (node, fences)
        if (!CONTAINER_OF(node, struct fence, link)->background) return false;
    return true;
}

static void on_rested(uv_timer_t *timer)
{
    struct redis_fences *fs = timer->data;
    if (!fs->resting) return;
    fs->resting = false;
    /* (!) WAIT covers only its own connection's writes. */
    const struct fence *first = CONTAINER_OF(fs->group.next, struct fence, link);
    if (redis_link_is_up(fs->link) && first->client_id == fs->link->client_id)
        wait_put(fs);
    else
        group_end(fs, false, NULL, "the Redis link was lost");
}

/* With those that came meanwhile, and a new write. */
static void group_again(struct redis_fences *fs)
{
    fs->resting = fs->flying = false;
    while (!list_empty(&fs->group))
        list_push(&fs->waiting, list_pop(&fs->group));
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
    if (fs->keeps != REDIS_KEEPS_DISK || (by_waitaof(fs) && fs->vouched))
        group_end(fs, true, NULL, "");
    else {
        while (!list_empty(&fs->group))
            list_push(&fs->timed, list_pop(&fs->group));
        poll_next(fs);
        fs->flying = false;
        group_begin(fs);
    }
}

static bool wait_enough(const struct redis_fences *fs, const struct redis_answer *r, bool *shape)
{
    int64_t local = 1, replicas = 0;
    if (by_waitaof(fs))
        *shape = answer_is_array(r, 2) && answer_integer(&r->elements[0], &local) &&
                 answer_integer(&r->elements[1], &replicas);
    else
        *shape = answer_is(r, REDIS_INTEGER) && answer_integer(r, &replicas);
    return *shape && local >= 1 && replicas >= (int64_t)fs->replicas;
}

/* WAIT's answer, our own key; behind WAITAOF INFO, which says whether its answer holds. */
static void on_waited(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fences *fs = arg;
    (void)l;
    if (r == NULL)
        group_end(fs, false, r, NULL);
    else if (at == 0) {
        fs->enough = wait_enough(fs, r, &fs->known);
        if (!fs->known) answer_why(r, fs->why, sizeof fs->why);
    } else if (at == 1)
        fs->whole = key_is_whole(r, fs->n);
    else {
        struct aof_look look = {0};
        fs->vouched = answer_is(r, REDIS_STRING) && aof_look_read(&look, r->str) && aof_look_vouches(&look);
    }
    if (r == NULL || at + 1 < fs->wait_n) return;
    if (!fs->known)
        group_end(fs, false, NULL, fs->why);
    else if (!fs->whole)
        group_end(fs, false, NULL, OTHER_DATA);
    else {
        /* The group's WAIT was answered: with enough, or with less. */
        const struct fence *first = CONTAINER_OF(fs->group.next, struct fence, link);
        if (fs->enough)
            group_waited(fs);
        else if (mono_ms() < first->until_ms && all_background(&fs->group))
            group_rest(fs);
        else if (mono_ms() < first->until_ms)
            wait_put(fs);
        else if (by_waitaof(fs))
            group_end(fs, false, NULL, "WAITAOF was not reached in time: disk or replicas are behind");
        else
            group_end(fs, false, NULL,
                      "WAIT was not reached in time: fewer replicas than redis.replicas answer");
    }
}

/* Well below the link's own limit; otherwise a WAIT without an answer would look like a dead server. */
static uint32_t slice_ms(const struct redis_fences *fs)
{
    if (all_background(&fs->group)) return BACKGROUND_SLICE_MS;
    uint32_t half_ms = fs->link->config.answer_ms / 2;
    return half_ms < WAIT_SLICE_MS ? half_ms : WAIT_SLICE_MS;
}

static void wait_put(struct redis_fences *fs)
{
    struct buf *out = redis_link_begin(fs->link);
    bool waitaof = by_waitaof(fs);
    if (waitaof) {
        request_array(out, 4);
        REQUEST_LIT(out, "WAITAOF");
        REQUEST_LIT(out, "1");
    } else {
        request_array(out, 3);
        REQUEST_LIT(out, "WAIT");
    }
    request_int(out, fs->replicas);
    request_int(out, slice_ms(fs));
    key_put(fs, out);
    if (waitaof) request_words(out, "INFO server persistence stats");
    fs->wait_n = waitaof ? 3 : 2;
    redis_link_expect(fs->link, fs->wait_n, on_waited, fs);
    redis_link_flush(fs->link);
}

static void on_write(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fences *fs = arg;
    (void)at;
    if (!answer_is_array(r, 2) || !answer_is(&r->elements[0], REDIS_STRING) ||
        r->elements[0].str.n >= RUN_ID_BYTES) {
        group_end(fs, false, r, NULL);
        return;
    }
    if (!redis_link_whole(l, fs->number, &r->elements[1])) {
        group_end(fs, false, NULL, OTHER_DATA);
        return;
    }
    list_for_each (node, &fs->group) {
        struct fence *f = CONTAINER_OF(node, struct fence, link);
        snprintf(f->replid, sizeof f->replid, SLICE_FMT, SLICE_ARG(r->elements[0].str));
    }
    if (!all_background(&fs->group)) CRASH(fence_mid);
    if (by_waitaof(fs) || fs->replicas > 0)
        wait_put(fs);
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
        struct fence *f = CONTAINER_OF(node, struct fence, link);
        memcpy(f->run_id, fs->link->facts.run_id, sizeof f->run_id);
        f->client_id = fs->link->client_id;
    }
    struct buf *out = redis_link_begin(fs->link);
    fs->number = redis_link_number(fs->link);
    request_eval(out, lua_fence, 2, 1);
    request_key(out, redis_tag(fs->link), buf_slice(&fs->key));
    request_key(out, redis_tag(fs->link), buf_slice(&fs->seq_key));
    request_int(out, (int64_t)++fs->n);
    redis_link_expect(fs->link, 1, on_write, fs);
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
    *fs = (struct redis_fences){.link = link, .life = life, .watch = watch, .wait_ms = 10000};
    name_fence(&fs->key, life);
    if (nth > 0) buf_printf(&fs->key, ":%u", nth);
    name_seq(&fs->seq_key, life);
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
    buf_free(&fs->key);
    buf_free(&fs->seq_key);
    if (fs->closed != NULL) fs->closed(fs); /* last line: fs may be gone after it */
}

void redis_fences_close(struct redis_fences *fs, void (*closed)(struct redis_fences *fs))
{
    fs->closed = closed;
    list_end(fs, &fs->timed, false, "tallyd is stopping");
    if (!fs->flying) list_end(fs, &fs->waiting, false, "tallyd is stopping");
    if (fs->resting) group_end(fs, false, NULL, "tallyd is stopping");
    uv_close((uv_handle_t *)&fs->poll, on_closed);
    uv_close((uv_handle_t *)&fs->rest, on_closed);
}
