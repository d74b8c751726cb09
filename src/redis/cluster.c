/* redis/cluster.c - see cluster.h. */
#include "redis/cluster.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/num.h"
#include "redis/reader.h"
#include "redis/request.h"
#include <stdio.h>

#define TICK_MS 50
#define ASK_MS 1000
#define DOUBT_MS 100    /* while somebody doubts, and while no link is up */
#define FRESH_MS 3000   /* what a node said counts for so long */
#define TOLD_MS 1000    /* so long the nodes may still name the one that a MOVED has left */
#define FOLLOW_MS 100   /* the next MOVED is followed so much later at the earliest */
#define FORGET_MS 10000 /* a found node that is silent for so long gives its room to another */

struct node {
    struct cluster *of;
    struct redis_place place;
    struct redis_link link;
    struct redis_target at;
    bool open, asking, found, told; /* told: it has said something, or could not be reached */
    uint64_t asked_ms, heard_ms;    /* mono; 0: never */
    enum cluster_state state;
    char text[240];
    struct redis_target said; /* by CLUSTER SLOTS, until CLUSTER NODES tells its epoch; host empty: nobody */
    char said_id[CLUSTER_ID_BYTES];
    struct redis_target owner;
    uint64_t epoch; /* of the owner */
};

struct cluster {
    struct redis_place *place;
    uv_loop_t *loop;
    uv_timer_t tick;
    struct node all[CLUSTER_NODES_MAX];
    uint32_t n, configured_n;
    struct redis_target now; /* where links are, or go; host empty: nobody has said it */
    uint64_t told_ms;        /* mono, of a MOVED that no node has confirmed yet; 0: none */
    uint64_t followed_ms;
    bool closing, tick_closed;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* --- what a node says --- */

static bool endpoint_read(const struct redis_answer *r, const struct redis_target *asked,
                          struct redis_target *out)
{
    char port[24];
    if (!answer_is(r, REDIS_ARRAY) || r->n < 3 || !answer_is(&r->elements[1], REDIS_INTEGER)) return false;
    struct slice host = r->elements[0].str;
    if (host.n == 0 || (host.n == 1 && host.p[0] == '?')) host = slice_str(asked->host);
    return target_parse(host, slice_of(port, num_write(r->elements[1].integer, port)), out);
}

/* [first, last, [host, port, id, ...] of the master, ... of each replica] */
static const struct redis_answer *range_of(const struct redis_answer *r, unsigned slot)
{
    for (size_t i = 0; answer_is(r, REDIS_ARRAY) && i < r->n; i++) {
        const struct redis_answer *e = &r->elements[i];
        if (!answer_is(e, REDIS_ARRAY) || e->n < 3) continue;
        if (e->elements[0].integer <= (int64_t)slot && (int64_t)slot <= e->elements[1].integer) return e;
    }
    return NULL;
}

bool cluster_owner(const struct redis_answer *r, unsigned slot, const struct redis_target *asked,
                   struct redis_target *owner, struct slice *id)
{
    const struct redis_answer *range = range_of(r, slot);
    if (range == NULL || !endpoint_read(&range->elements[2], asked, owner)) return false;
    *id = range->elements[2].elements[2].str;
    return true;
}

/* id address flags master ping pong epoch ... */
uint64_t cluster_epoch(struct slice nodes, struct slice id)
{
    uint64_t epoch = 0;
    while (nodes.n > 0) {
        const char *eol = memchr(nodes.p, '\n', nodes.n);
        struct slice line = slice_of(nodes.p, eol == NULL ? nodes.n : (size_t)(eol - nodes.p));
        size_t used = line.n + (eol != NULL);
        nodes = slice_of(nodes.p + used, nodes.n - used);
        if (id.n == 0 || !slice_starts(line, id) || line.n == id.n || line.p[id.n] != ' ') continue;
        for (int word = 0; word < 6; word++) {
            const char *space = memchr(line.p, ' ', line.n);
            if (space == NULL) return 0;
            line = slice_of(space + 1, line.n - (size_t)(space + 1 - line.p));
        }
        const char *end = memchr(line.p, ' ', line.n);
        if (end != NULL) line.n = (size_t)(end - line.p);
        return num_parse_u64(line, &epoch) ? epoch : 0;
    }
    return 0;
}

/* --- where the slot is --- */

static void cluster_move(struct cluster *c, const struct redis_target *to, const char *why)
{
    c->now = *to;
    log_event(LOG_INFO, "cluster_says", "slot=%u node=%s:%d why=%s", c->place->slot, to->host, to->port,
              LOGQ(why));
    place_move(c->place, to, CLUSTER_ASTRAY);
}

static bool word_is_fresh(const struct node *n, uint64_t now_ms)
{
    return n->state == CLUSTER_NAMES && n->heard_ms != 0 && now_ms - n->heard_ms <= FRESH_MS;
}

/* Of equal epochs the one where we are. */
static const struct node *best_word(const struct cluster *c, uint64_t now_ms)
{
    const struct node *best = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct node *n = &c->all[i];
        if (!word_is_fresh(n, now_ms)) continue;
        bool same = best != NULL && n->epoch == best->epoch && target_is(&n->owner, &c->now);
        if (best == NULL || n->epoch > best->epoch || same) best = n;
    }
    return best;
}

static void cluster_decide(struct cluster *c, uint64_t now_ms)
{
    const struct node *best = best_word(c, now_ms);
    char why[340];
    if (best == NULL) return;
    if (target_is(&best->owner, &c->now)) c->told_ms = 0;
    if (c->told_ms != 0 && now_ms - c->told_ms < TOLD_MS) return;
    if (target_is(&best->owner, &c->now)) return;
    snprintf(why, sizeof why, "the node %s:%d says so, epoch %llu", best->at.host, best->at.port,
             (unsigned long long)best->epoch);
    cluster_move(c, &best->owner, why);
}

static void cluster_ask_all(struct cluster *c, uint64_t pause_ms);

static void place_redirects(struct redis_place *place, const struct redis_target *to, const char *why)
{
    struct cluster *c = place->finder;
    uint64_t now_ms = mono_ms();
    bool again = c->followed_ms != 0 && now_ms - c->followed_ms < FOLLOW_MS;
    cluster_ask_all(c, DOUBT_MS);
    if (again || target_is(to, &c->now)) return;
    c->followed_ms = c->told_ms = now_ms;
    cluster_move(c, to, why);
}

/* --- asking --- */

static void node_open(struct cluster *c, struct node *n);

static void node_says(struct node *n, enum cluster_state state, const char *text)
{
    bool same = n->told && n->state == state;
    n->told = true;
    n->state = state;
    snprintf(n->text, sizeof n->text, "%.*s", (int)sizeof n->text - 1, text);
    static const char *const names[] = {"silent", "refuses", "slot_unserved", "answers"};
    if (!same && (!n->found || state != CLUSTER_SILENT))
        log_event(state == CLUSTER_NAMES ? LOG_INFO : LOG_WARN, "cluster_node", "at=%s:%d state=%s why=%s",
                  n->at.host, n->at.port, names[state], LOGQ(text));
}

static bool node_is_asked(const struct cluster *c, const struct redis_target *at)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (target_is(&c->all[i].at, at)) return true;
    return false;
}

/* Its address: one more, or in the place of a found one that is gone. */
static void node_found(struct cluster *c, const struct redis_target *at, uint64_t now_ms)
{
    if (node_is_asked(c, at)) return;
    if (c->n < CLUSTER_NODES_MAX) {
        struct node *n = &c->all[c->n++];
        *n = (struct node){.at = *at, .found = true};
        node_open(c, n);
        return;
    }
    for (uint32_t i = c->configured_n; i < c->n; i++) {
        struct node *n = &c->all[i];
        if (n->state != CLUSTER_SILENT || now_ms - n->heard_ms < FORGET_MS) continue;
        n->at = *at;
        n->told = false;
        n->heard_ms = now_ms;
        place_move(&n->place, at, "");
        return;
    }
}

/* Those of our slot first: they are the first to know of a failover. */
static void nodes_found(struct cluster *c, const struct redis_answer *slots, const struct redis_target *asked)
{
    const struct redis_answer *ours = range_of(slots, c->place->slot);
    struct redis_target at;
    uint64_t now_ms = mono_ms();
    for (size_t i = 2; ours != NULL && i < ours->n; i++)
        if (endpoint_read(&ours->elements[i], asked, &at)) node_found(c, &at, now_ms);
    for (size_t i = 0; i < slots->n; i++) {
        const struct redis_answer *range = &slots->elements[i];
        for (size_t j = 2; answer_is(range, REDIS_ARRAY) && j < range->n; j++)
            if (endpoint_read(&range->elements[j], asked, &at)) node_found(c, &at, now_ms);
    }
}

static void slots_file(struct node *n, const struct redis_answer *r)
{
    struct cluster *c = n->of;
    struct slice id;
    char why[200];
    n->said.host[0] = '\0';
    if (!answer_is(r, REDIS_ARRAY)) {
        answer_why(r, why, sizeof why);
        node_says(n, CLUSTER_REFUSES, why);
    } else if (!cluster_owner(r, c->place->slot, &n->at, &n->said, &id)) {
        node_says(n, CLUSTER_UNOWNED, "");
    } else {
        slice_show(id, sizeof n->said_id - 1, n->said_id, sizeof n->said_id);
        nodes_found(c, r, &n->at);
    }
}

static void node_answers(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct node *n = arg;
    (void)l;
    if (r == NULL || at == 1) n->asking = false;
    if (r == NULL || n->of->closing) return;
    if (at == 0) {
        slots_file(n, r);
        return;
    }
    n->heard_ms = mono_ms();
    if (n->said.host[0] == '\0') return;
    n->owner = n->said;
    n->epoch = answer_is(r, REDIS_STRING) ? cluster_epoch(r->str, slice_str(n->said_id)) : 0;
    node_says(n, CLUSTER_NAMES, "");
    cluster_decide(n->of, n->heard_ms);
}

static void node_ask(struct node *n, uint64_t now_ms)
{
    if (n->asking || !redis_link_is_up(&n->link)) return;
    n->asking = true;
    n->asked_ms = now_ms;
    request_words(redis_link_begin(&n->link), "CLUSTER SLOTS");
    request_words(redis_link_begin(&n->link), "CLUSTER NODES");
    redis_link_ask(&n->link, 2, node_answers, n);
}

static void cluster_ask_all(struct cluster *c, uint64_t pause_ms)
{
    uint64_t now_ms = mono_ms();
    for (uint32_t i = 0; i < c->n; i++)
        if (now_ms - c->all[i].asked_ms >= pause_ms) node_ask(&c->all[i], now_ms);
}

static void cluster_doubted(struct redis_place *place, const char *why)
{
    (void)why;
    cluster_ask_all(place->finder, DOUBT_MS);
}

static void node_up(struct redis_link *l)
{
    node_ask(l->arg, mono_ms());
}

static void node_down(struct redis_link *l, const char *why)
{
    struct node *n = l->arg;
    const char *text = strncmp(why, "MASTERDOWN ", 11) == 0 ? why + 11 : why;
    bool refuses = l->refusal.code != ERR_NONE;
    n->asking = false;
    node_says(n, refuses ? CLUSTER_REFUSES : CLUSTER_SILENT, refuses ? l->refusal.text : text);
}

static void cluster_tick(uv_timer_t *timer)
{
    struct cluster *c = timer->data;
    cluster_ask_all(c, place_is_up(c->place) ? ASK_MS : DOUBT_MS);
}

/* --- begin and end --- */

static void node_open(struct cluster *c, struct node *n)
{
    n->of = c;
    redis_link_init_asker(&n->link, c->loop, &n->place, c->place->url, &n->at, "cluster");
    n->link.up = node_up;
    n->link.down = node_down;
    n->link.arg = n;
    n->open = true;
    n->heard_ms = mono_ms();
    redis_link_start(&n->link);
}

struct cluster *cluster_create(uv_loop_t *loop, struct redis_place *place)
{
    struct cluster *c = heap_zalloc(sizeof *c);
    c->loop = loop;
    c->place = place;
    place->told_only = true;
    place->doubted = cluster_doubted;
    place->redirected = place_redirects;
    place->finder = c;
    for (unsigned i = 0; i < place->url->hosts_n; i++) {
        struct node *n = &c->all[c->n];
        n->at.port = place->url->hosts[i].port;
        snprintf(n->at.host, sizeof n->at.host, "%s", place->url->hosts[i].name);
        c->configured_n = ++c->n;
        node_open(c, n);
    }
    uv_timer_init(loop, &c->tick);
    c->tick.data = c;
    uv_timer_start(&c->tick, cluster_tick, TICK_MS, TICK_MS);
    return c;
}

static void cluster_maybe_closed(struct cluster *c)
{
    bool open = !c->tick_closed;
    for (uint32_t i = 0; i < c->n; i++)
        open |= c->all[i].open;
    if (open) return;
    void (*closed)(void *) = c->closed;
    void *arg = c->closed_arg;
    heap_free(c);
    closed(arg);
}

static void node_closed(struct redis_link *l)
{
    struct node *n = l->arg;
    n->open = false;
    cluster_maybe_closed(n->of);
}

static void cluster_tick_closed(uv_handle_t *handle)
{
    struct cluster *c = handle->data;
    c->tick_closed = true;
    cluster_maybe_closed(c);
}

void cluster_close(struct cluster *c, void (*closed)(void *arg), void *arg)
{
    c->closing = true;
    c->place->doubted = NULL;
    c->place->redirected = NULL;
    c->closed = closed;
    c->closed_arg = arg;
    for (uint32_t i = 0; i < c->n; i++)
        redis_link_close(&c->all[i].link, node_closed);
    uv_close((uv_handle_t *)&c->tick, cluster_tick_closed);
}

/* --- what is known of them --- */

uint32_t cluster_look(const struct cluster *c, struct cluster_seen *out)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const struct node *n = &c->all[i];
        out[i] = (struct cluster_seen){.at = n->at, .owner = n->owner, .state = n->state, .found = n->found};
        snprintf(out[i].text, sizeof out[i].text, "%s", n->text);
    }
    return c->n;
}

static enum err cluster_why(const struct cluster *c, struct error *e)
{
    const struct node *refuses = NULL, *unowned = NULL, *silent = &c->all[0];
    for (uint32_t i = c->n; i-- > 0;) {
        const struct node *n = &c->all[i];
        if (n->state == CLUSTER_REFUSES) refuses = n;
        if (n->state == CLUSTER_UNOWNED) unowned = n;
        if (n->state == CLUSTER_SILENT) silent = n;
    }
    if (unowned != NULL)
        return error_set(
            e, ERR_UNAVAILABLE,
            "CLUSTERDOWN no node of the cluster serves slot %u, says %s:%d: see redis-cli --cluster "
            "check",
            c->place->slot, unowned->at.host, unowned->at.port);
    if (refuses != NULL)
        return error_set(
            e, ERR_CONFIG,
            "the cluster node %s:%d refuses tallyd (%s): see redis.url and its password; for a Redis "
            "that is no cluster write redis://",
            refuses->at.host, refuses->at.port, refuses->text);
    return error_set(
        e, ERR_UNAVAILABLE,
        "none of the %u cluster nodes of redis.url answers (%s:%d: %s): see that they run, and that "
        "redis.url is right",
        c->configured_n, silent->at.host, silent->at.port, silent->text);
}

enum err cluster_wait(struct cluster *c, uint64_t wait_ms, struct error *e)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    while (c->now.host[0] == '\0') {
        if (mono_ms() >= until_ms) return cluster_why(c, e);
        uv_run(c->loop, UV_RUN_ONCE);
    }
    return ERR_NONE;
}

void cluster_hear_all(struct cluster *c, uint64_t wait_ms)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    for (uint32_t i = 0; i < c->configured_n && mono_ms() < until_ms;) {
        if (c->all[i].told)
            i++;
        else
            uv_run(c->loop, UV_RUN_ONCE);
    }
}
