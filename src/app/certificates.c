/* app/certificates.c - see certificates.h. */
#include "app/certificates.h"

#include "base/log.h"
#include "setup/setup.h"
#include "tls/tls.h"

#include <stdio.h>

#define EVERY_MS (24 * 3600 * UINT64_C(1000))

enum err certificates_load(struct settings *s, struct error *e)
{
    struct buf problems = {0};
    if (setup_doors(&s->setup, &problems)) return ERR_NONE;
    error_set(e, ERR_CONFIG, "%.*s", (int)strcspn(problems.p, "\n"), problems.p);
    buf_free(&problems);
    return ERR_CONFIG;
}

static void warn_log(void *arg, const char *text)
{
    (void)arg;
    log_event(LOG_WARN, "not_private", "why=%s", LOGQ(text));
}

void certificates_begin(const struct settings *s)
{
    secure_warnings(&s->setup, warn_log, NULL);
}

static void one_reload(struct tls_context *c, const char *of)
{
    struct error e;
    if (c == NULL) return;
    if (tls_context_reload(c, &e) == ERR_NONE)
        log_event(LOG_INFO, "certificates", "of=%s outcome=read", of);
    else
        log_event(LOG_ERROR, "certificates", "of=%s outcome=kept error=%s next=%s", of, LOGQ(e.text),
                  LOGQ("connections use the old files; correct the new ones, then send SIGHUP again"));
}

static void one_say(struct tls_context *c, const char *of)
{
    static const enum log_level levels[] = {
        [SECURE_GOOD] = LOG_INFO, [SECURE_WARN] = LOG_WARN, [SECURE_BAD] = LOG_ERROR};
    char text[200];
    if (c == NULL || tls_context_files(c).cert == NULL) return;
    enum secure_level level = secure_certificate(c, text, sizeof text);
    log_event(levels[level], "certificate", "of=%s what=%s", of, LOGQ(text));
}

void certificates_reload(struct settings *s)
{
    one_reload(s->setup.doors, "listen.tls");
    one_reload(s->setup.redis.tls, "redis.tls");
    one_reload(s->setup.sentinels.access.tls, "redis.sentinel.tls");
    one_say(s->setup.doors, "listen.tls");
    one_say(s->setup.redis.tls, "redis.tls");
    one_say(s->setup.sentinels.access.tls, "redis.sentinel.tls");
}

void certificates_tick(struct settings *s, uint64_t now_ms, uint64_t *due_ms)
{
    if (now_ms < *due_ms) return;
    *due_ms = now_ms + EVERY_MS;
    one_say(s->setup.doors, "listen.tls");
    one_say(s->setup.redis.tls, "redis.tls");
    one_say(s->setup.sentinels.access.tls, "redis.sentinel.tls");
}
