/* setup/setup.h - a configuration as the rooms need it: the addresses of Redis and MySQL, the counters, and the options of
 * series, timeboxes, events and uniques. Errors that only these rooms find (in a URL, in a pattern) get their place in the
 * file here. */
#ifndef SETUP_SETUP_H
#define SETUP_SETUP_H

#include "conf/conf.h"
#include "mysql/db.h"
#include "redis/seek.h"
#include "series/op.h"
#include "status/ask.h"
#include "tls/tls.h"
#include "users/users.h"

struct setup {
    const struct conf *conf;               /* borrowed; the counters borrow its texts */
    struct redis_url redis;                /* with its password */
    uint32_t lanes;                        /* 1 but on a cluster */
    struct sentinels_config sentinels;     /* likewise */
    struct db_config mysql;                /* likewise */
    struct counters counters;              /* in the order of conf->counters; owns all; points to ops */
    struct op_limits ops;                  /* points into counters */
    struct lookup store_zone, store_names; /* table.n = 0: none */
    struct users users;                    /* as the configuration was read at the start */
    struct tls_context *doors; /* of setup_doors; NULL: no address has TLS, or it was not called */
};

/* A setup points into itself: it is never copied. Every problem is a line
 * `file:line:column: ...` in problems. False: there was one, and out is empty. */
bool setup_init(struct setup *out, const struct conf *conf, struct buf *problems) MUST_CHECK;
void setup_close(struct setup *s);

/* The certificate of the tls:// addresses, for verbs that listen there or check it: other verbs need no key. Same in
 * problems. */
bool setup_doors(struct setup *s, struct buf *problems) MUST_CHECK;

/* What each part may take of limits.memory. Only output buffers are shared out as clients need them, so one client may
 * have half of all. */
struct shares {
    size_t unread_bytes, unread_all_bytes; /* output buffers: of one client, of all */
    size_t replay_bytes;                   /* answered hits that Redis could still lose */
    size_t answers_bytes;                  /* answers to reads, in the making and unread */
    size_t halves_bytes;                   /* requests of which a part has come */
    size_t lasts_bytes;                    /* the last totals, for CTR.TOTAL ... OR STALE */
    uint32_t read_bytes;                   /* ids or names of one reply */
    uint32_t hashes, names;                /* whose state is remembered */
};
struct shares setup_shares(const struct conf *conf);

/* Where to read the state of what runs with it; borrows from s. */
struct source setup_source(const struct setup *s);

/* The users of the configuration, also after a reload; nothing is borrowed. False: problems says why, and out is
 * empty. */
bool setup_users(struct users *out, const struct conf *conf, struct buf *problems) MUST_CHECK;

/* Holds the instance's name on this machine until *fd is closed: a second process gets ERR_CONFIG. */
enum err setup_hold_name(const struct setup *s, const char *instance, int *fd, struct error *e) MUST_CHECK;

/* Warnings about TLS and doors in a valid configuration, for `check` and for the log of `run`. */

#define SECURE_SOON_S (14 * 24 * 3600) /* a warning comes this long before the end */

enum secure_level { SECURE_GOOD, SECURE_WARN, SECURE_BAD };

/* "is good until 2027-01-01 00:00 UTC (40 days)", and what to do when that is soon, or over. Of one with a certificate. */
enum secure_level secure_certificate(struct tls_context *c, char *out, size_t size);

/* Calls warn for each setting that a careful operator would change. */
void secure_warnings(const struct setup *s, void (*warn)(const char *text));

/* Between setup.c and secure.c. */

/* A line in problems for an option that is no counter's. */
void setup_problem(const struct conf *conf, enum conf_option option, const struct error *e,
                   struct buf *problems);

/* counter: CONF_GLOBAL for an option that is no counter's. */
void setup_counter_problem(const struct conf *conf, size_t counter, enum conf_option option,
                           const struct error *e, struct buf *problems);

/* Key, lock, field and columns of the i-th counter (shape.c). False: problems says why. */
bool setup_shape(struct setup *s, size_t i, struct buf *problems);

/* How Redis, its sentinels and MySQL are reached with TLS, once their URLs are read. */
bool setup_redis_tls(struct setup *s, struct buf *problems);
bool setup_sentinel_tls(struct setup *s, struct buf *problems);
bool setup_mysql_tls(struct setup *s, struct buf *problems);

#endif
