/* admin/human.h - figures and progress for people. */
#ifndef ADMIN_HUMAN_H
#define ADMIN_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- numbers as people read them. Each writes into out, terminated, and returns it. --- */

#define HUMAN_BYTES 32
#define HUMAN                                                                                                \
    (char[HUMAN_BYTES])                                                                                      \
    {                                                                                                        \
        0                                                                                                    \
    } /* such a place, of the block that it stands in */

char *human_count(int64_t n, char out[HUMAN_BYTES]);      /* 1,234,567 */
char *human_span(int64_t ms, char out[HUMAN_BYTES]);      /* 0.4 s, 12 s, 3 min 12 s, 4 h 3 min, 2 d 5 h */
char *human_bytes(int64_t bytes, char out[HUMAN_BYTES]);  /* 512 B, 12.3 MiB */
char *human_time(int64_t wall_ms, char out[HUMAN_BYTES]); /* 2026-11-21 14:03:07, this machine's time zone */

/* --- progress for people: one line redrawn on a terminal, with the rate and the time that is left, a plain line for every tenth
 * elsewhere. --- */

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
