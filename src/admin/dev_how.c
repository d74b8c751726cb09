/* admin/dev_how.c - what `tallyd dev` prints when all run: examples of hits for the counters, and where to look. */
#include "admin/dev_in.h"
#include "series/row.h"

#include <stdio.h>

#define EXAMPLES_MOST 5 /* counters */
#define STORE_EXAMPLE SLICE("12345")

/* A word of a command line: in '' where a shell may take it for something else. */
static void word_put(struct slice word, struct buf *out)
{
    bool plain = true;
    for (size_t i = 0; i < word.n; i++)
        plain = plain && strchr(DIR_BYTES, word.p[i]) != NULL;
    if (!plain) buf_put_char(out, '\'');
    for (size_t i = 0; i < word.n; i++)
        word.p[i] == '\'' ? BUF_LIT(out, "'\\''") : buf_put_char(out, word.p[i]);
    if (!plain) buf_put_char(out, '\'');
}

static const char *field_example(const struct counter *c)
{
    static const char *const of[] = {[VALUE_DATE] = "20140920",
                                     [VALUE_HOUR] = "2014092013",
                                     [VALUE_MONTH] = "201409",
                                     [VALUE_INTEGER] = "42",
                                     [VALUE_TEXT] = "shoes"};
    return of[counter_field_kind(c)];
}

/* The start of each example; with users the client must log in. */
static void client_put(const struct dev *d, struct buf *out)
{
    buf_printf(out, "\n    redis-cli -p %d", d->port);
    if (d->conf.users_n > 0) buf_printf(out, " --user %s --askpass", d->conf.users[0].name);
}

static void hit_put(const struct dev *d, const struct counter *c, struct buf *out)
{
    struct buf key = {0};
    pattern_put(&c->key, STORE_EXAMPLE, &key);
    client_put(d, out);
    BUF_LIT(out, " HINCRBY ");
    word_put(buf_slice(&key), out);
    buf_printf(out, " %s 1", field_example(c));
    buf_free(&key);
}

/* What the first counter feeds that has a series, in steps of a minute where there are any. */
static void series_put(const struct dev *d, struct buf *out)
{
    const struct op_limits *ops = &d->setup.ops;
    const struct counter *c = d->setup.counters.all, *end = c + d->setup.counters.n;
    uint32_t step = ops->precisions[0];
    struct buf name = {0};
    while (c < end && !counter_feeds(c, FEED_SERIES))
        c++;
    if (c == end) return;
    for (uint32_t i = 0; i < ops->precisions_n; i++)
        if (ops->precisions[i] == 60) step = 60;
    pattern_put(&c->feeds[FEED_SERIES], STORE_EXAMPLE, &name);
    buf_printf(out, "\nA hit on " SLICE_FMT " also moves a time series; its hits in steps of %u s:",
               SLICE_ARG(c->name), step);
    client_put(d, out);
    BUF_LIT(out, " SERIES.GET ");
    word_put(buf_slice(&name), out);
    buf_printf(out, " %u", step);
    buf_free(&name);
}

static void examples_print(const struct dev *d)
{
    struct buf text = {0};
    for (size_t i = 0; i < d->setup.counters.n && i < EXAMPLES_MOST; i++)
        if (counter_is_simple(&d->setup.counters.all[i])) hit_put(d, &d->setup.counters.all[i], &text);
    series_put(d, &text);
    dev_say("\ntallyd runs. Send it hits, with any Redis client (or with -s %s/tallyd.sock):%.*s", d->dir,
            (int)text.n, text.p);
    buf_free(&text);
}

static void nodes_print(const struct dev *d)
{
    dev_say("Kill a master, and watch its replica take over; the books still balance:\n"
            "    redis-cli -p %d CLUSTER NODES\n"
            "    kill -9 $(cat %s/%s.pid)\n"
            "    tallyd status -c %s/tallyd.yaml --watch",
            d->nodes[1].port, d->dir, d->nodes[0].stem, d->dir);
}

void dev_print_how(const struct dev *d)
{
    const char *at = d->dir;
    char where[PATH_MAX + 16];
    uint32_t every_s = 0;
    for (size_t i = 0; i < d->setup.counters.n; i++)
        if (d->setup.counters.all[i].every_s > every_s) every_s = d->setup.counters.all[i].every_s;
    if (d->call->cluster != 0)
        snprintf(where, sizeof where, "c -p %d", d->nodes[0].port);
    else
        snprintf(where, sizeof where, "s %s/redis.sock", at);
    examples_print(d);
    dev_say("The panel, for a browser on this machine:\n    http://127.0.0.1:%d/", d->http_port);
    if (d->call->cluster != 0) nodes_print(d);
    dev_say("See them in MariaDB (after %u s, or at once after CTR.SYNC ALL), and in Redis until then:\n"
            "    redis-cli -s %s/control.sock CTR.SYNC ALL\n"
            "    mariadb -u root -S %s/mysql.sock tally\n"
            "    redis-cli -%s",
            every_s, at, at, where);
    dev_say("Prove that the books balance:\n"
            "    tallyd verify -c %s/tallyd.yaml\n"
            "Logs: %s/tallyd.log, %s.log, mysql.log. Ctrl-C stops all of them, nothing is lost.",
            at, at, d->nodes[0].stem);
}
