/* bench/load.c - a load generator for any RESP server: `-c` connections, each with pipelines of `-P` HINCRBY,
 * for `-d` seconds. Requests are built before the clock starts and sent as slices of one buffer, replies are
 * only counted, so that on a machine of two cores the server is what is measured. One thread, epoll.
 *
 *   load -s PATH | -t PORT [-c 50] [-P 16] [-k 1000] [-z 1.0] [-d 5] [-r 0] [-n 0]
 *
 * -k keys (pending hashes s<k>:unique_visitors:daily), -z exponent of Zipf's law over them (0: uniform), -r
 * hits a second over all connections (0: as fast as answered), -n stop after so many hits. SIGTERM ends it
 * early. Prints one line: hits=... errors=... seconds=... hits_per_s=... p50_us=... p99_us=... (of a
 * pipeline's round trip), and the first error line if there was one. Exit status 0 only without errors and
 * lost connections. */
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define POOL_REQUESTS 262144u /* a power of two; more than the hits of one second stay different */
#define REQUEST_BYTES_MAX 128u
#define LATENCY_SLOTS 100000u /* a slot is 10 us; the last takes all that is longer */

struct options {
    const char *path;
    int port, connections, pipeline;
    uint32_t keys;
    double zipf, seconds, rate;
    uint64_t hits;
};

struct pool {
    char *bytes;
    size_t at[POOL_REQUESTS + 1]; /* request i is bytes[at[i] .. at[i + 1]) */
};

struct link {
    int fd;
    uint32_t owed;         /* replies that are still to come */
    size_t sent, send_end; /* in pool->bytes: what of the pipeline is still to be sent */
    bool line_begins;      /* the next byte is the first of a reply */
    bool wants_out;
    uint64_t began_ns;
};

struct run {
    struct options o;
    struct pool pool;
    struct link *links;
    int epoll;
    uint64_t sent, answered, errors, lost;
    uint32_t next;
    char error_line[200];
    size_t error_n;
    bool in_error;
    uint32_t *latency;
};

static volatile sig_atomic_t told_to_stop;

static void on_signal(int number)
{
    (void)number;
    told_to_stop = 1;
}

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(69);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* xorshift64*: the same hits in every run, so that two servers are given the same. */
static double draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* sums[i]: the chance of one of the keys 0..i. */
static double *chances(uint32_t keys, double zipf)
{
    double *sums = malloc(keys * sizeof(*sums)), sum = 0;
    if (sums == NULL) die("memory");
    for (uint32_t i = 0; i < keys; i++)
        sums[i] = sum += pow(i + 1, -zipf);
    for (uint32_t i = 0; i < keys; i++)
        sums[i] /= sum;
    return sums;
}

static uint32_t pick(const double *sums, uint32_t keys, double chance)
{
    uint32_t low = 0, high = keys - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sums[middle] < chance)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void pool_build(struct pool *p, const struct options *o)
{
    double *sums = chances(o->keys, o->zipf);
    uint64_t state = UINT64_C(88172645463325252);
    size_t n = 0;
    p->bytes = malloc((size_t)POOL_REQUESTS * REQUEST_BYTES_MAX);
    if (p->bytes == NULL) die("memory");
    for (uint32_t i = 0; i < POOL_REQUESTS; i++) {
        char key[64];
        int key_n =
            snprintf(key, sizeof(key), "s%u:unique_visitors:daily", pick(sums, o->keys, draw(&state)) + 1);
        p->at[i] = n;
        n +=
            (size_t)snprintf(p->bytes + n, REQUEST_BYTES_MAX,
                             "*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%s\r\n$8\r\n20140920\r\n$1\r\n1\r\n", key_n, key);
    }
    p->at[POOL_REQUESTS] = n;
    free(sums);
}

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || strlen(path) >= sizeof(to.sun_path)) die(path);
    strcpy(to.sun_path, path);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) die(path);
    return fd;
}

static int connect_tcp(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) die("127.0.0.1");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static void links_open(struct run *r)
{
    r->epoll = epoll_create1(0);
    r->links = calloc((size_t)r->o.connections, sizeof(*r->links));
    r->latency = calloc(LATENCY_SLOTS, sizeof(*r->latency));
    if (r->epoll < 0 || r->links == NULL || r->latency == NULL) die("set-up");
    for (int i = 0; i < r->o.connections; i++) {
        struct link *l = &r->links[i];
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
        l->fd = r->o.path != NULL ? connect_unix(r->o.path) : connect_tcp(r->o.port);
        l->line_begins = true;
        if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, l->fd, &e) != 0) die("epoll_ctl");
    }
}

static void link_watch(struct run *r, struct link *l, bool wants_out)
{
    struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0u), .data.ptr = l};
    if (l->wants_out == wants_out) return;
    l->wants_out = wants_out;
    if (epoll_ctl(r->epoll, EPOLL_CTL_MOD, l->fd, &e) != 0) die("epoll_ctl");
}

static void link_lost(struct run *r, struct link *l)
{
    r->lost++;
    epoll_ctl(r->epoll, EPOLL_CTL_DEL, l->fd, NULL);
    close(l->fd);
    l->fd = -1;
}

static void link_write(struct run *r, struct link *l)
{
    while (l->sent < l->send_end) {
        ssize_t n = send(l->fd, r->pool.bytes + l->sent, l->send_end - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) {
            link_lost(r, l);
            return;
        }
        l->sent += (size_t)n;
    }
    link_watch(r, l, l->sent < l->send_end);
}

static void link_begin(struct run *r, struct link *l)
{
    uint32_t n = (uint32_t)r->o.pipeline;
    if (r->next + n > POOL_REQUESTS) r->next = 0;
    l->sent = r->pool.at[r->next];
    l->send_end = r->pool.at[r->next + n];
    r->next += n;
    l->owed = n;
    l->began_ns = now_ns();
    r->sent += n;
    link_write(r, l);
}

/* May one more pipeline go out now? */
static bool run_wants_more(const struct run *r, uint64_t began_ns)
{
    if (told_to_stop) return false;
    if (r->o.hits > 0 && r->sent >= r->o.hits) return false;
    double elapsed_s = (double)(now_ns() - began_ns) / 1e9;
    if (elapsed_s >= r->o.seconds) return false;
    return r->o.rate <= 0 || (double)r->sent < r->o.rate * elapsed_s;
}

static void error_byte(struct run *r, char byte)
{
    if (byte != '\r' && byte != '\n' && r->errors == 1 && r->error_n + 1 < sizeof(r->error_line))
        r->error_line[r->error_n++] = byte;
}

/* Replies are lines here: integers and errors. */
static void link_count(struct run *r, struct link *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (l->line_begins && bytes[i] == '-') {
            r->errors++;
            r->in_error = true;
        }
        if (r->in_error) error_byte(r, bytes[i]);
        l->line_begins = bytes[i] == '\n';
        if (!l->line_begins) continue;
        r->in_error = false;
        r->answered++;
        l->owed--;
    }
}

static void link_done(struct run *r, struct link *l)
{
    uint64_t slot = (now_ns() - l->began_ns) / 10000;
    r->latency[slot < LATENCY_SLOTS ? slot : LATENCY_SLOTS - 1]++;
}

static void link_read(struct run *r, struct link *l)
{
    char bytes[65536];
    ssize_t n = recv(l->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        link_lost(r, l);
        return;
    }
    link_count(r, l, bytes, (size_t)n);
    if (l->owed == 0) link_done(r, l);
}

static bool run_owes(const struct run *r)
{
    for (int i = 0; i < r->o.connections; i++)
        if (r->links[i].fd >= 0 && r->links[i].owed > 0) return true;
    return false;
}

/* Idle connections get a pipeline each, beginning behind the one that was served last, so that a rate is
 * spread. */
static void run_feed(struct run *r, uint64_t began_ns, int *turn)
{
    for (int i = 0; i < r->o.connections && run_wants_more(r, began_ns); i++) {
        struct link *l = &r->links[ *turn = (*turn + 1) % r->o.connections];
        if (l->fd >= 0 && l->owed == 0) link_begin(r, l);
    }
}

static bool run_over(const struct run *r, uint64_t began_ns)
{
    double elapsed_s = (double)(now_ns() - began_ns) / 1e9;
    bool ended = told_to_stop || elapsed_s >= r->o.seconds || (r->o.hits > 0 && r->sent >= r->o.hits);
    return r->lost == (uint64_t)r->o.connections || (ended && !run_owes(r)) || elapsed_s > r->o.seconds + 30;
}

static double run_go(struct run *r)
{
    struct epoll_event events[256];
    uint64_t began_ns = now_ns();
    int turn = 0;
    while (!run_over(r, began_ns)) {
        run_feed(r, began_ns, &turn);
        int n = epoll_wait(r->epoll, events, 256, r->o.rate > 0 ? 1 : 10);
        for (int i = 0; i < n; i++) {
            struct link *l = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) != 0) link_write(r, l);
            if (l->fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT) != 0) link_read(r, l);
            if (l->fd >= 0 && l->owed == 0 && run_wants_more(r, began_ns)) link_begin(r, l);
        }
    }
    return (double)(now_ns() - began_ns) / 1e9;
}

static uint64_t latency_us(const struct run *r, double share)
{
    uint64_t all = 0, seen = 0;
    for (uint32_t i = 0; i < LATENCY_SLOTS; i++)
        all += r->latency[i];
    for (uint32_t i = 0; i < LATENCY_SLOTS; i++)
        if ((double)(seen += r->latency[i]) >= share * (double)all) return (i + 1) * UINT64_C(10);
    return 0;
}

static void usage(void)
{
    fprintf(stderr,
            "usage: load -s PATH | -t PORT [-c connections] [-P pipeline] [-k keys] [-z zipf] [-d seconds]"
            " [-r hits a second] [-n hits]\n");
    exit(64);
}

static struct options options_read(int argc, char **argv)
{
    struct options o = {.connections = 50, .pipeline = 16, .keys = 1000, .zipf = 1.0, .seconds = 5};
    for (int c; (c = getopt(argc, argv, "s:t:c:P:k:z:d:r:n:")) != -1;) {
        switch (c) {
        case 's':
            o.path = optarg;
            break;
        case 't':
            o.port = atoi(optarg);
            break;
        case 'c':
            o.connections = atoi(optarg);
            break;
        case 'P':
            o.pipeline = atoi(optarg);
            break;
        case 'k':
            o.keys = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'z':
            o.zipf = atof(optarg);
            break;
        case 'd':
            o.seconds = atof(optarg);
            break;
        case 'r':
            o.rate = atof(optarg);
            break;
        case 'n':
            o.hits = strtoull(optarg, NULL, 10);
            break;
        default:
            usage();
        }
    }
    if ((o.path == NULL) == (o.port == 0) || o.connections < 1 || o.pipeline < 1 || o.pipeline > 10000 ||
        o.keys < 1)
        usage();
    return o;
}

int main(int argc, char **argv)
{
    static struct run r;
    r.o = options_read(argc, argv);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    pool_build(&r.pool, &r.o);
    links_open(&r);
    double seconds = run_go(&r);
    printf("hits=%llu errors=%llu lost=%llu seconds=%.3f hits_per_s=%.0f p50_us=%llu p99_us=%llu\n",
           (unsigned long long)(r.answered - r.errors), (unsigned long long)r.errors,
           (unsigned long long)r.lost, seconds, (double)(r.answered - r.errors) / seconds,
           (unsigned long long)latency_us(&r, 0.5), (unsigned long long)latency_us(&r, 0.99));
    if (r.errors > 0) printf("first error: %s\n", r.error_line);
    return r.errors > 0 || r.lost > 0 || run_owes(&r) ? 1 : 0;
}
