/* redis/client_list.c - see client_list.h. */
#include "redis/client_list.h"
#include "redis/request.h"

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
