#ifndef ENGINE_GATE_H
#define ENGINE_GATE_H
#include "engine/core.h"
void gate_redis(struct core *c); /* a link came up */
void gate_mysql(struct core *c, bool up);
void gate_tick(struct core *c, uint64_t now_ms);
bool gate_open(const struct core *c);           /* sync merges */
void gate_merged(struct core *c, uint64_t gen); /* a batch of that gen is merged as a whole */
#endif
