/* conf/unit.c - see unit.h. */
#include "conf/unit.h"

#include "base/slice.h"

struct unit {
    const char *name;
    int64_t of; /* ms, or bytes */
};
static const struct unit durations[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};
#define UNITS(table) (sizeof(table) / sizeof((table)[0]))

static bool unit_read(struct slice text, const struct unit *units, size_t n, int64_t *out)
{
    size_t digits = 0;
    while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
        digits++;
    int64_t count;
    if (!num_parse(slice_of(text.p, digits), &count)) return false;
    struct slice unit = slice_of(text.p + digits, text.n - digits);
    for (size_t i = 0; i < n; i++)
        if (slice_eq(unit, slice_str(units[i].name))) return !__builtin_mul_overflow(count, units[i].of, out);
    return false;
}

static void unit_write(int64_t value, const struct unit *units, size_t n, struct buf *out)
{
    size_t i = 0;
    while (i + 1 < n && (value == 0 || value % units[i].of != 0))
        i++;
    buf_int(out, value / units[i].of);
    buf_put_slice(out, slice_str(units[i].name));
}

bool unit_read_ms(struct slice text, int64_t *ms)
{
    return unit_read(text, durations, UNITS(durations), ms);
}

bool unit_read_seconds(struct slice text, int64_t *seconds)
{
    int64_t ms;
    if (!unit_read_ms(text, &ms) || ms % 1000 != 0) return false;
    *seconds = ms / 1000;
    return true;
}

bool unit_read_bytes(struct slice text, int64_t *bytes)
{
    return unit_read(text, sizes, UNITS(sizes), bytes);
}

void unit_write_ms(int64_t ms, struct buf *out)
{
    unit_write(ms, durations, UNITS(durations), out);
}

void unit_write_bytes(int64_t bytes, struct buf *out)
{
    unit_write(bytes, sizes, UNITS(sizes), out);
}
