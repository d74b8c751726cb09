/* redis/info.h - reads the text that INFO answers. */
#ifndef REDIS_INFO_H
#define REDIS_INFO_H

#include "redis/link.h"

/* The value of `key:value` in INFO's text. False: no such line. */
bool info_get(struct slice info, const char *key, struct slice *value);
bool info_is(struct slice info, const char *key, const char *value);
/* Fills all of f but appendfsync. False: it is no INFO text of a Redis server. */
bool info_facts(struct slice info, struct redis_facts *f);

#endif
