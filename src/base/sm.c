/* base/sm.c - see sm.h. */
#include "base/sm.h"

#include "base/log.h"
#include "base/slice.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

bool crash_armed;
static enum crash_point armed_point;
static uint64_t armed_pass; /* ends at this pass, from 1 */
static uint64_t passes;     /* atomic: points in writer threads, too */

static const char *const names[] = {
#define X(name) #name,
    CRASH_POINTS(X)
#undef X
};

static bool list_names(const char *heading)
{
    fprintf(stderr, "%s\n", heading);
    for (int i = 0; i < CRASH_COUNT; i++)
        fprintf(stderr, "  %s\n", names[i]);
    return false;
}

static bool point_find(struct slice name)
{
    for (int i = 0; i < CRASH_COUNT; i++) {
        if (!slice_eq(name, slice_str(names[i]))) continue;
        armed_point = (enum crash_point)i;
        return true;
    }
    return false;
}

bool crash_init(void)
{
    crash_armed = false;
    passes = 0;
    armed_pass = 1;
    const char *asked = getenv("TALLYD_CRASH");
    if (asked == NULL || *asked == '\0') return true;
    if (strcmp(asked, "list") == 0) return list_names("TALLYD_CRASH=<point>[:<n>], where <point> is one of");
    const char *colon = strchr(asked, ':');
    if (!point_find(colon != NULL ? slice_of(asked, (size_t)(colon - asked)) : slice_str(asked)))
        return list_names("TALLYD_CRASH names no crash point; it is <point>[:<n>], where <point> is one of");
    if (colon != NULL && (!num_parse_u64(slice_str(colon + 1), &armed_pass) || armed_pass == 0))
        return list_names("TALLYD_CRASH: after ':' a number from 1; <point> is one of");
    crash_armed = true;
    return true;
}

void crash_hit(enum crash_point p)
{
    if (p != armed_point) return;
    if (__atomic_add_fetch(&passes, 1, __ATOMIC_RELAXED) == armed_pass) (void)kill(getpid(), SIGKILL);
}
