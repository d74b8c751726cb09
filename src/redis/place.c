/* redis/place.c - see place.h and seek.h. */
#include "redis/place.h"
#include "base/heap.h"
#include "base/slice.h"
#include "base/url.h"
#include "redis/link_in.h"
#include "redis/seek.h"
#include "tls/tls.h"
#include <stdio.h>

static bool db_read(struct slice s, int *out)
{
    int64_t v;
    if (!num_parse(s, &v) || v < 0 || v > 1 << 20) return false;
    *out = (int)v;
    return true;
}

static const char *redis_user_read(const struct url *u, struct redis_url *out)
{
    if (u->user.p == NULL) return NULL;
    if (u->password.p != NULL) out->password = percent_string(u->password);
    out->user = u->user.n > 0 ? percent_string(u->user) : NULL;
    if ((u->password.p != NULL && out->password == NULL) || (u->user.n > 0 && out->user == NULL))
        return "%XX escapes in user and password";
    return NULL;
}

static const char *redis_host_read(const struct url *u, struct redis_url *out)
{
    struct redis_host *host = &out->hosts[out->hosts_n];
    host->port = REDIS_PORT_DEFAULT;
    if (u->host.n == 0) return "a host";
    if (u->port.p != NULL && !url_port(u->port, &host->port)) return "a port from 1 to 65535";
    host->name = percent_string(u->host);
    if (host->name == NULL) return "%XX escapes in the host";
    out->hosts_n++;
    return NULL;
}

static const char *redis_tcp_read(const struct url *u, struct redis_url *out)
{
    const char *expected = redis_user_read(u, out);
    if (expected != NULL) return expected;
    if (u->query.p != NULL || (u->path.n > 1 && !db_read(slice_of(u->path.p + 1, u->path.n - 1), &out->db)))
        return "a database number after the '/'";
    if (out->cluster && out->db != 0) return "no database number: a Redis Cluster has only 0";
    expected = redis_host_read(u, out);
    for (struct url next = *u; expected == NULL && next.more.p != NULL;) {
        if (out->hosts_n == REDIS_HOSTS_MAX) return "at most 8 hosts";
        expected = url_host_next(&next);
        if (expected == NULL) expected = redis_host_read(&next, out);
    }
    return expected;
}

static const char *redis_unix_read(const struct url *u, struct redis_url *out)
{
    const struct slice db = SLICE("db=");
    if (u->query.p != NULL && !slice_starts(u->query, db)) return "only db=<number> after the '?'";
    if (u->query.p != NULL && !db_read(slice_of(u->query.p + db.n, u->query.n - db.n), &out->db))
        return "a database number";
    if (u->path.n == 0 || u->path.p[0] != '/') return "an absolute path: unix:///run/redis/redis.sock";
    out->path = percent_string(u->path);
    if (out->path == NULL) return "%XX escapes in the path";
    return strlen(out->path) > UNIX_PATH_MAX ? "a socket path of at most 107 bytes" : NULL;
}

enum err redis_url_parse(struct slice text, struct redis_url *out, struct error *e)
{
    struct url u;
    const char *expected = url_split(text, &u);
    bool secure_cluster = slice_eq(u.scheme, SLICE("rediss+cluster"));
    *out = (struct redis_url){.secure = secure_cluster || slice_eq(u.scheme, SLICE("rediss")),
                              .cluster = secure_cluster || slice_eq(u.scheme, SLICE("redis+cluster"))};
    if (slice_eq(u.scheme, SLICE("unix")))
        expected = redis_unix_read(&u, out);
    else if (!out->secure && !out->cluster && !slice_eq(u.scheme, SLICE("redis")))
        expected = "redis://[user:password@]host:port[,host:port...]/db (rediss:// with TLS), "
                   "redis+cluster://host:port[,host:port...]/ (rediss+cluster:// with TLS) or "
                   "unix:///path?db=n";
    else if (expected == NULL)
        expected = redis_tcp_read(&u, out);
    if (expected == NULL) return ERR_NONE;
    redis_url_close(out);
    return error_set(e, ERR_CONFIG, "the Redis URL cannot be read: expected %s", expected);
}

static void password_free(struct redis_url *url)
{
    if (url->password != NULL) explicit_bzero(url->password, strlen(url->password));
    heap_free(url->password);
}

void redis_url_set_password(struct redis_url *url, struct slice password)
{
    password_free(url);
    url->password = heap_strndup(password.p, password.n);
}

void redis_url_close(struct redis_url *url)
{
    for (unsigned i = 0; i < url->hosts_n; i++)
        heap_free(url->hosts[i].name);
    heap_free(url->path);
    heap_free(url->user);
    password_free(url);
    tls_context_destroy(&url->tls);
    *url = (struct redis_url){0};
}

/* --- The first link that comes up sets the server; one that comes up elsewhere meanwhile is cut. So that this does not last, the
 * other links are asked for their role, since all links leave a server that was demoted. If their server is still a primary after
 * ODD_MS, the name has moved, and all leave. --- */

#define ODD_MS 1000
#define PLACE_DOUBT_MS 200
#define HOLD_MOST_MS 3000

#define EACH_LINK(l, p)                                                                                      \
    for (struct redis_link *l = CONTAINER_OF((p)->links.next, struct redis_link, here);                      \
         &l->here != &(p)->links; l = CONTAINER_OF(l->here.next, struct redis_link, here))

void place_init_lane(struct redis_place *p, const struct redis_url *url, unsigned lane, unsigned lanes)
{
    *p = (struct redis_place){.url = url, .hold_most_ms = HOLD_MOST_MS};
    list_init(&p->links);
    if (!url->cluster) return;
    tag_find(lane, lanes, &p->tag);
    p->slot = slot_of(tag_slice(&p->tag));
}

void place_init(struct redis_place *p, const struct redis_url *url)
{
    place_init_lane(p, url, 0, 1);
}

bool place_is_up(const struct redis_place *p)
{
    EACH_LINK (l, p)
        if (redis_link_is_up(l)) return true;
    return false;
}

bool place_is_whole(const struct redis_place *p)
{
    EACH_LINK (l, p) {
        bool is_begun = sm_now(&l->sm) != LINK_IDLE && !l->closing;
        if (is_begun && !redis_link_is_up(l)) return false;
    }
    return !list_empty(&p->links);
}

/* --- where a link goes --- */

/* The server of the other links; while none is up, the next host at each try, beginning with the last primary's. */
bool place_target(const struct redis_place *p, struct redis_link *l)
{
    const struct redis_url *url = p->url;
    struct redis_target *t = &l->target;
    if (p->told_only) {
        *t = p->told;
        return t->host[0] != '\0';
    }
    l->host_at = 0;
    if (url->hosts_n > 0) l->host_at = (p->home + (place_is_up(p) ? 0 : l->tries)) % url->hosts_n;
    const struct redis_host *host = &url->hosts[l->host_at];
    snprintf(t->host, sizeof t->host, "%s", url->path != NULL ? url->path : host->name);
    t->port = url->path != NULL ? 0 : host->port;
    return true;
}

bool place_round_is_over(const struct redis_place *p, const struct redis_link *l)
{
    bool goes_round = !p->told_only && p->url->hosts_n > 1 && !place_is_up(p);
    return !goes_round || l->tries % p->url->hosts_n == 0;
}

uint32_t place_most_ms(const struct redis_place *p, uint32_t ms, uint32_t with_choice_ms)
{
    bool choice = p->told_only || p->url->hosts_n > 1;
    return choice && ms > with_choice_ms ? with_choice_ms : ms;
}

/* --- one server for all --- */

static void where_show(const struct redis_link *l, char *out, size_t size)
{
    struct sockaddr_storage peer;
    char ip[64];
    int n = sizeof peer;
    bool known = l->target.port != 0 && uv_tcp_getpeername(&l->io.tcp, (struct sockaddr *)&peer, &n) == 0 &&
                 uv_ip_name((struct sockaddr *)&peer, ip, sizeof ip) == 0;
    if (l->target.port == 0)
        snprintf(out, size, "%s", l->target.host);
    else
        snprintf(out, size, known && peer.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d",
                 known ? ip : l->target.host, l->target.port);
}

static void others_ask_role(struct redis_place *p)
{
    EACH_LINK (l, p)
        if (redis_link_is_up(l)) handshake_time(l);
}

bool place_agrees(struct redis_place *p, struct redis_link *l)
{
    if (place_is_up(p) && strcmp(p->run_id, l->facts.run_id) != 0) {
        uint64_t now_ms = mono_ms();
        if (p->odd_ms == 0) p->odd_ms = now_ms;
        if (now_ms - p->odd_ms >= ODD_MS)
            place_unfit(p, p->run_id, "MASTERDOWN Redis' name leads to another server now");
        else
            others_ask_role(p);
        return false;
    }
    p->odd_ms = 0;
    if (strcmp(p->run_id, l->facts.run_id) != 0) {
        p->role = (struct redis_role){0};
        if (p->run_id[0] != '\0') p->moved_ms = mono_ms();
    }
    memcpy(p->run_id, l->facts.run_id, sizeof p->run_id);
    memcpy(p->replid, l->facts.replid, sizeof p->replid);
    where_show(l, p->where, sizeof p->where);
    p->home = l->host_at;
    return true;
}

void place_unfit(struct redis_place *p, const char *run_id, const char *why)
{
    EACH_LINK (l, p)
        if (redis_link_is_up(l) && strcmp(l->facts.run_id, run_id) == 0) redis_link_cut(l, why);
}

/* --- the news --- */

void place_link_down(struct redis_place *p, const struct redis_link *l, const char *why)
{
    if (l->was_up && !p->leaving) {
        p->leaving = true;
        p->left_ms = mono_ms();
        snprintf(p->why, sizeof p->why, "%s", why);
        snprintf(p->move.from, sizeof p->move.from, "%s", p->where);
        memcpy(p->move.from_run_id, p->run_id, sizeof p->run_id);
    }
    place_doubt(p, why);
}

void place_link_up(struct redis_place *p)
{
    struct redis_move *m = &p->move;
    if (!place_is_whole(p)) return;
    p->odd_ms = 0;
    if (!p->leaving) return;
    p->leaving = false;
    if (strcmp(m->from_run_id, p->run_id) == 0) return;
    p->stray_ms = 0;
    memcpy(m->to_run_id, p->run_id, sizeof p->run_id);
    snprintf(m->to, sizeof m->to, "%s", p->where);
    m->why = p->why;
    m->ms = mono_ms() - p->left_ms;
    if (p->moved != NULL) p->moved(p, m);
}

void place_doubt(struct redis_place *p, const char *why)
{
    uint64_t now_ms = mono_ms();
    if (now_ms - p->doubted_ms < PLACE_DOUBT_MS) return;
    p->doubted_ms = now_ms;
    others_ask_role(p);
    if (p->doubted != NULL) p->doubted(p, why);
}

/* --- told from outside --- */

bool target_is(const struct redis_target *a, const struct redis_target *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool target_parse(struct slice host, struct slice port, struct redis_target *out)
{
    int64_t number;
    if (host.n == 0 || host.n >= sizeof out->host) return false;
    for (size_t i = 0; i < host.n; i++) /* a server says it, and it goes to the log and to clients as it is */
        if (host.p[i] <= ' ' || host.p[i] > '~') return false;
    if (!num_parse(port, &number) || number < 1 || number > 65535) return false;
    memcpy(out->host, host.p, host.n);
    out->host[host.n] = '\0';
    out->port = (int)number;
    return true;
}

void place_move(struct redis_place *p, const struct redis_target *target, const char *why)
{
    p->told = *target;
    for (unsigned i = 0; i < p->url->hosts_n; i++)
        if (p->url->hosts[i].port == target->port && strcmp(p->url->hosts[i].name, target->host) == 0)
            p->home = i;
    EACH_LINK (l, p) {
        l->tries = 0;
        if (!target_is(&l->target, target)) {
            l->at_once = true;
            redis_link_cut(l, why);
        }
        link_try_now(l);
    }
}

void place_hold(struct redis_place *p, bool hold)
{
    bool was = p->hold_ms != 0;
    if (hold == was) return;
    p->hold_ms = hold ? mono_ms() : 0;
    if (p->held != NULL) p->held(p, hold);
}

void place_stray(struct redis_place *p)
{
    uint64_t now_ms = mono_ms();
    if (p->stray_ms == 0) p->stray_ms = now_ms;
    if (now_ms - p->stray_ms < p->hold_most_ms) place_hold(p, true);
}

void place_found(struct redis_place *p)
{
    if (p->redirected != NULL) place_hold(p, false);
}

void place_served(struct redis_place *p)
{
    p->stray_ms = 0;
}

/* "MOVED <slot> <host>:<port>"; no host: that of the server that says it. "?": it knows none, but the nodes may. */
void place_redirect(struct redis_place *p, const struct redis_link *l, const char *line)
{
    const char *at = strrchr(line, ' '), *colon = at == NULL ? NULL : strrchr(at, ':');
    struct redis_target to;
    place_stray(p);
    if (colon == NULL) return;
    struct slice host = slice_of(at + 1, (size_t)(colon - at - 1));
    if (host.n == 0) host = slice_str(l->target.host);
    bool known = !slice_eq(host, SLICE("?")) && target_parse(host, slice_str(colon + 1), &to);
    if (known && p->redirected != NULL) p->redirected(p, &to, line);
}

void place_tick(struct redis_place *p, uint64_t now_ms)
{
    uint64_t since_ms = p->stray_ms != 0 ? p->stray_ms : p->hold_ms;
    if (p->hold_ms != 0 && now_ms - since_ms >= p->hold_most_ms) place_hold(p, false);
}

/* --- A scout is a link to one host that comes up or not: only a primary's does. --- */

#define SCOUT_MS 500

void scouts_init(struct redis_scouts *s, uv_loop_t *loop, const struct life *life, struct redis_place *place)
{
    *s = (struct redis_scouts){.place = place, .loop = loop, .life = life};
}

static void scout_gone(struct redis_link *l)
{
    struct redis_scout *scout = l->arg;
    struct redis_scouts *s = scout->of;
    scout->out = false;
    if (--s->out == 0 && s->closing) s->closed(s);
}

/* A primary that came back after another was promoted is also a primary, but with older data: it has another
 * replication id. */
static void scout_up(struct redis_link *l)
{
    const struct redis_scout *scout = l->arg;
    struct redis_place *p = scout->of->place;
    bool continues = p->replid[0] != '\0' && strcmp(l->facts.replid2, p->replid) == 0;
    if (strcmp(l->facts.run_id, p->run_id) != 0 && (continues || !place_is_up(p)))
        place_move(p, &l->target, "MASTERDOWN Redis has another primary now");
    redis_link_close(l, scout_gone);
}

static void scout_down(struct redis_link *l, const char *why)
{
    (void)why;
    redis_link_close(l, scout_gone);
}

static void scout_send(struct redis_scouts *s, unsigned i)
{
    struct redis_scout *scout = &s->all[i];
    const struct redis_url *url = s->place->url;
    scout->of = s;
    scout->sent_ms = mono_ms();
    scout->out = true;
    s->out++;
    scout->url = *url;
    scout->url.hosts[0] = url->hosts[i];
    scout->url.hosts_n = 1;
    place_init(&scout->place, &scout->url);
    redis_link_init(&scout->link, s->loop,
                    &(struct redis_link_config){.place = &scout->place,
                                                .life = s->life,
                                                .role = "scout",
                                                .quiet = true,
                                                .connect_ms = SCOUT_MS,
                                                .answer_ms = SCOUT_MS});
    scout->link.up = scout_up;
    scout->link.down = scout_down;
    scout->link.arg = scout;
    redis_link_start(&scout->link);
}

void scouts_send(struct redis_scouts *s)
{
    const struct redis_place *p = s->place;
    uint64_t now_ms = mono_ms();
    if (p->told_only || p->url->hosts_n < 2 || s->closing) return;
    for (unsigned i = 0; i < p->url->hosts_n; i++)
        if (!s->all[i].out && now_ms - s->all[i].sent_ms >= SCOUT_MS && (i != p->home || !place_is_up(p)))
            scout_send(s, i);
}

void scouts_close(struct redis_scouts *s, void (*closed)(struct redis_scouts *s))
{
    s->closing = true;
    s->closed = closed;
    for (unsigned i = 0; i < REDIS_HOSTS_MAX; i++)
        if (s->all[i].out && !s->all[i].link.closing) redis_link_close(&s->all[i].link, scout_gone);
    if (s->out == 0) closed(s);
}

/* --- talks --- */

static void seeker_less(struct seeker *f)
{
    void (*closed)(void *) = f->closed;
    void *arg = f->closed_arg;
    if (--f->open > 0) return;
    f->gone(f);
    if (closed != NULL) closed(arg);
}

static void seeker_tick_closed(uv_handle_t *handle)
{
    seeker_less(CONTAINER_OF(handle, struct seeker, tick));
}

void seeker_init(struct seeker *f, uv_loop_t *loop, uv_timer_cb tick, uint64_t every_ms,
                 void (*gone)(struct seeker *f))
{
    *f = (struct seeker){.loop = loop, .open = 1, .gone = gone};
    uv_timer_init(loop, &f->tick);
    f->tick.data = f;
    uv_timer_start(&f->tick, tick, every_ms, every_ms);
}

void seeker_close(struct seeker *f, void (*closed)(void *arg), void *arg)
{
    f->closed = closed;
    f->closed_arg = arg;
    uv_close((uv_handle_t *)&f->tick, seeker_tick_closed);
}

void talk_open(struct talk *t, const struct redis_url *access, const char *role,
               void (*up)(struct redis_link *), void (*down)(struct redis_link *, const char *), void *arg)
{
    const struct redis_link_config config = {.place = &t->place,
                                             .role = role,
                                             .plain = true,
                                             .quiet = true,
                                             .connect_ms = 1000,
                                             .answer_ms = 1000,
                                             .retry_most_ms = 500};
    place_init(&t->place, access);
    t->place.told_only = true;
    redis_link_init(&t->link, t->of->loop, &config);
    place_move(&t->place, &t->at, "");
    t->link.up = up;
    t->link.down = down;
    t->link.arg = arg;
    t->open = true;
    t->asking = false;
    t->asked_ms = 0;
    t->of->open++;
    redis_link_start(&t->link);
}

static void talk_closed(struct redis_link *l)
{
    struct talk *t = CONTAINER_OF(l, struct talk, link);
    t->open = t->closing = false;
    seeker_less(t->of);
}

void talk_close(struct talk *t)
{
    t->at = (struct redis_target){0};
    if (!t->open || t->closing) return;
    t->closing = true;
    redis_link_close(&t->link, talk_closed);
}

bool talk_asks(struct talk *t, uint64_t pause_ms)
{
    uint64_t now_ms = mono_ms();
    if (t->asking || t->closing || !redis_link_is_up(&t->link) || now_ms - t->asked_ms < pause_ms)
        return false;
    t->asked_ms = now_ms;
    return t->asking = true;
}

bool talk_says(struct talk *t, unsigned state, const char *text)
{
    bool same = t->told && t->state == state;
    t->told = true;
    t->state = state;
    snprintf(t->text, sizeof t->text, "%.*s", (int)sizeof t->text - 1, text);
    return !same;
}

const char *talk_end_why(const struct redis_link *l, const char *why)
{
    if (l->refusal.code != ERR_NONE) return l->refusal.text;
    return strncmp(why, "MASTERDOWN ", 11) == 0 ? why + 11 : why;
}

void talk_hear(struct talk *t, uint64_t until_ms)
{
    while (!t->told && mono_ms() < until_ms)
        uv_run(t->of->loop, UV_RUN_ONCE);
}
