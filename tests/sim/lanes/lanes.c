/* sim/lanes.c - clients over several lanes: real sessions and real coalesces, one to a lane, each with a small Redis of its own
 * whose link is cut, blocks and comes back as the seed's dice fall, whatever the others do. Each hit has a field of its
 * own, so its reply says which hit it is of. What must hold:
 *   - each client's replies are in the order of its requests, one each;
 *   - a hit told as counted is in Redis once; one told as refused is not; "outcome unknown": once or not;
 *   - a client of one lane is answered when that lane is, whatever holds the others;
 *   - at the end no reply is owed, and a client that left has left nothing behind.
 *
 *   sim_lanes [--seed N] [--seeds N] [--lanes N]     N seeds from N on; the first that fails is named, and aborts. One alone
 *                                                    is run with the log */
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/num.h"
#include "command/inside.h"
#include "lib/dice.h"
#include "lib/fake_client.h"
#include "lib/zones.h"
#include "series/slot.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LANES_MOST 8
#define CLIENTS 3 /* the last sends to lane 0 alone */
#define STORES 12
#define FRAMES 4
#define HITS_MAX 4096
#define STEPS 120
#define RUN_ID "0123456789012345678901234567890123456789"
#define AWAY "MASTERDOWN sim: the link was cut"

#define HOLDS(e) CHECK_("promise", e, #e)

enum wanted { WANT_LINE, WANT_HIT, WANT_EXEC };

struct expect {
    enum wanted what;
    char line[48]; /* WANT_LINE: the reply */
    uint32_t hit;  /* WANT_HIT; WANT_EXEC: how many replies follow, unless it is refused as a whole */
};

struct client {
    struct conn conn;
    struct expect *expects; /* a queue */
    size_t first, n, cap;
    bool open;
};

enum told { TOLD_NOTHING, TOLD_COUNTED, TOLD_REFUSED, TOLD_UNKNOWN };

struct hit {
    uint32_t runs; /* how often Redis has it */
    enum told told;
    bool dropped; /* its client left before its answer */
};

struct lane {
    struct coalesce *coalesce;
    struct frame *sent[FRAMES]; /* in order, not answered */
    uint32_t sent_n, ran_n;     /* how many of them, from the first, were run */
    struct frame *values;       /* asked for */
    int64_t seq, client;
    bool up, held, kills, looks;
};

static struct lane lanes[LANES_MOST];
static uint32_t lanes_n = 2;
static struct coalesce *coalesces[LANES_MOST];
static struct command *command;
static struct client clients[CLIENTS];
static struct hit hits[HITS_MAX];
static uint32_t hits_n;
static struct dice dice;
static uint64_t now_ms;

static struct counter views = {.name = {"views", 5},
                               .field = FIELD_INTEGER,
                               .key = {{"s", 1}, {":views", 6}, true},
                               .lock = {{"s", 1}, {":views:sync", 11}, true},
                               .hits = 1000000,
                               .every_s = 60};
static const struct op_limits limits = {.precisions = {60}, .precisions_n = 1, .samples = 120};
static const struct counters counters = {.all = &views, .n = 1, .ops = &limits};
static const struct life life = {.instance = {"sim", 3}, .id = "0123456789abcdef"};

static bool percent(unsigned n)
{
    return dice_below(&dice, 100) < n;
}

/* ---- a lane's Redis ---- */

static uint32_t hit_of(const struct frame *f, const struct frame_cell *c)
{
    int64_t number = 0;
    HOLDS(num_parse(FRAME_FIELD(f, c), &number) && number > 0 && number <= hits_n);
    return (uint32_t)number - 1;
}

static void frame_runs(struct lane *l, struct frame *f)
{
    for (uint32_t i = 0; i < f->cells_n; i++)
        hits[hit_of(f, &f->cells[i])].runs++;
    l->seq = (int64_t)f->seq;
}

/* Each field belongs to one hit, whose n is its number. */
static void frame_files(struct frame *f)
{
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_cell *c = &f->cells[i];
        c->error_n = 0;
        c->value = hits[hit_of(f, c)].runs * (int64_t)(hit_of(f, c) + 1);
    }
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        f->hashes[i].fresh = f->hashes[i].lock_granted = false;
        f->hashes[i].lock_pttl_ms = 60000;
    }
}

static void lane_runs(struct lane *l)
{
    if (l->held || l->ran_n == l->sent_n) return;
    frame_runs(l, l->sent[l->ran_n++]);
}

static void frame_shift(struct lane *l)
{
    l->sent_n--;
    memmove(l->sent, l->sent + 1, l->sent_n * sizeof l->sent[0]);
}

static void lane_refuses(struct lane *l)
{
    if (l->held || l->sent_n == 0 || l->ran_n > 0) return;
    struct frame *f = l->sent[0];
    frame_shift(l);
    buf_reset(&f->errors);
    BUF_LIT(&f->errors, "OOM command not allowed when used memory > 'maxmemory'.");
    coalesce_on_frame(l->coalesce, f, FRAME_REFUSED);
}

static void lane_answers(struct lane *l)
{
    if (l->held || l->ran_n == 0) return;
    struct frame *f = l->sent[0];
    frame_shift(l);
    l->ran_n--;
    frame_files(f);
    coalesce_on_frame(l->coalesce, f, FRAME_APPLIED);
}

static void lane_values(struct lane *l)
{
    struct frame *f = l->values;
    if (l->held || f == NULL) return;
    l->values = NULL;
    frame_files(f);
    coalesce_on_values(l->coalesce, f);
}

/* Some of what was sent may have run all the same. */
static void lane_cut(struct lane *l)
{
    if (!l->up) return;
    for (uint32_t runs = (uint32_t)dice_below(&dice, l->sent_n - l->ran_n + 1); runs > 0; runs--)
        frame_runs(l, l->sent[l->ran_n++]);
    l->sent_n = l->ran_n = 0;
    l->values = NULL;
    l->up = l->kills = l->looks = false;
    coalesce_cut(l->coalesce, AWAY);
}

static void lane_up(struct lane *l)
{
    static const bool none[8];
    if (l->up || l->held) return;
    l->up = true;
    coalesce_up(l->coalesce, RUN_ID, ++l->client);
    if (l->kills) coalesce_on_killed(l->coalesce);
    HOLDS(l->looks);
    l->kills = l->looks = false;
    coalesce_on_look(l->coalesce, l->seq, none, none);
}

/* ---- coalesce's ports ---- */

static void port_frame(void *arg, struct frame *f)
{
    struct lane *l = arg;
    HOLDS(l->up && l->sent_n < FRAMES);
    l->sent[l->sent_n++] = f;
}
static void port_kill(void *arg, int64_t id)
{
    (void)id;
    ((struct lane *)arg)->kills = true;
}
static void port_look(void *arg, const struct link_look *look)
{
    HOLDS(look->claims_n == 0 && look->journals_n == 0);
    ((struct lane *)arg)->looks = true;
}
static void port_values(void *arg, struct frame *f)
{
    ((struct lane *)arg)->values = f;
}
static void port_due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    (void)arg, (void)c, (void)key, (void)why;
}
static void port_fatal(void *arg, const char *text)
{
    (void)arg, (void)text;
    UNREACHABLE();
}
static void port_nothing(void *arg)
{
    (void)arg;
}
static struct conn *conn_at(struct outlet *o)
{
    return CONTAINER_OF(command_outlet(command, o), struct conn, outlet);
}
static void port_answered(void *arg, struct outlet *o)
{
    struct conn *c = conn_at(o);
    (void)arg;
    session_answered(&c->session);
}
static void port_room(void *arg, struct outlet *o)
{
    (void)arg;
    session_room(&conn_at(o)->session);
}
static uint64_t port_mono_ms(void *arg)
{
    (void)arg;
    return now_ms;
}
static int64_t port_redis_ms(void *arg)
{
    (void)arg;
    return INT64_C(1411200000000) + (int64_t)now_ms;
}

/* Small frames, so that clients wait for room; small caches, so that they forget. */
static struct coalesce *coalesce_open(struct lane *l)
{
    const struct coalesce_ports ports = {.arg = l,
                                         .life = &life,
                                         .send_frame = port_frame,
                                         .kill = port_kill,
                                         .look = port_look,
                                         .read_values = port_values,
                                         .journals_lost = port_nothing,
                                         .caught_up = port_nothing,
                                         .due = port_due,
                                         .fatal = port_fatal,
                                         .answered = port_answered,
                                         .room = port_room,
                                         .mono_ms = port_mono_ms,
                                         .mono_us = port_mono_ms,
                                         .redis_ms = port_redis_ms};
    struct coalesce_config config = coalesce_config_default;
    config.cells_max = 8 + (uint32_t)dice_below(&dice, 40);
    config.answers_max = 2 * config.cells_max;
    config.at_once_cells = 4;
    config.gather_turns = (uint32_t)dice_below(&dice, 3);
    config.entries_max = 4;
    config.replay_bytes = 0;
    return coalesce_create(&ports, &counters, &config);
}

/* ---- clients ---- */

static struct expect *expect_add(struct client *c, enum wanted what)
{
    if (c->first + c->n == c->cap) {
        c->cap = c->cap == 0 ? 64 : 2 * c->cap;
        c->expects = heap_realloc(c->expects, c->cap * sizeof *c->expects);
    }
    struct expect *e = &c->expects[c->first + c->n++];
    *e = (struct expect){.what = what};
    return e;
}

static void expect_line(struct client *c, const char *line)
{
    struct expect *e = expect_add(c, WANT_LINE);
    snprintf(e->line, sizeof e->line, "%s", line);
}

static unsigned store_draw(const struct client *c)
{
    for (;;) {
        unsigned store = (unsigned)dice_below(&dice, STORES);
        char text[8];
        int n = snprintf(text, sizeof text, "%u", store);
        bool of_first = lane_of_store(slice_of(text, (size_t)n), lanes_n) == 0;
        if (of_first || c != &clients[CLIENTS - 1]) return store;
    }
}

static void hit_put(struct client *c, unsigned store, bool answered)
{
    if (hits_n == HITS_MAX) return;
    char key[24], number[12];
    int key_n = snprintf(key, sizeof key, "s%u:views", store);
    int n = snprintf(number, sizeof number, "%u", ++hits_n);
    hits[hits_n - 1] = (struct hit){.dropped = !answered};
    buf_printf(&c->conn.kept, "*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", key_n, key, n,
               number, n, number);
    if (answered) expect_add(c, WANT_HIT)->hit = hits_n - 1;
}

/* Some hits of a store, a PING after each. */
static void multi_put(struct client *c)
{
    unsigned store = store_draw(c), n = (unsigned)dice_below(&dice, 4), first = hits_n;
    if (hits_n + n > HITS_MAX) return;
    buf_printf(&c->conn.kept, "MULTI\r\n");
    expect_line(c, "+OK");
    for (unsigned i = 0; i < n; i++) {
        hit_put(c, store, false);
        buf_printf(&c->conn.kept, "PING\r\n");
        expect_line(c, "+QUEUED");
        expect_line(c, "+QUEUED");
    }
    buf_printf(&c->conn.kept, "EXEC\r\n");
    expect_add(c, WANT_EXEC)->hit = 2 * n;
    for (unsigned i = 0; i < n; i++) {
        hits[first + i].dropped = false;
        expect_add(c, WANT_HIT)->hit = first + i;
        expect_line(c, "+PONG");
    }
}

static void request_put(struct client *c)
{
    unsigned what = (unsigned)dice_below(&dice, 20);
    if (what == 0) {
        buf_printf(&c->conn.kept, "PING\r\n");
        expect_line(c, "+PONG");
    } else if (what == 1) {
        buf_printf(&c->conn.kept, "CLIENT REPLY SKIP\r\n");
        hit_put(c, store_draw(c), false);
    } else if (what == 2) {
        multi_put(c);
    } else {
        hit_put(c, store_draw(c), true);
    }
}

static void client_sends(struct client *c)
{
    if (!c->open || c->conn.kept.n > 4096) return;
    for (size_t n = 1 + dice_below(&dice, 30); n > 0; n--)
        request_put(c);
    conn_take(&c->conn);
    conn_flush(&c->conn);
}

static void hit_told(uint32_t number, struct slice line)
{
    struct hit *h = &hits[number];
    int64_t value;
    HOLDS(h->told == TOLD_NOTHING);
    if (line.p[0] == ':') {
        HOLDS(num_parse(slice_of(line.p + 1, line.n - 1), &value) && value == (int64_t)number + 1);
        h->told = TOLD_COUNTED;
    } else {
        HOLDS(line.p[0] == '-');
        h->told = slice_starts(line, SLICE("-ERR outcome unknown")) ? TOLD_UNKNOWN : TOLD_REFUSED;
    }
}

static void exec_told(struct client *c, uint32_t replies, struct slice line)
{
    char head[16];
    snprintf(head, sizeof head, "*%u", replies);
    if (slice_eq(line, slice_str(head))) return;
    HOLDS(slice_starts(line, SLICE("-EXECABORT ")));
    for (; replies > 0; replies--, c->n--) {
        const struct expect *e = &c->expects[c->first++];
        if (e->what == WANT_HIT) hit_told(e->hit, line);
    }
}

/* Whole lines; all replies are lines. */
static void client_reads(struct client *c)
{
    struct buf *said = &c->conn.said;
    size_t at = 0;
    for (const char *end; at < said->n && (end = memchr(said->p + at, '\n', said->n - at)) != NULL;) {
        struct slice line = slice_of(said->p + at, (size_t)(end - said->p) - at - 1);
        HOLDS(c->n > 0);
        const struct expect *e = &c->expects[c->first++];
        c->n--;
        if (e->what == WANT_HIT)
            hit_told(e->hit, line);
        else if (e->what == WANT_EXEC)
            exec_told(c, e->hit, line);
        else
            HOLDS(slice_eq(line, slice_str(e->line)));
        at += line.n + 2;
    }
    buf_drop(said, at);
    if (c->n == 0) c->first = 0;
}

static void client_opens(struct client *c)
{
    memset(&c->conn, 0, sizeof c->conn);
    list_init(&c->conn.outlet.touched);
    list_init(&c->conn.outlet.parked);
    session_open(&c->conn.session, command, &c->conn, &c->conn.outlet, false);
    c->open = true;
}

/* Its memory stays while it is owed an answer. */
static void client_leaves(struct client *c)
{
    if (!c->open) return;
    client_reads(c);
    for (size_t i = 0; i < c->n; i++)
        if (c->expects[c->first + i].what == WANT_HIT) hits[c->expects[c->first + i].hit].dropped = true;
    c->first = c->n = 0;
    c->open = false;
    on_drop(&c->conn);
}

static void client_returns(struct client *c)
{
    if (c->open || c->conn.outlet.waiting > 0) return;
    HOLDS(c->conn.session.order == NULL);
    fake_client_close(&c->conn);
    client_opens(c);
}

static void all_take(void)
{
    for (struct client *c = clients; c < clients + CLIENTS; c++) {
        if (!c->open) continue;
        conn_take(&c->conn);
        conn_flush(&c->conn);
        client_reads(c);
    }
}

/* ---- one seed ---- */

static void lane_step(struct lane *l)
{
    switch (dice_below(&dice, 14)) {
    case 0:
        lane_cut(l);
        return;
    case 1:
    case 2:
        lane_up(l);
        return;
    case 3:
        l->held = percent(60);
        return;
    case 4:
        lane_refuses(l);
        return;
    case 5:
        lane_values(l);
        return;
    case 6:
    case 7:
    case 8:
        lane_runs(l);
        return;
    case 9:
        lane_up(l);
        return;
    default:
        lane_answers(l);
    }
}

static void world_turns(void)
{
    for (uint32_t i = 0; i < lanes_n; i++)
        coalesce_turn(lanes[i].coalesce);
    command_turn(command);
}

/* Lane 0 comes to rest, whatever holds the others: a client that sends to it alone is answered then. */
static void first_lane_rests(void)
{
    struct lane *l = &lanes[0];
    struct client *c = &clients[CLIENTS - 1];
    if (l->held || !l->up || !c->open) return;
    for (unsigned i = 0; i < 1000 && (c->n > 0 || c->conn.kept.n > 0); i++) {
        lane_values(l);
        lane_runs(l);
        lane_answers(l);
        coalesce_turn(l->coalesce);
        all_take();
        if (i % 10 == 9) now_ms += 1000;
    }
    HOLDS(c->n == 0 && c->conn.kept.n == 0);
}

static void world_step(void)
{
    struct client *c = &clients[dice_below(&dice, CLIENTS)];
    unsigned what = (unsigned)dice_below(&dice, 100);
    now_ms += what % 10 == 0 ? dice_below(&dice, 2000) : 1;
    if (what < 25) client_sends(c);
    if (what == 25) client_leaves(c);
    if (what >= 26 && what < 34) client_returns(c);
    if (what >= 34 && what < 37) first_lane_rests();
    if (what >= 37 && what < 55) world_turns();
    if (what >= 55) lane_step(&lanes[dice_below(&dice, lanes_n)]);
    if (what == 54)
        for (uint32_t i = 0; i < lanes_n; i++)
            coalesce_tick(lanes[i].coalesce);
    all_take();
}

static bool world_rests(void)
{
    for (const struct client *c = clients; c < clients + CLIENTS; c++)
        if (c->conn.outlet.waiting > 0 || (c->open && (c->n > 0 || c->conn.kept.n > 0))) return false;
    for (uint32_t i = 0; i < lanes_n; i++)
        if (!coalesce_idle(lanes[i].coalesce)) return false;
    return true;
}

static void world_settles(void)
{
    for (unsigned i = 0; i < 2000 && !world_rests(); i++) {
        for (struct lane *l = lanes; l < lanes + lanes_n; l++) {
            l->held = false;
            lane_up(l);
            lane_values(l);
            lane_runs(l);
            lane_answers(l);
        }
        world_turns();
        now_ms += 100;
        all_take();
    }
    HOLDS(world_rests());
}

static uint64_t told[TOLD_UNKNOWN + 1]; /* of all seeds */

static void hits_check(void)
{
    for (uint32_t i = 0; i < hits_n; i++) {
        const struct hit *h = &hits[i];
        told[h->told]++;
        HOLDS(h->runs <= 1);
        HOLDS(h->told != TOLD_COUNTED || h->runs == 1);
        HOLDS(h->told != TOLD_REFUSED || h->runs == 0);
        HOLDS(h->told != TOLD_NOTHING || h->dropped);
    }
}

static void world_open(void)
{
    hits_n = 0;
    now_ms = 1000;
    for (uint32_t i = 0; i < lanes_n; i++) {
        lanes[i] = (struct lane){.seq = -1};
        coalesces[i] = lanes[i].coalesce = coalesce_open(&lanes[i]);
    }
    const struct command_config config = {.lanes = coalesces,
                                          .lanes_n = lanes_n,
                                          .client = fake_client_ports,
                                          .counters = &counters,
                                          .zones = zones_utc(),
                                          .ports = {.redis_ms = port_redis_ms},
                                          .limits = request_limits_default,
                                          .clients_max = 100,
                                          .multi_max = 100,
                                          .multi_bytes_max = 1 << 20,
                                          .busy_ms = 5000};
    command = command_create(&config);
    for (uint32_t i = 0; i < lanes_n; i++)
        lane_up(&lanes[i]);
    for (size_t i = 0; i < CLIENTS; i++)
        client_opens(&clients[i]);
}

static void world_close(void)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        client_leaves(&clients[i]);
        HOLDS(clients[i].conn.outlet.waiting == 0 && clients[i].conn.session.order == NULL);
        fake_client_close(&clients[i].conn);
        heap_free(clients[i].expects);
        clients[i] = (struct client){.open = false};
    }
    command_destroy(&command);
    for (uint32_t i = 0; i < lanes_n; i++)
        coalesce_destroy(&lanes[i].coalesce);
}

static void seed_runs(uint64_t seed)
{
    dice = (struct dice){seed};
    world_open();
    for (unsigned i = 0; i < STEPS; i++)
        world_step();
    world_settles();
    hits_check();
    world_close();
}

static uint64_t seed_now;

static void on_abort(int number)
{
    (void)number;
    fprintf(stderr, "failed: sim_lanes --lanes %u --seed %llu\n", lanes_n, (unsigned long long)seed_now);
}

static void seeds_run(uint64_t first, uint64_t n)
{
    signal(SIGABRT, on_abort);
    log_set_level(n > 1 ? (enum log_level)(LOG_ERROR + 1)
                        : LOG_DEBUG); /* an unknown outcome is no error here */
    for (seed_now = first; seed_now < first + n; seed_now++)
        seed_runs(seed_now);
    printf("%llu seeds: %llu hits counted, %llu refused, %llu unknown, %llu not told\n",
           (unsigned long long)n, (unsigned long long)told[TOLD_COUNTED],
           (unsigned long long)told[TOLD_REFUSED], (unsigned long long)told[TOLD_UNKNOWN],
           (unsigned long long)told[TOLD_NOTHING]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"seeds", required_argument, NULL, 'n'},
                                            {"lanes", required_argument, NULL, 'l'},
                                            {0}};
    uint64_t seed = 0, seeds = 1;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's') seed = strtoull(optarg, NULL, 10);
        if (c == 'n') seeds = strtoull(optarg, NULL, 10);
        if (c == 'l') lanes_n = (uint32_t)strtoul(optarg, NULL, 10);
    }
    PRE(lanes_n >= 1 && lanes_n <= LANES_MOST);
    seeds_run(seed, seeds);
    return 0;
}
