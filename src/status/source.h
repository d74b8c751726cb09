/* status/source.h - where the state of a running tallyd is read from: its configuration, its Redis, its MySQL. All
 * borrowed. */
#ifndef STATUS_SOURCE_H
#define STATUS_SOURCE_H

#include "conf/conf.h"
#include "mysql/db.h"
#include "redis/url.h"
#include "series/counter.h"

struct sentinels_config;

struct source {
    const struct conf *conf;
    const struct counters *counters; /* in the order of conf's */
    const struct redis_url *redis;
    uint32_t lanes;                           /* 1 but on a cluster */
    const struct sentinels_config *sentinels; /* n 0: none */
    const struct db_config *mysql;
};

#endif
