/* Counters: patterns against brute force over small alphabets, kinds of fields, and what a set is refused
 * for. */
#include "lib/unit.h"

#include "base/heap.h"
#include "lib/child.h"
#include "lib/dice.h"
#include "series/counter.h"

#define HEX "00112233445566778899aabbccddeeff"
#define CLAIMED_END "_00112233445566778899aabbccddeeff"
#define CLAIMED "x_00112233445566778899aabbccddeeff"

static struct pattern parsed(const char *text)
{
    struct pattern p;
    struct error e = {0};
    if (pattern_parse(slice_str(text), &p, &e) != ERR_NONE) fail_msg("%s: %s", text, e.text);
    return p;
}

UNIT(patterns_are_parsed)
{
    struct pattern p = parsed("s<store>:unique_visitors:daily");
    assert_true(p.has_store);
    assert_slice(p.prefix, "s");
    assert_slice(p.suffix, ":unique_visitors:daily");
    p = parsed("visitors");
    assert_false(p.has_store);
    assert_slice(p.prefix, "visitors");
    assert_int_equal(p.suffix.n, 0);
    p = parsed("<store>");
    assert_int_equal(p.prefix.n + p.suffix.n, 0);
}

UNIT(other_patterns_are_refused)
{
    static char long_text[KEY_BYTES_MAX + 2];
    memset(long_text, 'x', KEY_BYTES_MAX + 1);
    const char *texts[] = {
        "",     "<store><store>", "s<store>:<store>", "s<shop>:x", "s<store>:<x", "a>b",
        "a\nb", "a\x7f",          "<Store>",          "<store",    "<<store>>",   long_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pattern p;
        struct error e = {0};
        if (pattern_parse(slice_str(texts[i]), &p, &e) != ERR_CONFIG) fail_msg("not refused: %s", texts[i]);
        assert_true(strlen(e.text) > 0);
    }
    (void)parsed(long_text + 1);
}

static void expect_store(const char *pattern, enum store_kind kind, struct slice name, const char *store)
{
    struct pattern p = parsed(pattern);
    struct slice got = SLICE("untouched");
    if (pattern_match(&p, kind, name, &got) != (store != NULL)) fail_msg("%s on %s", pattern, name.p);
    assert_slice(got, store != NULL ? store : "untouched");
    assert_int_equal(pattern_match(&p, kind, name, NULL), store != NULL);
}

UNIT(names_are_matched)
{
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s12345:x"), "12345");
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s0:x"), "0");
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s9223372036854775807:x"), "9223372036854775807");
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s9223372036854775808:x"), NULL);
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s-1:x"), NULL);
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s01:x"), NULL);
    expect_store("s<store>:x", STORE_INTEGER, SLICE("s:x"), NULL);
    expect_store("s<store>:x", STORE_INTEGER, SLICE("sa:x"), NULL);
    expect_store("s<store>:x", STORE_TEXT, SLICE("sa b_1:x"), "a b_1");
    expect_store("s<store>:x", STORE_TEXT, SLICE("sa:b:x"), NULL);
    expect_store("s<store>:x", STORE_TEXT, SLICE("sa{:x"), NULL);
    expect_store("s<store>:x", STORE_TEXT, SLICE("sa\r:x"), NULL);
    expect_store("s<store>:x", STORE_TEXT, SLICE("s\xc3\xa4:x"), "\xc3\xa4");
    expect_store("aa<store>aa", STORE_TEXT, SLICE("aaa"), NULL);
    expect_store("aa<store>aa", STORE_TEXT, SLICE("aaaaa"), "a");
    expect_store("all", STORE_INTEGER, SLICE("all"), "");
    expect_store("all", STORE_INTEGER, SLICE("alls"), NULL);
}

UNIT(lengths_are_bounded)
{
    char name[600];
    memset(name, 'a', sizeof name);
    struct pattern text = parsed("<store>");
    assert_true(pattern_match(&text, STORE_TEXT, slice_of(name, 255), NULL));
    assert_false(pattern_match(&text, STORE_TEXT, slice_of(name, 256), NULL));
    char long_text[400];
    memset(long_text, 'a', sizeof long_text);
    memcpy(long_text + 380, "<store>", 8);
    struct pattern p = parsed(long_text);
    assert_true(pattern_match(&p, STORE_TEXT, slice_of(name, KEY_BYTES_MAX), NULL));
    assert_false(pattern_match(&p, STORE_TEXT, slice_of(name, KEY_BYTES_MAX + 1), NULL));
}

/* --- overlap: every name over a small alphabet, matched by a matcher of this test's own --- */

#define LETTERS "01a:"
#define BRUTE_BYTES_MAX 8

struct piece_pattern {
    char prefix[BRUTE_BYTES_MAX], suffix[BRUTE_BYTES_MAX], text[32]; /* of at most 3 letters */
    bool has_store;
    enum store_kind kind;
    struct pattern pattern;
};

static bool naive_match(const struct piece_pattern *p, const char *name)
{
    char store[BRUTE_BYTES_MAX + 1], again[24];
    size_t n = strlen(name), prefix = strlen(p->prefix), suffix = strlen(p->suffix);
    if (!p->has_store) return strcmp(name, p->prefix) == 0;
    if (n <= prefix + suffix || strncmp(name, p->prefix, prefix) != 0) return false;
    if (strcmp(name + n - suffix, p->suffix) != 0) return false;
    (void)snprintf(store, sizeof store, "%.*s", (int)(n - prefix - suffix), name + prefix);
    if (p->kind == STORE_TEXT) return strchr(store, ':') == NULL;
    (void)snprintf(again, sizeof again, "%llu", strtoull(store, NULL, 10));
    return strcmp(store, again) == 0;
}

static bool naive_overlap(const struct piece_pattern *a, const struct piece_pattern *b, char *name, size_t n)
{
    name[n] = '\0';
    if (n > 0 && naive_match(a, name) && naive_match(b, name)) return true;
    if (n == BRUTE_BYTES_MAX) return false;
    for (const char *letter = LETTERS; *letter != '\0'; letter++) {
        name[n] = *letter;
        if (n < strlen(a->prefix) && a->prefix[n] != *letter) continue; /* no name of a's begins like this */
        if (naive_overlap(a, b, name, n + 1)) return true;
    }
    return false;
}

static void draw_text(struct dice *d, char out[BRUTE_BYTES_MAX])
{
    size_t n = dice_below(d, 4);
    for (size_t i = 0; i < n; i++)
        out[i] = LETTERS[dice_below(d, sizeof LETTERS - 1)];
    out[n] = '\0';
}

static void draw_pattern(struct dice *d, struct piece_pattern *p)
{
    do {
        draw_text(d, p->prefix);
        draw_text(d, p->suffix);
        p->has_store = dice_below(d, 5) > 0;
        if (!p->has_store) p->suffix[0] = '\0';
    } while (!p->has_store && p->prefix[0] == '\0');
    p->kind = dice_below(d, 2) == 0 ? STORE_INTEGER : STORE_TEXT;
    (void)snprintf(p->text, sizeof p->text, "%s%s%s", p->prefix, p->has_store ? "<store>" : "", p->suffix);
    p->pattern = parsed(p->text);
}

UNIT(overlap_is_exact)
{
    struct dice d = dice_new("overlap_is_exact");
    size_t yes = 0, pairs = 600;
    for (size_t i = 0; i < pairs; i++) {
        struct piece_pattern a, b;
        char name[BRUTE_BYTES_MAX + 1];
        draw_pattern(&d, &a);
        draw_pattern(&d, &b);
        bool expected = naive_overlap(&a, &b, name, 0);
        bool got = pattern_overlap(&a.pattern, a.kind, &b.pattern, b.kind);
        bool turned = pattern_overlap(&b.pattern, b.kind, &a.pattern, a.kind);
        if (got != expected || turned != expected)
            fail_msg("%s (kind %d) and %s (kind %d): expected %d, e.g. %s", a.text, a.kind, b.text, b.kind,
                     expected, name);
        yes += expected;
    }
    assert_true(yes > pairs / 100 && yes < pairs / 2);
}

static bool overlap(const char *a, enum store_kind ka, const char *b, enum store_kind kb)
{
    struct pattern pa = parsed(a), pb = parsed(b);
    return pattern_overlap(&pa, ka, &pb, kb);
}

UNIT(overlap_of_long_ones)
{
    assert_false(overlap("s<store>:a", STORE_INTEGER, "s<store>:b", STORE_INTEGER));
    assert_true(overlap("s<store>:x", STORE_INTEGER, "s<store>1:x", STORE_INTEGER));
    assert_false(overlap("s<store>:x", STORE_TEXT, "s<store>:y:x", STORE_TEXT));
    assert_false(overlap("s<store>:daily", STORE_TEXT, "s<store>:daily:sync", STORE_TEXT));
    assert_true(overlap("s<store>", STORE_TEXT, "s<store>_daily", STORE_TEXT));
    assert_false(overlap("s<store>", STORE_INTEGER, "s<store>_daily", STORE_TEXT));
    assert_true(overlap("s<store>", STORE_INTEGER, "s922337203685477580<store>", STORE_INTEGER));
    assert_false(overlap("s<store>", STORE_INTEGER, "s922337203685477581<store>", STORE_INTEGER));
    assert_false(overlap("s<store>", STORE_INTEGER, "s9223372036854775807<store>", STORE_INTEGER));
    assert_true(overlap("s<store>", STORE_INTEGER, "s9223372036854775807", STORE_INTEGER));
    assert_false(overlap("s<store>", STORE_INTEGER, "s9223372036854775808", STORE_INTEGER));
    char a[300], b[300];
    memset(a, 'a', sizeof a), memset(b, 'a', sizeof b);
    memcpy(a + 254, "<store>", 8);
    memcpy(b, "<store>", 7), b[7 + 254] = '\0';
    assert_true(overlap(a, STORE_TEXT, b, STORE_TEXT));
    memcpy(a + 256, "<store>", 8), a[254] = a[255] = 'a';
    assert_true(overlap(a, STORE_TEXT, b, STORE_TEXT));
    memset(b + 7, 'b', 256), b[7 + 256] = '\0';
    assert_false(overlap(a, STORE_TEXT, b, STORE_TEXT)); /* a capture would have to hold 256 bytes */
}

/* Which placeholder of `key` has a value in `name` that is no integer: "<place>=<value>"; NULL: that is not what is wrong. */
static void misfit_is(const char *key, enum store_kind kind, const char *name, const char *expected)
{
    struct pattern p;
    struct slice place, value;
    struct buf got = {0};
    assert_int_equal(pattern_parse_places(slice_str(key), &p, NULL), ERR_NONE);
    if (pattern_misfit(&p, kind, slice_str(name), &place, &value))
        buf_printf(&got, SLICE_FMT "=" SLICE_FMT, SLICE_ARG(place), SLICE_ARG(value));
    assert_slice(buf_slice(&got), expected);
    buf_free(&got);
    heap_free(p.places);
}

UNIT(a_text_where_an_integer_is_wanted)
{
    static const char two[] = "store:<store>:product:<product>:views";
    misfit_is("product:<store>:views", STORE_INTEGER, "product:abc:views", "store=abc");
    misfit_is("product:<store>:views", STORE_INTEGER, "product:007:views", "store=007");
    misfit_is("product:<store>:views", STORE_INTEGER, "product:-7:views", "store=-7");
    misfit_is("product:<store>:views", STORE_INTEGER, "product:7:views", "");
    misfit_is("product:<store>:views", STORE_INTEGER, "product::views", "");
    misfit_is("product:<store>:views", STORE_INTEGER, "product:a:b:views", "");
    misfit_is("product:<store>:views", STORE_TEXT, "product:abc:views", "");
    misfit_is("product:<product>:views", STORE_INTEGER, "product:abc:views", "product=abc");
    misfit_is("views:<product>", STORE_INTEGER, "views:a:b", "product=a:b");
    misfit_is("views", STORE_INTEGER, "views:abc", "");
    misfit_is(two, STORE_INTEGER, "store:abc:product:7:views", "store=abc");
    misfit_is(two, STORE_INTEGER, "store:7:product:abc:views", "product=abc");
    misfit_is(two, STORE_INTEGER, "store:abc:product:def:views", "store=abc");
    misfit_is(two, STORE_INTEGER, "store:7:product:8:views", "");
    misfit_is(two, STORE_INTEGER, "store:7:article:abc:views", "");
}

/* --- sets of counters --- */

static struct counter counter_of(const char *name, const char *key, const char *lock, enum store_kind kind)
{
    struct counter c = {.name = slice_str(name),
                        .key = parsed(key),
                        .lock = parsed(lock),
                        .field = FIELD_DATE,
                        .store = kind,
                        .hits = 50,
                        .every_s = 60,
                        .table = slice_str(name),
                        .column_field = SLICE("day"),
                        .column_count = SLICE("n")};
    if (c.key.has_store) c.column_store = SLICE("store_id");
    return c;
}

static void expect_set(struct counter *all, size_t n, size_t at_fault, const char *says)
{
    struct counters cs = {.all = all, .n = n};
    struct error e = {0};
    size_t which = SIZE_MAX;
    enum err code = counters_validate(&cs, &which, &e);
    if (says == NULL && code != ERR_NONE) fail_msg("refused: %s", e.text);
    if (says == NULL) return;
    assert_int_equal(code, ERR_CONFIG);
    if (strstr(e.text, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.text, says);
    assert_int_equal(which, at_fault);
}

static void expect_one(const char *key, const char *lock, enum store_kind kind, const char *says)
{
    struct counter c = counter_of("a", key, lock, kind);
    expect_set(&c, 1, 0, says);
}

static void expect_two(const char *key, const char *lock, const char *says)
{
    struct counter all[] = {counter_of("a", "s<store>:a", "s<store>:a:sync", STORE_INTEGER),
                            counter_of("b", key, lock, STORE_INTEGER)};
    expect_set(all, 2, 1, says);
}

UNIT(good_sets_pass)
{
    struct counter all[] = {
        counter_of("unique_visitors", "s<store>:unique_visitors:daily", "s<store>:unique_visitors:sync",
                   STORE_INTEGER),
        counter_of("product_views", "s<store>:product_views", "s<store>:product_views:sync", STORE_INTEGER),
        counter_of("by_name", "shop:<store>:views", "shop:<store>:views:sync", STORE_TEXT),
        counter_of("total", "views", "views:sync", STORE_INTEGER),
        counter_of("bare", "t_<store>", "lock_<store>", STORE_INTEGER),
    };
    expect_set(all, 5, 0, NULL);
    expect_set(all, 0, 0, NULL);
}

UNIT(overlapping_sets_are_refused)
{
    expect_one("s<store>:a", "s<store>:a", STORE_INTEGER,
               "its key and the lock of counter a can be the same name, \"s0:a\"");
    expect_one("s<store>", "s<store>1", STORE_INTEGER, "can be the same name, \"s11\"");
    expect_two("s1<store>:a", "t<store>", "its key and the key of counter a can be the same name, \"s10:a\"");
    expect_two("s<store>:a:sync", "t<store>", "its key and the lock of counter a");
    expect_two("t<store>", "s<store>:a", "its lock and the key of counter a");
    expect_two("t<store>", "s<store>:a:sync", "its lock and the lock of counter a");
    expect_two("t<store>", "t<store>:sync", NULL);
}

UNIT(own_names_are_refused)
{
    expect_one("tally:x", "x", STORE_INTEGER, "its key can begin with tally:");
    expect_one("x", "tally:dirty", STORE_INTEGER, "its lock can begin with tally:");
    expect_one("tally:<store>", "x<store>", STORE_INTEGER, "its key can begin with tally:");
    expect_one("<store>:x", "<store>:x:sync", STORE_TEXT, "its key can begin with tally:");
    expect_one("ta<store>y:x", "x<store>:", STORE_TEXT, "its key can begin with tally:");
    expect_one("tally<store>:x", "x<store>:", STORE_TEXT, NULL);
    expect_one("tall<store>:x", "x<store>:", STORE_INTEGER, NULL);
    expect_one("<store>:x", "<store>:x:sync", STORE_INTEGER, NULL);
    expect_one("<store>-x:", "<store>-x:sync", STORE_TEXT, NULL);
    expect_one("tally", "tally.sync", STORE_INTEGER, NULL);
}

UNIT(claimed_names_are_refused)
{
    expect_one("x_" HEX, "y", STORE_INTEGER, "its key ends in '_' and 32 hex digits");
    expect_one("y", "x_" HEX, STORE_INTEGER, "its lock can end in '_' and 32 hex digits");
    expect_one("y<store>", "s<store>_" HEX, STORE_INTEGER, "its lock can end");
    expect_one("y<store>", "s<store>" HEX, STORE_INTEGER, NULL);
    expect_one("y<store>:", "s<store>" HEX, STORE_TEXT, "its lock can end");
    expect_one("y<store>:", "s<store>", STORE_TEXT, "its lock can end");
    expect_one("y:<store>", "s:<store>", STORE_TEXT,
               NULL); /* where the lock would, the key does, and is refused */
    expect_one("y<store>:", "s<store>abc", STORE_TEXT, "its lock can end");
    expect_one("y<store>:", "s<store>abcx", STORE_TEXT, NULL);
    expect_one("y<store>", "s_0123456789abc<store>", STORE_INTEGER, "its lock can end"); /* 13 + 19 */
    expect_one("y<store>", "s_0123456789ab<store>", STORE_INTEGER, NULL);                /* 12 + 19 */
    expect_one("y<store>", "s_0123456789ab<store>f", STORE_INTEGER, "its lock can end");
    expect_one("y<store>", "s_0123456789abcdef0123<store>0123456789ab", STORE_INTEGER, NULL);
    expect_one("y<store>", "s_0123456789abcdef0123<store>0123456789a", STORE_INTEGER, "its lock can end");
    expect_one("y<store>", "s-0123456789abc<store>", STORE_INTEGER, NULL);
}

UNIT(incomplete_counters_are_refused)
{
    struct counter good = counter_of("a", "s<store>:a", "s<store>:a:sync", STORE_INTEGER), c;
    expect_set(&good, 1, 0, NULL);
    c = good, c.name = SLICE("A");
    expect_set(&c, 1, 0, "a counter's name is");
    c = good, c.name = SLICE("");
    expect_set(&c, 1, 0, "a counter's name is");
    c = good, c.hits = 0;
    expect_set(&c, 1, 0, "sync.hits");
    c = good, c.every_s = 0;
    expect_set(&c, 1, 0, "sync.every");
    struct counter unlocked[2] = {good, counter_of("b", "s<store>:b", "s<store>:b:sync", STORE_INTEGER)};
    unlocked[0].lock = unlocked[1].lock = (struct pattern){.has_store = false};
    expect_set(unlocked, 2, 0, NULL); /* neither has a lock */
    c = good, c.lock = parsed("lock");
    expect_set(&c, 1, 0, "its lock must hold it");
    c = good, c.key = parsed("x");
    expect_set(&c, 1, 0, "its lock cannot hold it");
    c = good, c.table = SLICE("a`b");
    expect_set(&c, 1, 0, "1 to 64 of A-Z");
    c = good, c.column_store = SLICE("");
    expect_set(&c, 1, 0, "columns.store must name a column");
    c = counter_of("a", "x", "y", STORE_INTEGER), c.column_store = SLICE("store_id");
    expect_set(&c, 1, 0, "take it out");
    c = good, c.column_count = SLICE("DAY");
    expect_set(&c, 1, 0, "must be different columns");
    c = good, c.labels = (struct lookup){SLICE("products"), SLICE("product_id"), SLICE("a`b")};
    expect_set(&c, 1, 0, "labels.name are each 1 to 64");
    c.labels.value = SLICE("title");
    expect_set(&c, 1, 0, "labels are names for items");
    c.field = FIELD_INTEGER;
    expect_set(&c, 1, 0, NULL);
}

UNIT(twins_are_refused)
{
    struct counter all[] = {counter_of("a", "s<store>:a", "s<store>:a:sync", STORE_INTEGER),
                            counter_of("b", "s<store>:b", "s<store>:b:sync", STORE_INTEGER)};
    all[1].name = SLICE("a");
    expect_set(all, 2, 1, "another counter of this name");
    all[1].name = SLICE("b"), all[1].table = SLICE("A");
    expect_set(all, 2, 1, "counts in column n of the table of counter a");
    all[1].column_count = SLICE("m");
    expect_set(all, 2, 1, NULL);
}

/* Patterns that are accepted make no claimed name, and none of tallyd's own keys, with any capture that is tried. */
UNIT(what_passes_makes_no_claimed_name)
{
    static const char *const ends[] = {"",
                                       "_",
                                       "a_",
                                       "_a",
                                       "0123456789abcdef",
                                       "_0123456789abcdef",
                                       "x",
                                       ":x",
                                       "_0123456789abc",
                                       "abc",
                                       "tally",
                                       "tal",
                                       CLAIMED_END,
                                       HEX,
                                       "ly:",
                                       "y:x"};
    static const char *const stores[] = {"1",
                                         "1234567890123456789",
                                         "12345678901234567",
                                         "123456789012345",
                                         "0",
                                         "lly",
                                         "tally",
                                         "ta",
                                         CLAIMED,
                                         "_0123456789abcdef",
                                         HEX,
                                         CLAIMED_END,
                                         "_00112233445566778899aabbccddeef",
                                         "_0123456789abcdef012345678"};
    size_t n = sizeof ends / sizeof *ends, passed = 0, refused = 0;
    for (size_t i = 0; i < n * n * 2; i++) {
        char text[200], name[300];
        (void)snprintf(text, sizeof text, "%s<store>%s", ends[i % n], ends[i / n % n]);
        struct counter c = counter_of("a", text, "lock<store>:", i < n * n ? STORE_INTEGER : STORE_TEXT);
        struct error e = {0};
        size_t which, bad = 0;
        const struct counters cs = {.all = &c, .n = 1};
        for (size_t s = 0; s < sizeof stores / sizeof *stores; s++) {
            (void)snprintf(name, sizeof name, "%s%s%s", ends[i % n], stores[s], ends[i / n % n]);
            if (!pattern_match(&c.key, c.store, slice_str(name), NULL)) continue;
            size_t length = strlen(name);
            bad += strncmp(name, "tally:", 6) == 0;
            bad += counters_match(&cs, slice_str(name)) != NULL && length >= 33 && name[length - 33] == '_' &&
                   strspn(name + length - 32, "0123456789abcdef") == 32;
        }
        bool ok = counters_validate(&cs, &which, &e) == ERR_NONE;
        if (ok && bad > 0) fail_msg("%s (kind %d) passed", text, c.store);
        passed += ok, refused += bad > 0;
    }
    assert_true(passed > 20 && refused > 0);
}

UNIT(keys_find_their_counter)
{
    struct counter all[] = {counter_of("a", "s<store>:a", "s<store>:a:sync", STORE_INTEGER),
                            counter_of("b", "s<store>:b", "s<store>:b:sync", STORE_TEXT),
                            counter_of("c", "c<store>", "d<store>", STORE_TEXT)};
    struct counters cs = {.all = all, .n = 3};
    assert_ptr_equal(counters_match(&cs, SLICE("s1:a")), &all[0]);
    assert_ptr_equal(counters_match(&cs, SLICE("s1:b")), &all[1]);
    assert_ptr_equal(counters_match(&cs, SLICE("sx:b")), &all[1]);
    assert_null(counters_match(&cs, SLICE("sx:a")));
    assert_null(counters_match(&cs, SLICE("s1:a:sync")));
    assert_ptr_equal(counters_match(&cs, SLICE("cx")), &all[2]);
    assert_null(counters_match(&cs, SLICE("cx_" HEX)));
    assert_null(counters_match(&cs, SLICE("s1:a_" HEX)));
    assert_ptr_equal(counters_find(&cs, SLICE("b")), &all[1]);
    assert_null(counters_find(&cs, SLICE("bb")));
}

static void lock_of_no_key(void *arg)
{
    struct buf b = {0};
    counter_lock_name(arg, SLICE("other"), &b);
}

UNIT(locks_are_named)
{
    struct counter c = counter_of("a", "s<store>:daily", "lock:<store>:sync", STORE_INTEGER);
    struct buf b = {0};
    BUF_LIT(&b, ">");
    counter_lock_name(&c, SLICE("s12345:daily"), &b);
    assert_slice(buf_slice(&b), ">lock:12345:sync");
    struct counter whole = counter_of("b", "views", "views:sync", STORE_INTEGER);
    counter_lock_name(&whole, SLICE("views"), &b);
    assert_slice(buf_slice(&b), ">lock:12345:syncviews:sync");
    buf_free(&b);
    struct child_end end = child_run(lock_of_no_key, &c);
    assert_true(child_was_killed(&end, SIGABRT));
}

/* --- feeds --- */

UNIT(feeds_are_named)
{
    struct counter c = counter_of("a", "s<store>:daily", "s<store>:sync", STORE_INTEGER);
    struct buf b = {0};
    assert_false(counter_feeds(&c, FEED_SERIES));
    assert_false(counter_feed_name(&c, FEED_SERIES, SLICE("s12345:daily"), &b));
    assert_int_equal(b.n, 0);
    c.feeds[FEED_SERIES] = parsed("s<store>:views");
    c.feeds[FEED_TIMEBOX] = parsed("<store>");
    c.feeds[FEED_EVENT] = parsed("shop:hit");
    assert_true(counter_feeds(&c, FEED_TIMEBOX));
    assert_true(counter_feed_name(&c, FEED_SERIES, SLICE("s12345:daily"), &b));
    assert_true(counter_feed_name(&c, FEED_TIMEBOX, SLICE("s7:daily"), &b));
    assert_true(counter_feed_name(&c, FEED_EVENT, SLICE("s7:daily"), &b));
    assert_slice(buf_slice(&b), "s12345:views7shop:hit");
    buf_free(&b);
}

UNIT(an_event_is_parted_at_its_last_colon)
{
    struct slice name, type;
    assert_true(event_split(SLICE("s1:shop:hit"), &name, &type));
    assert_slice(name, "s1:shop");
    assert_slice(type, "hit");
    static const char *const bad[] = {"", "hit", ":hit", "shop:", ":", "shop:index"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(event_split(slice_str(bad[i]), &name, &type));
}

/* --- fields --- */

UNIT(dates_must_exist)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const int years[] = {1000, 1600, 1900, 2000, 2014, 2016, 2100, 2400, 9999};
    for (size_t y = 0; y < sizeof years / sizeof *years; y++) {
        bool leap = years[y] == 1600 || years[y] == 2000 || years[y] == 2016 || years[y] == 2400;
        for (int month = 0; month < 20; month++) {
            for (int day = 0; day < 40; day++) {
                char text[40];
                (void)snprintf(text, sizeof text, "%04d%02d%02d", years[y], month, day);
                bool there = month >= 1 && month <= 12 && day >= 1 &&
                             day <= days[month - 1] + (leap && month == 2 ? 1 : 0);
                assert_int_equal(field_valid(FIELD_DATE, slice_str(text)), there);
                strcat(text, "23");
                assert_int_equal(field_valid(FIELD_HOUR, slice_str(text)), there);
            }
        }
    }
}

UNIT(fields_are_of_their_kind)
{
    static const struct {
        enum field_kind kind;
        struct slice field;
        bool valid;
    } cases[] = {
        {FIELD_DATE, SLICE("09991231"), false},
        {FIELD_DATE, SLICE("2014092"), false},
        {FIELD_DATE, SLICE("201409200"), false},
        {FIELD_DATE, SLICE("2014-9-1"), false},
        {FIELD_DATE, SLICE("+2140920"), false},
        {FIELD_DATE, SLICE(""), false},
        {FIELD_HOUR, SLICE("2014092000"), true},
        {FIELD_HOUR, SLICE("2014092024"), false},
        {FIELD_HOUR, SLICE("20140920"), false},
        {FIELD_HOUR, SLICE("20140920-1"), false},
        {FIELD_INTEGER, SLICE("0"), true},
        {FIELD_INTEGER, SLICE("-7"), true},
        {FIELD_INTEGER, SLICE("007"), false},
        {FIELD_INTEGER, SLICE("9223372036854775807"), true},
        {FIELD_INTEGER, SLICE("9223372036854775808"), false},
        {FIELD_TEXT, SLICE("a\0\r\n"), true},
        {FIELD_TEXT, SLICE(""), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (field_valid(cases[i].kind, cases[i].field) != cases[i].valid)
            fail_msg("%s %s", field_kind_name(cases[i].kind), cases[i].field.p);
    char text[256] = {0};
    assert_true(field_valid(FIELD_TEXT, slice_of(text, 255)));
    assert_false(field_valid(FIELD_TEXT, slice_of(text, 256)));
    assert_string_equal(field_kind_name(FIELD_HOUR), "hour");
    assert_string_equal(field_kind_expected(FIELD_DATE), "a date as YYYYMMDD");
}
