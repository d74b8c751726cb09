/* redis/link_in.h - shared by the files of the link: link.c (states), place.c, wire.c (requests and answers, TLS), handshake.c; and
 * by those who find out where a link should go: sentinel.c, cluster.c. */
#ifndef REDIS_LINK_IN_H
#define REDIS_LINK_IN_H

#include "redis/link.h"
#include "tls/tls.h"

struct redis_expect { /* one request and its replies */
    redis_reply_cb *cb;
    void *arg;
    uint32_t replies, at; /* due; come */
    bool transaction;     /* +OK, +QUEUED ... come before the last: not handed out */
    uint64_t sent_ms;
};

#define INBOX_BYTES (64 << 10)

/* link.c */
void link_doom_io(struct redis_link *l,
                  const char *what);  /* cuts: "MASTERDOWN Redis cannot be reached (<what>); ..." */
void link_end(struct redis_link *l);  /* doomed, and not inside a call that asked */
void link_soon(struct redis_link *l); /* link_end and refused requests, at the next turn */
void link_came_up(struct redis_link *l);
void link_try_now(struct redis_link *l); /* if it waits for the next try */

/* place.c */
bool place_target(const struct redis_place *p,
                  struct redis_link *l); /* into l->target. False: not known yet */
bool place_round_is_over(const struct redis_place *p, const struct redis_link *l); /* every host was tried */
/* The lesser one, where its URL has several hosts, or it is told one. */
uint32_t place_most_ms(const struct redis_place *p, uint32_t ms, uint32_t with_choice_ms);
/* l's server is fit. False: other links are up on another one. */
bool place_agrees(struct redis_place *p, struct redis_link *l);
void place_unfit(struct redis_place *p, const char *run_id,
                 const char *why); /* dooms all links to that server */
void place_redirect(struct redis_place *p, const struct redis_link *l,
                    const char *line); /* l's server says MOVED */
void place_link_up(struct redis_place *p);
void place_link_down(struct redis_place *p, const struct redis_link *l,
                     const char *why); /* or a try failed */

/* place.c: what those who ask other servers where Redis is have in common */
struct seeker {
    uv_loop_t *loop;
    uv_timer_t tick;
    uint32_t open;                  /* talks, and the timer, that are not closed yet */
    void (*gone)(struct seeker *f); /* frees it, when none is open */
    void (*closed)(void *arg);      /* ... then this is called, if not NULL */
    void *closed_arg;
};
struct talk { /* a connection to one server of our choice, none while it has no target */
    struct seeker *of;
    struct redis_place place;
    struct redis_link link;
    struct redis_target at; /* host empty: none is wanted */
    bool open, closing, asking;
    bool told;         /* it has said something, or could not be reached */
    unsigned state;    /* as it said last */
    char text[240];    /* of it */
    uint64_t asked_ms; /* mono; 0: never */
};
void seeker_init(struct seeker *f, uv_loop_t *loop, uv_timer_cb tick, uint64_t every_ms,
                 void (*gone)(struct seeker *f));
void seeker_close(struct seeker *f, void (*closed)(void *arg), void *arg); /* after its talks */
/* A plain, quiet link to the server at `at` alone. Its place moves it elsewhere; it is cut when an answer takes more than a second. */
void talk_open(struct talk *t, const struct redis_url *access, const char *role,
               void (*up)(struct redis_link *), void (*down)(struct redis_link *, const char *), void *arg);
void talk_close(struct talk *t);
bool talk_asks(struct talk *t, uint64_t pause_ms); /* it may be asked now: nothing was for this long */
bool talk_says(struct talk *t, unsigned state, const char *text);      /* false: as before */
const char *talk_end_why(const struct redis_link *l, const char *why); /* in down(), for people */
void talk_hear(struct talk *t, uint64_t until_ms); /* runs the loop until it is told, or that time */

/* wire.c */
bool wire_start(struct redis_link *l); /* begins to read */
void wire_expect(struct redis_link *l, uint32_t replies, redis_reply_cb *cb, void *arg);
void wire_write(struct redis_link *l);          /* out goes to the socket, if that is free */
void wire_answer_pending(struct redis_link *l); /* each with NULL */
void wire_answer_refused(struct redis_link *l);
uint64_t wire_silent_ms(const struct redis_link *l,
                        uint64_t now_ms); /* how long nothing was read while an answer is due */
void wire_close(struct redis_link *l);    /* memory */

const char *link_tls_end_why(const struct redis_link *l,
                             const char *why); /* of an end that may be more than that */

/* handshake.c */
void handshake_send(struct redis_link *l);
void handshake_time(struct redis_link *l); /* asks for TIME and ROLE */

#endif
