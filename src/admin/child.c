/* admin/child.c - see child.h. */
#include "admin/child.h"

#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAIL_BYTES 1200
#define SERVER_PLACES ":/usr/local/sbin:/usr/sbin:/sbin"

void child_init(struct child *c, const char *name, const char *package, const char *dir, const char *stem)
{
    *c = (struct child){.name = name, .package = package};
    snprintf(c->log, sizeof(c->log), "%s/%s.log", dir, stem);
    snprintf(c->pid_path, sizeof(c->pid_path), "%s/%s.pid", dir, stem);
}

/* In the child, until exec. Reports a failure through the pipe, as errno. */
static void become(const struct child *c, char *const argv[], pid_t parent, int tell)
{
    char path[4096];
    sigset_t none;
    const char *places = getenv("PATH");
    int log = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s%s", places == NULL ? "/usr/bin:/bin" : places, SERVER_PLACES);
    sigemptyset(&none);
    bool ready = log >= 0 && null >= 0 && dup2(null, 0) == 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2 &&
                 setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
                 setenv("PATH", path, 1) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0;
    if (getppid() != parent) _exit(1); /* it died before the kernel was asked to tell */
    if (ready) execvp(argv[0], argv);
    int why = errno;
    ssize_t told = write(tell, &why, sizeof(why));
    _exit(told == (ssize_t)sizeof(why) ? 127 : 126);
}

static enum err start_failed(const struct child *c, int why, struct error *e)
{
    if (why == ENOENT && c->package != NULL)
        return error_set(e, ERR_UNAVAILABLE, "%s is not installed: apt-get install %s", c->name, c->package);
    return error_set(e, ERR_FAILED, "cannot start %s: %s (its log would be %s)", c->name, strerror(why),
                     c->log);
}

static void pid_write(const struct child *c)
{
    FILE *f = fopen(c->pid_path, "we");
    if (f == NULL) return; /* then the kernel's SIGTERM alone ends it with dev */
    fprintf(f, "%ld\n", (long)c->pid);
    fclose(f);
}

enum err child_start(struct child *c, char *const argv[], struct error *e)
{
    int tell[2], why = 0;
    pid_t parent = getpid();
    if (pipe2(tell, O_CLOEXEC) != 0) return start_failed(c, errno, e);
    c->pid = fork();
    if (c->pid == 0) become(c, argv, parent, tell[1]);
    int fork_errno = errno;
    close(tell[1]);
    ssize_t n = c->pid < 0 ? 0 : read(tell[0], &why, sizeof(why)); /* nothing: exec closed the pipe */
    close(tell[0]);
    if (c->pid < 0) {
        c->pid = 0;
        return start_failed(c, fork_errno, e);
    }
    if (n > 0) {
        waitpid(c->pid, &c->status, 0);
        c->pid = 0;
        return start_failed(c, why, e);
    }
    c->running = true;
    pid_write(c);
    return ERR_NONE;
}

bool child_reap(struct child *c)
{
    if (!c->running) return c->pid != 0;
    if (waitpid(c->pid, &c->status, WNOHANG) != c->pid) return false;
    c->running = false;
    unlink(c->pid_path);
    return true;
}

void child_signal(const struct child *c, int signal)
{
    if (c->running) kill(-c->pid, signal); /* its group: mariadb-install-db is a script with children */
}

const char *child_ending(const struct child *c, char *out, size_t size)
{
    if (WIFSIGNALED(c->status))
        snprintf(out, size, "was killed by signal %d (%s)", WTERMSIG(c->status),
                 strsignal(WTERMSIG(c->status)));
    else
        snprintf(out, size, "ended with status %d", WEXITSTATUS(c->status));
    return out;
}

void child_log_tail(const struct child *c)
{
    char text[TAIL_BYTES + 1];
    int fd = open(c->log, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t n = pread(fd, text, TAIL_BYTES, end > TAIL_BYTES ? end - TAIL_BYTES : 0);
    close(fd);
    if (n <= 0) return;
    text[n] = '\0';
    char *line = text, *rest = NULL;
    if (end > TAIL_BYTES && strchr(text, '\n') != NULL) line = strchr(text, '\n') + 1; /* the first is cut */
    for (line = strtok_r(line, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        fprintf(stderr, "    %s\n", line);
}

static bool command_line_has(pid_t pid, const char *text)
{
    char path[64], line[8192];
    snprintf(path, sizeof(path), "/proc/%ld/cmdline", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, line, sizeof(line));
    close(fd);
    return n > 0 && memmem(line, (size_t)n, text, strlen(text)) != NULL;
}

pid_t child_left_over(const struct child *c, const char *mine)
{
    long pid = 0;
    FILE *f = fopen(c->pid_path, "re");
    if (f == NULL) return 0;
    int read = fscanf(f, "%ld", &pid);
    fclose(f);
    return read == 1 && pid > 1 && command_line_has((pid_t)pid, mine) ? (pid_t)pid : 0;
}
