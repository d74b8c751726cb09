/* base/check.c - an assert failed: log it, then stop. A restart recovers; going on could double hits. */
#include "base/check.h"

#include "base/log.h"

#include <stdlib.h>

void check_failed(const char *kind, const char *what, const char *file, int line)
{
    log_event(LOG_ERROR, "assert", "kind=%s what=%s file=%s line=%d", kind, LOGQ(what), LOGQ(file), line);
    abort();
}
