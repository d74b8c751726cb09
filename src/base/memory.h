/* base/memory.h - how much of the machine's memory this process uses. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* In bytes: all resident pages, and those not backed by a file. False: /proc cannot be read. */
bool memory_held(uint64_t *resident, uint64_t *own);

#endif
