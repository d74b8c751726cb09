/* base/unix_options.h - what may stand behind the path of a unix socket, `?mode=0660&group=www-data`, and how a socket
 * comes to have it. Before listen(2) nobody can connect, so what is set between bind and listen is set in time. */
#ifndef BASE_UNIX_OPTIONS_H
#define BASE_UNIX_OPTIONS_H

#include "base/error.h"
#include "base/slice.h"

#include <sys/types.h>

#define UNIX_MODE_DEFAULT 0660

struct unix_options {
    mode_t mode;
    char group[33]; /* a name or a number; empty: the group of the process */
};

/* Cuts `?...` off the address and reads it; without it the default. NULL, or what is wrong, as "an address ...". */
const char *unix_options_cut(struct slice *address, struct unix_options *out);
/* The umask under which bind(2) makes a socket with this mode. */
mode_t unix_options_umask(const struct unix_options *o);
/* Gives the bound socket at path to the group. */
enum err unix_options_apply(const struct unix_options *o, const char *path, struct error *e) MUST_CHECK;

#endif
