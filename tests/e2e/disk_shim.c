/* e2e/disk_shim.c - a disk that a test cuts the power of: LD_PRELOADed into redis-server, it notes for each fsync in a file how
 * much of which inode was there when it began, and when it began and ended (monotonic, ns); harness/disk.py reads it. While
 * a second file exists, an fsync does not end; if that is not empty, only those of Redis' threads. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec t;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t); /* the real one, whatever clock_shim says */
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void note(const struct stat *s, int64_t began_ns)
{
    char line[120];
    const char *path = getenv("TEST_DISK");
    int n = snprintf(line, sizeof line, "%llu %lld %lld %lld\n", (unsigned long long)s->st_ino,
                     (long long)s->st_size, (long long)began_ns, (long long)now_ns());
    int fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || write(fd, line, (size_t)n) != n) abort();
    close(fd);
}

static int is_held(void)
{
    struct stat s;
    const char *path = getenv("TEST_DISK_HELD");
    return path != NULL && stat(path, &s) == 0 && (s.st_size == 0 || syscall(SYS_gettid) != getpid());
}

static int synced(int fd, long call)
{
    struct stat s;
    int64_t began_ns = now_ns();
    if (fstat(fd, &s) != 0) return -1;
    while (is_held())
        usleep(1000);
    int failed = (int)syscall(call, fd);
    if (failed == 0) note(&s, began_ns);
    return failed;
}

int fdatasync(int fd)
{
    return synced(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return synced(fd, SYS_fsync);
}
