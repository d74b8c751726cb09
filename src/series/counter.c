/* series/counter.c - see counter.h. Whether two patterns can make the same name is decided by candidates: if they can,
 * then one of a few short names is such a name (candidate_find). Each candidate is proved by matching. */
#include "series/counter.h"

#include "base/num.h"
#include "series/names.h"

#define INTEGER_DIGITS_MAX 19
#define OWN_PREFIX SLICE("tally:")

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

static const char *pattern_fault(const struct pattern *p)
{
    const struct slice parts[] = {p->prefix, p->suffix};
    if (!p->has_store && p->prefix.n == 0) return "is empty";
    if (p->prefix.n + p->suffix.n > KEY_BYTES_MAX) return "is longer than 512 bytes";
    for (size_t part = 0; part < 2; part++) {
        for (size_t i = 0; i < parts[part].n; i++) {
            char c = parts[part].p[i];
            if (c == '<' || c == '>') return "may hold one <store>, and no other '<' or '>'";
            if (c == '{' || c == '}')
                return "may not hold '{' or '}', which Redis Cluster reads as a hash tag";
            if (is_control(c)) return "may not hold control bytes";
        }
    }
    return NULL;
}

enum err pattern_parse(struct slice text, struct pattern *out, struct error *e)
{
    const char *store = text.n > 0 ? memmem(text.p, text.n, "<store>", 7) : NULL;
    size_t at = store != NULL ? (size_t)(store - text.p) : text.n;
    struct pattern p = {.prefix = slice_of(text.p, at), .suffix = SLICE(""), .has_store = at < text.n};
    if (p.has_store) p.suffix = slice_of(text.p + at + 7, text.n - at - 7);
    const char *fault = pattern_fault(&p);
    char shown[80];
    if (fault != NULL)
        return error_set(e, ERR_CONFIG,
                         "the key pattern \"%s\" %s; expected one like s<store>:unique_visitors:daily",
                         slice_show(text, 60, shown, sizeof shown), fault);
    *out = p;
    return ERR_NONE;
}

static bool store_valid(enum store_kind kind, struct slice store)
{
    int64_t id;
    if (kind == STORE_INTEGER) return num_parse(store, &id) && id >= 0;
    if (store.n == 0 || store.n > TEXT_BYTES_MAX) return false;
    for (size_t i = 0; i < store.n; i++)
        if (store.p[i] == ':' || store.p[i] == '{' || store.p[i] == '}' || is_control(store.p[i]))
            return false;
    return true;
}

bool pattern_match(const struct pattern *p, enum store_kind kind, struct slice name, struct slice *store)
{
    struct slice found = SLICE("");
    if (name.n > KEY_BYTES_MAX) return false;
    if (!p->has_store) {
        if (!slice_eq(name, p->prefix)) return false;
    } else {
        if (name.n <= p->prefix.n + p->suffix.n) return false;
        if (!slice_starts(name, p->prefix) || !slice_ends(name, p->suffix)) return false;
        found = slice_of(name.p + p->prefix.n, name.n - p->prefix.n - p->suffix.n);
        if (!store_valid(kind, found)) return false;
    }
    if (store != NULL) *store = found;
    return true;
}

/* A pattern with what its captures may be. */
struct key_pattern {
    const struct pattern *pattern;
    enum store_kind kind;
};

struct candidate {
    char p[2 * KEY_BYTES_MAX + 1];
    size_t n;
};

static bool in_both(struct key_pattern a, struct key_pattern b, const struct candidate *c)
{
    return pattern_match(a.pattern, a.kind, slice_of(c->p, c->n), NULL) &&
           pattern_match(b.pattern, b.kind, slice_of(c->p, c->n), NULL);
}

static void candidate_make(struct candidate *c, struct slice head, const char *middle, struct slice tail)
{
    struct slice parts[] = {head, slice_str(middle), tail};
    PRE(head.n + tail.n < sizeof c->p);
    c->n = 0;
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].n > 0) memcpy(c->p + c->n, parts[i].p, parts[i].n);
        c->n += parts[i].n;
    }
}

/* A name that both patterns can make, if there is one. It begins with the longer prefix and ends with the longer
 * suffix. What is between them does not matter, except for one digit (a capture must not be empty; "1" where "0" would
 * be a leading zero). With nothing between them they may also overlap, in any length in which they agree. A shorter
 * name is always at least as good: a part of a text is a text, and of two numbers the shorter is in range when the
 * longer is. */
static bool candidate_find(struct key_pattern a, struct key_pattern b, struct candidate *c)
{
    struct slice head = a.pattern->prefix.n > b.pattern->prefix.n ? a.pattern->prefix : b.pattern->prefix;
    struct slice tail = a.pattern->suffix.n > b.pattern->suffix.n ? a.pattern->suffix : b.pattern->suffix;
    for (size_t shared = 0; shared <= head.n && shared <= tail.n; shared++) {
        if (!slice_ends(head, slice_of(tail.p, shared))) continue;
        candidate_make(c, head, "", slice_of(tail.p + shared, tail.n - shared));
        if (in_both(a, b, c)) return true;
    }
    candidate_make(c, head, "0", tail);
    if (in_both(a, b, c)) return true;
    candidate_make(c, head, "1", tail);
    return in_both(a, b, c);
}

bool pattern_overlap(const struct pattern *a, enum store_kind ka, const struct pattern *b, enum store_kind kb)
{
    struct candidate c;
    return candidate_find((struct key_pattern){a, ka}, (struct key_pattern){b, kb}, &c);
}

bool pattern_can_begin(const struct pattern *p, enum store_kind kind, struct slice lead)
{
    struct slice prefix = p->prefix;
    if (!p->has_store || prefix.n >= lead.n) return slice_starts(prefix, lead);
    if (!slice_starts(lead, prefix)) return false;
    for (size_t at = prefix.n + 1; at <= lead.n; at++)
        if (store_valid(kind, slice_of(lead.p + prefix.n, at - prefix.n)) &&
            slice_starts(p->suffix, slice_of(lead.p + at, lead.n - at)))
            return true;
    return false;
}

/* How many bytes at the end of s are hex digits. */
static size_t hex_tail(struct slice s)
{
    size_t n = 0;
    for (char c; n < s.n; n++) {
        c = s.p[s.n - 1 - n];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) break;
    }
    return n;
}

/* Can it make a name that ends in '_' and 32 hex digits? A text capture can hold the '_' itself, so it does whenever
 * the suffix is short and all hex. The digits of an integer only join a prefix that ends in '_' and hex to the
 * suffix. */
static bool makes_claimed_name(struct key_pattern f)
{
    struct slice prefix = f.pattern->prefix, suffix = f.pattern->suffix;
    if (!f.pattern->has_store) return claimed_split(prefix, NULL, NULL);
    if (suffix.n > HEX_ID) return claimed_split(suffix, NULL, NULL);
    if (hex_tail(suffix) < suffix.n) return false;
    if (f.kind == STORE_TEXT) return true;
    size_t hex = hex_tail(prefix);
    if (hex == prefix.n || prefix.p[prefix.n - 1 - hex] != '_') return false;
    return hex + suffix.n < HEX_ID && hex + suffix.n + INTEGER_DIGITS_MAX >= HEX_ID;
}

static struct key_pattern key_family(const struct counter *c)
{
    return (struct key_pattern){&c->key, c->store};
}
static struct key_pattern lock_family(const struct counter *c)
{
    return (struct key_pattern){&c->lock, c->store};
}

static bool is_name(struct slice s)
{
    if (s.n == 0 || s.n > NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') && s.p[i] != '_')
            return false;
    return true;
}

static bool is_identifier(struct slice s)
{
    if (s.n == 0 || s.n > 64) return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '$') return false;
    }
    return true;
}

static enum err refuse(const struct counter *c, const char *why, struct error *e)
{
    char name[NAME_BYTES_MAX + 4];
    return error_set(e, ERR_CONFIG, "counter %s: %s", slice_show(c->name, NAME_BYTES_MAX, name, sizeof name),
                     why);
}

static enum err names_validate(const struct counter *c, struct error *e)
{
    if (pattern_can_begin(&c->key, c->store, OWN_PREFIX))
        return refuse(c, "its key can begin with tally:, as tallyd's own keys do; choose another prefix", e);
    if (pattern_can_begin(&c->lock, c->store, OWN_PREFIX))
        return refuse(c, "its lock can begin with tally:, as tallyd's own keys do; choose another prefix", e);
    if (makes_claimed_name(key_family(c)))
        return refuse(
            c,
            "its key can end in '_' and 32 hex digits, as claimed hashes do; let it end in some other "
            "text, such as :daily",
            e);
    if (makes_claimed_name(lock_family(c)))
        return refuse(
            c,
            "its lock can end in '_' and 32 hex digits, as claimed hashes do; let it end in some other "
            "text, such as :sync",
            e);
    return ERR_NONE;
}

bool lookup_valid(const struct lookup *l)
{
    return l->table.n == 0 || (is_identifier(l->table) && is_identifier(l->key) && is_identifier(l->value));
}

static enum err labels_validate(const struct counter *c, struct error *e)
{
    if (!lookup_valid(&c->labels))
        return refuse(c, "labels.table, labels.id and labels.name are each 1 to 64 of A-Z a-z 0-9 _ $", e);
    if (c->labels.table.n > 0 && (c->field == FIELD_DATE || c->field == FIELD_HOUR))
        return refuse(c, "labels are names for items, but its field is a time; take them out", e);
    return ERR_NONE;
}

static enum err columns_validate(const struct counter *c, struct error *e)
{
    if (!is_identifier(c->table) || !is_identifier(c->column_field) || !is_identifier(c->column_count))
        return refuse(c, "table, columns.field and columns.count are each 1 to 64 of A-Z a-z 0-9 _ $", e);
    if (c->key.has_store && !is_identifier(c->column_store))
        return refuse(
            c, "its key holds <store>, so columns.store must name a column, 1 to 64 of A-Z a-z 0-9 _ $", e);
    if (!c->key.has_store && c->column_store.n > 0)
        return refuse(c, "its key holds no <store>, so columns.store would have no value; take it out", e);
    if (slice_ieq(c->column_field, c->column_count) || slice_ieq(c->column_store, c->column_field) ||
        slice_ieq(c->column_store, c->column_count))
        return refuse(c, "columns.store, columns.field and columns.count must be different columns", e);
    return ERR_NONE;
}

static enum err alone_validate(const struct counter *c, struct error *e)
{
    if (!is_name(c->name)) return refuse(c, "a counter's name is 1 to 64 of a-z 0-9 _", e);
    if (c->hits < 1) return refuse(c, "sync.hits must be at least 1", e);
    if (c->every_s < 1) return refuse(c, "sync.every must be at least 1s", e);
    if (c->key.has_store && !c->lock.has_store)
        return refuse(
            c, "its key holds <store>, so its lock must hold it, too, or all stores would share one lock", e);
    if (!c->key.has_store && c->lock.has_store)
        return refuse(c, "its key holds no <store>, so its lock cannot hold it either", e);
    enum err code = names_validate(c, e);
    if (code == ERR_NONE) code = columns_validate(c, e);
    return code != ERR_NONE ? code : labels_validate(c, e);
}

static enum err refuse_overlap(const struct counter *c, const char *mine, const struct counter *other,
                               const char *theirs, const struct candidate *both, struct error *e)
{
    char name[NAME_BYTES_MAX + 4], other_name[NAME_BYTES_MAX + 4], example[200];
    return error_set(
        e, ERR_CONFIG,
        "counter %s: its %s and the %s of counter %s can be the same name, \"%s\"; change one of the "
        "two patterns",
        slice_show(c->name, NAME_BYTES_MAX, name, sizeof name), mine, theirs,
        slice_show(other->name, NAME_BYTES_MAX, other_name, sizeof other_name),
        slice_show(slice_of(both->p, both->n), 190, example, sizeof example));
}

static enum err overlap_validate(const struct counter *c, const struct counter *other, struct error *e)
{
    struct candidate both;
    if (candidate_find(key_family(c), key_family(other), &both))
        return refuse_overlap(c, "key", other, "key", &both, e);
    if (candidate_find(key_family(c), lock_family(other), &both))
        return refuse_overlap(c, "key", other, "lock", &both, e);
    if (candidate_find(lock_family(c), key_family(other), &both))
        return refuse_overlap(c, "lock", other, "key", &both, e);
    if (candidate_find(lock_family(c), lock_family(other), &both))
        return refuse_overlap(c, "lock", other, "lock", &both, e);
    return ERR_NONE;
}

static enum err refuse_table(const struct counter *c, const struct counter *other, struct error *e)
{
    char name[NAME_BYTES_MAX + 4], other_name[NAME_BYTES_MAX + 4], column[68];
    return error_set(
        e, ERR_CONFIG,
        "counter %s: it counts in column %s of the table of counter %s, so the two sums would mix in the "
        "same rows; give one of them another column or table",
        slice_show(c->name, NAME_BYTES_MAX, name, sizeof name),
        slice_show(c->column_count, 64, column, sizeof column),
        slice_show(other->name, NAME_BYTES_MAX, other_name, sizeof other_name));
}

static enum err pair_validate(const struct counter *c, const struct counter *other, struct error *e)
{
    if (slice_eq(c->name, other->name))
        return refuse(c, "there is another counter of this name; rename one", e);
    /* MySQL takes column names, and on some systems table names, without regard to case. */
    if (slice_ieq(c->table, other->table) && slice_ieq(c->column_count, other->column_count))
        return refuse_table(c, other, e);
    return overlap_validate(c, other, e);
}

static enum err one_validate(const struct counters *cs, size_t at, struct error *e)
{
    const struct counter *c = &cs->all[at];
    struct candidate both;
    enum err code = alone_validate(c, e);
    if (code != ERR_NONE) return code;
    if (candidate_find(key_family(c), lock_family(c), &both))
        return refuse_overlap(c, "key", c, "lock", &both, e);
    for (size_t i = 0; i < at && code == ERR_NONE; i++)
        code = pair_validate(c, &cs->all[i], e);
    return code;
}

enum err counters_validate(const struct counters *cs, size_t *which, struct error *e)
{
    for (size_t i = 0; i < cs->n; i++) {
        enum err code = one_validate(cs, i, e);
        if (code == ERR_NONE) continue;
        *which = i;
        return code;
    }
    return ERR_NONE;
}

const struct counter *counters_match(const struct counters *cs, struct slice key)
{
    for (size_t i = 0; i < cs->n; i++)
        if (pattern_match(&cs->all[i].key, cs->all[i].store, key, NULL))
            return claimed_split(key, NULL, NULL) ? NULL : &cs->all[i];
    return NULL;
}

const struct counter *counters_find(const struct counters *cs, struct slice name)
{
    for (size_t i = 0; i < cs->n; i++)
        if (slice_eq(cs->all[i].name, name)) return &cs->all[i];
    return NULL;
}

/* The value of the n <= 8 digits at p; -1 when one of them is not a digit. */
static int digits_value(const char *p, size_t n)
{
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

static bool date_valid(const char *p)
{
    static const int days_of[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = digits_value(p, 4), month = digits_value(p + 4, 2), day = digits_value(p + 6, 2);
    if (year < 1000 || month < 1 || month > 12 || day < 1) return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= days_of[month - 1] + (leap && month == 2 ? 1 : 0);
}

bool field_valid(enum field_kind kind, struct slice field)
{
    int64_t value;
    int hour;
    switch (kind) {
    case FIELD_DATE:
        return field.n == 8 && date_valid(field.p);
    case FIELD_HOUR:
        hour = field.n == 10 ? digits_value(field.p + 8, 2) : -1;
        return hour >= 0 && hour <= 23 && date_valid(field.p);
    case FIELD_INTEGER:
        return num_parse(field, &value);
    case FIELD_TEXT:
        return field.n >= 1 && field.n <= TEXT_BYTES_MAX;
    }
    UNREACHABLE();
}

const char *field_kind_name(enum field_kind kind)
{
    static const char *const names[] = {"date", "hour", "integer", "text"};
    PRE(kind >= FIELD_DATE && kind <= FIELD_TEXT);
    return names[kind];
}

const char *field_kind_expected(enum field_kind kind)
{
    static const char *const texts[] = {"a date as YYYYMMDD", "an hour as YYYYMMDDHH", "an integer",
                                        "a text of 1 to 255 bytes"};
    PRE(kind >= FIELD_DATE && kind <= FIELD_TEXT);
    return texts[kind];
}

void pattern_put(const struct pattern *p, struct slice store, struct buf *out)
{
    buf_put_slice(out, p->prefix);
    if (!p->has_store) return;
    buf_put_slice(out, store);
    buf_put_slice(out, p->suffix);
}

bool counter_key(const struct counter *c, struct slice store, struct buf *out)
{
    size_t begin = out->n;
    struct slice found;
    if (!c->key.has_store) return false;
    pattern_put(&c->key, store, out);
    struct slice key = slice_of(out->p + begin, out->n - begin);
    if (pattern_match(&c->key, c->store, key, &found) && slice_eq(found, store)) return true;
    out->n = begin;
    return false;
}

struct slice counter_store(const struct counter *c, struct slice key)
{
    struct slice store = {"", 0};
    bool matched = pattern_match(&c->key, c->store, key, &store);
    PRE(matched);
    return store;
}

static void name_beside(const struct counter *c, const struct pattern *p, struct slice key, struct buf *out)
{
    pattern_put(p, counter_store(c, key), out);
}

void counter_lock_name(const struct counter *c, struct slice key, struct buf *out)
{
    name_beside(c, &c->lock, key, out);
}

bool counter_feed_name(const struct counter *c, enum feed which, struct slice key, struct buf *out)
{
    if (!counter_feeds(c, which)) return false;
    name_beside(c, &c->feeds[which], key, out);
    return true;
}

bool event_split(struct slice event, struct slice *name, struct slice *type)
{
    size_t at = event.n;
    while (at > 0 && event.p[at - 1] != ':')
        at--;
    if (at < 2) return false;
    *name = slice_of(event.p, at - 1);
    *type = slice_of(event.p + at, event.n - at);
    return type->n > 0 && !slice_eq(*type, SLICE(EVENT_TICKER_TYPE));
}
