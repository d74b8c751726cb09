/* base/log.c - see log.h. A line is at most PIPE_BUF bytes, so that lines of several threads, or processes, that share
 * a pipe never mix. A longer one loses its last pairs and gains cut=true. */
#include "base/log.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX PIPE_BUF
#define QUOTED_BYTES_MAX 1400
#define QUOTED_AT_ONCE 8
#define STUCK_MS 100
#define SELDOM_MS 10000

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const priorities[] = {"<7>", "<6>", "<4>", "<3>"};
static int least_level = LOG_INFO; /* atomic: a reload sets it while writer threads log */
static bool is_journal;

void log_set_level(enum log_level least)
{
    __atomic_store_n(&least_level, (int)least, __ATOMIC_RELAXED);
}

/* The variable is inherited even when stderr is redirected, so it must name what stderr is. */
void log_journal_detect(void)
{
    const char *named = getenv("JOURNAL_STREAM");
    struct stat st;
    char is[64];
    is_journal = false;
    if (named == NULL || fstat(STDERR_FILENO, &st) != 0) return;
    snprintf(is, sizeof is, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    is_journal = strcmp(named, is) == 0;
}

const char *log_priority(enum log_level level)
{
    return is_journal ? priorities[level] : "";
}

/* Writes the priority, ts= level= event=; returns how many bytes. */
static size_t line_head(char *line, size_t size, enum log_level level, const char *event)
{
    int64_t now_ms = wall_ms();
    time_t now_s = (time_t)(now_ms / 1000);
    struct tm utc;
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now_s, &utc));
    int n = snprintf(line, size, "%sts=%s.%03dZ level=%s event=%s", log_priority(level), date,
                     (int)(now_ms % 1000), level_names[level], event);
    return (size_t)n < size ? (size_t)n : size - 1;
}

/* Ends the line at the last border of two pairs at or before `most`; a space inside quotes is no border. */
static size_t line_cut(char *line, size_t most)
{
    static const char mark[] = " cut=true";
    size_t border = 0;
    bool quoted = false;
    for (size_t i = 0; i <= most - (sizeof mark - 1); i++) {
        if (line[i] == ' ' && !quoted) border = i;
        if (line[i] == '"') quoted = !quoted;
        if (line[i] == '\\' && quoted) i++;
    }
    memcpy(line + border, mark, sizeof mark - 1);
    return border + sizeof mark - 1;
}

/* The reader of stderr may be stuck: tallyd waits once, and not again until stderr has taken a line. A pipe or socket
 * that polls as writable takes a whole line. */
static bool stderr_takes(void)
{
    static int stuck; /* atomic */
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready = poll(&out, 1, __atomic_load_n(&stuck, __ATOMIC_RELAXED) ? 0 : STUCK_MS);
    __atomic_store_n(&stuck, ready == 0, __ATOMIC_RELAXED);
    return ready != 0;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    if ((int)level < __atomic_load_n(&least_level, __ATOMIC_RELAXED)) return;
    char line[LINE_BYTES_MAX + 1]; /* one for the NUL of printf, where the newline goes */
    size_t n = line_head(line, sizeof line, level, event);
    line[n++] = ' ';
    va_list args;
    va_start(args, fmt);
    int more = vsnprintf(line + n, sizeof line - n, fmt, args);
    va_end(args);
    if (more < 0) more = 0;
    bool whole = (size_t)more < LINE_BYTES_MAX - n;
    n = whole ? n + (size_t)more : line_cut(line, LINE_BYTES_MAX - 1);
    while (n > 0 && line[n - 1] == ' ')
        n--;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ') line[i] = '?';
    line[n++] = '\n';
    /* stderr may be gone or full: then the line is lost, never the service. */
    int saved = errno;
    while (stderr_takes() && write(STDERR_FILENO, line, n) < 0 && errno == EINTR)
        continue;
    errno = saved;
}

static bool text_is_plain(const char *text)
{
    if (*text == '\0') return false;
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~' || *text == '"' || *text == '=' || *text == '\\') return false;
    return true;
}

/* One byte as it appears between quotes; a byte that is not printable ASCII becomes \xNN, so that journald takes the
 * line as text. */
static size_t escape(char c, char out[5])
{
    if (c == '"' || c == '\\') return (size_t)snprintf(out, 5, "\\%c", c);
    if (c == '\n') return (size_t)snprintf(out, 5, "\\n");
    if (c == '\r') return (size_t)snprintf(out, 5, "\\r");
    if (c == '\t') return (size_t)snprintf(out, 5, "\\t");
    if (c >= ' ' && c <= '~') return (size_t)snprintf(out, 5, "%c", c);
    return (size_t)snprintf(out, 5, "\\x%02x", (unsigned char)c);
}

const char *log_quote(const char *text)
{
    static _Thread_local char buffers[QUOTED_AT_ONCE][QUOTED_BYTES_MAX];
    static _Thread_local unsigned turn;
    if (text == NULL) text = "";
    if (text_is_plain(text) && strlen(text) < QUOTED_BYTES_MAX) return text;
    char *out = buffers[turn++ % QUOTED_AT_ONCE], one[5];
    size_t n = 0, room = QUOTED_BYTES_MAX - sizeof "...\"";
    out[n++] = '"';
    for (; *text != '\0'; text++) {
        size_t more = escape(*text, one);
        if (n + more > room) break;
        memcpy(out + n, one, more);
        n += more;
    }
    memcpy(out + n, *text != '\0' ? "...\"" : "\"", *text != '\0' ? 5 : 2);
    return out;
}

bool log_seldom(struct log_seldom *s, unsigned *times)
{
    uint64_t now_ms = mono_ms(), due_ms = __atomic_load_n(&s->next_ms, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->unlogged, 1, __ATOMIC_RELAXED);
    if (now_ms < due_ms || !__atomic_compare_exchange_n(&s->next_ms, &due_ms, now_ms + SELDOM_MS, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    *times = __atomic_exchange_n(&s->unlogged, 0, __ATOMIC_RELAXED);
    return true;
}

/* An assert failed: log it, then stop. A restart recovers; going on could double hits. */

void check_failed(const char *kind, const char *what, const char *file, int line)
{
    log_event(LOG_ERROR, "assert", "kind=%s what=%s file=%s line=%d", kind, LOGQ(what), LOGQ(file), line);
    abort();
}
