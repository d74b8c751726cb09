/* The screen of `tallyd status`: what is known, what is not, what is wrong, and how it is cut to a terminal. */
#include "lib/unit.h"

#include "admin/verbs.h"
#include "status/status.h"

#include <stdio.h>
#include <stdlib.h>

static const struct counter views = {
    .name = {"product_views", 13}, .table = {"product_views", 13}, .field = FIELD_INTEGER, .every_s = 60};

static struct figure known(int64_t v)
{
    return (struct figure){.known = true, .value = v};
}

static struct status_counter c; /* the one counter, which s borrows */
static struct status s;

/* All is well; a test spoils what it is about. */
static int well(void **state)
{
    c = (struct status_counter){.counter = &views,
                                .dirty = known(0),
                                .complete_until_ms = known(0),
                                .merged = known(1234567),
                                .rejected = known(0),
                                .rejects = known(0)};
    s = (struct status){.counters = &c, .counters_n = 1};
    s.service = (struct status_service){.up = true,
                                        .version = "1.2.3",
                                        .instance = "shop",
                                        .pid = 42,
                                        .uptime_s = 3723,
                                        .connections = 1,
                                        .redis_up = true,
                                        .mysql_up = true,
                                        .hits_per_s = known(1000)};
    s.service.stats.hits = 5000;
    s.redis = (struct status_redis){.up = true,
                                    .version = "7.0.15",
                                    .fsync = "everysec",
                                    .aof_on = true,
                                    .aof_writes = true,
                                    .sorted = true,
                                    .memory_bytes = 1024,
                                    .memory_most_bytes = 4096};
    s.mysql = (struct status_mysql){.up = true, .read = true, .mariadb = true, .version = "10.11.6-MariaDB"};
    s.books.known = true;
    return 0;
}

static const char *shown(const struct screen_style *style)
{
    static struct buf out;
    buf_reset(&out);
    screen_put(&s, style, &out);
    buf_put_char(&out, '\0');
    return out.p;
}

static const struct screen_style plain;

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("no \"%s\" in:\n%s", part, text);
}

static void hasnt(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) fail_msg("\"%s\" in:\n%s", part, text);
}

#define TEST(f) UNIT_IN(f, well, NULL)

TEST(test_well)
{
    const char *text = shown(&plain);
    has(text, "tallyd     up 1 h 2 min, version 1.2.3, pid 42, instance shop\n");
    has(text, "hits       5,000 counted, 1,000 a second, 0 repeated, 0 refused, 1 connection\n");
    has(text, "Redis      up, version 7.0.15, 1.0 KiB of 4.0 KiB, AOF everysec, 0 replicas\n");
    has(text, "MySQL      up, version 10.11.6-MariaDB\n");
    has(text, "waiting    0 hashes to be merged\n");
    has(text, "books      balance\n");
    has(text, "counter                    waiting      oldest      complete up to        merged      hits    "
              "  rows\n"
              "product_views                    0           -             not yet     1,234,567         0    "
              "     0\n");
    has(text, "batches    none on the way to MySQL\n");
    has(text, "All is well.\n");
    hasnt(text, "?");
    hasnt(text, "\033");
}

TEST(test_unknown_is_never_zero)
{
    s.redis = (struct status_redis){.why = "Redis cannot be reached (refused)"};
    s.mysql = (struct status_mysql){.why = "MySQL error 2002"};
    s.books = (struct status_books){.why = "Redis could not be read"};
    s.service.hits_per_s.known = false;
    c = (struct status_counter){.counter = &views};
    const char *text = shown(&plain);
    has(text, "Redis      down: Redis cannot be reached (refused)\n");
    has(text, "MySQL      down: MySQL error 2002\n");
    has(text, "5,000 counted, ? a second");
    has(text, "waiting    ?");
    has(text, "batches    ?");
    has(text, "books      ? (Redis could not be read)\n");
    has(text, "product_views                    ?           ?                   ?             ?         ?    "
              "     ?\n");
    hasnt(text, "All is well");
}

static void a_hundred_columns(const char *text)
{
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        if (end - line > 100 && *line != '!' && strncmp(line, "  -> ", 5) != 0)
            fail_msg("%ld columns: %.*s", (long)(end - line), (int)(end - line), line);
}

/* In an hour that is as bad as any: no line of figures is wider than a hundred columns. */
TEST(test_a_hundred_columns)
{
    struct status_batch b = {.counter = "a_name_of_more_than_twenty_bytes",
                             .fields = known(1234567),
                             .chunks = known(1235),
                             .chunks_merged = known(1000),
                             .age_ms = 86399000,
                             .owner = "shop-12.example.com"};
    c = (struct status_counter){.counter = &views,
                                .dirty = known(1234567),
                                .oldest_ms = known(86399000),
                                .complete_until_ms = known(INT64_C(1764000000000)),
                                .merged = known(1234567890),
                                .rejected = known(1234567),
                                .rejects = known(1234567)};
    s.batches = &b;
    s.batches_n = 1;
    s.service.stats.hits = 1234567890;
    s.service.stats.tokens_known = 1234567;
    snprintf(b.held, sizeof b.held, "rows_refused: %0150d", 1);
    const char *text = shown(&plain);
    has(text, "hits       1,233,333,323 counted, 1,000 a second, 1,234,567 repeated, 0 refused");
    has(text, ", HELD\n");
    has(text, " is held: rows_refused: 000");
    a_hundred_columns(text);
    snprintf(s.mysql.why, sizeof s.mysql.why, "MySQL cannot be reached %0150d.", 1);
    s.mysql.up = false;
    a_hundred_columns(text = shown(&plain));
    has(text, "MySQL      down: MySQL cannot be reached 000");
    has(text, "0001.\n  -> see that it runs");
}

TEST(test_little_memory_is_left)
{
    s.redis.memory_most_bytes = 1000000;
    s.redis.memory_bytes = 899999;
    has(shown(&plain), "All is well.");
    s.redis.memory_bytes = 951000;
    has(shown(&plain), "! Redis uses 95 % of its memory\n  -> give it more memory (maxmemory)");
    s.redis.memory_most_bytes = 1; /* and less than it has at all */
    has(shown(&plain), "! Redis uses ");
    s.redis.memory_most_bytes = 0; /* no limit */
    has(shown(&plain), "All is well.");
}

TEST(test_not_sorted)
{
    s.redis.sorted = false;
    s.redis.dirty = 30000;
    s.redis.oldest_ms = known(61000);
    c.dirty = (struct figure){0};
    const char *text = shown(&plain);
    has(text, "waiting    30,000 hashes to be merged, the oldest hit for 1 min 1 s; too many to tell apart "
              "by counter\n");
    has(text, "product_views                    ?           ?");
}

/* The servers: what holds claims, who follows, and who is missing. */
TEST(test_servers)
{
    snprintf(s.service.redis_server, sizeof s.service.redis_server, "10.0.0.1:6379");
    snprintf(s.service.redis_run_id, sizeof s.service.redis_run_id, "0123456789abcdef");
    s.service.redis_moved_ms = known(61000);
    s.redis.replicas = s.redis.replica_n = 1;
    s.redis.replica[0] =
        (struct status_replica){.at = "10.0.0.2:6379", .online = true, .lag_s = 1, .behind_bytes = 14};
    snprintf(s.mysql.server, sizeof s.mysql.server, "db1:3306 (db1:3306)");
    s.redis.durability = CONF_DURABILITY_REPLICAS;
    s.redis.replicas_wanted = 1;
    snprintf(s.redis.run_id, sizeof s.redis.run_id, "0123456789abcdef");
    snprintf(s.redis.role, sizeof s.redis.role, "master");
    const char *text = shown(&plain);
    has(text, "           links on 10.0.0.1:6379, role master, run_id 01234567, moved 1 min 1 s ago\n");
    hasnt(text, "sentinel");
    has(text, "           replica 10.0.0.2:6379 online, heard 1 s ago, 14 bytes behind\n");
    has(text, "MySQL      up, version 10.11.6-MariaDB, at db1:3306 (db1:3306)\n");
    has(text, "All is well.\n");
    hasnt(text, "durability none");
    s.redis.replicas_wanted = 2;
    has(shown(&plain), "! Redis has 1 of the 2 replicas that must have a batch before it is merged\n");
    s.redis.durability = CONF_DURABILITY_NONE;
    has(shown(&plain),
        "           durability none: hits that Redis loses are lost, hits that it brings back count twice\n");
}

/* A look at another server than the one that has the links says nothing of its role. */
TEST(test_links)
{
    snprintf(s.service.redis_server, sizeof s.service.redis_server, "10.0.0.1:6379");
    snprintf(s.service.redis_run_id, sizeof s.service.redis_run_id, "0123456789abcdef");
    snprintf(s.service.redis_links, sizeof s.service.redis_links, "frame=1,sync=0,fence=1");
    snprintf(s.redis.run_id, sizeof s.redis.run_id, "fedcba9876543210");
    snprintf(s.redis.role, sizeof s.redis.role, "master");
    s.service.redis_up = false;
    has(shown(&plain),
        "links on 10.0.0.1:6379, role ?, run_id 01234567, not all up (frame=1,sync=0,fence=1)\n");
}

TEST(test_sentinels)
{
    s.service.sentinels = 3;
    s.service.sentinels_up = s.service.sentinels_majority = 2;
    s.service.sentinel_n = 2;
    s.service.sentinel[0] = (struct status_sentinel){.at = "s1:26379", .state = "answers", .heard = true};
    s.service.sentinel[1] = (struct status_sentinel){.at = "s2:26379", .state = "silent"};
    const char *text = shown(&plain);
    has(text, "           2 of 3 sentinels answer, a majority is 2\n");
    has(text, "           sentinel s1:26379: answers, its events are heard\n");
    has(text, "           sentinel s2:26379: silent, its events are not heard\n");
    has(text, "All is well.\n");
    s.service.sentinels_up = 1;
    text = shown(&plain);
    has(text, "! 1 of the 3 sentinels answers, and a majority is 2: they cannot fail Redis over\n");
    s.redis = (struct status_redis){.why = "Redis cannot be reached (refused)"};
    has(shown(&plain), "           1 of 3 sentinels answer, a majority is 2\n");
}

TEST(test_problems)
{
    c.rejects = known(2);
    c.oldest_ms = known(211000); /* 3 times 60 s, and 30 s */
    const char *text = shown(&plain);
    has(text, "\n! product_views: MySQL refused 2 rows\n  -> `tallyd rejects list`");
    has(text, "! product_views: its oldest hit has waited for 211 s, and sync.every is 60 s\n");
    c.oldest_ms = known(210000);
    hasnt(shown(&plain), "its oldest hit");
    snprintf(c.stalled, sizeof c.stalled, "mysql_down");
    has(shown(&plain),
        "! merging does not go on: product_views is due, and nothing of it was merged for sync.every "
        "and 30 s (mysql_down)\n  -> its log says");
    const struct screen_style colour = {.colour = true};
    has(shown(&colour), "\033[1;31m! product_views: MySQL refused 2 rows\033[0m\n");
}

TEST(test_cut_to_the_terminal)
{
    struct status_counter many[8];
    c.rejects = known(1);
    for (size_t i = 0; i < 8; i++)
        many[i] = c;
    s.counters = many;
    s.counters_n = 8;
    const struct screen_style low = {.lines_max = 24};
    const char *text = shown(&low);
    size_t lines = 0;
    for (const char *p = text; *p != '\0'; p++)
        lines += *p == '\n';
    assert_true(lines <= 24);
    has(text, "more\n");
    hasnt(shown(&plain), "more\n");
}

static int told;

static void count(void *arg, const char *what, const char *next)
{
    assert_true(what[0] != '\0' && next[0] != '\0');
    told++;
}

TEST(test_verdicts)
{
    assert_int_equal(status_judge(&s, count, NULL), ERR_NONE);
    assert_int_equal(told, 0);
    s.service.up = false;
    snprintf(s.mysql.why, sizeof s.mysql.why, "MySQL went away");
    snprintf(s.redis.why, sizeof s.redis.why, "Redis went away");
    assert_int_equal(status_judge(&s, count, NULL), ERR_FAILED);
    s.mysql.up = false;
    assert_int_equal(status_judge(&s, count, NULL), ERR_UNAVAILABLE);
    s.redis.up = false; /* then nothing is said of a backlog that nobody saw */
    s.redis.held = 5;
    told = 0;
    assert_int_equal(status_judge(&s, count, NULL), ERR_UNAVAILABLE);
    assert_int_equal(told, 3);
    well(NULL);
    s.redis.gen = 4;
    s.mysql.gen = 5;
    assert_true(status_rolled_back(&s));
    assert_int_equal(status_judge(&s, count, NULL), ERR_FAILED);
    s.mysql.read = false;
    assert_false(status_rolled_back(&s)); /* nobody can tell */
}

TEST(test_rates)
{
    struct status before = s, now = s;
    now.mono_ms = before.mono_ms + 500;
    now.service.stats.hits += 100;
    status_rate(&before, &now);
    assert_true(now.service.hits_per_s.known);
    assert_int_equal(now.service.hits_per_s.value, 200);
    now.service.pid++; /* restarted */
    status_rate(&before, &now);
    assert_false(now.service.hits_per_s.known);
    now.service.pid--;
    now.mono_ms = before.mono_ms;
    status_rate(&before, &now);
    assert_false(now.service.hits_per_s.known);
}
