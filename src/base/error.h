/* base/error.h - an error: a code that decides what happens next, and a text with the next step for people. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/check.h"

/* code, exit status of a CLI verb that ends with it, meaning */
#define ERROR_CODES(X)                                                                                       \
    X(ERR_NONE, 0, "no error")                                                                               \
    X(ERR_FAILED, 1, "a run failed or the books do not balance")                                             \
    X(ERR_USAGE, 64, "wrong command line")                                                                   \
    X(ERR_UNAVAILABLE, 69, "Redis or MySQL cannot be reached")                                               \
    X(ERR_BUSY, 75, "another program works there; try again")                                                \
    X(ERR_CONFIG, 78, "configuration or schema refused")

enum err {
#define X(code, status, text) code,
    ERROR_CODES(X)
#undef X
};

struct error {
    enum err code;
    char text[1000]; /* one line, no newline at the end, never a secret */
};

/* Fills e (which may be NULL) and returns code, so `return error_set(e, ...)` reads as one step. */
enum err error_set(struct error *e, enum err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "<what fmt says>: " before the text of e, which is set; returns its code. */
enum err error_prefix(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int error_exit_status(enum err code);

#endif
