/* command/session.c - one client: parses its requests, runs them, and keeps its replies in order.
 *
 *   TAKING -> PARKED   an increment or an EXEC found no room  -> TAKING  session_room(): the same request again
 *   TAKING -> BARRIER  a reply or a request must wait         -> TAKING  session_answered(): nothing is owed
 *   TAKING -> AHEAD    too much waits for one lane            -> TAKING  session_answered(): less does
 *   TAKING -> ASKING   a request is out                       -> TAKING  its done()
 *   TAKING -> QUEUED   an answer has no memory yet            -> TAKING  answers.c
 *   TAKING -> PACED    its user has no room                   -> TAKING  command_pace() or command_turn()
 *   any    -> ENDING   QUIT, or bytes that are no RESP
 * In all states but TAKING the client is paused; in ENDING it is not read any more. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/stats.h"
#include "command/inside.h"
#include "protocol/request.h"

/* ---- what it waits for, and CLIENT REPLY ---- */

/* Nothing is taken, but it goes on. */
static bool state_blocks(enum session_state state)
{
    return state != SESSION_TAKING && state != SESSION_ENDING;
}

void session_state(struct session *s, enum session_state state)
{
    s->command->blocked_n += state_blocks(state);
    s->command->blocked_n -= state_blocks(s->state);
    s->state = state;
}

void session_wait(struct session *s, enum session_state state)
{
    session_state(s, state);
    s->command->config.client.pause(s->conn);
}

void session_go_on(struct session *s)
{
    session_state(s, SESSION_TAKING);
    s->command->config.client.resume(s->conn);
}

enum taken session_barrier(struct session *s)
{
    if (s->outlet->waiting == 0) return TAKEN;
    session_wait(s, SESSION_BARRIER);
    return LEFT;
}

void session_replies_next(struct session *s)
{
    if (s->replies == REPLIES_SKIP)
        s->replies = REPLIES_ON;
    else if (s->replies == REPLIES_SKIP_NEXT)
        s->replies = REPLIES_SKIP;
}

/* ---- begin and end ---- */

struct command *command_create(const struct command_config *config)
{
    PRE(config->client.offer != NULL && config->busy_ms > 0);
    PRE(config->counters != NULL && config->counters->ops != NULL && config->zones != NULL);
    struct command *c = heap_zalloc(sizeof(*c));
    c->config = *config;
    c->started_ms = c->now_ms = mono_ms();
    request_init(&c->request, &config->limits);
    uint8_t run_id[sizeof(c->run_id) / 2];
    rand_bytes(run_id, sizeof(run_id));
    hex_write(run_id, sizeof(run_id), c->run_id);
    guard_init(c);
    shares_init(c);
    list_init(&c->queued);
    lasts_init(c);
    lanes_init(c);
    return c;
}

void command_destroy(struct command **c)
{
    if (*c == NULL) return;
    request_close(&(*c)->request);
    buf_free(&(*c)->scratch);
    buf_free(&(*c)->exec);
    buf_free(&(*c)->today);
    buf_free(&(*c)->name);
    buf_free(&(*c)->why);
    lasts_close(*c);
    heap_free((*c)->codes.all);
    heap_free(*c);
    *c = NULL;
}

void session_open(struct session *s, struct command *command, struct conn *conn, struct outlet *outlet,
                  bool inside)
{
    s->command = command;
    s->conn = conn;
    s->outlet = outlet;
    s->resp = 2;
    s->id = ++command->ids;
    s->opened_ms = s->active_ms = command->now_ms;
    guard_open(s, inside);
}

void session_close(struct session *s)
{
    PRE(!s->gone);
    s->gone = true;
    s->command->blocked_n -= state_blocks(s->state);
    lanes_leave(s);
    guard_close(s);
    answers_close(s);
    share_set(s, SHARE_HALVES, 0);
    multi_free(s);
    buf_free(&s->name);
    buf_free(&s->lib_name);
    buf_free(&s->lib_ver);
    buf_free(&s->held);
}

static void end_if_last(struct session *s)
{
    if (!s->last || s->state == SESSION_BARRIER) return;
    session_state(s, SESSION_ENDING);
    s->command->config.client.finish(s->conn);
}

/* ---- replies ---- */

static struct buf *reply_open(struct session *s)
{
    if (s->outlet->waiting == 0 && !session_is_quiet(s)) return &s->outlet->out;
    buf_reset(&s->command->scratch);
    return &s->command->scratch;
}

bool reply_behind(struct session *s, struct slice reply)
{
    if (s->order == NULL) return coalesce_literal(s->command->config.lanes[0], s->outlet, reply) == ADD_OK;
    if (!s->gone) order_local(s->order, s->outlet, reply);
    return true;
}

/* A reply without room in the frame is held back, and the client with it, until nothing is owed. */
static void reply_close(struct session *s, struct buf *out)
{
    if (out == &s->command->scratch && out->n > 0 && !session_is_quiet(s)) {
        if (s->outlet->waiting == 0) {
            buf_put_slice(&s->outlet->out, buf_slice(out)); /* CLIENT REPLY ON, to one that was quiet */
        } else if (!reply_behind(s, buf_slice(out))) {
            buf_put_slice(&s->held, buf_slice(out));
            session_wait(s, SESSION_BARRIER);
        }
    }
    end_if_last(s);
}

/* ---- requests ---- */

static void strange_log(struct session *s, const char *why)
{
    static struct log_seldom line;
    unsigned times;
    char peer[160];
    STAT_ADD(cross_protocol, 1);
    if (!log_seldom(&line, &times)) return;
    s->command->config.client.peer(s->conn, peer, sizeof peer);
    log_event(LOG_WARN, "cross_protocol", "peer=%s times=%u why=%s", peer, times, LOGQ(why));
}

static enum taken request_run(struct session *s, const struct request *r)
{
    if (r->args_n == 0) return TAKEN;
    const char *strange = spec_is_strange(r);
    if (strange != NULL) {
        strange_log(s, strange);
        session_state(s, SESSION_ENDING);
        s->command->config.client.drop(s->conn);
        return TAKEN;
    }
    struct buf *out = reply_open(s);
    uint32_t owed = s->outlet->waiting;
    const struct spec *whole;
    enum taken taken = TAKEN;
    if (s->multi != NULL) {
        taken = multi_take(s, r, out);
    } else {
        const struct spec *spec = spec_resolve(s, r, &whole, out);
        s->ran = spec != NULL ? spec : whole;
        if (spec != NULL && (s->door == DOOR_OPEN || guard_lets(s, whole, spec, r, out)))
            taken = calls_run(s, whole, spec, r, out);
    }
    /* A client that wants no replies gets empty answers from frames, so order and barriers remain. */
    if (session_is_quiet(s) && s->outlet->waiting > owed && !s->gone)
        coalesce_hush(lane_coalesce(s), lane_outlet(s), s->outlet->waiting - owed);
    reply_close(s, out);
    if (taken == TAKEN && s->state != SESSION_ASKING) session_replies_next(s);
    return taken;
}

struct ahead {
    struct coalesce_hit hits[AHEAD];
    size_t ends[AHEAD]; /* bytes of the input up to the end of each */
    uint32_t n;
};

/* At most `most`; user: only of keys that it may name, NULL: of all. today: CTR.HITs of one key each. */
static inline void ahead_read(struct coalesce *c, struct slice in, uint32_t most, const struct user *user,
                              bool today, struct ahead *a)
{
    size_t used = 0;
    for (a->n = 0; a->n < most && used < in.n; a->n++) {
        struct coalesce_hit *hit = &a->hits[a->n];
        struct slice rest = slice_of(in.p + used, in.n - used);
        size_t bytes = today ? request_today(rest, &hit->bytes) : request_hit(rest, &hit->bytes);
        if (bytes == 0 || (user != NULL && !user_names(user, hit->bytes.key))) break;
        coalesce_look(c, hit);
        a->ends[a->n] = used += bytes;
    }
}

/* Takes whole hits, one after the other, at most `room`; returns their bytes. The rest is for request_parse(). Only
 * between requests, and not inside MULTI. */
static inline __attribute__((always_inline)) size_t ahead_take(struct session *s, struct slice in,
                                                               uint32_t room, bool today)
{
    struct coalesce *c = s->command->config.lanes[0];
    struct zone_view *zones = s->command->config.zones;
    int64_t second = today ? hit_second(s) : 0;
    struct ahead a;
    size_t used = 0;
    uint32_t i;
    if (today) zone_view_refresh(zones);
    do {
        ahead_read(c, slice_of(in.p + used, in.n - used), room < AHEAD ? room : AHEAD, s->user, today, &a);
        for (i = 0; i < a.n && a.n > 1; i++)
            coalesce_look_again(c, &a.hits[i]);
        for (i = 0; i < a.n; i++)
            if ((today ? coalesce_take_today(c, s->outlet, &a.hits[i], zones, second)
                       : coalesce_take(c, s->outlet, &a.hits[i])) != ADD_OK)
                break;
        used += i > 0 ? a.ends[i - 1] : 0;
        room -= i;
    } while (i == AHEAD && s->outlet->out.n < OUTLET_FULL);
    return used;
}

__attribute__((flatten)) static inline size_t hits_take(struct session *s, struct slice in, uint32_t room)
{
    return ahead_take(s, in, room, false);
}

__attribute__((flatten, noinline)) static size_t todays_take(struct session *s, struct slice in,
                                                             uint32_t room)
{
    if (s->user != NULL && !user_may(s->user, s->command->grants[SPEC_TODAY])) return 0;
    return s->command->config.lanes_n == 1 ? ahead_take(s, in, room, true) : todays_take_lanes(s, in, room);
}

/* Takes the hits that come next, of a user at most `room`; returns their bytes. A quiet client's hits go one by one. */
static inline __attribute__((always_inline)) size_t hits_of(struct session *s, size_t row, struct slice in,
                                                            uint32_t room)
{
    struct calls *calls = &s->command->calls[row];
    if (s->parser.at != 0 || s->multi != NULL || s->replies != REPLIES_ON) return 0;
    uint32_t owed = s->outlet->waiting;
    uint64_t begun_us = calls_begin(calls);
    size_t used = row == SPEC_TODAY                 ? todays_take(s, in, room)
                  : s->command->config.lanes_n == 1 ? hits_take(s, in, room)
                                                    : hits_take_lanes(s, in, room);
    uint32_t taken = s->outlet->waiting - owed;
    calls_end(calls, begun_us, taken);
    if (s->user != NULL) guard_took(s, taken);
    if (used > 0) s->ran = &specs[row];
    return used;
}

__attribute__((noinline)) static size_t todays(struct session *s, struct slice in, uint32_t room)
{
    return hits_of(s, SPEC_TODAY, in, room);
}

/* Where "*2 $7 CTR.HIT" differs from "*4 $7 HINCRBY". */
#define TODAY_AT 8

static inline size_t hits(struct session *s, struct slice in, uint32_t room)
{
    if (__builtin_expect(in.n > TODAY_AT && (in.p[TODAY_AT] | 0x20) == 'c', 0)) return todays(s, in, room);
    return hits_of(s, SPEC_HINCRBY, in, room);
}

/* The error goes out after all earlier replies, then the client is closed. */
void session_refuse(struct session *s, const char *error)
{
    struct buf *out = reply_open(s);
    reply_error(out, error);
    s->last = true;
    reply_close(s, out);
}

/* A transaction's requests are charged to the budget when queued, and to the frame's share when run. */
static enum taken run_of_user(struct session *s, const struct request *r)
{
    struct user *before = s->user;
    enum taken taken = request_run(s, r);
    if (taken != TAKEN || s->door == DOOR_OPEN || s->user != before) return taken;
    if (s->multi != NULL)
        guard_queued(s);
    else
        guard_took(s, 1);
    return taken;
}

static enum parsed parse(struct session *s, struct slice in)
{
    struct request *r = &s->command->request;
    if (s->door != DOOR_CLOSED) return request_parse(r, &s->parser, in);
    request_limit(r, &request_limits_stranger);
    enum parsed got = request_parse(r, &s->parser, in);
    request_limit(r, &s->command->config.limits);
    return got;
}

/* Is there room for the answers of more requests? If not, it waits. */
static bool answers_fit(struct session *s)
{
    if (s->outlet->out.n >= OUTLET_FULL) return false;
    if (s->order == NULL || s->outlet->waiting == 0 || order_ahead(s->order) < OUTLET_FULL) return true;
    session_wait(s, SESSION_AHEAD);
    return false;
}

size_t session_bytes(struct session *s, struct slice in)
{
    struct request *r = &s->command->request;
    size_t used = 0, half = 0;
    s->active_ms = s->command->now_ms;
    while (s->state == SESSION_TAKING && used < in.n && answers_fit(s)) {
        uint32_t room = s->door == DOOR_OPEN ? UINT32_MAX : guard_room(s);
        if (room == 0) break;
        if (s->user == NULL ? s->door == DOOR_OPEN : s->user->may_hit)
            used += hits(s, slice_of(in.p + used, in.n - used), room);
        if (used == in.n) break;
        enum parsed got = parse(s, slice_of(in.p + used, in.n - used));
        if (got == PARSED_UNFIN) {
            half = in.n - used;
            break;
        }
        if (got != PARSED_OK) {
            session_refuse(s, r->error);
            return in.n;
        }
        size_t n = r->raw.n;
        if ((s->door == DOOR_OPEN ? request_run(s, r) : run_of_user(s, r)) == TAKEN) used += n;
    }
    if (half != s->share[SHARE_HALVES].bytes) half_set(s, half, used > 0);
    return s->state == SESSION_ENDING || s->last ? in.n : used;
}

void session_answered(struct session *s)
{
    if (s->order != NULL && !s->gone) {
        if (!order_ready(s->order)) return;
        order_take(s->order, s->outlet);
        if (s->state == SESSION_AHEAD && order_ahead(s->order) < OUTLET_FULL / 2) session_go_on(s);
    } else if (s->order != NULL && order_gone(s->order, s->outlet)) {
        s->order = NULL;
    }
    if (s->state != SESSION_BARRIER || s->outlet->waiting > 0 || s->gone) return;
    buf_put_slice(&s->outlet->out, buf_slice(&s->held));
    buf_free(&s->held);
    session_state(s, SESSION_TAKING);
    end_if_last(s);
    if (s->state == SESSION_TAKING) session_go_on(s);
}

void session_room(struct session *s)
{
    if (s->gone || s->state != SESSION_PARKED) return;
    session_go_on(s);
    s->command->config.client.offer(s->conn);
}
