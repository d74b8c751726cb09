/* e2e/malloc_shim.c - an allocation that fails: LD_PRELOADed into tallyd, it counts down the allocations of the whole
 * process, its libraries' too, in a file of one number (MALLOC_SHIM names it); the one that meets 1 gets NULL. 0: none. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static _Atomic(atomic_llong *) shared;

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("MALLOC_SHIM");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *got = mmap(NULL, sizeof(atomic_llong), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (got != MAP_FAILED) atomic_store(&shared, got);
}

static bool fails(void)
{
    atomic_llong *left = atomic_load(&shared);
    return left != NULL && atomic_load(left) > 0 && atomic_fetch_sub(left, 1) == 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}
