/* fuzz_pattern.c - key patterns (series/counter.c): which counter a name belongs to, so that two counters, and tallyd's own
 * keys, stay apart. Lines: two patterns, two letters for the kinds of their stores, then names.
 *   A name that both match: pattern_overlap() knows that they can meet, and so does counters_validate().
 *   A store out of a name, put into the pattern again, is the name.
 * The same of patterns with several placeholders, each of the kind that a letter of the third line says. */
#include "fuzz.h"

#include "series/counter.h"
#include "series/names.h"

static enum store_kind kind_of(struct slice line, size_t i)
{
    return i < line.n && line.p[i] == 't' ? STORE_TEXT : STORE_INTEGER;
}

static bool put_back(const struct pattern *p, enum store_kind kind, struct slice name)
{
    struct slice store;
    struct buf again = {0};
    if (!pattern_match(p, kind, name, &store)) return false;
    pattern_put(p, store, &again);
    MUST(slice_eq(buf_slice(&again), name));
    buf_free(&again);
    return true;
}

static struct counter counter_of(const char *name, const char *column, const struct pattern *key,
                                 enum store_kind store)
{
    struct counter c = {.name = slice_str(name), .key = *key, .store = store, .hits = 1, .every_s = 1};
    c.lock = *key;
    (*(key->has_store ? &c.lock.suffix : &c.lock.prefix)) =
        SLICE("#a lock that nothing in the input is called");
    c.table = SLICE("t");
    c.column_store = key->has_store ? SLICE("s") : SLICE("");
    c.column_field = SLICE("f");
    c.column_count = slice_str(column);
    return c;
}

/* A set that is accepted has no name that two of its patterns, a lock, or tallyd itself could mean. */
static void set_keeps_apart(const struct counters *set, bool taken, struct slice name)
{
    unsigned owners = 0;
    for (size_t i = 0; i < set->n; i++)
        owners += pattern_match(&set->all[i].key, set->all[i].store, name, NULL);
    if (owners == 0 || !taken) return;
    MUST(owners == 1 && !slice_starts(name, SLICE("tally:")) && !claimed_split(name, NULL, NULL));
    MUST(counters_match(set, name) != NULL);
}

static bool places_of(struct slice text, struct slice kinds, struct places *out)
{
    static const char *const types[] = {
        "integer", "text", "date", "date 2024-05-01", "hour 2024-05-01 13", "month", "date seconds"};
    const char *why;
    if (!places_parse(text, out, &why)) return false;
    for (uint32_t i = 0; i < out->n; i++) {
        size_t at = i < kinds.n ? (unsigned char)kinds.p[i] % (sizeof types / sizeof *types) : 0;
        MUST(value_type_parse(slice_str(types[at]), &out->at[i].type));
    }
    return true;
}

/* Is it a name of p's? Then its values make it again, and times are spelled as they came. */
static bool places_put_back(const struct places *p, struct slice name)
{
    struct slice values[PLACES_MAX], plain;
    struct buf again = {0};
    char digits[PLAIN_BYTES];
    if (!places_match(p, name, values)) return false;
    places_put(p, values, &again);
    MUST(slice_eq(buf_slice(&again), name));
    for (uint32_t i = 0; i < p->n; i++) {
        const struct value_type *type = &p->at[i].type;
        MUST(value_plain(type, values[i], digits, &plain));
        if (type->kind == VALUE_INTEGER || type->kind == VALUE_TEXT) continue;
        buf_reset(&again);
        value_spell(type, plain, &again);
        MUST(slice_eq(buf_slice(&again), values[i]));
    }
    buf_free(&again);
    return true;
}

static void several_places(struct slice first, struct slice second, struct slice kinds, struct slice names)
{
    struct places a, b;
    bool overlap = false, asked = false;
    if (first.n + second.n > 200 || !places_of(first, kinds, &a) || !places_of(second, kinds, &b)) return;
    while (names.n > 0) {
        struct slice name = take_line(&names);
        bool of_a = places_put_back(&a, name), of_b = places_put_back(&b, name);
        if (!of_a || !of_b) continue;
        if (!asked) overlap = places_overlap(&a, &b, NULL);
        asked = true;
        MUST(overlap);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    struct slice in = slice_of(text, size), first = take_line(&in), second = take_line(&in),
                 kinds = take_line(&in);
    struct pattern a, b;
    struct error e;
    size_t which;
    several_places(first, second, kinds, in);
    if (pattern_parse(first, &a, &e) == ERR_NONE && pattern_parse(second, &b, &e) == ERR_NONE) {
        enum store_kind ka = kind_of(kinds, 0), kb = kind_of(kinds, 1);
        bool overlap = pattern_overlap(&a, ka, &b, kb);
        MUST(overlap == pattern_overlap(&b, kb, &a, ka));
        struct counter all[] = {counter_of("a", "x", &a, ka), counter_of("b", "y", &b, kb)};
        struct counters set = {.all = all, .n = 2};
        bool taken = counters_validate(&set, &which, &e) == ERR_NONE;
        MUST(!taken || !overlap);
        while (in.n > 0) {
            struct slice name = take_line(&in);
            bool of_a = put_back(&a, ka, name), of_b = put_back(&b, kb, name);
            MUST(!of_a || !of_b || overlap);
            set_keeps_apart(&set, taken, name);
        }
    }
    heap_free(text);
    return 0;
}
