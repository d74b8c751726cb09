/* listen/linger.c - the end of a connection whose client may still be sending. The kernel answers a close with unread
 * bytes by a reset, which can take the last reply from the client. So tallyd ends its own side first, then reads and
 * discards until the client closes (RFC 9112, 9.6).
 * A client that does not close costs a descriptor and no buffers for limits.linger_ms at most, and LINGER_BYTES of
 * reading. It still counts as a client; a new client that finds no room takes the place of the one that lingers
 * longest. Clients that were refused linger too, REFUSED_MOST of them. */
#include "base/stats.h"
#include "listen/inside.h"

#include <sys/socket.h>

#define LINGER_BYTES ((size_t)16 << 20)
#define REFUSED_MOST 16 /* less than FILES_RESERVED: they have no part of the descriptors for clients */

static void on_discard(uv_stream_t *stream, ssize_t n, const uv_buf_t *into)
{
    (void)into;
    struct conn *c = stream->data;
    if (n == UV_ENOBUFS) return; /* it had its read of this turn */
    if (n > 0) {
        STAT_ADD(net_input_bytes, n);
        c->discarded += (size_t)n;
    }
    if (n < 0 || c->discarded > LINGER_BYTES) conn_drop(c);
}

static bool may_linger(const struct conn *c)
{
    const struct listen *l = c->listen;
    return !c->ended && !l->stopping && !(c->refused && l->refused_n > REFUSED_MOST);
}

void linger_begin(struct conn *c)
{
    struct listen *l = c->listen;
    uv_os_fd_t fd;
    uv_read_stop(&c->s.stream);
    c->reading = false;
    bool shut = may_linger(c) && uv_fileno(&c->s.handle, &fd) == 0 && shutdown(fd, SHUT_WR) == 0;
    if (!shut || uv_read_start(&c->s.stream, conn_alloc, on_discard) != 0) {
        conn_drop(c);
        return;
    }
    if (c->secure != NULL) secure_gone(c);
    secure_close(c); /* what comes is discarded undecrypted */
    buf_free(&c->outlet.out);
    buf_free(&c->kept);
    c->linger_until_ms = uv_now(l->loop) + l->limits.linger_ms;
    list_push(&l->lingering[c->refused], &c->in_lingering);
    listen_watch(l);
}

static struct conn *longest_lingering(struct list *lingering)
{
    return list_empty(lingering) ? NULL : CONTAINER_OF(lingering->next, struct conn, in_lingering);
}

void linger_check(struct listen *l, uint64_t now_ms)
{
    for (int refused = 0; refused < 2; refused++)
        for (struct conn *c;
             (c = longest_lingering(&l->lingering[refused])) != NULL && c->linger_until_ms <= now_ms;)
            conn_drop(c);
}

void linger_make_room(struct listen *l)
{
    struct conn *c = longest_lingering(&l->lingering[false]);
    if (l->clients >= l->limits.clients_max && c != NULL) conn_drop(c);
}
