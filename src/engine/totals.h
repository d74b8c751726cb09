/* engine/totals.h - CTR.TOTAL: what is asked for and not answered. */
#ifndef ENGINE_TOTALS_H
#define ENGINE_TOTALS_H

#include "engine/core.h"
#include "series/asks.h"

struct totals {
    struct core *core;
    struct list waiting;       /* of struct total_task, for the next round */
    struct total_round *round; /* under way, NULL: none */
};

void totals_init(struct totals *ts, struct core *core);
void totals_ask(struct totals *ts, struct total_request *q);

#endif
