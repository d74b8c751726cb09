/* engine/asks.h - requests of clients to one lane (series/asks.h), except totals. */
#ifndef ENGINE_ASKS_H
#define ENGINE_ASKS_H

#include "engine/core.h"
#include "series/asks.h"

void asks_init(struct core *c);
void asks_close(struct core *c,
                uv_close_cb closed); /* gives what is read at once; closed gets a handle whose data is c */
void ask_pending(struct core *c, struct pending_request *q);
bool asks_turn(struct core *c); /* in each turn of the loop; true: the next may not wait for events */
void ask_sync(struct core *c, struct sync_request *q);
void ask_recover(struct core *c, struct recover_request *q);
void ask_wait(struct core *c, struct wait_request *q);
void ask_read(struct core *c, struct read_request *q);

#endif
