/* tests/sim/totals.h - live totals, from the client that asks to the twins that answer. */
#ifndef SIM_TOTALS_H
#define SIM_TOTALS_H

#include "series/batches.h"
#include "sim/redis_twin.h"

struct process;

void totals_wire(struct process *life);
void totals_draw(struct process *life); /* a client asks for one */
void totals_run(const struct redis *r, struct wire_total *t);
void totals_deliver(const struct world *w, struct total_read *r, const struct wire_total *t);
void totals_lost(struct total_read *r);

#endif
