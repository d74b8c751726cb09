/* fuzz_cluster.c - what the nodes of a Redis Cluster say, down real links (redis/link.c) over no sockets (fake_uv.h): to the
 * handshake, ROLE, CLUSTER SLOTS and CLUSTER NODES (redis/cluster.c), and errors that send a lane elsewhere (redis/reader.c,
 * place.c). The input is a list of events: bytes of any kind, and answers of about the right shape.
 *   - The owner of a slot is what a second, slower reading of the same answer says; likewise an epoch.
 *   - A link is sent to nothing but a name of visible characters and a port of 1 to 65535.
 *   - Both links of a lane are up on one server process only.
 *   - A line of the log is one line. Each request is answered once. In the end all is closed and nothing is left. */
#include "fake_uv.h"

#include "base/log.h"
#include "redis/ask.h"
#include "redis/reader.h"
#include "redis/seek.h"

#include <stdarg.h>

#define LANES 3
#define LINKS (2 * LANES) /* two a lane */
#define RANGES_MAX 8
#define NODES_MAX 3 /* of a range */

void __wrap_log_event(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void __wrap_log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    char line[4096];
    va_list args;
    (void)level;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (strcmp(event, "assert") == 0) fprintf(stderr, "%s\n", line);
    for (int i = 0; i < n && i < (int)sizeof line - 1; i++)
        MUST((unsigned char)line[i] >= 0x20); /* a node wrote a line of its own */
}

void __real_tag_find(unsigned lane, unsigned lanes, struct tag *out);
void __wrap_tag_find(unsigned lane, unsigned lanes, struct tag *out);
void __wrap_tag_find(unsigned lane, unsigned lanes, struct tag *out)
{
    static struct tag known[LANES + 1]; /* a search, which costs more than the rest of an input */
    struct tag *tag = &known[lanes == 1 ? LANES : lane];
    if (tag->n == 0) __real_tag_find(lane, lanes, tag);
    *out = *tag;
}

/* ---- the service ---- */

static const struct life life = {.instance = {"fuzz", 4}, .id = "0123456789abcdef"};
static char seed_a[] = "seed-a", seed_b[] = "10.0.0.9";
static const struct redis_url url = {
    .hosts = {{seed_a, 7001}, {seed_b, 7002}}, .hosts_n = 2, .cluster = true};
static uv_loop_t loop; /* never run */
static struct redis_place places[LANES];
static struct redis_link links[LINKS];
static struct cluster *cluster;
static unsigned asked, answered, closed_n;
static bool held[LANES];

static void on_held(struct redis_place *p, bool hold)
{
    MUST(held[p - places] != hold);
    held[p - places] = hold;
}

static void on_up(struct redis_link *l)
{
    place_found(l->config.place);
}

static void on_down(struct redis_link *l, const char *why)
{
    (void)l;
    MUST(why[0] != '\0');
}

/* arg: which of its replies is the last. */
static void on_reply(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    uint32_t last = (uint32_t)(uintptr_t)arg;
    (void)l;
    MUST(at <= last);
    if (r == NULL || at == last) answered++;
    if (answer_is(r, REDIS_ERROR)) MUST(!answer_error_is(r, "MOVED") && !answer_error_is(r, "ASK"));
}

/* Two requests, or a transaction. */
static void lane_asks(uint8_t how)
{
    struct redis_link *l = &links[how % LINKS];
    request_words(redis_link_begin(l), "PING");
    if (how < 0x80)
        redis_link_ask(l, 2, on_reply, (void *)(uintptr_t)1);
    else
        redis_link_expect_transaction(l, 3, on_reply, (void *)(uintptr_t)2);
    asked++;
}

static void links_open(void)
{
    for (unsigned i = 0; i < LINKS; i++) {
        const struct redis_link_config config = {.place = &places[i % LANES], .life = &life, .role = "frame"};
        redis_link_init(&links[i], &loop, &config);
        links[i].up = on_up;
        links[i].down = on_down;
    }
}

static void service_open(void)
{
    struct redis_place *all[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        place_init_lane(&places[i], &url, i, LANES);
        places[i].held = on_held;
        all[i] = &places[i];
    }
    links_open();
    cluster = cluster_create(&loop, all, LANES);
    for (unsigned i = 0; i < LINKS; i++)
        redis_link_start(&links[i]);
}

static void on_link_closed(struct redis_link *l)
{
    (void)l;
    closed_n++;
}

static void on_cluster_closed(void *arg)
{
    (void)arg;
    closed_n++;
}

static void service_close(void)
{
    cluster_close(cluster, on_cluster_closed, NULL);
    for (unsigned i = 0; i < LINKS; i++)
        redis_link_close(&links[i], on_link_closed);
    for (unsigned i = 0; i < TURNS_MAX && closed_n < LINKS + 1; i++)
        loop_turn(1);
    MUST(closed_n == LINKS + 1 && asked == answered);
    MUST(sockets_n == 0 && alarms_n == 0 && closings_n == 0 && look_ups_n == 0);
}

static void target_check(const struct redis_target *t)
{
    MUST(memchr(t->host, '\0', sizeof t->host) != NULL);
    for (const char *c = t->host; *c != '\0'; c++)
        MUST(*c > ' ' && *c <= '~');
    MUST(t->host[0] == '\0' || (t->port >= 1 && t->port <= 65535));
}

static void service_check(void)
{
    struct cluster_seen seen[CLUSTER_NODES_MAX];
    uint32_t n = cluster_look(cluster, seen);
    MUST(n >= url.hosts_n && n <= CLUSTER_NODES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        MUST(seen[i].own <= LANES && seen[i].found == (i >= url.hosts_n));
        target_check(&seen[i].at);
        target_check(&seen[i].owner);
    }
    for (unsigned i = 0; i < LANES; i++) {
        const struct redis_link *one = &links[i], *other = &links[i + LANES];
        bool both = redis_link_is_up(one) && redis_link_is_up(other);
        MUST(!both || strcmp(one->facts.run_id, other->facts.run_id) == 0);
        target_check(&places[i].told);
    }
}

/* ---- a CLUSTER SLOTS, as data ---- */

struct word {
    enum { TEXT, NUMBER, NIL, LIST } shape;
    struct slice text; /* of a NUMBER its digits */
};

struct said_node {
    struct word host, port, id;
    bool is_text, is_short;
};

struct said_range {
    struct word first, last;
    struct said_node nodes[NODES_MAX];
    unsigned nodes_n;
    bool is_text;
};

static struct said_range ranges[RANGES_MAX];
static unsigned ranges_n;
static char long_text[300];

/* clang-format 14 and 19 differ on a macro that is a braced list; a compound literal is no constant for gcc. */
/* clang-format off */
#define T(text) {TEXT, SLICE(text)}
#define N(digits) {NUMBER, SLICE(digits)}
/* clang-format on */
#define ID_A "07c37dfeb235213a872192d90877d0cd55635b91"
#define ID_B "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"

static struct word host_take(struct slice *in)
{
    static const struct word hosts[] = {
        T("10.0.0.1"), T("10.0.0.2"),      T("node-b.shop"), T("seed-a"), T("::1"),    T(""),  T("?"),
        T("a\0b"),     T("h\nevent=done"), T("a b"),         {NIL, {0}},  {LIST, {0}}, N("7"),
    };
    uint8_t byte = take_byte(in);
    if (byte >= 0xf0) return (struct word){TEXT, slice_of(long_text, 250 + byte % 8)};
    if (byte >= 0xe0) return (struct word){TEXT, take_text(in)};
    return hosts[byte % (sizeof hosts / sizeof hosts[0])];
}

static struct word port_take(struct slice *in)
{
    static const struct word ports[] = {
        N("7001"),
        N("7002"),
        N("1"),
        N("65535"),
        N("0"),
        N("65536"),
        N("-1"),
        N("9223372036854775807"),
        N("-9223372036854775808"),
        N("4294974297"),
        T("7001"),
        {NIL, {0}},
    };
    return ports[take_byte(in) % (sizeof ports / sizeof ports[0])];
}

static struct word id_take(struct slice *in)
{
    static const struct word ids[] = {T(ID_A), T(ID_B), T(""), T("a\nb"), T(ID_A ID_B), N("7"), {LIST, {0}}};
    return ids[take_byte(in) % (sizeof ids / sizeof ids[0])];
}

/* A slot or near one: the digits are kept for the input. */
static struct word slot_take(struct slice *in)
{
    static char digits[2 * RANGES_MAX][8];
    static unsigned at;
    static const struct word odd[] = {
        N("-9223372036854775808"), N("9223372036854775807"), N("-1"), T("0"), {NIL, {0}}};
    uint8_t high = take_byte(in);
    if (high >= 0xf8) return odd[high % (sizeof odd / sizeof odd[0])];
    char *text = digits[at++ % (2 * RANGES_MAX)];
    int n = snprintf(text, 8, "%u", (unsigned)(high % 65) << 8 | take_byte(in));
    return (struct word){NUMBER, slice_of(text, (size_t)n)};
}

static void ranges_take(struct slice *in)
{
    ranges_n = take_byte(in) % (RANGES_MAX + 1);
    for (unsigned i = 0; i < ranges_n; i++) {
        uint8_t how = take_byte(in);
        struct said_range *r = &ranges[i];
        *r = (struct said_range){.first = slot_take(in), .is_text = how >= 0xf0};
        r->last = slot_take(in);
        r->nodes_n = how % (NODES_MAX + 1);
        for (unsigned k = 0; k < r->nodes_n; k++) {
            struct said_node *n = &r->nodes[k];
            *n = (struct said_node){.host = host_take(in), .is_text = how == 0xe0, .is_short = how == 0xe1};
            n->port = port_take(in);
            n->id = id_take(in);
        }
    }
}

static void word_write(struct buf *out, const struct word *w)
{
    if (w->shape == TEXT) request_slice(out, w->text);
    if (w->shape == NUMBER) buf_printf(out, ":" SLICE_FMT "\r\n", SLICE_ARG(w->text));
    if (w->shape == NIL) BUF_LIT(out, "$-1\r\n");
    if (w->shape == LIST) BUF_LIT(out, "*1\r\n*0\r\n");
}

static void node_write(struct buf *out, const struct said_node *n)
{
    if (n->is_text) {
        request_slice(out, SLICE("node"));
        return;
    }
    request_array(out, n->is_short ? 2 : 4);
    word_write(out, &n->host);
    word_write(out, &n->port);
    if (n->is_short) return;
    word_write(out, &n->id);
    request_array(out, 0);
}

static void ranges_write(struct buf *out)
{
    request_array(out, ranges_n);
    for (unsigned i = 0; i < ranges_n; i++) {
        const struct said_range *r = &ranges[i];
        if (r->is_text) {
            request_slice(out, SLICE("range"));
            continue;
        }
        request_array(out, 2 + r->nodes_n);
        word_write(out, &r->first);
        word_write(out, &r->last);
        for (unsigned k = 0; k < r->nodes_n; k++)
            node_write(out, &r->nodes[k]);
    }
}

/* ---- who owns a slot: the same, read a second time ---- */

static bool is_visible(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~') return false;
    return s.n > 0 && s.n < 256;
}

static bool holds_slot(const struct said_range *r, long long slot)
{
    if (r->is_text || r->nodes_n == 0 || r->first.shape != NUMBER || r->last.shape != NUMBER) return false;
    return strtoll(r->first.text.p, NULL, 10) <= slot && slot <= strtoll(r->last.text.p, NULL, 10);
}

/* The host of the first range that has the slot; n = 0: no node of a right shape. */
static struct slice host_of(const struct said_node *n, struct slice otherwise)
{
    bool told = n->host.shape == TEXT && n->host.text.n > 0 && !slice_eq(n->host.text, SLICE("?"));
    struct slice host = told ? n->host.text : otherwise, none = {0};
    long long port = n->port.shape == NUMBER ? strtoll(n->port.text.p, NULL, 10) : 0;
    bool fits = !n->is_text && !n->is_short && (n->host.shape == TEXT || n->host.shape == NIL);
    return fits && is_visible(host) && port >= 1 && port <= 65535 ? host : none;
}

static void owner_check(const struct redis_answer *answer, unsigned slot)
{
    static const struct redis_target from = {.host = "asked", .port = 7009};
    struct redis_target owner;
    struct slice id, host = {0};
    const struct said_range *r = ranges;
    while (r < ranges + ranges_n && !holds_slot(r, slot))
        r++;
    bool known = r < ranges + ranges_n;
    if (known) host = host_of(&r->nodes[0], SLICE("asked"));
    MUST(cluster_owner(answer, slot, &from, &owner, &id) == (host.n > 0));
    if (host.n == 0) return;
    const struct word *said = &r->nodes[0].id;
    MUST(slice_eq(slice_str(owner.host), host));
    MUST(owner.port == strtoll(r->nodes[0].port.text.p, NULL, 10));
    MUST(slice_eq(id, said->shape == TEXT ? said->text : SLICE("")));
}

static void slots_check(struct slice reply, struct slice *in)
{
    struct redis_reader *reader = redis_reader_create();
    const struct redis_answer *r;
    MUST(redis_reader_feed(reader, reply.p, reply.n) && redis_reader_next(reader, &r) == READ_REPLY);
    for (unsigned i = 0; i < LANES; i++)
        owner_check(r, places[i].slot);
    owner_check(r, (unsigned)(take_byte(in) % 64) << 8 | take_byte(in));
    for (unsigned i = 0; i < ranges_n; i++) /* its ends */
        for (int near = -1; near <= 1; near++) {
            if (ranges[i].last.shape != NUMBER) continue;
            long long slot = strtoll(ranges[i].last.text.p, NULL, 10);
            if (slot > 0 && slot < SLOTS - 1) owner_check(r, (unsigned)(slot + near));
        }
    redis_reader_destroy(&reader);
}

/* ---- CLUSTER NODES: id address flags master ping pong epoch ... ---- */

static uint64_t epoch_of(struct slice nodes, struct slice id)
{
    while (nodes.n > 0) {
        struct slice line = take_line(&nodes), word = line;
        uint64_t epoch = 0;
        if (id.n == 0 || line.n <= id.n || !slice_starts(line, id) || line.p[id.n] != ' ') continue;
        for (int i = 0; i <= 6; i++) {
            if (line.p == NULL) return 0;
            const char *space = memchr(line.p, ' ', line.n);
            word = slice_of(line.p, space == NULL ? line.n : (size_t)(space - line.p));
            line = space == NULL ? slice_of(NULL, 0) : slice_of(space + 1, line.n - word.n - 1);
        }
        return num_parse_u64(word, &epoch) ? epoch : 0;
    }
    return 0;
}

static void nodes_take(struct slice *in, struct buf *out)
{
    static const char *const epochs[] = {"0",  "1", "2", "18446744073709551615", "18446744073709551616",
                                         "-1", "x", ""};
    for (unsigned n = take_byte(in) % 8; n > 0; n--) {
        uint8_t how = take_byte(in);
        struct word id = id_take(in);
        buf_put_slice(out, id.text);
        if (how < 0xf0)
            buf_printf(out, " h:1@2 master%s - 0 0 %s connected%s\n", how & 8 ? "" : ",fail", epochs[how % 8],
                       how & 16 ? "" : " 0-8191");
        else
            buf_printf(out, " %s\n", epochs[how % 8]);
    }
    buf_put_slice(out, take_text(in));
    MUST(cluster_epoch(buf_slice(out), SLICE(ID_A)) == epoch_of(buf_slice(out), SLICE(ID_A)));
    MUST(cluster_epoch(buf_slice(out), SLICE("a")) == epoch_of(buf_slice(out), SLICE("a")));
}

/* ---- what a node says ---- */

static void slots_say(struct slice *in, struct buf *out)
{
    struct buf nodes = {0}, slots = {0};
    ranges_take(in);
    ranges_write(&slots);
    slots_check(buf_slice(&slots), in);
    nodes_take(in, &nodes);
    request_slice(out, buf_slice(&nodes));
    buf_put_slice(out, buf_slice(&slots));
    buf_free(&slots);
    buf_free(&nodes);
}

/* To one request of lane_asks(), or to both. */
static void error_say(struct slice *in, struct buf *out)
{
    static const char *const kinds[] = {"MOVED",
                                        "ASK",
                                        "TRYAGAIN",
                                        "CLUSTERDOWN",
                                        "EXECABORT Transaction discarded because of: MOVED",
                                        "ERR Script attempted to access a non local key",
                                        "READONLY",
                                        "NOREPLICAS"};
    uint8_t how = take_byte(in);
    struct word host = host_take(in), port = port_take(in);
    struct buf line = {0};
    buf_printf(&line, "%s %u ", kinds[how % 8], how);
    if (host.shape == TEXT) buf_put_slice(&line, host.text);
    buf_put_char(&line, ':');
    if (port.shape != NIL) buf_put_slice(&line, port.text);
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] == '\n') line.p[i] = '\v'; /* a line has none */
    for (int i = 0; i < 1 + (how >= 0x80); i++)
        buf_printf(out, "-" SLICE_FMT "\r\n", SLICE_ARG(buf_slice(&line)));
    buf_free(&line);
}

/* What a fit server answers to a lane's link. */
static void handshake_say(struct slice *in, struct buf *out)
{
    struct buf info = {0};
    unsigned run = take_byte(in) % 4U;
    buf_put_slice(&info, take_text(in)); /* of two lines for one name the first counts */
    buf_printf(&info,
               "redis_version:7.0.15\r\nrun_id:%040x\r\nloading:0\r\naof_enabled:1\r\nrole:master\r\n"
               "master_replid:%040x\r\ncluster_enabled:1\r\nmaxmemory_policy:noeviction\r\n",
               run, 7U);
    BUF_LIT(out, "+OK\r\n:5\r\n");
    request_slice(out, buf_slice(&info));
    BUF_LIT(
        out,
        "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n*2\r\n$10\r\n1411200000\r\n$1\r\n0\r\n+OK\r\n*0\r\n");
    buf_free(&info);
}

/* To TIME and ROLE. */
static void role_say(struct slice *in, struct buf *out)
{
    static const char *const roles[] = {"master", "master", "master", "slave"};
    unsigned replicas = take_byte(in) % 10;
    BUF_LIT(out, "*2\r\n$10\r\n1411200000\r\n$1\r\n0\r\n");
    request_array(out, 3);
    request_text(out, roles[take_byte(in) % 4]);
    buf_printf(out, ":%u\r\n", take_byte(in));
    request_array(out, replicas);
    for (unsigned i = 0; i < replicas; i++) {
        struct word host = host_take(in), port = port_take(in), offset = port_take(in);
        request_array(out, 3);
        word_write(out, &host);
        word_write(out, &port);
        word_write(out, &offset);
    }
}

static void bytes_say(struct slice *in, struct buf *out)
{
    static const char *const replies[] = {"+PONG\r\n", "+PONG\r\n", "-ERR no\r\n", "*-1\r\n",
                                          "$-1\r\n",   "+OK\r\n",   ":1\r\n",      "*0\r\n"};
    uint8_t how = take_byte(in);
    if (how < 0xc0)
        buf_printf(out, "%s", replies[how % 8]);
    else
        buf_put_slice(out, take_text(in));
}

/* All at once, or in pieces. */
static void say(uv_stream_t *stream, struct slice what, size_t step)
{
    while (what.n > 0) {
        struct slice piece = take_bytes(&what, step);
        char *exact = fuzz_copy((const uint8_t *)piece.p, piece.n);
        bool goes_on = socket_reads(stream, exact, (ssize_t)piece.n);
        heap_free(exact);
        if (!goes_on) return;
    }
}

/* ---- events ---- */

static void socket_step(struct slice *in, uint8_t what)
{
    typedef void saying(struct slice *, struct buf *);
    static saying *const sayings[] = {slots_say, error_say, handshake_say, bytes_say, role_say};
    struct buf out = {0};
    if (sockets_n == 0) return;
    struct socket *s = &sockets[take_byte(in) % sockets_n];
    uv_stream_t *stream = s->stream;
    if (what == 0)
        socket_connect(s, take_byte(in) < 0xf0);
    else if (what == 1)
        (void)socket_reads(stream, NULL, UV_EOF);
    else
        sayings[what - 2](in, &out);
    say(stream, buf_slice(&out), take_byte(in) < 0x80 ? 60000 : 7);
    buf_free(&out);
}

static void step(struct slice *in)
{
    uint8_t what = take_byte(in) % 16;
    if (what < 2) loop_turn((uint64_t)take_byte(in) * (what == 0 ? 1 : 20));
    if (what == 2 && look_ups_n > 0) look_up_answer(take_byte(in) % look_ups_n, take_byte(in) < 0xf0);
    if (what == 3) lane_asks(take_byte(in));
    if (what == 4) place_tick(&places[take_byte(in) % LANES], now_ms);
    if (what == 5) place_served(&places[take_byte(in) % LANES]);
    if (what >= 6) socket_step(in, what < 13 ? what - 6 : what - 11);
    loop_turn(0);
    service_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    memset(long_text, 'h', sizeof long_text);
    memset(held, 0, sizeof held);
    now_ms = 1000000;
    asked = answered = closed_n = 0;
    service_open();
    loop_turn(0);
    while (in.n > 0)
        step(&in);
    service_close();
    return 0;
}
