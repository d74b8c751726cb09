/* series/day.c - see day.h. */
#include "series/day.h"

#include "base/log.h"
#include <stddef.h>
#include <time.h>

int64_t day_number(int64_t day)
{
    PRE(day >= DAY_FIRST && day <= DAY_LAST);
    struct tm tm = {.tm_year = (int)(day / 10000) - 1900,
                    .tm_mon = (int)(day / 100 % 100) - 1,
                    .tm_mday = (int)(day % 100)};
    return (int64_t)timegm(&tm) / DAY_S;
}

int64_t day_of_number(int64_t days)
{
    time_t at_s = (time_t)(days * DAY_S);
    struct tm tm;
    PRE(days >= 0 && gmtime_r(&at_s, &tm) != NULL);
    return (tm.tm_year + 1900) * 10000 + (tm.tm_mon + 1) * 100 + tm.tm_mday;
}
