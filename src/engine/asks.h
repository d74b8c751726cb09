/* engine/asks.h - requests of clients to one lane (series/asks.h), except totals. */
#ifndef ENGINE_ASKS_H
#define ENGINE_ASKS_H

#include "engine/core.h"
#include "series/asks.h"

void ask_pending(struct core *c, struct pending_request *q);
bool asks_turn(struct core *c);    /* in each turn of the loop; true: the next may not wait for events */
void asks_abandon(struct core *c); /* gives what is read at once */
void ask_sync(struct core *c, struct sync_request *q);
void ask_recover(struct core *c, struct recover_request *q);
void ask_wait(struct core *c, struct wait_request *q);
void ask_read(struct core *c, struct read_request *q);

#endif
