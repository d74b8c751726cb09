/* conf/secret.h - passwords from the environment or from files; private to the room. */
#ifndef CONF_SECRET_H
#define CONF_SECRET_H

#include "conf/conf.h"

/* path as it is opened, heap: a relative one begins at the directory of the configuration file. */
char *secret_path(const char *conf_file, const char *path);

/* The one line of a password file, heap, for secret_free. NULL: e->text says "is a file that ...", "expected ...", and
 * shows neither the path (it may be a misplaced password) nor anything of the file. */
char *secret_read_file(const char *conf_file, const char *path, struct error *e);

/* The same of a file with several lines, at most 64 KiB. */
char *secret_read_lines(const char *conf_file, const char *path, struct error *e);

/* The same of systemd's LoadCredential=: the file `name` of $CREDENTIALS_DIRECTORY, whose rights systemd keeps. NULL
 * with e->code ERR_NONE: no such file, or it is empty. */
char *secret_read_credential(const char *name, struct error *e);
void secret_free(char *secret); /* wipes it */

#endif
