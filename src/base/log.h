/* base/log.h - logfmt on stderr, one write(2) a line: `ts=... level=info event=merged batch=... rows=1204`.
 * A log that cannot be written never stops anything. Thread-safe. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
