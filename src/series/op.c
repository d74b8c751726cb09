/* series/op.c - see op.h. */
#include "series/op.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"
#include "series/asks.h"
#include "series/names.h"

#include <stdio.h>

bool op_id_is_number(struct slice id)
{
    int64_t n;
    return num_parse(id, &n) && n > 0 && n <= OP_NUMBER_MAX;
}

/* So that no sum of a name's seconds overflows. */
static bool may_join(const struct frame_op *op)
{
    return op->delta < INT64_C(1) << 48 && op->delta > -(INT64_C(1) << 48);
}

bool op_joins(const struct frame_op *op, uint32_t precision_s)
{
    const struct frame_op *before = op - 1;
    if (!op->joined || op->silent || before->silent || !may_join(op) || !may_join(before)) return false;
    return op_slot(op->which, precision_s) == op_slot(before->which, precision_s);
}

bool op_uniq_key(const struct op_limits *l, struct slice name, struct buf *out)
{
    const struct counter *c = l->uniq_counter;
    struct slice store;
    if (c == NULL || !pattern_match(&l->uniq_name, c->store, name, &store)) return false;
    pattern_put(&c->key, store, out);
    return true;
}

static struct query_value *answer_value_add(struct query_answer *a)
{
    HEAP_GROW(a->values, a->n, a->cap, 64);
    return &a->values[a->n++];
}

void query_put_number(struct query_answer *a, int64_t v)
{
    *answer_value_add(a) = (struct query_value){.number = v};
}

void query_put_text(struct query_answer *a, struct slice text)
{
    PRE(text.n <= UINT32_MAX);
    *answer_value_add(a) =
        (struct query_value){.is_text = true, .text_n = (uint32_t)text.n, .text_at = a->texts.n};
    buf_put_slice(&a->texts, text);
}

void query_answer_free(struct query_answer *a)
{
    heap_free(a->values);
    buf_free(&a->texts);
    *a = (struct query_answer){0};
}

#define SHOWN 64 /* bytes of a key in an error line */

static bool text_fits(struct slice s)
{
    if (s.n == 0 || s.n > OP_NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f) return false;
    return true;
}

static bool key_is_of(const struct counter *c, struct slice key)
{
    struct slice pending = key;
    return pattern_match(&c->key, c->store, key, NULL) ||
           (counter_locks(c) && pattern_match(&c->lock, c->store, key, NULL)) ||
           (claimed_split(key, &pending, NULL) && pattern_match(&c->key, c->store, pending, NULL));
}

static bool op_key_free(const struct counters *cs, struct slice key, struct buf *why)
{
    char shown[SHOWN + 4];
    for (size_t i = 0; i < cs->n; i++) {
        if (!key_is_of(&cs->all[i], key)) continue;
        buf_printf(why, "ERR that would be the key '%s', which belongs to counter '" SLICE_FMT "'",
                   slice_show(key, SHOWN, shown, sizeof shown), SLICE_ARG(cs->all[i].name));
        return false;
    }
    return true;
}

/* Could a counter own a key that begins with lead? Almost never, and then no key needs to be made to check it. */
static bool could_meet(const struct counters *cs, struct slice lead)
{
    for (size_t i = 0; i < cs->n; i++) {
        struct slice heads[] = {cs->all[i].key.prefix, cs->all[i].lock.prefix};
        for (size_t k = 0; k < (counter_locks(&cs->all[i]) ? 2 : 1); k++) {
            size_t n = heads[k].n < lead.n ? heads[k].n : lead.n;
            if (n == 0 || (heads[k].p[0] == lead.p[0] && memcmp(heads[k].p, lead.p, n) == 0)) return true;
        }
    }
    return false;
}

static bool series_fits(const struct counters *cs, struct slice name, struct buf *scratch, struct buf *why)
{
    if (!could_meet(cs, SLICE("count:"))) return true;
    for (uint32_t i = 0; i < cs->ops->precisions_n; i++) {
        buf_reset(scratch);
        name_samples(scratch, cs->ops->precisions[i], name);
        if (!op_key_free(cs, buf_slice(scratch), why)) return false;
    }
    return true;
}

static bool own_fits(const struct counters *cs, struct slice key, struct buf *why)
{
    char shown[SHOWN + 4];
    for (size_t i = 0; i < NAME_LEADS_N; i++) {
        if (!slice_starts(key, name_leads[i])) continue;
        buf_printf(
            why, "ERR that would be the key '%s', and keys that begin with '" SLICE_FMT "' are tallyd's own",
            slice_show(key, SHOWN, shown, sizeof shown), SLICE_ARG(name_leads[i]));
        return false;
    }
    return op_key_free(cs, key, why);
}

/* Name and type are split at the last ':', so that no two logs share a key. */
static bool event_fits(const struct counters *cs, struct slice name, struct slice type, struct buf *scratch,
                       struct buf *why)
{
    if (!text_fits(type) || memchr(type.p, ':', type.n) != NULL) {
        buf_printf(why, "ERR a type is 1 to %d bytes without control characters and ':'", OP_NAME_BYTES_MAX);
        return false;
    }
    if (slice_eq(type, SLICE(EVENT_TICKER_TYPE))) {
        buf_printf(why, "ERR the type '" EVENT_TICKER_TYPE
                        "' is taken: that key is the ticker which numbers the events");
        return false;
    }
    buf_reset(scratch);
    name_events(scratch, name, type);
    if (!own_fits(cs, buf_slice(scratch), why)) return false;
    buf_reset(scratch);
    name_ticker(scratch, name);
    return op_key_free(cs, buf_slice(scratch), why);
}

bool op_names_fit(const struct counters *cs, enum op_kind kind, struct slice name, struct slice type,
                  int64_t day, struct buf *scratch, struct buf *why)
{
    if (!text_fits(name)) {
        buf_printf(why, "ERR a name is 1 to %d bytes without control characters", OP_NAME_BYTES_MAX);
        return false;
    }
    switch (kind) {
    case OP_SERIES:
        return series_fits(cs, name, scratch, why);
    case OP_TIMEBOX:
        if (!could_meet(cs, SLICE("tb.")) && !could_meet(cs, SLICE("pv."))) return true;
        buf_reset(scratch);
        name_buckets(scratch, name);
        if (!op_key_free(cs, buf_slice(scratch), why)) return false;
        buf_reset(scratch);
        name_bucket_hits(scratch, name);
        return op_key_free(cs, buf_slice(scratch), why);
    case OP_EVENT:
        return event_fits(cs, name, type, scratch, why);
    case OP_UNIQ:
        buf_reset(scratch);
        name_visitors(scratch, name, day);
        if (!own_fits(cs, buf_slice(scratch), why)) return false;
        buf_reset(scratch);
        name_visitors_sketch(scratch, name, day);
        return op_key_free(cs, buf_slice(scratch), why);
    }
    UNREACHABLE();
}

/* The keys that a feed can make follow a pattern, too, with more before or after its <store>. counter.c decides whether
 * two patterns have a name in common. */

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
        if (key || (counter_locks(c) && pattern_overlap(&m.pattern, at->store, &c->lock, c->store)))
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
    /* One day is checked for all days. */
    if (code != ERR_NONE) return code;
    struct slice none = SLICE("");
    struct buf day = {0}, sketch = {0};
    name_visitors(&day, none, DAY_SAMPLE);
    name_visitors_sketch(&sketch, none, DAY_SAMPLE);
    code = key_free(&at, none, at.name, buf_slice(&day));
    if (code == ERR_NONE) code = key_free(&at, none, at.name, buf_slice(&sketch));
    buf_free(&day);
    buf_free(&sketch);
    return code;
}
