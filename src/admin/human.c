/* admin/human.c - see human.h. */
#include "admin/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

char *human_count(int64_t n, char out[HUMAN_BYTES])
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, n), at = 0;
    for (size_t i = 0; i < length; i++) {
        out[at++] = digits[i];
        size_t left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-') out[at++] = ',';
    }
    out[at] = '\0';
    return out;
}

char *human_span(int64_t ms, char out[HUMAN_BYTES])
{
    int64_t s = ms / 1000;
    if (ms < 0)
        snprintf(out, HUMAN_BYTES, "0.0 s"); /* two clocks that differ a little */
    else if (s < 10)
        snprintf(out, HUMAN_BYTES, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 60)
        snprintf(out, HUMAN_BYTES, "%" PRId64 " s", s);
    else if (s < 3600)
        snprintf(out, HUMAN_BYTES, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, HUMAN_BYTES, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    else
        snprintf(out, HUMAN_BYTES, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
    return out;
}

char *human_bytes(int64_t bytes, char out[HUMAN_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        n /= 1024;
        unit++;
    }
    snprintf(out, HUMAN_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
    return out;
}

char *human_time(int64_t wall_ms, char out[HUMAN_BYTES])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm local;
    if (localtime_r(&seconds, &local) == NULL || strftime(out, HUMAN_BYTES, "%Y-%m-%d %H:%M:%S", &local) == 0)
        snprintf(out, HUMAN_BYTES, "?");
    return out;
}
