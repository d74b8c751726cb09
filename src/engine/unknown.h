/* engine/unknown.h - batches of counters that are not configured here: named, and on request moved to
 * tally_rejects. */
#ifndef ENGINE_UNKNOWN_H
#define ENGINE_UNKNOWN_H

#include "engine/core.h"

struct unknown_result {
    bool failed;
    char text[300];
    int64_t rows; /* moved to tally_rejects */
};

struct unknown_how {
    bool reject;
    void (*found)(void *arg, struct slice name); /* "<id> of counter <name>...", for the call only */
    void (*done)(void *arg, const struct unknown_result *u); /* once */
    void *arg;
};

void unknown_start(struct core *c, const struct unknown_how *how);

#endif
