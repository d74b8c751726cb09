/* redis/info.c - see info.h. */
#include "redis/info.h"
#include "redis/request.h"
#include <stdio.h>

/* --- INFO is lines of `key:value` and `# Section`, ended by CR LF (redis-doc: commands/info.md). --- */

bool info_get(struct slice info, const char *key, struct slice *value)
{
    size_t key_n = strlen(key);
    if (info.n == 0) return false; /* of a reply that is no text p is NULL */
    const char *p = info.p, *end = info.p + info.n;
    while (p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *stop = eol != NULL ? eol : end;
        if ((size_t)(stop - p) > key_n && p[key_n] == ':' && memcmp(p, key, key_n) == 0) {
            *value = slice_of(p + key_n + 1, (size_t)(stop - p) - key_n - 1);
            if (value->n > 0 && value->p[value->n - 1] == '\r') value->n--;
            return true;
        }
        p = stop + 1;
    }
    return false;
}

bool info_is(struct slice info, const char *key, const char *value)
{
    struct slice got;
    return info_get(info, key, &got) && slice_eq(got, slice_str(value));
}

static bool text_of(struct slice info, const char *key, char *out, size_t size)
{
    struct slice value;
    out[0] = '\0';
    if (!info_get(info, key, &value)) return false;
    slice_show(value, size - 1, out, size);
    return true;
}

/* Valkey reports the version of Redis whose commands it has, which is what matters here; people know Valkey's own
 * version. */
static void version_show(struct slice info, const char *redis, char *out, size_t size)
{
    char valkey[16];
    if (text_of(info, "valkey_version", valkey, sizeof valkey))
        snprintf(out, size, "%s-valkey-%s", redis, valkey);
    else
        snprintf(out, size, "%s", redis);
}

bool info_facts(struct slice info, struct redis_facts *f)
{
    int major = 0, minor = 0, patch = 0;
    char version[20];
    if (!text_of(info, "redis_version", version, sizeof version)) return false;
    if (sscanf(version, "%d.%d.%d", &major, &minor, &patch) < 2) return false;
    if (major < 0 || major > 999 || minor < 0 || minor > 99 || patch < 0) return false;
    version_show(info, version, f->version_text, sizeof f->version_text);
    f->version = major * 10000 + minor * 100 + (patch > 99 ? 99 : patch);
    if (!text_of(info, "run_id", f->run_id, sizeof f->run_id)) return false;
    text_of(info, "master_replid", f->replid, sizeof f->replid);
    text_of(info, "master_replid2", f->replid2, sizeof f->replid2);
    text_of(info, "maxmemory_policy", f->policy, sizeof f->policy);
    f->master = info_is(info, "role", "master");
    f->loading = info_is(info, "loading", "1") || info_is(info, "async_loading", "1");
    f->cluster = info_is(info, "cluster_enabled", "1");
    f->aof_on = info_is(info, "aof_enabled", "1");
    return true;
}

static const struct slice name_mark = {" name=tallyd:", 13};

static bool line_read(struct slice line, struct redis_client *c)
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
    while (rest->n > 0) {
        const char *eol = memchr(rest->p, '\n', rest->n);
        struct slice line = slice_of(rest->p, eol != NULL ? (size_t)(eol - rest->p) : rest->n);
        size_t behind = eol != NULL ? line.n + 1 : line.n;
        *rest = slice_of(rest->p + behind, rest->n - behind);
        if (line_read(line, c)) return true;
    }
    return false;
}

bool client_is_of(const struct redis_client *c, struct slice owner)
{
    return slice_starts(c->owner, owner) && (c->owner.n == owner.n || c->owner.p[owner.n] == ':');
}

void client_kill_put(struct buf *out, const struct redis_client *c)
{
    request_array(out, 4);
    REQUEST_LIT(out, "CLIENT");
    REQUEST_LIT(out, "KILL");
    REQUEST_LIT(out, "ID");
    request_slice(out, c->id);
}
