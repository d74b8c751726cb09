/* Servers of `dev`: started, ended, missing, found again after their parent was killed; and which directories
 * it takes. */
#include "admin/child.h"
#include "admin/dev.h"
#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DEADLINE_MS 30000

static char dir[64];

static int dir_make(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/tallyd-child-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int dir_remove(void **state)
{
    (void)state;
    char path[128];
    static const char *const names[] = {"one.log", "one.pid"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

#define UNTIL(condition)                                                                                     \
    do {                                                                                                     \
        uint64_t until_ms = mono_ms() + DEADLINE_MS;                                                         \
        while (!(condition)) {                                                                               \
            assert_true(mono_ms() < until_ms);                                                               \
            usleep(2000);                                                                                    \
        }                                                                                                    \
    } while (0)

static void test_runs_and_ends(void **state)
{
    (void)state;
    struct child c;
    struct error e;
    char how[80], *argv[] = {"sh", "-c", "echo said; exit 3", NULL};
    child_init(&c, "sh", NULL, dir, "one");
    assert_int_equal(child_start(&c, argv, &e), ERR_NONE);
    UNTIL(child_reap(&c));
    assert_string_equal(child_ending(&c, how, sizeof(how)), "ended with status 3");
    assert_int_equal(access(c.pid_path, F_OK), -1);
    FILE *log = fopen(c.log, "r");
    char line[16];
    assert_non_null(fgets(line, sizeof(line), log));
    fclose(log);
    assert_string_equal(line, "said\n");
}

static void test_is_ended(void **state)
{
    (void)state;
    struct child c;
    struct error e;
    char how[80], *argv[] = {"sleep", "1000", NULL};
    child_init(&c, "sleep", NULL, dir, "one");
    assert_int_equal(child_start(&c, argv, &e), ERR_NONE);
    assert_false(child_reap(&c));
    UNTIL(child_left_over(&c, "1000") ==
          c.pid); /* alive; the kernel shows its command line a moment after exec */
    assert_int_equal(child_left_over(&c, "another"), 0); /* a pid that was given to another program */
    child_signal(&c, SIGTERM);
    UNTIL(child_reap(&c));
    assert_string_equal(child_ending(&c, how, sizeof(how)), "was killed by signal 15 (Terminated)");
    assert_int_equal(child_left_over(&c, "1000"), 0);
}

static void test_missing(void **state)
{
    (void)state;
    struct child c;
    struct error e;
    char *argv[] = {"tallyd-no-such-server", NULL};
    child_init(&c, "tallyd-no-such-server", "its-package", dir, "one");
    assert_int_equal(child_start(&c, argv, &e), ERR_UNAVAILABLE);
    assert_string_equal(e.text, "tallyd-no-such-server is not installed: apt-get install its-package");
    assert_false(c.running);
    assert_false(child_reap(&c)); /* never started: it did not end, either */
}

/* When a parent is killed, the kernel ends its children. */
static void test_parent_killed(void **state)
{
    (void)state;
    struct child c;
    child_init(&c, "sleep", NULL, dir, "one");
    pid_t parent = fork();
    if (parent == 0) {
        struct error e;
        char *argv[] = {"sleep", "2000", NULL};
        if (child_start(&c, argv, &e) != ERR_NONE) _exit(1);
        pause();
    }
    UNTIL(child_left_over(&c, "2000") != 0);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    UNTIL(child_left_over(&c, "2000") == 0);
}

static void test_directories(void **state)
{
    (void)state;
    struct error e;
    char path[200] = "/";
    memset(path + 1, 'a', 93);
    assert_int_equal(dev_dir_check(path, &e), ERR_NONE); /* 94 bytes and "/control.sock" are 107 */
    strcat(path, "a");
    assert_int_equal(dev_dir_check(path, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "is 95 bytes long, but a unix socket's path may have only 107: choose a "
                                   "directory of at most 94 bytes with --dir"));
    assert_int_equal(dev_dir_check("/home/a.b-c_d/v+1", &e), ERR_NONE);
    assert_int_equal(dev_dir_check("/home/my files", &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "a byte (the 9th)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs_and_ends, dir_make, dir_remove),
        cmocka_unit_test_setup_teardown(test_is_ended, dir_make, dir_remove),
        cmocka_unit_test_setup_teardown(test_missing, dir_make, dir_remove),
        cmocka_unit_test_setup_teardown(test_parent_killed, dir_make, dir_remove),
        cmocka_unit_test(test_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
