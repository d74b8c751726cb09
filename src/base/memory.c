/* base/memory.c - see memory.h. */
#include "base/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool memory_held(uint64_t *resident, uint64_t *own)
{
    char text[128] = {0};
    unsigned long long in_memory, of_files;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0 || sscanf(text, "%*u %llu %llu", &in_memory, &of_files) != 2) return false;
    *resident = in_memory * page;
    *own = (in_memory - of_files) * page;
    return true;
}
