/* users/grants.c - see grants.h. */
#include "users/grants.h"

#include "base/log.h"

/* CLIENT LIST and CLIENT KILL also need admin: command/guard.c. */
const struct grant grants[] = {
    {"hincrby", GRANT_WRITE, NAMES_KEY},
    {"ctr.incrby", GRANT_WRITE, NAMES_KEY},
    {"ctr.hit", GRANT_WRITE, NAMES_KEY},
    {"ctr.pending", GRANT_READ, NAMES_KEY},
    {"ctr.total", GRANT_READ, NAMES_KEY},
    {"ctr.sync", GRANT_ADMIN, NAMES_SYNC},
    {"ctr.recover", GRANT_ADMIN, NAMES_ALL},
    {"series.incrby", GRANT_WRITE, NAMES_KEY},
    {"series.get", GRANT_READ, NAMES_KEY},
    {"series.list", GRANT_ADMIN, NAMES_NONE}, /* its answer has only the names that the user may see */
    {"box.incrby", GRANT_WRITE, NAMES_KEY},
    {"box.recent", GRANT_READ, NAMES_KEY},
    {"box.top", GRANT_READ, NAMES_KEY},
    {"box.bottom", GRANT_READ, NAMES_KEY},
    {"event.add", GRANT_WRITE, NAMES_EVENT},
    {"event.range", GRANT_READ, NAMES_EVENT},
    {"event.count", GRANT_READ, NAMES_EVENT},
    {"uniq.add", GRANT_WRITE, NAMES_KEY},
    {"uniq.count", GRANT_READ, NAMES_KEY},
    {"wait", GRANT_WRITE, NAMES_NONE},
    {"waitaof", GRANT_WRITE, NAMES_NONE},
    {"ping", GRANT_FREE, NAMES_NONE},
    {"echo", GRANT_FREE, NAMES_NONE},
    {"hello", GRANT_FREE, NAMES_NONE},
    {"auth", GRANT_FREE, NAMES_NONE},
    {"select", GRANT_FREE, NAMES_NONE},
    {"client", GRANT_FREE, NAMES_NONE},
    {"quit", GRANT_FREE, NAMES_NONE},
    {"reset", GRANT_FREE, NAMES_NONE},
    {"multi", GRANT_FREE, NAMES_NONE},
    {"exec", GRANT_FREE, NAMES_NONE},
    {"discard", GRANT_FREE, NAMES_NONE},
    {"watch", GRANT_FREE, NAMES_NONE},
    {"unwatch", GRANT_FREE, NAMES_NONE},
    {"command", GRANT_FREE, NAMES_NONE},
    {"config", GRANT_FREE, NAMES_NONE}, /* GET of five fixed settings */
    {"acl", GRANT_FREE, NAMES_NONE},    /* WHOAMI alone */
    {"role", GRANT_FREE, NAMES_NONE},
    {"info", GRANT_FREE, NAMES_NONE}, /* without GRANT_ADMIN no figures, only what client libraries read */
    {"time", GRANT_FREE, NAMES_NONE},
    {"hget", GRANT_READ, NAMES_KEY},
    {"hmget", GRANT_READ, NAMES_KEY},
    {"expire", GRANT_WRITE, NAMES_KEY},
    {"pexpire", GRANT_WRITE, NAMES_KEY},
    {"expireat", GRANT_WRITE, NAMES_KEY},
    {"pexpireat", GRANT_WRITE, NAMES_KEY},
    {"persist", GRANT_WRITE, NAMES_KEY},
    {"exists", GRANT_FREE, NAMES_NONE}, /* a key that the user may not name is none of a counter's */
    {"ttl", GRANT_FREE, NAMES_KEY},     /* the configuration alone tells */
    {"pttl", GRANT_FREE, NAMES_KEY},
    {"incr", GRANT_WRITE, NAMES_KEY},
    {"incrby", GRANT_WRITE, NAMES_KEY},
    {"decr", GRANT_WRITE, NAMES_KEY},
    {"decrby", GRANT_WRITE, NAMES_KEY},
    {"get", GRANT_READ, NAMES_KEY},
};
const size_t grants_n = sizeof(grants) / sizeof(grants[0]);
_Static_assert(sizeof(grants) / sizeof(grants[0]) <= 64, "bits of a word");

const struct grant *grant_find(struct slice name)
{
    for (size_t i = 0; i < grants_n; i++)
        if (slice_ieq(slice_str(grants[i].name), name)) return &grants[i];
    return NULL;
}

uint64_t grants_of(enum grant_group group)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < grants_n; i++)
        if (grants[i].group == group) bits |= GRANT_BIT(&grants[i]);
    return bits;
}

uint64_t grants_named(struct slice name)
{
    if (slice_ieq(name, SLICE("read"))) return grants_of(GRANT_READ);
    if (slice_ieq(name, SLICE("write"))) return grants_of(GRANT_WRITE);
    if (slice_ieq(name, SLICE("admin"))) return grants_of(GRANT_ADMIN);
    if (slice_ieq(name, SLICE("all")))
        return grants_of(GRANT_READ) | grants_of(GRANT_WRITE) | grants_of(GRANT_ADMIN);
    const struct grant *g = grant_find(name);
    return g == NULL ? 0 : GRANT_BIT(g);
}
