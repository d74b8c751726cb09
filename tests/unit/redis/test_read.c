/* Reads of series, timeboxes, events and visitors on a real server: what they answer, also in many pieces and while
 * others write between them; what is cached, and what is not. */
#include "base/heap.h"
#include "lib/redis_world.h"
#include "redis/query_op.h"
#include "series/names.h"

#define NAMED(of) .name = {of, sizeof(of) - 1}

struct got {
    struct world *w;
    struct op_limits limits;
    struct query query;
    struct redis_query read;
    struct buf said; /* the values of the last answer, spaces between them; a NUL behind */
    size_t values;
    int done;
};
static struct got *g; /* of the test that runs */

static void on_read(struct redis_query *r, bool more)
{
    if (more) {
        redis_query(&g->w->link, r);
        return;
    }
    buf_reset(&g->said);
    for (size_t i = 0; i < r->answer.n; i++) {
        const struct query_value *v = &r->answer.values[i];
        if (i > 0) buf_put_char(&g->said, ' ');
        if (v->is_text)
            buf_put_slice(&g->said, QUERY_TEXT(&r->answer, v));
        else
            buf_int(&g->said, v->number);
    }
    if (r->outcome == ASK_FAILED) buf_put_slice(&g->said, slice_str(r->text));
    buf_put_char(&g->said, '\0');
    g->values = r->answer.n;
    g->done++;
}

static int open_world(void **state)
{
    g = calloc(1, sizeof *g);
    g->w = world_open();
    g->limits.events_keep_s = 30 * DAY_S;
    g->limits.read = (struct query_limits){.most = 100000, .days = 366, .texts_max = 16 << 20};
    return 0;
}

static int close_world(void **state)
{
    world_close(g->w);
    buf_free(&g->said);
    free(g);
    return 0;
}

static void ask(struct query query)
{
    g->query = query;
    g->read = (struct redis_query){.query = &g->query, .limits = &g->limits, .came = on_read, .arg = g};
    redis_query(&g->w->link, &g->read);
}

static const char *answer(struct query query)
{
    int before = g->done;
    ask(query);
    assert_int_equal(g->done, before); /* never from inside the call */
    WAIT_UNTIL(g->w, g->done == before + 1);
    return g->said.p;
}

#define assert_answer(query, text) assert_string_equal(answer(query), (text))

static void script(const char *text, const char *key, long long n)
{
    redis_do("EVAL %s 1 %s %lld", text, key, n);
}

#define TEST(f) UNIT_IN(f, open_world, close_world)

TEST(too_many_names_are_refused)
{
    g->limits.read.texts_max = 3000;
    script("for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 0, '60:' .. i) end", "known:", 999);
    answer((struct query){.kind = QUERY_NAMES}); /* one page: it is here already */
    assert_int_equal(g->values, 999);
    redis_do("ZADD known: 0 60:1000");
    assert_answer(((struct query){.kind = QUERY_NAMES}),
                  "ERR there are more than 1000 series, too many for one answer (limits.memory); "
                  "read them in Redis with ZSCAN known:");
}

static int64_t redis_now(void)
{
    int64_t now = 0, rest;
    sscanf(redis_do("TIME"), "%ld %ld", &now, &rest);
    return now;
}

/* ---- series ---- */

static struct query samples(uint32_t precision, int64_t from, int64_t to)
{
    return (struct query){
        .kind = QUERY_SERIES, NAMED("views"), .precision_s = precision, .from = from, .to = to};
}

TEST(samples_come_by_time)
{
    assert_answer(samples(5, 0, INT64_MAX), "");
    redis_do("HSET count:5:views 1000000000 4 999999995 3 1000000005 -1 5 9");
    assert_answer(samples(5, 0, INT64_MAX), "5 9 999999995 3 1000000000 4 1000000005 -1");
    assert_answer(samples(5, 999999995, 1000000000), "999999995 3 1000000000 4");
    assert_answer(samples(5, 999999996, 999999999), "");
    assert_answer(samples(60, 0, INT64_MAX), "");
}

TEST(a_key_of_somebody_else_is_named)
{
    redis_do("SET count:1:views x");
    redis_do("HSET count:5:views 5 many");
    assert_answer(samples(1, 0, 9), "WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_answer(
        samples(5, 0, 9),
        "ERR key 'count:5:views' holds 'many', which tallyd did not write; another program uses that key");
}

TEST(names_come_in_pages_and_sorted)
{
    struct query names = {.kind = QUERY_NAMES};
    assert_answer(names, "");
    redis_do("ZADD known: 0 5:views 0 60:views 0 1:sales 0 5:a");
    assert_answer(names, "1:sales 5:a 5:views 60:views");
    script("for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 0, '1:n' .. i) end", "known:", 4996);
    answer(names);
    assert_int_equal(g->values, 5000);
    assert_memory_equal(g->said.p, "1:n1 1:n10 1:n100 1:n1000 1:n1001 ", 34);
    redis_do("ZADD known: -1 9:early");
    answer(names);
    assert_non_null(strstr(g->said.p, "has a score other than 0"));
}

/* ---- boxes ---- */

static struct query box(enum query_kind kind, int64_t offset, int64_t limit)
{
    return (struct query){.kind = kind, NAMED("page"), .offset = offset, .limit = limit};
}

TEST(a_box_is_read_from_any_side)
{
    assert_answer(box(QUERY_TIMEBOX_RECENT, 0, 5), "");
    assert_answer(box(QUERY_TIMEBOX_TOP, 0, 5), "");
    for (int i = 1; i <= 5; i++)
        redis_do("ZADD tb.page %d %d", 60 * i, 60 * i);
    redis_do("ZADD pv.page 7 60 9 120 1 180 7 240 9007199254740993 300");
    assert_answer(box(QUERY_TIMEBOX_RECENT, 0, 2), "300 9007199254740992 240 7");
    assert_answer(box(QUERY_TIMEBOX_RECENT, 3, 10), "120 9 60 7");
    assert_answer(box(QUERY_TIMEBOX_RECENT, 5, 10), "");
    assert_answer(box(QUERY_TIMEBOX_RECENT, INT64_MAX, INT64_MAX), "");
    assert_answer(box(QUERY_TIMEBOX_RECENT, 4, INT64_MAX), "60 7");
    assert_answer(box(QUERY_TIMEBOX_TOP, 0, 3), "300 9007199254740992 120 9 60 7");
    assert_answer(box(QUERY_TIMEBOX_BOTTOM, 0, 2), "180 1 240 7");
    assert_answer(box(QUERY_TIMEBOX_BOTTOM, 0, INT64_MAX), "180 1 240 7 60 7 120 9 300 9007199254740992");
}

TEST(a_box_with_one_foreign_set_is_refused)
{
    redis_do("SET pv.page x");
    assert_answer(box(QUERY_TIMEBOX_RECENT, 0, 2),
                  "WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_answer(box(QUERY_TIMEBOX_TOP, 0, 2),
                  "WRONGTYPE Operation against a key holding the wrong kind of value");
    redis_do("DEL pv.page");
    redis_do("ZADD tb.page 60 sixty");
    assert_answer(
        box(QUERY_TIMEBOX_RECENT, 0, 2),
        "ERR key 'tb.page' holds 'sixty', which tallyd did not write; another program uses that key");
}

TEST(a_long_box_comes_whole)
{
    script("for i = 1, ARGV[1] do redis.call('ZADD', 'tb.page', i, i) redis.call('ZADD', 'pv.page', 2 * i, "
           "i) end",
           "tb.page", 2500);
    answer(box(QUERY_TIMEBOX_RECENT, 1, 2500));
    assert_int_equal(g->values, 2 * 2499);
    assert_memory_equal(g->said.p, "2499 4998 2498 4996 ", 20);
    assert_string_equal(g->said.p + g->said.n - 1 - 8, " 2 4 1 2");
}

/* ---- events ---- */

static struct query events(int64_t from, int64_t to, int64_t offset, int64_t limit)
{
    return (struct query){.kind = QUERY_EVENTS,
                          NAMED("blob"),
                          .type = SLICE("submit"),
                          .from = from,
                          .to = to,
                          .offset = offset,
                          .limit = limit};
}

TEST(events_come_by_second)
{
    assert_answer(events(0, INT64_MAX, 0, -1), "");
    redis_do("ZADD blob:submit 100 a 100 b 101 1 99 z 102.5 half");
    assert_answer(events(0, 1000, 0, -1), "z 99 a 100 b 100 1 101 half 102");
    assert_answer(events(100, 101, 0, -1), "a 100 b 100 1 101");
    assert_answer(events(100, 101, 1, 1), "b 100");
    assert_answer(events(100, 101, 3, 1), "");
    assert_answer(events(101, 100, 0, -1), "");
    assert_answer(events(0, 1000, INT64_MAX, INT64_MAX), "");
}

static const char fill_events[] = "for i = 1, ARGV[1] do\n"
                                  "  redis.call('ZADD', KEYS[1], 1000 + math.floor(i / 700), i)\n"
                                  "end";

/* 1 .. n, each once, by second; those of one second in the order of their bytes */
static void assert_all(int n)
{
    static bool seen[200001];
    const char *p = g->said.p;
    long last = 0;
    memset(seen, 0, sizeof seen);
    assert_int_equal(g->values, 2 * n);
    for (int i = 0; i < n; i++) {
        int id, used;
        long second;
        assert_int_equal(sscanf(p, "%d %ld%n", &id, &second, &used), 2);
        assert_true(id >= 1 && id <= n && !seen[id] && second >= last);
        assert_int_equal(second, 1000 + id / 700);
        seen[id] = true;
        last = second;
        p += used;
    }
}

TEST(many_events_come_in_pieces)
{
    script(fill_events, "blob:submit", 5000);
    answer(events(0, INT64_MAX, 0, -1));
    assert_all(5000);
    answer(events(0, INT64_MAX, 0, 5000));
    assert_all(5000);
    answer(events(0, INT64_MAX, 1000, 1500));
    assert_int_equal(g->values, 3000);
}

/* While the pieces come, events are added before and behind, and the oldest go: what stands all the while comes once. */
TEST(pieces_go_on_behind_the_last_one)
{
    script(fill_events, "blob:submit", 5000);
    ask(events(0, 2000, 0, -1));
    int round = 0, before = g->done;
    while (g->done == before) {
        uv_run(&g->w->loop, UV_RUN_ONCE);
        redis_do("ZADD blob:submit 500 early%d 3000 late%d", round, round);
        redis_do("ZREMRANGEBYSCORE blob:submit 1000 1000");
        round++;
    }
    assert_true(round > 3);
    size_t standing = g->values / 2, early = 0;
    for (const char *at = g->said.p; (at = strstr(at, "early")) != NULL; at++)
        early++; /* before the first piece */
    assert_int_equal(g->values % 2, 0);
    assert_in_range(standing - early, 5000 - 699, 5000); /* the first pieces may have had those that went */
}

TEST(a_last_one_that_was_preened_is_no_loss)
{
    script(fill_events, "blob:submit", 3000);
    ask(events(0, 2000, 0, -1));
    redis_do("PING");
    int before = g->done;
    while (g->read.answer.n == 0 && g->done == before)
        uv_run(&g->w->loop, UV_RUN_ONCE);
    redis_do("ZREMRANGEBYSCORE blob:submit 0 1002"); /* of the second piece, some */
    WAIT_UNTIL(g->w, g->done == before + 1);
    assert_non_null(strstr(g->said.p, " 2100 1003 "));
    assert_non_null(strstr(g->said.p, " 3000 1004"));
}

TEST(too_many_events_are_refused_and_can_be_had_in_parts)
{
    int most = 20000;
    g->limits.read.most = (uint32_t)most;
    script(fill_events, "blob:submit", most);
    answer(events(0, INT64_MAX, 0, -1));
    assert_all(most);
    redis_do("ZADD blob:submit 1 one-more");
    assert_answer(events(0, INT64_MAX, 0, -1),
                  "ERR more than 20000 events in that time; ask for a shorter one, or for a part: LIMIT "
                  "offset count");
    assert_answer(events(0, INT64_MAX, 0, 1), "one-more 1");
    answer(events(0, INT64_MAX, 1, most));
    assert_all(most);
}

TEST(too_long_ids_are_refused_and_can_be_had_in_parts)
{
    static const char fill[] =
        "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, string.rep('x', 500) .. i) end";
    g->limits.read.texts_max = 3000000;
    script(fill, "blob:submit", 6500);
    assert_answer(events(0, INT64_MAX, 0, -1),
                  "ERR more than 3000000 bytes of ids (limits.memory); ask for a shorter time, or "
                  "for a part: LIMIT offset count");
    answer(events(0, INT64_MAX, 1000, 5500));
    assert_int_equal(g->values, 2 * 5500);
}

/* ---- windows ---- */

static struct query windows(int64_t window, uint32_t n)
{
    return (struct query){
        .kind = QUERY_WINDOWS, NAMED("blob"), .type = SLICE("submit"), .window_s = window, .windows_n = n};
}

/* The counts as they should be, from the log itself; false: the clock went into another window meanwhile. */
static bool windows_agree(int64_t window, uint32_t n)
{
    int64_t now = redis_now(), last = now - now % window;
    char *said = strdup(answer(windows(window, n))), *at = said;
    assert_int_equal(g->values, n);
    bool same = redis_now() / window == now / window;
    for (uint32_t i = 0; same && i < n; i++) {
        int64_t from = last - (int64_t)(n - 1 - i) * window;
        const char *want =
            redis_do("ZCOUNT blob:submit %lld (%lld", (long long)from, (long long)(from + window));
        assert_int_equal(strtol(at, &at, 10), atol(want));
    }
    free(said);
    return same;
}

static void assert_windows(int64_t window, uint32_t n)
{
    while (!windows_agree(window, n))
        ;
}

static void add_event(int64_t at, const char *id)
{
    redis_do("ZADD blob:submit %lld %s", (long long)at, id);
}

TEST(windows_are_zero_filled_and_end_with_the_open_one)
{
    int64_t now = redis_now(), window = 3600, open = now - now % window;
    assert_windows(window, 1);
    assert_windows(window, 5);
    redis_do("DEL statcache:submit");
    add_event(open, "first-of-the-open");
    add_event(open - 1, "last-of-the-closed");
    add_event(open - window, "first-of-the-closed");
    add_event(open - 3 * window, "edge");
    add_event(open - 4 * window - 1, "before-all");
    if (redis_now() / window == now / window) assert_answer(windows(window, 5), "0 1 0 2 1");
    assert_windows(window, 5);
    assert_windows(1, 900);
}

TEST(closed_windows_are_cached_and_open_ones_are_not)
{
    int64_t window = 86400, now = redis_now(), open = now - now % window;
    add_event(open - 10, "a");
    add_event(open, "b");
    answer(windows(window, 4));
    char expected[300];
    snprintf(expected, sizeof expected, "1 nil nil 86400"); /* none without events */
    redis_has(expected, "HMGET statcache:submit blob:%lld:86400 blob:%lld:86400 blob:%lld:86400 blob:windows",
              (long long)(open - window), (long long)open, (long long)(open - 3 * window));
    redis_has("2", "HLEN statcache:submit");
    redis_do("HSET statcache:submit blob:%lld:86400 77", (long long)(open - window));
    add_event(open, "c");
    assert_answer(windows(window, 4), "0 0 77 2"); /* from the cache, and never the open one */
    add_event(now - 3600, "d");
    answer(windows(3600, 3));
    redis_has("86400,3600", "HGET statcache:submit blob:windows");
}

/* What was preened from the log must not be cached as nothing. */
TEST(what_may_be_preened_is_not_cached)
{
    g->limits.events_keep_s = 2 * 86400;
    add_event(redis_now() - redis_now() % 86400 - 10, "a");
    answer(windows(86400, 10));
    int64_t closed_and_kept = 1; /* of two days that begin within the last two days, one is still open */
    assert_int_equal(atol(redis_do("HLEN statcache:submit")), closed_and_kept + 1);
}

/* The preener finds caches by the logs that had events: of no other one may be anything. */
TEST(a_log_without_events_is_not_cached)
{
    assert_answer(windows(3600, 3), "0 0 0");
    redis_has("0", "EXISTS statcache:submit");
}

TEST(a_cache_in_use_by_many_sizes_takes_no_more)
{
    add_event(redis_now() - 3700, "a"); /* in a closed one of each size */
    for (int size = 3600; size < 3600 + 40; size++)
        answer(windows(size, 3));
    assert_int_equal(atol(redis_do("HLEN statcache:submit")), 32 + 1);
}

TEST(windows_over_many_events_are_counted)
{
    static const char fill[] =
        "local now = redis.call('TIME')[1]\n"
        "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], now - (i * 7919) % 5000, i) end";
    script(fill, "blob:submit", 50000);
    assert_windows(5, 1000);
    assert_windows(5, 1000); /* now from the cache */
    assert_windows(7, 2000); /* the older half is empty */
    redis_do("HDEL statcache:submit blob:%lld:5", (long long)(redis_now() / 5 * 5 - 2000));
    assert_windows(5, 1000);
}

TEST(windows_of_many_years_end)
{
    add_event(redis_now(), "a");
    answer(windows(315360000, g->limits.read.most));
    assert_int_equal(g->values, g->limits.read.most);
    assert_string_equal(g->said.p + g->said.n - 1 - 4, " 0 1");
}

TEST(a_full_redis_still_answers)
{
    add_event(redis_now() - 7200, "a");
    redis_do("CONFIG SET maxmemory 1");
    assert_windows(3600, 6);
    redis_do("CONFIG SET maxmemory 0");
    redis_has("0", "EXISTS statcache:submit");
    redis_do("SET statcache:submit x");
    assert_answer(windows(3600, 6), "WRONGTYPE Operation against a key holding the wrong kind of value");
}

/* ---- visitors ---- */

static struct query visitors(int64_t from, int64_t to)
{
    return (struct query){.kind = QUERY_VISITORS, NAMED("unique_users"), .from = from, .to = to};
}

TEST(bits_are_exact)
{
    assert_answer(visitors(20071204, 20071204), "0 exact");
    redis_do("SETBIT unique_users_2007_12_04 5 1");
    redis_do("SETBIT unique_users_2007_12_04 16000000 1");
    redis_do("SETBIT unique_users_2007_12_31 5 1");
    redis_do("SETBIT unique_users_2008_01_01 6 1");
    assert_answer(visitors(20071204, 20071204), "2 exact");
    assert_answer(visitors(20071201, 20071231), "2 exact");
    assert_answer(visitors(20071231, 20080101), "2 exact");
    assert_answer(visitors(20070102, 20080102), "3 exact");
    redis_has("3", "DBSIZE"); /* nothing temporary is left, the days are as they were */
    redis_has("1", "BITCOUNT unique_users_2007_12_31");
}

TEST(sketches_are_estimated_beside_bits)
{
    redis_do("PFADD unique_users_2007_12_04:hll ann bob");
    redis_do("PFADD unique_users_2007_12_06:hll bob cid");
    assert_answer(visitors(20071204, 20071204), "2 estimated");
    assert_answer(visitors(20071205, 20071205), "0 exact");
    redis_do("SETBIT unique_users_2007_12_05 5 1");
    assert_answer(visitors(20071204, 20071206), "4 estimated");
    redis_has("3", "DBSIZE");
}

/* Big days: the union grows in many steps. */
TEST(a_union_over_a_year_goes_in_steps)
{
    static const char fill[] = "for i = 1, ARGV[1] do redis.call('PFADD', KEYS[1], i) end";
    int64_t day = day_number(20070101);
    for (int i = 0; i < 365; i += 7) {
        int64_t on = day_of_number(day + i);
        char sketch[80];
        redis_do("SETBIT unique_users_%04d_%02d_%02d %d 1", (int)(on / 10000), (int)(on / 100 % 100),
                 (int)(on % 100), 16000000 + i % 70);
        snprintf(sketch, sizeof sketch, "unique_users_%04d_%02d_%02d:hll", (int)(on / 10000),
                 (int)(on / 100 % 100), (int)(on % 100));
        script(fill, sketch, 2000);
    }
    char *said = strdup(answer(visitors(20070101, 20071231)));
    int64_t n = strtol(said, NULL, 10);
    assert_true(n > 10 + 1940 && n < 10 + 2060);
    assert_non_null(strstr(said, "estimated"));
    free(said);
    redis_has("106", "DBSIZE");
    for (int i = 0; i < 365; i += 7) {
        int64_t on = day_of_number(day + i);
        redis_do("DEL unique_users_%04d_%02d_%02d:hll", (int)(on / 10000), (int)(on / 100 % 100),
                 (int)(on % 100));
    }
    assert_answer(visitors(20070101, 20071231), "10 exact");
    redis_has("53", "DBSIZE");
}

/* More days than one step names. */
TEST(a_union_over_years_goes_in_steps)
{
    g->limits.read.days = 1096;
    redis_do("SETBIT unique_users_2005_01_01 5 1");
    redis_do("SETBIT unique_users_2006_01_01 6 1"); /* the last day of the first step */
    redis_do("SETBIT unique_users_2006_01_02 7 1");
    redis_do("SETBIT unique_users_2008_01_01 5 1");
    assert_answer(visitors(20050101, 20080101), "3 exact");
    assert_answer(visitors(20050101, 20060101), "2 exact");
    redis_do("PFADD unique_users_2007_12_06:hll bob cid");
    assert_answer(visitors(20050101, 20080101), "5 estimated");
    redis_has("5", "DBSIZE");
}

/* What a step has built is gone when the next one comes: an error, never a smaller number. */
TEST(a_lost_union_is_an_error)
{
    for (int day = 1; day <= 31; day++)
        redis_do("SETBIT unique_users_2007_12_%02d 16000000 1", day);
    int before = g->done;
    ask(visitors(20071201, 20071231));
    while (g->done == before) {
        uv_run(&g->w->loop, UV_RUN_ONCE);
        redis_do("EVAL %s 0",
                 "for _, k in ipairs(redis.call('KEYS', 'tally:tmp:*')) do redis.call('DEL', k) end");
    }
    assert_string_equal(g->said.p, "ERR the union of the days was lost on the way; ask again");
}

TEST(a_day_of_another_type_is_refused)
{
    redis_do("LPUSH unique_users_2007_12_05 x");
    redis_do("SET unique_users_2007_12_07:hll nonsense");
    assert_answer(visitors(20071204, 20071205),
                  "WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_answer(visitors(20071206, 20071207), "WRONGTYPE Key is not a valid HyperLogLog string value.");
}

/* ---- the link ---- */

TEST(a_cut_ends_every_read)
{
    struct query all[] = {samples(5, 0, 9),
                          {.kind = QUERY_NAMES},
                          box(QUERY_TIMEBOX_RECENT, 0, 5),
                          box(QUERY_TIMEBOX_TOP, 0, 5),
                          events(0, 9, 0, -1),
                          windows(5, 10),
                          visitors(20071201, 20071231)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int ups = g->w->ups;
        redis_link_cut(&g->w->link, "MASTERDOWN for the test");
        answer(all[i]);
        assert_int_equal(g->read.outcome, ASK_REDIS_DOWN);
        WAIT_UNTIL(g->w, g->w->ups == ups + 1);
    }
}
