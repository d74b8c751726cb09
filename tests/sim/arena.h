/* tests/sim/arena.h - the heap of one life of a daemon: a crash takes all of it back at once, a clean end
 * proves that nothing leaked. Replaces base/heap.h's allocator; blocks belong to the arena that was entered
 * when they were made. */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "base/list.h"
#include <stddef.h>

struct arena {
    struct list blocks;
    size_t n;
};

void arena_install(void);
void arena_init(struct arena *a);
void arena_drop(struct arena *a);           /* frees every block */
struct arena *arena_enter(struct arena *a); /* returns the one that was entered before */

#endif
