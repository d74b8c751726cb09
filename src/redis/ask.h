/* redis/ask.h - a request as a text, and an answer taken apart in one call. For what is asked seldom: frames write their own bytes
 * (request.h). */
#ifndef REDIS_ASK_H
#define REDIS_ASK_H

#include "redis/link.h"
#include "redis/lua.h"
#include "redis/request.h"

#define REDIS_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* Appends a command whose words are split at single spaces. In a word, what printf would write for %s, %.*s, %d, %u, %zu and their
 * long forms (it may have any bytes), and the lane's tag for {}, which stands in front of each key. A last word +%zu writes
 * nothing: that many words more follow, which the caller appends. */
void request_format(struct buf *out, struct slice tag, const char *format, ...) REDIS_FORMAT(3, 4);
/* The same behind redis_link_begin(), whose buffer it returns; redis_link_ask() or redis_answered() is next. */
struct buf *redis_write(struct redis_link *l, const char *format, ...) REDIS_FORMAT(2, 3);

/* Blocking, where the caller owns the loop and nothing else is asked on this link. The answer lives until the next one that is
 * called for on this link; NULL: the link is lost. */
const struct redis_answer *redis_call(struct redis_link *l, const char *format, ...) REDIS_FORMAT(2, 3);
const struct redis_answer *redis_answered(struct redis_link *l); /* of the one request that was appended */
/* Until all that was asked on this link is answered, as operations ask it; their `done` may be NULL then. */
void redis_settle(struct redis_link *l);
void redis_end(struct redis_link *l); /* closes it */

/* True: the answer has this shape, and each part is in its place. s: a string, to a struct slice *. i: a number, to an int64_t *. a:
 * an array, *: anything; to a const struct redis_answer **. ( ... ): an array of exactly these. NULL has no shape. */
bool answer_scan(const struct redis_answer *r, const char *shape, ...);

#endif
