/* admin/human.c - see human.h. */
#include "admin/human.h"
#include "base/clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

char *human_count(int64_t n, char out[HUMAN_BYTES])
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, n), at = 0;
    for (size_t i = 0; i < length; i++) {
        out[at++] = digits[i];
        size_t left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-') out[at++] = ',';
    }
    out[at] = '\0';
    return out;
}

char *human_span(int64_t ms, char out[HUMAN_BYTES])
{
    int64_t s = ms / 1000;
    if (ms < 0)
        snprintf(out, HUMAN_BYTES, "0.0 s"); /* two clocks that differ a little */
    else if (s < 10)
        snprintf(out, HUMAN_BYTES, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 60)
        snprintf(out, HUMAN_BYTES, "%" PRId64 " s", s);
    else if (s < 3600)
        snprintf(out, HUMAN_BYTES, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, HUMAN_BYTES, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    else
        snprintf(out, HUMAN_BYTES, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
    return out;
}

char *human_bytes(int64_t bytes, char out[HUMAN_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        n /= 1024;
        unit++;
    }
    snprintf(out, HUMAN_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
    return out;
}

char *human_time(int64_t wall_ms, char out[HUMAN_BYTES])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm local;
    if (localtime_r(&seconds, &local) == NULL || strftime(out, HUMAN_BYTES, "%Y-%m-%d %H:%M:%S", &local) == 0)
        snprintf(out, HUMAN_BYTES, "?");
    return out;
}

#define BAR_CELLS 40
#define TENTHS 10

void bar_init(struct bar *b, FILE *out, const char *what)
{
    *b = (struct bar){.out = out, .what = what, .terminal = isatty(fileno(out)) == 1};
}

static uint64_t part(uint64_t done, uint64_t total, uint64_t of)
{
    if (total == 0) return 0;
    return done >= total ? of : (uint64_t)((double)done / (double)total * (double)of);
}

#define PACE_MS 1000 /* before that a rate says nothing */

char *bar_pace(uint64_t done, uint64_t left, uint64_t passed_ms, char out[BAR_PACE_BYTES])
{
    char rate[HUMAN_BYTES], time[HUMAN_BYTES];
    out[0] = '\0';
    if (passed_ms < PACE_MS || done == 0) return out;
    double a_ms = (double)done / (double)passed_ms;
    snprintf(out, BAR_PACE_BYTES, "%s a second, %s left", human_count((int64_t)(a_ms * 1000), rate),
             human_span((int64_t)((double)left / a_ms), time));
    return out;
}

static void draw(const struct bar *b, uint64_t done, uint64_t total)
{
    char cells[BAR_CELLS + 1];
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', part(done, total, BAR_CELLS));
    cells[BAR_CELLS] = '\0';
    char pace[BAR_PACE_BYTES];
    uint64_t left = done < total ? total - done : 0;
    bar_pace(done > b->began_done ? done - b->began_done : 0, left, mono_ms() - b->began_ms, pace);
    fprintf(b->out, "\r%s [%s] %" PRIu64 "/%" PRIu64 " %s\033[K", b->what, cells, done, total, pace);
}

void bar_show(struct bar *b, uint64_t done, uint64_t total)
{
    if (b->drawn && done == b->done && total == b->total) return;
    if (!b->drawn) {
        b->began_ms = mono_ms();
        b->began_done = done;
    }
    bool tenth = part(done, total, TENTHS) != part(b->done, b->total, TENTHS);
    if (b->terminal)
        draw(b, done, total);
    else if (!b->drawn || tenth)
        fprintf(b->out, "%s: %" PRIu64 " of %" PRIu64 "\n", b->what, done, total);
    fflush(b->out); /* whoever reads a pipe waits for it */
    b->drawn = true;
    b->done = done;
    b->total = total;
}

void bar_end(struct bar *b)
{
    if (b->terminal && b->drawn) fputc('\n', b->out);
    b->drawn = false;
}
