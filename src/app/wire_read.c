/* app/wire_read.c - reads of series, timeboxes, events and visitors, given by the sync link: the frame link is for what
 * clients wait for to be counted. */
#include "app/service.h"
#include "base/heap.h"
#include "redis/read_op.h"

struct read_task {
    struct redis_read redis;
    struct read_request *request;
};

static enum ask_outcome read_outcome(enum redis_read_outcome o)
{
    switch (o) {
    case REDIS_READ_DONE:
        return ASK_DONE;
    case REDIS_READ_LOST:
        return ASK_REDIS_DOWN;
    case REDIS_READ_FAILED:
        return ASK_FAILED;
    }
    UNREACHABLE();
}

static void on_read(struct redis_read *r)
{
    struct read_task *task = CONTAINER_OF(r, struct read_task, redis);
    struct read_request *q = task->request;
    q->outcome = read_outcome(r->outcome);
    q->text = r->text;
    q->answer = &r->answer;
    q->done(q);
    heap_free(task);
}

void wire_read(void *arg, struct read_request *q)
{
    struct service *s = arg;
    struct read_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->redis =
        (struct redis_read){.query = &q->query, .limits = s->settings->setup.counters.ops, .done = on_read};
    redis_read(&s->sync_link, &task->redis);
}
