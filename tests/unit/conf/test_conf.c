/* Reading configurations: every value of a good one, and of bad ones the exact sentence with its place. */
#include "lib/unit.h"

#include "conf/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNTER                                                                                              \
    "counters:\n"                                                                                            \
    "  views:\n"                                                                                             \
    "    key: \"s<store>:views\"\n"                                                                          \
    "    field: integer\n"                                                                                   \
    "    table: views\n"                                                                                     \
    "    columns: { store: s, field: f, count: n }\n"
#define MYSQL "mysql: \"mysql://u@h/d\"\n"
#define COLUMNS "    columns: { store: s, field: f, count: n }\n"
#define TEN "0123456789"
#define LONG_PATH TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "0123456" /* with its slash 108 bytes */
#define NAME_EXPECTED "expected a MySQL name of 1 to 64 letters, digits, '_' or '$'"
#define URL_EXPECTED                                                                                         \
    "mysql.url is missing, expected mysql://user[:password]@host:port/database or "                          \
    "mysql://user@localhost/database?socket=/path"
#define COUNTERS_EXPECTED                                                                                    \
    "expected a map with a counter's name at each (`tallyd suggest TABLE` prints what fits a table)"
#define RESP_EXPECTED                                                                                        \
    "expected a list of addresses such as \"tcp://127.0.0.1:7370\", \"tls://0.0.0.0:7380\" or "              \
    "\"unix:///run/tallyd/tallyd.sock\""
#define OPTIONS_EXPECTED                                                                                     \
    "expected one of listen, http, redis, mysql, instance, ledger, log, limits, stop_timeout, series, "      \
    "boxes, events, uniques, zone, store_zone, store_names, store_word, tokens, counters, users"
#define YAML_EXPECTED "expected YAML (are the indents spaces, and the same in one map?)"
#define NO_PASSWORD "is a file without a password, expected one line of text of at most 1000 bytes"
#define SECRET "hunter2" /* must never be seen in a message */

static bool parse(const char *text, struct conf *out, struct buf *problems)
{
    return conf_parse("t.yaml", slice_str(text), NULL, out, problems);
}

static void accepted_as(const char *text, struct conf *out)
{
    struct buf problems = {0};
    if (!parse(text, out, &problems)) fail_msg("refused: %.*s", (int)problems.n, problems.p);
    assert_int_equal(problems.n, 0);
    buf_free(&problems);
}

static struct conf c; /* of the last accepted() or load() */
static struct error e;

static void accepted(const char *text)
{
    conf_free(&c);
    accepted_as(text, &c);
}

static enum err load(const char *path)
{
    conf_free(&c);
    return conf_load(path, NULL, &c, &e);
}

/* expected: the lines, each with its newline. */
static void refused(const char *text, const char *expected)
{
    struct conf none;
    struct buf problems = {0};
    assert_false(parse(text, &none, &problems));
    buf_put_char(&problems, '\0');
    assert_string_equal(problems.p, expected);
    assert_null(strstr(problems.p, SECRET));
    buf_free(&problems);
}

/* One option between those that are needed, and what is said of it, from its column on; and one of the counter. */
#define option_refused(option, said) refused(MYSQL option "\n" COUNTER, "t.yaml:2:" said "\n")
#define views_refused(option, said) refused(MYSQL COUNTER "    " option "\n", "t.yaml:8:" said "\n")

UNIT(test_defaults)
{
    accepted(MYSQL COUNTER);
    assert_int_equal(c.listen_resp.n, 1);
    assert_string_equal(c.listen_resp.all[0].text, "tcp://127.0.0.1:7370");
    assert_string_equal(c.listen_resp.all[0].host, "127.0.0.1");
    assert_int_equal(c.listen_resp.all[0].port, 7370);
    assert_string_equal(c.redis_url, "redis://127.0.0.1:6379/0");
    assert_string_equal(c.mysql_url, "mysql://u@h/d");
    assert_null(c.redis_password_file);
    assert_int_equal(c.redis_replicas, 0);
    assert_int_equal(c.redis_durability, CONF_DURABILITY_DISK);
    assert_int_equal(c.redis_timeout_ms, 5000);
    assert_int_equal(c.mysql_writers, 2);
    assert_int_equal(c.mysql_durability, CONF_STRICT);
    assert_int_equal(c.mysql_timeout_ms, 10000);
    assert_int_equal(c.ledger_keep_ms, 7 * CONF_DAY_MS);
    assert_int_equal(c.log_level, CONF_LOG_INFO);
    assert_int_equal(c.limits_clients, 10000);
    assert_int_equal(c.limits_memory_bytes, 512 << 20);
    assert_int_equal(c.limits_send_timeout_ms, 60000);
    assert_int_equal(c.stop_timeout_ms, 10000);
    assert_true(strlen(c.instance) > 0);
    static const int64_t precisions[] = {1, 5, 60, 300, 3600, 18000, 86400};
    assert_int_equal(c.series_precisions.n, 7);
    assert_memory_equal(c.series_precisions.all, precisions, sizeof(precisions));
    assert_int_equal(c.series_samples, 120);
    assert_int_equal(c.boxes_width_s, 60);
    assert_int_equal(c.boxes_keep, 60);
    assert_int_equal(c.events_keep_s, 30 * 86400);
    assert_int_equal(c.events_windows.n, 2);
    assert_int_equal(c.events_windows.all[0].window_s, 5);
    assert_int_equal(c.events_windows.all[0].keep_s, 30 * 86400);
    assert_int_equal(c.events_windows.all[1].window_s, 3600);
    assert_int_equal(c.events_windows.all[1].keep_s, 365 * 86400);
    assert_int_equal(c.uniques_exact_below, 16777216);
    assert_null(c.uniques_name);
    assert_null(c.uniques_counter);
    assert_int_equal(c.tokens_keep_s, 86400);
    assert_int_equal(c.tokens_max, 1000000);
    assert_null(c.counters[0].feed_series);
    assert_int_equal(c.counters_n, 1);
    assert_string_equal(c.counters[0].name, "views");
    assert_string_equal(c.counters[0].lock, "s<store>:views:sync");
    assert_string_equal(c.counters[0].field, "integer");
    assert_int_equal(c.counters[0].store, CONF_STORE_INTEGER);
    assert_int_equal(c.counters[0].hits, 50);
    assert_int_equal(c.counters[0].every_s, 60);
}

UNIT(test_all_given)
{
    accepted("listen:\n"
             "  resp: [ \"tcp://[::1]:1\", unix:///run/x.sock, tcp://0.0.0.0:65535 ]\n"
             "redis: { url: \"unix:///r.sock?db=2\", replicas: 100, durability: none, timeout: 250ms }\n"
             "mysql: { url: \"mysql://u@h/d\", writers: 16, durability: relaxed, timeout: 5m }\n"
             "instance: a.B_c-1\n"
             "ledger: { keep: 36h }\n"
             "log: { level: debug }\n"
             "limits: { clients: 1, memory: 1GiB, send_timeout: 1d }\n"
             "stop_timeout: 2m\n"
             "series:\n  precisions:\n    - 60\n    - 7\n  samples: 10\n"
             "boxes: { width: 2h, keep: 3 }\n"
             "events: { keep: 60s, windows: \"1s 1m ,  1m   10m\" }\n"
             "uniques: { exact_below: 4294967295, name: \"<store>:v\", feeds: { counter: a_1 } }\n"
             "counters:\n"
             "  a_1:\n"
             "    key: \"page:views\"\n"
             "    lock: \"page:lock\"\n"
             "    field: text\n"
             "    store: text\n"
             "    sync: { hits: 1, every: \"1d\" }\n"
             "    table: $T_1\n"
             "    columns: { field: f, count: c }\n"
             "    feeds: { series: pages, box: \"pages\", event: \"pages:view\" }\n");
    assert_int_equal(c.series_precisions.n, 2);
    assert_int_equal(c.series_precisions.all[0], 60);
    assert_int_equal(c.series_precisions.all[1], 7);
    assert_int_equal(c.series_samples, 10);
    assert_int_equal(c.boxes_width_s, 7200);
    assert_int_equal(c.boxes_keep, 3);
    assert_int_equal(c.events_keep_s, 60);
    assert_int_equal(c.events_windows.n, 2);
    assert_int_equal(c.events_windows.all[1].window_s, 60);
    assert_int_equal(c.events_windows.all[1].keep_s, 600);
    assert_int_equal(c.uniques_exact_below, UINT32_MAX);
    assert_string_equal(c.uniques_name, "<store>:v");
    assert_string_equal(c.uniques_counter, "a_1");
    assert_string_equal(c.counters[0].feed_series, "pages");
    assert_string_equal(c.counters[0].feed_box, "pages");
    assert_string_equal(c.counters[0].feed_event, "pages:view");
    assert_int_equal(c.listen_resp.n, 3);
    assert_string_equal(c.listen_resp.all[0].host, "::1");
    assert_string_equal(c.listen_resp.all[1].path, "/run/x.sock");
    assert_null(c.listen_resp.all[1].host);
    assert_int_equal(c.listen_resp.all[2].port, 65535);
    assert_string_equal(c.redis_url, "unix:///r.sock?db=2");
    assert_int_equal(c.redis_replicas, 100);
    assert_int_equal(c.redis_durability, CONF_DURABILITY_NONE);
    assert_int_equal(c.redis_timeout_ms, 250);
    assert_int_equal(c.mysql_writers, 16);
    assert_int_equal(c.mysql_durability, CONF_RELAXED);
    assert_int_equal(c.mysql_timeout_ms, 300000);
    assert_string_equal(c.instance, "a.B_c-1");
    assert_int_equal(c.ledger_keep_ms, 36 * 3600000);
    assert_int_equal(c.log_level, CONF_LOG_DEBUG);
    assert_int_equal(c.limits_memory_bytes, 1 << 30);
    assert_int_equal(c.limits_send_timeout_ms, CONF_DAY_MS);
    assert_int_equal(c.stop_timeout_ms, 120000);
    assert_string_equal(c.counters[0].lock, "page:lock");
    assert_string_equal(c.counters[0].field, "text");
    assert_int_equal(c.counters[0].store, CONF_STORE_TEXT);
    assert_int_equal(c.counters[0].every_s, 86400);
    assert_string_equal(c.counters[0].table, "$T_1");
    assert_null(c.counters[0].column_store);
}

UNIT(test_shapes_that_are_fine)
{
    accepted(
        "limits:\n  # clients: 1\nredis:\n" MYSQL COUNTER); /* groups with all their options commented out */
    assert_int_equal(c.limits_clients, 10000);
    accepted("listen: { resp: unix:///one }\n" MYSQL COUNTER); /* one address without brackets */
    assert_string_equal(c.listen_resp.all[0].path, "/one");
    accepted("---\n" MYSQL "counters:\n  a: &a\n    key: x\n    field: hour\n    table: t\n"
             "    columns: { field: f, count: n }\n  b: *a\n...\n");
    assert_int_equal(c.counters_n, 2);
    assert_string_equal(c.counters[1].key, "x");
}

UNIT(test_unknown)
{
    refused("listne: {}\n" MYSQL COUNTER, "t.yaml:1:1: unknown option \"listne\", expected \"listen\"?\n");
    refused(MYSQL "redis:\n  replcas: 1\n" COUNTER,
            "t.yaml:3:3: unknown option \"replcas\" under redis, expected \"replicas\"?\n");
    option_refused("ledger: { frobnicate: 1 }",
                   "11: unknown option \"frobnicate\" under ledger, expected one of keep");
    /* the last names of the longest group */
    option_refused("limits: { busy_timeuot: 1 }",
                   "11: unknown option \"busy_timeuot\" under limits, expected \"busy_timeout\"?");
    option_refused("limits: { failed_login: 1mb }",
                   "11: unknown option \"failed_login\" under limits, expected \"failed_logins\"?");
    refused(MYSQL "limits: { busy: 1s, logins: 2 }\n" COUNTER, /* whole parts of names */
            "t.yaml:2:11: unknown option \"busy\" under limits, expected \"busy_timeout\"?\n"
            "t.yaml:2:21: unknown option \"logins\" under limits, expected \"failed_logins\"?\n");
    refused("frobnicate: 1\n" MYSQL COUNTER,
            "t.yaml:1:1: unknown option \"frobnicate\", " OPTIONS_EXPECTED "\n");
    views_refused("synk: 1", "5: unknown option \"synk\" under counters.views, expected \"sync\"?");
    views_refused("sync: { hit: 1 }",
                  "13: unknown option \"hit\" under counters.views.sync, expected \"hits\"?");
    option_refused("listen: { https: \"tcp://127.0.0.1:1\" }",
                   "11: unknown option \"https\" under listen, expected \"http\"?");
    views_refused(
        "feeds: { uniques: x }",
        "14: unknown option \"uniques\" under counters.views.feeds, expected one of series, box, event");
    /* what an older version had */
    refused("run_as: tallyd\n" MYSQL COUNTER, "t.yaml:1:1: unknown option \"run_as\"; start tallyd as that "
                                              "user instead (systemd: User=; else: setpriv --reuid)\n");
    option_refused("limits: { run_as: x }",
                   "11: unknown option \"run_as\" under limits, expected one of clients, memory, "
                   "send_timeout, auth_timeout, failed_logins, busy_timeout, hit");
    /* a path is no name */
    option_refused("redis.replicas: 1", "1: unknown option \"redis.replicas\", " OPTIONS_EXPECTED);
    option_refused("counters.*.key: 1",
                   "1: unknown option (not shown: it does not look like a name), " OPTIONS_EXPECTED);
}

UNIT(test_twice)
{
    refused(MYSQL "redis: redis://h/0\n" COUNTER "redis: {}\n",
            "t.yaml:9:1: \"redis\" is given again here, expected once (first at line 2)\n");
    views_refused("table: other", "5: \"table\" is given again here, expected once (first at line 6)");
    refused(MYSQL COUNTER "  views:\n    key: x\n",
            "t.yaml:8:3: \"views\" is given again here, expected once (first at line 3)\n");
}

UNIT(test_missing)
{
    refused("", "t.yaml:1:1: the file is empty, expected a map of options\n");
    refused("~", "t.yaml:1:1: the file is empty, expected a map of options\n");
    refused("---\n# nothing\n", "t.yaml:1:1: the file is empty, expected a map of options\n");
    refused(COUNTER, "t.yaml:1:1: " URL_EXPECTED "\n");
    refused("mysql: { writers: 2 }\n" COUNTER, "t.yaml:1:8: " URL_EXPECTED "\n");
    refused(MYSQL, "t.yaml:1:1: counters is missing, " COUNTERS_EXPECTED "\n");
    refused(MYSQL "counters: {}\n", "t.yaml:2:11: counters is an empty map, " COUNTERS_EXPECTED "\n");
    refused(MYSQL
            "counters:\n  views:\n    key: x\n    field: date\n    table: t\n    columns: { field: f }\n",
            "t.yaml:3:3: counters.views.columns.count is missing, " NAME_EXPECTED "\n");
    refused(MYSQL "counters:\n  views:\n    key: x\n    field: date\n    table: t\n",
            "t.yaml:3:3: counters.views.columns.field is missing, " NAME_EXPECTED "\n"
            "t.yaml:3:3: counters.views.columns.count is missing, " NAME_EXPECTED "\n");
    refused(MYSQL "counters:\n  views:\n    key: \"s<store>:x\"\n    field: date\n    table: t\n"
                  "    columns: { field: f, count: n }\n",
            "t.yaml:3:3: counters.views.columns.store is missing, expected the column of the <store> in the "
            "key\n");
}

static bool parse_without(const char *text, struct conf *out, struct buf *problems)
{
    static const char *const groups[] = {"listen", "mysql", NULL};
    return conf_parse("t.yaml", slice_str(text), groups, out, problems);
}

/* The groups left out may have errors and may be missing; a name that is only similar is not skipped. */
UNIT(test_without_groups)
{
    struct conf of;
    struct buf problems = {0};
    assert_true(parse_without("listen: { nonsense: 1 }\nmysql: { writers: 99 }\n" COUNTER, &of, &problems));
    assert_null(of.mysql_url);
    assert_int_equal(of.mysql_writers, 2);
    conf_free(&of);
    assert_true(parse_without(COUNTER, &of, &problems));
    conf_free(&of);
    assert_false(parse_without("mysqls: 1\n" COUNTER, &of, &problems));
    buf_free(&problems);
}

UNIT(test_types)
{
    refused("a list\n", "t.yaml:1:1: the file is another text (not shown), expected a map of options\n");
    refused("[ 1 ]\n", "t.yaml:1:1: the file is a list, expected a map of options\n");
    option_refused("redis: [ 1 ]", "8: redis is a list, expected a map of options");
    option_refused("limits: 5", "9: limits is another text (not shown), expected a map of options");
    option_refused("redis: { replicas: { a: 1 } }",
                   "20: redis.replicas is a map, expected an integer from 0 to 100");
    option_refused("redis: { replicas: [ 1 ] }",
                   "20: redis.replicas is a list, expected an integer from 0 to 100");
    refused(MYSQL "redis:\n  replicas:\n" COUNTER,
            "t.yaml:3:12: redis.replicas is empty, expected an integer from 0 to 100\n");
    option_refused("redis: { replicas: \"1\" }",
                   "20: redis.replicas is the text \"1\", expected an integer from 0 to 100");
    option_refused("redis: { replicas: many }",
                   "20: redis.replicas is many, expected an integer from 0 to 100");
    option_refused("redis: { replicas: 01 }", "20: redis.replicas is 01, expected an integer from 0 to 100");
    option_refused("log: { level: [ info ] }",
                   "15: log.level is a list, expected one of debug, info, warn, error");
    option_refused("log: { level: INFO }", "15: log.level is INFO, expected one of debug, info, warn, error");
    refused(MYSQL "counters: [ views ]\n", "t.yaml:2:11: counters is a list, " COUNTERS_EXPECTED "\n");
    refused(MYSQL "? [ a ]\n: 1\n" COUNTER,
            "t.yaml:2:3: there is a list or a map where a name was expected\n");
    option_refused("listen: { resp: [] }", "17: listen.resp is an empty list, " RESP_EXPECTED);
}

UNIT(test_ranges)
{
    option_refused("redis: { replicas: 101 }",
                   "20: redis.replicas is 101, expected an integer from 0 to 100");
    option_refused("redis: { replicas: -1 }", "20: redis.replicas is -1, expected an integer from 0 to 100");
    option_refused("limits: { clients: 99999999999999999999 }",
                   "20: limits.clients is 99999999999999999999, expected an integer from 1 to 1000000");
    option_refused("ledger: { keep: 59m }", "17: ledger.keep is 59m, expected a duration from 1h to 365d");
    option_refused("ledger: { keep: 9223372036854775807d }",
                   "17: ledger.keep is 9223372036854775807d, expected a duration from 1h to 365d");
    option_refused("ledger: { keep: 7 }", "17: ledger.keep is 7, expected a duration from 1h to 365d");
    option_refused("ledger: { keep: 7 d }", "17: ledger.keep is 7 d, expected a duration from 1h to 365d");
    option_refused("limits: { memory: 1MB }", "19: limits.memory is 1MB, expected a size from 8MiB to 16GiB");
    option_refused("limits: { memory: 8191KiB }",
                   "19: limits.memory is 8191KiB, expected a size from 8MiB to 16GiB");
    views_refused(
        "sync: { every: 1500ms }",
        "20: counters.views.sync.every is 1500ms, expected a duration in whole seconds from 1s to 1d");
    views_refused("sync: { hits: 0 }",
                  "19: counters.views.sync.hits is 0, expected an integer from 1 to 1000000000");
}

#define PRECISIONS_EXPECTED                                                                                  \
    ", expected a list of 1 to 16 different integers from 1 to 31536000, such as [1, 60, 3600]\n"
#define WINDOWS_EXPECTED                                                                                     \
    ", expected tiers such as \"5s 30d, 1h 365d\": a window and a time, neither over 3650d, both growing\n"

UNIT(test_lists)
{
    static const struct {
        const char *precisions, *what;
    } numbers[] = {
        {"[]", "23: series.precisions is an empty list"},
        {"[1, 0]", "27: series.precisions is 0"},
        {"[31536001]", "24: series.precisions is 31536001"},
        {"[1, \"5\"]", "27: series.precisions is the text \"5\""},
        {"[5s]", "24: series.precisions is 5s"},
        {"[1, [5]]", "27: series.precisions is a list"},
        {"[5, 1, 5]", "30: series.precisions is a list with the same number twice"},
        {"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]",
         "79: series.precisions is a list that is too long"},
    };
    char text[600], expected[400];
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        snprintf(text, sizeof(text), MYSQL "series: { precisions: %s }\n" COUNTER, numbers[i].precisions);
        snprintf(expected, sizeof(expected), "t.yaml:2:%s" PRECISIONS_EXPECTED, numbers[i].what);
        refused(text, expected);
    }
    refused(MYSQL "series:\n  precisions: 5,\n" COUNTER,
            "t.yaml:3:15: series.precisions is 5," PRECISIONS_EXPECTED);
    static const struct {
        const char *windows, *what;
    } tiers[] = {
        {"5s", "the text \"5s\""},
        {"5 30d", "the text \"5 30d\""},
        {"5s 30d,", "the text \"5s 30d,\""},
        {"", "the text \"\""},
        {"5s 30d, ", "the text \"5s 30d, \""},
        {"5s 30d 1h", "the text \"5s 30d 1h\""},
        {"1500ms 30d", "the text \"1500ms 30d\""},
        {"0s 30d", "the text \"0s 30d\""},
        {"2m 1m", "the text \"2m 1m\""},
        {"1h 3651d", "the text \"1h 3651d\""},
        {"5s 30d, 5s 31d", "a list whose windows do not grow from one tier to the next"},
        {"5s 30d, 1h 29d", "a list that keeps bigger windows for a shorter time than smaller ones"},
    };
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
        snprintf(text, sizeof(text), MYSQL "events: { windows: \"%s\" }\n" COUNTER, tiers[i].windows);
        snprintf(expected, sizeof(expected), "t.yaml:2:20: events.windows is %s" WINDOWS_EXPECTED,
                 tiers[i].what);
        refused(text, expected);
    }
}

UNIT(test_names)
{
    option_refused("store_word: \"a b\"",
                   "13: store_word is the text \"a b\", expected a word of at most 32 letters");
    option_refused("store_word: \"Store2\"",
                   "13: store_word is the text \"Store2\", expected a word of at most 32 letters");
    option_refused("store_word: \"\"",
                   "13: store_word is the text \"\", expected a word of at most 32 letters");
    option_refused("store_word: \"abcdefghijklmnopqrstuvwxyzabcdefg\"",
                   "13: store_word is the text \"abcdefghijklmnopqrstuvwxyzabcdefg\", expected a word of at "
                   "most 32 letters");
    option_refused("instance: \"a b\"",
                   "11: instance is the text \"a b\", expected 1 to 64 letters, digits, '.', '_' or '-'");
    refused(
        MYSQL "counters:\n  Views:\n    key: x\n",
        "t.yaml:3:3: a counter's name is \"Views\", expected 1 to 64 lower-case letters, digits or '_'\n");
    refused(MYSQL "counters:\n  v:\n    key: x\n    field: date\n    table: \"a`; DROP TABLE b; --\"\n"
                  "    columns: { field: f, count: n }\n",
            "t.yaml:6:12: counters.v.table is the text \"a`; DROP TABLE b; --\", " NAME_EXPECTED "\n");
    refused(MYSQL "counters:\n  v:\n    key: \"a\\tb\"\n    field: date\n    table: t\n"
                  "    columns: { field: f, count: n }\n",
            "t.yaml:4:10: counters.v.key is the text \"a?b\", expected a key such as "
            "\"s<store>:unique_visitors:daily\"\n");
    refused(MYSQL "counters:\n  v:\n    key: x\n    field: date\n    table: t\n" COLUMNS,
            "t.yaml:7:23: counters.v.columns.store is \"s\" but the key has no <store>, expected no such "
            "column\n");
}

UNIT(test_lookups)
{
    struct buf text = {0};
    accepted(MYSQL COUNTER "    labels: { name: title, table: products, id: \"product$id\" }\n");
    assert_string_equal(c.counters[0].labels.names[0], "products");
    assert_string_equal(c.counters[0].labels.names[1], "product$id");
    assert_string_equal(c.counters[0].labels.names[2], "title");
    conf_write(&c, &text);
    buf_put_char(&text, '\0');
    assert_non_null(
        strstr(text.p, "    labels: { table: \"products\", id: \"product$id\", name: \"title\" }\n"));
    accepted(text.p);
    assert_string_equal(c.counters[0].labels.names[2], "title");
    buf_free(&text);
    accepted(MYSQL COUNTER);
    assert_null(c.counters[0].labels.names[0]);
    views_refused("labels: products",
                  "13: counters.views.labels is products, expected three MySQL names as { table, id, name }");
    views_refused("labels: { table: products, id: product_id }",
                  "13: counters.views.labels.name is missing, " NAME_EXPECTED);
    views_refused("labels: { table: products, id: product_id, name: \"a`b\" }",
                  "54: counters.views.labels.name is the text \"a`b\", " NAME_EXPECTED);
    refused(MYSQL COUNTER "    labels: { table: [t], id: i, name: n, key: k, id: j }\n",
            "t.yaml:8:22: counters.views.labels.table is a list, " NAME_EXPECTED "\n"
            "t.yaml:8:43: unknown option \"key\" under counters.views.labels, expected { table, id, name }\n"
            "t.yaml:8:51: \"id\" is given again here, expected once (first at line 8)\n");
}

#define BAD_MODE "an address whose mode is not that of a socket (an octal number such as 0600, 0660 or 0666)"

UNIT(test_addresses)
{
    static const struct {
        const char *address, *what;
    } cases[] = {
        {"127.0.0.1:7370", "an address that is neither tcp:// nor tls:// nor unix://"},
        {"http://127.0.0.1:7370", "an address that is neither tcp:// nor tls:// nor unix://"},
        {"tcp://127.0.0.1", "an address without a port"},
        {"tcp://127.0.0.1:", "an address whose port is not a number from 1 to 65535"},
        {"tcp://127.0.0.1:65536", "an address whose port is not a number from 1 to 65535"},
        {"tcp://127.0.0.1:0", "an address whose port is not a number from 1 to 65535"},
        {"tcp://127.0.0.1:1/x", "an address whose port is not a number from 1 to 65535"},
        {"tcp://localhost:1", "an address without an IP address (127.0.0.1, 0.0.0.0, [::1])"},
        {"tcp://::1:1", "an address without an IP address (127.0.0.1, 0.0.0.0, [::1])"},
        {"tcp://:1", "an address without an IP address (127.0.0.1, 0.0.0.0, [::1])"},
        {"unix://relative", "a unix socket without an absolute path"},
        {"unix:///", "a unix socket without an absolute path"},
        {"unix:///" LONG_PATH, "a unix socket's path of more than 107 bytes"},
        {"tls://0.0.0.0", "an address without a port"},
        {"tls://localhost:1", "an address without an IP address (127.0.0.1, 0.0.0.0, [::1])"},
        {"unix:///s?mode=0760", BAD_MODE},
        {"unix:///s?mode=0460", BAD_MODE},
        {"unix:///s?mode=1660", BAD_MODE},
        {"unix:///s?mode=66", BAD_MODE},
        {"unix:///s?mode=0680", BAD_MODE},
        {"unix:///s?group=", "an address whose group is not the name of a group"},
        {"unix:///s?group=a/b", "an address whose group is not the name of a group"},
        {"unix:///s?owner=a", "an address with something other than mode= and group= behind its '?'"},
        {"unix:///s?mode=0660&", "an address with something other than mode= and group= behind its '?'"},
        {"unix:///s?", "an address with something other than mode= and group= behind its '?'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[600], expected[400];
        snprintf(text, sizeof(text), MYSQL "listen: { resp: [ \"tcp://127.0.0.1:1\", \"%s\" ] }\n" COUNTER,
                 cases[i].address);
        snprintf(expected, sizeof(expected), "t.yaml:2:40: listen.resp is %s, " RESP_EXPECTED "\n",
                 cases[i].what);
        refused(text, expected);
    }
}

UNIT(test_syntax)
{
    refused("a: [ 1\nb: 2\n", "t.yaml:2:2: did not find expected ',' or ']', " YAML_EXPECTED "\n");
    refused("a:\n\tb: 1\n", "t.yaml:2:1: found character that cannot start any token, " YAML_EXPECTED "\n");
    refused("redis: *nowhere\n", "t.yaml:1:8: found undefined alias, " YAML_EXPECTED "\n");
    refused("a: \xff\n", "t.yaml:1:1: bytes that are not UTF-8 text, expected YAML\n");
    refused(MYSQL COUNTER "---\n" MYSQL, "t.yaml:8:1: a second document begins here, expected one\n");
}

/* All at once, in the order of the file, then what is missing. */
UNIT(test_all_problems)
{
    refused("lissen: 1\nredis: { replicas: x }\ncounters:\n  V: {}\n",
            "t.yaml:1:1: unknown option \"lissen\", expected \"listen\"?\n"
            "t.yaml:2:20: redis.replicas is x, expected an integer from 0 to 100\n"
            "t.yaml:4:3: a counter's name is \"V\", expected 1 to 64 lower-case letters, digits or '_'\n"
            "t.yaml:1:1: " URL_EXPECTED "\n");
}

UNIT(test_secrets_stay)
{
    refused("mysql: [ \"mysql://u:" SECRET "@h/d\" ]\n" COUNTER,
            "t.yaml:1:8: mysql is a list, expected a map of options\n"
            "t.yaml:1:1: " URL_EXPECTED "\n");
    refused("mysql: { \"mysql://u:" SECRET "@h/d\" }\n" COUNTER,
            "t.yaml:1:10: unknown option (not shown: it does not look like a name) under mysql, expected one "
            "of url, password_file, writers, durability, time_zone, timeout, keep, tls\n"
            "t.yaml:1:8: " URL_EXPECTED "\n");
    refused(MYSQL "redis: \"redis://:" SECRET "\\t@h/0\"\n" COUNTER,
            "t.yaml:2:8: redis.url is another text (not shown), expected "
            "redis://[user:password@]host:port[,host:port...]/db, rediss:// for TLS, or unix:///path?db=0\n");
    refused(MYSQL "instance: redis://:" SECRET "@h/0\n" COUNTER,
            "t.yaml:2:11: instance is another text (not shown), expected 1 to 64 letters, digits, '.', '_' "
            "or '-'\n");
    refused(MYSQL "redis: { password_file: " SECRET " }\n" COUNTER,
            "t.yaml:2:25: redis.password_file is a file that cannot be read (No such file or directory), "
            "expected one that tallyd's user may read\n");
    refused(MYSQL "listen: { resp: \"tcp://:" SECRET "@127.0.0.1:1\" }\n" COUNTER,
            "t.yaml:2:17: listen.resp is an address without an IP address (127.0.0.1, 0.0.0.0, "
            "[::1]), " RESP_EXPECTED "\n");
}

/* A password file next to a configuration file, both in a fresh directory. */
struct files {
    char dir[64], conf[96], secret[96];
};

static void put_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int files_make(void **state)
{
    static struct files f;
    snprintf(f.dir, sizeof(f.dir), "/tmp/tallyd-conf-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.conf, sizeof(f.conf), "%s/c.yaml", f.dir);
    snprintf(f.secret, sizeof(f.secret), "%s/secret", f.dir);
    put_file(f.conf, "mysql: { url: \"mysql://u:inurl@h/d\", password_file: secret }\n" COUNTER, 0600);
    *state = &f;
    return 0;
}

static int files_remove(void **state)
{
    struct files *f = *state;
    unlink(f->conf);
    unlink(f->secret);
    return rmdir(f->dir);
}

UNIT_IN(test_password_file, files_make, files_remove)
{
    struct files *f = *state;
    static const struct {
        const char *text;
        mode_t mode;
        const char *password, *problem;
    } cases[] = {
        {SECRET, 0600, SECRET, NULL},
        {SECRET "\n", 0400, SECRET, NULL},
        {SECRET "\r\n", 0600, SECRET, NULL},
        {" a b ", 0600, " a b ", NULL},
        {"", 0600, NULL, NO_PASSWORD},
        {"\n", 0600, NULL, NO_PASSWORD},
        {SECRET "\nmore\n", 0600, NULL, NO_PASSWORD},
        {SECRET, 0640, NULL,
         "is a file that users other than its owner may read or change (mode 640), expected mode 600 or 400: "
         "run chmod 600 on it"},
        {SECRET, 0604, NULL,
         "is a file that users other than its owner may read or change (mode 604), expected mode 600 or 400: "
         "run chmod 600 on it"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_file(f->secret, cases[i].text, cases[i].mode);
        enum err got = load(f->conf);
        if (cases[i].password != NULL) {
            assert_int_equal(got, ERR_NONE);
            assert_string_equal(c.mysql_password, cases[i].password);
        } else {
            char expected[400];
            snprintf(expected, sizeof(expected), "%s:1:53: mysql.password_file %s", f->conf,
                     cases[i].problem);
            assert_int_equal(got, ERR_CONFIG);
            assert_string_equal(e.text, expected);
        }
        unlink(f->secret);
    }
}

/* systemd's credential: it goes before the file, after the environment; systemd chooses its mode (0440 where it has ACLs). */
UNIT_IN(test_password_credential, files_make, files_remove)
{
    struct files *f = *state;
    char credential[128];
    snprintf(credential, sizeof(credential), "%s/mysql.password", f->dir);
    put_file(f->secret, "fromfile\n", 0600);
    setenv("CREDENTIALS_DIRECTORY", f->dir, 1);
    static const struct {
        const char *text, *password;
    } cases[] = {
        {"fromsystemd\n", "fromsystemd"}, {"", "fromfile"}, {"\n", "fromfile"}, {"two\nlines\n", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_file(credential, cases[i].text, 0440);
        assert_int_equal(load(f->conf), cases[i].password != NULL ? ERR_NONE : ERR_CONFIG);
        if (cases[i].password != NULL) assert_string_equal(c.mysql_password, cases[i].password);
    }
    setenv("TALLYD_MYSQL_PASSWORD", "fromenv", 1);
    put_file(credential, "fromsystemd\n", 0440);
    assert_int_equal(load(f->conf), ERR_NONE);
    assert_string_equal(c.mysql_password, "fromenv");
    unsetenv("TALLYD_MYSQL_PASSWORD");
    unlink(credential);
    assert_int_equal(load(f->conf), ERR_NONE);
    assert_string_equal(c.mysql_password, "fromfile");
    unsetenv("CREDENTIALS_DIRECTORY");
}

UNIT_IN(test_password_environment, files_make, files_remove)
{
    struct files *f = *state;
    put_file(f->secret, "fromfile\n", 0600);
    setenv("TALLYD_MYSQL_PASSWORD", "fromenv", 1);
    setenv("TALLYD_REDIS_PASSWORD", "", 1); /* empty: as if not set */
    enum err got = load(f->conf);
    unsetenv("TALLYD_MYSQL_PASSWORD");
    unsetenv("TALLYD_REDIS_PASSWORD");
    assert_int_equal(got, ERR_NONE);
    assert_string_equal(c.mysql_password, "fromenv");
    assert_null(c.redis_password);
}

UNIT(test_instance_environment)
{
    static const char text[] =
        "listen: { resp: \"unix:///run/<instance>.sock\", http: \"tcp://127.0.0.1:738<instance>\" }\n"
        "instance: of-the-file\n" MYSQL COUNTER;
    refused(text, "t.yaml:1:17: listen.resp is an address with <instance>, which nothing names (put "
                  "TALLYD_INSTANCE=1 before the command for the unit tallyd@1), " RESP_EXPECTED "\n"
                  "t.yaml:1:54: listen.http is an address with <instance>, which nothing names (put "
                  "TALLYD_INSTANCE=1 before the command for the unit tallyd@1), expected a list of addresses "
                  "such as \"tcp://127.0.0.1:7371\", "
                  "\"tls://0.0.0.0:7381\" or \"unix:///run/tallyd/http.sock\"\n");
    setenv("TALLYD_INSTANCE", "2", 1);
    accepted(text);
    assert_string_equal(c.listen_resp.all[0].path, "/run/2.sock");
    assert_int_equal(c.listen_http.all[0].port, 7382);
    assert_string_equal(c.instance, "2");
    setenv("TALLYD_INSTANCE", "a b", 1);
    refused(MYSQL COUNTER, "t.yaml:1:1: TALLYD_INSTANCE in the environment is \"a b\", expected 1 to 64 "
                           "letters, digits, '.', '_' or '-'\n");
    setenv("TALLYD_INSTANCE", "", 1); /* empty: as if not set */
    accepted("instance: of-the-file\n" MYSQL COUNTER);
    assert_string_equal(c.instance, "of-the-file");
    unsetenv("TALLYD_INSTANCE");
}

UNIT_IN(test_tokens, files_make, files_remove)
{
    struct files *f = *state;
    put_file(f->conf, MYSQL "http: { tokens: secret }\n" COUNTER, 0600);
    put_file(f->secret,
             "# who may ask\n\nprometheus 0123456789abcdef\n  shop\t" SECRET SECRET SECRET
             "  12345 \r\nlast fedcba9876543210",
             0600);
    if (load(f->conf) != ERR_NONE) fail_msg("%s", e.text);
    assert_int_equal(c.bearers.n, 3);
    assert_string_equal(c.bearers.all[0].name, "prometheus");
    assert_string_equal(c.bearers.all[0].secret, "0123456789abcdef");
    assert_null(c.bearers.all[0].store);
    assert_string_equal(c.bearers.all[1].name, "shop");
    assert_string_equal(c.bearers.all[1].secret, SECRET SECRET SECRET);
    assert_string_equal(c.bearers.all[1].store, "12345");
    assert_string_equal(c.bearers.all[2].secret, "fedcba9876543210");
}

UNIT_IN(test_tokens_refused, files_make, files_remove)
{
    struct files *f = *state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"shop\n", "line 1 has no token of 16 to 255 letters, digits or signs behind its name"},
        {"\nshop 0123456789abcde\n",
         "line 2 has no token of 16 to 255 letters, digits or signs behind its name"},
        {"shop 0123456789abcdef 1 2\n", "line 1 has more than a name, a token and a store"},
        {"a 0123456789abcdef\na 1123456789abcdef\n", "line 2 repeats a name or a token"},
        {"a 0123456789abcdef\nb 0123456789abcdef\n", "line 2 repeats a name or a token"},
        {"sh\xc3\xb6p 0123456789abcdef\n", "line 1 does not begin with a name of at most 64 letters"},
    };
    put_file(f->conf, MYSQL "http: { tokens: secret }\n" COUNTER, 0600);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_file(f->secret, cases[i].text, 0600);
        assert_int_equal(load(f->conf), ERR_CONFIG);
        assert_non_null(strstr(e.text, "http.tokens is a file whose"));
        assert_non_null(strstr(e.text, cases[i].fault));
        assert_null(strstr(e.text, "0123456789abcde"));
    }
    put_file(f->secret, "shop 0123456789abcdef\n", 0644);
    assert_int_equal(load(f->conf), ERR_CONFIG);
    assert_non_null(strstr(e.text, "users other than its owner may read"));
}

UNIT(test_no_file)
{
    assert_int_equal(load("/nowhere/t.yaml"), ERR_CONFIG);
    assert_string_equal(e.text, "/nowhere/t.yaml: cannot be read (No such file or directory), expected the "
                                "configuration: give its path with -c FILE");
    assert_int_equal(load("/"), ERR_CONFIG);
    assert_string_equal(
        e.text, "/: cannot be read (Is a directory), expected the configuration: give its path with -c FILE");
}

UNIT(test_where)
{
    char at[64];
    accepted(MYSQL COUNTER
             "  b:\n    key: x\n    field: date\n    table: t\n    columns: { field: f, count: n }\n");
    assert_string_equal(conf_where(&c, CONF_GLOBAL, CONF_MYSQL_URL, at, sizeof(at)), "t.yaml:1:8");
    assert_string_equal(conf_where(&c, CONF_GLOBAL, CONF_REDIS_URL, at, sizeof(at)), "t.yaml");
    assert_string_equal(conf_where(&c, 0, CONF_COUNTER_KEY, at, sizeof(at)), "t.yaml:4:10");
    assert_string_equal(conf_where(&c, 0, CONF_COUNTER_LOCK, at, sizeof(at)), "t.yaml:3:3");
    assert_string_equal(conf_where(&c, 1, CONF_OPTION_COUNT, at, sizeof(at)), "t.yaml:8:3");
    assert_string_equal(conf_where(&c, 1, CONF_COUNTER_COLUMN_COUNT, at, sizeof(at)), "t.yaml:12:33");
}

UNIT(test_needs_restart)
{
    struct conf a, b;
    struct buf names = {0};
    accepted_as(MYSQL COUNTER, &a);
    accepted_as("log: { level: warn }\nstop_timeout: 1s\n" MYSQL COUNTER, &b);
    assert_int_equal(conf_needs_restart(&a, &b, &names), 0);
    conf_free(&b);
    accepted_as(
        "redis: { replicas: 1 }\nlisten: { resp: unix:///x }\n" MYSQL COUNTER "    sync: { hits: 51 }\n", &b);
    assert_int_equal(conf_needs_restart(&a, &b, &names), 3);
    assert_true(slice_eq(buf_slice(&names), SLICE("listen.resp, redis.replicas, counters")));
    conf_free(&b);
    conf_free(&a);
    buf_free(&names);
}

/* What is written is read back as the same. */
UNIT(test_write)
{
    struct conf a, b;
    struct buf text = {0}, names = {0};
    accepted_as("listen: { resp: [ \"unix:///a\\\\b\\\"c\", \"tcp://[::1]:5\" ] }\ninstance: i\nlog: { "
                "level: warn }\n"
                "ledger: { keep: 90m }\nlimits: { memory: 10MiB, failed_logins: 7 }\nredis: { timeout: "
                "1500ms }\n" MYSQL COUNTER
                "    sync: { hits: 7, every: 90s }\n    lock: \"s<store>:l\"\n    store: text\n"
                "    feeds: { event: \"s<store>:view\" }\n"
                "series: { precisions: [60, 5] }\nevents: { windows: \"90s 1d\" }\n"
                "uniques: { feeds: { counter: views } }\n",
                &a);
    conf_write(&a, &text);
    buf_put_char(&text, '\0');
    accepted_as(text.p, &b);
    assert_int_equal(conf_needs_restart(&a, &b, &names), 0);
    assert_int_equal(b.log_level, CONF_LOG_WARN);
    assert_int_equal(b.limits_failed_logins, 7);
    assert_int_equal(b.redis_timeout_ms, 1500);
    assert_string_equal(b.listen_resp.all[0].path, "/a\\b\"c");
    assert_non_null(strstr(text.p, "  keep: 90m\n"));
    assert_non_null(strstr(text.p, "  precisions: [60, 5]\n"));
    assert_non_null(strstr(text.p, "  windows: \"90s 1d\"\n"));
    assert_non_null(strstr(text.p, "  feeds:\n    counter: \"views\"\n"));
    assert_non_null(strstr(text.p, "    feeds:\n      event: \"s<store>:view\"\n"));
    assert_non_null(strstr(text.p, "    sync:\n      hits: 7\n      every: 90s\n"));
    conf_free(&a);
    conf_free(&b);
    buf_free(&text);
    buf_free(&names);
}

UNIT(test_default)
{
    struct conf of;
    conf_default(&of);
    assert_int_equal(of.counters_n, 2);
    assert_string_equal(of.counters[0].name, "unique_visitors");
    assert_string_equal(of.counters[0].lock, "s<store>:unique_visitors:sync");
    assert_string_equal(of.counters[1].lock, "s<store>:product_views:sync");
    assert_string_equal(of.counters[1].feed_series, "s<store>:views");
    conf_free(&of);
}

UNIT(test_set)
{
    struct conf of;
    static const char *const urls[] = {"tcp://127.0.0.1:1", "unix:///x"}, *const bad[] = {"unix:///y",
                                                                                          "nonsense"};
    conf_default(&of);
    assert_true(conf_set(&of, CONF_LISTEN_RESP, urls, 2));
    assert_int_equal(of.listen_resp.n, 2);
    assert_false(conf_set(&of, CONF_LISTEN_RESP, bad, 2));
    assert_int_equal(of.listen_resp.n, 2);
    assert_string_equal(of.listen_resp.all[1].path, "/x");
    assert_false(conf_set(&of, CONF_LISTEN_RESP, NULL, 0));
    assert_true(conf_set(&of, CONF_MYSQL_PASSWORD_FILE, &urls[0], 1));
    assert_true(conf_set(&of, CONF_MYSQL_PASSWORD_FILE, NULL, 0));
    assert_null(of.mysql_password_file);
    assert_false(conf_set(&of, CONF_REDIS_REPLICAS, &bad[1], 1));
    static const char *const numbers[] = {"3", "1, 2", "2"};
    assert_true(conf_set(&of, CONF_SERIES_PRECISIONS, numbers, 2));
    assert_int_equal(of.series_precisions.n, 3);
    assert_false(conf_set(&of, CONF_SERIES_PRECISIONS, numbers, 3));
    assert_int_equal(of.series_precisions.n, 3);
    conf_free(&of);
}

/* Lines of an option that is commented out, `# instance: store-1`, become options; but no files of secrets, which are
 * not there. */
static void uncomment(const char *from, char *to)
{
    while (*from != '\0') {
        size_t line = strcspn(from, "\n") + 1, indent = strspn(from, " ");
        const char *name = from + indent + 2;
        size_t n =
            strncmp(from + indent, "# ", 2) == 0 ? strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;
        struct slice word = slice_of(name, n);
        bool secret = slice_eq(word, SLICE("password_file")) || slice_eq(word, SLICE("tokens"));
        bool option = n > 0 && name[n] == ':' && !secret;
        memcpy(to, from, indent);
        memcpy(to + indent, option ? name : from + indent, line - indent);
        to += option ? line - 2 : line;
        from += line;
    }
    *to = '\0';
}

static bool given(const struct conf *of, enum conf_option option)
{
    bool somewhere = of->places[option].line > 0;
    for (size_t i = 0; i < of->counters_n; i++)
        somewhere = somewhere || of->counters[i].places[option].line > 0;
    for (size_t i = 0; i < of->users_n; i++)
        somewhere = somewhere || of->users[i].places[option].line > 0;
    return somewhere;
}

UNIT(test_shipped_file)
{
    const char *path = SOURCE_DIR "/config/tallyd.full.yaml";
    struct conf of, d;
    if (conf_load(path, NULL, &of, &e) != ERR_NONE) fail_msg("%s", e.text);
    conf_default(&d);
    assert_int_equal(of.counters_n, d.counters_n);
    for (size_t i = 0; i < of.counters_n; i++) {
        assert_string_equal(of.counters[i].name, d.counters[i].name);
        assert_string_equal(of.counters[i].key, d.counters[i].key);
        assert_string_equal(of.counters[i].table, d.counters[i].table);
    }
    FILE *f = fopen(path, "r");
    static char text[65536], all[65536];
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    uncomment(text, all);
    conf_free(&of);
    accepted_as(all, &of);
    for (int i = 0; i < CONF_OPTION_COUNT; i++) {
        const char *option = conf_option_path((enum conf_option)i);
        bool commented =
            (strstr(option, "password_file") != NULL && strstr(text, "# password_file: ") != NULL) ||
            (i == CONF_HTTP_TOKENS && strstr(text, "# tokens: ") != NULL);
        if (!commented && !given(&of, (enum conf_option)i))
            fail_msg("config/tallyd.full.yaml does not show %s", option);
    }
    conf_free(&of);
    conf_free(&d);
}

UNIT(test_help)
{
    struct buf help = {0};
    conf_help(&help);
    buf_put_char(&help, '\0');
    for (int i = 0; i < CONF_OPTION_COUNT; i++) { /* by its path, or as a member of its structure */
        const char *path = conf_option_path((enum conf_option)i), *last = strrchr(path, '.');
        assert_non_null(strstr(help.p, last == NULL ? path : last + 1));
    }
    assert_non_null(strstr(help.p, "  redis.timeout = 5s\n"));
    assert_non_null(strstr(help.p, "  mysql.url, must be given\n"));
    assert_non_null(strstr(help.p, "  log.level = info, reloadable\n"));
    size_t column = 0;
    for (const char *p = help.p; *p != '\0'; p++) {
        column = *p == '\n' ? 0 : column + 1;
        assert_true(column <= 100);
    }
    assert_non_null(strstr(help.p, "\nredis:\n  redis.url = "));
    assert_non_null(strstr(help.p, "  redis.tls\n"));
    assert_null(strstr(help.p, "  redis.tls.ca"));
    buf_free(&help);
}

static void helped(const char *path, const char *first, const char *meant)
{
    struct buf out = {0};
    const char *nearest;
    assert_int_equal(conf_help_of(slice_str(path), &out, &nearest), first != NULL);
    buf_put_char(&out, '\0');
    if (first != NULL) assert_memory_equal(out.p, first, strlen(first));
    if (meant != NULL)
        assert_string_equal(nearest, meant);
    else
        assert_null(nearest);
    buf_free(&out);
}

UNIT(test_help_of)
{
    helped("limits.memory", "  limits.memory = 512MiB\n", NULL);
    helped("limits", "  limits.clients = 10000\n", NULL);
    helped("redis.tls.ca", "  redis.tls\n", NULL);
    helped("counters.*.columns", "  counters.*.columns\n", NULL);
    helped("counters.key", "  counters.*.key, must be given\n", NULL);
    helped("users.password", "  users.*.password, must be given, reloadable\n", NULL);
    helped("counters", "  counters.*.key", NULL);
    helped("store", "  counters.*.store", NULL); /* not store_zone */
    helped("counters.kye", NULL, "counters.*.key");
    helped("limits.memroy", NULL, "limits.memory");
    helped("memory", "  limits.memory", NULL);
    helped("prefix", "  counters.*.key, must be given\n", NULL); /* its help speaks of it */
    helped("frobnicate", NULL, NULL);
}

static int no_passwords(void **state)
{
    unsetenv("TALLYD_REDIS_PASSWORD");
    unsetenv("TALLYD_MYSQL_PASSWORD");
    return 0;
}

UNITS_IN(no_passwords, NULL)
