/* command/answers.c - memory of answers to reads. A read may be for 16 MiB, so it begins when there is room for the largest
 * answer that it can have; that much stays taken until the answer is made, then what its client has not read. Reads wait in
 * turn. */
#include "command/inside.h"

#define ANSWER_LEAST (64 * 1024)

static void make(struct session *s, size_t bytes)
{
    s->answer.making = true;
    s->command->config.client.promise(s->conn, bytes);
    share_set(s, SHARE_ANSWERS, s->share[SHARE_ANSWERS].bytes + bytes);
}

static void made(struct session *s)
{
    s->answer.making = false;
    if (!s->gone) s->command->config.client.promise(s->conn, 0);
}

/* What clients have read meanwhile is free. */
static void answers_look(struct command *c)
{
    struct list *held = &c->shares[SHARE_ANSWERS].held;
    for (struct list *at = held->next, *next; at != held; at = next) {
        struct session *s = CONTAINER_OF(at, struct session, share[SHARE_ANSWERS].place);
        next = at->next;
        if (s->answer.making && s->state == SESSION_ASKING) continue;
        if (s->answer.making) made(s);
        size_t unread = c->config.client.unread(s->conn);
        if (unread < s->share[SHARE_ANSWERS].bytes) share_set(s, SHARE_ANSWERS, unread);
    }
}

/* The most that it can be, as it comes from Redis: only one at a time is there a second time, as the client gets it. */
static size_t bytes_of(const struct session *s, const struct query *q)
{
    const struct query_limits *limits = &s->command->config.counters->ops->read;
    size_t value = sizeof(struct query_value), texts = limits->texts_max, n;
    size_t most = s->command->config.shares_max[SHARE_ANSWERS] / 4;
    switch (q->kind) {
    case QUERY_NAMES:
        n = 3 * texts * s->command->config.lanes_n; /* the value of a short name is longer than it */
        break;
    case QUERY_EVENTS:
        n = q->limit < 0 ? limits->most : (size_t)q->limit;
        n = n * 2 * value + (n * OP_TEXT_BYTES_MAX < texts ? n * OP_TEXT_BYTES_MAX : texts);
        break;
    case QUERY_WINDOWS:
        n = q->windows_n * value;
        break;
    default:
        n = q->limit > (int64_t)(most / value) ? most : (size_t)q->limit * 2 * value;
    }
    return n < ANSWER_LEAST ? ANSWER_LEAST : n < most ? n : most;
}

static void wait(struct session *s, size_t bytes)
{
    s->answer.wants = bytes;
    s->answer.since_ms = mono_ms();
    list_push(&s->command->queued, &s->answer.queued);
    session_wait(s, SESSION_QUEUED);
}

bool answer_begin(struct session *s, const struct query *q, struct buf *out)
{
    struct command *c = s->command;
    size_t bytes = bytes_of(s, q);
    if (s->answer.late) {
        s->answer.late = false;
        return reply_error(
            out, "TRYAGAIN answers that wait to be read leave no room for this one (limits.memory)");
    }
    if (s->answer.making) return true; /* it has waited */
    answers_look(c);
    if (!share_fits(s, SHARE_ANSWERS, bytes)) {
        wait(s, bytes);
        return false;
    }
    make(s, bytes);
    return true;
}

/* (!) Not client.offer(): this runs inside another session's request, too. */
static void go_on(struct session *s)
{
    list_remove(&s->answer.queued);
    session_go_on(s);
}

static void queue_go_on(struct command *c)
{
    for (struct list *at = c->queued.next, *next; at != &c->queued; at = next) {
        struct session *s = CONTAINER_OF(at, struct session, answer.queued);
        next = at->next;
        if (!share_fits(s, SHARE_ANSWERS, s->answer.wants)) continue;
        make(s, s->answer.wants);
        go_on(s);
    }
}

void answer_end(struct session *s)
{
    made(s);
    share_set(s, SHARE_ANSWERS, s->gone ? 0 : s->command->config.client.unread(s->conn));
    queue_go_on(s->command);
}

void answers_close(struct session *s)
{
    if (list_linked(&s->answer.queued)) list_remove(&s->answer.queued);
    if (s->state != SESSION_ASKING) s->answer.making = false;
    if (!s->answer.making && s->share[SHARE_ANSWERS].bytes > 0) share_set(s, SHARE_ANSWERS, 0);
}

void answers_tick(struct command *c, uint64_t now_ms)
{
    if (list_empty(&c->queued)) return;
    answers_look(c);
    queue_go_on(c);
    while (!list_empty(&c->queued)) {
        struct session *s = CONTAINER_OF(c->queued.next, struct session, answer.queued);
        if (now_ms - s->answer.since_ms < c->config.busy_ms) return; /* those after it came later */
        s->answer.late = true;
        go_on(s);
    }
}
