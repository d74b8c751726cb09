/* Progress: redrawn on a terminal, a line a tenth elsewhere. */
#include "lib/unit.h"

#include "admin/human.h"

#include <stdlib.h>
#include <string.h>

/* What a bar over these steps of 20 writes; the caller frees. */
static char *written(bool terminal, const uint64_t *steps, size_t n)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct bar b = {.out = out, .what = "recovering", .terminal = terminal};
    for (size_t i = 0; i < n; i++)
        bar_show(&b, steps[i], 20);
    bar_end(&b);
    fclose(out);
    return text;
}

UNIT(test_plain)
{
    const uint64_t steps[] = {0, 1, 1, 2, 3, 20};
    char *text = written(false, steps, 6);
    assert_string_equal(text, "recovering: 0 of 20\nrecovering: 2 of 20\nrecovering: 20 of 20\n");
    free(text);
}

UNIT(test_terminal)
{
    const uint64_t steps[] = {0, 10, 10, 20};
    char *text = written(true, steps, 4);
    assert_string_equal(text, "\rrecovering [........................................] 0/20 \033[K"
                              "\rrecovering [####################....................] 10/20 \033[K"
                              "\rrecovering [########################################] 20/20 \033[K\n");
    free(text);
    text = written(true, steps, 0);
    assert_string_equal(text, ""); /* nothing was drawn, so no line has to end */
    free(text);
}

/* More than found, or nothing found at all, must not write past the cells. */
UNIT(test_edges)
{
    const uint64_t steps[] = {40};
    char *text = written(true, steps, 1);
    assert_string_equal(text, "\rrecovering [########################################] 40/20 \033[K\n");
    free(text);
    struct bar b;
    FILE *out = fopen("/dev/null", "w");
    bar_init(&b, out, "x");
    assert_false(b.terminal);
    bar_show(&b, 0, 0);
    bar_show(&b, UINT64_MAX, UINT64_MAX);
    fclose(out);
}

static void pace_is(uint64_t done, uint64_t left, uint64_t passed_ms, const char *expected)
{
    char out[BAR_PACE_BYTES];
    assert_string_equal(bar_pace(done, left, passed_ms, out), expected);
}

UNIT(test_pace)
{
    pace_is(100, 100, 999, "");
    pace_is(0, 100, 5000, "");
    pace_is(100, 50, 1000, "100 a second, 0.5 s left");
    pace_is(3000, 1200000, 1000, "3,000 a second, 6 min 40 s left");
    pace_is(1, 7200, 2000, "0 a second, 4 h 0 min left");
    pace_is(5, 0, 1000, "5 a second, 0.0 s left");
}
