/* series/feeds.c - see feeds.h. The keys that a feed can make follow a pattern, too, with more before or after its
 * <store>. counter.c decides whether two patterns have a name in common. */
#include "series/feeds.h"

#include "series/names.h"

#include <stdio.h>

#define STORE_DIGITS_MAX 19
/* A day for keys of visitors; no part begins with 0, so that an integer <store> may be one. */
#define DAY_SAMPLE 20101010

/* A feed while it is looked at. */
struct look {
    const struct counters *counters;
    const struct pattern *name;
    enum store_kind store;
    struct error *e;
};

/* One kind of key that a feed makes: its pattern, whose texts are in bytes. */
struct made {
    struct buf bytes;
    struct pattern pattern;
};

/* before + prefix, suffix + behind: the pattern's texts. */
static void made_init(struct made *m, struct slice before, const struct pattern *p, struct slice behind)
{
    struct slice empty = SLICE("");
    *m = (struct made){0};
    buf_put_slice(&m->bytes, before);
    buf_put_slice(&m->bytes, p->prefix);
    if (!p->has_store) buf_put_slice(&m->bytes, behind);
    size_t prefix_n = m->bytes.n;
    if (p->has_store) {
        buf_put_slice(&m->bytes, p->suffix);
        buf_put_slice(&m->bytes, behind);
    }
    m->pattern = (struct pattern){
        .prefix = slice_of(m->bytes.p, prefix_n),
        .suffix = p->has_store ? slice_of(m->bytes.p + prefix_n, m->bytes.n - prefix_n) : empty,
        .has_store = p->has_store};
}

static const char *pattern_show(const struct pattern *p, char out[160])
{
    char prefix[64], suffix[64];
    snprintf(out, 160, "%s%s%s", slice_show(p->prefix, 60, prefix, sizeof prefix),
             p->has_store ? "<store>" : "", slice_show(p->suffix, 60, suffix, sizeof suffix));
    return out;
}

/* Can no counter, and nothing else, make this key? */
static enum err key_free(const struct look *at, struct slice before, const struct pattern *p,
                         struct slice behind)
{
    struct made m;
    char shown[160];
    enum err code = ERR_NONE;
    made_init(&m, before, p, behind);
    for (size_t i = 0; i < at->counters->n && code == ERR_NONE; i++) {
        const struct counter *c = &at->counters->all[i];
        bool key = pattern_overlap(&m.pattern, at->store, &c->key, c->store);
        if (key || pattern_overlap(&m.pattern, at->store, &c->lock, c->store))
            code = error_set(at->e, ERR_CONFIG,
                             "what it moves would be in \"%s\", which can be the %s of counter " SLICE_FMT
                             "; choose another name",
                             pattern_show(&m.pattern, shown), key ? "key" : "lock", SLICE_ARG(c->name));
    }
    buf_free(&m.bytes);
    return code;
}

static enum err lead_free(const struct look *at)
{
    for (size_t i = 0; i < NAME_LEADS_N; i++)
        if (pattern_can_begin(at->name, at->store, name_leads[i]))
            return error_set(at->e, ERR_CONFIG,
                             "it can begin with " SLICE_FMT
                             ", as other keys of tallyd's do; choose another name",
                             SLICE_ARG(name_leads[i]));
    return ERR_NONE;
}

static enum err length_fits(const struct look *at)
{
    size_t store = !at->name->has_store ? 0 : at->store == STORE_TEXT ? TEXT_BYTES_MAX : STORE_DIGITS_MAX;
    if (at->name->prefix.n + store + at->name->suffix.n <= OP_NAME_BYTES_MAX) return ERR_NONE;
    return error_set(at->e, ERR_CONFIG,
                     "with its store it can be longer than %d bytes; choose a shorter name",
                     OP_NAME_BYTES_MAX);
}

static enum err series_free(const struct look *at)
{
    const struct op_limits *ops = at->counters->ops;
    const struct pattern known = {.prefix = {KEY_KNOWN, sizeof KEY_KNOWN - 1}, .suffix = {"", 0}};
    struct slice none = SLICE("");
    struct buf before = {0};
    enum err code = key_free(at, none, &known, none);
    for (uint32_t i = 0; i < ops->precisions_n && code == ERR_NONE; i++) {
        buf_reset(&before);
        name_samples(&before, ops->precisions[i], none);
        code = key_free(at, buf_slice(&before), at->name, none);
    }
    buf_free(&before);
    return code;
}

static enum err box_free(const struct look *at)
{
    struct slice none = SLICE("");
    enum err code = key_free(at, SLICE("tb."), at->name, none);
    return code != ERR_NONE ? code : key_free(at, SLICE("pv."), at->name, none);
}

/* Name and type of an event's pattern; the type is the same for all stores, as their cache of windows is. */
static bool event_parts(const struct pattern *p, struct pattern *name, struct slice *type)
{
    struct slice last = p->has_store ? p->suffix : p->prefix;
    const char *colon = last.n == 0 ? NULL : memrchr(last.p, ':', last.n);
    if (colon == NULL) return false;
    struct slice head = slice_of(last.p, (size_t)(colon - last.p));
    *type = slice_of(colon + 1, last.n - head.n - 1);
    *name = *p;
    if (p->has_store)
        name->suffix = head;
    else
        name->prefix = head;
    return !pattern_empty(name) && type->n > 0 && !slice_eq(*type, SLICE(EVENT_TICKER_TYPE));
}

static enum err event_free(const struct look *at)
{
    struct pattern name, windows;
    struct slice type, none = SLICE("");
    if (!event_parts(at->name, &name, &type))
        return error_set(at->e, ERR_CONFIG,
                         "it has no name and type of events, parted by the last ':'; expected one such as "
                         "\"s<store>:view\", whose type is neither <store> nor " EVENT_TICKER_TYPE);
    windows = (struct pattern){.prefix = type, .suffix = none};
    enum err code = lead_free(at);
    if (code == ERR_NONE) code = key_free(at, none, at->name, none);
    if (code == ERR_NONE) code = key_free(at, none, &name, SLICE(":" EVENT_TICKER_TYPE));
    return code != ERR_NONE ? code : key_free(at, SLICE("statcache:"), &windows, none);
}

static enum err feed_validate(const struct counter *c, enum feed feed, const struct look *at)
{
    static enum err (*const free_of[FEEDS])(const struct look *) = {series_free, box_free, event_free};
    if (at->name->has_store && !c->key.has_store)
        return error_set(at->e, ERR_CONFIG,
                         "the counter's key holds no <store>, so this cannot hold it either");
    enum err code = length_fits(at);
    return code != ERR_NONE ? code : free_of[feed](at);
}

enum err feeds_validate(const struct counters *cs, size_t *which, enum feed *feed, struct error *e)
{
    for (size_t i = 0; i < cs->n; i++) {
        const struct counter *c = &cs->all[i];
        for (int k = 0; k < FEEDS; k++) {
            const struct look at = {cs, &c->feeds[k], c->store, e};
            if (!counter_feeds(c, (enum feed)k) || feed_validate(c, (enum feed)k, &at) == ERR_NONE) continue;
            *which = i;
            *feed = (enum feed)k;
            return ERR_CONFIG;
        }
    }
    return ERR_NONE;
}

/* One day is checked for all days. */
static enum err visitors_free(const struct look *at)
{
    struct slice none = SLICE("");
    struct buf day = {0}, sketch = {0};
    name_visitors(&day, none, DAY_SAMPLE);
    name_visitors_sketch(&sketch, none, DAY_SAMPLE);
    enum err code = key_free(at, none, at->name, buf_slice(&day));
    if (code == ERR_NONE) code = key_free(at, none, at->name, buf_slice(&sketch));
    buf_free(&day);
    buf_free(&sketch);
    return code;
}

enum err uniq_feed_validate(const struct counters *cs, struct error *e)
{
    const struct counter *c = cs->ops->uniq_counter;
    const struct look at = {cs, &cs->ops->uniq_name, c->store, e};
    if (c->field != FIELD_DATE)
        return error_set(e, ERR_CONFIG,
                         "counter " SLICE_FMT
                         " has the field %s, but a visitor counts in the field of the day: "
                         "name a counter whose field is date",
                         SLICE_ARG(c->name), field_kind_name(c->field));
    if (c->spelled.spelling != SPELLED_DIGITS || c->key.places != NULL)
        return error_set(e, ERR_CONFIG,
                         "a visitor counts in the field of the day: name a counter whose field is date as "
                         "YYYYMMDD and whose key "
                         "has no placeholder but <store>; counter " SLICE_FMT " is none",
                         SLICE_ARG(c->name));
    if (at.name->has_store != c->key.has_store)
        return error_set(
            e, ERR_CONFIG,
            "the key of counter " SLICE_FMT " holds %s <store> and uniques.name %s, so it is not "
            "known whose visitor one is; both or none must hold it",
            SLICE_ARG(c->name), c->key.has_store ? "a" : "no", at.name->has_store ? "does" : "does not");
    enum err code = length_fits(&at);
    if (code == ERR_NONE) code = lead_free(&at);
    return code != ERR_NONE ? code : visitors_free(&at);
}
