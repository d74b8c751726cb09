/* admin/dev_servers.c - the three that `tallyd dev` starts: with what, and when each is ready. */
#include "admin/dev_in.h"

#include "base/clock.h"
#include "mysql/database.h"
#include "mysql/realm.h"
#include "mysql/schema.h"
#include "status/service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Until ready says so, or dev is told to stop. */
enum err dev_ready_wait(struct dev *d, struct child *c, bool (*ready)(struct dev *d), struct error *e)
{
    uint64_t until_ms = mono_ms() + START_MS;
    while (!d->stop && !ready(d)) {
        if (child_reap(c)) return dev_ended(c, e);
        if (mono_ms() > until_ms)
            return error_set(e, ERR_FAILED, "%s is not ready after %d s; its log is %s", c->name,
                             START_MS / 1000, c->log);
        dev_rest(d, POLL_MS);
    }
    return ERR_NONE;
}

enum err dev_once(struct dev *d, struct child *c, char *const argv[], struct error *e)
{
    enum err code = child_start(c, argv, e);
    if (code != ERR_NONE) return code;
    while (!child_reap(c)) {
        dev_rest(d, POLL_MS);
        if (d->stop) child_signal(c, SIGTERM);
    }
    return d->stop || c->status == 0 ? ERR_NONE : dev_ended(c, e);
}

static bool redis_ready(struct dev *d)
{
    char path[PATH_MAX];
    dev_path(d, "redis.sock", path);
    return service_answers(path);
}

enum err dev_redis_start(struct dev *d, struct error *e)
{
    char socket[PATH_MAX], data[PATH_MAX];
    if (d->call->cluster != 0) return dev_cluster_start(d, e);
    dev_path(d, "redis.sock", socket);
    dev_path(d, "redis", data);
    if (mkdir(data, 0700) != 0 && errno != EEXIST) return dev_dir_failed(data, e);
    /* clang-format off */
    char *argv[] = {
        "redis-server", "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", data,
        "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction", "--save",
        "", "--daemonize", "no", "--set-proc-title", "no", NULL};
    /* clang-format on */
    dev_say("starting redis-server");
    enum err code = child_start(&d->nodes[0].redis, argv, e);
    return code != ERR_NONE ? code : dev_ready_wait(d, &d->nodes[0].redis, redis_ready, e);
}

static bool mysql_ready(struct dev *d)
{
    struct error e;
    return database_create(&d->setup.mysql, &e) == ERR_NONE;
}

/* Into a directory of another name first: one that was interrupted is not taken for a database. */
static enum err mysql_install(struct dev *d, const char *data, struct error *e)
{
    char fresh[PATH_MAX], option[PATH_MAX + 16];
    struct child install;
    dev_path(d, "mysql.new", fresh);
    snprintf(option, sizeof(option), "--datadir=%s", fresh);
    /* A starting mariadbd removes the temporary tables in its tmpdir. In the default one these may belong to a running
     * server, which then crashes. So neither this nor the server below may share it. */
    setenv("TMPDIR", d->dir, 1);
    child_init(&install, "mariadb-install-db", "mariadb-server", d->dir, "mysql");
    /* clang-format off */
    char *argv[] = {
        "mariadb-install-db", "--no-defaults", option, "--auth-root-authentication-method=normal",
        "--skip-test-db", "--force", /* where the host's own name cannot be looked up, too */ geteuid() == 0 ? "--user=root" : NULL, NULL};
    /* clang-format on */
    dev_say("making a database, once (some seconds)");
    if (dev_dir_remove(fresh, e) != ERR_NONE || dev_once(d, &install, argv, e) != ERR_NONE) return e->code;
    return d->stop || rename(fresh, data) == 0 ? ERR_NONE : dev_dir_failed(data, e);
}

enum err dev_mysql_start(struct dev *d, struct error *e)
{
    char socket[PATH_MAX], data[PATH_MAX], at[PATH_MAX + 16], on[PATH_MAX + 16], tmp[PATH_MAX + 16];
    dev_path(d, "mysql.sock", socket);
    dev_path(d, "mysql", data);
    snprintf(at, sizeof(at), "--datadir=%s", data);
    snprintf(on, sizeof(on), "--socket=%s", socket);
    enum err code = access(data, F_OK) == 0 ? ERR_NONE : mysql_install(d, data, e);
    if (code != ERR_NONE || d->stop) return code;
    snprintf(tmp, sizeof(tmp), "--tmpdir=%s", d->dir);
    /* clang-format off */
    char *argv[] = {
        "mariadbd", "--no-defaults", at, tmp, on, "--skip-networking", "--skip-log-bin",
        "--pid-file=dev.pid", "--innodb-buffer-pool-size=64M", "--performance-schema=OFF",
        geteuid() == 0 ? "--user=root" : NULL, NULL};
    /* clang-format on */
    dev_say("starting mariadbd");
    code = child_start(&d->mysql, argv, e);
    return code != ERR_NONE ? code : dev_ready_wait(d, &d->mysql, mysql_ready, e);
}

enum err dev_migrate(struct dev *d, struct error *e)
{
    uint32_t from, to, made;
    struct db *db = db_create(&d->setup.mysql);
    enum err code = db_open(db) == CODE_OK ? ERR_NONE : db_error(db, e);
    if (code == ERR_NONE) code = schema_migrate(db, false, &from, &to, e);
    if (code == ERR_NONE) code = realms_first(db, d->setup.lanes, e);
    if (code == ERR_NONE) code = schema_migrate_tables(db, &d->setup.counters, &made, e);
    db_destroy(&db);
    return code;
}

/* On the operator's socket: with users, the others do not answer an unauthenticated client. */
static bool tallyd_ready(struct dev *d)
{
    return service_answers(d->control);
}

enum err dev_tallyd_start(struct dev *d, struct error *e)
{
    char *argv[] = {"/proc/self/exe", "run", "-c", d->conf_path, NULL};
    dev_say("starting tallyd");
    enum err code = child_start(&d->tallyd, argv, e);
    return code != ERR_NONE ? code : dev_ready_wait(d, &d->tallyd, tallyd_ready, e);
}
