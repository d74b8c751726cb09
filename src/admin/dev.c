/* admin/dev.c - `tallyd dev`: reads the configuration, and becomes config/dev.sh, which starts and stops the servers. What
 * needs the counters is made here: the configuration that tallyd is to run with, and examples of hits. */
#include "admin/verbs.h"
#include "series/row.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXAMPLES_MOST 5 /* counters */
#define STORE_EXAMPLE SLICE("12345")
#define CONF_FD 3 /* at which the script reads the configuration */
#define WORD_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,="

/* A word of a command line: in '' where a shell may take it for something else. */
static void dev_word_put(struct slice word, struct buf *out)
{
    bool plain = true;
    for (size_t i = 0; i < word.n; i++)
        plain = plain && strchr(WORD_BYTES, word.p[i]) != NULL;
    if (!plain) buf_put_char(out, '\'');
    for (size_t i = 0; i < word.n; i++)
        word.p[i] == '\'' ? BUF_LIT(out, "'\\''") : buf_put_char(out, word.p[i]);
    if (!plain) buf_put_char(out, '\'');
}

/* The start of each example; with users the client must log in. The script puts the port in the place of @. */
static void client_put(const struct conf *conf, struct buf *out)
{
    BUF_LIT(out, "    redis-cli -p @");
    if (conf->users_n > 0) buf_printf(out, " --user %s --askpass", conf->users[0].name);
}

static void hit_put(const struct conf *conf, const struct counter *c, struct buf *out)
{
    static const char *const fields[] = {[VALUE_DATE] = "20140920",
                                         [VALUE_HOUR] = "2014092013",
                                         [VALUE_MONTH] = "201409",
                                         [VALUE_INTEGER] = "42",
                                         [VALUE_TEXT] = "shoes"};
    struct buf key = {0};
    pattern_put(&c->key, STORE_EXAMPLE, &key);
    client_put(conf, out);
    BUF_LIT(out, " HINCRBY ");
    dev_word_put(buf_slice(&key), out);
    buf_printf(out, " %s 1\n", fields[counter_field_kind(c)]);
    buf_free(&key);
}

/* What the first counter feeds that has a series, in steps of a minute where there are any. */
static void dev_series_put(const struct conf *conf, const struct setup *setup, struct buf *out)
{
    const struct op_limits *ops = &setup->ops;
    const struct counter *c = setup->counters.all, *end = c + setup->counters.n;
    uint32_t step = ops->precisions[0];
    struct buf name = {0};
    while (c < end && !counter_feeds(c, FEED_SERIES))
        c++;
    if (c == end) return;
    for (uint32_t i = 0; i < ops->precisions_n; i++)
        if (ops->precisions[i] == 60) step = 60;
    pattern_put(&c->feeds[FEED_SERIES], STORE_EXAMPLE, &name);
    buf_printf(out, "A hit on " SLICE_FMT " also moves a time series; its hits in steps of %u s:\n",
               SLICE_ARG(c->name), step);
    client_put(conf, out);
    BUF_LIT(out, " SERIES.GET ");
    dev_word_put(buf_slice(&name), out);
    buf_printf(out, " %u\n", step);
    buf_free(&name);
}

/* FILE's, or two default counters. The script leaves out these groups, and gives its own. */
static enum err conf_read(const struct call *call, struct conf *conf, struct error *e)
{
    static const char *const groups_of_dev[] = {"listen", "http", "redis", "mysql", NULL};
    static const char *const redis = "unix:///redis.sock", *const mysql = "mysql://root@localhost/tally",
                             *const name = "dev", *const resp = "unix:///tallyd.sock",
                             *const control = "unix:///control.sock";
    unsetenv("TALLYD_REDIS_PASSWORD"); /* the private servers have none */
    unsetenv("TALLYD_MYSQL_PASSWORD");
    if (call->conf_path == NULL)
        conf_default(conf);
    else if (conf_load(call->conf_path, groups_of_dev, conf, e) != ERR_NONE)
        return e->code;
    bool set = conf_set(conf, CONF_LISTEN_RESP, &resp, 1) &&
               conf_set(conf, CONF_LISTEN_CONTROL, &control, 1) && conf_set(conf, CONF_INSTANCE, &name, 1) &&
               conf_set(conf, CONF_REDIS_URL, &redis, 1) && conf_set(conf, CONF_MYSQL_URL, &mysql, 1);
    INVARIANT(set);
    return ERR_NONE;
}

static bool conf_give(const struct conf *conf)
{
    struct buf text = {0};
    conf_write(conf, &text);
    int fd = memfd_create("tallyd.yaml", 0);
    bool given = fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n && lseek(fd, 0, SEEK_SET) == 0 &&
                 dup2(fd, CONF_FD) == CONF_FD;
    buf_free(&text);
    return given;
}

/* The package's place, or a build's: beside the binary. */
static bool script_find(const char *self, char *out, size_t size)
{
    int n = (int)(strrchr(self, '/') - self);
    snprintf(out, size, "%.*s/../share/tallyd/dev.sh", n, self);
    if (access(out, R_OK) == 0) return true;
    snprintf(out, size, "%.*s/dev.sh", n, self);
    return access(out, R_OK) == 0;
}

static enum err become_script(const struct call *call, const struct conf *conf, const struct setup *setup,
                              struct error *e)
{
    char self[PATH_MAX], script[PATH_MAX + 32], masters[24], every[24];
    uint32_t every_s = 0;
    struct buf examples = {0};
    for (size_t i = 0; i < setup->counters.n; i++) {
        const struct counter *c = &setup->counters.all[i];
        if (c->every_s > every_s) every_s = c->every_s;
        if (i < EXAMPLES_MOST && counter_is_simple(c)) hit_put(conf, c, &examples);
    }
    dev_series_put(conf, setup, &examples);
    buf_put_char(&examples, '\0');
    snprintf(masters, sizeof masters, "%lld", (long long)call->cluster);
    snprintf(every, sizeof every, "%u", every_s);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    bool found = n > 0 && script_find(self, script, sizeof script);
    if (found && conf_give(conf))
        execl("/bin/sh", "sh", script, self, call->dir, masters,
              call->conf_path == NULL ? "" : call->conf_path, every, examples.p, (char *)NULL);
    buf_free(&examples);
    if (!found) return error_set(e, ERR_FAILED, "there is no dev.sh in ../share/tallyd: install the package");
    return error_set(e, ERR_FAILED, "cannot start %s: %s", script, strerror(errno));
}

enum err verb_dev(const struct call *call)
{
    struct conf conf = {0};
    struct setup setup = {0};
    struct error e;
    struct buf problems = {0};
    enum err code = conf_read(call, &conf, &e);
    if (code == ERR_NONE && !setup_init(&setup, &conf, &problems))
        code = error_set(&e, ERR_CONFIG, "%.*s", (int)strcspn(problems.p, "\n"), problems.p);
    if (code == ERR_NONE) code = become_script(call, &conf, &setup, &e);
    buf_free(&problems);
    setup_close(&setup);
    conf_free(&conf);
    return call_failed(&e);
}
