/* bench/load.c - a load generator for any RESP server: pipelines of hits over many connections. Requests are
 * built before the clock starts and sent as slices of one buffer, replies are only counted, so that on a
 * machine of two cores the server is what is measured. One thread, epoll.
 *
 *   load -s PATH | -t PORT [options]
 *   what goes out                            how
 *   -k 1000    stores                        -c 50  connections
 *   -f 1       number of the first           -P 16  hits a pipeline
 *   -z 1.0     Zipf's exponent, 0: uniform   -w 0   warm-up, seconds
 *   -S         each store once a round       -d 5   the window, seconds
 *   -D 1       delta                         -n 0   ends after that many hits
 *   -R 262144  requests built                -r 0   open loop: hits a second
 *   -F 1       that many parts of as many requests, each with stores of its own: a second of the run has one after the other
 *   -m hit     HINCRBY                       -x     a TCP connection for each hit
 *   -m seeds   HINCRBY and SETNX, one pipeline
 *   -m trips   HINCRBY, its reply, then SETNX (P = 1)
 *   -m fed     HINCRBY on a counter that feeds a series
 *   -m series, box, event                    tallyd's SERIES.INCRBY, BOX.INCRBY, EVENT.ADD
 *   -m series-seed, box-seed, event-seed     what the seeds send to a bare Redis for these
 *   -a SECOND  the time in what the seeds send
 *   -A FILE    each connection first sends these bytes, an AUTH say, and has one line of answer
 *   -W FILE    nothing: the requests are written there
 *
 * Closed loop (-r 0): each connection has one pipeline under way, the next goes out when the last reply is
 * in. Open loop: pipelines go out at even times, to the connections in turn, answered or not; a time is from
 * when a pipeline *should* have gone out to its last reply, so a server that stalls is not asked less (no
 * coordinated omission). What was due inside the window is waited for and counted in the times however late
 * it is; hits a second are replies inside the window. SIGTERM ends the window early.
 *
 * Prints `window` when the window begins, and at the end one line: hits=... (all, warm-up too) errors=...
 * lost=... seconds=... hits_per_s=... (both of the window) p50_us=... p99_us=... p999_us=... max_us=...,
 * then tenths=... (hits answered in each tenth of a second, warm-up too, by commas), then the first error line if there
 * was one. Exit status 0 only without errors and lost connections. */
#include "clock.h"
#include "histogram.h"
#include "requests.h"
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_NS (30 * NS_A_S) /* for replies after the window's end */
#define TENTHS 6000               /* of a second; what is answered after these is in no tenth */
#define SOURCES 50                /* of 127/8, so that closed connections do not use up the ports of one */

enum mode { MODE_HIT, MODE_SEEDS, MODE_TRIPS };

struct options {
    const char *path, *record, *first;
    int port, connections;
    uint32_t pipeline;
    enum mode mode;
    bool connect_each;
    struct requests_spec spec;
    double rate, warm_s, seconds;
    uint64_t hits;
};

struct link {
    int fd, index;
    size_t sent, send_end;     /* in requests.bytes: what is still to be sent */
    size_t second, second_end; /* MODE_TRIPS: the SETNX, when the hit is answered */
    uint64_t due;              /* open loop: pipelines that should have gone out by now ... */
    uint64_t begun, done;      /* ... that did, and that were answered */
    uint32_t owed;             /* replies to come until the oldest pipeline under way is answered */
    uint64_t began_ns;         /* closed loop: of the pipeline under way */
    bool line_begins;          /* the next byte is the first of a reply */
    bool wants_out;
};

struct run {
    struct options o;
    struct requests requests;
    struct link *links;
    int epoll, turn;
    uint32_t part, next, replies;                   /* replies: that a pipeline (or a trip) gets */
    uint64_t begun_ns, window_ns, end_ns, pause_ns; /* pause: between two pipelines of an open loop */
    uint64_t scheduled, hits_begun, hits, hits_in_window, errors, lost, under_way;
    bool announced, in_error;
    char error_line[200];
    size_t error_n;
    struct histogram times;
    uint64_t tenths[TENTHS];
};

static volatile sig_atomic_t told_to_stop;

static void on_signal(int number)
{
    (void)number;
    told_to_stop = 1;
}

/* --- connections --- */

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || strlen(path) >= sizeof to.sun_path) die(path);
    strcpy(to.sun_path, path);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die(path);
    return fd;
}

static int connect_tcp(int port, int index)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, from = to;
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(index % SOURCES));
    from.sin_port = 0;
    if (fd < 0) die("socket");
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0) die("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect to 127.0.0.1");
    return fd;
}

/* The bytes of the file go out and one line comes back, which is no error. */
static void say_first(int fd, const char *path)
{
    char text[4096], reply = 0, c = 0;
    FILE *f = fopen(path, "rb");
    if (f == NULL) die(path);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    if (write(fd, text, n) != (ssize_t)n) die("the first bytes");
    while (c != '\n') {
        if (read(fd, &c, 1) != 1) die("the answer to the first bytes");
        if (reply == 0) reply = c;
    }
    if (reply == '-') die("the first bytes were refused");
}

static void link_open(struct run *r, struct link *l)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
    l->fd = r->o.path != NULL ? connect_unix(r->o.path) : connect_tcp(r->o.port, l->index);
    l->line_begins = true;
    l->wants_out = false;
    if (r->o.first != NULL) say_first(l->fd, r->o.first);
    if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, l->fd, &e) != 0) die("epoll_ctl");
}

static void links_open(struct run *r)
{
    r->epoll = epoll_create1(0);
    r->links = calloc((size_t)r->o.connections, sizeof *r->links);
    if (r->epoll < 0 || r->links == NULL) die("set-up");
    for (int i = 0; i < r->o.connections; i++) {
        r->links[i] = (struct link){.index = i, .fd = -1};
        if (!r->o.connect_each) link_open(r, &r->links[i]);
    }
}

static void link_watch(struct run *r, struct link *l, bool wants_out)
{
    struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0u), .data.ptr = l};
    if (l->wants_out == wants_out) return;
    l->wants_out = wants_out;
    if (epoll_ctl(r->epoll, EPOLL_CTL_MOD, l->fd, &e) != 0) die("epoll_ctl");
}

/* The link stays lost: index -1 keeps it from being fed. */
static void link_lost(struct run *r, struct link *l)
{
    r->lost++;
    r->under_way -= l->begun - l->done;
    close(l->fd);
    l->fd = l->index = -1;
}

/* --- out --- */

static void link_write(struct run *r, struct link *l)
{
    while (l->sent < l->send_end) {
        ssize_t n =
            send(l->fd, r->requests.bytes + l->sent, l->send_end - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
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
    uint32_t n = r->o.pipeline;
    if (r->next + n > (r->part + 1) * r->o.spec.n) r->next = r->part * r->o.spec.n;
    requests_renew(&r->requests, r->next, n);
    l->sent = r->requests.at[r->next];
    l->send_end = r->requests.at[r->next + n];
    if (r->o.mode == MODE_TRIPS) {
        l->second_end = l->send_end;
        l->second = l->send_end = r->requests.lock_at[r->next];
    }
    r->next += n;
    r->hits_begun += n;
    r->under_way++;
    if (l->begun++ == l->done) l->owed = r->replies;
    if (r->o.rate <= 0) l->began_ns = now_ns();
    if (r->o.connect_each) link_open(r, l);
    link_write(r, l);
}

/* --- in --- */

static void error_byte(struct run *r, char byte)
{
    if (byte != '\r' && byte != '\n' && r->errors == 1 && r->error_n + 1 < sizeof r->error_line)
        r->error_line[r->error_n++] = byte;
}

/* How many lines of replies end here; how many a hit's reply has is known (requests_lines). */
static uint64_t lines_with_errors(struct run *r, struct link *l, const char *bytes, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++) {
        if (l->line_begins && bytes[i] == '-') {
            r->errors++;
            r->in_error = true;
        }
        if (r->in_error) error_byte(r, bytes[i]);
        l->line_begins = bytes[i] == '\n';
        if (!l->line_begins) continue;
        r->in_error = false;
        lines++;
    }
    return lines;
}

static uint64_t lines_in(struct run *r, struct link *l, const char *bytes, size_t n)
{
    uint64_t lines = 0;
    if (r->in_error || memchr(bytes, '-', n) != NULL) return lines_with_errors(r, l, bytes, n);
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    l->line_begins = bytes[n - 1] == '\n';
    return lines;
}

static uint64_t due_ns(const struct run *r, const struct link *l, uint64_t pipeline)
{
    uint64_t turns = pipeline * (uint64_t)r->o.connections + (uint64_t)l->index;
    return r->begun_ns + turns * r->pause_ns;
}

static void pipeline_done(struct run *r, struct link *l, uint64_t at_ns)
{
    uint64_t from_ns = r->o.rate > 0 ? due_ns(r, l, l->done) : l->began_ns;
    if (from_ns >= r->window_ns && from_ns < r->end_ns) histogram_put(&r->times, at_ns - from_ns);
    r->hits += r->o.pipeline;
    if (at_ns >= r->window_ns && at_ns < r->end_ns) r->hits_in_window += r->o.pipeline;
    uint64_t tenth = (at_ns - r->begun_ns) / (NS_A_S / 10);
    if (tenth < TENTHS) r->tenths[tenth] += r->o.pipeline;
    r->under_way--;
    l->done++;
    l->owed = r->replies;
    if (!r->o.connect_each) return;
    close(l->fd);
    l->fd = -1;
}

/* MODE_TRIPS: the hit's reply is here, now the lock. */
static bool second_trip(struct run *r, struct link *l)
{
    if (l->second == l->second_end) return false;
    l->sent = l->second;
    l->send_end = l->second = l->second_end;
    l->owed = r->replies;
    link_write(r, l);
    return true;
}

static void link_read(struct run *r, struct link *l)
{
    static char bytes[262144];
    ssize_t n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        link_lost(r, l);
        return;
    }
    uint64_t at_ns = now_ns();
    for (uint64_t lines = lines_in(r, l, bytes, (size_t)n); lines > 0 && l->done < l->begun;) {
        uint64_t taken = lines < l->owed ? lines : l->owed;
        lines -= taken;
        l->owed -= (uint32_t)taken;
        if (l->owed > 0) return;
        if (!second_trip(r, l)) pipeline_done(r, l, at_ns);
    }
}

/* --- the loop --- */

static bool run_goes_on(const struct run *r, uint64_t at_ns)
{
    return !told_to_stop && at_ns < r->end_ns && (r->o.hits == 0 || r->hits_begun < r->o.hits);
}

static bool link_may_begin(const struct run *r, const struct link *l)
{
    if (l->index < 0 || l->sent < l->send_end) return false;
    return r->o.rate > 0 ? l->begun < l->due : l->begun == l->done;
}

static void link_feed(struct run *r, struct link *l, uint64_t at_ns)
{
    while (link_may_begin(r, l) && run_goes_on(r, at_ns))
        link_begin(r, l);
}

static void feed_due(struct run *r, uint64_t at_ns)
{
    for (; r->begun_ns + r->scheduled * r->pause_ns <= at_ns; r->scheduled++) {
        struct link *l = &r->links[r->turn];
        r->turn = (r->turn + 1) % r->o.connections;
        l->due++;
        link_feed(r, l, at_ns);
    }
}

/* How long epoll may sleep. */
static struct timespec sleep_until_due(const struct run *r, uint64_t at_ns)
{
    uint64_t wait_ns = 10000000;
    if (r->o.rate > 0) {
        uint64_t next_ns = r->begun_ns + r->scheduled * r->pause_ns;
        wait_ns = next_ns <= at_ns ? 0 : next_ns - at_ns;
    }
    if (wait_ns > 10000000) wait_ns = 10000000;
    return (struct timespec){.tv_nsec = (long)wait_ns};
}

static void run_serve(struct run *r, uint64_t at_ns)
{
    struct epoll_event events[256];
    struct timespec most = sleep_until_due(r, at_ns);
    int n = epoll_pwait2(r->epoll, events, 256, &most, NULL);
    for (int i = 0; i < n; i++) {
        struct link *l = events[i].data.ptr;
        if (l->fd >= 0 && (events[i].events & EPOLLOUT) != 0) link_write(r, l);
        if (l->fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT) != 0) link_read(r, l);
        link_feed(r, l, now_ns());
    }
}

static void turn_part(struct run *r, uint64_t at_ns)
{
    uint32_t part = (uint32_t)((at_ns - r->begun_ns) / NS_A_S % r->o.spec.parts);
    if (part == r->part) return;
    r->part = part;
    r->next = part * r->o.spec.n;
}

static void announce(struct run *r, uint64_t at_ns)
{
    if (r->announced || at_ns < r->window_ns) return;
    r->announced = true;
    printf("window\n");
    fflush(stdout);
}

/* The window's length, s. */
static double run_go(struct run *r)
{
    uint64_t at_ns = r->begun_ns = now_ns();
    r->window_ns = r->begun_ns + (uint64_t)(r->o.warm_s * 1e9);
    r->end_ns = r->window_ns + (uint64_t)(r->o.seconds * 1e9);
    for (int i = 0; i < r->o.connections && r->o.rate <= 0; i++)
        link_feed(r, &r->links[i], at_ns);
    for (; run_goes_on(r, at_ns) && r->lost < (uint64_t)r->o.connections; at_ns = now_ns()) {
        announce(r, at_ns);
        turn_part(r, at_ns);
        if (r->o.rate > 0) feed_due(r, at_ns);
        run_serve(r, at_ns);
    }
    if (at_ns < r->end_ns && r->o.hits == 0) r->end_ns = at_ns;
    uint64_t patience_ns = at_ns + PATIENCE_NS;
    for (; r->under_way > 0 && at_ns < patience_ns; at_ns = now_ns())
        run_serve(r, at_ns);
    if (at_ns < r->end_ns) r->end_ns = at_ns;
    return r->end_ns > r->window_ns ? (double)(r->end_ns - r->window_ns) / 1e9 : 0;
}

/* --- options and figures --- */

static _Noreturn void usage(void)
{
    fprintf(
        stderr,
        "usage: load -s PATH | -t PORT [-c connections] [-P pipeline] [-k stores] [-f first] [-z zipf] [-S]"
        " [-D delta]\n            [-m mode] [-a second] [-x] [-w warm-up] [-d seconds] [-n hits] [-r hits"
        " a second] [-R requests] [-F parts] [-W FILE]\n");
    exit(64);
}

static const struct mode_name {
    const char *name;
    enum mode mode;
    enum shape shape;
} mode_names[] = {
    {"hit", MODE_HIT, SHAPE_HIT},
    {"seeds", MODE_SEEDS, SHAPE_HIT},
    {"trips", MODE_TRIPS, SHAPE_HIT},
    {"fed", MODE_HIT, SHAPE_FED},
    {"series", MODE_HIT, SHAPE_SERIES},
    {"series-seed", MODE_HIT, SHAPE_SERIES_SEED},
    {"box", MODE_HIT, SHAPE_BOX},
    {"box-seed", MODE_HIT, SHAPE_BOX_SEED},
    {"event", MODE_HIT, SHAPE_EVENT},
    {"event-seed", MODE_HIT, SHAPE_EVENT_SEED},
    {0},
};

static void mode_read(struct options *o, const char *word)
{
    const struct mode_name *m = mode_names;
    while (m->name != NULL && strcmp(m->name, word) != 0)
        m++;
    if (m->name == NULL) usage();
    o->mode = m->mode;
    o->spec.shape = m->shape;
    o->spec.lock = m->mode != MODE_HIT;
}

static void option_read(struct options *o, int letter)
{
    switch (letter) {
    case 's':
        o->path = optarg;
        return;
    case 't':
        o->port = atoi(optarg);
        return;
    case 'c':
        o->connections = atoi(optarg);
        return;
    case 'P':
        o->pipeline = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 'k':
        o->spec.stores = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 'f':
        o->spec.first = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 'z':
        o->spec.zipf = atof(optarg);
        return;
    case 'S':
        o->spec.in_turn = true;
        return;
    case 'D':
        o->spec.delta = strtoll(optarg, NULL, 10);
        return;
    case 'R':
        o->spec.n = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 'F':
        o->spec.parts = (uint32_t)strtoul(optarg, NULL, 10);
        return;
    case 'm':
        mode_read(o, optarg);
        return;
    case 'a':
        o->spec.now_s = strtoll(optarg, NULL, 10);
        return;
    case 'x':
        o->connect_each = true;
        return;
    case 'w':
        o->warm_s = atof(optarg);
        return;
    case 'd':
        o->seconds = atof(optarg);
        return;
    case 'n':
        o->hits = strtoull(optarg, NULL, 10);
        return;
    case 'r':
        o->rate = atof(optarg);
        return;
    case 'A':
        o->first = optarg;
        return;
    case 'W':
        o->record = optarg;
        return;
    default:
        usage();
    }
}

static struct options options_read(int argc, char **argv)
{
    struct options o = {
        .connections = 50,
        .pipeline = 16,
        .spec = {.n = 262144, .stores = 1000, .first = 1, .zipf = 1.0, .delta = 1, .parts = 1},
        .seconds = 5};
    for (int c; (c = getopt(argc, argv, "s:t:c:P:k:f:z:SD:R:F:m:a:xw:d:n:r:A:W:")) != -1;)
        option_read(&o, c);
    bool fits = o.connections >= 1 && o.pipeline >= 1 && o.pipeline <= o.spec.n && o.spec.stores >= 1 &&
                o.spec.parts >= 1;
    bool one_at_a_time = o.pipeline == 1 && o.rate <= 0;
    if ((o.mode == MODE_TRIPS || o.connect_each) && !one_at_a_time) fits = false;
    if (o.connect_each && o.path != NULL) fits = false;
    if (o.record == NULL && (o.path == NULL) == (o.port == 0)) fits = false;
    if (optind != argc || !fits) usage();
    return o;
}

static int record(const struct run *r)
{
    FILE *f = fopen(r->o.record, "wb");
    size_t n = r->requests.at[r->requests.n];
    if (f == NULL || fwrite(r->requests.bytes, 1, n, f) != n || fclose(f) != 0) die(r->o.record);
    return 0;
}

static int report(const struct run *r, double seconds)
{
    uint64_t good = r->hits_in_window > r->errors ? r->hits_in_window - r->errors : 0;
    printf(
        "hits=%llu errors=%llu lost=%llu seconds=%.3f hits_per_s=%.0f p50_us=%.1f p99_us=%.1f p999_us=%.1f "
        "max_us=%.1f\n",
        (unsigned long long)(r->hits > r->errors ? r->hits - r->errors : 0), (unsigned long long)r->errors,
        (unsigned long long)r->lost, seconds, seconds > 0 ? (double)good / seconds : 0,
        histogram_us(&r->times, 0.5), histogram_us(&r->times, 0.99), histogram_us(&r->times, 0.999),
        (double)r->times.most_ns / 1e3);
    uint64_t last = TENTHS;
    while (last > 0 && r->tenths[last - 1] == 0)
        last--;
    printf("tenths=");
    for (uint64_t i = 0; i < last; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)r->tenths[i]);
    printf("\n");
    if (r->errors > 0) printf("first error: %s\n", r->error_line);
    return r->errors > 0 || r->lost > 0 || r->under_way > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct run r;
    r.o = options_read(argc, argv);
    r.replies = r.o.pipeline * (requests_lines(r.o.spec.shape) + (r.o.mode == MODE_SEEDS ? 1 : 0));
    if (r.o.rate > 0) r.pause_ns = (uint64_t)(1e9 * r.o.pipeline / r.o.rate);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    prctl(PR_SET_TIMERSLACK, 1UL);
    requests_build(&r.requests, &r.o.spec);
    if (r.o.record != NULL) return record(&r);
    links_open(&r);
    double seconds = run_go(&r);
    int status = report(&r, seconds);
    free(r.links);
    requests_free(&r.requests);
    return status;
}
