/* tests/sim/ports.h - the ports that coalesce and sync are given: requests put on links. And the other
 * direction: a reply filed into the asker's struct, and the asker called. */
#ifndef SIM_PORTS_H
#define SIM_PORTS_H

#include "sim/daemon.h"

/* NULL: there was no link; the target is told later that it is lost. */
struct request *ports_ask(struct process *life, enum role role, enum request_kind kind, void *target);
struct coalesce_ports ports_coalesce(struct process *life);
struct sync_ports ports_sync(struct process *life);
void ports_deliver(struct process *life,
                   struct request *q); /* q was run by Redis and is freed by the caller */
void ports_keep(struct frame *f, const struct wire_frame *ran);
void ports_lost(struct process *life, const struct lost *lost);

#endif
