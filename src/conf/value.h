/* conf/value.h - one option's value from text, and back; private to the room. */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "base/log.h"
#include "base/slice.h"
#include "conf/conf.h"

/* Conf/options.h as an array; private to the room. */

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

/* Stores text into the row's member of base (a struct conf or conf_counter that owns what is stored). quoted: it was in
 * quotation marks, so it is no number. False: nothing was stored, and *why may name in a phrase ("a URL without a
 * host") what the file has, when the text itself may hold a secret. Addresses and numbers are added to their list at
 * each call. */
bool value_read(const struct conf_row *row, struct slice text, bool quoted, void *base,
                const char **why) MUST_CHECK;
bool value_listed(const struct conf_row *row); /* may a YAML list be its value? */
bool value_secret(const struct conf_row *row); /* may its text hold a password? */

/* Appends the value as YAML, never with a password. False: it is not given, nothing was appended. */
bool value_write(const struct conf_row *row, const void *base, struct buf *out);
void value_free(const struct conf_row *row, void *base);

/* Adds a name to a KIND_MAP, or another item to its last name. False: nothing was stored. */
bool value_map_add(const struct conf_row *row, struct slice name, struct slice text, void *base) MUST_CHECK;

/* The i-th name of a map with its value, as YAML. */
void value_map_put(const struct conf_map *map, size_t i, struct buf *out);

/* Of a KIND_LOOKUP: what the file calls its i-th name; and sets it. False: it is no MySQL name, nothing was stored. */
struct slice value_lookup_name(const struct conf_row *row, size_t i);
bool value_lookup_set(const struct conf_row *row, size_t i, struct slice text, void *base) MUST_CHECK;

/* Passwords from the environment or from files; private to the room. */

/* path as it is opened, heap: a relative one begins at the directory of the configuration file. */
char *secret_path(const char *conf_file, const char *path);

/* The one line of a password file, heap, for secret_free. NULL: e->text says "is a file that ...", "expected ...", and
 * shows neither the path (it may be a misplaced password) nor anything of the file. */
char *secret_read_file(const char *conf_file, const char *path, struct error *e);

/* The same of a file with several lines, at most 64 KiB. */
char *secret_read_lines(const char *conf_file, const char *path, struct error *e);

/* The same of systemd's LoadCredential=: the file `name` of $CREDENTIALS_DIRECTORY, whose rights systemd keeps. NULL
 * with e->code ERR_NONE: no such file, or it is empty. */
char *secret_read_credential(const char *name, struct error *e);
void secret_free(char *secret); /* wipes it */

#endif
