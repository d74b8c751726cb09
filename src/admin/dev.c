/* admin/dev.c - `tallyd dev`: starts redis-server, mariadbd and tallyd under one directory, watches them, and
 * stops them in the order in which hits flow (tallyd, mariadbd, redis-server), so nothing is lost.
 *   DIR/redis/, DIR/mysql/      data; with --cluster DIR/redis-1/ to DIR/redis-2N/, each with its redis.conf
 *   DIR/tallyd.yaml             what tallyd runs with, also for `tallyd verify -c`
 *   DIR/NAME.sock               unix sockets
 *   DIR/NAME.log                what they say
 *   DIR/NAME.pid, DIR/dev.lock  what runs, so that the next dev finds what a killed one left
 * One thread. Signals are blocked and waited for, so a wait ends at a child's end, at Ctrl-C or at its time. */
#include "admin/dev_in.h"

#include "base/clock.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define STOP_MS 120000

void dev_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static sigset_t signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* Until a signal comes or the time is up; ms < 0: forever. */
void dev_rest(struct dev *d, int64_t ms)
{
    sigset_t set = signals();
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int got = ms < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &time);
    if (got > 0 && got != SIGCHLD) d->stop = true;
}

enum err dev_ended(const struct child *c, struct error *e)
{
    char how[80];
    child_log_tail(c);
    return error_set(
        e, ERR_FAILED,
        "%s %s; above are the last lines of %s. Answered hits are on disk: `tallyd dev` with the "
        "same --dir goes on from there",
        c->name, child_ending(c, how, sizeof(how)), c->log);
}

/* Servers of a dev that was killed: the kernel sent them SIGTERM, but they may still be running. */
static enum err left_over_stop(struct dev *d, struct child *c, struct error *e)
{
    uint64_t until_ms = mono_ms() + STOP_MS;
    pid_t pid = child_left_over(c, d->dir);
    if (pid == 0) return ERR_NONE;
    dev_say("stopping the %s that an earlier `tallyd dev` left (pid %ld)", c->name, (long)pid);
    kill(pid, SIGTERM);
    while (!d->stop && child_left_over(c, d->dir) == pid) {
        if (mono_ms() > until_ms)
            return error_set(e, ERR_FAILED,
                             "%s of an earlier `tallyd dev` does not stop: end it with kill %ld", c->name,
                             (long)pid);
        dev_rest(d, POLL_MS);
    }
    return ERR_NONE;
}

static enum err prepare(struct dev *d, struct error *e)
{
    enum err code = dev_dir_open(d, e);
    if (code == ERR_NONE) code = dev_lock(d, e);
    if (code != ERR_NONE) return code;
    child_init(&d->mysql, "mariadbd", "mariadb-server", d->dir, "mysql");
    child_init(&d->tallyd, "tallyd", NULL, d->dir, "tallyd");
    code = dev_nodes_make(d, e);
    if (code == ERR_NONE) code = left_over_stop(d, &d->tallyd, e);
    if (code == ERR_NONE) code = left_over_stop(d, &d->mysql, e);
    for (unsigned i = 0; i < d->nodes_n && code == ERR_NONE; i++)
        code = left_over_stop(d, &d->nodes[i].redis, e);
    return code == ERR_NONE ? dev_conf_make(d, e) : code;
}

static enum err start(struct dev *d, struct error *e)
{
    enum err (*const steps[])(struct dev *, struct error *) = {dev_redis_start, dev_mysql_start, dev_migrate,
                                                               dev_tallyd_start};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !d->stop; i++) {
        enum err code = steps[i](d, e);
        if (code != ERR_NONE) return code;
    }
    return ERR_NONE;
}

/* Until dev is told to stop, or one of them ends by itself. */
static enum err watch(struct dev *d, struct error *e)
{
    while (!d->stop) {
        if (child_reap(&d->tallyd)) return dev_ended(&d->tallyd, e);
        if (child_reap(&d->mysql)) return dev_ended(&d->mysql, e);
        if (d->call->cluster == 0 && child_reap(&d->nodes[0].redis)) return dev_ended(&d->nodes[0].redis, e);
        if (d->call->cluster != 0 && dev_cluster_watch(d, e) != ERR_NONE) return e->code;
        dev_rest(d, d->call->cluster != 0 ? 500 : -1);
    }
    return ERR_NONE;
}

static void child_stop(struct dev *d, struct child *c)
{
    uint64_t until_ms = mono_ms() + STOP_MS;
    char how[80];
    if (!c->running || child_reap(c)) return;
    dev_say("stopping %s", c->name);
    child_signal(c, SIGTERM);
    while (!child_reap(c)) {
        dev_rest(d, POLL_MS);
        if (mono_ms() <= until_ms) continue;
        fprintf(stderr, "tallyd: %s does not stop, so it is killed. Answered hits are on disk\n", c->name);
        child_signal(c, SIGKILL);
        until_ms = UINT64_MAX;
    }
    if (c->status != 0)
        fprintf(stderr, "tallyd: %s %s; its log is %s\n", c->name, child_ending(c, how, sizeof(how)), c->log);
}

enum err verb_dev(const struct call *call)
{
    struct dev d = {.call = call, .lock = -1};
    struct error e;
    sigset_t set = signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
    enum err code = prepare(&d, &e);
    if (code == ERR_NONE) code = start(&d, &e);
    if (code == ERR_NONE && !d.stop) {
        dev_print_how(&d);
        code = watch(&d, &e);
    }
    if (code != ERR_NONE) call_failed(&e);
    child_stop(&d, &d.tallyd);
    child_stop(&d, &d.mysql);
    for (unsigned i = 0; i < d.nodes_n; i++)
        child_stop(&d, &d.nodes[i].redis);
    setup_close(&d.setup);
    conf_free(&d.conf);
    if (d.lock >= 0) close(d.lock);
    return code;
}
