/* app/wire_read.c - reads of series, timeboxes, events and visitors, given by the sync link: the frame link is for what
 * clients wait for to be counted. */
#include "app/service.h"
#include "base/heap.h"
#include "redis/query_op.h"

struct read_task {
    struct redis_query redis;
    struct coalesce_settle settle;
    struct read_request *request;
    struct service *service;
};

static enum ask_outcome read_outcome(enum redis_query_outcome o)
{
    switch (o) {
    case REDIS_QUERY_DONE:
        return ASK_DONE;
    case REDIS_QUERY_LOST:
        return ASK_REDIS_DOWN;
    case REDIS_QUERY_FAILED:
        return ASK_FAILED;
    }
    UNREACHABLE();
}

static void on_read(struct redis_query *r)
{
    struct read_task *task = CONTAINER_OF(r, struct read_task, redis);
    struct read_request *q = task->request;
    q->outcome = read_outcome(r->outcome);
    q->text = r->text;
    q->answer = &r->answer;
    q->done(q);
    heap_free(task);
}

static void on_settled(struct coalesce_settle *settle)
{
    struct read_task *task = CONTAINER_OF(settle, struct read_task, settle);
    if (!settle->failed) {
        redis_query(&task->service->sync_link, &task->redis);
        return;
    }
    struct read_request *q = task->request;
    q->outcome = ASK_FAILED;
    q->text = settle->why;
    q->done(q);
    heap_free(task);
}

/* What of it is still in a journal; visitors never are. */
static struct coalesce_settle settle_of(const struct query *q)
{
    static const enum op_kind kinds[] = {
        [QUERY_SERIES] = OP_SERIES,          [QUERY_NAMES] = OP_SERIES,
        [QUERY_TIMEBOX_RECENT] = OP_TIMEBOX, [QUERY_TIMEBOX_TOP] = OP_TIMEBOX,
        [QUERY_TIMEBOX_BOTTOM] = OP_TIMEBOX, [QUERY_EVENTS] = OP_EVENT,
        [QUERY_WINDOWS] = OP_EVENT};
    return (struct coalesce_settle){.kind = kinds[q->kind],
                                    .name = q->name,
                                    .type = q->type,
                                    .all = q->kind == QUERY_NAMES,
                                    .done = on_settled};
}

void wire_read(void *arg, struct read_request *q)
{
    struct service *s = arg;
    struct read_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->service = s;
    task->redis =
        (struct redis_query){.query = &q->query, .limits = s->settings->setup.counters.ops, .done = on_read};
    bool in_keys = q->query.kind == QUERY_VISITORS;
    if (!in_keys) task->settle = settle_of(&q->query);
    if (in_keys || !coalesce_settle(s->coalesce, &task->settle)) redis_query(&s->sync_link, &task->redis);
}
