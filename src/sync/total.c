/* sync/total.c - the moment of a total is the script that reads Redis. MySQL is read after it, so some of what the
 * script saw as claimed may be merged by then: the ledger says which. What was claimed after the script and is merged
 * already would count twice. Its gen is higher, so Redis is then read again. After READS_FREE times claims of that
 * counter are held for the reader (sync_counter_hold), so that only claims of another tallyd can still come between. Then it is read
 * once a tick: else it would take a whole processor for as long as the other one merges.
 *
 * Requests that come while others are read wait for the next round, which reads all of one counter together. So MySQL
 * has one question at a time, however many clients ask, and merges go on; the more clients ask, the less each costs. Users
 * take turns, so that many large requests of one do not delay another's.
 *   waiting -> a round: Redis (one script a request) -> MySQL (one snapshot for all) -> answered, or waiting again */
#include "sync/total.h"
#include "base/heap.h"
#include "base/slice.h"
#include "base/stats.h"
#include "sync/inside.h"
#include <stdio.h>

#define ROUND_TASKS_MAX 64
#define ROUND_FIELDS_MAX 2000
#define READS_FREE 5

_Static_assert(TOTAL_FIELDS_ASKED_MAX <= TOTAL_FIELDS_MAX && TOTAL_FIELDS_MAX <= ROUND_FIELDS_MAX,
               "what a client may ask for fits one script and one round");

struct claimed { /* a field of a standing batch; its id is round->ids[id] */
    size_t id;
    uint32_t field;
    int64_t value;
};

struct total_task {
    struct turn turn; /* in totals.waiting, or its link in round->tasks */
    struct total_request *request;
    struct total_round *round;
    struct total_read redis;
    int64_t *pending; /* one a field */
    struct claimed *claimed;
    size_t claimed_n, claimed_cap;
    bool garbled; /* a value in Redis is no integer */
    bool over;    /* a sum does not fit */
    uint64_t since_ms;
    uint32_t reads;
    bool holds;
};

struct total_round { /* all of one counter; while MySQL is asked, it and its tasks are the port's */
    struct totals *totals;
    struct list tasks;
    uint64_t began_ms;
    uint32_t reading; /* answers of Redis not here yet */
    struct batch_id *ids;
    size_t ids_n, ids_cap;
    struct total_stored stored; /* .books.all in the order of tasks */
};

static void round_next(struct totals *s);

/* --- one request --- */

static void task_end(struct totals *s, struct total_task *t, enum ask_outcome outcome, const char *text)
{
    struct total_request *q = t->request;
    if (t->holds) sync_counter_release(s->sync, q->counter);
    q->outcome = outcome;
    q->text = text;
    q->totals = t->pending;
    q->done(q); /* q is gone after it */
    heap_free(t->pending);
    heap_free(t->claimed);
    heap_free(t);
}

/* What Redis said the last time is forgotten. */
static void task_read(struct total_round *round, struct total_task *t)
{
    struct totals *s = round->totals;
    t->round = round;
    memset(t->pending, 0, t->request->fields_n * sizeof *t->pending);
    t->claimed_n = 0;
    t->garbled = t->over = false;
    if (t->reads++ == READS_FREE) {
        STAT_ADD(totals_held, 1);
        t->holds = true;
        sync_counter_hold(s->sync, t->request->counter);
    }
    round->reading++;
    s->ports.redis(s->ports.arg, &t->redis);
}

static void pending_file(void *arg, uint32_t field, struct slice value)
{
    struct total_task *t = arg;
    if (value.n > 0 && !num_parse(value, &t->pending[field])) t->garbled = true;
}

static size_t round_id(struct total_round *r, const struct batch_id *id)
{
    if (r->ids_n > 0 && memcmp(&r->ids[r->ids_n - 1], id, sizeof *id) == 0) return r->ids_n - 1;
    HEAP_GROW(r->ids, r->ids_n, r->ids_cap, 16);
    r->ids[r->ids_n] = *id;
    return r->ids_n++;
}

static void claimed_file(void *arg, const struct batch_id *id, uint32_t field, struct slice value)
{
    struct total_task *t = arg;
    if (value.n == 0) return;
    HEAP_GROW(t->claimed, t->claimed_n, t->claimed_cap, 16);
    struct claimed *c = &t->claimed[t->claimed_n++];
    *c = (struct claimed){.id = round_id(t->round, id), .field = field};
    if (!num_parse(value, &c->value)) t->garbled = true;
}

/* Adds what Redis and MySQL said into t->pending. */
static void task_sum(const struct total_round *r, struct total_task *t, const struct books_total *stored)
{
    const struct total_request *q = t->request;
    t->over |= stored->over;
    for (uint32_t i = 0; i < q->fields_n; i++)
        t->over |= __builtin_add_overflow(t->pending[i], stored->stored[i], &t->pending[i]);
    for (size_t i = 0; i < t->claimed_n; i++) {
        const struct claimed *c = &t->claimed[i];
        if (books_has(&r->stored.books.books, &r->ids[c->id], q->key, q->fields[c->field])) continue;
        t->over |= __builtin_add_overflow(t->pending[c->field], c->value, &t->pending[c->field]);
    }
    for (uint32_t i = 1; q->sums && i < q->fields_n; i++)
        t->over |= __builtin_add_overflow(t->pending[0], t->pending[i], &t->pending[0]);
}

static void task_answer(struct totals *s, struct total_task *t)
{
    if (t->garbled)
        task_end(s, t, ASK_FAILED, "ERR hash value is not an integer");
    else if (t->over)
        task_end(s, t, ASK_FAILED, "ERR a total is out of range");
    else
        task_end(s, t, ASK_DONE, NULL);
}

/* --- MySQL --- */

static void round_end(struct total_round *r)
{
    struct totals *s = r->totals;
    PRE(list_empty(&r->tasks) && r->reading == 0);
    for (size_t i = 0; i < r->stored.books.n; i++)
        heap_free(r->stored.books.all[i].stored);
    heap_free(r->stored.books.all);
    books_close(&r->stored.books.books);
    heap_free(r->ids);
    heap_free(r);
    s->round = NULL;
    round_next(s);
}

static void round_fail(struct total_round *r, enum ask_outcome outcome, const char *text)
{
    for (struct list *node; (node = list_pop(&r->tasks)) != NULL;)
        task_end(r->totals, CONTAINER_OF(node, struct total_task, turn.link), outcome, text);
    round_end(r);
}

/* Totals that must be read again go before those that came meanwhile of the same user. */
static void tasks_again(struct totals *s, struct list *again)
{
    while (!list_empty(again)) {
        struct list *last = again->prev;
        list_remove(last);
        turns_push_again(&s->waiting, CONTAINER_OF(last, struct turn, link));
    }
}

static void task_newer(struct totals *s, struct total_task *t)
{
    task_end(s, t, ASK_FAILED,
             "TRYAGAIN a later claim of this counter was merged during every read; ask again");
}

static void round_answer(struct total_round *r)
{
    struct list again;
    list_init(&again);
    struct totals *s = r->totals;
    uint64_t now_ms = s->ports.mono_ms(s->ports.arg);
    /* The ledger rows of what was claimed then may be pruned by now. Another primary has claims of the same gens. */
    bool stale = now_ms - r->began_ms >= s->give_up_ms || (r->stored.books.stale && HOLDS(RULE_TOTAL_EPOCH));
    if (r->stored.books.stale) s->sync->ports.epoch_over(s->sync->ports.arg);
    for (size_t i = 0; i < r->stored.books.n; i++) {
        struct total_task *t = CONTAINER_OF(list_pop(&r->tasks), struct total_task, turn.link);
        if (!stale && (!r->stored.books.all[i].newer || !HOLDS(RULE_TOTAL_BY_GEN))) {
            task_answer(s, t);
        } else if (now_ms - t->since_ms >= s->within_ms || s->stopped) {
            task_newer(s, t);
        } else {
            STAT_ADD(totals_again, 1);
            list_push(t->holds ? &s->resting : &again, &t->turn.link);
        }
    }
    tasks_again(s, &again);
    round_end(r);
}

void total_sum(struct total_stored *stored)
{
    struct total_round *r = stored->arg;
    size_t i = 0;
    list_for_each (node, &r->tasks)
        task_sum(r, CONTAINER_OF(node, struct total_task, turn.link), &stored->books.all[i++]);
}

static void stored_done(struct total_stored *stored)
{
    struct total_round *r = stored->arg;
    char text[sizeof stored->error.text + 4];
    snprintf(text, sizeof text, "ERR %s", stored->error.text);
    if (!stored->ran || stored->code == ERR_UNAVAILABLE)
        round_fail(r, ASK_MYSQL_DOWN, NULL);
    else if (stored->code != ERR_NONE)
        round_fail(r, ASK_FAILED, text);
    else
        round_answer(r);
}

static void round_mysql(struct total_round *r)
{
    struct books_totals *b = &r->stored.books;
    list_for_each (node, &r->tasks) {
        const struct total_task *t = CONTAINER_OF(node, struct total_task, turn.link);
        b->counter = t->request->counter;
        b->all[b->n++] = (struct books_total){.key = t->request->key,
                                              .fields = t->request->fields,
                                              .fields_n = t->request->fields_n,
                                              .sums = t->request->sums,
                                              .gen = t->redis.gen};
    }
    b->ids = r->ids;
    b->ids_n = r->ids_n;
    r->stored.done = stored_done;
    r->stored.arg = r;
    r->totals->ports.mysql(r->totals->ports.arg, &r->stored); /* r may be gone after it */
}

/* --- Redis --- */

static void read_done(struct total_read *redis)
{
    struct total_task *t = CONTAINER_OF(redis, struct total_task, redis);
    struct total_round *r = t->round;
    r->reading--;
    if (redis->lost) {
        list_remove(&t->turn.link);
        char text[sizeof redis->text];
        memcpy(text, redis->text, sizeof text);
        task_end(r->totals, t, redis->cut ? ASK_REDIS_DOWN : ASK_FAILED, text);
    }
    if (r->reading > 0) return;
    if (list_empty(&r->tasks))
        round_end(r);
    else
        round_mysql(r);
}

/* The next user's first request that is for this counter and fits. NULL: none. */
static struct total_task *task_next(struct turns *waiting, const struct counter *c, uint32_t fields)
{
    list_for_each (node, &waiting->first) {
        struct total_task *t = CONTAINER_OF(node, struct total_task, turn.link);
        if (t->request->counter == c && fields + t->request->fields_n <= ROUND_FIELDS_MAX) return t;
    }
    return NULL;
}

/* Takes those requests from the waiting ones that are for the same counter as the first. */
static uint32_t round_take(struct total_round *r, struct turns *waiting)
{
    struct total_task *t = CONTAINER_OF(waiting->first.next, struct total_task, turn.link);
    const struct counter *c = t->request->counter;
    uint32_t tasks = 0, fields = 0;
    for (; tasks < ROUND_TASKS_MAX && (t = task_next(waiting, c, fields)) != NULL; tasks++) {
        turns_take(waiting, &t->turn);
        list_push(&r->tasks, &t->turn.link);
        fields += t->request->fields_n;
    }
    return tasks;
}

static void waiting_fail(struct totals *s, enum ask_outcome outcome, const char *text)
{
    for (struct turn *turn; (turn = turns_pop(&s->waiting)) != NULL;)
        task_end(s, CONTAINER_OF(turn, struct total_task, turn), outcome, text);
}

/* What a Redis that was rolled back lost is not known; without MySQL half of the total is missing. */
static void round_next(struct totals *s)
{
    if (s->round != NULL) return;
    if (s->gate->rolled_back) waiting_fail(s, ASK_HELD, NULL);
    if (!s->gate->mysql_up) waiting_fail(s, ASK_MYSQL_DOWN, NULL);
    if (!gate_compared(s->gate))
        waiting_fail(s, ASK_FAILED, "TRYAGAIN Redis was restarted and tallyd is checking it; ask again");
    if (list_empty(&s->waiting.first)) return;
    struct total_round *r = s->round = heap_zalloc(sizeof *r);
    r->totals = s;
    r->began_ms = s->ports.mono_ms(s->ports.arg);
    r->stored.books.epoch = s->gate->epoch;
    list_init(&r->tasks);
    uint32_t tasks = round_take(r, &s->waiting);
    r->stored.books.all = heap_zalloc(tasks * sizeof *r->stored.books.all);
    list_for_each (node, &r->tasks)
        task_read(r, CONTAINER_OF(node, struct total_task, turn.link));
}

void totals_init(struct totals *s, struct sync *sync, const struct gate *gate,
                 const struct total_ports *ports, uint64_t within_ms, uint64_t give_up_ms)
{
    *s = (struct totals){
        .ports = *ports, .sync = sync, .gate = gate, .within_ms = within_ms, .give_up_ms = give_up_ms};
    list_init(&s->waiting.first);
    list_init(&s->resting);
}

void totals_tick(struct totals *s)
{
    tasks_again(s, &s->resting);
    round_next(s);
}

void totals_stop(struct totals *s)
{
    s->stopped = true;
    for (struct list *node; (node = list_pop(&s->resting)) != NULL;)
        task_newer(s, CONTAINER_OF(node, struct total_task, turn.link));
}

void totals_ask(struct totals *s, struct total_request *q)
{
    struct total_task *t = heap_zalloc(sizeof *t);
    STAT_ADD(totals, 1);
    t->request = q;
    t->turn.who = q->who;
    t->since_ms = s->ports.mono_ms(s->ports.arg);
    t->pending = heap_alloc(q->fields_n * sizeof *t->pending);
    t->redis = (struct total_read){.key = q->key,
                                   .fields = q->fields,
                                   .fields_n = q->fields_n,
                                   .pending = pending_file,
                                   .claimed = claimed_file,
                                   .done = read_done,
                                   .arg = t};
    turns_push(&s->waiting, &t->turn);
    round_next(s);
}
