/* app/privileges.c - see privileges.h. Order of dropping: groups, then gid, then uid (setresuid(2)); each is checked
 * afterwards, since a rest of root's rights is worse than no service. */
#include "app/privileges.h"

#include "base/log.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Passwords are in the memory. No option turns this off: root can still look into the process, and take a core with gcore. */
void privileges_cores(void)
{
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        log_event(LOG_WARN, "core_dumps", "error=%s", LOGQ(strerror(errno)));
}

/* A unix socket belongs to the process that bound it. Once it is the user's own, that user can remove it at the end,
 * and its mode and group decide which clients connect. */
static enum err sockets_give(const struct conf_addresses *of, const struct passwd *to, struct error *e)
{
    for (size_t i = 0; i < of->n; i++) {
        const char *path = of->all[i].path;
        bool has_group = of->all[i].group[0] != '\0';
        if (path != NULL && lchown(path, to->pw_uid, has_group ? (gid_t)-1 : to->pw_gid) != 0)
            return error_set(e, ERR_CONFIG, "run_as: %s cannot be given to %s: %s", path, to->pw_name,
                             strerror(errno));
    }
    return ERR_NONE;
}

/* Nothing of root's rights is left, and none of them can come back. */
static bool is_only(const struct passwd *to)
{
    uid_t real, effective, saved;
    gid_t group, group_effective, group_saved;
    if (getresuid(&real, &effective, &saved) != 0 || getresgid(&group, &group_effective, &group_saved) != 0)
        return false;
    if (real != to->pw_uid || effective != to->pw_uid || saved != to->pw_uid) return false;
    if (group != to->pw_gid || group_effective != to->pw_gid || group_saved != to->pw_gid) return false;
    return setuid(0) != 0 && setgid(0) != 0;
}

static enum err become(const struct passwd *to, struct error *e)
{
    if (initgroups(to->pw_name, to->pw_gid) == 0 && setresgid(to->pw_gid, to->pw_gid, to->pw_gid) == 0 &&
        setresuid(to->pw_uid, to->pw_uid, to->pw_uid) == 0 && is_only(to))
        return ERR_NONE;
    return error_set(e, ERR_FAILED, "run_as: cannot become %s completely: %s", to->pw_name, strerror(errno));
}

static enum err drop(const struct conf *conf, const struct passwd *to, struct error *e)
{
    if (to->pw_uid == 0)
        return error_set(e, ERR_CONFIG, "run_as: %s is root; leave it out, or name another user",
                         to->pw_name);
    if (geteuid() == to->pw_uid) return ERR_NONE;
    if (geteuid() != 0)
        return error_set(e, ERR_CONFIG, "run_as: only root can become %s; start tallyd as root or as %s",
                         to->pw_name, to->pw_name);
    if (sockets_give(&conf->listen_resp, to, e) != ERR_NONE ||
        sockets_give(&conf->listen_control, to, e) != ERR_NONE ||
        sockets_give(&conf->listen_http, to, e) != ERR_NONE || become(to, e) != ERR_NONE)
        return e->code;
    privileges_cores();
    log_event(LOG_INFO, "run_as", "user=%s", LOGQ(to->pw_name));
    return ERR_NONE;
}

enum err privileges_drop(const struct conf *conf, struct error *e)
{
    if (conf->run_as == NULL) {
        if (geteuid() == 0)
            log_event(LOG_WARN, "runs_as_root", "next=%s",
                      LOGQ("give run_as, or let systemd start it as tallyd"));
        return ERR_NONE;
    }
    const struct passwd *to = getpwnam(conf->run_as);
    if (to == NULL)
        return error_set(e, ERR_CONFIG,
                         "run_as: there is no user %s on this machine; adduser --system makes one",
                         conf->run_as);
    return drop(conf, to, e);
}
