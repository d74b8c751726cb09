/* redis/check_op.c - what makes a Redis unfit, and the end of links that an earlier life left open. */
#include "redis/check_op.h"
#include <stdio.h>

#define VERSION_LEAST 70000

enum err redis_check_facts(const struct redis_facts *f, bool volatile_accept, struct error *e)
{
    if (f->version < VERSION_LEAST)
        return error_set(e, ERR_CONFIG,
                         "Redis is %s: tallyd needs 7.0 or newer (scripts with flags); upgrade Redis",
                         f->version_text);
    if (!f->master)
        return error_set(e, ERR_CONFIG,
                         "Redis is a replica: point `redis:` at the master, or run REPLICAOF NO ONE");
    if (volatile_accept) return ERR_NONE;
    if (strcmp(f->policy, "noeviction") != 0)
        return error_set(e, ERR_CONFIG,
                         "maxmemory-policy is %s, which evicts counts without a word: run CONFIG SET "
                         "maxmemory-policy noeviction, and set it in redis.conf",
                         f->policy);
    if (!f->aof_on)
        return error_set(
            e, ERR_CONFIG,
            "AOF is off, so a restart of Redis brings merged counts back and they count twice: run "
            "CONFIG SET appendonly yes, and set it in redis.conf (or set redis.volatile: accept)");
    if (f->appendfsync[0] == '\0')
        return error_set(e, ERR_CONFIG,
                         "appendfsync cannot be read: allow CONFIG GET to tallyd's user (ACL SETUSER <user> "
                         "+config|get), or set redis.volatile: accept");
    if (strcmp(f->appendfsync, "no") == 0)
        return error_set(
            e, ERR_CONFIG,
            "appendfsync is no, so nothing says when counts are on disk: run CONFIG SET appendfsync "
            "everysec, and set it in redis.conf (or set redis.volatile: accept)");
    return ERR_NONE;
}

const char *redis_check_promise(const struct redis_facts *f, bool volatile_accept)
{
    if (volatile_accept && (!f->aof_on || strcmp(f->policy, "noeviction") != 0))
        return "redis.volatile: accept: whatever Redis loses or brings back is lost or counted twice";
    if (strcmp(f->appendfsync, "always") == 0)
        return "appendfsync always: a power cut loses no answered hit, a failover what was not replicated";
    return "appendfsync everysec: a power cut may lose about 2 s of answered hits, a failover what was not "
           "replicated";
}
