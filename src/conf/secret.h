/* conf/secret.h - passwords from the environment or from files; private to the room. */
#ifndef CONF_SECRET_H
#define CONF_SECRET_H

#include "conf/conf.h"

/* The text of a password file, without the newline at its end; heap, the caller wipes and frees it. A path
 * that is not absolute begins at the directory of the configuration file. NULL: e->text says "is a file that
 * ..." and "expected ..."; it shows neither the path (a password may stand there by mistake) nor anything of
 * the file. */
char *secret_read_file(const char *conf_file, const char *path, struct error *e);

/* The same of a file with several lines, at most 64 KiB. */
char *secret_read_lines(const char *conf_file, const char *path, struct error *e);

/* The variable's value as heap memory, NULL: not set, or empty. */
char *secret_read_env(const char *variable);
/* Of systemd's LoadCredential=: the file `name` of $CREDENTIALS_DIRECTORY, whose rights systemd keeps. NULL: there is
 * none, or it is empty; e->code ERR_NONE then, else e as of secret_read_file. */
char *secret_read_credential(const char *name, struct error *e);
void secret_free(char *secret); /* wipes it */

#endif
