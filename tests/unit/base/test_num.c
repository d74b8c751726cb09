/* Numbers: exactly the strictness of Redis, checked against libc; hex. */
#include "lib/unit.h"

#include "lib/dice.h"

#include <inttypes.h>

/* A text is an integer of Redis' when it is what printf makes of the number that strtoll reads. */
static bool oracle(const char *text, int64_t *out)
{
    char canonical[32];
    *out = strtoll(text, NULL, 10);
    (void)snprintf(canonical, sizeof canonical, "%" PRId64, *out);
    return strcmp(text, canonical) == 0;
}

static bool oracle_u64(const char *text, uint64_t *out)
{
    char canonical[32];
    *out = strtoull(text, NULL, 10);
    (void)snprintf(canonical, sizeof canonical, "%" PRIu64, *out);
    return strcmp(text, canonical) == 0;
}

static void agree(const char *text)
{
    int64_t expected, got;
    uint64_t expected_u, got_u;
    bool ok = oracle(text, &expected), ok_u = oracle_u64(text, &expected_u);
    if (num_parse(slice_str(text), &got) != ok || (ok && got != expected))
        fail_msg("num_parse(\"%s\")", text);
    if (num_parse_u64(slice_str(text), &got_u) != ok_u || (ok_u && got_u != expected_u))
        fail_msg("num_parse_u64(\"%s\")", text);
}

UNIT(agrees_at_the_edges)
{
    static const char *const texts[] = {"",
                                        "-",
                                        "0",
                                        "-0",
                                        "+1",
                                        "01",
                                        "-01",
                                        " 1",
                                        "1 ",
                                        "1.0",
                                        "1e3",
                                        "0x10",
                                        "--1",
                                        "9",
                                        "-9",
                                        "10",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "-9223372036854775808",
                                        "-9223372036854775809",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "99999999999999999999",
                                        "100000000000000000000",
                                        "-99999999999999999999",
                                        "00",
                                        "1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        agree(texts[i]);
    int64_t v;
    assert_false(num_parse(slice_of("1\0", 2), &v));
    assert_false(num_parse(slice_of(NULL, 0), &v));
}

UNIT(agrees_with_libc)
{
    static const char alphabet[] = "-01289+ .";
    struct dice d = dice_new("agrees_with_libc");
    for (int i = 0; i < 300000; i++) {
        char text[24];
        size_t n = dice_below(&d, sizeof text);
        for (size_t at = 0; at < n; at++)
            text[at] = alphabet[dice_below(&d, dice_below(&d, 20) == 0 ? sizeof alphabet - 1 : 6)];
        text[n] = '\0';
        agree(text);
    }
}

UNIT(writes_what_it_reads)
{
    struct dice d = dice_new("writes_what_it_reads");
    for (int i = 0; i < 100000; i++) {
        int64_t v = (int64_t)dice_u64(&d) >> dice_below(&d, 64), back;
        if (i == 0) v = INT64_MIN;
        char digits[21], expected[32];
        size_t n = num_write(v, digits);
        (void)snprintf(expected, sizeof expected, "%" PRId64, v);
        assert_slice(slice_of(digits, n), expected);
        assert_true(num_parse(slice_of(digits, n), &back));
        assert_true(back == v);
    }
}

UNIT(reads_and_writes_hex)
{
    uint8_t bytes[4];
    char digits[8];
    assert_true(hex_read(SLICE("00ff3a9c"), bytes, 4));
    assert_memory_equal(bytes, "\x00\xff\x3a\x9c", 4);
    hex_write(bytes, 4, digits);
    assert_memory_equal(digits, "00ff3a9c", 8);
    assert_false(hex_read(SLICE("00FF3A9C"), bytes, 4));
    assert_false(hex_read(SLICE("00ff3a9"), bytes, 4));
    assert_false(hex_read(SLICE("00ff3a9c0"), bytes, 4));
    assert_false(hex_read(SLICE("00ff3a9g"), bytes, 4));
}
