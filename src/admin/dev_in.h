/* admin/dev_in.h - inside of `tallyd dev`.
 *   dev.c          the order of start and stop, waiting
 *   dev_dir.c      the directory and its lock
 *   dev_conf.c     the configuration that tallyd runs with
 *   dev_servers.c  redis-server, mariadbd and tallyd: what each is started with, when it is ready
 *   dev_cluster.c  the nodes of --cluster
 *   dev_how.c      what is printed when all run */
#ifndef ADMIN_DEV_IN_H
#define ADMIN_DEV_IN_H

#include "admin/child.h"
#include "admin/dev.h"
#include "admin/verbs.h"

/* mariadb-install-db is a shell script that quotes little; these also need no escapes in URLs. */
#define DIR_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,="
#define POLL_MS 50
#define START_MS 120000
#define MASTERS_MIN 3 /* redis-cli makes none of fewer */
#define MASTERS_MAX 8 /* as many as redis.url may name */

struct dev_node {
    struct child redis;
    char name[24]; /* redis-server, redis-server 4 */
    char stem[20]; /* redis, redis-4 */
    int port;      /* of --cluster */
    uint64_t ended_ms;
};

struct dev {
    const struct call *call;
    char dir[PATH_MAX]; /* absolute */
    char conf_path[PATH_MAX], control[PATH_MAX];
    int lock, port, http_port;
    struct conf conf;
    struct setup setup;
    struct child mysql, tallyd;
    unsigned nodes_n;                       /* 1, or with --cluster a master and a replica of each */
    struct dev_node nodes[2 * MASTERS_MAX]; /* the masters that were made first, then their replicas */
    bool stop;                              /* told to, by Ctrl-C or a signal */
};

/* dev.c */
void dev_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void dev_rest(struct dev *d, int64_t ms); /* until a signal comes or the time is up; ms < 0: forever */
enum err dev_ended(const struct child *c, struct error *e); /* it ended by itself */

/* dev_dir.c */
enum err dev_dir_open(struct dev *d, struct error *e);
enum err dev_dir_failed(const char *path, struct error *e); /* by errno */
void dev_path(const struct dev *d, const char *name, char out[PATH_MAX]);
enum err dev_lock(struct dev *d, struct error *e);

enum err dev_dir_remove(const char *path, struct error *e); /* with what is in it; none: no error */

/* dev_conf.c */
int dev_port(int wanted); /* a free one on 127.0.0.1: the wanted one, else any; 0: none is free */
enum err dev_conf_make(struct dev *d, struct error *e);

/* dev_servers.c: each returns when it is ready, or dev is told to stop */
enum err dev_ready_wait(struct dev *d, struct child *c, bool (*ready)(struct dev *d), struct error *e);
enum err dev_once(struct dev *d, struct child *c, char *const argv[], struct error *e); /* it ended well */
enum err dev_redis_start(struct dev *d, struct error *e);
enum err dev_mysql_start(struct dev *d, struct error *e);
enum err dev_migrate(struct dev *d, struct error *e);
enum err dev_tallyd_start(struct dev *d, struct error *e);

/* dev_cluster.c */
enum err dev_nodes_make(struct dev *d,
                        struct error *e); /* names, directories and ports: nothing is started */
enum err dev_cluster_start(struct dev *d, struct error *e);
void dev_cluster_url(const struct dev *d, struct buf *out);
/* When a node of --cluster ends, dev does not: the node's replica takes over, and dev starts the node again some
 * seconds later. */
enum err dev_cluster_watch(struct dev *d, struct error *e);

/* dev_how.c */
void dev_print_how(const struct dev *d);

#endif
