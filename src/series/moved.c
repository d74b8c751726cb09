/* series/moved.c - see moved.h. */
#include "series/moved.h"

#include "series/names.h"

unsigned lane_of_key(const struct counters *cs, struct slice key, unsigned lanes)
{
    const struct counter *c = counters_match(cs, key);
    return lane_of_store(c == NULL ? SLICE("") : counter_store(c, key), lanes);
}

/* What a counter feeds, without an event's type: all types of a name share a ticker. */
static struct pattern fed_name(const struct counter *c, enum feed which)
{
    struct pattern p = c->feeds[which];
    struct slice *last = p.has_store ? &p.suffix : &p.prefix;
    const char *colon = which != FEED_EVENT || last->n == 0 ? NULL : memrchr(last->p, ':', last->n);
    if (colon != NULL) last->n = (size_t)(colon - last->p);
    return p;
}

unsigned lane_of_name(const struct counters *cs, enum op_kind kind, struct slice name, unsigned lanes)
{
    static const enum feed feeds[] = {
        [OP_SERIES] = FEED_SERIES, [OP_TIMEBOX] = FEED_TIMEBOX, [OP_EVENT] = FEED_EVENT};
    const struct op_limits *l = cs->ops;
    struct slice store = SLICE("");
    if (kind == OP_UNIQ && l->uniq_counter != NULL)
        (void)pattern_match(&l->uniq_name, l->uniq_counter->store, name, &store);
    for (size_t i = 0; kind != OP_UNIQ && i < cs->n && store.n == 0; i++) {
        struct pattern fed = fed_name(&cs->all[i], feeds[kind]);
        if (fed.has_store) (void)pattern_match(&fed, cs->all[i].store, name, &store);
    }
    return lane_of_store(store, lanes);
}

enum err feed_lane_validate(const struct counters *cs, const struct counter *c, enum feed which,
                            struct error *e)
{
    struct pattern fed = fed_name(c, which);
    if (c->key.has_store && !fed.has_store)
        return error_set(e, ERR_CONFIG,
                         "holds no <store>, and the counter's stores are counted in different slots of the "
                         "cluster, so no frame can move both; put <store> into it, or use a cluster with "
                         "redis.lanes: 1");
    for (const struct counter *d = cs->all; d < c; d++) {
        struct pattern other = fed_name(d, which);
        bool same = slice_eq(fed.prefix, other.prefix) && slice_eq(fed.suffix, other.suffix) &&
                    fed.has_store == other.has_store;
        if (same || !counter_feeds(d, which) || !pattern_overlap(&fed, c->store, &other, d->store)) continue;
        return error_set(e, ERR_CONFIG,
                         "can have a name that counter " SLICE_FMT
                         " feeds for another store, which may be in "
                         "another slot of the cluster; make the two differ, or use redis.lanes: 1",
                         SLICE_ARG(d->name));
    }
    return ERR_NONE;
}

#define DAY_BYTES 11 /* _2007_12_04 */

static struct slice without(struct slice s, size_t lead)
{
    return slice_of(s.p + lead, s.n - lead);
}

static struct slice behind_colon(struct slice s)
{
    const char *colon = s.n == 0 ? NULL : memchr(s.p, ':', s.n);
    return colon == NULL ? slice_of(s.p + s.n, 0) : without(s, (size_t)(colon + 1 - s.p));
}

static struct slice before_last_colon(struct slice s)
{
    const char *colon = s.n == 0 ? NULL : memrchr(s.p, ':', s.n);
    return slice_of(s.p, colon == NULL ? 0 : (size_t)(colon - s.p));
}

/* <name>_2007_12_04, or with :hll behind it: how much of it is the name; 0: it is no such key. */
static size_t visitors_name(struct slice key)
{
    static const char shape[] = "_0000_00_00";
    if (slice_ends(key, SLICE(":hll"))) key.n -= 4;
    if (key.n <= DAY_BYTES) return 0;
    const char *day = key.p + key.n - DAY_BYTES;
    for (size_t i = 0; i < DAY_BYTES; i++)
        if (shape[i] == '_' ? day[i] != '_' : day[i] < '0' || day[i] > '9') return 0;
    return key.n - DAY_BYTES;
}

static struct moved_key into(unsigned lane, enum moved_kind kind, const char *type)
{
    return (struct moved_key){kind, type, lane, lane};
}

static bool is_own(struct slice key)
{
    for (size_t i = 0; i < NAME_LEADS_N; i++)
        if (slice_starts(key, name_leads[i])) return true;
    return false;
}

/* Keys that begin with a client's text. */
static struct moved_key of_text(const struct counters *cs, struct slice key, unsigned lanes)
{
    struct slice ticker = SLICE(":" EVENT_TICKER_TYPE), name, type;
    if (slice_ends(key, ticker))
        return into(lane_of_name(cs, OP_EVENT, slice_of(key.p, key.n - ticker.n), lanes), MOVED_WHOLE,
                    "string");
    struct moved_key log = {.kind = MOVED_NOT};
    if (event_split(key, &name, &type))
        log = into(lane_of_name(cs, OP_EVENT, name, lanes), MOVED_WHOLE, "?zset");
    size_t n = visitors_name(key);
    if (n == 0) return log;
    unsigned lane = lane_of_name(cs, OP_UNIQ, slice_of(key.p, n), lanes);
    if (log.kind == MOVED_NOT) return into(lane, MOVED_WHOLE, "string");
    return (struct moved_key){MOVED_WHOLE, "string?zset", lane, log.lane};
}

struct moved_key moved_key_of(const struct counters *cs, struct slice key, unsigned lanes)
{
    static const struct slice tokens = SLICE(KEY_TOKEN_PREFIX), samples = SLICE(KEY_SAMPLES_PREFIX),
                              windows = SLICE("statcache:"), buckets = SLICE("tb."), hits = SLICE("pv.");
    if (slice_starts(key, tokens)) {
        struct slice store = without(key, strlen(KEY_TOKEN_PREFIX));
        store.n -= behind_colon(store).n;
        if (store.n > 0) store.n--; /* the colon */
        return into(lane_of_store(store, lanes), MOVED_TOKEN, "string");
    }
    if (slice_starts(key, samples))
        return into(lane_of_name(cs, OP_SERIES, behind_colon(without(key, samples.n)), lanes), MOVED_SAMPLES,
                    "hash");
    if (slice_starts(key, buckets) || slice_starts(key, hits))
        return into(lane_of_name(cs, OP_TIMEBOX, without(key, buckets.n), lanes), MOVED_WHOLE, "zset");
    if (slice_eq(key, SLICE(KEY_KNOWN)) || slice_starts(key, SLICE(KEY_TOKENS)) ||
        slice_starts(key, SLICE(KEY_GROWN_PREFIX)))
        return (struct moved_key){.kind = MOVED_ANEW};
    if (slice_eq(key, SLICE(KEY_EVENTS))) return into(0, MOVED_BY_MEMBER, "zset");
    if (slice_eq(key, SLICE(KEY_LEASED)) || slice_starts(key, windows))
        return into(0, MOVED_BY_MEMBER, "hash");
    if (is_own(key) || counters_match(cs, key) != NULL) return (struct moved_key){.kind = MOVED_NOT};
    return of_text(cs, key, lanes);
}

unsigned moved_lane_of(const struct counters *cs, struct slice key, struct slice member, unsigned lanes)
{
    struct slice name = before_last_colon(member); /* <name>:<type>, <name>:windows */
    bool window = slice_starts(key, SLICE("statcache:")) && !slice_ends(member, SLICE(":windows"));
    if (window) name = before_last_colon(name); /* <name>:<start>:<window> */
    return lane_of_name(cs, OP_EVENT, name, lanes);
}
