/* redis/check_op.c - see check_op.h. */
#include "redis/check_op.h"
#include "redis/ask.h"
#include <stdio.h>

bool info_replica(struct slice info, uint32_t at, struct info_replica *out)
{
    char key[24];
    struct slice line;
    snprintf(key, sizeof key, "slave%u", at);
    *out = (struct info_replica){.offset = -1};
    if (!info_get(info, key, &line)) return false;
    while (line.n > 0) {
        struct slice value = text_part(&line, ','), name = text_part(&value, '=');
        if (slice_eq(name, SLICE("ip"))) out->ip = value;
        if (slice_eq(name, SLICE("port"))) out->port = value;
        if (slice_eq(name, SLICE("state"))) out->online = slice_eq(value, SLICE("online"));
        if (slice_eq(name, SLICE("offset"))) (void)num_parse(value, &out->offset);
    }
    return true;
}

static bool text_of(struct slice info, const char *key, char *out, size_t size)
{
    struct slice value;
    out[0] = '\0';
    if (!info_get(info, key, &value)) return false;
    slice_show(value, size - 1, out, size);
    return true;
}

bool info_facts(struct slice info, struct redis_facts *f)
{
    int major = 0, minor = 0, patch = 0;
    char version[20];
    if (!text_of(info, "redis_version", version, sizeof version)) return false;
    if (sscanf(version, "%d.%d.%d", &major, &minor, &patch) < 2) return false;
    if (major < 0 || major > 999 || minor < 0 || patch < 0) return false;
    /* Valkey reports the version of Redis whose commands it has, which is what matters here; people know Valkey's own
     * version. */
    char valkey[16];
    if (text_of(info, "valkey_version", valkey, sizeof valkey))
        snprintf(f->version_text, sizeof f->version_text, "%s-valkey-%s", version, valkey);
    else
        snprintf(f->version_text, sizeof f->version_text, "%s", version);
    f->version = major * 10000 + (minor > 99 ? 99 : minor) * 100 + (patch > 99 ? 99 : patch);
    if (!text_of(info, "run_id", f->run_id, sizeof f->run_id)) return false;
    text_of(info, "master_replid", f->replid, sizeof f->replid);
    text_of(info, "master_replid2", f->replid2, sizeof f->replid2);
    text_of(info, "maxmemory_policy", f->policy, sizeof f->policy);
    struct slice used, most;
    int64_t used_n = 0, most_n = 0;
    if (info_get(info, "used_memory", &used) && info_get(info, "maxmemory", &most) &&
        num_parse(used, &used_n) && num_parse(most, &most_n) && most_n > 0)
        f->used_percent = used_n / (most_n / 100 + 1);
    f->master = info_is(info, "role", "master");
    f->loading = info_is(info, "loading", "1") || info_is(info, "async_loading", "1");
    f->cluster = info_is(info, "cluster_enabled", "1");
    f->aof_on = info_is(info, "aof_enabled", "1");
    return true;
}

static const struct slice name_mark = {" name=tallyd:", 13};

static bool client_line_read(struct slice line, struct redis_client *c)
{
    if (!slice_starts(line, SLICE("id="))) return false;
    const char *space = memchr(line.p, ' ', line.n), *end = line.p + line.n;
    const char *at = memmem(line.p, line.n, name_mark.p, name_mark.n);
    if (space == NULL || at == NULL) return false;
    at += name_mark.n;
    const char *behind = memchr(at, ' ', (size_t)(end - at));
    const char *role = memrchr(at, ':', (size_t)((behind != NULL ? behind : end) - at));
    if (role == NULL) return false;
    c->id = slice_of(line.p + 3, (size_t)(space - line.p) - 3);
    c->owner = slice_of(at, (size_t)(role - at));
    return true;
}

bool client_next(struct slice *rest, struct redis_client *c)
{
    while (rest->n > 0)
        if (client_line_read(text_part(rest, '\n'), c)) return true;
    return false;
}

bool client_is_of(const struct redis_client *c, struct slice owner)
{
    return slice_starts(c->owner, owner) && (c->owner.n == owner.n || c->owner.p[owner.n] == ':');
}

void client_kill_put(struct redis_link *l, const struct redis_client *c)
{
    redis_write(l, "CLIENT KILL ID %.*s", SLICE_ARG(c->id));
}

/* --- what makes a Redis unfit, and the end of links that an earlier life left open. --- */

#define VERSION_LEAST 70000

enum err redis_check_facts(const struct redis_facts *f, enum redis_keeps keeps, struct error *e)
{
    if (f->moved)
        return error_set(e, ERR_CONFIG,
                         "the counts of this Redis move to a cluster, or have moved: start tallyd with the "
                         "configuration of the cluster, when `tallyd move` is done");
    if (f->version < VERSION_LEAST)
        return error_set(e, ERR_CONFIG,
                         "Redis is %s: tallyd needs 7.0 or newer (scripts with flags); upgrade Redis",
                         f->version_text);
    if (f->cluster && !f->cluster_wanted)
        return error_set(
            e, ERR_CONFIG,
            "Redis runs in cluster mode, and redis.url names a Redis of its own: write "
            "redis+cluster://host:port,host:port/ with some of the cluster's nodes (rediss+cluster:// "
            "with TLS)");
    if (!f->cluster && f->cluster_wanted)
        return error_set(
            e, ERR_CONFIG,
            "Redis does not run in cluster mode: write redis:// in redis.url (rediss:// with TLS)");
    if (!f->master)
        return error_set(e, ERR_CONFIG,
                         "Redis is a replica: point `redis:` at the master, or run REPLICAOF NO ONE");
    if (keeps == REDIS_KEEPS_NOTHING) return ERR_NONE;
    if (f->policy[0] == '\0')
        return error_set(e, ERR_CONFIG,
                         "INFO does not show maxmemory-policy: allow INFO to tallyd's user (ACL SETUSER "
                         "<user> +info), or set redis.durability: none");
    if (strcmp(f->policy, "noeviction") != 0)
        return error_set(e, ERR_CONFIG,
                         "maxmemory-policy is %s, which evicts counts silently: run CONFIG SET "
                         "maxmemory-policy noeviction, and set it in redis.conf",
                         f->policy);
    if (keeps == REDIS_KEEPS_REPLICAS) return ERR_NONE;
    if (!f->aof_on)
        return error_set(
            e, ERR_CONFIG,
            "AOF is off, so counts would come back twice. If Redis had an AOF and was started without it: "
            "stop "
            "it, set appendonly yes in redis.conf, start it (CONFIG SET would replace that AOF). Else: "
            "CONFIG SET "
            "appendonly yes, and set it in redis.conf (or set redis.durability: replicas, or none)");
    if (f->appendfsync[0] == '\0' && f->version < REDIS_WAITAOF_TRUE)
        return error_set(
            e, ERR_CONFIG,
            "tallyd cannot read appendfsync, and before Redis 8.0 and in Valkey WAITAOF does not replace it: "
            "allow CONFIG GET to tallyd's user (ACL SETUSER <user> +config|get), "
            "or set redis.durability: replicas, or none");
    if (strcmp(f->appendfsync, "no") == 0)
        return error_set(
            e, ERR_CONFIG,
            "appendfsync is no, so nothing says when counts are on disk: run CONFIG SET appendfsync "
            "everysec, and set it in redis.conf (or set redis.durability: replicas, or none)");
    return ERR_NONE;
}

void redis_fsync_file(struct redis_facts *f, const struct redis_answer *r)
{
    f->appendfsync[0] = '\0'; /* also when CONFIG GET was refused: redis_check_facts() says what to do */
    f->lax_fsync = true;
    for (size_t i = 0; answer_is(r, REDIS_ARRAY) && i + 1 < r->n; i += 2) {
        struct slice name = r->elements[i].str, value = r->elements[i + 1].str;
        if (slice_eq(name, SLICE("appendfsync")))
            slice_show(value, sizeof f->appendfsync - 1, f->appendfsync, sizeof f->appendfsync);
        if (slice_eq(name, SLICE("no-appendfsync-on-rewrite"))) f->lax_fsync = !slice_eq(value, SLICE("no"));
    }
}

/* A replica, or a Redis that moves, is noticed elsewhere. */
static void fit_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_fit *f = arg;
    (void)l;
    if (r != NULL && at == 0) {
        f->lost = !answer_is(r, REDIS_STRING) || !aof_look_read(&f->look, r->str) || !f->look.facts.master;
        return;
    }
    f->lost |= r == NULL;
    if (r != NULL) redis_fsync_file(&f->look.facts, r);
    if (!f->lost) (void)redis_check_facts(&f->look.facts, f->keeps, &f->error);
    f->done(f);
}

void redis_fit(struct redis_link *l, struct redis_fit *f)
{
    f->lost = false;
    f->error = (struct error){0};
    f->look = (struct aof_look){.facts = l->facts, .asked_ms = mono_ms()};
    redis_write(l, "INFO server replication memory persistence stats cluster");
    redis_write(l, REDIS_FSYNC_ASK);
    redis_link_ask(l, 2, fit_done, f);
}

const char *redis_check_promise(const struct redis_facts *f, enum redis_keeps keeps)
{
    if (keeps == REDIS_KEEPS_NOTHING)
        return "redis.durability: none: hits that Redis loses are lost, and hits that it brings back count "
               "twice";
    if (keeps == REDIS_KEEPS_REPLICAS)
        return "redis.durability: replicas: a batch is merged once redis.replicas of them have it; a "
               "failover "
               "loses the "
               "answered hits that were not replicated, a restart those that Redis does not load";
    if (f->appendfsync[0] == '\0')
        return "tallyd cannot read appendfsync (CONFIG GET is refused): WAITAOF says what is on disk; a "
               "power "
               "cut loses "
               "the answered hits that were not, a failover those that were not replicated";
    if (strcmp(f->appendfsync, "always") == 0)
        return "appendfsync always: a power cut loses no answered hit, a failover what was not replicated";
    return "appendfsync everysec: a power cut may lose about 2 s of answered hits, a failover what was not "
           "replicated";
}

const char *redis_check_advice(const struct redis_facts *f, enum redis_keeps keeps)
{
    if (keeps != REDIS_KEEPS_DISK || !f->lax_fsync || f->appendfsync[0] == '\0') return NULL;
    return "CONFIG SET no-appendfsync-on-rewrite no, and in redis.conf: while Redis saves or rewrites its "
           "AOF, it syncs "
           "nothing, so nothing is merged, and a power cut loses what was counted since";
}

/* --- links of other lives --- */

static void kill_fail(struct redis_kill *k, const struct redis_answer *r)
{
    if (!k->lost) answer_why(r, k->text, sizeof k->text);
    k->lost = true;
}

static void kill_end(struct redis_kill *k)
{
    if (k->done != NULL) k->done(k);
}

static void kill_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_kill *k = arg;
    (void)l;
    if (answer_is(r, REDIS_INTEGER))
        k->killed += r->integer > 0;
    else
        kill_fail(k, r);
    if (r == NULL || at + 1 == k->asked) kill_end(k);
}

static void kill_list_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_kill *k = arg;
    struct redis_client c;
    struct buf mine = {0};
    (void)at;
    if (!answer_is(r, REDIS_STRING)) {
        kill_fail(k, r);
        return kill_end(k);
    }
    name_owner(&mine, k->life);
    struct slice clients = r->str;
    while (client_next(&clients, &c)) {
        bool wanted = k->everybody || client_is_of(&c, k->life->instance);
        if (!wanted || client_is_of(&c, buf_slice(&mine))) continue;
        client_kill_put(l, &c);
        k->asked++;
    }
    buf_free(&mine);
    if (k->asked == 0) return kill_end(k);
    redis_link_ask(l, k->asked, kill_done, k);
}

void redis_kill_lives(struct redis_link *l, struct redis_kill *k)
{
    k->killed = k->asked = 0;
    k->lost = false;
    k->text[0] = '\0';
    redis_write(l, "CLIENT LIST");
    redis_link_ask(l, 1, kill_list_done, k);
}
