/* admin/bar.h - progress for people: one line redrawn on a terminal, with the rate and the time that is left, a plain
 * line for every tenth elsewhere. */
#ifndef ADMIN_BAR_H
#define ADMIN_BAR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct bar {
    FILE *out;        /* borrowed */
    const char *what; /* "recovering" */
    bool terminal;
    bool drawn;
    uint64_t done, total;          /* as last shown */
    uint64_t began_ms, began_done; /* mono; as first shown */
};

#define BAR_PACE_BYTES 80

void bar_init(struct bar *b, FILE *out, const char *what); /* asks isatty */
void bar_show(struct bar *b, uint64_t done, uint64_t total);
void bar_end(struct bar *b); /* ends the redrawn line; what is printed next begins a line of its own */

/* "45 a second, 7 s left"; empty within the first second, or when nothing was done. Returns out. */
char *bar_pace(uint64_t done, uint64_t left, uint64_t passed_ms, char out[BAR_PACE_BYTES]);

#endif
