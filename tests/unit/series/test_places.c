/* Patterns with several placeholders: what they take, and whether two can make one name, against a search of all short names. */
#include "lib/unit.h"

#include "lib/dice.h"
#include "series/counter.h"

static struct value_type type_of(const char *text)
{
    struct value_type t;
    if (!value_type_parse(slice_str(text), &t)) fail_msg("%s is no kind", text);
    return t;
}

/* kinds: of the placeholders in their order. */
static struct places parsed(const char *text, const char *const *kinds)
{
    struct places p;
    const char *why;
    if (!places_parse(slice_str(text), &p, &why)) fail_msg("%s %s", text, why);
    for (uint32_t i = 0; i < p.n; i++)
        p.at[i].type = type_of(kinds[i]);
    return p;
}

UNIT(values_are_spelled)
{
    static const struct {
        const char *type, *text, *plain; /* plain NULL: refused */
    } cases[] = {{"date", "20240229", "20240229"},
                 {"date", "20230229", NULL},
                 {"date 2024-05-01", "2024-05-01", "20240501"},
                 {"date 2024-05-01", "20240501", NULL},
                 {"date 2024-05-01", "2024-13-01", NULL},
                 {"date seconds", "1714521600", "20240501"},
                 {"date seconds", "1714521601", NULL},
                 {"date seconds", "-86400", NULL},
                 {"date seconds", "0", "19700101"},
                 {"date seconds", "9223372036854720000", NULL},
                 {"date milliseconds", "1714521600000", "20240501"},
                 {"date milliseconds", "1714521600", NULL},
                 {"hour", "2024050123", "2024050123"},
                 {"hour", "2024050124", NULL},
                 {"hour 2024-05-01 13", "2024-05-01 13", "2024050113"},
                 {"hour 2024-05-01T13", "2024-05-01 13", NULL},
                 {"hour 2024-05-01T13", "2024-05-01T00", "2024050100"},
                 {"hour 2024-05-01-13", "2024-05-01-13", "2024050113"},
                 {"hour seconds", "1714568400", "2024050113"},
                 {"month", "202405", "202405"},
                 {"month", "202400", NULL},
                 {"month 2024-05", "2024-05", "202405"},
                 {"integer", "9223372036854775807", "9223372036854775807"},
                 {"integer", "9223372036854775808", NULL},
                 {"integer", "007", NULL},
                 {"integer", "-1", NULL},
                 {"text", "", NULL},
                 {"text", "a:b", "a:b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct value_type t = type_of(cases[i].type);
        char digits[PLAIN_BYTES];
        struct slice plain;
        struct buf again = {0};
        bool good = value_plain(&t, slice_str(cases[i].text), digits, &plain);
        if (good != (cases[i].plain != NULL)) fail_msg("%s as %s", cases[i].text, cases[i].type);
        if (!good) continue;
        assert_slice(plain, cases[i].plain);
        if (t.kind == VALUE_INTEGER || t.kind == VALUE_TEXT) continue;
        value_spell(&t, plain, &again);
        assert_slice(buf_slice(&again), cases[i].text);
        buf_free(&again);
    }
}

UNIT(unknown_kinds_are_refused)
{
    static const char *const kinds[] = {"", "day", "date ", "date 2024/05/01", "integer 7", "Date"};
    struct value_type t;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_false(value_type_parse(slice_str(kinds[i]), &t));
}

UNIT(patterns_are_refused)
{
    static const char *const texts[] = {"",
                                        "<a><b>",
                                        "a<b>c<b>",
                                        "<>",
                                        "<A>",
                                        "<a",
                                        "a>",
                                        "<a>:<b>:<c",
                                        "x\n<a>",
                                        "<a b>",
                                        "<a>1<b>2<c>3<d>4<e>5<f>6<g>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct places p;
        const char *why = NULL;
        if (places_parse(slice_str(texts[i]), &p, &why)) fail_msg("%s was taken", texts[i]);
        assert_non_null(why);
    }
}

/* values: parted by '|'; NULL: no match. */
static void match_is(const char *text, const char *const *kinds, const char *name, const char *values)
{
    const struct places p = parsed(text, kinds);
    struct slice got[PLACES_MAX];
    struct buf joined = {0}, again = {0};
    bool matched = places_match(&p, slice_str(name), got);
    if (matched != (values != NULL)) fail_msg("%s on %s", text, name);
    if (!matched) return;
    for (uint32_t i = 0; i < p.n; i++)
        buf_printf(&joined, "%s" SLICE_FMT, i > 0 ? "|" : "", SLICE_ARG(got[i]));
    assert_slice(buf_slice(&joined), values);
    places_put(&p, got, &again);
    assert_slice(buf_slice(&again), name);
    buf_free(&joined);
    buf_free(&again);
}

#define KINDS(...) ((const char *const[]){__VA_ARGS__})

UNIT(names_are_taken_apart)
{
    match_is("store:<store>:product:<product>:views", KINDS("integer", "integer"), "store:1:product:42:views",
             "1|42");
    match_is("store:<store>:product:<product>:views", KINDS("integer", "integer"), "store:1:product:x:views",
             NULL);
    match_is("store:<store>:product:<product>:views", KINDS("integer", "integer"), "store:1:product:42:view",
             NULL);
    match_is("<a>::<b>", KINDS("integer", "text"), "42::post", "42|post");
    match_is("<a>::<b>", KINDS("text", "text"), "x::y::z", "x|y::z"); /* the last takes the rest */
    match_is("<a>::<b>", KINDS("text", "text"), "x:y::z",
             NULL); /* a text ends before the next byte of the pattern */
    match_is("<a>:<b>:end", KINDS("text", "text"), "x:y:end", "x|y");
    match_is("<a>:<b>:end", KINDS("text", "text"), "x:y:z:end", NULL);
    match_is("<a>_<b>_end", KINDS("text", "text"), "x_y_z_end", "x|y_z");
    match_is("<store>/<b>", KINDS("text", "text"), "a:b/c", NULL); /* no ':' in a store */
    match_is("{<a>}:<b>", KINDS("integer", "text"), "{7}:{x}", "7|{x}");
    match_is("d<day>-<id>", KINDS("date 2024-05-01", "integer"), "d2024-05-01-7", "2024-05-01|7");
    match_is("d<day>7<id>", KINDS("date", "integer"), "d2024050177", "20240501|7");
    match_is("<day>:<id>", KINDS("date seconds", "integer"), "1714521600:7", "1714521600|7");
    match_is("<a>:<b>", KINDS("text", "text"), "x:", NULL);
    match_is("<a>:<b>", KINDS("text", "text"), "x:\x01", NULL);
    match_is("plain", NULL, "plain", "");
    match_is("plain", NULL, "plain2", NULL);
}

/* --- overlap --- */

#define LETTERS "01a:"
#define BYTES_MAX 6

static bool naive(const struct places *a, const struct places *b, char *name, size_t n)
{
    struct slice values[PLACES_MAX];
    struct slice s = slice_of(name, n);
    if (n > 0 && places_match(a, s, values) && places_match(b, s, values)) return true;
    for (const char *letter = LETTERS; n < BYTES_MAX && *letter != '\0'; letter++) {
        name[n] = *letter;
        if (naive(a, b, name, n + 1)) return true;
    }
    return false;
}

struct drawn {
    char text[64];
    struct places places;
};

static void draw(struct dice *d, struct drawn *out)
{
    const char *kinds[2];
    struct buf text = {0};
    size_t n = dice_below(d, 3);
    for (size_t i = 0; i <= n; i++) {
        size_t bytes = i > 0 && i < n ? 1 + dice_below(d, 2) : dice_below(d, 3);
        for (size_t k = 0; k < bytes; k++)
            buf_put_char(&text, LETTERS[dice_below(d, sizeof LETTERS - 1)]);
        if (i < n) buf_printf(&text, "<%s>", dice_below(d, 4) == 0 && i == 0 ? "store" : i == 0 ? "a" : "b");
        if (i < n) kinds[i] = dice_below(d, 2) == 0 ? "integer" : "text";
    }
    if (text.n == 0) buf_put_char(&text, 'a');
    snprintf(out->text, sizeof out->text, SLICE_FMT, SLICE_ARG(buf_slice(&text)));
    out->places = parsed(out->text, kinds);
    buf_free(&text);
}

/* Two short patterns that meet in any name meet in a short one. "A number ends with its digits" is for the match alone: the search
 * takes no notice of it, so it may find an overlap more where a digit follows a number. */
UNIT(overlap_is_exact)
{
    struct dice dice = dice_new("places_overlap");
    size_t yes = 0;
    for (size_t i = 0; i < 400; i++) {
        struct drawn a, b;
        char name[BYTES_MAX + 1] = "";
        struct buf both = {0};
        struct slice values[PLACES_MAX];
        draw(&dice, &a), draw(&dice, &b);
        bool expected = naive(&a.places, &b.places, name, 0),
             got = places_overlap(&a.places, &b.places, &both);
        assert_int_equal(got, places_overlap(&b.places, &a.places, NULL));
        if (expected && !got) fail_msg("%s and %s: %s", a.text, b.text, name);
        bool shown = got && places_match(&a.places, buf_slice(&both), values) &&
                     places_match(&b.places, buf_slice(&both), values);
        bool digits = strstr(a.text, ">0") != NULL || strstr(a.text, ">1") != NULL ||
                      strstr(b.text, ">0") != NULL || strstr(b.text, ">1") != NULL;
        if (got && !shown && !digits)
            fail_msg("%s and %s: not " SLICE_FMT, a.text, b.text, SLICE_ARG(buf_slice(&both)));
        yes += expected;
        buf_free(&both);
    }
    assert_true(yes > 10 && yes < 300);
}

UNIT(overlap_of_times)
{
    const struct places day = parsed("v:<day>", KINDS("date")),
                        dashed = parsed("v:<day>", KINDS("date 2024-05-01")),
                        number = parsed("v:<id>", KINDS("integer")), text = parsed("v:<id>", KINDS("text")),
                        hour = parsed("v:<h>", KINDS("hour")),
                        two = parsed("v:<id>:<day>", KINDS("integer", "date"));
    assert_true(places_overlap(&day, &number, NULL));
    assert_false(places_overlap(&dashed, &number, NULL));
    assert_true(places_overlap(&dashed, &text, NULL));
    assert_false(places_overlap(&day, &hour, NULL));
    assert_false(places_overlap(&number, &two, NULL));
    assert_true(places_overlap(&text, &two, NULL)); /* which takes the rest */
    assert_true(places_can_begin(&text, SLICE("v:")));
    assert_true(places_can_begin(&text, SLICE("v:a:b")));
    assert_false(places_can_begin(&number, SLICE("v:a")));
}
