/* base/memory.h - what this process holds of the machine's memory. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* In bytes: all resident pages, and those not backed by a file. False: /proc cannot be read. */
bool memory_held(uint64_t *resident, uint64_t *own);

#endif
