/* conf/value.h - one option's value from text, and back; private to the room. */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "conf/table.h"

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

/* The n-th of "a|b|c"; p NULL: there are fewer. */
struct slice value_word(const char *words, int n);

#endif
