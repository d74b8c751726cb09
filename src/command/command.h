/* command/command.h - commands and replies: the parse loop of a connection, the command table, argument checks.
 * Increments go to coalesce/; requests that take time go through ports to engine/. No sockets here: a connection is an
 * opaque `struct conn` with the functions of struct client_ports (listen's conn_* fit as they are). One loop, no locks.
 *
 * Replies keep the order of requests: while a frame owes answers (outlet.waiting > 0) a local reply goes through
 * coalesce_literal(), otherwise straight into outlet.out. With several lanes see order.h. An asynchronous command
 * (CTR.PENDING, CTR.TOTAL, HGET, HMGET, GET, CTR.SYNC, CTR.RECOVER, WAIT, WAITAOF, and reads of series, timeboxes, events,
 * visitors) is a barrier on its connection: it waits until no answer is owed, and the session takes no request until it
 * is answered. */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include "base/outlet.h"
#include "coalesce/coalesce.h"
#include "protocol/request.h"
#include "series/asks.h"
#include "series/zones.h"
#include "users/prover.h"

struct conn; /* never looked into */

/* What a session does to its connection. */
struct client_ports {
    void (*pause)(struct conn *c); /* no session_bytes() until resume */
    void (*resume)(
        struct conn *c); /* what session_bytes() left is offered again, from the loop, not from here */
    void (*offer)(struct conn *c);    /* the same, now: from session_room() only */
    void (*answered)(struct conn *c); /* outlet.out grew outside of session_bytes() */
    void (*finish)(struct conn *c);   /* close when all that is owed is answered and written; no more bytes */
    void (*drop)(struct conn *c);     /* close now: session_close() before it returns */
    void (*hold)(
        struct conn *c); /* a request is out: keep the session's memory, also when the client goes ... */
    void (*release)(struct conn *c); /* ... until here; the session may be gone after it */
    void (*peer)(const struct conn *c, char *out, size_t size);
    void (*info)(const struct conn *c, struct conn_info *info);
    bool (*left)(const struct conn *c); /* it closed its side */
    void (*promise)(struct conn *c,
                    size_t bytes);          /* of an answer to come, that count as unread; 0: it is here */
    size_t (*unread)(const struct conn *c); /* bytes of answers that it has not taken */
};

/* What INFO was asked for. */
struct info_asked {
    const struct slice *sections;
    uint32_t n; /* 0: the default ones */
};

/* True: this section was asked for, and its head is in out; lines `key:value\r\n` follow. */
bool info_begins(const struct info_asked *asked, const char *title, struct buf *out);

struct command_ports {
    void *arg;
    void (*pending)(void *arg, uint32_t lane, struct pending_request *r);
    void (*sync)(void *arg, uint32_t lane, struct sync_request *r);
    void (*recover)(void *arg, uint32_t lane, struct recover_request *r);
    /* Appends sections of INFO: those for which info_begins() says yes. NULL: none. */
    void (*info)(void *arg, const struct info_asked *asked, struct buf *out);
    void (*total)(void *arg, uint32_t lane, struct total_request *r);
    void (*read)(void *arg, uint32_t lane, struct read_request *r);
    void (*wait)(void *arg, uint32_t lane, struct wait_request *r);
    int64_t (*redis_ms)(void *arg); /* the clock of frames; before the first link this host's */
    void (*pace)(void *arg); /* requests of a user wait: command_pace() every ms or two until it says false */
};

#define COMMAND_MULTI_MAX                                                                                    \
    10000 /* far beyond what fits into a frame: it bounds a MULTI of commands that do not count */
#define COMMAND_MULTI_BYTES_MAX (1 << 20) /* as many as one request may have */

/* What clients make tallyd hold. */
enum share_kind {
    SHARE_ANSWERS, /* of reads, made and unread */
    SHARE_HALVES,  /* requests of which a part has come */
    SHARES
};

/* Of its user's share: the script of a token or of a visitor keeps Redis as long as so many hits (measured: 30 us, and 2.3 a hit). */
#define SCRIPT_HITS 16

struct command_config {
    /* One a lane; borrowed, the array too. A name's lane: series/names.h. */
    struct coalesce *const *lanes;
    uint32_t lanes_n;
    const struct counters *counters; /* coalesce's own, with ops */
    struct client_ports client;
    struct command_ports ports;
    struct request_limits limits;
    uint32_t clients_max;      /* for CONFIG GET and INFO */
    uint32_t multi_max;        /* commands in one MULTI */
    uint32_t multi_bytes_max;  /* bytes of their requests */
    uint32_t busy_ms;          /* as coalesce's: an answer that waited so long for room is refused; 5,000 */
    size_t shares_max[SHARES]; /* bytes of all clients */
    size_t lasts_max;          /* bytes of the last totals, for OR STALE */
    uint32_t half_ms;          /* for which a short request may be unfinished */
    struct zone_view *zones;   /* for CTR.HIT; borrowed */
    struct users *users;       /* borrowed; none in it: full access for all */
    struct prover *prover;
    uint32_t stranger_ms; /* unauthenticated clients are disconnected then */
};

struct command;                                                      /* what all sessions of a loop share */
struct command *command_create(const struct command_config *config); /* config is copied */
void command_destroy(struct command **c);                            /* when no session is left */

/* After a reload: a user that is the same as before (user_is_same) goes on under the new rules, all others have to
 * authenticate again. The old ones may go after it. */
void command_users(struct command *c, struct users *users);
void command_join(struct command *c); /* once a turn of the loop, before coalesce_turn() ... */
void command_turn(struct command *c); /* ... and after it */
bool command_pace(struct command *c); /* false: no session waits any more */
void command_tick(struct command *c, uint64_t now_ms); /* every 20 ms or so: strangers, figures of INFO */

enum session_state {
    SESSION_TAKING, /* takes requests */
    SESSION_PARKED, /* an increment or an EXEC found no room: waits for session_room(), then parses it again */
    SESSION_BARRIER, /* waits until outlet.waiting is 0 */
    SESSION_AHEAD,   /* too many bytes of answers wait for an earlier one, which another lane owes */
    SESSION_ASKING,  /* an asynchronous request is out */
    SESSION_QUEUED,  /* an answer needs memory that others have */
    SESSION_PACED,   /* its user has no room: goes on by command_pace() or command_turn() */
    SESSION_ENDING,  /* the last reply is made; the client is being closed */
};

enum session_door {
    DOOR_OPEN,   /* no users are configured, or it comes from inside: full access */
    DOOR_CLOSED, /* unauthenticated */
    DOOR_USER,   /* it is a user */
};

/* CLIENT REPLY */
enum session_replies {
    REPLIES_ON,
    REPLIES_OFF,
    REPLIES_SKIP,      /* the request that comes next, or is under way, is not answered */
    REPLIES_SKIP_NEXT, /* set by the request under way, for the next one */
};

/* CLIENT TRACKING: bits */
enum session_tracking {
    TRACKING_ON = 1,
    TRACKING_OPTIN = 2,
    TRACKING_OPTOUT = 4,
    TRACKING_NOLOOP = 8,
};

struct spec;
struct order;

/* One client. Its memory is the connection's; zeroed before session_open(). */
struct session {
    struct command *command;
    struct conn *conn;
    struct outlet *outlet;
    struct order *order; /* with several lanes, from its first hit on; else NULL */
    uint32_t lane;       /* of the request under way */
    struct parser parser;
    enum session_state state;
    enum session_door door;
    struct user *user;            /* with DOOR_USER */
    bool inside;                  /* of this process or its operator */
    struct list place;            /* on the command's list of strangers or of all others */
    struct list paced;            /* on its user's list of waiting sessions */
    uint64_t stranger_ms;         /* mono: since when it is one */
    int resp;                     /* 2 or 3, by HELLO */
    bool gone;                    /* session_close() was called; memory lives on while a request is out */
    bool last;                    /* the reply just made is the last one */
    uint64_t id;                  /* CLIENT ID, from 1 */
    uint64_t opened_ms;           /* mono */
    uint64_t told_ms;             /* mono: WAIT has told of all changes until then; 0: it told nothing */
    uint64_t active_ms;           /* mono: when it sent something last, */
    const struct spec *ran;       /* and what; NULL: nothing yet, or no command */
    enum session_replies replies; /* CLIENT REPLY */
    unsigned tracking;            /* of enum session_tracking */
    uint64_t redirect;            /* with TRACKING_ON: the client named, 0: none */
    bool no_evict;                /* CLIENT NO-EVICT */
    struct multi *multi;          /* between MULTI and EXEC, else NULL; owned */
    bool broken;                  /* EXEC refuses this MULTI: a request of it was refused, or users changed */
    struct buf name;              /* CLIENT SETNAME */
    struct buf lib_name, lib_ver; /* CLIENT SETINFO */
    struct buf held; /* a reply that coalesce had no room for: goes out when outlet.waiting is 0 */
    struct buf key;  /* of the request that is out */
    struct share {   /* shares.c */
        struct list place;
        size_t bytes;
        size_t *of; /* the sum that bytes are part of */
    } share[SHARES];
    uint64_t half_ms; /* mono: the unfinished request began */
    struct {          /* answers.c */
        struct list queued;
        size_t wants;
        uint64_t since_ms; /* mono: it waits */
        bool making, late; /* has memory for an answer to come; has waited too long */
    } answer;
    union {
        struct pending_request pending;
        struct total_request total;
        struct read_request read;
        struct sync_request sync;
        struct recover_request recover;
        struct wait_request wait;
        struct auth_request {
            struct proof_ask proof;
            size_t name_n, password_n, client_n, why_n; /* of the texts in `key`, one after the other */
            uint64_t users_version;                     /* as it was asked */
            int resp;                                   /* of a HELLO; 0: it is an AUTH */
            bool has_client;                            /* a HELLO with SETNAME */
        } auth;
    } ask;
};

/* inside: it comes from this process or its operator, so it is no stranger and has full access. */
void session_open(struct session *s, struct command *command, struct conn *conn, struct outlet *outlet,
                  bool inside);
/* Parses and runs requests; returns how many bytes were used up. */
size_t session_bytes(struct session *s, struct slice in);
/* coalesce answered s->outlet. To be called before listen's conn_answered(). */
void session_answered(struct session *s);
/* coalesce has room again for s->outlet, which was parked: takes the bytes it left now, so sessions go on in the order of
 * parking. Never from inside session_bytes(). */
void session_room(struct session *s);
/* The client's own outlet, for an outlet that a lane answers or has room for: with one lane they are the same. */
struct outlet *command_outlet(const struct command *c, struct outlet *o);
/* The client is gone. No session_bytes() follows; session_answered() may. */
void session_close(struct session *s);

#endif
