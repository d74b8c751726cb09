/* redis/request.h - writes requests. Every helper appends to out; nothing is copied twice, nothing is formatted with
 * %. */
#ifndef REDIS_REQUEST_H
#define REDIS_REQUEST_H

#include "base/slice.h"

void request_array(struct buf *out, size_t n);       /* *n */
void request_slice(struct buf *out, struct slice s); /* $n, bytes */
/* $n, the lane's tag and a key's name. It writes all keys, and all texts that scripts make keys of. */
void request_key(struct buf *out, struct slice tag, struct slice name);
#define REQUEST_KEY(out, tag, literal) request_key((out), (tag), SLICE(literal))
void request_int(struct buf *out, int64_t v); /* an integer as a bulk string */
void request_text(struct buf *out, const char *text);
#define REQUEST_LIT(out, literal) request_slice((out), SLICE(literal))
/* A whole command of words without arguments in it: request_words(out, "CLIENT ID"). Split at single spaces. */
void request_words(struct buf *out, const char *words);

/* Opens EVAL script numkeys; the caller appends keys_n keys and args_n arguments. It sends the whole script, never its
 * hash, so that there is no NOSCRIPT, and no second sending. Redis keeps the compiled script. */
void request_eval(struct buf *out, struct slice script, size_t keys_n, size_t args_n);

#endif
