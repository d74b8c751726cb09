/* conf/tokens.h - the file of http.tokens: `name token` or `name token store`, a line for each; empty lines and those
 * that begin with # are left out. Private to the room. */
#ifndef CONF_TOKENS_H
#define CONF_TOKENS_H

#include "conf/conf.h"

/* out is empty before, and again on false; e->text then says which line is wrong, in "is a file whose line ...", and shows
 * nothing of it. */
bool tokens_read(struct slice lines, struct conf_tokens *out, struct error *e) MUST_CHECK;
void tokens_free(struct conf_tokens *t); /* wipes them */

#endif
