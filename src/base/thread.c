/* base/thread.c - see thread.h. glibc has had no wrappers for these system calls until 2.41. */
#include "base/thread.h"
#include <linux/sched.h>
#include <linux/sched/types.h> /* not beside sched.h: both have struct sched_param */
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROMPT_NS 100000 /* the shortest that the kernel allows */

/* nice and policy stay as they are but for what is added. */
static void slice_set(uint64_t slice_ns, int nice_more)
{
    struct sched_attr now = {.size = sizeof now};
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.sched_policy != SCHED_NORMAL) return;
    int nice = now.sched_nice + nice_more;
    struct sched_attr next = {.size = sizeof next,
                              .sched_policy = SCHED_NORMAL,
                              .sched_nice = nice < 19 ? nice : 19,
                              .sched_runtime = slice_ns};
    (void)syscall(SYS_sched_setattr, 0, &next, 0);
}

void thread_prompt(void)
{
    slice_set(PROMPT_NS, 0);
}

void thread_behind(int steps)
{
    static _Thread_local bool is_behind;
    if (!is_behind) slice_set(0, steps);
    is_behind = true;
}
