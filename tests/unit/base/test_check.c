/* Errors that stop the process: broken promises, moves that no table allows, an empty heap. Errors that do not. */
#include "lib/unit.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/sm.h"
#include "lib/child.h"

static void break_precondition(void *arg)
{
    PRE(arg != NULL);
}

UNIT(a_broken_promise_is_logged_and_ends_it)
{
    struct child_end end = child_run(break_precondition, NULL);
    assert_true(child_was_killed(&end, SIGABRT));
    assert_non_null(
        strstr(end.stderr_, "level=error event=assert kind=precondition what=\"arg != NULL\" file="));
    assert_non_null(strstr(end.stderr_, "test_check.c line="));
    int kept = 1;
    end = child_run(break_precondition, &kept);
    assert_true(child_exited(&end));
}

enum { DOOR_OPEN, DOOR_SHUT, DOOR_GONE };
static const struct sm_state door[] = {
    [DOOR_OPEN] = {"open", TO(DOOR_SHUT)},
    [DOOR_SHUT] = {"shut", TO(DOOR_OPEN) | TO(DOOR_GONE)},
    [DOOR_GONE] = {"gone", 0},
};

static void leave_gone(void *arg)
{
    struct sm *m = arg;
    sm_move(m, DOOR_OPEN);
}

UNIT(a_machine_moves_only_as_its_table_says)
{
    struct sm m;
    sm_init(&m, door, DOOR_OPEN);
    assert_string_equal(sm_name(&m), "open");
    sm_move(&m, DOOR_SHUT);
    sm_move(&m, DOOR_GONE);
    assert_int_equal(sm_now(&m), DOOR_GONE);
    struct child_end end = child_run(leave_gone, &m);
    assert_true(child_was_killed(&end, SIGABRT));
    assert_non_null(strstr(end.stderr_, "what=\"no move from state gone to state number 0\""));
}

static void *no_memory(void *arg, void *p, size_t size)
{
    return NULL;
}

static void no_free(void *arg, void *p) {}

static void ask_an_empty_heap(void *arg)
{
    static const struct heap empty = {no_memory, no_free, NULL};
    heap_replace(&empty);
    heap_free(heap_alloc(77));
}

UNIT(an_empty_heap_is_logged_and_ends_it)
{
    struct child_end end = child_run(ask_an_empty_heap, NULL);
    assert_true(child_was_killed(&end, SIGABRT));
    assert_non_null(strstr(end.stderr_, "event=out_of_memory asked_bytes=77"));
}

static void *count_get(void *arg, void *p, size_t size)
{
    int *gets = arg;
    *gets += p == NULL;
    return realloc(p, size);
}

static void count_free(void *arg, void *p)
{
    int *gets = arg;
    *gets -= 1;
    free(p);
}

UNIT(the_heap_can_be_replaced)
{
    int held = 0;
    struct heap counting = {count_get, count_free, &held};
    heap_replace(&counting);
    char *a = heap_strndup("abc", 2), *b = heap_strdup("xyz"), *c = heap_zalloc(3);
    void *none = heap_alloc(0);
    a = heap_realloc(a, 1000);
    none = heap_realloc(none, 0);
    assert_int_equal(held, 4);
    assert_string_equal(a, "ab");
    assert_string_equal(b, "xyz");
    assert_memory_equal(c, "\0\0\0", 3);
    assert_non_null(none);
    heap_free(a), heap_free(b), heap_free(c), heap_free(none), heap_free(NULL);
    assert_int_equal(held, 0);
    heap_replace(NULL);
}

UNIT(errors_gain_prefixes_and_stay_one_line)
{
    struct error e = {0};
    assert_int_equal(error_set(NULL, ERR_USAGE, "x"), ERR_USAGE);
    assert_int_equal(error_set(&e, ERR_UNAVAILABLE, "lost\nconnection %d\r\n", 3), ERR_UNAVAILABLE);
    assert_string_equal(e.text, "lost connection 3");
    assert_int_equal(error_prefix(&e, "merge %s", "commit"), ERR_UNAVAILABLE);
    assert_string_equal(e.text, "merge commit: lost connection 3");
    assert_int_equal(error_exit_status(e.code), 69);
    assert_int_equal(error_exit_status(ERR_NONE), 0);
    assert_int_equal(error_exit_status(ERR_CONFIG), 78);
}

UNIT(long_errors_are_cut)
{
    struct error e = {0};
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)error_set(&e, ERR_FAILED, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    (void)error_prefix(&e, "first");
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_memory_equal(e.text, "first: xxx", 10);
    (void)error_prefix(&e, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}
