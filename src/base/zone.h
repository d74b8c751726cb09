/* base/zone.h - a time zone of the system's tzdata: how far its clocks are from UTC, at any time. It reads TZif files of
 * version 2 and later with the rule at their end (RFC 9636). No global state, as tzset() has: a zone is immutable once it is
 * read, and any thread may ask it. */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include "base/log.h"
#include "base/slice.h"

#define ZONE_DIRECTORY "/usr/share/zoneinfo"
#define ZONE_NAME_MAX 64

/* A time of every year. MONTH: `week` 1..5 (5: the last) of its day of the week, 0: Sunday. JULIAN: day 1..365, the 29th of
 * February has none. DAY: 0..365. */
struct zone_date {
    enum { ZONE_MONTH, ZONE_JULIAN, ZONE_DAY } kind;
    int32_t month, week, day;
    int32_t at_s; /* of that day, -167 h to 167 h */
};

struct zone {
    char name[ZONE_NAME_MAX + 1];
    int64_t *at_s;    /* changes, ascending, in seconds since 1970 */
    int32_t *after_s; /* seconds east of UTC from then on */
    size_t n;
    int32_t before_s; /* before the first */
    /* From the last change on; has_rule false: as after the last change. */
    bool has_rule, has_summer;
    int32_t standard_s, summer_s;
    struct zone_date begins, ends; /* of summer time, each in the time that holds before it */
};

/* Seconds east of UTC at that time, which hold for *from_s <= t < *until_s; both may be NULL. */
int32_t zone_offset(const struct zone *z, int64_t at_s, int64_t *from_s, int64_t *until_s);

/* When the day of that time began there: its first second, whatever the clocks did since. */
int64_t zone_day(const struct zone *z, int64_t at_s);

/* An IANA name that this system has: "Pacific/Auckland". UTC is always there. */
enum err zone_load(struct slice name, struct zone *out, struct error *e) MUST_CHECK;
/* The same from the bytes of a file. False: they are no time zone, and out is empty. */
bool zone_read(struct slice bytes, struct zone *out) MUST_CHECK;
void zone_free(struct zone *z);

#endif
