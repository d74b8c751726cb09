/* Log lines: their form, their bound, and texts of others inside them. */
#include "lib/unit.h"

#include "base/log.h"
#include "lib/child.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

static void one_line(void *arg)
{
    errno = EPIPE;
    log_event(LOG_WARN, "merged", "rows=%d text=%s", 12, LOGQ("two words"));
    if (errno != EPIPE) abort();
}

UNIT(writes_logfmt)
{
    struct child_end end = child_run(one_line, NULL);
    assert_true(child_exited(&end));
    static const char form[] = "ts=dddd-dd-ddTdd:dd:dd.dddZ ";
    for (size_t i = 0; i + 1 < sizeof form; i++) {
        char c = end.stderr_[i];
        if (isdigit((unsigned char)c)) c = 'd';
        assert_int_equal(c, form[i]);
    }
    assert_string_equal(end.stderr_ + sizeof form - 1,
                        "level=warn event=merged rows=12 text=\"two words\"\n");
}

static void without_pairs(void *arg)
{
    log_event(LOG_INFO, "stopped", " ");
    log_set_level(LOG_ERROR);
    log_event(LOG_WARN, "hidden", "a=1");
    log_event(LOG_ERROR, "seen", "a=b\nc");
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "debugged", "a=1");
}

UNIT(obeys_the_level_and_keeps_one_line_one)
{
    struct child_end end = child_run(without_pairs, NULL);
    assert_true(child_exited(&end));
    assert_non_null(strstr(end.stderr_, " level=info event=stopped\n"));
    assert_null(strstr(end.stderr_, "hidden"));
    assert_non_null(strstr(end.stderr_, " event=seen a=b?c\n"));
    assert_non_null(strstr(end.stderr_, " level=debug event=debugged a=1\n"));
}

static void long_lines(void *arg)
{
    const size_t *n = arg;
    char text[1400], fixed[1381];
    memset(text, ' ', sizeof text);
    memset(fixed, ' ', sizeof fixed);
    text[*n] = fixed[sizeof fixed - 1] = '\0';
    log_event(LOG_INFO, "long", "a=1 b=%s c=%s d=%s e=5", LOGQ(text), LOGQ(fixed), LOGQ(fixed));
}

/* Each length around the bound: at most PIPE_BUF bytes, whole pairs, quotes closed. */
UNIT(cuts_between_pairs)
{
    size_t longest = 0;
    bool cut_seen = false;
    for (size_t n = 1200; n < 1300; n++) {
        struct child_end end = child_run(long_lines, &n);
        assert_true(child_exited(&end));
        assert_true(end.stderr_n <= PIPE_BUF);
        assert_int_equal(end.stderr_[end.stderr_n - 1], '\n');
        const char *whole = strstr(end.stderr_, "\" e=5\n"), *cut = strstr(end.stderr_, "\" cut=true\n");
        assert_true((whole != NULL) != (cut != NULL));
        if (whole != NULL) longest = end.stderr_n;
        cut_seen = cut_seen || cut != NULL;
    }
    assert_int_equal(longest, PIPE_BUF);
    assert_true(cut_seen);
}

UNIT(quotes_only_if_needed)
{
    const char *plain = "s1:unique_visitors:daily";
    assert_ptr_equal(log_quote(plain), plain);
    assert_string_equal(log_quote(""), "\"\"");
    assert_string_equal(log_quote(NULL), "\"\"");
    assert_string_equal(log_quote("a b"), "\"a b\"");
    assert_string_equal(log_quote("a=b"), "\"a=b\"");
    assert_string_equal(log_quote("say \"no\" \\"), "\"say \\\"no\\\" \\\\\"");
    assert_string_equal(log_quote("\r\n\t\x01\x7f\xe4"), "\"\\r\\n\\t\\x01\\x7f\\xe4\"");
}

UNIT(cuts_long_quotes)
{
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    const char *quoted = log_quote(text);
    assert_true(strlen(quoted) < 1400);
    assert_string_equal(quoted + strlen(quoted) - 5, "x...\"");
    memset(text, '"', sizeof text - 1);
    quoted = log_quote(text);
    assert_string_equal(quoted + strlen(quoted) - 6, "\\\"...\"");
}

UNIT(keeps_eight_quotes)
{
    const char *quoted[8];
    for (int i = 0; i < 8; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "n %d", i);
        quoted[i] = log_quote(text);
    }
    for (int i = 0; i < 8; i++) {
        char text[24];
        (void)snprintf(text, sizeof text, "\"n %d\"", i);
        assert_string_equal(quoted[i], text);
    }
}

static void *many_lines(void *arg)
{
    for (int i = 0; i < 50; i++)
        log_event(LOG_INFO, "threaded", "a=%s end=1", LOGQ(arg));
    return NULL;
}

static void from_threads(void *arg)
{
    pthread_t threads[2];
    char names[2][4] = {"a a", "b b"};
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, many_lines, names[i]) != 0) abort();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

UNIT(does_not_mix_threads)
{
    struct child_end end = child_run(from_threads, NULL);
    int lines = 0;
    for (char *line = strtok(end.stderr_, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
        const char *tail = strstr(line, " event=threaded a=\"");
        assert_non_null(tail);
        assert_true(strcmp(tail, " event=threaded a=\"a a\" end=1") == 0 ||
                    strcmp(tail, " event=threaded a=\"b b\" end=1") == 0);
    }
    assert_int_equal(lines, 100);
}

static void into_nothing(void *arg)
{
    close(STDERR_FILENO);
    errno = EPIPE;
    log_event(LOG_INFO, "lost", "a=1");
    if (errno != EPIPE) abort();
}

UNIT(survives_a_lost_stderr)
{
    struct child_end end = child_run(into_nothing, NULL);
    assert_true(child_exited(&end));
}

/* While the pipe is not read, the log loses lines but no time; once it is read again, new lines arrive. */
static void into_a_full_pipe(void *arg)
{
    int fds[2];
    char rest[4096];
    if (pipe(fds) != 0 || dup2(fds[1], STDERR_FILENO) < 0) abort();
    alarm(20); /* ends a log that is blocked */
    for (int i = 0; i < 100000; i++)
        log_event(LOG_INFO, "lost", "n=%d", i);
    alarm(0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    while (read(fds[0], rest, sizeof rest) > 0)
        continue;
    log_event(LOG_INFO, "seen", "a=1");
    ssize_t n = read(fds[0], rest, sizeof rest - 1);
    rest[n > 0 ? n : 0] = '\0';
    if (strstr(rest, "event=seen") == NULL) abort();
}

UNIT(survives_a_reader_that_stands)
{
    struct child_end end = child_run(into_a_full_pipe, NULL);
    assert_true(child_exited(&end));
}

/* named: does JOURNAL_STREAM name our stderr, or another stream? */
static void to_journal(void *arg)
{
    char is[64];
    struct stat st;
    if (fstat(STDERR_FILENO, &st) != 0) abort();
    snprintf(is, sizeof is, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino + (*(const bool *)arg ? 0 : 1));
    setenv("JOURNAL_STREAM", is, 1);
    log_journal_detect();
    log_set_level(LOG_DEBUG);
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++)
        log_event((enum log_level)level, "said", "a=1");
}

UNIT(tells_the_journal_priorities)
{
    static const char *const leads[] = {"<7>ts=", "<6>ts=", "<4>ts=", "<3>ts="};
    struct child_end end = child_run(to_journal, &(bool){true});
    assert_true(child_exited(&end));
    const char *line = end.stderr_;
    for (size_t i = 0; i < 4; i++, line = strchr(line, '\n') + 1)
        assert_memory_equal(line, leads[i], strlen(leads[i]));
    assert_string_equal(line, "");
    end = child_run(to_journal, &(bool){false});
    assert_memory_equal(end.stderr_, "ts=", 3);
    assert_null(strchr(end.stderr_, '<'));
}
