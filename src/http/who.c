/* http/who.c - see exchange.h. */

#include "base/heap.h"
#include "conf/conf.h"
#include "http/inside.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

static bool is_loopback_peer(const struct sockaddr *peer)
{
    if (peer->sa_family == AF_UNIX) return true;
    if (peer->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (peer->sa_family != AF_INET6) return false;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == IN_LOOPBACKNET);
}

static bool is_loopback_host(const char *host)
{
    const char *bracket = strchr(host, ']'); /* "localhost:7371" is "localhost", "[::1]:7371" is "[::1]" */
    struct in_addr address;
    char text[INET_ADDRSTRLEN];
    struct slice name = slice_of(host, bracket != NULL ? (size_t)(bracket - host) + 1 : strcspn(host, ":"));
    if (slice_ieq(name, SLICE("localhost")) || slice_eq(name, SLICE("[::1]"))) return true;
    if (name.n == 0 || name.n >= sizeof text) return false;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool is_from_here(const struct who_asks *q)
{
    if (q->local_token || q->forwarded || !is_loopback_peer(q->peer)) return false;
    return q->peer->sa_family == AF_UNIX || (q->host != NULL && is_loopback_host(q->host));
}

bool header_is_of_a_proxy(const char *name)
{
    static const char *const beginnings[] = {
        "akamai-",   "cdn-",           "cf-",       "client-ip", "fastly-",      "fly-",        "forwarded",
        "proxy-",    "true-client-ip", "via",       "x-amz",     "x-appengine-", "x-arr-",      "x-azure-",
        "x-client-", "x-cluster-",     "x-envoy-",  "x-forward", "x-host",       "x-original-", "x-proxy",
        "x-real-ip", "x-remote-",      "x-vercel-", "x-via"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncasecmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

bool is_cross_origin(const char *fetch_site, const char *origin, const char *host)
{
    if (fetch_site != NULL) return strcmp(fetch_site, "same-origin") != 0 && strcmp(fetch_site, "none") != 0;
    if (origin == NULL) return false;
    const char *name = strstr(origin, "://"); /* `null` has none */
    return name == NULL || host == NULL || !slice_ieq(slice_str(name + 3), slice_str(host));
}

/* In constant time, so that it does not show how much was right. */
static bool same_secret(const char *secret, struct slice given)
{
    char a[CONF_BEARER_MOST + 1] = {0}, b[CONF_BEARER_MOST + 1] = {0};
    unsigned different = 0;
    strncpy(a, secret, CONF_BEARER_MOST);
    memcpy(b, given.p, given.n < CONF_BEARER_MOST ? given.n : CONF_BEARER_MOST);
    for (size_t i = 0; i < sizeof a; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0 && given.n <= CONF_BEARER_MOST;
}

static const struct conf_bearer *bearer_of(const char *authorization, const struct conf_bearers *bearers)
{
    struct slice bearer = SLICE("Bearer "), text = slice_str(authorization);
    const struct conf_bearer *found = NULL;
    if (text.n <= bearer.n || !slice_ieq(slice_of(text.p, bearer.n), bearer)) return NULL;
    struct slice given = slice_of(text.p + bearer.n, text.n - bearer.n);
    for (size_t i = 0; i < bearers->n; i++)
        if (same_secret(bearers->all[i].secret, given)) found = &bearers->all[i];
    return found;
}

struct who who_asks(const struct who_asks *q, const struct conf_bearers *bearers)
{
    if (q->authorization != NULL) { /* a token is never more than it says, also here */
        const struct conf_bearer *bearer = bearer_of(q->authorization, bearers);
        return (struct who){bearer != NULL, bearer};
    }
    return (struct who){is_from_here(q), NULL};
}

struct slice who_store(const struct who *w)
{
    return w->bearer == NULL || w->bearer->store == NULL ? slice_of(NULL, 0) : slice_str(w->bearer->store);
}

static bool pattern_is_of(const struct pattern *p, enum store_kind kind, struct slice name,
                          struct slice store)
{
    struct slice found;
    return p->has_store && pattern_match(p, kind, name, &found) && slice_eq(found, store);
}

static bool feeds_it(const struct counters *counters, enum feed feed, struct slice name, struct slice store)
{
    for (size_t i = 0; i < counters->n; i++)
        if (pattern_is_of(&counters->all[i].feeds[feed], counters->all[i].store, name, store)) return true;
    return false;
}

bool name_is_of(const struct counters *counters, enum op_kind kind, struct slice name, struct slice type,
                struct slice store)
{
    const struct op_limits *ops = counters->ops;
    struct buf event = {0};
    switch (kind) {
    case OP_SERIES:
        return feeds_it(counters, FEED_SERIES, name, store);
    case OP_TIMEBOX:
        return feeds_it(counters, FEED_TIMEBOX, name, store);
    case OP_UNIQ:
        return ops->uniq_counter != NULL &&
               pattern_is_of(&ops->uniq_name, ops->uniq_counter->store, name, store);
    case OP_EVENT:
        break;
    }
    buf_put_slice(&event, name);
    buf_put_char(&event, ':');
    buf_put_slice(&event, type);
    bool is = feeds_it(counters, FEED_EVENT, buf_slice(&event), store);
    buf_free(&event);
    return is;
}

struct bearer_set {
    struct conf_bearers bearers;
    struct bearer_set *before;
};

void bearers_close(struct bearers *s)
{
    while (s->last != NULL) {
        struct bearer_set *set = s->last;
        s->last = set->before;
        bearers_free(&set->bearers);
        heap_free(set);
    }
}

const struct conf_bearers *bearers_now(const struct bearers *s)
{
    return __atomic_load_n(&s->now, __ATOMIC_ACQUIRE);
}

void bearers_take(struct bearers *s, struct conf_bearers *bearers)
{
    const struct conf_bearers *a = s->now;
    bool same = a->n == bearers->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = conf_same_text(a->all[i].name, bearers->all[i].name) &&
               conf_same_text(a->all[i].secret, bearers->all[i].secret) &&
               conf_same_text(a->all[i].store, bearers->all[i].store);
    if (same) {
        bearers_free(bearers);
        return;
    }
    struct bearer_set *set = heap_alloc(sizeof *set);
    *set = (struct bearer_set){.bearers = *bearers, .before = s->last};
    *bearers = (struct conf_bearers){0};
    s->last = set;
    __atomic_store_n(&s->now, &set->bearers, __ATOMIC_RELEASE);
}
