/* nth_alloc.c - memory that runs out, over the kept corpus of a fuzz target: each run is a process of its own in which the
 * n-th allocation fails, n = 0, 1, 2 ... as far as there are any (of many, every so-manieth). base/heap.h promises that the
 * process then says so and ends: one line event=out_of_memory with what to do, SIGABRT, and nothing before it that a
 * sanitizer or an assertion of ours has a word against. */
#include "fuzz.h"

#include "base/slice.h"
#include "lib/child.h"

#include <signal.h>
#include <sys/mman.h>

#define RUNS_MOST 250

static uint64_t allocations, failing; /* the failing-th fails */
static bool *failed;                  /* it came to that; shared with the child */

static void *counting_realloc(void *arg, void *p, size_t size)
{
    (void)arg;
    if (allocations++ != failing) return realloc(p, size);
    *failed = true;
    return NULL;
}

static void plain_free(void *arg, void *p)
{
    (void)arg;
    free(p);
}

static const struct heap counting = {counting_realloc, plain_free, NULL};

static void input_run(void *arg)
{
    const struct slice *input = arg;
    allocations = 0;
    heap_replace(&counting);
    LLVMFuzzerTestOneInput((const uint8_t *)input->p, input->n);
    heap_replace(NULL);
}

static unsigned times_in(const char *text, const char *what)
{
    unsigned n = 0;
    while ((text = strstr(text, what)) != NULL)
        n++, text++;
    return n;
}

static void ends_clean(const struct child_end *end)
{
    if (!*failed && end->status == 0) return; /* fewer than at first: what is static had grown by then */
    bool said = times_in(end->stderr_, "event=out_of_memory asked_bytes=") == 1 &&
                strstr(end->stderr_, "next=\"give tallyd more memory; a restart recovers\"") != NULL;
    bool alone = times_in(end->stderr_, "\n") == 1;
    if (said && alone && child_was_killed(end, SIGABRT)) return;
    fprintf(stderr, "status %#x, and on stderr:\n%s", (unsigned)end->status, end->stderr_);
    abort();
}

static void input_try(struct slice input)
{
    failing = UINT64_MAX;
    input_run(&input); /* it passes untouched, and tells how many there are */
    uint64_t all = allocations, step = all / RUNS_MOST + 1, runs = 0;
    for (failing = 0; failing < all; failing += step) {
        *failed = false;
        struct child_end end = child_run(input_run, &input);
        ends_clean(&end);
        runs += *failed;
    }
    MUST(runs > 0);
    printf("%llu allocations, %llu of them failed\n", (unsigned long long)all, (unsigned long long)runs);
}

int main(int argc, char **argv)
{
    failed = mmap(NULL, sizeof *failed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(argc > 1 && failed != MAP_FAILED);
    for (int i = 1; i < argc; i++) {
        struct buf bytes = {0};
        FILE *f = fopen(argv[i], "re");
        MUST(f != NULL);
        for (size_t n; (n = fread(buf_reserve(&bytes, 4096), 1, 4096, f)) > 0;)
            bytes.n += n;
        fclose(f);
        printf("%s: ", argv[i]);
        input_try(buf_slice(&bytes));
        buf_free(&bytes);
    }
    return 0;
}
