/* app/privileges.h - rights that the process gives up before it serves any client: root's rights (run_as), core dumps,
 * and access of other processes to its memory. Linux. */
#ifndef APP_PRIVILEGES_H
#define APP_PRIVILEGES_H

#include "base/error.h"
#include "conf/conf.h"

#include <sys/types.h>

/* Core dumps off. At the start, and again whenever ids change, since the kernel then sets a choice of its own. */
void privileges_cores(void);

/* Becomes the user of run_as for good, and checks that there is no way back. Files whose paths are given (unix sockets)
 * become its own. Called once sockets are bound and secrets are read. When not root: run_as must be the user of this
 * process. */
enum err privileges_drop(const struct conf *conf, struct error *e) MUST_CHECK;

#endif
