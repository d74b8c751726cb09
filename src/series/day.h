/* series/day.h - days as people write them, YYYYMMDD (UTC), from 1970 to 9999. */
#ifndef SERIES_DAY_H
#define SERIES_DAY_H

#include <stdint.h>

#define DAY_S (24 * 3600)
#define DAY_FIRST 19700101
#define DAY_LAST 99991231

int64_t day_number(int64_t day);     /* 20140920 -> days since 1970; day exists */
int64_t day_of_number(int64_t days); /* back */
static inline int64_t day_of_s(int64_t at_s)
{
    return day_of_number(at_s / DAY_S);
}

#endif
