/* listen/inside.h - what the files of listen/ share.
 *   listen.c  the set of listeners: accept, start and end, what happens once a loop turn
 *   conn.c    one connection: bytes in, bytes out, its end
 *   linger.c  what is read and discarded after its last answer
 *   proxied.c the PROXY protocol header that a connection through a proxy begins with
 *   secure.c  TLS between a connection's socket and its session    greeting.c  which TLS handshake runs now */
#ifndef LISTEN_INSIDE_H
#define LISTEN_INSIDE_H

#include "listen/listen.h"
#include "tls/tls.h"

#include <netinet/in.h>
#include <stdalign.h>
#include <uv.h>

#define READ_BYTES (64 * 1024)  /* in one read, at most */
#define READ_LEAST (8 * 1024)   /* and at least */
#define TURN_BYTES (128 * 1024) /* in one turn, of all clients that send more than one read takes */
#define JOIN_BYTES 4096 /* up to this many kept bytes are copied before the new ones; more are appended to */

union stream {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct listener {
    union stream s;
    struct listen *listen;
    struct listen_handler handler;
    bool is_unix, is_tls;
    bool shared;             /* with other processes */
    struct networks proxies; /* as in base/address.h */
    bool held;               /* libuv holds one connection of it until it is taken, and accepts no other */
    bool bound;              /* its unix socket is a file of ours */
    char url[300];           /* where it really is */
};

struct greeting {     /* greeting.c */
    uint32_t percent; /* of the loop's time that handshakes may take */
    int64_t left;     /* of it, in us * 100; below 0: a step is not cut short */
    uint64_t seen_us, begun_us;
    uint64_t turn_us;        /* taken in this turn of the loop */
    struct list put_off[2];  /* `secure` of those that sent something and are not read: new, begun */
    bool new_next;           /* the turn of the new where both wait */
    struct secure *admitted; /* is read again, its bytes have not come yet */
    uv_timer_t pause;        /* runs while some are put off and nothing is left */
};

struct listen {
    uv_loop_t *loop;
    struct listen_limits limits;
    struct listener **listeners;
    size_t listeners_n;
    struct listener *inside;  /* of adopted connections, one of listeners; NULL: there were none */
    struct list open;         /* connections */
    struct list closing;      /* connections that are closed or being closed, until their memory goes */
    struct list answered;     /* open ones to be written or looked at by listen_flush_all */
    struct list resumed;      /* open ones whose kept bytes are to be offered */
    struct list writing;      /* open ones with chunks */
    struct list handshakes;   /* `secure` of open ones whose TLS handshake is under way */
    struct list lingering[2]; /* open ones in linger.c, the longest first: clients, refused ones */
    struct greeting greeting;
    uint32_t clients;   /* open */
    uint32_t refused_n; /* open ones that are no clients */
    size_t unread;      /* bytes of answers that they have not read, as each was flushed last */
    uint32_t handles;   /* of libuv, not yet closed */
    uv_idle_t again;    /* runs while `resumed` or `answered` is not empty: the loop must not sleep on them */
    uv_timer_t stalls;  /* runs while `writing`, `handshakes` or `lingering` is not empty */
    uint32_t turn;      /* of the loop, from 1 */
    uint32_t busy;      /* connections that had more to read than was read, in this turn */
    uint32_t read_bytes; /* in a read of this turn */
    uint32_t accepted;   /* in this turn of the loop */
    uint32_t held;       /* listeners that are */
    bool stopping, ending;
    void (*stopped)(void *arg);
    void *stopped_arg;
    uint64_t accept_logged_ms;
    char *area;              /* JOIN_BYTES, then READ_BYTES: one for all connections */
    struct tls_context *tls; /* borrowed; NULL: no address has TLS, */
    char *opened;            /* and else: JOIN_BYTES, then what READ_BYTES of TLS may hold */
};

struct secure { /* of a connection with TLS */
    struct conn *conn;
    struct tls_session *tls;
    struct list in_handshakes, in_put_off;
    uint64_t until_ms;   /* the handshake's end, uv_now; without the time for which it was put off */
    uint64_t put_off_ms; /* since when it is, uv_now */
    bool spoke;          /* false at its end: it only looked whether the port is open */
};

struct unsent { /* of answers that the socket did not take at once */
    uv_write_t write;
    struct conn *conn;
    struct list place; /* in conn->unsent */
    struct buf bytes;
    size_t from, at;  /* its first byte; the first that libuv does not have */
    uint64_t counted; /* outlet.counted as it was made */
};

struct conn {
    struct outlet outlet;
    union stream s;
    struct listen *listen;
    const struct listener *from;
    struct list place; /* in listen->open or listen->closing */
    struct list answered, resumed, in_writing, in_lingering;
    struct buf kept;          /* bytes that the session left; freed when empty */
    size_t unread, promised;  /* its part of listen->unread; of it, in the making */
    struct list unsent;       /* chunks: of the oldest one, libuv has a part until on_written() */
    size_t behind;            /* bytes in chunks that libuv does not have */
    uint64_t handed;          /* bytes in chunks so far, */
    uint64_t taken;           /* how many of them the socket had taken when the stall timer looked last, */
    uint64_t progress_ms;     /* and when that changed, or something came from the client (uv_now) */
    uint64_t told;            /* outlet.counted of what the socket has taken whole */
    uint64_t linger_until_ms; /* uv_now */
    size_t discarded;         /* bytes, while it lingers */
    uint32_t read_turn;       /* it was read last in */
    struct secure *secure;    /* NULL: no TLS */
    union client {            /* as its proxy names it; sa_family 0: it comes by itself */
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } client;
    uint32_t holds;
    bool paused;    /* by the session */
    bool offering;  /* its session looks at its bytes */
    bool put_off;   /* its handshake, for others */
    bool slow;      /* leaves too much unread */
    bool yielded;   /* the outlet was full when the session looked last */
    bool ended;     /* the client sends no more; what is kept is still offered */
    bool finishing; /* to be closed when all is written */
    bool unproxied; /* its PROXY header has not come; what came of it is kept */
    bool refused;   /* over limits.clients: it has no session */
    bool reading, closed;
    alignas(max_align_t) char session[];
};

#define OUT_KEEP 512 /* a buffer of what goes out stays up to this size when it is empty */
static inline void out_empty(struct buf *b)
{
    if (b->cap > OUT_KEEP)
        buf_free(b);
    else
        buf_reset(b);
}

/* conn.c */
/* fd: its socket, -1: the one that libuv has accepted. NULL: it is gone already, or not wanted. */
struct conn *conn_accept(struct listener *ls, int fd);
void conn_refuse(struct listener *ls, int fd); /* a client over limits.clients: handler.full, and the end */
void conn_put_off(struct conn *c, bool put_off);
struct conn *conn_adopt(struct listener *ls,
                        int fd); /* NULL: not wanted, or fd is no socket; fd stays open */
void conn_offer_kept(struct conn *c);
void conn_stall_check(struct conn *c, uint64_t now_ms);
void conn_free(struct conn *c);
void conn_take(struct conn *c, char *text, size_t n); /* JOIN_BYTES before text are free */
void conn_take_end(struct conn *c);                   /* the client sends no more */
/* One read a turn, into the shared area. */
void conn_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *into);

/* linger.c */
void linger_begin(struct conn *c); /* all is written; last line: c may be dropped */
static inline bool conn_lingers(const struct conn *c)
{
    return list_linked(&c->in_lingering);
}
void linger_check(struct listen *l, uint64_t now_ms); /* ends those whose time is over */
void linger_make_room(struct listen *l);              /* for a new client */

/* proxied.c */
bool proxied_begin(struct conn *c); /* it has been accepted; false: it must not come here */
/* *text and *n become what is behind the header. False: nothing is, or c was dropped. */
bool proxied_take(struct conn *c, char **text, size_t *n);

/* secure.c; only for connections with TLS, except the first and the last */
void secure_open(struct conn *c);
void secure_gone(struct conn *c);                            /* it is being closed */
void secure_close(struct conn *c);                           /* memory; a connection without TLS: nothing */
void secure_bytes(struct conn *c, const char *in, size_t n); /* last line: c may be dropped */
struct buf *secure_out(struct conn *c); /* what is to be written, all of the outlet in it */
void secure_end(struct conn *c);        /* all is written */
void secure_left(struct conn *c);       /* the client did */
static inline bool secure_greets(const struct secure *s)
{
    return list_linked(&s->in_handshakes);
}
void secure_handshakes_check(struct listen *l, uint64_t now_ms);

/* greeting.c */
void greeting_init(struct listen *l);
bool greeting_may_read(struct secure *s); /* else: greeting_put_off() */
void greeting_put_off(struct secure *s);  /* it is read when its turn comes */
void greeting_heard(struct secure *s);    /* it was read, whatever came, or is being closed */
void greeting_begin(struct listen *l);    /* of work for a handshake ... */
void greeting_end(struct listen *l);      /* ... that comes out of the share */
void greeting_turn(struct listen *l);     /* once a turn: lets the next one in */

/* listen.c */
/* Initializes s and counts it; listen_handle_closed() when it is closed. */
void listen_stream_open(struct listen *l, union stream *s, bool is_unix, void *data);
void listen_handle_closed(struct listen *l); /* last line: stopped() may fire */
void listen_again(struct listen *l);         /* `resumed` or `answered` is not empty any more */
void listen_watch(struct listen *l); /* `writing`, `handshakes` or `lingering` is not empty any more */

#endif
