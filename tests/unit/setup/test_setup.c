/* From a configuration to what the rooms take: places of problems that only those rooms find, and passwords.
 */
#include "lib/unit.h"

#include "setup/setup.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNTER(name, key)                                                                                   \
    "  " name ":\n"                                                                                          \
    "    key: \"" key "\"\n"                                                                                 \
    "    field: date\n"                                                                                      \
    "    table: " name "\n"                                                                                  \
    "    columns: { store: s, field: f, count: n }\n"
#define SECRET "hunter2"

static struct conf conf; /* of the last build */
static struct setup setup;
static struct buf problems;

static bool build(const char *text)
{
    if (!conf_parse("t.yaml", slice_str(text), NULL, &conf, &problems))
        fail_msg("%.*s", (int)problems.n, problems.p);
    return setup_init(&setup, &conf, &problems);
}

static void built_close(void)
{
    setup_close(&setup);
    conf_free(&conf);
    buf_free(&problems);
}

/* All that is expected is there, in this order; SECRET is not. */
static void refused(const char *text, const char *first, const char *second)
{
    assert_false(build(text));
    buf_put_char(&problems, '\0');
    if (strncmp(problems.p, first, strlen(first)) != 0) fail_msg("%s", problems.p);
    assert_non_null(strstr(problems.p, second));
    assert_null(strstr(problems.p, SECRET));
    buf_free(&problems);
    conf_free(&conf);
}

UNIT(test_good)
{
    setenv("TALLYD_MYSQL_PASSWORD", "fromenv", 1);
    bool built = build("redis: { url: \"redis://:" SECRET "@h:1/2\" }\n"
                       "mysql: { url: \"mysql://u:inurl@h:3/d\", timeout: 5500ms }\n"
                       "counters:\n" COUNTER("a", "s<store>:a") COUNTER("b", "s<store>:b"));
    unsetenv("TALLYD_MYSQL_PASSWORD");
    assert_true(built);
    assert_string_equal(setup.redis.hosts[0].name, "h");
    assert_int_equal(setup.redis.db, 2);
    assert_string_equal(setup.redis.password, SECRET);
    assert_string_equal(setup.mysql.password, "fromenv");
    assert_int_equal(setup.mysql.hosts[0].port, 3);
    assert_int_equal(setup.mysql.read_timeout_s, 6);
    assert_int_equal(setup.counters.n, 2);
    const struct counter *c = counters_match(&setup.counters, SLICE("s12:b"));
    assert_ptr_equal(c, &setup.counters.all[1]);
    assert_int_equal(c->field, FIELD_DATE);
    assert_int_equal(c->hits, 50);
    assert_int_equal(c->every_s, 60);
    assert_true(slice_eq(c->column_store, SLICE("s")));
    built_close();
}

UNIT(test_places)
{
    refused("redis: \"http://u:" SECRET "@h\"\n"
            "mysql: \"mysql://u:" SECRET "@h\"\n"
            "counters:\n" COUNTER("a", "s<store>:a"),
            "t.yaml:1:8: redis.url: ", "\nt.yaml:2:8: mysql.url: ");
    refused("mysql: \"mysql://u@h/d\"\ncounters:\n" COUNTER("a", "s<store>:<X>")
                COUNTER("b", "tally:<store>"),
            "t.yaml:4:10: counters.a.key: ", "<");
    refused("mysql: \"mysql://u@h/d\"\ncounters:\n" COUNTER("a", "s<store>:<x>"),
            "t.yaml:4:10: counters.a.key: has the placeholder <x>", "columns");
    refused("mysql: \"mysql://u@h/d\"\ncounters:\n" COUNTER("a", "s<store>:x") COUNTER("b", "s<store>:x"),
            "t.yaml:9:10: counters.b.key: ", "a");
    refused("mysql: \"mysql://u@h/d\"\ncounters:\n" COUNTER("a", "tally:<store>"),
            "t.yaml:4:10: counters.a.key: ", "tally:");
    refused(
        "redis: { durability: replicas }\nmysql: \"mysql://u@h/d\"\ncounters:\n" COUNTER("a", "s<store>:x"),
        "t.yaml:1:22: redis.durability: replicas protects nothing while redis.replicas is 0: ",
        "set that to");
}

UNIT(test_ops)
{
    assert_true(
        build("mysql: \"mysql://u@h/d\"\n"
              "series: { precisions: [60, 1, 5], samples: 7 }\n"
              "boxes: { width: 1h, keep: 3 }\n"
              "events: { keep: 2d, windows: \"5s 1d, 1m 2d\" }\n"
              "uniques: { exact_below: 9, growth: 3KiB, name: \"s<store>:who\", feeds: { counter: b } }\n"
              "tokens: { keep: 2h, max: 5 }\n"
              "counters:\n" COUNTER("a", "s<store>:a")
                  COUNTER("b", "s<store>:b") "    feeds: { box: \"s<store>:box\" }\n"));
    static const uint32_t precisions[] = {1, 5, 60};
    assert_ptr_equal(setup.counters.ops, &setup.ops);
    assert_int_equal(setup.ops.precisions_n, 3);
    assert_memory_equal(setup.ops.precisions, precisions, sizeof(precisions));
    assert_int_equal(setup.ops.samples, 7);
    assert_int_equal(setup.ops.timebox_width_s, 3600);
    assert_int_equal(setup.ops.timebox_keep, 3);
    assert_int_equal(setup.ops.events_keep_s, 2 * 86400);
    assert_int_equal(setup.ops.tiers_n, 2);
    assert_int_equal(setup.ops.tiers[1].window_s, 60);
    assert_int_equal(setup.ops.tiers[1].keep_s, 2 * 86400);
    assert_int_equal(setup.ops.uniq_limit, 9);
    assert_int_equal(setup.ops.uniq_growth, 3072);
    assert_ptr_equal(setup.ops.uniq_counter, &setup.counters.all[1]);
    assert_true(pattern_match(&setup.ops.uniq_name, STORE_INTEGER, SLICE("s12:who"), NULL));
    assert_int_equal(setup.ops.ahead_s, 60);
    assert_int_equal(setup.ops.token_keep_s, 7200);
    assert_int_equal(setup.ops.tokens_most, 5);
    assert_false(counter_feeds(&setup.counters.all[0], FEED_TIMEBOX));
    assert_true(counter_feeds(&setup.counters.all[1], FEED_TIMEBOX));
    assert_false(counter_feeds(&setup.counters.all[1], FEED_SERIES));
    built_close();
}

#define GOOD "mysql: \"mysql://u@h/d\"\ncounters:\n" COUNTER("a", "s<store>:a")

UNIT(test_feeds)
{
    refused(GOOD "    feeds: { series: \"s<store>:<x>\", box: \"a>x\" }\n",
            "t.yaml:8:22: counters.a.feeds.series: ", "\nt.yaml:8:43: counters.a.feeds.box: ");
    refused(GOOD "    feeds: { event: \"s<store>:a\" }\n",
            "t.yaml:8:21: counters.a.feeds.event: ", "can be the key of counter a");
    refused(GOOD "uniques: { name: \"s<store>:who\", feeds: { counter: aa } }\n",
            "t.yaml:8:52: uniques.feeds.counter: ", "there is no counter aa, expected a?");
    refused(GOOD "uniques: { name: \"s<store>:who\", feeds: { counter: visitors } }\n",
            "t.yaml:8:52: uniques.feeds.counter: ", "there is no counter visitors; name one");
    refused(GOOD "uniques: { name: \"s<store>:who\" }\n",
            "t.yaml:8:18: uniques.name: ", "uniques.feeds.counter is missing");
    refused(GOOD "uniques: { feeds: { counter: a } }\n",
            "t.yaml:8:30: uniques.feeds.counter: ", "uniques.name is missing");
    refused(GOOD "uniques: { name: who, feeds: { counter: a } }\n",
            "t.yaml:8:41: uniques.feeds.counter: ", "both or none must hold it");
}

/* A setting that would be TLS in name only is refused, and a name that may be a key is not shown. */
UNIT(test_tls)
{
#define REST "counters:\n" COUNTER("a", "s<store>:a")
#define REDIS(url, tls) "redis: { url: \"" url "\", tls: { " tls " } }\nmysql: \"mysql://u@h/d\"\n" REST
#define MYSQL(url, tls) "mysql: { url: \"" url "\", tls: { " tls " } }\n" REST
    refused(REDIS("redis://h", "ca: /x"), "t.yaml:1:15: redis.url: ", "write rediss://");
    refused(REDIS("redis://h", "verify: off"), "t.yaml:1:15: redis.url: ", "write rediss://");
    refused(REDIS("rediss://h", "cert: /x"), "t.yaml:1:42: redis.tls.cert: ", "together or not at all");
    refused(REDIS("rediss://h", "ca: /" SECRET), "t.yaml:1:40: redis.tls.ca: the authorities: No such file",
            "PEM");
    refused(REDIS("rediss://h", "ca: /"), "t.yaml:1:40: redis.tls.ca: the authorities: that is no file",
            "PEM");
    refused(REDIS("rediss://h", "cert: /dev/null, key: /x"),
            "t.yaml:1:42: redis.tls.cert: the certificate: that is no", "PEM");
    refused(MYSQL("mysql://u@h/d", "ca: /x"), "t.yaml: mysql.tls.use: ", "write mysql.tls.use: on");
    refused(MYSQL("mysql://u@h/d", "verify: off"), "t.yaml: mysql.tls.use: ", "write mysql.tls.use: on");
    refused(MYSQL("mysql://u@h/d", "use: on"), "t.yaml:1:44: mysql.tls.use: mysql.tls.ca is missing",
            "authorities");
    refused(MYSQL("mysql://u@localhost/d", "use: on"),
            "t.yaml:1:52: mysql.tls.use: ", "unix socket, which has no TLS");
    refused(MYSQL("mysql://u@h/d", "use: on, ca: /" SECRET),
            "t.yaml:1:52: mysql.tls.ca: the authorities: No such", "PEM");
    refused(MYSQL("mysql://u@h/d", "use: on, verify: off, key: /x"),
            "t.yaml:1:66: mysql.tls.key: ", "together");
}

/* Sentinels: what is no address, and what would have no effect. */
UNIT(test_sentinels)
{
#define SENTINELS(url, rest) "redis: { url: \"" url "\", " rest " }\nmysql: \"mysql://u@h/d\"\n" REST
    setenv("TALLYD_SENTINEL_PASSWORD", SECRET, 1);
    assert_true(build(
        SENTINELS("redis://u:p@shop/3", "sentinels: [ \"s1:7\", s2, \"[::1]:8\" ], sentinel: { user: t }")));
    unsetenv("TALLYD_SENTINEL_PASSWORD");
    assert_string_equal(setup.sentinels.name, "shop");
    assert_int_equal(setup.sentinels.n, 3);
    assert_string_equal(setup.sentinels.at[0].host, "s1");
    assert_int_equal(setup.sentinels.at[0].port, 7);
    assert_int_equal(setup.sentinels.at[1].port, 26379);
    assert_string_equal(setup.sentinels.at[2].host, "::1");
    assert_string_equal(setup.sentinels.access.user, "t");
    assert_string_equal(setup.sentinels.access.password, SECRET);
    assert_string_equal(setup.redis.password, "p");
    built_close();
    refused(SENTINELS("redis://shop", "sentinels: [ \"s1:0\" ]"),
            "t.yaml:1:42: redis.sentinels: ", "a port from 1 to");
    refused(SENTINELS("redis://shop", "sentinels: [ \"u:p@s1\" ]"),
            "t.yaml:1:42: redis.sentinels: ", "a host and a port");
    refused(SENTINELS("redis://shop", "sentinels: [ s1, \"s1:26379\" ]"),
            "t.yaml:1:42: redis.sentinels: ", "each sentinel once");
    refused(SENTINELS("redis://shop:1", "sentinels: [ s1 ]"), "t.yaml:1:15: redis.url: ", "without a port");
    refused(SENTINELS("redis://a,b", "sentinels: [ s1 ]"), "t.yaml:1:15: redis.url: ", "the primary's name");
    refused(SENTINELS("unix:///r", "sentinels: [ s1 ]"), "t.yaml:1:15: redis.url: ", "the primary's name");
    refused(SENTINELS("redis://h", "sentinel: { user: t }"),
            "t.yaml:1:46: redis.sentinel.user: ", "no effect");
    refused(SENTINELS("redis://h", "sentinel: { tls: { use: on } }"),
            "t.yaml:1:52: redis.sentinel.tls.use: ", "no effect");
    refused(SENTINELS("redis://h", "sentinels: [ s1 ], sentinel: { user: t }"),
            "t.yaml:1:65: redis.sentinel.user: ", "needs a password");
    refused(SENTINELS("redis://h", "sentinels: [ s1 ], sentinel: { tls: { ca: /x } }"),
            "t.yaml: redis.sentinel.tls.use: ", "not used");
}

static void doors_refused(const char *listen, const char *first, const char *second)
{
    struct buf text = {0};
    buf_printf(&text, "listen: { %s }\n" GOOD, listen);
    buf_put_char(&text, '\0');
    assert_true(build(text.p));
    assert_false(setup_doors(&setup, &problems));
    buf_put_char(&problems, '\0');
    if (strncmp(problems.p, first, strlen(first)) != 0) fail_msg("%s", problems.p);
    assert_non_null(strstr(problems.p, second));
    built_close();
    buf_free(&text);
}

UNIT(test_doors)
{
    doors_refused("resp: \"tls://0.0.0.0:1\"",
                  "t.yaml:1:17: listen.resp: a tls:// address needs listen.tls.cert", "key");
    doors_refused("resp: \"tcp://0.0.0.0:1\", http: \"tls://0.0.0.0:2\", tls: { cert: /x }",
                  "t.yaml:1:42: listen.http: a tls:// address needs listen.tls.cert and", "key");
    doors_refused("resp: \"tcp://0.0.0.0:1\", tls: { cert: /x, key: /y }",
                  "t.yaml:1:17: listen.resp: listen.tls is given, but no address speaks TLS", "tls://");
    doors_refused("resp: \"tls://0.0.0.0:1\", tls: { cert: /x, key: /y }",
                  "t.yaml:1:49: listen.tls.cert: the certificate: No such file", "PEM");
}

/* The shares of limits.memory. */
UNIT(test_limits)
{
    assert_true(build("mysql: \"mysql://u@h/d\"\n"
                      "limits: { memory: 64MiB }\n"
                      "counters:\n" COUNTER("a", "s<store>:a")));
    assert_int_equal(setup.ops.read.texts_max, 2 << 20);
    struct shares shares = setup_shares(&conf);
    assert_int_equal(shares.unread_all_bytes, 32 << 20);
    assert_int_equal(shares.unread_bytes, 16 << 20);
    assert_int_equal(shares.replay_bytes, 8 << 20);
    assert_int_equal(shares.hashes, (16 << 20) / 130);
    assert_int_equal(shares.names, (3 << 20) / 88);
    assert_int_equal(shares.lasts_bytes, 1 << 20);
    built_close();
}

static int no_passwords(void **state)
{
    unsetenv("TALLYD_REDIS_PASSWORD");
    unsetenv("TALLYD_MYSQL_PASSWORD");
    return 0;
}

UNITS_IN(no_passwords, NULL)
