/* base/sm.c - see sm.h. */
#include "base/sm.h"

#include "base/check.h"

#include <stddef.h>
#include <stdio.h>

#define STATES_MAX 32 /* bits of sm_state.to */

void sm_init(struct sm *m, const struct sm_state *table, int first)
{
    PRE(table != NULL && first >= 0 && first < STATES_MAX);
    m->table = table;
    m->now = first;
}

void sm_move(struct sm *m, int next)
{
    PRE(next >= 0 && next < STATES_MAX);
    if ((m->table[m->now].to & TO(next)) == 0) {
        char what[160]; /* next may be outside the table, so its number, not its name */
        (void)snprintf(what, sizeof what, "no move from state %s to state number %d", sm_name(m), next);
        check_failed("invariant", what, __FILE__, __LINE__);
    }
    m->now = next;
}
