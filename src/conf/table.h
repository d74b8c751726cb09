/* conf/table.h - conf/options.h as an array; private to the room. */
#ifndef CONF_TABLE_H
#define CONF_TABLE_H

#include "conf/conf.h"

enum conf_kind {
    KIND_ADDRESSES,
    KIND_URL,
    KIND_HASH,
    KIND_TEXTS,
    KIND_PATH,
    KIND_INSTANCE,
    KIND_PATTERN,
    KIND_IDENTIFIER,
    KIND_LOOKUP,
    KIND_MAP,
    KIND_NUMBER,
    KIND_MS,
    KIND_SECONDS,
    KIND_SIZE,
    KIND_NUMBERS,
    KIND_TIERS,
    KIND_WORD,
};

enum conf_owner { OWNER_ALL, OWNER_COUNTER, OWNER_USER };

struct conf_row {
    const char *path;
    enum conf_kind kind;
    size_t at, size;      /* of the member in struct conf, struct conf_counter or struct conf_user */
    const char *standard; /* NULL: must be given; "": may be left out */
    int64_t least, most;
    bool reload;
    enum conf_owner owner;
    const char *expect, *help;
};

extern const struct conf_row conf_rows[CONF_OPTION_COUNT];

const struct conf_row *conf_row_find(struct slice path); /* NULL: no such option */
/* The names directly under a group ("" is the top, "counters.*" a counter), each once; texts point into pool.
 * Returns how many. */
size_t conf_group_names(const char *group, const char *names[CONF_OPTION_COUNT], struct buf *pool);
bool conf_group_exists(struct slice path);
/* Appends what an error says was expected: expect, or "one of a, b, c" of a word. */
void conf_expected(const struct conf_row *row, struct buf *out);

static inline void *conf_member(const struct conf_row *row, void *base)
{
    return (char *)base + row->at;
}

#endif
