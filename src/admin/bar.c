/* admin/bar.c - see bar.h. */
#include "admin/bar.h"

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

static void draw(const struct bar *b, uint64_t done, uint64_t total)
{
    char cells[BAR_CELLS + 1];
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', part(done, total, BAR_CELLS));
    cells[BAR_CELLS] = '\0';
    fprintf(b->out, "\r%s [%s] %" PRIu64 "/%" PRIu64 " ", b->what, cells, done, total);
    fflush(b->out);
}

void bar_show(struct bar *b, uint64_t done, uint64_t total)
{
    if (b->drawn && done == b->done && total == b->total) return;
    bool tenth = part(done, total, TENTHS) != part(b->done, b->total, TENTHS);
    if (b->terminal)
        draw(b, done, total);
    else if (!b->drawn || tenth)
        fprintf(b->out, "%s: %" PRIu64 " of %" PRIu64 "\n", b->what, done, total);
    b->drawn = true;
    b->done = done;
    b->total = total;
}

void bar_end(struct bar *b)
{
    if (b->terminal && b->drawn) fputc('\n', b->out);
    b->drawn = false;
}
