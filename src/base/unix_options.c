/* base/unix_options.c - see unix_options.h. Sources: unix(7), umask(2), getgrnam(3). */
#include "base/unix_options.h"

#include "base/buf.h"
#include "base/num.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <unistd.h>

#define ENTRY_BYTES_MAX (16 << 20) /* of a group with all its members */

static bool mode_read(struct slice text, mode_t *out)
{
    unsigned mode = 0;
    if (text.n < 3 || text.n > 4) return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7') return false;
        mode = mode * 8 + (unsigned)(text.p[i] - '0');
    }
    *out = mode;
    return mode <= 0777 && (mode & 0600) == 0600 && (mode & 0111) == 0;
}

static bool group_read(struct slice text, char *out, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (text.n == 0 || text.n >= size || text.p[0] == '-') return false;
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
    return strspn(out, letters) == text.n;
}

static const char *one_read(struct slice one, struct unix_options *out)
{
    const struct slice mode = SLICE("mode="), group = SLICE("group=");
    if (slice_starts(one, mode))
        return mode_read(slice_of(one.p + mode.n, one.n - mode.n), &out->mode)
                   ? NULL
                   : "an address whose mode is none of a socket (0600, 0660, 0666: an octal number)";
    if (slice_starts(one, group))
        return group_read(slice_of(one.p + group.n, one.n - group.n), out->group, sizeof out->group)
                   ? NULL
                   : "an address whose group is no name of a group";
    return "an address with something else than mode= and group= behind its '?'";
}

const char *unix_options_cut(struct slice *address, struct unix_options *out)
{
    const char *at = address->n == 0 ? NULL : memchr(address->p, '?', address->n), *wrong = NULL;
    *out = (struct unix_options){.mode = UNIX_MODE_DEFAULT};
    if (at == NULL) return NULL;
    struct slice rest = slice_of(at + 1, address->n - (size_t)(at + 1 - address->p));
    address->n = (size_t)(at - address->p);
    do {
        const char *next = rest.n == 0 ? NULL : memchr(rest.p, '&', rest.n);
        size_t n = next == NULL ? rest.n : (size_t)(next - rest.p);
        wrong = one_read(slice_of(rest.p, n), out);
        rest = next == NULL ? slice_of(NULL, 0) : slice_of(next + 1, rest.n - n - 1);
    } while (wrong == NULL && rest.p != NULL);
    return wrong;
}

mode_t unix_options_umask(const struct unix_options *o)
{
    return 0777 & ~o->mode;
}

/* 0, ENOENT, or why it cannot be looked up. A group of many members needs much room. */
static int group_look(const char *name, gid_t *out)
{
    struct group entry, *found = NULL;
    struct buf room = {0};
    int rc = ERANGE;
    for (size_t n = 4096; rc == ERANGE && n <= ENTRY_BYTES_MAX; n *= 4)
        rc = getgrnam_r(name, &entry, buf_reserve(&room, n), n, &found);
    if (found != NULL) *out = found->gr_gid;
    buf_free(&room);
    return rc == 0 && found == NULL ? ENOENT : rc;
}

static int group_find(const char *name, gid_t *out)
{
    uint64_t number;
    if (!num_parse_u64(slice_str(name), &number) || number >= UINT32_MAX) return group_look(name, out);
    *out = (gid_t)number;
    return 0;
}

enum err unix_options_apply(const struct unix_options *o, const char *path, struct error *e)
{
    gid_t group = (gid_t)-1;
    if (o->group[0] == '\0') return ERR_NONE;
    int rc = group_find(o->group, &group);
    if (rc == ENOENT)
        return error_set(e, ERR_CONFIG, "unix://%s: there is no group %s on this machine", path, o->group);
    if (rc != 0)
        return error_set(e, ERR_CONFIG, "unix://%s: the group %s cannot be looked up (%s)", path, o->group,
                         strerror(rc));
    if (lchown(path, (uid_t)-1, group) == 0) return ERR_NONE;
    return error_set(
        e, ERR_CONFIG,
        "unix://%s: it cannot be given to the group %s (%s): tallyd's user must be in that group, and "
        "systemd's unit must let it; else let the clients' users be in tallyd's group",
        path, o->group, strerror(errno));
}
