/* fuzz_pattern.c - key patterns (series/counter.c): which counter a name belongs to, so that two counters, and tallyd's own
 * keys, stay apart. Lines: two patterns, two letters for the kinds of their stores, then names.
 *   A name that both match: pattern_overlap() knows that they can meet, and so does counters_validate().
 *   A store out of a name, put into the pattern again, is the name. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    struct slice in = slice_of(text, size), first = take_line(&in), second = take_line(&in),
                 kinds = take_line(&in);
    struct pattern a, b;
    struct error e;
    size_t which;
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
