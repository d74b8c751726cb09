/* coalesce/takeover.h - takes over journals whose process died before it had brought everything home. At start it takes
 * those of earlier lives of this instance; later also those of other instances without a link, and our own after Redis
 * lost its tail. It takes one at a time; coalesce brings them home (coalesce/README.md, rules C32 to C34). */
#ifndef COALESCE_TAKEOVER_H
#define COALESCE_TAKEOVER_H

#include "coalesce/coalesce.h"
#include "series/batches.h"

struct takeover_ports { /* each request is answered once, on the loop, never from inside the call */
    void *arg;
    void (*list)(void *arg, struct journal_list *list);
    void (*take)(void *arg, struct journal_take *take); /* (!) on the frame link */
};

struct takeover {
    bool busy;
    /* private */
    struct takeover_ports ports;
    struct coalesce *coalesce;
    uint32_t every_ms;
    uint64_t at_ms;
    bool stopped;
    size_t at; /* in the list */
    struct journal_list list;
    struct journal_take take;
};

void takeover_init(struct takeover *t, struct coalesce *c, const struct takeover_ports *ports,
                   uint32_t every_ms);
void takeover_soon(struct takeover *t); /* at the next tick, or once this look is over */
void takeover_tick(struct takeover *t); /* while the links are up */
void takeover_stop(struct takeover *t); /* takes no more; what was asked is still answered */

#endif
