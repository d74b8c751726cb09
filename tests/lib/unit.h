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

#endif
