/* base/crash.h - named crash points: TALLYD_CRASH=<point>[:<n>] in the environment makes the process end itself with
 * SIGKILL when it passes the point for the n-th time (default 1). Off, and one predictable branch, by default.
 * TALLYD_CRASH=list makes `tallyd run` print the names and exit. */
#ifndef BASE_CRASH_H
#define BASE_CRASH_H

#include <stdbool.h>

#define CRASH_POINTS(X)                                                                                      \
    X(frame_before_send)                                                                                     \
    X(frame_after_send)                                                                                      \
    X(frame_applied)                                                                                         \
    X(claim_before_send)                                                                                     \
    X(claim_after_send)                                                                                      \
    X(claim_done)                                                                                            \
    X(scan_mid)                                                                                              \
    X(scan_done)                                                                                             \
    X(fence_mid)                                                                                             \
    X(fence_done)                                                                                            \
    X(merge_after_ledger)                                                                                    \
    X(merge_before_commit)                                                                                   \
    X(merge_after_commit)                                                                                    \
    X(merge_between_chunks)                                                                                  \
    X(discard_before_send)                                                                                   \
    X(discard_after_send)                                                                                    \
    X(discard_done)

enum crash_point {
#define X(name) CRASH_##name,
    CRASH_POINTS(X)
#undef X
        CRASH_COUNT
};

extern bool crash_armed;
bool crash_init(void); /* reads the environment; false: it names no point (the names are on stderr) */
void crash_hit(enum crash_point p);

#define CRASH(name)                                                                                          \
    do {                                                                                                     \
        if (__builtin_expect(crash_armed, 0)) crash_hit(CRASH_##name);                                       \
    } while (0)

#endif
