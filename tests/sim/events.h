/* tests/sim/events.h - the table of all that can happen, in the order of enum sim_event. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "sim/world.h"

struct event {
    const char *name;
    bool fault, of_world; /* of_world: not of one daemon */
    bool of_all;          /* of all lanes at once, not of one */
    bool (*can)(struct world *w, struct daemon *d);
    void (*run)(struct world *w, struct daemon *d);
};

extern const struct event events[EVENT_COUNT];

#endif
