/* base/refusals.c - see stats.h. */
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PART_MS (60000 / REFUSAL_MINUTE_PARTS)
#define TELL_EVERY_MS 1000
#define LOG_EVERY_MS 10000
#define ERROR_SHOWN 240

static struct refused all[REFUSALS_MAX];

/* tallyd's own errors that begin with ERR. */
static const struct {
    const char *begins, *reason;
} own[] = {{"ERR no counter is configured", "no_counter"},
           {"ERR field ", "field"},
           {"ERR value is not", "value"},
           {"ERR increment ", "value"},
           {"ERR decrement ", "value"}};

static void reason_of(struct slice error, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (!slice_starts(error, slice_str(own[i].begins))) continue;
        snprintf(out, size, "%s", own[i].reason);
        return;
    }
    for (; n < error.n && n + 1 < size && error.p[n] >= 'A' && error.p[n] <= 'Z'; n++)
        out[n] = (char)(error.p[n] | 0x20);
    out[n] = '\0';
    if (n == 0 || strcmp(out, "err") == 0) snprintf(out, size, "other");
}

static struct refused *refusal_known(const char *reason, const char *fault)
{
    for (uint32_t i = 0; i < REFUSALS_MAX; i++)
        if (strcmp(all[i].reason, reason) == 0 && strcmp(all[i].fault, fault) == 0) return &all[i];
    return NULL;
}

/* Of one of the first REFUSAL_FAULTS of its reason and kind; empty: of any other. */
static void refusal_fault(const char *reason, struct slice error, struct slice key, char *out, size_t size)
{
    static const struct slice mark = {"take the prefix '", 17};
    const char *at = memmem(error.p, error.n, mark.p, mark.n), *end = error.p + error.n;
    struct slice of = at != NULL ? slice_of(at + mark.n, (size_t)(end - at) - mark.n) : key;
    size_t n = 0, known = 0;
    out[n++] = at != NULL ? 'p' : 'k';
    for (size_t i = 0; i < of.n && n + 1 < size && (at == NULL || of.p[i] != '\''); i++) {
        char c = at == NULL && of.p[i] >= '0' && of.p[i] <= '9' ? '#' : of.p[i];
        if (c != '#' || out[n - 1] != '#') out[n++] = c;
    }
    out[n] = '\0';
    for (uint32_t i = 0; i < REFUSALS_MAX; i++)
        known += strcmp(all[i].reason, reason) == 0 && all[i].fault[0] == out[0];
    if (known == REFUSAL_FAULTS && refusal_known(reason, out) == NULL) out[0] = '\0';
}

static bool has_faults(const char *reason)
{
    return strcmp(reason, "no_counter") == 0 || strcmp(reason, "field") == 0 || strcmp(reason, "noperm") == 0;
}

/* The last place is for "other", unless it has one. */
static struct refused *refusal_of(const char *reason, struct slice error, struct slice key)
{
    char fault[sizeof all->fault] = "";
    if (has_faults(reason)) refusal_fault(reason, error, key, fault, sizeof fault);
    struct refused *r = refusal_known(reason, fault), *free = refusal_known("", "");
    if (r != NULL) return r;
    if (free == NULL) return refusal_known("other", "");
    bool is_other = free == &all[REFUSALS_MAX - 1] && refusal_known("other", "") == NULL;
    snprintf(free->reason, sizeof free->reason, "%s", is_other ? "other" : reason);
    if (!is_other) memcpy(free->fault, fault, sizeof fault);
    return free;
}

void refusals_add(uint64_t n, struct slice error, struct slice key, const char *peer)
{
    char reason[sizeof all->reason], named[120] = "", whole[4 * ERROR_SHOWN + 4];
    if (n == 0) return;
    if (error.n > 0 && error.p[0] == '-') error = slice_of(error.p + 1, error.n - 1);
    const char *end = memchr(error.p, '\r', error.n);
    if (end != NULL) error.n = (size_t)(end - error.p);
    reason_of(error, reason, sizeof reason);
    struct refused *r = refusal_of(reason, error, key);
    uint64_t now_ms = mono_ms(), part = now_ms / PART_MS;
    if (r->minute[part % REFUSAL_MINUTE_PARTS].part != part) r->minute[part % REFUSAL_MINUTE_PARTS].n = 0;
    r->minute[part % REFUSAL_MINUTE_PARTS].part = part;
    r->minute[part % REFUSAL_MINUTE_PARTS].n += n;
    r->all += n;
    r->not_logged += n;
    if (r->told_at_ms != 0 && now_ms - r->told_at_ms < TELL_EVERY_MS)
        return; /* a flood of them costs the loop little */
    r->told_at_ms = now_ms;
    if (key.n > 0) snprintf(named, sizeof named, " (key '%s')", SLICE_SHOW(key, 40));
    slice_show(error, ERROR_SHOWN, whole, sizeof whole);
    snprintf(r->text, sizeof r->text, "%.250s%.90s%s%.47s", whole,
             strstr(whole, "key '") != NULL ? "" : named, peer[0] != '\0' ? ", from " : "", peer);
    if (r->logged_at_ms != 0 && now_ms - r->logged_at_ms < LOG_EVERY_MS) return;
    r->logged_at_ms = now_ms;
    log_event(LOG_WARN, "hits_refused", "reason=%s hits=%llu all=%llu why=%s", r->reason,
              (unsigned long long)r->not_logged, (unsigned long long)r->all, LOGQ(r->text));
    r->not_logged = 0;
}

const struct refused *refusals_at(uint32_t at)
{
    return at < REFUSALS_MAX && all[at].reason[0] != '\0' ? &all[at] : NULL;
}

uint64_t refusal_minute(const struct refused *r)
{
    uint64_t part = mono_ms() / PART_MS, n = 0;
    for (uint32_t i = 0; i < REFUSAL_MINUTE_PARTS; i++)
        if (part - r->minute[i].part < REFUSAL_MINUTE_PARTS) n += r->minute[i].n;
    return n;
}
