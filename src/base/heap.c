/* base/heap.c - see heap.h. The replacement is for tests and is set before threads start. */
#include "base/heap.h"

#include "base/log.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *libc_realloc(void *arg, void *p, size_t size)
{
    (void)arg;
    return realloc(p, size);
}

static void libc_free(void *arg, void *p)
{
    (void)arg;
    free(p);
}

static const struct heap libc_heap = {libc_realloc, libc_free, NULL};
static const struct heap *heap = &libc_heap;

void heap_replace(const struct heap *h)
{
    heap = h != NULL ? h : &libc_heap;
}

/* When several threads meet it, only one logs it. */
void heap_exhausted(size_t asked)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&said))
        pause();
    log_event(LOG_ERROR, "out_of_memory",
              "asked_bytes=%zu next=\"give tallyd more memory; a restart recovers\"", asked);
    abort();
}

static void *heap_get(void *p, size_t size)
{
    void *got = heap->realloc(heap->arg, p, size > 0 ? size : 1);
    if (got == NULL) heap_exhausted(size);
    return got;
}

void *heap_alloc(size_t size)
{
    return heap_get(NULL, size);
}

void *heap_zalloc(size_t size)
{
    return memset(heap_get(NULL, size), 0, size);
}

void *heap_realloc(void *p, size_t size)
{
    return heap_get(p, size);
}

char *heap_strdup(const char *text)
{
    return heap_strndup(text, strlen(text));
}

char *heap_strndup(const char *p, size_t n)
{
    PRE(n < SIZE_MAX);
    char *copy = heap_get(NULL, n + 1);
    if (n > 0) memcpy(copy, p, n);
    copy[n] = '\0';
    return copy;
}

void heap_free(void *p)
{
    if (p != NULL) heap->free(heap->arg, p);
}

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
