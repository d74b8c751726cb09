/* redis/frame_tokens.h - the tokened increments of a frame (series/frame.h) on the wire: one script among the commands
 * of its MULTI. An error of one of them (a key of another type, an overflow, a token of another increment) fails only
 * that one, and leaves nothing of it. */
#ifndef REDIS_FRAME_TOKENS_H
#define REDIS_FRAME_TOKENS_H

#include "redis/frame_parts.h"

void tokens_clear(struct frame *f); /* of answers */

/* Of a frame found applied: a GET for each; the answer to the one at that place. False: the answer is of no use.
 * forgotten: Redis may have counted a token and forgotten it since. */
void tokens_ask(struct buf *out, struct slice tag, const struct frame *f);
bool tokens_may_be_forgotten(const struct redis_frames *fr, const struct frame *f);
bool tokens_told(struct frame *f, uint32_t at, const struct redis_answer *r, bool forgotten);

#endif
