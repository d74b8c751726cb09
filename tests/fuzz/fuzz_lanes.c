/* fuzz_lanes.c - clients over three lanes (lib/lane_clients.h, which says what must hold), as the bytes of the input say: what
 * clients send and in which pieces, which lane runs, answers, refuses, stalls or is cut, and who leaves meanwhile. Behind
 * the end of the input all lanes go on, until nothing is owed.
 *
 * The linker's --wrap gives sessions the clock of the lanes, and turns the log on for what breaks. */
#include "fuzz.h"
#include "kept_command.h"
#include "lib/lane_clients.h"

#include "base/log.h"

#include <time.h>

static struct slice choices;

int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    (void)which;
    *out =
        (struct timespec){.tv_sec = (time_t)(now_ms / 1000), .tv_nsec = (long)(now_ms % 1000) * 1000 * 1000};
    return 0;
}

void __real_check_failed(const char *kind, const char *what, const char *file, int line);
void __wrap_check_failed(const char *kind, const char *what, const char *file, int line);
void __wrap_check_failed(const char *kind, const char *what, const char *file, int line)
{
    log_set_level(LOG_INFO);
    __real_check_failed(kind, what, file, line);
}

static uint64_t draw(uint64_t n)
{
    uint64_t byte = take_byte(&choices);
    if (n > 256) byte = byte << 8 | take_byte(&choices);
    return byte % n;
}

static bool choices_left(void)
{
    return choices.n > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_set_level((enum log_level)(LOG_ERROR + 1)); /* an unknown outcome is no error here */
    choices = slice_of((const char *)data, size);
    lanes_n = 3;
    world_runs(command_again, choices_left);
    command_rest(command);
    return 0;
}
