/* app/notify.c - see service.h. */
#include "app/service.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/slice.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_MS 1000

static bool say(const struct notify *n, const char *text)
{
    if (n->fd < 0) return true;
    size_t size = strlen(text);
    return sendto(n->fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_n) ==
           (ssize_t)size;
}

/* A path, or '@' and a name in the abstract space. */
static bool notify_address_read(struct notify *n, const char *where)
{
    size_t size = strlen(where);
    if ((where[0] != '/' && where[0] != '@') || size >= sizeof n->to.sun_path) return false;
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, where, size);
    if (where[0] == '@') n->to.sun_path[0] = '\0';
    n->to_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (where[0] == '/'));
    return true;
}

static uint64_t environment_number(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number = 0;
    return text != NULL && num_parse_u64(slice_str(text), &number) ? number : 0;
}

void notify_init(struct notify *n)
{
    *n = (struct notify){.fd = -1};
    const char *where = getenv("NOTIFY_SOCKET");
    if (where == NULL || where[0] == '\0') return;
    if (notify_address_read(n, where)) n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0) {
        log_event(LOG_WARN, "notify", "socket=%s why=%s", LOGQ(where),
                  LOGQ("expected the path of a unix socket, or @ and a name: no supervisor hears of start "
                       "and stop"));
        return;
    }
    /* Three signs of life in the time after which it is taken as dead. */
    uint64_t pid = environment_number("WATCHDOG_PID"), within_us = environment_number("WATCHDOG_USEC");
    if (within_us == 0 || (pid != 0 && pid != (uint64_t)getpid())) return;
    n->watchdog_ms = within_us / 3000 > 0 ? within_us / 3000 : 1;
}

void notify_ready(struct notify *n)
{
    n->ready_owed = !say(n, "READY=1");
}

void notify_reloading(struct notify *n)
{
    char text[80];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)mono_us());
    (void)say(n, text);
}

void notify_waiting(struct notify *n, const char *what)
{
    char text[NOTIFY_STATUS_BYTES];
    snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=%s", what);
    (void)say(n, text);
}

void notify_stopping(struct notify *n)
{
    n->ready_owed = false;
    (void)say(n, "STOPPING=1");
}

void notify_tick(struct notify *n, uint64_t now_ms)
{
    if (n->ready_owed) notify_ready(n);
    if (n->watchdog_ms == 0 || now_ms < n->watchdog_at_ms) return;
    if (say(n, "WATCHDOG=1")) n->watchdog_at_ms = now_ms + n->watchdog_ms;
}

bool notify_status_due(const struct notify *n, uint64_t now_ms)
{
    return n->fd >= 0 && now_ms >= n->status_at_ms;
}

void notify_status(struct notify *n, uint64_t now_ms, const char *text)
{
    char line[NOTIFY_STATUS_BYTES + sizeof "STATUS="];
    snprintf(line, sizeof line, "STATUS=%s", text);
    for (char *p = line; *p != '\0'; p++)
        if (*p == '\n') *p = ' ';
    (void)say(n, line);
    n->status_at_ms = now_ms + STATUS_MS;
}

void notify_close(struct notify *n)
{
    if (n->fd >= 0) close(n->fd);
    n->fd = -1;
}
