/* redis/link_in.h - between the files of the link: link.c (states), wire.c (requests and answers),
 * handshake.c. */
#ifndef REDIS_LINK_IN_H
#define REDIS_LINK_IN_H

#include "redis/link.h"

struct redis_expect { /* one request and its replies */
    redis_reply_cb *cb;
    void *arg;
    uint32_t replies, at; /* due; come */
    bool transaction;     /* +OK, +QUEUED ... come before the last: not handed out */
    uint64_t sent_ms;
};

#define NOTHING_COUNTED "nothing was counted"

/* link.c */
/* Marks the connection as at its end; the first reason stands. Carried out by link_end, from soon at the
 * latest. */
void link_doom(struct redis_link *l, const char *why);
void link_doom_io(struct redis_link *l,
                  const char *what);  /* "MASTERDOWN Redis cannot be reached (<what>); ..." */
void link_end(struct redis_link *l);  /* doomed, and not inside a call that asked */
void link_soon(struct redis_link *l); /* link_end and refused requests, at the next turn */
void link_came_up(struct redis_link *l);

/* wire.c */
bool wire_start(struct redis_link *l); /* begins to read */
void wire_expect(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg);
void wire_write(struct redis_link *l);          /* out goes to the socket, if that is free */
void wire_answer_pending(struct redis_link *l); /* each with NULL */
void wire_answer_refused(struct redis_link *l);
bool wire_is_late(const struct redis_link *l,
                  uint64_t now_ms);    /* nothing read for answer_ms while an answer is due */
void wire_close(struct redis_link *l); /* memory */

/* handshake.c */
void handshake_send(struct redis_link *l);
void handshake_time(struct redis_link *l); /* asks for TIME */

#endif
