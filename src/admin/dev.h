/* admin/dev.h - pure parts of `tallyd dev`, for tests; private to the room. */
#ifndef ADMIN_DEV_H
#define ADMIN_DEV_H

#include "base/buf.h"
#include "base/error.h"

#define UNIX_PATH_BYTES_MAX 107 /* unix(7) */

/* Are the sockets under this absolute directory short enough, and is the path one that a configuration can
 * hold? */
enum err dev_dir_check(const char *dir, struct error *e) MUST_CHECK;

void dev_redis_url(const char *dir, struct buf *out); /* terminated, the path percent-encoded */
void dev_mysql_url(const char *dir, struct buf *out); /* likewise */

/* word for a shell: as it is, or in single quotation marks. */
void dev_shell_word(const char *word, struct buf *out);

#endif
