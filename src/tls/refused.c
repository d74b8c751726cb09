/* tls/refused.c - see refused.h. One limit for all addresses: a flood goes to any of them. */
#include "tls/refused.h"

#include "base/log.h"
#include "base/stats.h"

void tls_refused(const char *door, const char *peer, const char *why)
{
    static struct log_seldom line;
    unsigned times;
    STAT_ADD(tls_refused, 1);
    if (log_seldom(&line, &times))
        log_event(LOG_WARN, "tls_refused", "door=%s peer=%s times=%u why=%s", door, peer, times, LOGQ(why));
}
