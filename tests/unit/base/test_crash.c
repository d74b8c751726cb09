/* Crash points: off, at the n-th pass, over threads, and unknown names. */
#include "lib/unit.h"

#include "base/sm.h"
#include "lib/child.h"

#include <pthread.h>

struct plan {
    const char *asked;
    int passes;
    bool threads;
};

static pthread_barrier_t start;

static void *pass(void *arg)
{
    const int *passes = arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < *passes; i++) {
        CRASH(merge_before_commit);
        CRASH(merge_after_commit);
    }
    return NULL;
}

static void run(void *arg)
{
    struct plan *plan = arg;
    pthread_t other;
    unsetenv("TALLYD_CRASH");
    if (plan->asked != NULL) setenv("TALLYD_CRASH", plan->asked, 1);
    if (!crash_init()) _exit(78);
    if (pthread_barrier_init(&start, NULL, plan->threads ? 2 : 1) != 0) abort();
    if (plan->threads && pthread_create(&other, NULL, pass, &plan->passes) != 0) abort();
    pass(&plan->passes);
    if (plan->threads) pthread_join(other, NULL);
}

static struct child_end ended(const char *asked, int passes, bool threads)
{
    return child_run(run, &(struct plan){asked, passes, threads});
}

UNIT(is_off_by_default)
{
    struct child_end end = ended(NULL, 5, false);
    assert_true(child_exited(&end));
    end = ended("", 5, false);
    assert_true(child_exited(&end));
    end = ended("scan_mid", 5, false);
    assert_true(child_exited(&end));
}

UNIT(kills_at_the_pass_asked_for)
{
    struct child_end end = ended("merge_before_commit", 1, false);
    assert_true(child_was_killed(&end, SIGKILL));
    end = ended("merge_before_commit:3", 2, false);
    assert_true(child_exited(&end));
    end = ended("merge_before_commit:3", 3, false);
    assert_true(child_was_killed(&end, SIGKILL));
}

UNIT(counts_passes_of_all_threads)
{
    struct child_end end = ended("merge_after_commit:2000000", 1000000, true);
    assert_true(child_was_killed(&end, SIGKILL));
    end = ended("merge_after_commit:2000001", 1000000, true);
    assert_true(child_exited(&end));
}

UNIT(refuses_other_names)
{
    static const char *const asked[] = {"list",
                                        "merge",
                                        "merge_before_commit:0",
                                        "merge_before_commit:x",
                                        "merge_before_commit:",
                                        ":1",
                                        "merge_before_commit:1:1"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct child_end end = ended(asked[i], 1, false);
        assert_true(WIFEXITED(end.status));
        assert_int_equal(WEXITSTATUS(end.status), 78);
        assert_non_null(strstr(end.stderr_, "\n  frame_before_send\n"));
        assert_non_null(strstr(end.stderr_, "\n  discard_done\n"));
    }
}
