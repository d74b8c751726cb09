/* series/counter.c - see counter.h. */
#include "series/counter.h"

#include "base/heap.h"
#include "base/slice.h"
#include "series/names.h"
#include "series/row.h"

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
            if (is_control(c)) return "may not hold control bytes";
        }
    }
    return NULL;
}

static enum err pattern_refuse(struct slice text, const char *fault, struct error *e)
{
    char shown[80];
    return error_set(e, ERR_CONFIG,
                     "the key pattern \"%s\" %s; expected one like s<store>:unique_visitors:daily",
                     slice_show(text, 60, shown, sizeof shown), fault);
}

enum err pattern_parse(struct slice text, struct pattern *out, struct error *e)
{
    const char *store = text.n > 0 ? memmem(text.p, text.n, "<store>", 7) : NULL;
    size_t at = store != NULL ? (size_t)(store - text.p) : text.n;
    struct pattern p = {.prefix = slice_of(text.p, at), .suffix = SLICE(""), .has_store = at < text.n};
    if (p.has_store) p.suffix = slice_of(text.p + at + 7, text.n - at - 7);
    const char *fault = pattern_fault(&p);
    if (fault != NULL) return pattern_refuse(text, fault, e);
    *out = p;
    return ERR_NONE;
}

enum err pattern_parse_places(struct slice text, struct pattern *out, struct error *e)
{
    struct places p;
    const char *why;
    if (!places_parse(text, &p, &why)) return pattern_refuse(text, why, e);
    bool store = places_find(&p, SLICE("store")) != NULL;
    if (p.n == (store ? 1 : 0)) return pattern_parse(text, out, e);
    if (text.n > KEY_BYTES_MAX) return pattern_refuse(text, "is longer than 512 bytes", e);
    *out = (struct pattern){.prefix = p.text[0], .suffix = p.text[p.n], .has_store = store};
    out->places = heap_alloc(sizeof *out->places);
    *out->places = p;
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
    if (p->places != NULL) {
        struct slice values[PLACES_MAX];
        if (!places_match(p->places, name, values)) return false;
        const struct place *store_at = places_find(p->places, SLICE("store"));
        if (store_at != NULL) found = values[store_at - p->places->at];
    } else if (!p->has_store) {
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

static struct places pattern_places(struct key_pattern f)
{
    if (f.pattern->places != NULL) return *f.pattern->places;
    struct places p = {.text = {f.pattern->prefix, f.pattern->suffix}, .n = f.pattern->has_store};
    p.at[0] = (struct place){SLICE("store"),
                             {f.kind == STORE_TEXT ? VALUE_TEXT : VALUE_INTEGER, SPELLED_DIGITS, 0}};
    return p;
}

static bool families_overlap(struct key_pattern a, struct key_pattern b, struct buf *both)
{
    const struct places of_a = pattern_places(a), of_b = pattern_places(b);
    return places_overlap(&of_a, &of_b, both);
}

bool pattern_overlap(const struct pattern *a, enum store_kind ka, const struct pattern *b, enum store_kind kb)
{
    return families_overlap((struct key_pattern){a, ka}, (struct key_pattern){b, kb}, NULL);
}

bool pattern_can_begin(const struct pattern *p, enum store_kind kind, struct slice lead)
{
    const struct places places = pattern_places((struct key_pattern){p, kind});
    return places_can_begin(&places, lead);
}

bool pattern_misfit(const struct pattern *p, enum store_kind kind, struct slice name, struct slice *place,
                    struct slice *value)
{
    const struct places strict = pattern_places((struct key_pattern){p, kind});
    struct places loose = strict;
    struct slice values[PLACES_MAX];
    int64_t v;
    for (uint32_t i = 0; i < loose.n; i++)
        if (loose.at[i].type.kind == VALUE_INTEGER) loose.at[i].type.kind = VALUE_TEXT;
    if (name.n > KEY_BYTES_MAX || !places_match(&loose, name, values)) return false;
    for (uint32_t i = 0; i < strict.n; i++) {
        *place = strict.at[i].name, *value = values[i];
        if (strict.at[i].type.kind == VALUE_INTEGER && !(num_parse(*value, &v) && v >= 0)) return true;
    }
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

/* Can it make a name that ends in '_' and 32 hex digits? A text before hex digits can, and so can an integer that joins two texts
 * of them. */
static bool makes_claimed_name(struct key_pattern f)
{
    const struct places p = pattern_places(f);
    struct slice tail = p.text[p.n], before = p.n == 0 ? tail : p.text[p.n - 1];
    if (p.n == 0 || tail.n > HEX_ID) return claimed_split(tail, NULL, NULL);
    if (hex_tail(tail) < tail.n) return false;
    if (p.at[p.n - 1].type.kind == VALUE_TEXT) return true;
    size_t hex = hex_tail(before);
    if (hex == before.n || before.p[before.n - 1 - hex] != '_') return false;
    return hex + tail.n < HEX_ID && hex + tail.n + INTEGER_DIGITS_MAX >= HEX_ID;
}

/* A key that does is refused name by name (counters_match), and with it a lock that ends as its key does. */
static bool lock_makes_claimed_name(const struct counter *c, struct key_pattern lock)
{
    const struct places of_key = pattern_places((struct key_pattern){&c->key, c->store}),
                        of_lock = pattern_places(lock);
    if (!makes_claimed_name(lock)) return false;
    return of_key.n == 0 || of_lock.n == 0 || !slice_eq(of_key.text[of_key.n], of_lock.text[of_lock.n]) ||
           !slice_eq(of_key.at[of_key.n - 1].name, of_lock.at[of_lock.n - 1].name) ||
           of_lock.at[of_lock.n - 1].type.kind != VALUE_TEXT;
}

static struct key_pattern key_family(const struct counter *c)
{
    return (struct key_pattern){&c->key, c->store};
}
static struct key_pattern lock_family(const struct counter *c)
{
    return (struct key_pattern){&c->lock, c->store};
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

static enum err counter_refuse(const struct counter *c, const char *why, struct error *e)
{
    char name[NAME_BYTES_MAX + 4];
    return error_set(e, ERR_CONFIG, "counter %s: %s", slice_show(c->name, NAME_BYTES_MAX, name, sizeof name),
                     why);
}

static enum err names_validate(const struct counter *c, struct error *e)
{
    if (pattern_can_begin(&c->key, c->store, OWN_PREFIX))
        return counter_refuse(
            c, "its key can begin with tally:, as tallyd's own keys do; choose another prefix", e);
    if (pattern_can_begin(&c->lock, c->store, OWN_PREFIX))
        return counter_refuse(
            c, "its lock can begin with tally:, as tallyd's own keys do; choose another prefix", e);
    if (c->key.places == NULL && !c->key.has_store && claimed_split(c->key.prefix, NULL, NULL))
        return counter_refuse(
            c, "its key ends in '_' and 32 hex digits, as claimed hashes do; choose another", e);
    if (lock_makes_claimed_name(c, lock_family(c)))
        return counter_refuse(
            c,
            "its lock can end in '_' and 32 hex digits, as claimed hashes do; let it end in some other "
            "text, such as :sync",
            e);
    return ERR_NONE;
}

static enum err labels_validate(const struct counter *c, struct error *e)
{
    /* None, or three identifiers */
    const struct lookup *l = &c->labels;
    if (l->table.n != 0 && (!is_identifier(l->table) || !is_identifier(l->key) || !is_identifier(l->value)))
        return counter_refuse(
            c, "labels.table, labels.id and labels.name are each 1 to 64 of A-Z a-z 0-9 _ $", e);
    struct parts parts;
    if (c->labels.table.n == 0) return ERR_NONE;
    parts_init(&parts, c, 0);
    if (parts.label < parts.n) return ERR_NONE;
    return counter_refuse(c,
                          c->labels_of.n > 0 ? "labels_of names no placeholder that is an integer or a text"
                          : parts.n > 2 ? "labels are names for one placeholder: say with labels_of for which"
                                        : "labels are names for items, but its field is none; take them out",
                          e);
}

/* The i-th of all columns; n = 0: it has none such. */
static struct slice column_at(const struct counter *c, size_t i)
{
    const struct slice first[] = {c->column_count, c->column_store, c->column_field};
    if (i < 3) return first[i];
    i -= 3;
    if (i < c->more_n) return c->more[i].name;
    i -= c->more_n;
    return i < c->sets_n ? c->sets[i].name : c->counts[i - c->sets_n].column;
}

static enum err columns_validate(const struct counter *c, struct error *e)
{
    bool counts = c->field == FIELD_COUNT,
         keyed = c->more_n > 0 || ((counts || c->field == FIELD_NONE) && c->key.has_store);
    if (!is_identifier(c->table) || (!counts && !is_identifier(c->column_count)) ||
        (!keyed && !is_identifier(c->column_field)))
        return counter_refuse(c, "table, columns.field and columns.count are each 1 to 64 of A-Z a-z 0-9 _ $",
                              e);
    if (c->key.has_store && !is_identifier(c->column_store))
        return counter_refuse(
            c, "its key holds <store>, so columns.store must name a column, 1 to 64 of A-Z a-z 0-9 _ $", e);
    if (!c->key.has_store && c->column_store.n > 0)
        return counter_refuse(
            c, "its key holds no <store>, so columns.store would have no value; take it out", e);
    for (size_t i = 0; i < 3 + c->more_n + c->sets_n + c->counts_n; i++) {
        if ((i >= 3 || column_at(c, i).n > 0) && !is_identifier(column_at(c, i)))
            return counter_refuse(c, "a column is 1 to 64 of A-Z a-z 0-9 _ $", e);
        for (size_t k = 0; k < i; k++)
            if (column_at(c, i).n > 0 && slice_ieq(column_at(c, i), column_at(c, k)))
                return counter_refuse(c, "all of columns, constants and set must be different columns", e);
    }
    return ERR_NONE;
}

/* A lock that lacks a placeholder would be shared by hashes that the key tells apart. */
static bool places_same(const struct pattern *a, const struct pattern *b)
{
    if ((a->places == NULL) != (b->places == NULL) || a->has_store != b->has_store) return false;
    if (a->places == NULL) return true;
    for (uint32_t i = 0; i < a->places->n; i++)
        if (places_find(b->places, a->places->at[i].name) == NULL) return false;
    return a->places->n == b->places->n;
}

static enum err alone_validate(const struct counter *c, struct error *e)
{
    if (!name_valid(c->name)) return counter_refuse(c, "a counter's name is 1 to 64 of a-z 0-9 _", e);
    if (c->hits < 1) return counter_refuse(c, "sync.hits must be at least 1", e);
    if (c->every_s < 1) return counter_refuse(c, "sync.every must be at least 1s", e);
    if (counter_locks(c) && c->key.has_store && !c->lock.has_store)
        return counter_refuse(
            c, "its key holds <store>, so its lock must hold it, too, or all stores would share one lock", e);
    if (counter_locks(c) && !c->key.has_store && c->lock.has_store)
        return counter_refuse(c, "its key holds no <store>, so its lock cannot hold it either", e);
    if (counter_locks(c) && !places_same(&c->key, &c->lock))
        return counter_refuse(c, "its lock must hold the placeholders of its key", e);
    enum err code = names_validate(c, e);
    if (code == ERR_NONE) code = columns_validate(c, e);
    return code != ERR_NONE ? code : labels_validate(c, e);
}

static enum err overlap_validate(const struct counter *c, const struct counter *other, struct error *e)
{
    static const char *const names[] = {"key", "lock"};
    const struct key_pattern mine[] = {key_family(c), lock_family(c)},
                             theirs[] = {key_family(other), lock_family(other)};
    struct buf both = {0};
    enum err code = ERR_NONE;
    for (size_t i = 0; i < 4 && code == ERR_NONE; i++) {
        size_t a = i / 2, b = i % 2;
        if ((c == other && a >= b) || (a == 1 && !counter_locks(c)) || (b == 1 && !counter_locks(other)))
            continue;
        if (families_overlap(mine[a], theirs[b], &both)) {
            char name[NAME_BYTES_MAX + 4], other_name[NAME_BYTES_MAX + 4], example[200];
            code = error_set(
                e, ERR_CONFIG,
                "counter %s: its %s and the %s of counter %s can be the same name, \"%s\"; change one of the "
                "two patterns",
                slice_show(c->name, NAME_BYTES_MAX, name, sizeof name), names[a], names[b],
                slice_show(other->name, NAME_BYTES_MAX, other_name, sizeof other_name),
                slice_show(buf_slice(&both), 190, example, sizeof example));
        }
    }
    buf_free(&both);
    return code;
}

/* Does a constant keep their rows apart? */
static bool constants_part(const struct counter *a, const struct counter *b)
{
    for (uint32_t i = 0; i < a->more_n; i++)
        for (uint32_t k = 0; k < b->more_n; k++)
            if (a->more[i].from == FROM_CONSTANT && b->more[k].from == FROM_CONSTANT &&
                slice_ieq(a->more[i].name, b->more[k].name) &&
                !slice_ieq(a->more[i].constant, b->more[k].constant))
                return true;
    return false;
}

static enum err pair_validate(const struct counter *c, const struct counter *other, struct error *e)
{
    if (slice_eq(c->name, other->name))
        return counter_refuse(c, "there is another counter of this name; rename one", e);
    /* MySQL takes column names, and on some systems table names, without regard to case. */
    for (uint32_t i = 0; i < counter_counts_n(c) && slice_ieq(c->table, other->table); i++) {
        struct counter one = counter_of_count(c, i);
        for (uint32_t k = 0; k < counter_counts_n(other); k++) {
            if (!slice_ieq(one.column_count, counter_of_count(other, k).column_count) ||
                constants_part(c, other))
                continue;
            char name[NAME_BYTES_MAX + 4], other_name[NAME_BYTES_MAX + 4], column[68];
            return error_set(
                e, ERR_CONFIG,
                "counter %s: it counts in column %s of the table of counter %s, so the two sums would "
                "mix in the same rows; give one of them another column or table",
                slice_show(c->name, NAME_BYTES_MAX, name, sizeof name),
                slice_show(one.column_count, 64, column, sizeof column),
                slice_show(other->name, NAME_BYTES_MAX, other_name, sizeof other_name));
        }
    }
    return overlap_validate(c, other, e);
}

enum err counters_validate(const struct counters *cs, size_t *which, struct error *e)
{
    for (size_t i = 0; i < cs->n; i++) {
        const struct counter *c = &cs->all[i];
        enum err code = alone_validate(c, e);
        if (code == ERR_NONE) code = overlap_validate(c, c, e);
        for (size_t k = 0; k < i && code == ERR_NONE; k++)
            code = pair_validate(c, &cs->all[k], e);
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

bool field_valid(enum field_kind kind, struct slice field)
{
    static const struct value_type hour = {VALUE_HOUR, SPELLED_DIGITS, 0},
                                   month = {VALUE_MONTH, SPELLED_DIGITS, 0};
    char digits[PLAIN_BYTES];
    int64_t value;
    switch (kind) {
    case FIELD_DATE:
        return date_is(field);
    case FIELD_HOUR:
        return value_plain(&hour, field, digits, &field);
    case FIELD_MONTH:
        return value_plain(&month, field, digits, &field);
    case FIELD_INTEGER:
        return num_parse(field, &value);
    case FIELD_TEXT:
        return field.n >= 1 && field.n <= TEXT_BYTES_MAX;
    case FIELD_PLACES:
    case FIELD_COUNT:
    case FIELD_NONE:
        break;
    }
    UNREACHABLE();
}

static uint32_t counts_find(const struct counter *c, struct slice field)
{
    uint32_t i = 0;
    while (i < c->counts_n && !slice_eq(c->counts[i].field, field))
        i++;
    return i;
}

struct counter counter_of_count(const struct counter *c, uint32_t i)
{
    struct counter one = *c;
    PRE(i < counter_counts_n(c));
    if (c->field == FIELD_COUNT) one.column_count = c->counts[i].column;
    return one;
}

uint32_t counter_count_of(const struct counter *c, struct slice field)
{
    return c->field == FIELD_COUNT ? counts_find(c, field) : 0;
}

bool counter_field_valid(const struct counter *c, struct slice field)
{
    struct slice values[PLACES_MAX], plain;
    char digits[PLAIN_BYTES];
    if (c->field == FIELD_NONE) return slice_eq(field, FIELD_ONLY);
    if (c->field == FIELD_COUNT) return counts_find(c, field) < c->counts_n;
    if (c->field == FIELD_PLACES)
        return field.n <= TEXT_BYTES_MAX && places_match(c->field_places, field, values);
    if (c->spelled.spelling != SPELLED_DIGITS) return value_plain(&c->spelled, field, digits, &plain);
    return field_valid(c->field, field);
}

const char *field_kind_name(enum field_kind kind)
{
    static const char *const names[] = {"date",  "hour",    "integer", "text",
                                        "month", "pattern", "count",   "none"};
    PRE(kind >= FIELD_DATE && kind <= FIELD_NONE);
    return names[kind];
}

const char *field_kind_expected(enum field_kind kind)
{
    static const char *const texts[] = {
        "a date as YYYYMMDD", "an hour as YYYYMMDDHH", "an integer",          "a text of 1 to 255 bytes",
        "a month as YYYYMM",  "as in its pattern",     "the name of a count", "\"count\", its only one"};
    PRE(kind >= FIELD_DATE && kind <= FIELD_NONE);
    return texts[kind];
}

void counter_field_expected(const struct counter *c, struct buf *out)
{
    static const char *const examples[] = {
        [VALUE_DATE] = "20240501", [VALUE_HOUR] = "2024050113", [VALUE_MONTH] = "202405"};
    if (c->field == FIELD_PLACES) {
        BUF_LIT(out, "as ");
        places_text(c->field_places, out);
    } else if (c->field == FIELD_COUNT) {
        BUF_LIT(out, "one of ");
        for (uint32_t i = 0; i < c->counts_n; i++)
            buf_printf(out, "%s" SLICE_FMT, i > 0 ? ", " : "", SLICE_ARG(c->counts[i].field));
    } else if (c->spelled.spelling != SPELLED_DIGITS) {
        buf_printf(out, "a%s %s as ", c->field == FIELD_HOUR ? "n" : "", field_kind_name(c->field));
        value_spell(&c->spelled, slice_str(examples[c->spelled.kind]), out);
    } else {
        buf_put_slice(out, slice_str(field_kind_expected(c->field)));
    }
}

void pattern_put(const struct pattern *p, struct slice store, struct buf *out)
{
    PRE(p->places == NULL);
    buf_put_slice(out, p->prefix);
    if (!p->has_store) return;
    buf_put_slice(out, store);
    buf_put_slice(out, p->suffix);
}

void pattern_text(const struct pattern *p, struct buf *out)
{
    if (p->places != NULL)
        places_text(p->places, out);
    else
        pattern_put(p, SLICE("<store>"), out);
}

bool counter_takes_store(const struct counter *c, struct slice store)
{
    return c->key.has_store && store_valid(c->store, store);
}

bool counter_key(const struct counter *c, struct slice store, struct buf *out)
{
    size_t begin = out->n;
    struct slice found;
    if (!c->key.has_store || c->key.places != NULL) return false;
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

/* A lock has the placeholders of its key, in any order; a feed has none but <store>. */
static void name_beside(const struct counter *c, const struct pattern *p, struct slice key, struct buf *out)
{
    const struct places *places = p->places;
    if (places == NULL) return pattern_put(p, counter_store(c, key), out);
    struct slice of_key[PLACES_MAX], values[PLACES_MAX];
    bool matched = places_match(c->key.places, key, of_key);
    PRE(matched);
    for (uint32_t i = 0; i < places->n; i++)
        values[i] = of_key[places_find(c->key.places, places->at[i].name) - c->key.places->at];
    places_put(places, values, out);
}

void counter_lock_name(const struct counter *c, struct slice key, struct buf *out)
{
    if (counter_locks(c)) name_beside(c, &c->lock, key, out);
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
