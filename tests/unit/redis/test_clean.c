/* The cleaner's requests on a real server, with times around Redis' own now. */
#include "base/heap.h"
#include "lib/child.h"
#include "lib/dice.h"
#include "lib/redis_world.h"
#include "redis/index.h"

struct got {
    struct world *w;
    struct op_limits limits;
    struct redis_page page;
    struct redis_clean clean;
    int pages, cleans;
};
static struct got *g; /* of the test that runs */

static void on_page(struct redis_page *p)
{
    ((struct got *)p->arg)->pages++;
}

static void on_clean(struct redis_clean *c)
{
    ((struct got *)c->arg)->cleans++;
}

static int got_open(void **state)
{
    g = calloc(1, sizeof *g);
    g->w = world_open();
    g->limits = (struct op_limits){.precisions = {1, 60},
                                   .precisions_n = 2,
                                   .samples = 120,
                                   .events_keep_s = 1000,
                                   .tiers = {{5, 1000}, {3600, 100000}},
                                   .tiers_n = 2};
    g->page = (struct redis_page){.done = on_page, .arg = g};
    g->clean = (struct redis_clean){.limits = &g->limits, .done = on_clean, .arg = g};
    return 0;
}

static int got_close(void **state)
{
    world_close(g->w);
    free(g);
    return 0;
}

static int64_t redis_now_s(void)
{
    return strtoll(redis_do("TIME"), NULL, 10);
}

static void clean(enum redis_clean_kind kind, const struct slice *names, uint32_t n, int64_t most_s)
{
    int before = g->cleans;
    g->clean.kind = kind;
    g->clean.names = names;
    g->clean.names_n = n;
    g->clean.now_most_s = most_s;
    redis_clean(&g->w->link, &g->clean);
    WAIT_UNTIL(g->w, g->cleans == before + 1);
    assert_string_equal(g->clean.text, "");
    assert_false(g->clean.lost);
}

static void clean_one(enum redis_clean_kind kind, const char *name, int64_t most_s)
{
    struct slice all = slice_str(name);
    clean(kind, &all, 1, most_s);
}

/* --- pages --- */

static void page_next(uint32_t limit, struct slice after)
{
    int before = g->pages;
    g->page.key = SLICE("known:");
    g->page.after = after;
    g->page.limit = limit;
    redis_page(&g->w->link, &g->page);
    WAIT_UNTIL(g->w, g->pages == before + 1);
}

static void page_free(void)
{
    buf_free(&g->page.names);
    heap_free(g->page.all);
}

#define TEST(f) UNIT_IN(f, got_open, got_close)

/* Members come and go between the pages; one that is there from the first page to the last is seen once. */
TEST(test_pages_skip_nobody)
{
    struct dice d = dice_new("pages");
    int seen[300] = {0};
    char last[64] = "";
    for (int i = 0; i < 300; i++)
        redis_do("ZADD known: 0 %d:m%d", i % 7, i);
    for (bool end = false; !end;) {
        page_next(10, slice_str(last));
        assert_false(g->page.lost);
        for (uint32_t i = 0; i < g->page.n; i++) {
            int64_t number;
            struct slice name = g->page.all[i];
            assert_true(num_parse(slice_of(name.p + 3, name.n - 3), &number));
            seen[number] += name.p[2] == 'm';
        }
        if (g->page.n > 0) snprintf(last, sizeof last, SLICE_FMT, SLICE_ARG(g->page.all[g->page.n - 1]));
        end = g->page.at_end;
        page_free();
        if (g->pages % 2 == 0) redis_do("ZREM known: %s", last); /* the next page begins after it */
        for (int i = 0; i < 5; i++) {
            int gone = 2 * (int)dice_below(&d, 150) + 1; /* odd ones go */
            redis_do("ZREM known: %d:m%d", gone % 7, gone);
            redis_do("ZADD known: 0 %d:n%d", gone % 7, (int)dice_below(&d, 300));
        }
    }
    for (int i = 0; i < 300; i += 2)
        assert_int_equal(seen[i], 1);
}

TEST(test_short_pages)
{
    page_next(10, SLICE(""));
    assert_int_equal(g->page.n, 0);
    assert_true(g->page.at_end);
    page_free();
    redis_do("ZADD known: 0 1:a 0 1:b");
    page_next(10, SLICE("1:a"));
    assert_int_equal(g->page.n, 1);
    assert_slice(g->page.all[0], "1:b");
    assert_true(g->page.at_end);
    page_free();
    redis_do("SET known: x");
    page_next(10, SLICE(""));
    assert_false(g->page.lost);
    assert_true(strncmp(g->page.text, "WRONGTYPE", 9) == 0);
    page_free();
}

/* --- series --- */

TEST(test_series)
{
    struct slice names[] = {SLICE("1:a"), SLICE("60:a"), SLICE("1:old"), SLICE("1:none"),
                            SLICE("1:x"), SLICE("word"), SLICE("1:f")};
    int64_t now = redis_now_s() - 100; /* what the asker believes */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        redis_do("ZADD known: 0 %b", names[i].p, names[i].n);
    redis_do("HSET count:1:a %lld 1 %lld 1 %lld 1", now - 121, now - 120, now - 119);
    redis_do("HSET count:60:a %lld 1 %lld 1", now - 7200, now - 7199);
    redis_do("HSET count:1:old 5 1 6 1");
    redis_do("SET count:1:x word");
    redis_do("HSET count:1:f word 1 0x10 1 5 1");
    clean(REDIS_CLEAN_SERIES, names, 7, now);
    assert_int_equal(g->clean.finished, 7);
    assert_int_equal(g->clean.removed, 6);
    assert_int_equal(g->clean.gone, 2);
    assert_int_equal(g->clean.odd, 2);
    assert_int_equal(g->clean.now_s, now);
    assert_string_equal(g->clean.cursor, "");
    char left[64];
    snprintf(left, sizeof left, "%lld", (long long)now - 119);
    redis_has(left, "HKEYS count:1:a");
    redis_has("1", "HLEN count:60:a");
    redis_has("word 0x10", "HKEYS count:1:f");
    redis_has("1:a 1:f 1:x 60:a word", "ZRANGE known: 0 -1");
}

/* Whichever of the two clocks leaps ahead, the other one limits the cleaner; a full Redis is cleaned all the same. */
TEST(test_series_when_a_clock_leaps)
{
    int64_t now = redis_now_s();
    redis_do("ZADD known: 0 1:a");
    redis_do("HSET count:1:a %lld 1", now);
    clean_one(REDIS_CLEAN_SERIES, "1:a", now + 86400); /* ours */
    assert_int_equal(g->clean.removed, 0);
    assert_in_range(g->clean.now_s, now, now + 60);
    redis_do("HSET count:1:a %lld 1", now - 86400);
    clean_one(REDIS_CLEAN_SERIES, "1:a", now - 86400); /* Redis', as if it were a day later than it is */
    assert_int_equal(g->clean.removed, 0);
    redis_do("CONFIG SET maxmemory 1");
    clean_one(REDIS_CLEAN_SERIES, "1:a", now);
    assert_int_equal(g->clean.removed, 1);
    redis_has("1", "HLEN count:1:a");
}

/* A hash with more fields than one request looks at; and more hashes than it gets to. */
TEST(test_series_in_pieces)
{
    static const char fill[] =
        "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], ARGV[2] + i, 1) end return 1";
    char texts[50][16];
    struct slice names[50];
    int64_t now = redis_now_s();
    uint64_t removed = 0, gone = 0;
    int requests = 0;
    redis_do("EVAL %s 1 count:1:0 20000 5", fill);
    redis_do("HSET count:1:0 %lld 1", now);
    for (int i = 0; i < 50; i++) {
        names[i] = slice_of(texts[i], (size_t)snprintf(texts[i], 16, "1:%d", i));
        redis_do("ZADD known: 0 %s", texts[i]);
        if (i > 0) redis_do("EVAL %s 1 count:%s 120 5", fill, texts[i]);
    }
    for (uint32_t at = 0; at < 50; requests++) {
        clean(REDIS_CLEAN_SERIES, names + at, 50 - at, now);
        removed += g->clean.removed;
        gone += g->clean.gone;
        at += g->clean.finished;
        assert_true(g->clean.removed < 5000);
    }
    assert_true(requests > 5);
    assert_int_equal(removed, 20000 + 49 * 120);
    assert_int_equal(gone, 49);
    redis_has("1", "HLEN count:1:0");
    redis_has("1:0", "ZRANGE known: 0 -1");
}

/* --- events and their cache --- */

TEST(test_events)
{
    struct slice names[] = {SLICE("n:x"),    SLICE("old:x"), SLICE("seen:x"),
                            SLICE("none:x"), SLICE("str:x"), SLICE("word")};
    int64_t now = redis_now_s() - 100;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        redis_do("ZADD tally:events 0 %b", names[i].p, names[i].n);
    redis_do("ZADD n:x %lld a %lld b %lld c", now - 1001, now - 1000, now);
    redis_do("ZADD old:x 5 a 6 b");
    redis_do("ZADD seen:x 5 a");
    redis_do("SET str:x word");
    redis_do("SET old:index 2");
    redis_do("HSET tally:leased old:x 2");
    redis_do("HSET statcache:x seen:windows 5 seen:0:5 1");
    clean(REDIS_CLEAN_EVENTS, names, 6, now);
    assert_int_equal(g->clean.finished, 6);
    assert_int_equal(g->clean.removed, 4);
    assert_int_equal(g->clean.gone, 3);
    assert_int_equal(g->clean.odd, 1);
    redis_has("b c", "ZRANGE n:x 0 -1");
    redis_has("n:x seen:x str:x", "ZRANGE tally:events 0 -1");
    redis_has("2", "GET old:index"); /* numbers are never given twice */
    redis_has("2", "HGET tally:leased old:x");
    redis_has("3", "GET tally:events:gone");
    clean_one(REDIS_CLEAN_WINDOWS, "x", now);
    clean_one(REDIS_CLEAN_EVENTS, "seen:x", now);
    assert_int_equal(g->clean.gone, 1);
}

TEST(test_events_in_pieces)
{
    static const char fill[] =
        "for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], i, i) end return 1";
    struct slice names[] = {SLICE("a:x"), SLICE("b:x")};
    int64_t now = redis_now_s();
    uint64_t removed = 0;
    redis_do("EVAL %s 1 a:x 10000", fill);
    redis_do("EVAL %s 1 b:x 3000", fill);
    for (uint32_t at = 0; at < 2; at += g->clean.finished) {
        clean(REDIS_CLEAN_EVENTS, names + at, 2 - at, now);
        removed += g->clean.removed;
        assert_true(g->clean.removed <= 1000);
    }
    assert_int_equal(removed, 13000);
    redis_has("0", "EXISTS a:x b:x");
}

TEST(test_windows)
{
    struct slice types[] = {SLICE("x"), SLICE("none"), SLICE("str")};
    long long now = (long long)redis_now_s() - 100;
    redis_do("SET statcache:str word");
    redis_do("HSET statcache:x n:windows 5,60 gone:windows 5 gone:5:5 1 n:%lld:5 1 n:%lld:5 2", now - 1000,
             now - 999);
    redis_do("HSET statcache:x n:%lld:60 3 n:%lld:60 4 a:b:%lld:86400 5 word 6", now - 100000, now - 99999,
             now - 99999);
    clean(REDIS_CLEAN_WINDOWS, types, 3, now);
    assert_int_equal(g->clean.finished, 3);
    assert_int_equal(g->clean.removed, 3);
    assert_int_equal(g->clean.odd, 1);
    char left[200];
    snprintf(left, sizeof left, "n:windows 5,60 n:%lld:5 2 n:%lld:60 4 a:b:%lld:86400 5 word 6", now - 999,
             now - 99999, now - 99999);
    redis_has(left, "HGETALL statcache:x");
}

/* A cache of many windows goes in pages: after them old entries are gone, and live ones have stayed. */
TEST(test_windows_in_pieces)
{
    static const char fill[] = "for i = 1, 10000 do redis.call('HSET', KEYS[1], 'n:' .. i .. ':5', 1)"
                               " redis.call('HSET', KEYS[1], 'n:' .. (ARGV[1] + i) .. ':5', 1) end"
                               " for i = 1, 1000 do redis.call('HSET', KEYS[1], i .. ':windows', '5') end"
                               " return 1";
    int64_t now = redis_now_s();
    uint64_t removed = 0;
    int requests = 0;
    redis_do("EVAL %s 1 statcache:x %lld", fill, (long long)now);
    do {
        clean_one(REDIS_CLEAN_WINDOWS, "x", now);
        removed += g->clean.removed;
        requests++;
        assert_int_equal(g->clean.finished, g->clean.cursor[0] == '\0');
    } while (g->clean.finished == 0);
    assert_int_equal(removed, 10000);
    assert_true(requests > 5);
    redis_has("11000", "HLEN statcache:x");
}

TEST(test_link_lost)
{
    struct slice name = SLICE("1:a");
    child_pause(g->w->server.pid);
    g->clean.names = &name;
    g->clean.names_n = 1;
    redis_clean(&g->w->link, &g->clean);
    g->page.key = SLICE("known:");
    redis_page(&g->w->link, &g->page);
    redis_link_cut(&g->w->link, "MASTERDOWN for the test");
    WAIT_UNTIL(g->w, g->cleans == 1 && g->pages == 1);
    kill(g->w->server.pid, SIGCONT);
    assert_true(g->clean.lost && g->page.lost);
    assert_string_equal(g->clean.text, "the Redis link was lost");
    page_free();
}
