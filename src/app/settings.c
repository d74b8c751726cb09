/* app/settings.c - from options to the rooms' own structs. */
#include "app/service.h"

#include "base/log.h"
#include "setup/setup.h"
#include "tls/tls.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define EVERY_MS (24 * 3600 * UINT64_C(1000))

/* `tallyd check` names all. */
static enum err first_of(struct buf *problems, struct error *e)
{
    error_set(e, ERR_CONFIG, "%.*s", (int)strcspn(problems->p, "\n"), problems->p);
    buf_free(problems);
    return ERR_CONFIG;
}

enum err certificates_load(struct settings *s, struct error *e)
{
    struct buf problems = {0};
    return setup_doors(&s->setup, &problems) ? ERR_NONE : first_of(&problems, e);
}

static void warn_log(const char *text)
{
    log_event(LOG_WARN, "not_private", "why=%s", LOGQ(text));
}

void certificates_begin(const struct settings *s)
{
    secure_warnings(&s->setup, warn_log);
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

void certificates_tick(struct settings *s, uint64_t now_ms, uint64_t *due_ms)
{
    if (now_ms < *due_ms) return;
    *due_ms = now_ms + EVERY_MS;
    one_say(s->setup.doors, "listen.tls");
    one_say(s->setup.redis.tls, "redis.tls");
    one_say(s->setup.sentinels.access.tls, "redis.sentinel.tls");
}

enum err settings_build(const struct conf *conf, struct settings *out, struct error *e)
{
    *out = (struct settings){.conf = conf};
    struct buf problems = {0};
    if (!setup_init(&out->setup, conf, &problems)) return first_of(&problems, e);
    snprintf(out->instance, sizeof out->instance, "%s", conf->instance);
    char boot[40] = "unknown", space[64] = "unknown";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL) {
        if (fgets(boot, sizeof boot, f) != NULL) boot[strcspn(boot, "\n")] = '\0';
        fclose(f);
    }
    ssize_t n = readlink("/proc/self/ns/net", space, sizeof space - 1);
    if (n > 0) space[n] = '\0';
    snprintf(out->host, sizeof out->host, "%s:%s", boot, space);
    life_init(&out->life, slice_str(out->instance));
    out->stop_timeout_ms = (uint64_t)conf->stop_timeout_ms;
    log_set_level((enum log_level)conf->log_level);
    return ERR_NONE;
}

void settings_close(struct settings *s)
{
    setup_close(&s->setup);
    *s = (struct settings){0};
}

void settings_reload(struct settings *s, const struct conf *wanted)
{
    log_set_level((enum log_level)wanted->log_level);
    s->stop_timeout_ms = (uint64_t)wanted->stop_timeout_ms;
    struct buf names = {0};
    if (conf_needs_restart(s->conf, wanted, &names) > 0)
        log_event(LOG_WARN, "reload", "needs_restart=\"%.*s\"", SLICE_ARG(buf_slice(&names)));
    else
        log_event(LOG_INFO, "reload", "outcome=taken_over");
    buf_free(&names);
    /* Reads every file again, for connections from now on; if one is not valid, the old certificates remain. */
    one_reload(s->setup.doors, "listen.tls");
    one_reload(s->setup.redis.tls, "redis.tls");
    one_reload(s->setup.sentinels.access.tls, "redis.sentinel.tls");
    one_say(s->setup.doors, "listen.tls");
    one_say(s->setup.redis.tls, "redis.tls");
    one_say(s->setup.sentinels.access.tls, "redis.sentinel.tls");
}

struct lane_config settings_lane(const struct settings *s, uint32_t lane)
{
    const struct conf *conf = s->conf;
    struct coalesce_config coalesce = coalesce_config_default;
    struct shares shares = setup_shares(conf);
    coalesce.entries_max = shares.hashes / s->setup.lanes;
    coalesce.series_max = shares.names / s->setup.lanes;
    coalesce.replay_bytes = shares.replay_bytes / s->setup.lanes;
    if (conf->redis_durability == CONF_DURABILITY_NONE) coalesce.replay_bytes = 0;
    coalesce.hit_max = conf->limits_hit;
    coalesce.doubt_ms = coalesce.busy_ms = (uint32_t)conf->limits_busy_timeout_ms;
    return (struct lane_config){
        .lane = lane,
        .lanes = s->setup.lanes,
        .counters = &s->setup.counters,
        .redis = &s->setup.redis,
        .sentinels = &s->setup.sentinels,
        .life = &s->life,
        .host = s->host,
        .timeout_ms = (uint32_t)conf->redis_timeout_ms,
        .replicas = (uint32_t)conf->redis_replicas,
        .keeps = (enum redis_keeps)conf->redis_durability,
        .take_over = s->take_over,
        .mysql_volatile = conf->mysql_durability == CONF_RELAXED,
        .ledger_keep_ms = (uint64_t)conf->ledger_keep_ms,
        .mysql_keep_ms = (uint64_t)conf->mysql_keep_ms,
        .coalesce = coalesce,
    };
}
