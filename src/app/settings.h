/* app/settings.h - a configuration as the rooms need it: counters, addresses, this process' names. Borrows from struct
 * conf, which must outlive it. */
#ifndef APP_SETTINGS_H
#define APP_SETTINGS_H

#include "engine/core.h"
#include "series/names.h"
#include "setup/setup.h"

struct settings {
    const struct conf *conf;
    struct setup setup; /* counters, and where Redis and MySQL are */
    char instance[NAME_BYTES_MAX + 1];
    char host[128]; /* "<boot id>:<network namespace>", the same for two processes that can meet on a local
                       name */
    struct life life;
    uint64_t stop_timeout_ms;
    bool take_over; /* as in engine/core.h */
};

/* e names file, line and column of what is wrong. */
enum err settings_build(const struct conf *conf, struct settings *out, struct error *e) MUST_CHECK;
void settings_close(struct settings *s);

/* Takes over the options that a reload may change (conf/conf.h), logs which others would need a restart, and reads
 * certificates again. */
void settings_reload(struct settings *s, const struct conf *wanted);

struct lane_config settings_lane(const struct settings *s, uint32_t lane); /* borrows from s */

/* The life of certificates in a running service: logged at the start, checked once a day, read again at a SIGHUP. */

/* Those of the tls:// addresses. e names file, line and column of what is wrong. */
enum err certificates_load(struct settings *s, struct error *e) MUST_CHECK;
/* Logs connections without TLS, or without proof. */
void certificates_begin(const struct settings *s);
/* Logs how long they last, at the first call and once a day; *due_ms begins with 0. */
void certificates_tick(struct settings *s, uint64_t now_ms, uint64_t *due_ms);

#endif
