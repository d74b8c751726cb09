/* admin/verbs.h - what the verbs are given; private to the room. */
#ifndef ADMIN_VERBS_H
#define ADMIN_VERBS_H

#include "admin/admin.h"
#include "admin/setup.h"

struct call { /* one command line, read */
    const struct admin_ports *ports;
    const char *conf_path; /* -c, else the default; of `dev` NULL when not given */
    const char *dir;
    bool tables, print, dry_run, reject_unknown, accept_rollback, help;
};

#define CONF_PATH_DEFAULT "/etc/tallyd/tallyd.yaml"
#define DEV_DIR_DEFAULT "./var"

/* What fails is said on stderr, with `tallyd: ` before it. Each returns the code that the process exits with.
 */
enum err verb_run(const struct call *call);
enum err verb_check(const struct call *call);
enum err verb_migrate(const struct call *call);
enum err verb_verify(const struct call *call);
enum err verb_recover(const struct call *call);
enum err verb_dev(const struct call *call);

/* Reads the configuration and what follows from it, and says every problem. False: there was one; else the
 * caller closes both. */
bool call_load(const struct call *call, struct conf *conf, struct setup *setup) MUST_CHECK;
/* `tallyd: <text>` on stderr; returns e->code. */
enum err call_failed(const struct error *e);

/* Reads argv as the table of verbs says. ERR_USAGE: e says what is wrong and what was perhaps meant. *verb is
 * the verb's index; -1: none was given (--help, --version). */
struct verb {
    const char *name, *arguments, *summary, *help;
    enum err (*run)(const struct call *call);
};
extern const struct verb verbs[];
extern const size_t verbs_n;
enum err call_read(int argc, char **argv, struct call *call, int *verb, bool *version,
                   struct error *e) MUST_CHECK;
void help_all(struct buf *out);
void help_verb(const struct verb *verb, struct buf *out);

#endif
