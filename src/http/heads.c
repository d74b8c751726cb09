/* http/heads.c - see heads.h. libmicrohttpd's own timeout is of a connection on which nothing moves. */
#include "http/heads.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"

#include <sys/socket.h>

#define HEAD_TIMEOUT_MS 10000

struct awaited { /* of a connection */
    struct heads *of;
    struct list link;
    int fd;
    uint64_t since_ms; /* mono */
    struct handshake handshake;
};

void heads_init(struct heads *h, unsigned most, const char *door, const struct https *https)
{
    pthread_mutex_init(&h->lock, NULL);
    list_init(&h->awaited);
    h->n = 0;
    h->most = most;
    h->door = door;
    h->https = https;
}

void heads_close(struct heads *h)
{
    pthread_mutex_destroy(&h->lock);
}

static void leave(struct awaited *head) /* under the lock */
{
    if (!list_linked(&head->link)) return;
    list_remove(&head->link);
    head->of->n--;
}

/* Its daemon sees the end and closes it. */
static void oldest_end(struct heads *h) /* under the lock */
{
    static struct log_seldom line;
    unsigned times;
    struct awaited *oldest = CONTAINER_OF(h->awaited.next, struct awaited, link);
    if (log_seldom(&line, &times))
        log_event(LOG_WARN, "http_closed", "awaited=%u most=%u times=%u why=%s", h->n, h->most, times,
                  LOGQ("a client's request did not come whole"));
    leave(oldest);
    shutdown(oldest->fd, SHUT_RDWR);
}

static void head_await(struct awaited *head)
{
    struct heads *h = head->of;
    pthread_mutex_lock(&h->lock);
    leave(head);
    head->since_ms = mono_ms();
    list_push(&h->awaited, &head->link);
    h->n++;
    while (h->n > h->most ||
           head->since_ms - CONTAINER_OF(h->awaited.next, struct awaited, link)->since_ms > HEAD_TIMEOUT_MS)
        oldest_end(h);
    pthread_mutex_unlock(&h->lock);
}

static struct awaited *head_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void leave_now(struct awaited *head)
{
    pthread_mutex_lock(&head->of->lock);
    leave(head);
    pthread_mutex_unlock(&head->of->lock);
}

void heads_got(struct MHD_Connection *connection)
{
    struct awaited *head = head_of(connection);
    leave_now(head);
    if (head->of->https != NULL) /* until then its handshake's */
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_TIMEOUT_S);
}

void heads_await(struct MHD_Connection *connection)
{
    head_await(head_of(connection));
}

void heads_notify(void *heads, struct MHD_Connection *connection, void **context,
                  enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct awaited *head = *context = heap_zalloc(sizeof *head);
        head->of = heads;
        list_init(&head->link);
        head->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        if (head->of->https != NULL) handshake_begin(&head->handshake, head->of->https, connection);
        head_await(head);
    } else {
        struct awaited *head = *context;
        leave_now(head);
        if (head->of->https != NULL) handshake_end(&head->handshake, head->of->door, connection);
        heap_free(*context);
    }
}
