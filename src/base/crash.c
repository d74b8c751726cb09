/* base/crash.c - see crash.h. */
#include "base/crash.h"

#include "base/num.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
