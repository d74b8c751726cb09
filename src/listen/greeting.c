/* listen/greeting.c - which TLS handshake goes on now. One step (a signature) can take a millisecond of the loop, and
 * any client may ask for any number. So handshakes get a percentage of the loop's time, and STEPS_US a turn. When that
 * is used up, clients in a handshake are put off: tallyd does not read them, and the wait does not count against
 * limits.auth_timeout. Each turn lets one in, first come first served, alternating between new handshakes and those
 * that have begun. An unused share is saved for SAVED_US; a longer step is charged afterwards. The budget is charged
 * with CPU time. */
#include "listen/inside.h"

#include "base/clock.h"
#include "base/stats.h"

#include <poll.h>

#define STEPS_US 1000
#define SAVED_US 100000

enum { GREETING_NEW, GREETING_BEGUN };

static void on_pause_over(uv_timer_t *timer)
{
    struct listen *l = timer->data;
    greeting_turn(l);
}

void greeting_init(struct listen *l)
{
    struct greeting *g = &l->greeting;
    g->percent = l->limits.handshakes_percent;
    g->left = (int64_t)SAVED_US * g->percent;
    g->seen_us = mono_us();
    list_init(&g->put_off[GREETING_NEW]);
    list_init(&g->put_off[GREETING_BEGUN]);
    uv_timer_init(l->loop, &g->pause);
    g->pause.data = l;
}

/* --- the share --- */

static void share_grow(struct greeting *g)
{
    uint64_t now_us = mono_us(), passed_us = now_us - g->seen_us;
    int64_t most = (int64_t)SAVED_US * g->percent;
    g->seen_us = now_us;
    g->left += (int64_t)(passed_us < SAVED_US * 100 ? passed_us : SAVED_US * 100) * g->percent;
    if (g->left > most) g->left = most;
}

void greeting_begin(struct listen *l)
{
    l->greeting.begun_us = ran_us();
}

void greeting_end(struct listen *l)
{
    struct greeting *g = &l->greeting;
    uint64_t took_us = ran_us() - g->begun_us + 1;
    g->left -= (int64_t)took_us * 100;
    g->turn_us += took_us;
}

void greeting_heard(struct secure *s)
{
    struct greeting *g = &s->conn->listen->greeting;
    if (g->admitted == s) g->admitted = NULL;
}

/* Its session may have paused it since. */
static bool one_is_in(const struct greeting *g)
{
    return g->admitted != NULL && g->admitted->conn->reading;
}

static bool nobody_waits(const struct greeting *g)
{
    return list_empty(&g->put_off[GREETING_NEW]) && list_empty(&g->put_off[GREETING_BEGUN]);
}

bool greeting_may_read(struct secure *s)
{
    struct greeting *g = &s->conn->listen->greeting;
    if (!secure_greets(s) || g->admitted == s) return true;
    if (!nobody_waits(g) || one_is_in(g) || g->turn_us >= STEPS_US) return false;
    share_grow(g);
    return g->left > 0;
}

/* --- clients put off --- */

void greeting_put_off(struct secure *s)
{
    struct listen *l = s->conn->listen;
    STAT_ADD(tls_put_off, 1);
    s->put_off_ms = uv_now(l->loop);
    list_push(&l->greeting.put_off[s->spoke ? GREETING_BEGUN : GREETING_NEW], &s->in_put_off);
    conn_put_off(s->conn, true);
}

/* A client that hung up before its hello was answered needs no answer. */
static bool has_left(const struct secure *s)
{
    uv_os_fd_t fd;
    if (s->spoke || uv_fileno(&s->conn->s.handle, &fd) != 0) return false;
    struct pollfd asked = {.fd = fd, .events = POLLRDHUP};
    return poll(&asked, 1, 0) > 0;
}

static struct secure *next_of(struct greeting *g)
{
    int which = list_empty(&g->put_off[!g->new_next]) ? g->new_next : !g->new_next;
    struct list *at = list_pop(&g->put_off[which]);
    g->new_next = which == GREETING_BEGUN;
    return at == NULL ? NULL : CONTAINER_OF(at, struct secure, in_put_off);
}

/* At most 16 that have left are dropped at once: they may be a flood, too. */
static void admit(struct listen *l)
{
    struct greeting *g = &l->greeting;
    struct secure *s = next_of(g);
    for (int i = 0; i < 16 && s != NULL && has_left(s); i++) {
        conn_drop(s->conn);
        s = next_of(g);
    }
    if (s == NULL) return;
    g->admitted = s;
    s->until_ms += uv_now(l->loop) - s->put_off_ms;
    conn_put_off(s->conn, false); /* it has bytes, so the loop does not sleep until they are here */
}

void greeting_turn(struct listen *l)
{
    struct greeting *g = &l->greeting;
    g->turn_us = 0;
    if (nobody_waits(g) || one_is_in(g)) return;
    share_grow(g);
    if (g->left > 0) {
        admit(l);
    } else if (!uv_is_active((uv_handle_t *)&g->pause)) {
        uint64_t wait_us = (uint64_t)-g->left / g->percent + 1;
        uv_timer_start(&g->pause, on_pause_over, wait_us / 1000 + 1, 0);
    }
}
