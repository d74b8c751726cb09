/* redis/packed.h - small hashes that a claim moved into the registry of their batch: one text, an array of name,
 * {field, value, field, value, ...}, name, ... as Redis' cmsgpack writes it */
#ifndef REDIS_PACKED_H
#define REDIS_PACKED_H

#include "base/map.h"
#include "series/batch.h"

/* Adds each hash with its rows. False: not such a text, or a name is in `seen` already (as `=<name>`, where each is
 * put); then b has some of it. */
bool packed_file(struct batch *b, struct slice text, struct map *seen) MUST_CHECK;

#endif
