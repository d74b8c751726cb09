/* fuzz.h - what the fuzz targets share. A target is one file fuzz_<subject>.c with LLVMFuzzerTestOneInput: it reads the
 * bytes as it likes, and ends the process by MUST() when a promise does not hold. In a sanitized build by clang it is
 * linked with libFuzzer; everywhere else replay.c runs it over the kept corpus.
 *
 * Input that must not be read is poisoned (fuzz_hide), so that a parser which looks behind the bytes that have come is
 * found out though they are there. */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(e) CHECK_("promise", e, #e)

#if defined(__SANITIZE_ADDRESS__)
#define FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_ASAN 1
#endif
#endif

#ifdef FUZZ_ASAN
#include <sanitizer/asan_interface.h>
/* Freed memory is kept apart for an execution or so, not for thousands: each page that is touched for the first time costs
 * more than what the target does with it. */
const char *__asan_default_options(void);
__attribute__((weak)) const char *__asan_default_options(void)
{
    return "quarantine_size_mb=16";
}
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Instead of base/clock.h (the linker's --wrap): seeds of hashes and keys are the same each time, so that an input goes the
 * same way whenever it comes, and libFuzzer takes no other order of slots for news. */
void __wrap_rand_bytes(void *out, size_t n);
__attribute__((weak)) void __wrap_rand_bytes(void *out, size_t n)
{
    memset(out, 0x5a, n);
}

/* Instead of base/heap.h: INFO says the same each time. */
bool __wrap_memory_held(uint64_t *resident, uint64_t *own);
__attribute__((weak)) bool __wrap_memory_held(uint64_t *resident, uint64_t *own)
{
    *resident = *own = 1 << 20;
    return true;
}

/* Of `n` bytes on the heap only the first `seen` may be read. */
static inline void fuzz_hide(const char *p, size_t n, size_t seen)
{
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    if (seen < n) ASAN_POISON_MEMORY_REGION(p + seen, n - seen);
}

/* The bytes as a heap block of exactly their size; the caller frees it. */
static inline char *fuzz_copy(const uint8_t *data, size_t size)
{
    char *p = heap_alloc(size);
    if (size > 0) memcpy(p, data, size);
    return p;
}

/* ---- an input as a list of choices; behind its end all are 0 and empty ---- */

static inline uint8_t take_byte(struct slice *in)
{
    if (in->n == 0) return 0;
    uint8_t byte = (uint8_t)*in->p;
    *in = slice_of(in->p + 1, in->n - 1);
    return byte;
}

static inline struct slice take_bytes(struct slice *in, size_t n)
{
    if (n > in->n) n = in->n;
    struct slice taken = slice_of(in->p, n);
    *in = slice_of(in->p + n, in->n - n);
    return taken;
}

/* A byte is the length; that many bytes follow. */
static inline struct slice take_text(struct slice *in)
{
    size_t n = take_byte(in);
    return take_bytes(in, n);
}

static inline struct slice take_line(struct slice *in)
{
    const char *end = in->n > 0 ? memchr(in->p, '\n', in->n) : NULL;
    struct slice line = take_bytes(in, end == NULL ? in->n : (size_t)(end - in->p));
    (void)take_byte(in);
    return line;
}

#endif
