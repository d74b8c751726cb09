/* base/slice.c - see slice.h. */
#include "base/slice.h"

#include "base/check.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool slice_ieq(struct slice a, struct slice b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i])) return false;
    return true;
}

bool slice_starts(struct slice s, struct slice prefix)
{
    return s.n >= prefix.n && slice_eq(slice_of(s.p, prefix.n), prefix);
}

bool slice_ends(struct slice s, struct slice suffix)
{
    return s.n >= suffix.n && slice_eq(slice_of(s.p + (s.n - suffix.n), suffix.n), suffix);
}

char *slice_show(struct slice s, size_t most, char *out, size_t size)
{
    static const char dots[] = "...";
    PRE(size >= sizeof dots);
    size_t n = s.n < most ? s.n : most;
    size_t room = size - (n < s.n ? sizeof dots : 1);
    if (n > room) n = size - sizeof dots;
    for (size_t i = 0; i < n; i++)
        out[i] = s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?';
    memcpy(out + n, n < s.n ? dots : "", n < s.n ? sizeof dots : 1);
    return out;
}
