/* lib/redis_server.h - a private redis-server on a unix socket in a fresh directory, AOF everysec, ended with
 * the test. Header only: a test is one program. What a test asks of it goes over hiredis' blocking client. */
#ifndef LIB_REDIS_SERVER_H
#define LIB_REDIS_SERVER_H

#include "base/clock.h"
#include "base/slice.h"
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REDIS_SERVER_ARGS_MAX 16

struct redis_server {
    char dir[64], socket[80];
    pid_t pid; /* 0: not running */
    redisContext *client;
    const char *args[REDIS_SERVER_ARGS_MAX]; /* more options, pairs, NULL at the end; set before start */
    char text[1 << 16];                      /* what redis_ask answers */
};

static inline void redis_server_exec(struct redis_server *s)
{
    const char *args[64] = {
        "redis-server", "--port",     "0",       "--unixsocket",  s->socket,  "--dir",
        s->dir,         "--save",     "",        "--appendonly",  "yes",      "--logfile",
        "log",          "--loglevel", "warning", "--appendfsync", "everysec", "--enable-debug-command",
        "local"};
    int n = 19;
    for (int i = 0; s->args[i] != NULL; i++)
        args[n++] = s->args[i];
    setpgid(0, 0);                    /* so that the kill takes a child that writes AOF or RDB, too */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes leaves no server */
    execvp(args[0], (char *const *)(void *)args);
    _exit(127);
}

static inline bool redis_server_connect(struct redis_server *s)
{
    struct timeval limit = {.tv_sec = 20};
    s->client = redisConnectUnixWithTimeout(s->socket, limit);
    if (s->client != NULL && s->client->err == 0 && redisSetTimeout(s->client, limit) == REDIS_OK) {
        redisReply *r = redisCommand(s->client, "PING");
        bool pong = r != NULL && r->type == REDIS_REPLY_STATUS;
        if (r != NULL) freeReplyObject(r);
        if (pong) return true;
    }
    if (s->client != NULL) redisFree(s->client);
    s->client = NULL;
    return false;
}

/* Starts it (again, over the same files) and waits until it answers. */
static inline void redis_server_run(struct redis_server *s)
{
    uint64_t until_ms = mono_ms() + 30000;
    fflush(NULL);
    s->pid = fork();
    if (s->pid < 0) abort();
    if (s->pid == 0) redis_server_exec(s);
    while (!redis_server_connect(s)) {
        if (mono_ms() > until_ms || waitpid(s->pid, NULL, WNOHANG) != 0) abort();
        usleep(5000);
    }
}

static inline void redis_server_place(struct redis_server *s) /* a directory, no server yet */
{
    snprintf(s->dir, sizeof s->dir, "/tmp/tallyd-redis-XXXXXX");
    if (mkdtemp(s->dir) == NULL) abort();
    snprintf(s->socket, sizeof s->socket, "%s/s", s->dir);
}

static inline void redis_server_start(struct redis_server *s)
{
    redis_server_place(s);
    redis_server_run(s);
}

static inline void redis_server_kill(struct redis_server *s)
{
    if (s->pid == 0) return;
    kill(-s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
    if (s->client != NULL) redisFree(s->client);
    s->client = NULL;
}

static inline void redis_server_stop(struct redis_server *s)
{
    char command[128];
    uint64_t until_ms = mono_ms() + 10000;
    redis_server_kill(s);
    snprintf(command, sizeof command, "rm -rf '%s' 2>/dev/null", s->dir);
    while (system(command) != 0) /* a child of the server's may die a moment after it */
        if (mono_ms() > until_ms) abort();
}

static inline void redis_server_show(struct redis_server *s, const redisReply *r)
{
    size_t n = strlen(s->text), room = sizeof s->text - n;
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        snprintf(s->text + n, room, "%s%lld", n > 0 ? " " : "", r->integer);
        break;
    case REDIS_REPLY_NIL:
        snprintf(s->text + n, room, "%snil", n > 0 ? " " : "");
        break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < r->elements; i++)
            redis_server_show(s, r->element[i]);
        break;
    default:
        snprintf(s->text + n, room, "%s%s", n > 0 ? " " : "", r->str);
    }
}

/* The answer as words: integers, strings, nil; arrays flat. Good until the next call. */
static inline const char *redis_ask(struct redis_server *s, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *r = redisvCommand(s->client, format, ap);
    va_end(ap);
    s->text[0] = '\0';
    if (r == NULL) abort();
    redis_server_show(s, r);
    freeReplyObject(r);
    return s->text;
}

#define assert_redis(s, expected, ...) assert_string_equal(redis_ask((s), __VA_ARGS__), (expected))

#endif
