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
#define DOUBT_MS 100    /* while the owner is in doubt, and while no link is up */
#define FRESH_MS 3000   /* a node's answer counts for this long */
#define TOLD_MS 1000    /* for this long the nodes may still name the one that a MOVED has left */
#define FOLLOW_MS 100   /* the next MOVED is followed this much later at the earliest */
#define FORGET_MS 10000 /* a found node that is silent for this long gives its room to another */

struct word {                 /* of a node about a slot */
    struct redis_target said; /* by CLUSTER SLOTS, until CLUSTER NODES tells its epoch; host empty: no node */
    char said_id[CLUSTER_ID_BYTES];
    struct redis_target owner; /* host empty: no node, or not told yet */
    uint64_t epoch;            /* of the owner */
};

struct node {
    struct cluster *of;
    struct redis_place place;
    struct redis_link link;
    struct redis_target at;
    bool open, asking, answered, found, told; /* told: it has said something, or could not be reached */
    uint64_t asked_ms, heard_ms;              /* mono; 0: never */
    enum cluster_state state;
    char text[240];
    struct word *words; /* one a seat */
};

struct seat { /* where one slot is */
    struct redis_place *place;
    struct redis_target now; /* where its links are, or go; host empty: not known yet */
    uint64_t told_ms;        /* mono, of a MOVED that no node has confirmed yet; 0: none */
    uint64_t followed_ms;
};

struct cluster {
    struct seat *seats;
    uint32_t seats_n;
    uv_loop_t *loop;
    uv_timer_t tick;
    struct node all[CLUSTER_NODES_MAX];
    uint32_t n, configured_n;
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

static void seat_move(struct seat *s, const struct redis_target *to, const char *why)
{
    s->now = *to;
    log_event(LOG_INFO, "cluster_says", "slot=%u node=%s:%d why=%s", s->place->slot, to->host, to->port,
              LOGQ(why));
    place_move(s->place, to, CLUSTER_ASTRAY);
}

static bool word_is_fresh(const struct node *n, uint32_t at, uint64_t now_ms)
{
    bool answers = n->state == CLUSTER_NAMES || n->state == CLUSTER_UNOWNED;
    return answers && n->words[at].owner.host[0] != '\0' && n->heard_ms != 0 &&
           now_ms - n->heard_ms <= FRESH_MS;
}

/* Of equal epochs the one where we are. */
static const struct node *best_node(const struct cluster *c, uint32_t at, uint64_t now_ms)
{
    const struct node *best = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct node *n = &c->all[i];
        if (!word_is_fresh(n, at, now_ms)) continue;
        const struct word *w = &n->words[at];
        uint64_t most = best == NULL ? 0 : best->words[at].epoch;
        bool same = best != NULL && w->epoch == most && target_is(&w->owner, &c->seats[at].now);
        if (best == NULL || w->epoch > most || same) best = n;
    }
    return best;
}

static void seat_decide(struct cluster *c, uint32_t at, uint64_t now_ms)
{
    struct seat *s = &c->seats[at];
    const struct node *best = best_node(c, at, now_ms);
    char why[340];
    if (best == NULL) return;
    const struct word *w = &best->words[at];
    if (target_is(&w->owner, &s->now)) s->told_ms = 0;
    if (s->told_ms != 0 && now_ms - s->told_ms < TOLD_MS) return;
    if (target_is(&w->owner, &s->now)) return;
    snprintf(why, sizeof why, "the node %s:%d says so, epoch %llu", best->at.host, best->at.port,
             (unsigned long long)w->epoch);
    seat_move(s, &w->owner, why);
}

static struct seat *seat_of(struct cluster *c, const struct redis_place *place)
{
    for (uint32_t i = 0; i < c->seats_n; i++)
        if (c->seats[i].place == place) return &c->seats[i];
    UNREACHABLE();
}

static void cluster_ask_all(struct cluster *c, uint64_t pause_ms);

static void place_redirects(struct redis_place *place, const struct redis_target *to, const char *why)
{
    struct cluster *c = place->finder;
    struct seat *s = seat_of(c, place);
    uint64_t now_ms = mono_ms();
    bool again = s->followed_ms != 0 && now_ms - s->followed_ms < FOLLOW_MS;
    cluster_ask_all(c, DOUBT_MS);
    if (again || target_is(to, &s->now)) return;
    s->followed_ms = s->told_ms = now_ms;
    seat_move(s, to, why);
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

/* Adds its address, or replaces that of a found node that is gone. */
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
        memset(n->words, 0, c->seats_n * sizeof *n->words);
        n->heard_ms = now_ms;
        place_move(&n->place, at, "");
        return;
    }
}

static void range_found(struct cluster *c, const struct redis_answer *range, const struct redis_target *asked)
{
    struct redis_target at;
    uint64_t now_ms = mono_ms();
    for (size_t i = 2; range != NULL && answer_is(range, REDIS_ARRAY) && i < range->n; i++)
        if (endpoint_read(&range->elements[i], asked, &at)) node_found(c, &at, now_ms);
}

/* Nodes of our slots first: they are the first to know of a failover. */
static void nodes_found(struct cluster *c, const struct redis_answer *slots, const struct redis_target *asked)
{
    for (uint32_t i = 0; i < c->seats_n; i++)
        range_found(c, range_of(slots, c->seats[i].place->slot), asked);
    for (size_t i = 0; i < slots->n; i++)
        range_found(c, &slots->elements[i], asked);
}

/* False: no node serves the slot. */
static bool word_file(struct word *w, const struct node *n, const struct redis_answer *r, unsigned slot)
{
    struct slice id;
    bool owned = cluster_owner(r, slot, &n->at, &w->said, &id);
    if (owned)
        slice_show(id, sizeof w->said_id - 1, w->said_id, sizeof w->said_id);
    else
        w->said.host[0] = '\0';
    return owned;
}

static void slots_file(struct node *n, const struct redis_answer *r)
{
    struct cluster *c = n->of;
    char why[200], unserved[40] = "";
    n->answered = answer_is(r, REDIS_ARRAY);
    if (!n->answered) {
        answer_why(r, why, sizeof why);
        node_says(n, CLUSTER_REFUSES, why);
        return;
    }
    for (uint32_t i = 0; i < c->seats_n; i++) {
        unsigned slot = c->seats[i].place->slot;
        if (!word_file(&n->words[i], n, r, slot)) snprintf(unserved, sizeof unserved, "slot %u", slot);
    }
    node_says(n, unserved[0] == '\0' ? CLUSTER_NAMES : CLUSTER_UNOWNED, unserved);
    nodes_found(c, r, &n->at);
}

static void epochs_file(struct node *n, const struct redis_answer *r)
{
    struct slice nodes = answer_is(r, REDIS_STRING) ? r->str : slice_of(NULL, 0);
    for (uint32_t i = 0; i < n->of->seats_n; i++) {
        struct word *w = &n->words[i];
        w->owner = w->said;
        w->epoch = w->said.host[0] == '\0' ? 0 : cluster_epoch(nodes, slice_str(w->said_id));
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
    if (!n->answered) return;
    epochs_file(n, r);
    for (uint32_t i = 0; i < n->of->seats_n; i++)
        seat_decide(n->of, i, n->heard_ms);
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
    bool up = true;
    for (uint32_t i = 0; i < c->seats_n && up; i++)
        up = place_is_up(c->seats[i].place);
    cluster_ask_all(c, up ? ASK_MS : DOUBT_MS);
}

/* --- begin and end --- */

static void node_open(struct cluster *c, struct node *n)
{
    n->of = c;
    n->words = heap_zalloc(c->seats_n * sizeof *n->words);
    redis_link_init_asker(&n->link, c->loop, &n->place, c->seats[0].place->url, &n->at, "cluster");
    n->link.up = node_up;
    n->link.down = node_down;
    n->link.arg = n;
    n->open = true;
    n->heard_ms = mono_ms();
    redis_link_start(&n->link);
}

static void seat_init(struct seat *s, struct cluster *c, struct redis_place *place)
{
    s->place = place;
    place->told_only = true;
    place->doubted = cluster_doubted;
    place->redirected = place_redirects;
    place->finder = c;
}

struct cluster *cluster_create(uv_loop_t *loop, struct redis_place *const *places, uint32_t n_places)
{
    struct cluster *c = heap_zalloc(sizeof *c);
    const struct redis_url *url = places[0]->url;
    c->loop = loop;
    c->seats_n = n_places;
    c->seats = heap_zalloc(n_places * sizeof *c->seats);
    for (uint32_t i = 0; i < n_places; i++)
        seat_init(&c->seats[i], c, places[i]);
    for (unsigned i = 0; i < url->hosts_n; i++) {
        struct node *n = &c->all[c->n];
        n->at.port = url->hosts[i].port;
        snprintf(n->at.host, sizeof n->at.host, "%s", url->hosts[i].name);
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
    for (uint32_t i = 0; i < c->n; i++)
        heap_free(c->all[i].words);
    heap_free(c->seats);
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
    for (uint32_t i = 0; i < c->seats_n; i++) {
        c->seats[i].place->doubted = NULL;
        c->seats[i].place->redirected = NULL;
    }
    c->closed = closed;
    c->closed_arg = arg;
    for (uint32_t i = 0; i < c->n; i++)
        redis_link_close(&c->all[i].link, node_closed);
    uv_close((uv_handle_t *)&c->tick, cluster_tick_closed);
}

/* --- what is known of them --- */

static uint32_t slots_at(const struct cluster *c, const struct node *n)
{
    uint32_t own = 0;
    for (uint32_t i = 0; i < c->seats_n; i++)
        own += target_is(&n->words[i].owner, &n->at);
    return own;
}

uint32_t cluster_look(const struct cluster *c, struct cluster_seen *out)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const struct node *n = &c->all[i];
        out[i] = (struct cluster_seen){.at = n->at,
                                       .owner = n->words[0].owner,
                                       .own = slots_at(c, n),
                                       .state = n->state,
                                       .found = n->found};
        snprintf(out[i].text, sizeof out[i].text, "%s", n->text);
    }
    return c->n;
}

static enum err cluster_why(const struct cluster *c, unsigned slot, struct error *e)
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
            slot, unowned->at.host, unowned->at.port);
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
    for (uint32_t i = 0; i < c->seats_n;) {
        const struct seat *s = &c->seats[i];
        if (s->now.host[0] != '\0')
            i++;
        else if (mono_ms() >= until_ms)
            return cluster_why(c, s->place->slot, e);
        else
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
