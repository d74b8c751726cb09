/* series/lane_of.c - see lane_of.h. */
#include "series/lane_of.h"

#include "series/slot.h"

static const char *const feed_names[FEEDS] = {"series", "timebox", "event"};

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

static struct slice store_fed(const struct counters *cs, enum feed which, struct slice name)
{
    struct slice store = SLICE("");
    for (size_t i = 0; i < cs->n && store.n == 0; i++) {
        struct pattern fed = fed_name(&cs->all[i], which);
        if (fed.has_store) (void)pattern_match(&fed, cs->all[i].store, name, &store);
    }
    return store;
}

static struct slice store_of_visitors(const struct op_limits *l, struct slice name)
{
    struct slice store = SLICE("");
    if (l->uniq_counter != NULL) (void)pattern_match(&l->uniq_name, l->uniq_counter->store, name, &store);
    return store;
}

unsigned lane_of_name(const struct counters *cs, enum op_kind kind, struct slice name, unsigned lanes)
{
    static const enum feed feeds[] = {
        [OP_SERIES] = FEED_SERIES, [OP_TIMEBOX] = FEED_TIMEBOX, [OP_EVENT] = FEED_EVENT};
    struct slice store =
        kind == OP_UNIQ ? store_of_visitors(cs->ops, name) : store_fed(cs, feeds[kind], name);
    return lane_of_store(store, lanes);
}

static enum err feed_in_one_lane(const struct counters *cs, const struct counter *c, enum feed which,
                                 struct error *e)
{
    struct pattern fed = fed_name(c, which);
    if (c->key.has_store && !fed.has_store)
        return error_set(e, ERR_CONFIG,
                         "feeds.%s of counter " SLICE_FMT " has no <store>, so the stores of all lanes would "
                         "move it; give it a <store>, or use one lane",
                         feed_names[which], SLICE_ARG(c->name));
    for (const struct counter *d = cs->all; d < c; d++) {
        struct pattern other = fed_name(d, which);
        bool same = slice_eq(fed.prefix, other.prefix) && slice_eq(fed.suffix, other.suffix) &&
                    fed.has_store == other.has_store;
        if (same || !counter_feeds(d, which) || !pattern_overlap(&fed, c->store, &other, d->store)) continue;
        return error_set(e, ERR_CONFIG,
                         "feeds.%s of counters " SLICE_FMT " and " SLICE_FMT " can have the same name for "
                         "different stores, which may be in different lanes",
                         feed_names[which], SLICE_ARG(d->name), SLICE_ARG(c->name));
    }
    return ERR_NONE;
}

enum err lanes_validate(const struct counters *cs, struct error *e)
{
    for (const struct counter *c = cs->all; c < cs->all + cs->n; c++)
        for (int k = 0; k < FEEDS; k++)
            if (counter_feeds(c, (enum feed)k) && feed_in_one_lane(cs, c, (enum feed)k, e) != ERR_NONE)
                return ERR_CONFIG;
    return ERR_NONE;
}
