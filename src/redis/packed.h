/* redis/packed.h - small hashes that a claim took into the registry of their batch: one text, as Redis' cmsgpack writes an
 * array of name, {field, value, field, value, ...}, name, ... */
#ifndef REDIS_PACKED_H
#define REDIS_PACKED_H

#include "base/map.h"
#include "series/batch.h"

/* Adds each hash with its rows. False: no such text, or a name that `seen` has (as `=<name>`, where each is put); then b
 * has some of it. */
bool packed_file(struct batch *b, struct slice text, struct map *seen) MUST_CHECK;

#endif
