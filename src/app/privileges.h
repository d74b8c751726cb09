/* app/privileges.h - rights that the process gives up before it serves any client: root's rights (run_as), core dumps, and
 * other processes looking into it. Linux. */
#ifndef APP_PRIVILEGES_H
#define APP_PRIVILEGES_H

#include "base/error.h"
#include "conf/conf.h"

#include <sys/types.h>

/* Core dumps off. At the start, and again whenever ids change, which the kernel
 * answers with a choice of its own. */
void privileges_cores(void);

/* Becomes the user of run_as for good, and makes sure that there is no way back; files whose paths are given (unix sockets)
 * become its own. Once sockets are bound and secrets are read. Not as root: run_as must be who runs already. */
enum err privileges_drop(const struct conf *conf, struct error *e) MUST_CHECK;

#endif
