/* http/bearers.h - the tokens that are valid now: all threads read them, a reload replaces them. A request
 * borrows its token, so old sets are kept until the end. Private to the room. */
#ifndef HTTP_BEARERS_H
#define HTTP_BEARERS_H

#include "conf/conf.h"

struct bearer_set;

struct bearers {
    const struct conf_bearers *now; /* atomic */
    struct bearer_set *last;        /* the reloader's: those of reloads, the last one first */
};

void bearers_init(struct bearers *s, const struct conf_bearers *first); /* borrowed until close */
void bearers_close(struct bearers *s);
const struct conf_bearers *bearers_now(const struct bearers *s); /* any thread; until close */
/* Takes them over, and leaves none in bearers. */
void bearers_take(struct bearers *s, struct conf_bearers *bearers);

#endif
