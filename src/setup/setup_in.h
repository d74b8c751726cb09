/* setup/setup_in.h - between setup.c and secure.c. */
#ifndef SETUP_SETUP_IN_H
#define SETUP_SETUP_IN_H

#include "setup/setup.h"

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
