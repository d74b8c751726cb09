/* base/memory.h - what this process holds of the machine's memory. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes: all that is in memory, and what of it is no page of a file. False: /proc does not say. */
bool memory_held(uint64_t *resident, uint64_t *own);

#endif
