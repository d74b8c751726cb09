/* app/wire_command.c - what clients ask for beyond increments, given by Redis and sync; sessions on
 * connections. */
#include "app/recovery.h"
#include "app/service.h"
#include "base/heap.h"
#include "redis/hash_op.h"
#include <stdio.h>

/* --- CTR.PENDING --- */

struct pending_task {
    struct redis_hash redis;
    struct pending_request *request;
};

static void pending_file(struct pending_request *q, const struct redis_answer *r, struct slice *items)
{
    for (size_t i = 0; i < r->n; i++)
        items[i] = r->elements[i].str;
    q->outcome = ASK_DONE;
    q->items = items;
    q->items_n = r->n;
    q->done(q);
}

static void on_hash(struct redis_hash *h, const struct redis_answer *r)
{
    struct pending_task *task = CONTAINER_OF(h, struct pending_task, redis);
    struct pending_request *q = task->request;
    heap_free(task);
    char text[300];
    if (r == NULL) {
        q->outcome = ASK_REDIS_DOWN;
        q->done(q);
    } else if (r->type != REDIS_ARRAY) {
        answer_why(r, text, sizeof text);
        q->outcome = ASK_FAILED;
        q->text = text;
        q->done(q);
    } else {
        struct slice *items = heap_alloc((r->n + 1) * sizeof *items);
        pending_file(q, r, items);
        heap_free(items);
    }
}

static void port_pending(void *arg, struct pending_request *q)
{
    struct service *s = arg;
    struct pending_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->redis = (struct redis_hash){.key = q->key, .done = on_hash};
    redis_hash(&s->sync_link, &task->redis);
}

/* --- CTR.SYNC --- */

struct wait_task {
    struct sync_wait wait;
    struct sync_request *request;
};

static enum ask_outcome wait_outcome(enum sync_wait_outcome o)
{
    switch (o) {
    case SYNC_MERGED:
        return ASK_DONE;
    case SYNC_TRY_AGAIN:
        return ASK_TRY_AGAIN;
    case SYNC_MYSQL_DOWN:
        return ASK_MYSQL_DOWN;
    case SYNC_REDIS_DOWN:
        return ASK_REDIS_DOWN;
    case SYNC_HELD_BACK:
        return ASK_HELD;
    }
    UNREACHABLE();
}

static void on_waited(struct sync_wait *w)
{
    struct wait_task *task = CONTAINER_OF(w, struct wait_task, wait);
    struct sync_request *q = task->request;
    q->outcome = wait_outcome(w->outcome);
    q->rows = w->rows;
    heap_free(task);
    q->done(q);
}

static void port_sync(void *arg, struct sync_request *q)
{
    struct service *s = arg;
    struct wait_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    task->wait.key = q->key;
    task->wait.done = on_waited;
    sync_wait_for(s->sync, &task->wait);
}

/* --- CTR.RECOVER --- */

struct recover_task {
    struct recover_request *request;
    struct buf bytes; /* "kind name\n" each */
    size_t lines;
};

static void recover_found(void *arg, const char *kind, struct slice name)
{
    struct recover_task *task = arg;
    buf_printf(&task->bytes, "%s ", kind);
    buf_put_slice(&task->bytes, name);
    buf_put_char(&task->bytes, '\0');
    task->lines++;
}

/* A name may hold any byte but, in what a client reads as a line, no NUL. */
static struct slice *split_lines(const struct recover_task *task)
{
    struct slice *lines = heap_alloc((task->lines + 1) * sizeof *lines);
    const char *p = task->bytes.p;
    for (size_t i = 0; i < task->lines; i++) {
        lines[i] = slice_str(p);
        p += lines[i].n + 1;
    }
    return lines;
}

static void recover_done(void *arg, const struct recovered *r)
{
    struct recover_task *task = arg;
    struct recover_request *q = task->request;
    struct slice *lines = split_lines(task);
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

static void port_recover(void *arg, struct recover_request *q)
{
    struct service *s = arg;
    struct recover_task *task = heap_zalloc(sizeof *task);
    task->request = q;
    struct recovery_how how = {
        .dry_run = q->dry_run, .found = recover_found, .done = recover_done, .arg = task};
    if (recovery_start(s, &how)) return;
    heap_free(task);
    q->outcome = ASK_FAILED;
    q->text = "ERR a recovery is under way already; wait for it to end";
    q->done(q);
}

static int64_t port_redis_ms(void *arg)
{
    return redis_time_ms(&((struct service *)arg)->frame_link);
}

/* --- INFO --- */

#define HELD_TOLD 64

struct held_list {
    struct buf *out;
    unsigned n;
};

static void held_put(void *arg, const struct batch_id *id, const char *why)
{
    struct held_list *list = arg;
    char hex[33];
    batch_id_hex(id, hex);
    if (list->n++ < HELD_TOLD) buf_printf(list->out, "held_%s:%s\r\n", hex, why);
}

static void port_info(void *arg, const struct info_asked *asked, struct buf *out)
{
    const struct service *s = arg;
    if (!info_begins(asked, "Tallyd", out)) return;
    buf_printf(out, "instance:%s\r\nlife:%s\r\n", s->settings->instance, s->settings->life.id);
    buf_printf(out, "redis_up:%d\r\nmysql_up:%d\r\n", service_links_up(s), s->gate.mysql_up);
    buf_printf(out, "stopping:%d\r\nrecovering:%d\r\n", s->stage >= STAGE_DRAINING, s->recovery != NULL);
    if (s->gate.rolled_back) buf_printf(out, "merges_held:%s\r\n", s->gate.text);
    if (s->upkeep.walked) buf_printf(out, "leftovers:%llu\r\n", (unsigned long long)s->upkeep.leftovers);
    sync_held(s->sync, held_put, &(struct held_list){.out = out});
}

/* --- sessions --- */

static void on_open(void *session, struct conn *conn, void *arg)
{
    session_open(session, ((struct service *)arg)->command, conn, conn_outlet(conn), false);
}

static void on_open_inside(void *session, struct conn *conn, void *arg)
{
    session_open(session, ((struct service *)arg)->command, conn, conn_outlet(conn), true);
}

static size_t on_bytes(void *session, struct slice in)
{
    return session_bytes(session, in);
}
static void on_close(void *session)
{
    session_close(session);
}

struct listen_handler wire_listen_handler(struct service *s)
{
    return (struct listen_handler){.session_size = sizeof(struct session),
                                   .open = on_open,
                                   .bytes = on_bytes,
                                   .close = on_close,
                                   .full = "-ERR max number of clients reached\r\n",
                                   .arg = s};
}

struct listen_handler wire_inside_handler(struct service *s)
{
    struct listen_handler handler = wire_listen_handler(s);
    handler.open = on_open_inside;
    return handler;
}

void wire_command(struct service *s)
{
    const struct conf *conf = s->settings->conf;
    wire_total_init(s);
    struct request_limits limits = request_limits_default;
    limits.bytes_max = (uint32_t)conf->limits_request_bytes;
    limits.args_max = (uint32_t)conf->limits_arguments;
    struct command_config config = {
        .coalesce = s->coalesce,
        .counters = &s->settings->setup.counters,
        .client = {.pause = conn_pause,
                   .resume = conn_resume,
                   .offer = conn_offer,
                   .answered = conn_answered,
                   .finish = conn_finish,
                   .drop = conn_drop,
                   .hold = conn_hold,
                   .release = conn_release,
                   .peer = conn_peer,
                   .info = conn_info},
        .ports = {.arg = s,
                  .pending = port_pending,
                  .sync = port_sync,
                  .recover = port_recover,
                  .info = port_info,
                  .total = wire_total,
                  .read = wire_read,
                  .redis_ms = port_redis_ms,
                  .pace = wire_users_pace},
        .limits = limits,
        .clients_max = (uint32_t)conf->limits_clients,
        .multi_max = (uint32_t)conf->limits_multi,
        .multi_bytes_max = (uint32_t)conf->limits_multi_bytes,
        .busy_ms = (uint32_t)conf->limits_busy_ms,
        .users = s->users.now,
        .prover = s->users.prover,
        .stranger_ms = (uint32_t)conf->limits_strangers_ms,
    };
    s->command = command_create(&config);
}
