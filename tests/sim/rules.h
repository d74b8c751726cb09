/* tests/sim/rules.h - the rules that can be taken out, one at a time (coalesce/README.md, sync/README.md), each with a
 * profile: how the drawn configuration is bent so that its fault comes about soon, in the same world, before
 * the same oracle. */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "sim/model.h"

struct sim_rule {
    const char *name;
    const char *without; /* what goes wrong without it */
    uint32_t coalesce_off, sync_off;
    uint64_t world_off;
    uint32_t coalesce_too, sync_too; /* out in both runs: they would heal, or hold, what this one prevents */
    uint32_t faults;                 /* set of 1 << enum fault: how that may show */
    unsigned seeds;                  /* the fault is found within this many; 0: no rule, only a profile */
    void (*profile)(struct sim_config *c);
    uint32_t lanes_off;
};

extern const struct sim_rule sim_rules[];
extern const unsigned sim_rules_n;
const struct sim_rule *sim_rule_find(const char *name);
/* Where a proof's search begins: shortly before a seed that is known to show the fault, if it is rare. */
uint64_t sim_rule_first_seed(const struct sim_rule *rule);

#endif
