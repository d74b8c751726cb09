/* http/bearers.h - the bearers known now, read by all threads, changed by a reload; private to the room. Who was let in by
 * one borrows it, a stream for hours, so sets that hold no more are kept until the end. */
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
/* Is it, bound to the same store, one of those that hold now? Its name may be another. Any thread. */
bool bearers_hold(const struct bearers *s, const struct conf_bearer *bearer);
/* Takes them over, and leaves none in bearers. */
void bearers_take(struct bearers *s, struct conf_bearers *bearers);

#endif
