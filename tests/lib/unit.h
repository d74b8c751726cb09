/* lib/unit.h - cmocka with the headers that it wants before it. */
#ifndef LIB_UNIT_H
#define LIB_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/slice.h"

#define assert_slice(s, text)                                                                                \
    do {                                                                                                     \
        struct slice got_ = (s);                                                                             \
        assert_int_equal(got_.n, strlen(text));                                                              \
        if (got_.n > 0) assert_memory_equal(got_.p, text, got_.n);                                           \
    } while (0)

/* UNIT(name) { ... } is a test; those of a file run in the order in which they stand there. UNIT_IN() says what is run before
 * and behind it, UNITS_IN() what before and behind all of the file; NULL: nothing. unit/main.c has them. */
void unit_add(const char *file, struct CMUnitTest test);
void units_in(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown);

#define UNIT_IN(name, setup, teardown)                                                                       \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void name##_is_added(void)                                           \
    {                                                                                                        \
        unit_add(__FILE__, (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, (setup), (teardown)));   \
    }                                                                                                        \
    static void name(void **state)
#define UNIT(name) UNIT_IN(name, NULL, NULL)
#define UNITS_IN(setup, teardown)                                                                            \
    __attribute__((constructor)) static void file_is_in(void)                                                \
    {                                                                                                        \
        units_in(__FILE__, (setup), (teardown));                                                             \
    }

#endif
