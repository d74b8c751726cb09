/* What threads ask of the kernel, as the kernel has it afterwards. */
#include "lib/unit.h"

#include "base/thread.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000

struct attributes { /* struct sched_attr as it was first; its header does not go beside sched.h */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static struct attributes now(void)
{
    struct attributes a = {.size = sizeof a};
    assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof a, 0), 0);
    return a;
}

/* A kernel before 6.12 knows no slices of SCHED_OTHER, and tells 0. */
static bool slices_are_known(void)
{
    return now().runtime != 0;
}

static void *prompt(void *arg)
{
    struct attributes before = now();
    thread_prompt();
    assert_int_equal(now().nice, before.nice);
    if (slices_are_known()) assert_int_equal(now().runtime, SLICE_NS);
    return NULL;
}

static void *behind(void *arg)
{
    struct attributes before = now();
    int nice = before.nice + 10 < 19 ? before.nice + 10 : 19;
    thread_prompt();
    for (int times = 0; times < 2; times++) {
        thread_behind(10);
        assert_int_equal(now().nice, nice);
        if (slices_are_known()) assert_int_equal(now().runtime, before.runtime);
    }
    return arg;
}

/* Another policy was an operator's choice. */
static void *batch(void *arg)
{
    assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}), 0);
    struct attributes before = now();
    thread_prompt();
    thread_behind(10);
    assert_int_equal(now().policy, SCHED_BATCH);
    assert_int_equal(now().nice, before.nice);
    return arg;
}

static void in_a_thread(void *(*run)(void *))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

UNIT(the_loop_has_a_short_slice)
{
    in_a_thread(prompt);
}

UNIT(others_are_behind_and_have_the_kernels_slice)
{
    in_a_thread(behind);
}

UNIT(another_policy_stays)
{
    in_a_thread(batch);
}
