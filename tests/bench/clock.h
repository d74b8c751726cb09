/* bench/clock.h - what the programs of the benchmark share: the clock, and the end when something is wrong. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_A_S UINT64_C(1000000000)

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_A_S + (uint64_t)t.tv_nsec;
}

static inline _Noreturn void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(69);
}

#endif
