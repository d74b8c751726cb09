/* redis/cluster.c - see seek.h. */
#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"
#include "redis/ask.h"
#include "redis/link_in.h"
#include "redis/seek.h"
#include <stdio.h>

#define CLUSTER_MS 50
#define ASK_MS 1000
#define HEAR_MS 1000       /* at a start, for nodes beside those that have named the owners */
#define OWNER_DOUBT_MS 100 /* while the owner is in doubt, and while no link is up */
#define FRESH_MS 3000      /* a node's answer counts for this long */
#define TOLD_MS 1000       /* for this long the nodes may still name the one that a MOVED has left */
#define FOLLOW_MS 100      /* the next MOVED is followed this much later at the earliest */
#define FORGET_MS 10000    /* a found node that no node names for this long is asked no more */

struct word {                  /* of a node about a slot */
    struct redis_target owner; /* host empty: no node, or not told yet */
    uint64_t epoch;            /* of the owner */
};

struct node {
    struct cluster *of;
    struct talk talk;
    bool found;
    uint64_t heard_ms, named_ms; /* mono; 0: never. named: by another node, as one of the cluster */
    struct buf nodes;            /* its CLUSTER NODES, until its CLUSTER SLOTS comes */
    struct word *words;          /* one a seat */
};

struct seat { /* where one slot is */
    struct redis_place *place;
    struct redis_target now; /* where its links are, or go; host empty: not known yet */
    uint64_t told_ms;        /* mono, of a MOVED that no node has confirmed yet; 0: none */
    uint64_t followed_ms;
};

struct cluster {
    struct seeker seeker;
    struct seat *seats;
    uint32_t seats_n;
    struct node all[CLUSTER_NODES_MAX];
    uint32_t n, configured_n;
    char masters[CLUSTER_NODES_MAX][CLUSTER_ID_BYTES]; /* that have slots: who knows none is not ours */
    uint32_t masters_n;
};

/* --- what a node says --- */

/* node: [host, port, id, [name, value, ...]]. A node without the hostname that the cluster prefers is "?", and has "ip". */
static struct slice endpoint_host(const struct redis_answer *node, const struct redis_target *asked)
{
    struct slice host = node->elements[0].str, none = slice_str(asked->host);
    const struct redis_answer *more = node->n > 3 ? &node->elements[3] : NULL;
    if (!slice_eq(host, SLICE("?"))) return host.n > 0 ? host : none;
    for (size_t i = 0; answer_is(more, REDIS_ARRAY) && i + 1 < more->n; i += 2)
        if (answer_is(&more->elements[i], REDIS_STRING) && slice_eq(more->elements[i].str, SLICE("ip")) &&
            answer_is(&more->elements[i + 1], REDIS_STRING))
            return more->elements[i + 1].str;
    return none;
}

static bool endpoint_read(const struct redis_answer *r, const struct redis_target *asked,
                          struct redis_target *out)
{
    char port[24];
    if (!answer_is(r, REDIS_ARRAY) || r->n < 3 || !answer_is(&r->elements[1], REDIS_INTEGER)) return false;
    if (!answer_is(&r->elements[0], REDIS_STRING) && !answer_is(&r->elements[0], REDIS_NIL)) return false;
    return target_parse(endpoint_host(r, asked), slice_of(port, num_write(r->elements[1].integer, port)),
                        out);
}

/* range: [first, last, [host, port, id, ...] of the master, ... of each replica] */
static const struct redis_answer *slot_range(const struct redis_answer *r, int64_t slot)
{
    for (size_t i = 0; answer_is(r, REDIS_ARRAY) && i < r->n; i++) {
        const struct redis_answer *range = &r->elements[i], *ends = range->elements;
        if (range->type == REDIS_ARRAY && range->n >= 3 && answer_is(&ends[0], REDIS_INTEGER) &&
            answer_is(&ends[1], REDIS_INTEGER) && ends[0].integer <= slot && slot <= ends[1].integer)
            return range;
    }
    return NULL;
}

bool cluster_owner(const struct redis_answer *r, unsigned slot, const struct redis_target *asked,
                   struct redis_target *owner, struct slice *id)
{
    const struct redis_answer *range = slot_range(r, slot);
    if (range == NULL || !endpoint_read(&range->elements[2], asked, owner)) return false;
    *id = range->elements[2].elements[2].str;
    return true;
}

enum { NODE_ID, NODE_FLAGS = 2, NODE_EPOCH = 6, NODE_SLOTS = 8, NODE_WORDS };

/* A line of CLUSTER NODES: id address flags master ping pong epoch link slots ... False: there is none left. */
static bool node_line_take(struct slice *nodes, struct slice words[NODE_WORDS])
{
    if (nodes->n == 0) return false;
    struct slice line = text_part(nodes, '\n');
    for (int i = 0; i < NODE_WORDS; i++)
        words[i] = text_part(&line, ' ');
    return true;
}

uint64_t cluster_epoch(struct slice nodes, struct slice id)
{
    struct slice words[NODE_WORDS];
    uint64_t epoch = 0;
    while (id.n > 0 && node_line_take(&nodes, words))
        if (slice_eq(words[NODE_ID], id)) return num_parse_u64(words[NODE_EPOCH], &epoch) ? epoch : 0;
    return 0;
}

/* --- whether a node is of our cluster --- */

/* The first that has slots is believed. */
static bool node_is_ours(const struct cluster *c, struct slice nodes)
{
    struct slice words[NODE_WORDS];
    while (c->masters_n > 0 && node_line_take(&nodes, words))
        for (uint32_t i = 0; i < c->masters_n; i++)
            if (slice_eq(slice_str(c->masters[i]), words[NODE_ID])) return true;
    return c->masters_n == 0;
}

static bool master_serves(const struct slice words[NODE_WORDS])
{
    struct slice flags = words[NODE_FLAGS];
    bool serves = false;
    while (flags.n > 0) {
        struct slice flag = text_part(&flags, ',');
        if (slice_starts(flag, SLICE("fail"))) return false;
        serves |= slice_eq(flag, SLICE("master"));
    }
    return serves && words[NODE_SLOTS].n > 0 && words[NODE_ID].n < CLUSTER_ID_BYTES;
}

/* While none serves, those that did. */
static void masters_file(struct cluster *c, struct slice nodes)
{
    struct slice words[NODE_WORDS];
    uint32_t n = 0;
    while (n < CLUSTER_NODES_MAX && node_line_take(&nodes, words))
        if (master_serves(words))
            slice_show(words[NODE_ID], CLUSTER_ID_BYTES - 1, c->masters[n++], CLUSTER_ID_BYTES);
    if (n > 0) c->masters_n = n;
}

/* --- where the slot is --- */

static void seat_move(struct seat *s, const struct redis_target *to, const char *why)
{
    s->now = *to;
    log_event(LOG_INFO, "cluster_says", "slot=%u node=%s:%d why=%s", s->place->slot, to->host, to->port,
              LOGQ(why));
    if (place_is_up(s->place)) place_stray(s->place); /* hits wait while the links move */
    place_move(s->place, to, CLUSTER_ASTRAY);
}

/* Of equal epochs the one where we are. */
static const struct node *best_node(const struct cluster *c, uint32_t at, uint64_t now_ms)
{
    const struct node *best = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct node *n = &c->all[i];
        bool answers = n->talk.state == CLUSTER_NAMES || n->talk.state == CLUSTER_UNOWNED;
        if (!answers || n->words[at].owner.host[0] == '\0' || n->heard_ms == 0) continue;
        if (now_ms - n->heard_ms > FRESH_MS) continue;
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
    snprintf(why, sizeof why, "the node %s:%d says so, epoch %llu", best->talk.at.host, best->talk.at.port,
             (unsigned long long)w->epoch);
    seat_move(s, &w->owner, why);
}

static void cluster_ask_all(struct cluster *c, uint64_t pause_ms);

static void place_redirects(struct redis_place *place, const struct redis_target *to, const char *why)
{
    struct cluster *c = place->finder;
    struct seat *s = c->seats;
    uint64_t now_ms = mono_ms();
    while (s->place != place)
        s++;
    bool again = s->followed_ms != 0 && now_ms - s->followed_ms < FOLLOW_MS;
    cluster_ask_all(c, OWNER_DOUBT_MS);
    if (again || target_is(to, &s->now)) return;
    s->followed_ms = s->told_ms = now_ms;
    seat_move(s, to, why);
}

/* --- asking --- */

static void node_open(struct cluster *c, struct node *n);

static void node_says(struct node *n, enum cluster_state state, const char *text)
{
    static const char *const names[] = {"silent", "refuses", "other_cluster", "slot_unserved", "answers"};
    if (talk_says(&n->talk, state, text) && (!n->found || state != CLUSTER_SILENT))
        log_event(state == CLUSTER_NAMES ? LOG_INFO : LOG_WARN, "cluster_node", "at=%s:%d state=%s why=%s",
                  n->talk.at.host, n->talk.at.port, names[state], LOGQ(text));
}

/* at: without a host, it is asked no more. */
static void node_move(struct node *n, const struct redis_target *at, uint64_t now_ms)
{
    n->talk.at = *at;
    n->talk.told = false;
    n->talk.state = CLUSTER_SILENT;
    n->heard_ms = n->named_ms = now_ms;
    memset(n->words, 0, n->of->seats_n * sizeof *n->words);
    place_move(&n->talk.place, at, "");
}

/* Adds its address, or replaces that of a found node that is gone. */
static void node_found(struct cluster *c, const struct redis_target *at, uint64_t now_ms)
{
    struct node *n = NULL;
    for (uint32_t i = 0; n == NULL && i < c->n; i++)
        if (target_is(&c->all[i].talk.at, at)) n = &c->all[i];
    for (uint32_t i = c->configured_n; n == NULL && i < c->n; i++) {
        struct node *old = &c->all[i];
        bool gone = old->talk.state == CLUSTER_SILENT && now_ms - old->heard_ms >= FORGET_MS;
        if (old->talk.at.host[0] == '\0' || (gone && c->n == CLUSTER_NODES_MAX))
            node_move(n = old, at, now_ms);
    }
    if (n == NULL && c->n < CLUSTER_NODES_MAX) {
        n = &c->all[c->n++];
        *n = (struct node){.talk.at = *at, .found = true};
        node_open(c, n);
    }
    if (n != NULL) n->named_ms = now_ms;
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
    static const struct redis_target none;
    uint64_t now_ms = mono_ms();
    for (uint32_t i = 0; i < c->seats_n; i++)
        range_found(c, slot_range(slots, c->seats[i].place->slot), asked);
    for (size_t i = 0; i < slots->n; i++)
        range_found(c, &slots->elements[i], asked);
    for (struct node *n = c->all + c->configured_n; slots->n > 0 && n < c->all + c->n; n++)
        if (n->talk.at.host[0] != '\0' && now_ms - n->named_ms >= FORGET_MS) node_move(n, &none, now_ms);
}

static void slots_file(struct node *n, const struct redis_answer *slots)
{
    struct cluster *c = n->of;
    char unserved[40] = "";
    masters_file(c, buf_slice(&n->nodes));
    for (uint32_t i = 0; i < c->seats_n; i++) {
        unsigned slot = c->seats[i].place->slot;
        struct word *w = &n->words[i];
        struct slice id;
        bool owned = cluster_owner(slots, slot, &n->talk.at, &w->owner, &id);
        if (!owned) w->owner.host[0] = '\0';
        w->epoch = owned ? cluster_epoch(buf_slice(&n->nodes), id) : 0;
        if (!owned) snprintf(unserved, sizeof unserved, "slot %u", slot);
    }
    node_says(n, unserved[0] == '\0' ? CLUSTER_NAMES : CLUSTER_UNOWNED, unserved);
    for (uint32_t i = 0; i < c->seats_n; i++)
        seat_decide(c, i, n->heard_ms);
    nodes_found(c, slots, &n->talk.at);
}

/* at: 0 is CLUSTER NODES, 1 CLUSTER SLOTS. */
static void node_answers(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct node *n = arg;
    (void)l;
    if (r == NULL || at == 1) n->talk.asking = false;
    if (r == NULL || n->talk.closing) return;
    if (!answer_is(r, at == 0 ? REDIS_STRING : REDIS_ARRAY)) {
        char why[200];
        answer_why(r, why, sizeof why);
        node_says(n, CLUSTER_REFUSES, why);
    } else if (at == 0)
        buf_put_slice(&n->nodes, r->str);
    else if (n->nodes.n > 0) {
        /* One that has no slots knows no cluster. */
        n->heard_ms = mono_ms();
        if (r->n == 0 || node_is_ours(n->of, buf_slice(&n->nodes)))
            slots_file(n, r);
        else
            node_says(n, CLUSTER_OTHER, "it knows no master of the cluster that tallyd uses");
    }
}

static void node_ask(struct node *n, uint64_t pause_ms)
{
    if (!talk_asks(&n->talk, pause_ms)) return;
    buf_reset(&n->nodes);
    redis_write(&n->talk.link, "CLUSTER NODES"); /* first: an owner with an old epoch does no harm */
    redis_write(&n->talk.link, "CLUSTER SLOTS");
    redis_link_ask(&n->talk.link, 2, node_answers, n);
}

static void cluster_ask_all(struct cluster *c, uint64_t pause_ms)
{
    for (uint32_t i = 0; i < c->n; i++)
        node_ask(&c->all[i], pause_ms);
}

static void cluster_doubted(struct redis_place *place, const char *why)
{
    (void)why;
    cluster_ask_all(place->finder, OWNER_DOUBT_MS);
}

static void node_up(struct redis_link *l)
{
    node_ask(l->arg, 0);
}

static void node_down(struct redis_link *l, const char *why)
{
    node_says(l->arg, l->refusal.code != ERR_NONE ? CLUSTER_REFUSES : CLUSTER_SILENT, talk_end_why(l, why));
}

static void cluster_tick(uv_timer_t *timer)
{
    struct cluster *c = CONTAINER_OF(timer, struct cluster, seeker.tick);
    bool up = true;
    for (uint32_t i = 0; i < c->seats_n && up; i++)
        up = place_is_up(c->seats[i].place);
    cluster_ask_all(c, up ? ASK_MS : OWNER_DOUBT_MS);
}

/* --- begin and end --- */

static void node_open(struct cluster *c, struct node *n)
{
    n->of = c;
    n->words = heap_zalloc(c->seats_n * sizeof *n->words);
    n->talk.of = &c->seeker;
    n->heard_ms = mono_ms();
    talk_open(&n->talk, c->seats[0].place->url, "cluster", node_up, node_down, n);
}

static void cluster_gone(struct seeker *f)
{
    struct cluster *c = CONTAINER_OF(f, struct cluster, seeker);
    for (struct node *n = c->all; n < c->all + c->n; n++) {
        heap_free(n->words);
        buf_free(&n->nodes);
    }
    heap_free(c->seats);
    heap_free(c);
}

struct cluster *cluster_create(uv_loop_t *loop, struct redis_place *const *places, uint32_t n_places)
{
    struct cluster *c = heap_zalloc(sizeof *c);
    const struct redis_url *url = places[0]->url;
    seeker_init(&c->seeker, loop, cluster_tick, CLUSTER_MS, cluster_gone);
    c->seats_n = n_places;
    c->seats = heap_zalloc(n_places * sizeof *c->seats);
    for (uint32_t i = 0; i < n_places; i++) {
        struct redis_place *place = places[i];
        c->seats[i].place = place;
        place->told_only = true;
        place->doubted = cluster_doubted;
        place->redirected = place_redirects;
        place->finder = c;
    }
    for (unsigned i = 0; i < url->hosts_n; i++) {
        struct node *n = &c->all[c->n];
        n->talk.at.port = url->hosts[i].port;
        snprintf(n->talk.at.host, sizeof n->talk.at.host, "%s", url->hosts[i].name);
        c->configured_n = ++c->n;
        node_open(c, n);
    }
    return c;
}

void cluster_close(struct cluster *c, void (*closed)(void *arg), void *arg)
{
    for (uint32_t i = 0; i < c->seats_n; i++) {
        c->seats[i].place->doubted = NULL;
        c->seats[i].place->redirected = NULL;
    }
    for (uint32_t i = 0; i < c->n; i++)
        talk_close(&c->all[i].talk);
    seeker_close(&c->seeker, closed, arg);
}

/* --- what is known of them --- */

uint32_t cluster_look(const struct cluster *c, struct cluster_seen *out)
{
    uint32_t seen_n = 0;
    for (const struct node *n = c->all; n < c->all + c->n; n++) {
        if (n->talk.at.host[0] == '\0') continue;
        struct cluster_seen *one = &out[seen_n++];
        *one = (struct cluster_seen){
            .at = n->talk.at, .owner = n->words[0].owner, .state = n->talk.state, .found = n->found};
        snprintf(one->text, sizeof one->text, "%s", n->talk.text);
        for (uint32_t i = 0; i < c->seats_n; i++)
            one->own += target_is(&n->words[i].owner, &n->talk.at);
    }
    return seen_n;
}

static enum err cluster_why(const struct cluster *c, unsigned slot, struct error *e)
{
    const struct talk *refuses = NULL, *unowned = NULL, *silent = &c->all[0].talk;
    for (uint32_t i = c->n; i-- > 0;) {
        const struct talk *t = &c->all[i].talk;
        if (t->state == CLUSTER_REFUSES) refuses = t;
        if (t->state == CLUSTER_UNOWNED) unowned = t;
        if (t->state == CLUSTER_SILENT) silent = t;
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
            uv_run(c->seeker.loop, UV_RUN_ONCE);
    }
    until_ms = mono_ms() + HEAR_MS;
    for (uint32_t i = 0; i < c->configured_n; i++)
        talk_hear(&c->all[i].talk, until_ms);
    for (const struct node *n = c->all; n < c->all + c->configured_n; n++)
        if (n->talk.state == CLUSTER_OTHER)
            return error_set(e, ERR_CONFIG,
                             "the nodes of redis.url belong to different clusters: %s:%d knows no master of "
                             "the one that the others are in; name the nodes of one cluster",
                             n->talk.at.host, n->talk.at.port);
    return ERR_NONE;
}
