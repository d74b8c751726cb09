/* http/tokens.h - the tokens that hold now, read by all threads, changed by a reload; private to the room. Who was let in by
 * one borrows it, a stream for hours, so sets that hold no more are kept until the end. */
#ifndef HTTP_TOKENS_H
#define HTTP_TOKENS_H

#include "conf/conf.h"

struct token_set;

struct token_sets {
    const struct conf_tokens *now; /* atomic */
    struct token_set *last;        /* the reloader's: those of reloads, the last one first */
};

void token_sets_init(struct token_sets *s, const struct conf_tokens *first); /* borrowed until close */
void token_sets_close(struct token_sets *s);
const struct conf_tokens *token_sets_now(const struct token_sets *s); /* any thread; until close */
/* Is it, bound to the same store, one of those that hold now? Its name may be another. Any thread. */
bool token_sets_hold(const struct token_sets *s, const struct conf_token *token);
/* Takes them over, and leaves none in tokens. */
void token_sets_take(struct token_sets *s, struct conf_tokens *tokens);

#endif
