/* base/log.h - asserts, the log, and errors. The log is logfmt on stderr, one write(2) a line: `ts=... level=info
 * event=merged batch=... rows=1204`. A log that cannot be written never stops anything. Thread-safe. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* Asserts for our own mistakes; on in release. Never for what a client, Redis or MySQL sent. */

void check_failed(const char *kind, const char *what, const char *file, int line)
    __attribute__((noreturn, cold));

#define CHECK_(kind, e, text) ((e) ? (void)0 : check_failed(kind, text, __FILE__, __LINE__))
#define PRE(e) CHECK_("precondition", e, #e)
#define POST(e) CHECK_("postcondition", e, #e)
#define INVARIANT(e) CHECK_("invariant", e, #e)
#define UNREACHABLE() check_failed("unreachable", "", __FILE__, __LINE__)

#define MUST_CHECK __attribute__((warn_unused_result))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)(((char *)(ptr)) - offsetof(type, member)))

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level least);
/* Is stderr the journal (JOURNAL_STREAM names it)? Then each line begins with its priority, `<6>`, as in sd-daemon(3),
 * for journalctl -p. Called once, before there are threads. */
void log_journal_detect(void);
const char *log_priority(enum log_level level); /* "<3>"; "" where stderr is no journal */

/* fmt makes the pairs after event=; use LOGQ() around a text that may hold spaces, quotes or control bytes. */
void log_event(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An event that any client can cause any number of times is logged once in ten seconds. True: log now, for the *times
 * that came since the last line. Each place has a static one, all zero. Thread-safe. */
struct log_seldom {
    uint64_t next_ms;
    unsigned unlogged;
};
bool log_seldom(struct log_seldom *s, unsigned *times);

/* Quoted and escaped as logfmt wants it; lives in one of 8 thread-local buffers, so at most 8 in one log_event. */
const char *log_quote(const char *text);
#define LOGQ(text) log_quote(text)

/* An error: a code that decides what happens next, and a text with the next step for people. */

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
