/* series/op_names.c - see op_names.h. */
#include "series/op_names.h"
#include "series/names.h"

#define SHOWN 64 /* bytes of a key in an error line */

static bool text_fits(struct slice s)
{
    if (s.n == 0 || s.n > OP_NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f) return false;
    return true;
}

static bool is_of(const struct counter *c, struct slice key)
{
    struct slice pending = key;
    return pattern_match(&c->key, c->store, key, NULL) || pattern_match(&c->lock, c->store, key, NULL) ||
           (claimed_split(key, &pending, NULL) && pattern_match(&c->key, c->store, pending, NULL));
}

static bool op_key_free(const struct counters *cs, struct slice key, struct buf *why)
{
    char shown[SHOWN + 4];
    for (size_t i = 0; i < cs->n; i++) {
        if (!is_of(&cs->all[i], key)) continue;
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
        for (size_t k = 0; k < 2; k++) {
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

static bool box_fits(const struct counters *cs, struct slice name, struct buf *scratch, struct buf *why)
{
    if (!could_meet(cs, SLICE("tb.")) && !could_meet(cs, SLICE("pv."))) return true;
    buf_reset(scratch);
    name_buckets(scratch, name);
    if (!op_key_free(cs, buf_slice(scratch), why)) return false;
    buf_reset(scratch);
    name_bucket_hits(scratch, name);
    return op_key_free(cs, buf_slice(scratch), why);
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

static bool visitors_fit(const struct counters *cs, struct slice name, int64_t day, struct buf *scratch,
                         struct buf *why)
{
    buf_reset(scratch);
    name_visitors(scratch, name, day);
    if (!own_fits(cs, buf_slice(scratch), why)) return false;
    buf_reset(scratch);
    name_visitors_sketch(scratch, name, day);
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
        return box_fits(cs, name, scratch, why);
    case OP_EVENT:
        return event_fits(cs, name, type, scratch, why);
    case OP_UNIQ:
        return visitors_fit(cs, name, day, scratch, why);
    }
    UNREACHABLE();
}
