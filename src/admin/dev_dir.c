/* admin/dev_dir.c - the directory of `tallyd dev`: made, checked, and locked against a second dev. */
#include "admin/dev_in.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FREE_MIB_LEAST 300 /* a fresh MariaDB takes about half of it */

enum err dev_dir_check(const char *dir, struct error *e)
{
    const size_t name = sizeof("/control.sock") - 1, n = strlen(dir);
    size_t plain = strspn(dir, DIR_BYTES);
    if (plain < n)
        return error_set(e, ERR_USAGE,
                         "the path of the directory has a byte (the %zuth) that mariadb-install-db cannot "
                         "take: choose a path of letters, digits and / . _ - + @ : , = with --dir",
                         plain + 1);
    if (n + name <= UNIX_PATH_BYTES_MAX) return ERR_NONE;
    return error_set(e, ERR_USAGE,
                     "%s is %zu bytes long, but a unix socket's path may have only %d: choose a directory "
                     "of at most %zu bytes with --dir",
                     dir, n, UNIX_PATH_BYTES_MAX, UNIX_PATH_BYTES_MAX - name);
}

enum err dev_dir_failed(const char *path, struct error *e)
{
    int why = errno;
    const char *next = why == EACCES || why == EPERM || why == EROFS
                           ? "choose a directory that you can write to, with --dir"
                       : why == ENOSPC || why == EDQUOT ? "free some space, or choose another with --dir"
                                                        : "choose another with --dir";
    return error_set(e, ERR_FAILED, "cannot use %s: %s; %s", path, strerror(why), next);
}

/* Also makes the directories above it. *stood: how many bytes of the path existed already. */
static enum err dirs_make(const char *wanted, size_t *stood, struct error *e)
{
    char path[PATH_MAX];
    size_t n = strlen(wanted);
    bool made = false;
    *stood = n;
    errno = ENAMETOOLONG;
    if (n >= sizeof(path)) return dev_dir_failed(wanted, e);
    *stood = 0;
    for (size_t i = 1; i <= n; i++) {
        if (wanted[i] != '/' && i < n) continue;
        snprintf(path, sizeof(path), "%.*s", (int)i, wanted);
        if (mkdir(path, 0700) == 0)
            made = true;
        else if (errno != EEXIST)
            return dev_dir_failed(path, e);
        if (!made) *stood = i;
    }
    return ERR_NONE;
}

static void dirs_remove(const char *wanted, size_t stood)
{
    char path[PATH_MAX];
    for (size_t i = strlen(wanted); i > stood; i--) {
        if (wanted[i] != '/' && wanted[i] != '\0') continue;
        snprintf(path, sizeof(path), "%.*s", (int)i, wanted);
        rmdir(path);
    }
}

/* Any user who may enter the directory of MariaDB's socket can connect there as root without a password. */
static enum err dir_is_own(const char *dir, struct error *e)
{
    struct stat st;
    if (stat(dir, &st) != 0) return dev_dir_failed(dir, e);
    if (st.st_uid != geteuid())
        return error_set(e, ERR_FAILED,
                         "%s belongs to another user: choose a directory of your own with --dir", dir);
    if ((st.st_mode & 077) == 0) return ERR_NONE;
    return error_set(
        e, ERR_FAILED,
        "other users may enter %s (mode %04o), where the database has no password: chmod 700 %s, or "
        "choose another with --dir",
        dir, st.st_mode & 07777, dir);
}

enum err dev_dir_open(struct dev *d, struct error *e)
{
    struct statvfs space;
    const char *wanted = d->call->dir;
    size_t stood;
    enum err code = dirs_make(wanted, &stood, e);
    if (code == ERR_NONE && realpath(wanted, d->dir) == NULL) code = dev_dir_failed(wanted, e);
    if (code == ERR_NONE) code = dev_dir_check(d->dir, e);
    if (code != ERR_NONE) dirs_remove(wanted, stood);
    if (code != ERR_NONE) return code;
    if (access(d->dir, W_OK | X_OK) != 0) return dev_dir_failed(d->dir, e);
    if (dir_is_own(d->dir, e) != ERR_NONE) return e->code;
    if (statvfs(d->dir, &space) != 0) return dev_dir_failed(d->dir, e);
    unsigned long long free_mib = (unsigned long long)space.f_bavail * space.f_frsize >> 20;
    if (free_mib >= FREE_MIB_LEAST) return ERR_NONE;
    return error_set(e, ERR_FAILED,
                     "only %llu MiB are free in %s, and tallyd dev needs %d: free some, or choose another "
                     "directory with --dir",
                     free_mib, d->dir, FREE_MIB_LEAST);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

enum err dev_dir_remove(const char *path, struct error *e)
{
    bool gone = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 || errno == ENOENT;
    return gone ? ERR_NONE : dev_dir_failed(path, e);
}

void dev_path(const struct dev *d, const char *name, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/%s", d->dir, name);
    INVARIANT(n > 0 && n < PATH_MAX); /* dir_open bounded dir */
}

enum err dev_lock(struct dev *d, struct error *e)
{
    char path[PATH_MAX], holder[24] = "?";
    dev_path(d, "dev.lock", path);
    d->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock < 0) return dev_dir_failed(path, e);
    if (flock(d->lock, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(d->lock, holder, sizeof(holder) - 1, 0);
        holder[n > 0 ? n : 0] = '\0';
        return error_set(
            e, ERR_FAILED,
            "a `tallyd dev` runs in %s already (pid %.*s): use it, stop it, or choose another with --dir",
            d->dir, (int)strcspn(holder, "\n"), holder);
    }
    int n = snprintf(holder, sizeof(holder), "%ld\n", (long)getpid());
    if (ftruncate(d->lock, 0) != 0 || pwrite(d->lock, holder, (size_t)n, 0) != n)
        return dev_dir_failed(path, e);
    return ERR_NONE;
}
