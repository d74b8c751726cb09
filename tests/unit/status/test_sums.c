/* The books: that they are added up right, whole chunks at a time, and what is said when they do not balance.
 */
#include "lib/unit.h"

#include "status/sums.h"

#include "base/heap.h"

#include <stdio.h>

static struct counter all[] = {
    {.name = {"visitors", 8}, .key = {.prefix = {"v:", 2}, .has_store = true}, .lock = {.prefix = {"l:", 2}}},
    {.name = {"views", 5}, .key = {.prefix = {"w:", 2}, .has_store = true}, .lock = {.prefix = {"m:", 2}}},
};
static const struct counters counters = {.all = all, .n = 2};
static const struct batch_id id_1 = {{1}}, id_2 = {{2}};

#define MERGED(name_, merged_, rejected_, newer_)                                                            \
    (struct books_counter)                                                                                   \
    {                                                                                                        \
        .name = name_, .merged = merged_, .rejected = rejected_, .newer = newer_                             \
    }

static struct sums sums; /* of the test that runs */

static int sums_open(void **state)
{
    sums_init(&sums, &counters);
    return 0;
}

static int sums_end(void **state)
{
    sums_close(&sums);
    return 0;
}

static void assert_sum(sum_t got, int64_t wanted)
{
    char text[48];
    sum_write(got, text);
    if (got != wanted) fail_msg("%s is not %lld", text, (long long)wanted);
}

static struct buf said; /* by the last print */

/* What is said of them, in so many lines that a counter does not balance. */
static const char *printed(const struct sums *s, uint64_t unbalanced)
{
    buf_reset(&said);
    assert_int_equal(sums_print(s, &said), unbalanced);
    buf_put_char(&said, '\0');
    return said.p;
}

static void says(uint64_t unbalanced, const char *part)
{
    assert_non_null(strstr(printed(&sums, unbalanced), part));
}

#define TEST(f) UNIT_IN(f, sums_open, sums_end)

TEST(test_balance)
{
    struct books_counter rows[] = {MERGED("visitors", 100, 3, 20)};
    const struct books books = {.counters = rows, .counters_n = 1};
    sums_accepted(&sums, SLICE("visitors"), SLICE("100"));
    sums_pending(&sums, SLICE("v:1"), SLICE("7"));
    sums_pending(&sums, SLICE("v:1"), SLICE("-2"));
    sums_batch(&sums, &id_1, SLICE("visitors"), 0);
    sums_claimed(&sums, &id_1, SLICE("v:2"), SLICE("f"), SLICE("12"));
    sums_stored(&sums, &books);
    assert_sum(sums.all[0].merged, 80);
    assert_sum(sums.all[0].rejected, 3);
    assert_sum(sums.all[0].pending, 5);
    assert_sum(sums.all[0].claimed, 12);
    assert_sum(sum_difference(&sums.all[0]), 0);
    assert_sum(sum_difference(&sums.all[1]), 0);
}

/* Two chunks, one of them merged: only the other's rows count, by the cut of series/batch.h. */
TEST(test_half_merged)
{
    const size_t rows = BATCH_CHUNK_ROWS + 500;
    struct books_chunk merged[] = {{.batch = id_1, .chunk = 0, .chunks = 2}};
    const struct books books = {.chunks = merged, .chunks_n = 1};
    sums_batch(&sums, &id_1, SLICE("views"), 0);
    sums_batch(&sums, &id_2, SLICE("views"), 0);
    for (size_t i = rows; i-- > 0;) { /* against the order of the cut */
        char field[16];
        int n = snprintf(field, sizeof(field), "%06zu", i);
        sums_claimed(&sums, &id_1, SLICE("w:1"), slice_of(field, (size_t)n),
                     i < BATCH_CHUNK_ROWS ? SLICE("1") : SLICE("1000"));
    }
    sums_claimed(&sums, &id_2, SLICE("w:1"), SLICE("a"), SLICE("7"));
    sums_stored(&sums, &books);
    assert_sum(sums.all[1].claimed, 500 * 1000 + 7);
    assert_int_equal(sums.all[1].broken, 0);
}

/* The order of the cut is (length, bytes) of the hash, then of the field, over all hashes of the batch. */
TEST(test_cut_over_hashes)
{
    struct books_chunk merged[] = {{.batch = id_1, .chunk = 1, .chunks = 2}};
    const struct books books = {.chunks = merged, .chunks_n = 1};
    sums_batch(&sums, &id_1, SLICE("views"), 0);
    sums_claimed(&sums, &id_1, SLICE("w:22"), SLICE("a"), SLICE("10")); /* last of 1001: alone in chunk 1 */
    for (int i = 0; i < BATCH_CHUNK_ROWS; i++) {
        char field[16];
        int n = snprintf(field, sizeof(field), "%d", i);
        sums_claimed(&sums, &id_1, SLICE("w:3"), slice_of(field, (size_t)n), SLICE("1"));
    }
    sums_stored(&sums, &books);
    assert_sum(sums.all[1].claimed, BATCH_CHUNK_ROWS);
}

TEST(test_other_cut)
{
    struct books_chunk merged[] = {{.batch = id_1, .chunk = 0, .chunks = 2}};
    const struct books books = {.chunks = merged, .chunks_n = 1};
    sums_batch(&sums, &id_1, SLICE("views"), 0);
    sums_claimed(&sums, &id_1, SLICE("w:1"), SLICE("a"), SLICE("7"));
    sums_stored(&sums, &books);
    assert_int_equal(sums.all[1].broken, 1);
    says(1, "views: the ledger has 1 chunks of existing batches that were cut in another way. Next: stop");
}

/* Gens 4 to 9 are not in the ledger; two of those batches exist, so four were merged and are gone. A batch that was claimed after
 * the look is not a loss. */
UNIT(test_mysql_behind)
{
    static const struct {
        uint64_t redis, ledger, lost;
    } cases[] = {{9, 3, 4}, {9, 4, 3}, {9, 8, 0}, {9, 9, 0}, {9, 12, 0}, {0, 3, 0}, {5, 3, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sums s;
        const struct books books = {.highest.gen = cases[i].ledger};
        sums_init(&s, &counters);
        s.gen = cases[i].redis;
        sums_batch(&s, &id_1, SLICE("views"), 5);
        sums_batch(&s, &id_2, SLICE("views"), 9);
        sums_stored(&s, &books);
        assert_int_equal(s.lost, cases[i].lost);
        assert_int_equal(strstr(printed(&s, 0), "MySQL is behind") != NULL, cases[i].lost > 0);
        sums_close(&s);
    }
}

TEST(test_found_only)
{
    struct books_counter rows[] = {MERGED("gone", 5, 0, 0)};
    const struct books books = {.counters = rows, .counters_n = 1};
    sums_accepted(&sums, SLICE("gone"), SLICE("6"));
    sums_pending(&sums, SLICE("x:1"), SLICE("9"));
    sums_pending(&sums, SLICE("w:1"), SLICE("none"));
    sums_stored(&sums, &books);
    assert_int_equal(sums.n, 3);
    assert_false(sums.all[2].configured);
    assert_int_equal(sums.stray, 1);
    assert_int_equal(sums.all[1].odd, 1);
    says(1, "gone has books, and no counter is configured by that name.");
    says(1, "views: 1 values in Redis are not integers");
    says(1, "1 fields are in hashes that no configured counter claims");
}

TEST(test_too_many)
{
    struct books_counter rows[] = {MERGED("views", INT64_MAX, 0, 0), MERGED("visitors", 7, 0, 0)};
    const struct books books = {.counters = rows, .counters_n = 2};
    sums_accepted(&sums, SLICE("views"), SLICE("1"));
    sums_stored(&sums, &books);
    says(2, "visitors does not balance: Redis knows of 0 accepted hits, and 7 more are in the books. ");
    says(2, "views does not balance: Redis knows of 1 accepted hits, and 9223372036854775806 more are in the "
            "books. Next: see whether another program writes its pending hashes");
}

/* All sums are equal, and one lane's Redis is not what MySQL was merged for. */
UNIT(test_other_data)
{
    static const struct {
        enum realm_outcome realm;
        const char *told;
    } cases[] = {
        {REALM_OURS, NULL},
        {REALM_BEHIND, "Redis does not know claims that MySQL has merged: it lost data (FLUSHALL, FLUSHDB"},
        {REALM_STRANGER, "Redis does not say which it is (it has no tally:realm)"},
        {REALM_UNKNOWN, "MySQL does not count for this Redis"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sums s, lane;
        sums_init(&s, &counters);
        sums_init(&lane, &counters);
        lane.realm = cases[i].realm;
        sums_add(&s, &lane);
        lane.realm = REALM_OURS;
        sums_add(&s, &lane);
        assert_int_equal(sums_proved(&s), cases[i].told == NULL);
        const char *text = printed(&s, 0);
        assert_true(cases[i].told == NULL || strstr(text, cases[i].told) != NULL);
        sums_close(&lane);
        sums_close(&s);
    }
}

/* "visits" is called "visitors" now: some of its hits are claimed under the old name, some pending under the new one. */
TEST(test_renamed)
{
    const struct books books = {0};
    sums_accepted(&sums, SLICE("visits"), SLICE("7"));
    sums_pending(&sums, SLICE("v:1"), SLICE("4"));
    sums_batch(&sums, &id_1, SLICE("visits"), 0);
    sums_claimed(&sums, &id_1, SLICE("v:2"), SLICE("f"), SLICE("3"));
    sums_stored(&sums, &books);
    says(2, "visitors does not balance: 4 of its hits were accepted under another name. ");
    says(2, "visits has books, and no counter is configured by that name.");
    says(2, "`redis-cli HINCRBY tally:accepted visits -4`, and 4 for the new name.");
    sums_accepted(&sums, SLICE("visits"), SLICE("-4"));
    sums_accepted(&sums, SLICE("visitors"), SLICE("4"));
    assert_true(sums_proved(&sums));
}

/* Modulo 2^64: Redis' sum went round, MySQL's is about to. */
TEST(test_round)
{
    struct books_counter rows[] = {MERGED("views", INT64_MAX, 1, 0)};
    const struct books books = {.counters = rows, .counters_n = 1};
    sums_accepted(&sums, SLICE("views"), SLICE("-9223372036854775803"));
    sums_pending(&sums, SLICE("w:1"), SLICE("5"));
    sums_stored(&sums, &books);
    assert_int_equal(sums_unbalanced(&sums), 0);
    sums_pending(&sums, SLICE("w:1"), SLICE("1"));
    assert_sum(sum_difference(&sums.all[1]), -1);
}

UNIT(test_write)
{
    char text[48];
    sum_t most = (sum_t)(~(unsigned __int128)0 >> 1);
    assert_int_equal(sum_write(0, text), 1);
    assert_string_equal(text, "0");
    sum_write(-120, text);
    assert_string_equal(text, "-120");
    sum_write(most, text);
    assert_string_equal(text, "170141183460469231731687303715884105727");
    sum_write(-most - 1, text);
    assert_string_equal(text, "-170141183460469231731687303715884105728");
}

UNIT(test_read)
{
    static const char *const texts[] = {"0", "7", "-120", "9223372036854775808",
                                        "-170141183460469231731687303715884105727"};
    char text[48];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sum_write(sum_read(texts[i]), text);
        assert_string_equal(text, texts[i]);
    }
}

TEST(test_only)
{
    sums_accepted(&sums, SLICE("views"), SLICE("5"));
    sums_accepted(&sums, SLICE("gone"), SLICE("7"));
    assert_int_equal(sums_unbalanced(&sums), 2);
    sums_only(&sums, SLICE("gone"));
    assert_int_equal(sums.n, 1);
    assert_string_equal(sums.all[0].name, "gone");
    assert_int_equal(sums_unbalanced(&sums), 1);
    sums_only(&sums, SLICE("never_seen"));
    assert_int_equal(sums_unbalanced(&sums), 0);
}

/* Each lane has its own sums; adjustments by hand belong to no lane, so each look at MySQL has all of them. */
UNIT(test_lanes)
{
    struct sums s, lane;
    struct books_counter rows[] = {MERGED("views", 4, 0, 0)};
    rows[0].adjusted = 9;
    const struct books books = {.counters = rows, .counters_n = 1};
    sums_init(&s, &counters);
    for (int i = 0; i < 3; i++) {
        sums_init(&lane, &counters);
        sums_accepted(&lane, SLICE("views"), SLICE("5"));
        sums_accepted(&lane, SLICE("gone"), SLICE("7"));
        sums_pending(&lane, SLICE("w:1"), SLICE("1"));
        sums_stored(&lane, &books);
        sums_add(&s, &lane);
        sums_close(&lane);
    }
    assert_sum(s.all[1].accepted, 15);
    assert_sum(s.all[1].merged, 12);
    struct sums held; /* of a lane that no tallyd has merged for */
    sums_init(&held, &counters);
    sums_add(&s, &held);
    sums_close(&held);
    assert_sum(s.all[1].adjusted, 9);
    assert_sum(sum_difference(&s.all[1]), 0);
    assert_string_equal(s.all[2].name, "gone");
    assert_sum(s.all[2].accepted, 21);
    sums_close(&s);
}
