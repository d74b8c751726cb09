/* redis/link.c - the states of a link: one try after another, each ended by exactly one down(). What ends a connection
 * may happen inside a call of its user, so it is only noted there (redis_link_cut); the `soon` timer, or the end of the read
 * that showed it, carries it out (link_end). libuv owns the memory of a socket or of a name look-up until its callback,
 * so the next try waits in CLOSING for both. */
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "redis/link_in.h"
#include <signal.h>
#include <stdio.h>

#define LINK_MS 50
#define STEADY_MS 2000 /* a connection that lived this long starts the backoff over */
#define TIME_EVERY_MS 2000
#define CHOICE_RETRY_MS 200 /* at most, where another host may have been promoted */
#define CHOICE_CONNECT_MS 1000
#define SILENT_MS 500 /* after that, is it still the primary? */

static const struct sm_state link_states[LINK_STATES] = {
    [LINK_IDLE] = {"idle", TO(LINK_WAITING)},
    [LINK_RESOLVING] = {"resolving", TO(LINK_CONNECTING) | TO(LINK_CLOSING)},
    [LINK_CONNECTING] = {"connecting", TO(LINK_HANDSHAKE) | TO(LINK_CLOSING)},
    [LINK_HANDSHAKE] = {"handshake", TO(LINK_UP) | TO(LINK_CLOSING)},
    [LINK_UP] = {"up", TO(LINK_CLOSING)},
    [LINK_CLOSING] = {"closing", TO(LINK_WAITING) | TO(LINK_IDLE)},
    [LINK_WAITING] = {"waiting", TO(LINK_RESOLVING) | TO(LINK_CONNECTING) | TO(LINK_IDLE)},
};

static void on_soon(uv_timer_t *timer);
static void link_tick(uv_timer_t *timer);
static void link_maybe_gone(struct redis_link *l);

static bool link_is_trying(const struct redis_link *l)
{
    return (TO(sm_now(&l->sm)) &
            (TO(LINK_RESOLVING) | TO(LINK_CONNECTING) | TO(LINK_HANDSHAKE) | TO(LINK_UP))) != 0;
}

static uint32_t or_default(uint32_t given, uint32_t otherwise)
{
    return given != 0 ? given : otherwise;
}

void redis_link_init(struct redis_link *l, uv_loop_t *loop, const struct redis_link_config *config)
{
    *l = (struct redis_link){.config = *config, .loop = loop};
    l->config.connect_ms = or_default(config->connect_ms, 5000);
    l->config.answer_ms = or_default(config->answer_ms, 5000);
    l->config.retry_ms = or_default(config->retry_ms, 50);
    l->config.retry_most_ms = or_default(config->retry_most_ms, 2000);
    l->config.pending_max = or_default(config->pending_max, 65536);
    if (config->write_max == 0) l->config.write_max = (size_t)64 << 20;
    sm_init(&l->sm, link_states, LINK_IDLE);
    uv_timer_init(loop, &l->tick);
    uv_timer_init(loop, &l->soon);
    l->tick.data = l->soon.data = l;
    l->handles = 2;
    list_push(&config->place->links, &l->here);
}

void redis_link_start(struct redis_link *l)
{
    PRE(sm_now(&l->sm) == LINK_IDLE && !l->closing);
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
    sm_move(&l->sm, LINK_WAITING);
    l->wait_until_ms = l->tick_ms = mono_ms();
    uv_timer_start(&l->tick, link_tick, LINK_MS, LINK_MS);
    link_soon(l);
}

void link_soon(struct redis_link *l)
{
    if (!uv_is_active((uv_handle_t *)&l->soon)) uv_timer_start(&l->soon, on_soon, 0, 0);
}

void redis_link_cut(struct redis_link *l, const char *why)
{
    if (l->doomed || !link_is_trying(l)) return;
    l->doomed = true;
    snprintf(l->doom, sizeof l->doom, "%s", why);
    link_soon(l);
}

void link_doom_io(struct redis_link *l, const char *what)
{
    char why[REDIS_WHY_BYTES];
    snprintf(why, sizeof why, "MASTERDOWN Redis cannot be reached (%s)", what);
    redis_link_cut(l, why);
}

static bool link_is_over(const struct redis_link *l)
{
    return l->config.once && l->up_ms > 0;
}

void link_try_now(struct redis_link *l)
{
    if (sm_now(&l->sm) != LINK_WAITING || link_is_over(l)) return;
    l->wait_until_ms = 0;
    link_soon(l);
}

/* --- what the server has --- */

void redis_link_numbered(struct redis_link *l, uint64_t number)
{
    l->config.place->number = number;
}

uint64_t redis_link_number(const struct redis_link *l)
{
    return l->config.place->number;
}

void redis_link_changed(struct redis_link *l)
{
    l->config.place->changes++;
    place_unfit(l->config.place, l->facts.run_id,
                "MASTERDOWN Redis took over another server's data; tallyd looks for answered frames");
}

void redis_link_astray(struct redis_link *l)
{
    place_stray(l->config.place);
    redis_link_cut(l, CLUSTER_ASTRAY);
}

bool redis_link_whole(struct redis_link *l, uint64_t number, const struct redis_answer *seq)
{
    int64_t has = 0;
    bool known = answer_integer(seq, &has) || answer_is(seq, REDIS_NIL);
    bool lacks = known && has >= 0 && (uint64_t)has < number;
    if (lacks) redis_link_changed(l);
    return !lacks;
}

/* --- a try --- */

static void on_connected(uv_connect_t *req, int status)
{
    struct redis_link *l = req->data;
    if (status == UV_ECANCELED) return;
    if (status < 0) link_doom_io(l, uv_strerror(status));
    if (!l->doomed) {
        sm_move(&l->sm, LINK_HANDSHAKE);
        if (wire_start(l)) handshake_send(l);
    }
    if (l->doomed) link_end(l);
}

static void connect_tcp(struct redis_link *l, const struct sockaddr *address)
{
    sm_move(&l->sm, LINK_CONNECTING);
    int status = uv_tcp_init(l->loop, &l->io.tcp);
    if (status == 0) {
        l->io_open = true;
        l->io.stream.data = l->connect.data = l;
        status = uv_tcp_connect(&l->connect, &l->io.tcp, address, on_connected);
    }
    if (status == 0) uv_tcp_nodelay(&l->io.tcp, 1);
    if (status == 0) uv_tcp_keepalive(&l->io.tcp, 1, 60);
    if (status < 0) link_doom_io(l, uv_strerror(status));
}

/* IPv4 before IPv6, as hiredis does; a later try takes the next address of the same kind. */
static const struct sockaddr *address_choose(const struct addrinfo *all, unsigned attempt)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (int f = 0; f < 2; f++) {
        unsigned n = 0;
        for (const struct addrinfo *a = all; a != NULL; a = a->ai_next)
            n += a->ai_family == families[f];
        for (const struct addrinfo *a = all; n > 0 && a != NULL; a = a->ai_next)
            if (a->ai_family == families[f] && attempt-- % n == 0) return a->ai_addr;
    }
    return NULL;
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *all)
{
    struct redis_link *l = req->data;
    l->resolve_busy = false;
    if (sm_now(&l->sm) == LINK_RESOLVING && !l->doomed) {
        const struct sockaddr *address = status == 0 ? address_choose(all, l->attempt) : NULL;
        if (address != NULL)
            connect_tcp(l, address);
        else
            link_doom_io(l, status < 0 ? uv_strerror(status) : "its name has no address");
    }
    uv_freeaddrinfo(all);
    if (l->doomed)
        link_end(l);
    else
        link_maybe_gone(l);
}

static void try_begin(struct redis_link *l)
{
    const struct redis_target *t = &l->target;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    l->began_ms = mono_ms();
    l->was_up = false;
    l->refusal.code = ERR_NONE;
    if (!place_target(l->config.place, l)) {
        sm_move(&l->sm, LINK_RESOLVING);
        link_doom_io(l, "no sentinel or node has named it yet");
    } else if (t->port == 0) {
        sm_move(&l->sm, LINK_CONNECTING);
        uv_pipe_init(l->loop, &l->io.pipe, 0);
        l->io_open = true;
        l->io.stream.data = l->connect.data = l;
        uv_pipe_connect(&l->connect, &l->io.pipe, l->target.host, on_connected);
    } else if (uv_ip4_addr(t->host, t->port, &v4) == 0) {
        connect_tcp(l, (struct sockaddr *)&v4);
    } else if (uv_ip6_addr(t->host, t->port, &v6) == 0) {
        connect_tcp(l, (struct sockaddr *)&v6);
    } else {
        /* On libuv's pool: the loop never waits for DNS. */
        char port[8];
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        sm_move(&l->sm, LINK_RESOLVING);
        snprintf(port, sizeof port, "%d", l->target.port);
        l->resolve.data = l;
        int status = uv_getaddrinfo(l->loop, &l->resolve, on_resolved, l->target.host, port, &hints);
        if (status < 0)
            link_doom_io(l, uv_strerror(status));
        else
            l->resolve_busy = true;
    }
    l->attempt++;
    l->tries++;
}

/* Which of several lanes it is. */
static const char *slot_show(const struct redis_link *l, char out[16])
{
    const struct redis_place *p = l->config.place;
    out[0] = '\0';
    if (p->url->cluster) snprintf(out, 16, " slot=%u", p->slot);
    return out;
}

void link_came_up(struct redis_link *l)
{
    char slot[16];
    sm_move(&l->sm, LINK_UP);
    l->was_up = true;
    l->up_ms = mono_ms();
    l->tries = 0;
    log_event(l->config.quiet ? LOG_DEBUG : LOG_INFO, "redis_up",
              "role=%s%s version=%s run_id=%.8s client=%lld", l->config.role, slot_show(l, slot),
              l->facts.version_text, l->facts.run_id, (long long)l->client_id);
    place_link_up(l->config.place);
    if (!l->closing && l->up != NULL) l->up(l);
}

/* --- its end --- */

static void handle_gone(uv_handle_t *handle)
{
    struct redis_link *l = handle->data;
    if (--l->handles > 0) return;
    while (l->refused_n > 0) /* asked by a callback of the very end */
        wire_answer_refused(l);
    wire_close(l);
    list_remove(&l->here);
    if (l->closed != NULL) l->closed(l); /* last line: l may be gone after it */
}

static void handles_close(struct redis_link *l)
{
    if (uv_is_closing((uv_handle_t *)&l->soon)) return;
    uv_close((uv_handle_t *)&l->tick, handle_gone);
    uv_close((uv_handle_t *)&l->soon, handle_gone);
}

static void retry_wait(struct redis_link *l)
{
    uint32_t most_ms = place_most_ms(l->config.place, l->config.retry_most_ms, CHOICE_RETRY_MS);
    unsigned rounds = l->attempt > 0 ? l->attempt - 1 : 0;
    if (!place_round_is_over(l->config.place, l)) most_ms = 0;
    l->wait_until_ms = mono_ms() + (l->at_once ? 0 : rand_backoff_ms(rounds, l->config.retry_ms, most_ms));
    if (link_is_over(l))
        l->wait_until_ms = UINT64_MAX;
    else if (l->at_once)
        link_soon(l);
    l->at_once = false;
    sm_move(&l->sm, LINK_WAITING);
}

static void link_maybe_gone(struct redis_link *l) /* called by every ending of socket and look-up */
{
    if (sm_now(&l->sm) != LINK_CLOSING || l->io_open || l->resolve_busy) return;
    if (!l->closing) return retry_wait(l);
    sm_move(&l->sm, LINK_IDLE);
    uv_timer_stop(&l->tick);
    handles_close(l);
}

static void on_io_closed(uv_handle_t *handle)
{
    struct redis_link *l = handle->data;
    l->io_open = false;
    link_maybe_gone(l);
}

void link_end(struct redis_link *l)
{
    PRE(l->doomed && !l->reading);
    if (!link_is_trying(l)) return;
    if (sm_now(&l->sm) == LINK_UP) STAT_ADD(links_cut, 1);
    if (sm_now(&l->sm) == LINK_UP && mono_ms() - l->up_ms >= STEADY_MS) l->attempt = 0;
    sm_move(&l->sm, LINK_CLOSING);
    if (l->io_open) uv_close((uv_handle_t *)&l->io.stream, on_io_closed);
    if (l->resolve_busy) uv_cancel((uv_req_t *)&l->resolve); /* may fail: then it ends by itself */
    wire_answer_pending(l);
    l->doomed = false;
    char slot[16];
    bool first = l->was_up || l->attempt == 1 || strcmp(l->why, l->doom) != 0;
    snprintf(l->why, sizeof l->why, "%s", l->doom);
    if (first && !l->closing && !l->config.quiet)
        log_event(LOG_WARN, "redis_down", "role=%s%s why=%s", l->config.role, slot_show(l, slot),
                  LOGQ(l->why));
    if (!l->closing) {
        place_link_down(l->config.place, l, l->why);
        if (l->down != NULL) l->down(l, l->why);
    }
    link_maybe_gone(l); /* neither socket nor look-up may have begun */
}

static void on_soon(uv_timer_t *timer)
{
    struct redis_link *l = timer->data;
    if (l->doomed) link_end(l);
    wire_answer_refused(l);
    if (sm_now(&l->sm) == LINK_WAITING && l->closing) sm_move(&l->sm, LINK_IDLE);
    if (sm_now(&l->sm) == LINK_IDLE && l->closing) {
        handles_close(l);
    } else if (sm_now(&l->sm) == LINK_WAITING && mono_ms() >= l->wait_until_ms) {
        try_begin(l);
    }
}

static void up_look(struct redis_link *l, uint64_t now_ms, bool late)
{
    char what[64];
    uint64_t silent_ms = late ? 0 : wire_silent_ms(l, now_ms);
    if (silent_ms > l->config.answer_ms) {
        snprintf(what, sizeof what, "no answer for %u ms", l->config.answer_ms);
        link_doom_io(l, what);
    } else if (silent_ms > SILENT_MS) {
        place_doubt(l->config.place, "MASTERDOWN Redis cannot be reached (it is silent)");
    }
    if (!l->config.plain && now_ms - l->time_asked_ms >= TIME_EVERY_MS) handshake_time(l);
}

/* A tick that comes late means that our own loop was blocked: Redis' answers of that time are not read yet, so no limit
 * is checked by this tick. */
static void link_tick(uv_timer_t *timer)
{
    struct redis_link *l = timer->data;
    uint64_t now_ms = mono_ms();
    bool late = now_ms - l->tick_ms > 4 * LINK_MS;
    l->tick_ms = now_ms;
    if (sm_now(&l->sm) == LINK_UP)
        up_look(l, now_ms, late);
    else if (link_is_trying(l) && !late &&
             now_ms > l->began_ms + place_most_ms(l->config.place, l->config.connect_ms, CHOICE_CONNECT_MS))
        link_doom_io(l, sm_now(&l->sm) != LINK_HANDSHAKE ? "connecting took too long"
                        : l->tls != NULL                 ? link_tls_end_why(l, "no answer to the handshake")
                                                         : "no answer to the handshake");
    if (l->doomed) link_end(l);
    if (sm_now(&l->sm) == LINK_WAITING && now_ms >= l->wait_until_ms) link_soon(l);
}

void redis_link_close(struct redis_link *l, void (*closed)(struct redis_link *l))
{
    PRE(!l->closing && l->handles == 2);
    l->closing = true;
    l->closed = closed;
    redis_link_cut(l, "MASTERDOWN tallyd is stopping");
    link_soon(l);
}

int64_t redis_time_ms(const struct redis_link *l)
{
    return l->time_known ? (int64_t)mono_ms() + l->time_offset_ms : wall_ms();
}

/* --- for the command line --- */

void redis_run_until(struct redis_link *l, const bool *done)
{
    while (!*done)
        uv_run(l->loop, UV_RUN_ONCE);
}

enum err redis_link_connect(struct redis_link *l, uint64_t wait_ms, struct error *e)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    if (sm_now(&l->sm) == LINK_IDLE) redis_link_start(l);
    while (!redis_link_is_up(l)) {
        uv_run(l->loop, UV_RUN_ONCE);
        if (l->refusal.code != ERR_NONE && sm_now(&l->sm) != LINK_HANDSHAKE) {
            if (e != NULL) *e = l->refusal;
            return l->refusal.code;
        }
        if (l->why[0] != '\0' && mono_ms() >= until_ms && !redis_link_is_up(l)) {
            const char *text = strchr(l->why, ' ');
            return error_set(e, ERR_UNAVAILABLE, "%s", text != NULL ? text + 1 : l->why);
        }
    }
    return ERR_NONE;
}
