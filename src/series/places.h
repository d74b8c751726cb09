/* series/places.h - what a placeholder stands for, and texts with several of them: `store:<store>:product:<product>:views`,
 * `<product>:<day>`. Pure. */
#ifndef SERIES_PLACES_H
#define SERIES_PLACES_H

#include "base/log.h"
#include "base/slice.h"

#define PLACES_MAX 6
#define PLAIN_BYTES 12 /* for the digits of a time */
#define TEXT_BYTES_MAX                                                                                       \
    255 /* of a field or a placeholder that is a text; so InnoDB's keys have room for them */

enum value_kind { VALUE_INTEGER, VALUE_TEXT, VALUE_DATE, VALUE_HOUR, VALUE_MONTH };
enum spelling {
    SPELLED_DIGITS,  /* 20240501, 2024050113, 202405 */
    SPELLED_DASHES,  /* 2024-05-01, 2024-05-01 13 (or T or - before the hour), 2024-05 */
    SPELLED_SECONDS, /* since 1970, where the day or the hour begins in UTC */
    SPELLED_MS
};

struct value_type {
    enum value_kind kind;
    enum spelling spelling; /* of a time */
    char before_hour;       /* with dashes: ' ', 'T' or '-' */
};

/* "integer", "text", "date", "date 2024-05-01", "date seconds", "date milliseconds", "hour", "hour 2024-05-01 13", "month",
 * "month 2024-05". */
bool value_type_parse(struct slice text, struct value_type *out);

/* Is text such a value? A time as digits goes to *plain, in digits; any other is *plain itself. An integer is 0 to
 * 2^63-1. */
bool value_plain(const struct value_type *type, struct slice text, char digits[PLAIN_BYTES],
                 struct slice *plain);
/* The time with these digits, as it is spelled; appended to out. */
void value_spell(const struct value_type *type, struct slice digits, struct buf *out);

struct place {
    struct slice name; /* [a-z0-9_]{1,64}; "store": of texts only those without ':', '{' and '}' */
    struct value_type type;
};

/* text[0] <at[0]> text[1] ... <at[n-1]> text[n]. A text ends before the byte that follows it in the pattern; the last one is what
 * is left, and holds no ':' if something follows it. Borrows all texts. */
struct places {
    struct slice text[PLACES_MAX + 1];
    struct place at[PLACES_MAX];
    uint32_t n;
};

/* The types are left to the caller. *why says what is wrong. */
bool places_parse(struct slice text, struct places *out, const char **why);
const struct place *places_find(const struct places *p, struct slice name); /* NULL: none of that name */
bool places_match(const struct places *p, struct slice text, struct slice values[PLACES_MAX]);
void places_text(const struct places *p, struct buf *out); /* as it was parsed */
void places_put(const struct places *p, const struct slice values[], struct buf *out);

/* May the i-th value, a text, hold this byte? */
bool place_takes(const struct places *p, uint32_t i, char c);
/* How a time is spelled: 'd' stands for a digit, any other byte for itself. NULL: as a number, or it is no time. */
const char *value_shape(const struct value_type *t);

/* Is there a name that both stand for? Then it goes to *both. Exact but for dates that no calendar has. */
bool places_overlap(const struct places *a, const struct places *b, struct buf *both);
/* Can it begin with lead? */
bool places_can_begin(const struct places *p, struct slice lead);

/* Is text YYYYMMDD of a day that there is? */
bool date_is(struct slice text);

#endif
