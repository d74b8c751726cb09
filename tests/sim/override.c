/* tests/sim/override.c - see override.h. */
#include "sim/override.h"

#include "base/clock.h"
#include "base/log.h"
#include "sim/main.h"
#include "sim/world.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct world *running;
static struct prng source; /* of its own, so that how much the code draws does not move the schedule */

void override_begin(struct world *w)
{
    running = w;
    source.state = w == NULL ? 0 : ~w->config.seed;
}

/* Seeds of hash tables, some drawn once a process: always the same, or a run would depend on the runs before it. */
void rand_bytes(void *out, size_t n)
{
    struct prng same = {42};
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)out)[i] = (unsigned char)prng_next(&same);
}

uint64_t rand_below(uint64_t n)
{
    return prng_below(&source, n);
}

uint64_t rand_backoff_ms(unsigned attempt, uint64_t base_ms, uint64_t most_ms)
{
    uint64_t top = attempt < 32 && base_ms << attempt < most_ms ? base_ms << attempt : most_ms;
    return base_ms / 2 + prng_below(&source, top - base_ms / 2 + 1);
}

void log_set_level(enum log_level least)
{
    (void)least;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    (void)level;
    if (!sim_tracing || running == NULL) return;
    char line[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    sim_trace(running, "log: %s %s", event, line);
}

const char *log_quote(const char *text)
{
    return text == NULL ? "" : text;
}

void check_failed(const char *kind, const char *what, const char *file, int line)
{
    fprintf(stderr, "%s failed: %s (%s:%d)\n", kind, what, file, line);
    if (running != NULL) sim_print_rerun(&running->config);
    abort();
}
