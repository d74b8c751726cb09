/* admin/dev_cluster.c - the Redis Cluster of `tallyd dev --cluster N`: N masters and a replica of each on TCP ports of
 * 127.0.0.1, made once by redis-cli.
 *  DIR/redis-I/redis.conf   the configuration of node I, with its ports: they remain, since the others know it by them
 *  DIR/cluster              the number of masters, once the cluster is whole; without it the nodes are made again
 *  DIR/cluster.log          what redis-cli said */
#include "admin/dev_in.h"

#include "base/clock.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE_PORT_WANTED 7380
#define BUS_WANTED 7480
#define AGAIN_MS 20000 /* until a node that ended is started again: its replica takes over before */

static enum err file_number(const char *path, const char *format, int *out)
{
    FILE *f = fopen(path, "re");
    if (f == NULL) return ERR_FAILED;
    bool read = fscanf(f, format, out) == 1;
    fclose(f);
    return read ? ERR_NONE : ERR_FAILED;
}

static enum err text_write(const char *path, const struct buf *text, struct error *e)
{
    FILE *f = fopen(path, "we");
    bool saved = f != NULL && fwrite(text->p, 1, text->n, f) == text->n;
    saved = f != NULL && fclose(f) == 0 && saved;
    return saved ? ERR_NONE : dev_dir_failed(path, e);
}

static void node_path(const struct dev *d, const struct dev_node *n, const char *name, char out[PATH_MAX])
{
    char in[64];
    snprintf(in, sizeof in, "%s%s", n->stem, name);
    dev_path(d, in, out);
}

/* The first line is the port: node_make() reads it. */
static enum err node_write(const struct dev *d, const struct dev_node *n, const char *path, int bus,
                           struct error *e)
{
    struct buf text = {0};
    buf_printf(&text, "port %d\nbind 127.0.0.1\ncluster-enabled yes\ncluster-port %d\n", n->port, bus);
    buf_printf(&text, "cluster-node-timeout 3000\ncluster-replica-validity-factor 0\nunixsocket %s/%s.sock\n",
               d->dir, n->stem);
    buf_printf(&text, "unixsocketperm 700\ndir %s/%s\nappendonly yes\nappendfsync everysec\nsave \"\"\n",
               d->dir, n->stem);
    BUF_LIT(&text,
            "maxmemory-policy noeviction\nrepl-diskless-sync-delay 0\ndaemonize no\nset-proc-title no\n");
    enum err code = text_write(path, &text, e);
    buf_free(&text);
    return code;
}

static enum err node_make(struct dev *d, unsigned i, bool made, struct error *e)
{
    struct dev_node *n = &d->nodes[i];
    char data[PATH_MAX], path[PATH_MAX];
    node_path(d, n, "", data);
    node_path(d, n, "/redis.conf", path);
    if (made && file_number(path, "port %d", &n->port) == ERR_NONE) return ERR_NONE;
    if (made) return error_set(e, ERR_FAILED, "%s has no port: choose another directory with --dir", path);
    if (dev_dir_remove(data, e) != ERR_NONE) return e->code;
    if (mkdir(data, 0700) != 0) return dev_dir_failed(data, e);
    n->port = dev_port(NODE_PORT_WANTED + (int)i);
    int bus = dev_port(BUS_WANTED + (int)i);
    if (n->port == 0 || bus == 0)
        return error_set(e, ERR_FAILED, "no TCP port is free on 127.0.0.1: close some connections");
    return node_write(d, n, path, bus, e);
}

static void node_init(struct dev *d, unsigned i)
{
    struct dev_node *n = &d->nodes[i];
    bool one = d->call->cluster == 0;
    snprintf(n->name, sizeof n->name, one ? "redis-server" : "redis-server %u", i + 1);
    snprintf(n->stem, sizeof n->stem, one ? "redis" : "redis-%u", i + 1);
    child_init(&n->redis, n->name, "redis-server", d->dir, n->stem);
}

/* A Redis other than that of the previous start would have none of its hits. */
static enum err same_as_before(const struct dev *d, int masters, struct error *e)
{
    char single[PATH_MAX];
    dev_path(d, "redis", single);
    if (masters == 0 && (d->call->cluster == 0 || access(single, F_OK) != 0)) return ERR_NONE;
    if (masters == d->call->cluster) return ERR_NONE;
    if (masters == 0)
        return error_set(e, ERR_USAGE,
                         "%s has one Redis: start it without --cluster, or choose another with --dir",
                         d->dir);
    return error_set(e, ERR_USAGE,
                     "%s has a cluster: start it with --cluster %d, or choose another with --dir", d->dir,
                     masters);
}

enum err dev_nodes_make(struct dev *d, struct error *e)
{
    char marker[PATH_MAX];
    int64_t wanted = d->call->cluster;
    int masters = 0;
    if (wanted != 0 && (wanted < MASTERS_MIN || wanted > MASTERS_MAX))
        return error_set(e, ERR_USAGE, "--cluster takes a number from %d to %d", MASTERS_MIN, MASTERS_MAX);
    dev_path(d, "cluster", marker);
    bool made = file_number(marker, "%d", &masters) == ERR_NONE;
    if (same_as_before(d, masters, e) != ERR_NONE) return e->code;
    d->nodes_n = wanted == 0 ? 1 : 2 * (unsigned)wanted;
    for (unsigned i = 0; i < d->nodes_n; i++) {
        node_init(d, i);
        if (wanted != 0 && node_make(d, i, made, e) != ERR_NONE) return e->code;
    }
    return ERR_NONE;
}

void dev_cluster_url(const struct dev *d, struct buf *out)
{
    BUF_LIT(out, "redis+cluster://");
    for (unsigned i = 0; i < d->nodes_n / 2; i++)
        buf_printf(out, "%s127.0.0.1:%d", i > 0 ? "," : "", d->nodes[i].port);
    buf_put_char(out, '\0');
}

static enum err node_start(struct dev *d, struct dev_node *n, struct error *e)
{
    char path[PATH_MAX];
    char *argv[] = {"redis-server", path, NULL};
    node_path(d, n, "/redis.conf", path);
    n->ended_ms = 0;
    return child_start(&n->redis, argv, e);
}

static bool node_says(const char *socket, const char *command, const char *wanted)
{
    const struct timeval within = {.tv_sec = 1};
    redisContext *link = redisConnectUnixWithTimeout(socket, within);
    redisReply *reply = link != NULL && link->err == 0 ? redisCommand(link, command) : NULL;
    bool said = reply != NULL && reply->str != NULL && strstr(reply->str, wanted) != NULL;
    freeReplyObject(reply);
    if (link != NULL) redisFree(link);
    return said;
}

static bool nodes_say(struct dev *d, const char *command, const char *wanted)
{
    char socket[PATH_MAX];
    for (unsigned i = 0; i < d->nodes_n; i++) {
        node_path(d, &d->nodes[i], ".sock", socket);
        if (!node_says(socket, command, wanted)) return false;
    }
    return true;
}

static bool nodes_ready(struct dev *d)
{
    return nodes_say(d, "PING", "PONG");
}

static bool cluster_ready(struct dev *d)
{
    return nodes_say(d, "CLUSTER INFO", "cluster_state:ok");
}

/* The slots are shared out, and each replica has its master. */
static enum err cluster_make(struct dev *d, const char *marker, struct error *e)
{
    char at[2 * MASTERS_MAX][24], *argv[2 * MASTERS_MAX + 8] = {"redis-cli", "--cluster", "create"};
    unsigned n = 3;
    struct child create;
    struct buf text = {0};
    for (unsigned i = 0; i < d->nodes_n; i++) {
        snprintf(at[i], sizeof at[i], "127.0.0.1:%d", d->nodes[i].port);
        argv[n++] = at[i];
    }
    argv[n++] = "--cluster-replicas";
    argv[n++] = "1";
    argv[n] = "--cluster-yes";
    child_init(&create, "redis-cli", "redis-tools", d->dir, "cluster");
    dev_say("making a cluster of them, once (some seconds)");
    enum err code = dev_once(d, &create, argv, e);
    if (code != ERR_NONE || d->stop) return code;
    buf_printf(&text, "%u\n", d->nodes_n / 2);
    code = text_write(marker, &text, e);
    buf_free(&text);
    return code;
}

enum err dev_cluster_start(struct dev *d, struct error *e)
{
    char marker[PATH_MAX];
    dev_path(d, "cluster", marker);
    dev_say("starting %u redis-servers", d->nodes_n);
    for (unsigned i = 0; i < d->nodes_n; i++)
        if (node_start(d, &d->nodes[i], e) != ERR_NONE) return e->code;
    enum err code = dev_ready_wait(d, &d->nodes[0].redis, nodes_ready, e);
    if (code == ERR_NONE && !d->stop && access(marker, F_OK) != 0) code = cluster_make(d, marker, e);
    return code != ERR_NONE ? code : dev_ready_wait(d, &d->nodes[0].redis, cluster_ready, e);
}

enum err dev_cluster_watch(struct dev *d, struct error *e)
{
    char how[80];
    for (unsigned i = 0; i < d->nodes_n; i++) {
        struct dev_node *n = &d->nodes[i];
        if (!child_reap(&n->redis)) continue;
        if (n->ended_ms == 0)
            dev_say("%s (port %d) %s; it is started again in %d s", n->name, n->port,
                    child_ending(&n->redis, how, sizeof how), AGAIN_MS / 1000);
        if (n->ended_ms == 0) n->ended_ms = mono_ms();
        if (mono_ms() - n->ended_ms >= AGAIN_MS && node_start(d, n, e) != ERR_NONE) return e->code;
    }
    return ERR_NONE;
}
