/* tls/refused.c - see refused.h. One limit for all addresses: a flood goes to any of them. */
#include "tls/refused.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"

#include <stdatomic.h>

#define EVERY_MS 10000

void tls_refused(const char *door, const char *peer, const char *why)
{
    static _Atomic uint64_t next_ms;
    static _Atomic unsigned unlogged;
    uint64_t now_ms = mono_ms(), due_ms = atomic_load(&next_ms);
    STAT_ADD(tls_refused, 1);
    atomic_fetch_add(&unlogged, 1);
    if (now_ms < due_ms || !atomic_compare_exchange_strong(&next_ms, &due_ms, now_ms + EVERY_MS)) return;
    log_event(LOG_WARN, "tls_refused", "door=%s peer=%s times=%u why=%s", door, peer,
              atomic_exchange(&unlogged, 0), LOGQ(why));
}
