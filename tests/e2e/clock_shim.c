/* e2e/clock_shim.c - a clock that a test moves: LD_PRELOADed into redis-server and tallyd, it answers their questions for
 * the time from a file of three numbers (harness/clock.py writes them), wall, monotonic and boot time, each in ns. Waits (epoll, poll)
 * take as long as ever. Debian's libfaketime would do, but redis-server's allocator asks for the time while it starts,
 * which libfaketime does not survive. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct moment {
    _Atomic int64_t wall_ns, mono_ns, boot_ns;
};

static _Atomic(struct moment *) shared;

/* Mapped at the first question, with no call that may allocate. Two threads may both map it: no harm. */
static struct moment *moment(void)
{
    struct moment *m = atomic_load(&shared);
    const char *path = m == NULL ? getenv("TEST_CLOCK") : NULL;
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return m;
    m = mmap(NULL, sizeof *m, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (m == MAP_FAILED) abort();
    atomic_store(&shared, m);
    return m;
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    struct moment *m = moment();
    int64_t ns;
    if (m == NULL) return (int)syscall(SYS_clock_gettime, clock, to);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        ns = atomic_load(&m->wall_ns);
    else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW)
        ns = atomic_load(&m->mono_ns);
    else if (clock == CLOCK_BOOTTIME)
        ns = atomic_load(&m->boot_ns);
    else
        return (int)syscall(SYS_clock_gettime, clock, to);
    *to = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &t);
    *to = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *to)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (to != NULL) *to = t.tv_sec;
    return t.tv_sec;
}
