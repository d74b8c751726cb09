/* base/sm.h - an explicit state machine: a table of states, each with the set of states it may move to. A move that
 * the table does not allow is our bug and stops the process. */
#ifndef BASE_SM_H
#define BASE_SM_H

#include <stdint.h>

struct sm_state {
    const char *name;
    uint32_t to; /* set of TO(state) */
};
#define TO(state) (UINT32_C(1) << (state))

struct sm {
    const struct sm_state *table;
    int now;
};

void sm_init(struct sm *m, const struct sm_state *table, int first);
void sm_move(struct sm *m, int next);
static inline int sm_now(const struct sm *m)
{
    return m->now;
}
static inline const char *sm_name(const struct sm *m)
{
    return m->table[m->now].name;
}

#endif
