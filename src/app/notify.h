/* app/notify.h - messages of the service to its supervisor, in the protocol of sd_notify(3): READY, STATUS, WATCHDOG,
 * RELOADING, EXTEND_TIMEOUT_USEC, STOPPING, each one datagram to $NOTIFY_SOCKET. Without that variable everything here does nothing. The
 * protocol is public and stable, and takes forty lines; libsystemd would bring four more libraries into the process
 * (gcrypt, lz4, lzma, zstd). Nothing here blocks: a message that the socket does not take now is tried again with the
 * next tick, or left out. */
#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

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

#endif
