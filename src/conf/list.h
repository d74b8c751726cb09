/* conf/list.h - options that are lists: whole numbers, tiers, texts; private to the room. */
#ifndef CONF_LIST_H
#define CONF_LIST_H

#include "conf/table.h"

/* Adds the numbers of "1, 5, 60"; each must be within the row's bounds, and new. False: *why may say what the text is
 * instead; some may have been added. */
bool numbers_read(const struct conf_row *row, struct slice text, struct conf_numbers *out,
                  const char **why) MUST_CHECK;
/* "5s 30d, 1h 365d": windows grow from tier to tier, and so does the time they are kept, or it stays equal. out gets
 * all of them or, on false, none. */
bool tiers_read(const struct conf_row *row, struct slice text, struct conf_tiers *out,
                const char **why) MUST_CHECK;

/* Adds one text, within the row's lengths and not there yet; false as numbers_read. */
bool texts_read(const struct conf_row *row, struct slice text, struct conf_texts *out,
                const char **why) MUST_CHECK;
bool text_printable(struct slice text); /* not empty, no control bytes */
void texts_free(struct conf_texts *texts);

void numbers_write(const struct conf_numbers *numbers, struct buf *out); /* [1, 5, 60] */
void tiers_write(const struct conf_tiers *tiers, struct buf *out);       /* "5s 30d, 1h 365d" */

#endif
