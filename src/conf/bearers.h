/* conf/bearers.h - the file of http.tokens: `name token` or `name token store`, a line for each; empty lines and those
 * that begin with # are ignored. Private to the room. */
#ifndef CONF_BEARERS_H
#define CONF_BEARERS_H

#include "conf/conf.h"

/* out is empty before, and again on false. e->text then says which line is wrong, in "is a file whose line ...", and
 * shows nothing of it. */
bool bearers_read(struct slice lines, struct conf_bearers *out, struct error *e) MUST_CHECK;
void bearers_free(struct conf_bearers *t); /* wipes them */

#endif
