/* admin/human.h - numbers as people read them. Each writes into out, terminated, and returns it. */
#ifndef ADMIN_HUMAN_H
#define ADMIN_HUMAN_H

#include <stddef.h>
#include <stdint.h>

#define HUMAN_BYTES 32

char *human_count(int64_t n, char out[HUMAN_BYTES]);      /* 1,234,567 */
char *human_span(int64_t ms, char out[HUMAN_BYTES]);      /* 0.4 s, 12 s, 3 min 12 s, 4 h 3 min, 2 d 5 h */
char *human_bytes(int64_t bytes, char out[HUMAN_BYTES]);  /* 512 B, 12.3 MiB */
char *human_time(int64_t wall_ms, char out[HUMAN_BYTES]); /* 2026-11-21 14:03:07, this machine's time zone */

#endif
