/* users/grants.h - the commands that a user may be given, by name or by group, and which of their arguments name data.
 * command/ looks its commands up here; a missing one ends the start. */
#ifndef USERS_GRANTS_H
#define USERS_GRANTS_H

#include "base/slice.h"

enum grant_group {
    GRANT_FREE, /* about the connection or this server: every user may */
    GRANT_READ,
    GRANT_WRITE,
    GRANT_ADMIN,
};

enum grant_names {
    NAMES_NONE,
    NAMES_KEY,   /* the first argument */
    NAMES_EVENT, /* the first and the second, `name:type`, as the log's own key */
    NAMES_SYNC,  /* the first, or ALL: everything */
    NAMES_ALL,   /* everything there is */
};

struct grant {
    const char *name; /* lower case */
    enum grant_group group;
    enum grant_names names;
};

extern const struct grant grants[];
extern const size_t grants_n; /* at most 64: a user's are bits of a word */

const struct grant *grant_find(struct slice name); /* NULL: no such command */
#define GRANT_BIT(g) (UINT64_C(1) << ((g) - &grants[0]))

/* The bits of a command's or a group's name (`read`, `write`, `admin`, `all`); 0: unknown name. */
uint64_t grants_named(struct slice name);
uint64_t grants_of(enum grant_group group);

#endif
