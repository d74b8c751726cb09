/* admin/child.h - the servers that `tallyd dev` starts. Each is one process, in a group of its own so that Ctrl-C
 * reaches only dev. The kernel sends it SIGTERM when dev dies. Its output is in a log file, its pid in a file. */
#ifndef ADMIN_CHILD_H
#define ADMIN_CHILD_H

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
    const char *name;    /* "redis-server" */
    const char *package; /* Debian's, for when it is missing; NULL: it is tallyd itself */
    char log[PATH_MAX], pid_path[PATH_MAX];
    pid_t pid; /* 0: not started */
    bool running;
    int status; /* of wait(2), once it ended */
};

/* Paths are <dir>/<stem>.log and <dir>/<stem>.pid. */
void child_init(struct child *c, const char *name, const char *package, const char *dir, const char *stem);

/* argv[0] is searched in PATH and in the usual directories of servers. The caller blocks signals; the child gets none
 * blocked. */
enum err child_start(struct child *c, char *const argv[], struct error *e) MUST_CHECK;
bool child_reap(struct child *c); /* has it ended? Never blocks; removes its pid file when it has */
void child_signal(const struct child *c, int signal); /* to its group, when it runs */
const char *child_ending(const struct child *c, char *out,
                         size_t size); /* "ended with status 1", "was killed by ..." */

/* The last lines of its log on stderr, indented. */
void child_log_tail(const struct child *c);

/* A process of an earlier dev that its pid file names: is it still alive, and ours (its command line has `mine`)? */
pid_t child_left_over(const struct child *c, const char *mine);

#endif
