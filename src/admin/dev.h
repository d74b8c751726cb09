/* admin/dev.h - pure parts of `tallyd dev`, for tests; private to the room. */
#ifndef ADMIN_DEV_H
#define ADMIN_DEV_H

#include "base/error.h"

#define UNIX_PATH_BYTES_MAX 107 /* unix(7) */

/* Are the sockets under this absolute directory short enough, and is its path one that all three servers
 * take? */
enum err dev_dir_check(const char *dir, struct error *e) MUST_CHECK;

#endif
