/* `tallyd recover`: through a service when one answers, else without one; what it prints and how it exits. The service is a thread
 * that speaks as much RESP as the test needs. */
#include "lib/unit.h"

#include "admin/admin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS_MAX 4
#define PATH_BYTES 100

static char dir[64], conf_path[PATH_BYTES], out_path[PATH_BYTES];

/* --- the service --- */

static struct {
    pthread_t thread;
    int listener;
    const char *recovered, *dry; /* answers of CTR.RECOVER [DRYRUN]; NULL: hangs up */
    int infos_before_answer;     /* so often progress is asked before recover is answered */
    atomic_bool stop;
    int infos, waiting; /* the fd whose CTR.RECOVER waits, or -1 */
} service;

static void answer(int fd, const char *text)
{
    ssize_t n = write(fd, text, strlen(text));
    assert_int_equal(n, (ssize_t)strlen(text));
}

static void recover_answer(void)
{
    if (service.waiting < 0 || service.infos < service.infos_before_answer) return;
    answer(service.waiting, service.recovered);
    service.waiting = -1;
}

/* One request, whole: a small one comes in one read on a unix socket. False: hang up. */
static bool serve(int fd)
{
    char in[512];
    ssize_t n = read(fd, in, sizeof(in) - 1);
    if (n <= 0) return false;
    in[n] = '\0';
    if (strstr(in, "PING") != NULL) answer(fd, "+PONG\r\n");
    if (strstr(in, "DRYRUN") != NULL) {
        if (service.dry == NULL) return false;
        answer(fd, service.dry);
    } else if (strstr(in, "CTR.RECOVER") != NULL) {
        if (service.recovered == NULL) return false;
        service.waiting = fd;
    }
    if (strstr(in, "INFO") != NULL) {
        answer(fd, ++service.infos == 1
                       ? "$56\r\ntallyd_version:1\r\nrecover_total:8\r\nrecover_done:2\r\nx:1\r\n\r\n"
                       : "$56\r\ntallyd_version:1\r\nrecover_total:8\r\nrecover_done:8\r\nx:1\r\n\r\n");
    }
    recover_answer();
    return true;
}

static void *service_main(void *arg)
{
    struct pollfd fds[CLIENTS_MAX + 1] = {{.fd = service.listener, .events = POLLIN}};
    nfds_t n = 1;
    while (!service.stop) {
        poll(fds, n, 20);
        if ((fds[0].revents & POLLIN) != 0 && n <= CLIENTS_MAX)
            fds[n++] = (struct pollfd){.fd = accept(service.listener, NULL, NULL), .events = POLLIN};
        for (nfds_t i = 1; i < n; i++) {
            if (fds[i].fd < 0 || (fds[i].revents & (POLLIN | POLLHUP)) == 0 || serve(fds[i].fd)) continue;
            close(fds[i].fd);
            fds[i].fd = -1;
        }
    }
    for (nfds_t i = 1; i < n; i++)
        if (fds[i].fd >= 0) close(fds[i].fd);
    return NULL;
}

static void service_begin(const char *recovered, const char *dry, int infos)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/t.sock", dir);
    service.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    service.recovered = recovered;
    service.dry = dry;
    service.infos_before_answer = infos;
    service.infos = 0;
    service.waiting = -1;
    service.stop = false;
    assert_int_equal(bind(service.listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(service.listener, CLIENTS_MAX), 0);
    assert_int_equal(pthread_create(&service.thread, NULL, service_main, NULL), 0);
}

static void service_end(void)
{
    char path[PATH_BYTES];
    service.stop = true;
    pthread_join(service.thread, NULL);
    close(service.listener);
    snprintf(path, sizeof(path), "%s/t.sock", dir);
    unlink(path);
}

/* --- without a service --- */

static struct {
    int calls;
    struct admin_recover how;
    struct admin_recovered result;
    enum err code;
} alone;

static enum err recover_alone(void *arg, const struct conf *conf, const struct admin_recover *how,
                              struct admin_recovered *out, struct error *e)
{
    assert_null(arg);
    assert_int_equal(conf->counters_n, 1);
    alone.calls++;
    alone.how = *how;
    how->progress(how->arg, 0, 2);
    how->found(how->arg, "leftover", SLICE("s1:v_\r\nx"));
    how->progress(how->arg, 2, 2);
    *out = alone.result;
    return alone.code == ERR_NONE ? ERR_NONE : error_set(e, alone.code, "MySQL is away");
}

/* Runs the command line; what it said on stdout and stderr is in said. */
static char said[4096];

static int run(const char *option)
{
    char *argv[] = {"tallyd", "recover", "-c", conf_path, (char *)option, NULL};
    const struct admin_ports ports = {.recover_alone = recover_alone};
    FILE *out = fopen(out_path, "w+");
    fflush(stdout);
    int keep_out = dup(1), keep_err = dup(2);
    dup2(fileno(out), 1);
    dup2(fileno(out), 2);
    int status = admin_main(option == NULL ? 4 : 5, argv, &ports);
    fflush(stdout);
    dup2(keep_out, 1);
    dup2(keep_err, 2);
    close(keep_out);
    close(keep_err);
    rewind(out);
    said[fread(said, 1, sizeof(said) - 1, out)] = '\0';
    fclose(out);
    return status;
}

static int begin(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/tallyd-recover-XXXXXX");
    if (mkdtemp(dir) == NULL) return -1;
    snprintf(conf_path, sizeof(conf_path), "%s/c.yaml", dir);
    snprintf(out_path, sizeof(out_path), "%s/out", dir);
    FILE *f = fopen(conf_path, "w");
    fprintf(f,
            "listen: { resp: [ \"unix://%s/nobody.sock\", \"unix://%s/t.sock\" ] }\n"
            "mysql: \"mysql://u@h/d\"\n"
            "counters:\n  v: { key: \"s<store>:v\", field: date, table: t, columns: { store: s, field: f, "
            "count: n } }\n",
            dir, dir);
    memset(&alone, 0, sizeof(alone));
    return fclose(f);
}

static int end(void **state)
{
    unlink(conf_path);
    unlink(out_path);
    return rmdir(dir);
}

UNIT_IN(test_through_service, begin, end)
{
    service_begin("*3\r\n:2\r\n:300\r\n:4\r\n", NULL, 2);
    assert_int_equal(run(NULL), 0);
    service_end();
    assert_int_equal(alone.calls, 0);
    assert_string_equal(said, "recovering: 2 of 8\nrecovering: 8 of 8\n"
                              "2 batches taken over, 300 rows merged, 4 rows had been merged already\n");
}

UNIT_IN(test_dry_run, begin, end)
{
    service_begin(NULL, "*2\r\n$7\r\nbatch a\r\n$13\r\nleftover s\x01:b\r\n", 0);
    assert_int_equal(run("--dry-run"), 0);
    service_end();
    assert_string_equal(said, "batch a\nleftover s?:b\nnothing was changed: this was a dry run\n");
    service_begin(NULL, "*0\r\n", 0);
    assert_int_equal(run("--dry-run"), 0);
    service_end();
    assert_string_equal(said, "nothing is left to recover\n");
    assert_int_equal(alone.calls, 0);
}

UNIT_IN(test_service_refuses, begin, end)
{
    service_begin("-ERR MySQL is down\r\n", NULL, 0);
    assert_int_equal(run(NULL), 1);
    service_end();
    assert_string_equal(said, "tallyd: the service answered: ERR MySQL is down. Its log says more\n");
    service_begin("+OK\r\n", NULL, 0);
    assert_int_equal(run(NULL), 1);
    service_end();
    assert_string_equal(said, "tallyd: the program that listens there is not a tallyd: check listen.resp\n");
    service_begin(NULL, NULL, 0);
    assert_int_equal(run(NULL), 1);
    service_end();
    assert_string_equal(
        said, "tallyd: the service went away (Server closed the connection); nothing is lost, run recover "
              "again\n");
}

UNIT_IN(test_alone, begin, end)
{
    alone.result = (struct admin_recovered){.adopted = 1, .rows_merged = 5, .leftovers = 1, .unknown = 1};
    assert_int_equal(run(NULL), 0);
    assert_int_equal(alone.calls, 1);
    assert_false(alone.how.dry_run || alone.how.reject_unknown || alone.how.accept_rollback);
    assert_string_equal(
        said, "recovering: 0 of 2\nleftover s1:v_??x\nrecovering: 2 of 2\n"
              "1 batches taken over, 5 rows merged, 0 rows had been merged already\n"
              "1 leftover hashes became batches\n"
              "1 batches remain: their counter is not configured (put it back, or run `tallyd recover "
              "--reject-unknown`), or another version of tallyd claimed them (it merges them)\n");
}

UNIT_IN(test_alone_fails, begin, end)
{
    alone.result = (struct admin_recovered){.held = 2};
    assert_int_equal(run("--dry-run"), 1);
    assert_true(alone.how.dry_run);
    assert_non_null(strstr(said, "would be: 0 batches taken over"));
    assert_non_null(strstr(said, "2 batches are held: the log says why"));
    alone.code = ERR_UNAVAILABLE;
    assert_int_equal(run(NULL), 69);
    assert_non_null(strstr(said, "tallyd: MySQL is away\n"));
}

/* What the socket does not offer is done without it, even while a service runs. */
UNIT_IN(test_decisions_go_alone, begin, end)
{
    service_begin("*3\r\n:0\r\n:0\r\n:0\r\n", NULL, 0);
    assert_int_equal(run("--reject-unknown"), 0);
    assert_true(alone.how.reject_unknown);
    assert_int_equal(run("--accept-rollback"), 0);
    service_end();
    assert_true(alone.how.accept_rollback);
    assert_int_equal(alone.calls, 2);
}
