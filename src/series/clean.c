/* series/clean.c - see clean.h. */
#include "series/clean.h"

#include "base/slice.h"

int64_t clean_precision(struct slice known)
{
    const char *colon = known.n == 0 ? NULL : memchr(known.p, ':', known.n);
    int64_t precision_s;
    if (colon == NULL || !num_parse(slice_of(known.p, (size_t)(colon - known.p)), &precision_s)) return 0;
    return precision_s > 0 ? precision_s : 0;
}

bool clean_due(int64_t precision_s, int64_t now_s, int64_t last_s)
{
    if (last_s < 0 || precision_s <= CLEAN_PASS_S) return true;
    return now_s / precision_s != last_s / precision_s;
}
