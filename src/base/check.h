/* base/check.h - asserts for our own mistakes; on in release. Never for what a client, Redis or MySQL sent. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

void check_failed(const char *kind, const char *what, const char *file, int line)
    __attribute__((noreturn, cold));

#define CHECK_(kind, e, text) ((e) ? (void)0 : check_failed(kind, text, __FILE__, __LINE__))
#define PRE(e) CHECK_("precondition", e, #e)
#define POST(e) CHECK_("postcondition", e, #e)
#define INVARIANT(e) CHECK_("invariant", e, #e)
#define UNREACHABLE() check_failed("unreachable", "", __FILE__, __LINE__)

#define MUST_CHECK __attribute__((warn_unused_result))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)(((char *)(ptr)) - offsetof(type, member)))

#endif
