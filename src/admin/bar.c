/* admin/bar.c - see bar.h. */
#include "admin/bar.h"

#include "admin/human.h"
#include "base/clock.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

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
