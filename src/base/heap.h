/* base/heap.h - allocation that never returns NULL. Out of memory is logged and ends the process; Redis has every
 * answered hit, so a restart recovers. Tests may replace the heap to count or to fail. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *heap_alloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *heap_zalloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *heap_realloc(void *p, size_t size) __attribute__((alloc_size(2)));
char *heap_strdup(const char *text);
char *heap_strndup(const char *p, size_t n); /* NUL-terminated copy of n bytes */
void heap_free(void *p);
/* Room for one more at array[n]: cap doubles, and is `first` in the beginning. */
#define HEAP_GROW(array, n, cap, first)                                                                      \
    do {                                                                                                     \
        if ((n) < (cap)) break;                                                                              \
        (cap) = (cap) == 0 ? (first) : 2 * (cap);                                                            \
        (array) = heap_realloc(array, (cap) * sizeof *(array));                                              \
    } while (0)
/* For a library that got no memory: ends the process as heap_alloc does. asked 0: size unknown. */
void heap_exhausted(size_t asked) __attribute__((noreturn, cold));

struct heap {
    void *(*realloc)(void *arg, void *p, size_t size); /* p NULL: a new one; NULL back: out of memory */
    void (*free)(void *arg, void *p);
    void *arg;
};
void heap_replace(const struct heap *h); /* NULL: libc again */

/* How much of the machine's memory this process uses. */

/* In bytes: all resident pages, and those not backed by a file. False: /proc cannot be read. */
bool memory_held(uint64_t *resident, uint64_t *own);

#endif
