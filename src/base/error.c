/* base/error.c - see log.h. Texts are made one line here, since logs and Redis' error replies are lines. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void one_line(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        text[--n] = '\0';
    for (; *text != '\0'; text++)
        if (*text == '\n' || *text == '\r') *text = ' ';
}

enum err error_set(struct error *e, enum err code, const char *fmt, ...)
{
    if (e == NULL) return code;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    one_line(e->text);
    e->code = code;
    return code;
}

enum err error_prefix(struct error *e, const char *fmt, ...)
{
    PRE(e != NULL && e->code != ERR_NONE);
    char all[2 * sizeof e->text + 2]; /* the prefix, ": ", the text; room for both at their longest */
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(all, sizeof e->text, fmt, args);
    va_end(args);
    INVARIANT(n >= 0);
    size_t at = (size_t)n < sizeof e->text ? (size_t)n : sizeof e->text - 1;
    (void)snprintf(all + at, sizeof all - at, ": %s", e->text);
    size_t kept = strnlen(all, sizeof e->text - 1);
    memcpy(e->text, all, kept);
    e->text[kept] = '\0';
    one_line(e->text);
    return e->code;
}

int error_exit_status(enum err code)
{
    switch (code) {
#define X(name, status, text)                                                                                \
    case name:                                                                                               \
        return status;
        ERROR_CODES(X)
#undef X
    }
    UNREACHABLE();
}
