/* protocol/inline.h - inside of protocol/: the words of an inline request. */
#ifndef PROTOCOL_INLINE_H
#define PROTOCOL_INLINE_H

#include "protocol/request.h"

/* Splits a line (without its end) into r->args, as Redis' sdssplitargs does: blanks between words, "..." with \n \r \t
 * \b \a \xHH, '...' with \', a closing quote only before a blank or the end. */
enum parsed inline_split(struct request *r, struct slice line);

enum parsed request_fail(struct request *r, enum parsed how, const char *text);

#endif
