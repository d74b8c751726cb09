/* app/service.h - the rooms wired together on one loop: the running tallyd, and the one-run service of `recover`.
 *
 * Start:  Redis' sync link (checked) -> nobody else has the name -> links of earlier lives killed -> frame and fence
 *         links -> MySQL looked at -> writers -> the gate's first look -> listeners -> HTTP -> coalesce and sync run.
 * Stop:   HTTP ends, listeners take no more, answers go out -> runs end or time is up -> writers -> links -> loop empty.
 * Gate:   sync may merge only when the schema was checked since MySQL came (back), and Redis' gen was compared with the
 *         ledger's since Redis came back as another process (sync/gate.h). */
#ifndef APP_SERVICE_H
#define APP_SERVICE_H

#include "app/cleaner.h"
#include "app/notify.h"
#include "app/settings.h"
#include "coalesce/coalesce.h"
#include "command/command.h"
#include "listen/listen.h"
#include "mysql/writer.h"
#include "redis/batches_op.h"
#include "redis/check_op.h"
#include "redis/dirty_op.h"
#include "redis/fence_op.h"
#include "redis/frame_op.h"
#include "redis/journal_op.h"
#include "redis/link.h"
#include "redis/walk_op.h"
#include "sync/gate.h"
#include "sync/prune.h"
#include "sync/until.h"
#include <uv.h>

enum stage {
    STAGE_STARTING,
    STAGE_RUNNING,
    STAGE_DRAINING, /* told to stop: no new clients or claims, what is under way goes on */
    STAGE_CLOSING,  /* time is up or all is done: writers, links and handles are closed */
};

struct upkeep { /* the walk: upkeep.c */
    struct redis_restore restore;
    struct redis_walk walk;
    bool walking, restoring, walk_again, walked;
    uint64_t leftovers,
        leftovers_seen; /* of the last walk that ended; of the one under way. SCAN may show one twice */
    uint64_t walk_at_ms;
    int64_t clock_ahead_ms; /* Redis' clock less ours, as last seen */
};

struct journals { /* of dead services, to be brought home: journals.c */
    struct redis_journals list;
    struct redis_journal_take take;
    bool listing, taking, again;
    size_t at; /* in the list */
    uint64_t at_ms;
};

struct totals {                /* live totals asked for and not answered: wire_total.c */
    struct list waiting;       /* of struct total_task, for the next round */
    struct total_round *round; /* under way, NULL: none */
};

struct http;
struct http_side {       /* what wire_http.c and the threads of http/ share */
    struct http *http;   /* NULL: none is configured, or it has ended; the loop's alone */
    struct source where; /* its; borrows from the settings */
    uv_async_t news;     /* it wants a connection, or has ended */
    uv_mutex_t lock;     /* of the following */
    int *wanted;         /* ends of socketpairs, to be adopted */
    size_t wanted_n;
    bool ended;
};

struct users_side {    /* wire_users.c */
    struct users *now; /* the settings' own, or those of the last reload */
    struct prover *prover;
    uv_timer_t pace; /* active while requests of a user wait */
};

struct service {
    struct settings *settings;
    const char *path; /* of the configuration, NULL: nothing to reload */
    bool serves;      /* listens for clients (not in `recover`) */
    uv_loop_t loop;
    uv_work_t first_work; /* of libuv's pool */
    struct redis_link frame_link, sync_link, fence_link, clean_link;
    struct redis_frames frames;
    struct redis_fences fences;
    struct coalesce *coalesce;
    struct sync *sync;
    struct writer_pool *pool;
    struct listen *listen;
    struct command *command;
    struct users_side users;
    uv_prepare_t turn; /* the end of each loop turn */
    uv_idle_t again;   /* active: the next turn comes without waiting for events */
    uv_timer_t tick;
    uv_signal_t signals[3];
    struct gate gate;
    struct prune prune;
    struct until until;
    struct upkeep upkeep;
    struct cleaner cleaner;
    struct journals journals;
    struct totals totals;
    struct http_side web;
    struct recovery *recovery; /* under way, NULL: none */
    struct notify notify;
    uint64_t frame_sent_us; /* of the frame in flight */
    enum stage stage;
    uint64_t stop_by_ms; /* while draining */
    uint64_t certificates_at_ms;
    bool mysql_seen, stop_asked, draining, dropped, listen_closed;
    struct error failure; /* why it stops, when not because it was told to */
};

/* Runs until it is told to stop. serves: accepts clients. `started` is called once it runs (may be NULL).
 * Returns ERR_NONE or why it could not start or go on. */
enum err service_run(struct service *s, struct settings *settings, const char *path, bool serves,
                     void (*started)(struct service *s, void *arg), void *arg, struct error *e);
void service_stop(struct service *s);                                  /* drains, then service_run returns */
void service_fail(struct service *s, enum err code, const char *text); /* the same, with a reason */

/* As writer_pool_job; without a pool (not yet, or closed) answered at once: it did not run. */
void service_job(struct service *s, struct db_job *job);

/* start.c */
void service_init(struct service *s); /* rooms are made, nothing is begun */
enum err service_start(struct service *s,
                       struct error *e); /* also ERR_NONE when a stop was asked for meanwhile */
void service_begin(struct service *s);   /* all is there: the machines run */
bool service_links_up(const struct service *s);

/* standing.c: the one line of `systemctl status` */
void service_status(const struct service *s, char *out, size_t size);

/* stop.c */
void service_drain_tick(struct service *s, uint64_t now_ms);

/* wire_*.c: the ports of one room given by another */
void wire_coalesce(struct service *s);
void wire_sync(struct service *s);
void wire_gate(struct service *s); /* behind wire_sync */
void wire_ledger(struct service *s);
void wire_command(struct service *s);
struct listen_handler wire_listen_handler(struct service *s);
struct listen_handler wire_inside_handler(struct service *s); /* for clients that may everything */
void wire_total_init(struct service *s);
void wire_read(void *arg, struct read_request *q);   /* command_ports.read; arg: the service */
void wire_total(void *arg, struct total_request *q); /* command_ports.total; arg: the service */

/* wire_http.c */
void wire_http_init(struct service *s);
enum err wire_http_begin(struct service *s, struct error *e);  /* when listen.http is given */
void wire_http_reload(struct service *s, struct conf *wanted); /* takes the tokens out of it */
void wire_http_stop(struct service *s);
bool wire_http_over(const struct service *s); /* there is none any more */
void wire_http_close(struct service *s);      /* when the loop is over */

/* wire_users.c */
void wire_users_init(struct service *s);
enum err wire_users_listen(struct service *s, struct error *e); /* listen.control */
void wire_users_pace(void *arg);                                /* command_ports.pace */
bool wire_users_reload(struct service *s, const struct conf *wanted,
                       struct error *e); /* false: nothing was changed */
void wire_users_stop(struct service *s);
void wire_users_close(struct service *s); /* when the loop is over */

/* journals.c */
void journals_soon(struct service *s); /* at the next tick */
void journals_tick(struct service *s, uint64_t now_ms);
bool journals_quiet(const struct service *s);

/* upkeep.c */
void upkeep_walk(struct service *s); /* now, or again after the one under way */
void upkeep_tick(struct service *s, uint64_t now_ms);
void upkeep_stop(struct service *s);
bool upkeep_quiet(const struct service *s);

#endif
