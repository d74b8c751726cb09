/* %XX in URLs, of Redis, of MySQL and of HTTP requests alike. */
#include "lib/unit.h"

#include "base/heap.h"
#include "base/url.h"

static void decodes(const char *text, const char *want)
{
    char *got = percent_string(slice_str(text));
    assert_non_null(got);
    assert_string_equal(got, want);
    heap_free(got);
}

UNIT(a_byte_for_each_escape)
{
    decodes("", "");
    decodes("plain+text", "plain+text");
    decodes("%41%6a%6A", "Ajj");
    decodes("p%40ss%2fw%25", "p@ss/w%");
    decodes("%2541", "%41"); /* once */
    decodes("%ff", "\xff");
}

UNIT(faults)
{
    static const struct {
        struct slice text;
        enum percent fault;
        size_t n;
    } cases[] = {
        {SLICE("%"), PERCENT_ESCAPE, 0},    {SLICE("ab%4"), PERCENT_ESCAPE, 2},
        {SLICE("a%g0"), PERCENT_ESCAPE, 1}, {SLICE("a%0gb"), PERCENT_ESCAPE, 1},
        {SLICE("a%00"), PERCENT_NUL, 1},    {SLICE("ab\0c"), PERCENT_NUL, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[8];
        size_t n;
        assert_int_equal(percent_decode(cases[i].text, out, &n), cases[i].fault);
        assert_int_equal(n, cases[i].n);
        assert_null(percent_string(cases[i].text));
    }
    char out[8];
    size_t n;
    assert_int_equal(percent_decode(slice_of("a%412", 3), out, &n),
                     PERCENT_ESCAPE); /* nothing after it is read */
}
