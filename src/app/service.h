/* app/service.h - the doors and what is around the lanes, on one loop: the running tallyd, and the one-run service of
 * `recover`.
 *
 * Start:  the number of lanes -> of each: Redis' sync link (checked) -> no other process has the name -> links of earlier
 *         lives killed, frame and fence links -> MySQL looked at -> writers -> the gates' first look -> listeners -> HTTP ->
 *         the lanes run. One of several lanes that is away does its steps when it comes.
 * Stop:   shared ports are left -> HTTP ends, listeners take no more, answers go out -> runs end or time is up -> writers -> lanes -> loop empty. */
#ifndef APP_SERVICE_H
#define APP_SERVICE_H

#include "command/command.h"
#include "engine/core.h"
#include "engine/lane.h"
#include "listen/listen.h"
#include "mysql/panel.h"
#include "redis/seek.h"
#include "series/names.h"
#include "setup/setup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

/* --- a configuration as the rooms need it: counters, addresses, this process' names. Borrows from struct conf, which must outlive
 * it. --- */

struct settings {
    const struct conf *conf;
    struct setup setup; /* counters, and where Redis and MySQL are */
    char instance[NAME_BYTES_MAX + 1];
    char host[128]; /* "<boot id>:<network namespace>", the same for two processes that can meet on a local
                       name */
    struct life life;
    uint64_t stop_timeout_ms;
    bool take_over; /* as in engine/core.h */
};

/* e names file, line and column of what is wrong. */
enum err settings_build(const struct conf *conf, struct settings *out, struct error *e) MUST_CHECK;
void settings_close(struct settings *s);

/* Takes over the options that a reload may change (conf/conf.h), logs which others would need a restart, and reads
 * certificates again. */
void settings_reload(struct settings *s, const struct conf *wanted);

struct lane_config settings_lane(const struct settings *s, uint32_t lane); /* borrows from s */

/* The life of certificates in a running service: logged at the start, checked once a day, read again at a SIGHUP. */

/* Those of the tls:// addresses. e names file, line and column of what is wrong. */
enum err certificates_load(struct settings *s, struct error *e) MUST_CHECK;
/* Logs connections without TLS, or without proof. */
void certificates_begin(const struct settings *s);
/* Logs how long they last, at the first call and once a day; *due_ms begins with 0. */
void certificates_tick(struct settings *s, uint64_t now_ms, uint64_t *due_ms);

/* --- what the service tells its supervisor, and the service --- */

/* Messages of the service to its supervisor, in the protocol of sd_notify(3): READY, STATUS, WATCHDOG, RELOADING,
 * EXTEND_TIMEOUT_USEC, STOPPING, each one datagram to $NOTIFY_SOCKET. Without that variable everything here does nothing. The
 * protocol is public and stable, and takes forty lines; libsystemd would bring four more libraries into the process (gcrypt, lz4,
 * lzma, zstd). Nothing here blocks: a message that the socket does not take now is tried again with the next tick, or left out. */

#define NOTIFY_STATUS_BYTES 512

struct notify {
    int fd; /* -1: no supervisor */
    struct sockaddr_un to;
    socklen_t to_n;
    bool ready_owed;
    uint64_t watchdog_ms; /* between two signs of life, 0: none are wanted */
    uint64_t watchdog_at_ms, status_at_ms;
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. An invalid address is logged, and no message is sent. */
void notify_init(struct notify *n);
void notify_ready(struct notify *n); /* it serves; also ends a reload */
void notify_waiting(struct notify *n,
                    const char *what);   /* start takes up to 30 s longer than from now on; one line */
void notify_reloading(struct notify *n); /* SIGHUP was read */
void notify_stopping(struct notify *n);
/* Each tick of the loop: a sign of life when it is due. A loop that is blocked sends none, and the supervisor ends the
 * process. */
void notify_tick(struct notify *n, uint64_t now_ms);
/* Is it time for a new status? text: one line for `systemctl status`. */
bool notify_status_due(const struct notify *n, uint64_t now_ms);
void notify_status(struct notify *n, uint64_t now_ms, const char *text);
void notify_close(struct notify *n);

struct http;
struct http_side {       /* what wire.c and the threads of http/ share */
    struct http *http;   /* NULL: none is configured, or it has ended; the loop's alone */
    struct source where; /* its; borrows from the settings */
    uv_async_t news;     /* it wants a connection, or has ended */
    uv_mutex_t lock;     /* of the following */
    int *wanted;         /* ends of socketpairs, to be adopted */
    size_t wanted_n;
    bool ended;
};

struct users_side {    /* wire.c */
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
    struct lane *lanes;   /* one but on a cluster */
    uint32_t lanes_n, closing_n;
    struct coalesce **coalesces; /* theirs, for command/ */
    struct cluster *cluster;     /* says where each lane's slot is; NULL: not a cluster, or it is closed */
    struct writer_pool *pool;    /* NULL: not yet, or closed */
    struct listen *listen;
    struct command *command;
    struct users_side users;
    struct zones zones;
    struct zone_view zone_view;      /* the loop's */
    struct store_zones *store_zones; /* NULL: no table has them */
    uv_prepare_t turn;               /* the end of each loop turn */
    uv_idle_t again;                 /* active: the next turn comes without waiting for events */
    uv_timer_t tick;
    uv_signal_t signals[3];
    struct http_side web;
    struct notify notify;
    enum stage stage;
    uint64_t stop_by_ms,
        served_until_ms; /* while draining; clients, after their port was left to other processes */
    uint64_t certificates_at_ms;
    bool waiting; /* for the end of a move: was logged */
    bool mysql_seen, stop_asked, draining, dropped, listen_closed;
    struct error failure; /* why it stops, when not because it was told to */
};

/* Runs until it is told to stop. serves: accepts clients. `started` is called once it runs (may be NULL). Returns
 * ERR_NONE or why it could not start or go on. */
enum err service_run(struct service *s, struct settings *settings, const char *path, bool serves,
                     void (*started)(struct service *s, void *arg), void *arg, struct error *e);
void service_stop(struct service *s);                                  /* drains, then service_run returns */
void service_fail(struct service *s, enum err code, const char *text); /* the same, with a reason */

#define EACH_LANE(l, s) for (struct lane *l = (s)->lanes; l < (s)->lanes + (s)->lanes_n; l++)
uint32_t service_lanes_up(const struct service *s); /* whose Redis is there */

/* start.c */
void service_init(struct service *s); /* rooms are made, nothing is begun */
enum err service_start(struct service *s,
                       struct error *e); /* also ERR_NONE when a stop was asked for meanwhile */
void service_begin(struct service *s);   /* all is there: the machines run */

/* wire.c: the ports of one room given by another */
void wire_command(struct service *s);
struct listen_handler wire_listen_handler(struct service *s);

void wire_http_init(struct service *s);
enum err wire_http_begin(struct service *s, struct error *e);  /* when listen.http is given */
void wire_http_reload(struct service *s, struct conf *wanted); /* takes the tokens out of it */
void wire_http_close(struct service *s);                       /* when the loop is over */

void wire_zones_init(struct service *s);
enum err wire_zones_begin(struct service *s, struct error *e); /* reads store_zone */
void wire_zones_reload(struct service *s);

void wire_users_init(struct service *s);
enum err wire_users_listen(struct service *s, struct error *e); /* listen.control */
void wire_users_pace(void *arg);                                /* command_ports.pace */
bool wire_users_reload(struct service *s, const struct conf *wanted,
                       struct error *e); /* false: nothing was changed */

void wire_sides_stop(struct service *s);  /* HTTP, the prover, the zones */
void wire_sides_close(struct service *s); /* of users and zones, when the loop is over */

/* --- the whole program: wiring only. What is decided is decided in the rooms below. --- */

int app_main(int argc, char **argv); /* returns the exit status */

#endif
