/* lib/child.h - a piece of code run in a process of its own, for what ends the process or writes to stderr.
 */
#ifndef LIB_CHILD_H
#define LIB_CHILD_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct child_end {
    int status;          /* of waitpid */
    char stderr_[16384]; /* what it wrote there, NUL-terminated */
    size_t stderr_n;
};

static inline void child_read(int fd, struct child_end *end)
{
    for (;;) {
        ssize_t n = read(fd, end->stderr_ + end->stderr_n, sizeof end->stderr_ - 1 - end->stderr_n);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        end->stderr_n += (size_t)n;
    }
    end->stderr_[end->stderr_n] = '\0';
}

/* Runs run(arg) in a fork, which then exits with 0. */
static inline struct child_end child_run(void (*run)(void *arg), void *arg)
{
    struct child_end end = {0};
    int fds[2];
    if (pipe(fds) != 0) abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) abort();
    if (pid == 0) {
        if (dup2(fds[1], STDERR_FILENO) < 0) abort();
        close(fds[0]);
        close(fds[1]);
        run(arg);
        fflush(stderr);
        _exit(0);
    }
    close(fds[1]);
    child_read(fds[0], &end);
    close(fds[0]);
    while (waitpid(pid, &end.status, 0) < 0 && errno == EINTR)
        continue;
    return end;
}

/* SIGSTOP, and until all its threads are stopped, which kill(2) does not wait for. A child of this process. */
static inline void child_pause(pid_t pid)
{
    siginfo_t how;
    if (kill(pid, SIGSTOP) != 0) abort();
    while (waitid(P_PID, (id_t)pid, &how, WSTOPPED) != 0)
        if (errno != EINTR) abort();
}

static inline bool child_was_killed(const struct child_end *end, int signal)
{
    return WIFSIGNALED(end->status) && WTERMSIG(end->status) == signal;
}

static inline bool child_exited(const struct child_end *end)
{
    return WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0;
}

#endif
