/* app/settings.c - from options to the rooms' own structs. The instance's lock is a name in the abstract
 * socket space: it needs no directory and no rights, and is gone with the process, however that ends. */
#include "app/settings.h"
#include "base/heap.h"
#include "base/log.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static enum err where(const struct conf *conf, size_t counter, enum conf_option option, struct error *e)
{
    char place[300];
    return error_prefix(e, "%s", conf_where(conf, counter, option, place, sizeof place));
}

static struct slice text_or_empty(const char *text)
{
    return text == NULL ? SLICE("") : slice_str(text);
}

static enum err counter_build(const struct conf *conf, size_t i, struct counter *out, struct error *e)
{
    const struct conf_counter *c = &conf->counters[i];
    *out = (struct counter){
        .name = slice_str(c->name),
        .field = (enum field_kind)c->field,
        .store = (enum store_kind)c->store,
        .hits = c->hits,
        .every_s = (uint32_t)c->every_s,
        .table = slice_str(c->table),
        .column_store = text_or_empty(c->column_store),
        .column_field = slice_str(c->column_field),
        .column_count = slice_str(c->column_count),
    };
    if (pattern_parse(slice_str(c->key), &out->key, e) != ERR_NONE)
        return where(conf, i, CONF_COUNTER_KEY, e);
    if (pattern_parse(slice_str(c->lock), &out->lock, e) != ERR_NONE)
        return where(conf, i, CONF_COUNTER_LOCK, e);
    return ERR_NONE;
}

static enum err counters_build(const struct conf *conf, struct counters *out, struct error *e)
{
    out->n = conf->counters_n;
    out->all = heap_zalloc(out->n * sizeof *out->all);
    for (size_t i = 0; i < out->n; i++)
        if (counter_build(conf, i, &out->all[i], e) != ERR_NONE) return e->code;
    size_t which = 0;
    if (counters_validate(out, &which, e) != ERR_NONE) return where(conf, which, CONF_COUNTER_KEY, e);
    return ERR_NONE;
}

static enum err redis_build(const struct conf *conf, struct redis_url *out, struct error *e)
{
    if (redis_url_parse(slice_str(conf->redis_url), out, e) != ERR_NONE)
        return where(conf, CONF_GLOBAL, CONF_REDIS_URL, e);
    if (conf->redis_password != NULL) redis_url_set_password(out, slice_str(conf->redis_password));
    return ERR_NONE;
}

static enum err db_build(const struct conf *conf, struct db_config *out, struct error *e)
{
    db_config_init(out);
    if (db_config_parse(slice_str(conf->mysql_url), out, e) != ERR_NONE)
        return where(conf, CONF_GLOBAL, CONF_MYSQL_URL, e);
    if (conf->mysql_password != NULL) db_config_set_password(out, slice_str(conf->mysql_password));
    out->read_timeout_s = out->write_timeout_s = (uint32_t)((conf->mysql_timeout_ms + 999) / 1000);
    return ERR_NONE;
}

static void instance_name(const struct conf *conf, char out[NAME_BYTES_MAX + 1])
{
    if (conf->instance != NULL && conf->instance[0] != '\0') {
        snprintf(out, NAME_BYTES_MAX + 1, "%s", conf->instance);
        return;
    }
    char host[256] = "tallyd";
    gethostname(host, sizeof host - 1);
    snprintf(out, NAME_BYTES_MAX + 1, "%.64s", host);
    for (char *p = out; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!plain && *p != '.' && *p != '-' && *p != '_') *p = '-';
    }
}

static void host_id(char *out, size_t size)
{
    char boot[40] = "unknown", space[64] = "unknown";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL) {
        if (fgets(boot, sizeof boot, f) != NULL) boot[strcspn(boot, "\n")] = '\0';
        fclose(f);
    }
    ssize_t n = readlink("/proc/self/ns/net", space, sizeof space - 1);
    if (n > 0) space[n] = '\0';
    snprintf(out, size, "%s:%s", boot, space);
}

enum err settings_build(const struct conf *conf, struct settings *out, struct error *e)
{
    *out = (struct settings){.conf = conf};
    enum err code = counters_build(conf, &out->counters, e);
    if (code == ERR_NONE) code = redis_build(conf, &out->redis, e);
    if (code == ERR_NONE) code = db_build(conf, &out->db, e);
    if (code != ERR_NONE) {
        settings_close(out);
        return code;
    }
    instance_name(conf, out->instance);
    host_id(out->host, sizeof out->host);
    life_init(&out->life, slice_str(out->instance));
    out->stop_within_ms = (uint64_t)conf->stop_within_ms;
    log_set_level((enum log_level)conf->log_level);
    return ERR_NONE;
}

void settings_close(struct settings *s)
{
    heap_free(s->counters.all);
    redis_url_close(&s->redis);
    db_config_close(&s->db);
    *s = (struct settings){0};
}

void settings_reload(struct settings *s, const struct conf *wanted)
{
    log_set_level((enum log_level)wanted->log_level);
    s->stop_within_ms = (uint64_t)wanted->stop_within_ms;
    struct buf names = {0};
    if (conf_needs_restart(s->conf, wanted, &names) > 0)
        log_event(LOG_WARN, "reload", "needs_restart=\"%.*s\"", SLICE_ARG(buf_slice(&names)));
    else
        log_event(LOG_INFO, "reload", "outcome=taken_over");
    buf_free(&names);
}

enum err settings_lock_name(const struct settings *s, int *fd, struct error *e)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *where_redis = s->redis.path != NULL ? s->redis.path : s->redis.host;
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tallyd:%s:%d:%d:%s", s->instance,
                     s->redis.port, s->redis.db, where_redis);
    size_t most = sizeof name.sun_path - 2;
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + ((size_t)n < most ? (size_t)n : most));
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && bind(*fd, (const struct sockaddr *)&name, length) == 0) return ERR_NONE;
    bool taken = errno == EADDRINUSE;
    if (*fd >= 0) close(*fd);
    *fd = -1;
    if (taken)
        return error_set(
            e, ERR_CONFIG,
            "another tallyd runs on this machine under the instance name '%s' with the same Redis; stop it, "
            "or give this one a name of its own (option `instance`)",
            s->instance);
    return error_set(e, ERR_FAILED, "cannot hold the instance name '%s': %s", s->instance, strerror(errno));
}
