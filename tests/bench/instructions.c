/* bench/instructions.c - the way of a hit without sockets and servers: requests of a recorded stream through
 * session_bytes(), frames to a link that answers at once, replies into the clients' buffers. Under callgrind
 * the same stream costs the same number of instructions each time: two runs, one of twice as many turns,
 * differ by what the hits alone cost (parse, coalesce, reply, and filling in the frame's answers, a few
 * instructions a cell).
 *
 *   instructions STREAM -c connections -P pipeline -n turns [-L lanes] [-u] [-p]
 *
 * -u: each connection is a user's that may name the keys of one pattern and has a rate.
 * -p: beside the plain counter one with two placeholders in its key and a pattern for its field:
 * store:<store>:product:<product>:views <day>::<kind>.
 * A turn is one pipeline from each connection and one frame of each lane. Prints hits=N. The stream (load -W) is used
 * from its beginning again when it ends. */
#include "../lib/zones.h"
#include "base/clock.h"
#include "base/log.h"
#include "clock.h"
#include "command/inside.h"
#include "series/names.h"
#include "series/op.h"
#include <getopt.h>

/* Instead of base/rand.c: the table's seed is the same in each run, so that the figure repeats exactly. */
void rand_bytes(void *out, size_t n)
{
    memset(out, 0x5A, n);
}
uint64_t rand_below(uint64_t n)
{
    return n / 2;
}
uint64_t rand_backoff_ms(unsigned attempt, uint64_t base_ms, uint64_t most_ms)
{
    (void)attempt;
    return base_ms < most_ms ? base_ms : most_ms;
}

struct options {
    const char *stream;
    uint32_t connections, pipeline, turns, lanes;
    bool users, placeholders;
};

struct stream {
    char *bytes;
    size_t *at; /* pipeline i is bytes[at[i] .. at[i + 1]) */
    uint32_t pipelines;
};

struct lane {
    struct world *world;
    struct frame *sent; /* not answered yet */
    bool looks;
};

struct world {
    struct lane lanes[LANES_MAX];
    struct coalesce *coalesces[LANES_MAX];
    struct command *command;
    struct users users;
    struct session *sessions;
    struct outlet *outlets;
};

static struct counter all_counters[2] = {{
    .name = {"unique_visitors", 15},
    .key = {.prefix = {"s", 1}, .suffix = {":unique_visitors:daily", 22}, .has_store = true},
    .lock = {.prefix = {"s", 1}, .suffix = {":unique_visitors:sync", 21}, .has_store = true},
    .field = FIELD_DATE,
    .store = STORE_INTEGER,
    .hits = 50,
    .every_s = 60,
}};
static const struct op_limits limits = {.precisions = {60}, .precisions_n = 1, .samples = 120};
static struct counters counters = {.all = all_counters, .n = 1, .ops = &limits};

static struct places views_field;

static void kinds_set(struct places *p, const char *const *kinds)
{
    for (uint32_t i = 0; i < p->n; i++)
        PRE(value_type_parse(slice_str(kinds[i]), &p->at[i].type));
}

static void views_make(struct counter *c)
{
    static const char *const of_key[] = {"integer", "integer"}, *const of_field[] = {"date", "text"};
    struct error e;
    const char *why;
    *c = (struct counter){.name = SLICE("views"),
                          .lock = {.prefix = SLICE("views:sync")},
                          .field = FIELD_PLACES,
                          .store = STORE_INTEGER,
                          .hits = 50,
                          .every_s = 60,
                          .field_places = &views_field};
    PRE(pattern_parse_places(SLICE("store:<store>:product:<product>:views"), &c->key, &e) == ERR_NONE);
    PRE(places_parse(SLICE("<day>::<kind>"), &views_field, &why));
    kinds_set(c->key.places, of_key);
    kinds_set(&views_field, of_field);
    counters.n = 2;
}

/* --- what coalesce and the sessions are given --- */

static void port_frame(void *arg, struct frame *f)
{
    ((struct lane *)arg)->sent = f;
}
static void port_look(void *arg, const struct link_look *l)
{
    PRE(l->claims_n == 0 && l->journals_n == 0);
    ((struct lane *)arg)->looks = true;
}
static void port_due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    (void)arg, (void)c, (void)key, (void)why;
}
static void port_answered(void *arg, struct outlet *o)
{
    const struct world *w = ((struct lane *)arg)->world;
    session_answered(&w->sessions[command_outlet(w->command, o) - w->outlets]);
}
static uint64_t port_mono_ms(void *arg)
{
    (void)arg;
    return 1000;
}
static int64_t port_redis_ms(void *arg)
{
    (void)arg;
    return 1400000000000;
}

static uint64_t port_mono_us(void *arg)
{
    return 1000 * port_mono_ms(arg);
}

/* A session that waits for anything but its frame would falsify the figure. */
static void never(struct conn *c)
{
    (void)c;
    UNREACHABLE();
}

static void users_make(struct users *u)
{
    static const struct slice key = {"s*", 2};
    struct user_spec spec = {.name = SLICE("shop"),
                             .hash =
                                 "$y$j9T$dE0whxnYYDkhZvUW3DSiK/$1dPSQ.l7nyGQuAtSEtyyxd46vBQXlK9t6JVoB.WOlo5",
                             .keys = &key,
                             .keys_n = 1,
                             .rate = 1000000000,
                             .burst = 1000000000};
    enum user_field which;
    struct error e;
    users_init(u, &users_limits_default);
    PRE(users_add(u, &spec, &which, &e) == ERR_NONE);
    users_sort(u);
}

static void port_caught_up(void *arg)
{
    (void)arg;
}

static struct coalesce *lane_open(struct world *w, struct lane *l)
{
    struct coalesce_ports ports = {.arg = l,
                                   .send_frame = port_frame,
                                   .look = port_look,
                                   .caught_up = port_caught_up,
                                   .due = port_due,
                                   .answered = port_answered,
                                   .mono_ms = port_mono_ms,
                                   .mono_us = port_mono_us,
                                   .redis_ms = port_redis_ms};
    l->world = w;
    return coalesce_create(&ports, &counters, &coalesce_config_default);
}

static void lane_up(struct lane *l, struct coalesce *c)
{
    coalesce_up(c, "0123456789012345678901234567890123456789", 1);
    PRE(l->looks);
    coalesce_on_look(c, -1, NULL, NULL);
}

static void world_init(struct world *w, const struct options *o)
{
    struct client_ports client = {.pause = never,
                                  .resume = never,
                                  .offer = never,
                                  .answered = never,
                                  .finish = never,
                                  .drop = never,
                                  .hold = never,
                                  .release = never};
    for (uint32_t i = 0; i < o->lanes; i++)
        w->coalesces[i] = lane_open(w, &w->lanes[i]);
    struct command_config config = {.counters = &counters,
                                    .zones = zones_utc(),
                                    .lanes = w->coalesces,
                                    .lanes_n = o->lanes,
                                    .client = client,
                                    .ports = {.redis_ms = port_redis_ms}, /* CTR.HIT's day */
                                    .limits = request_limits_default,
                                    .clients_max = 10000,
                                    .multi_max = 10000,
                                    .multi_bytes_max = 1 << 20,
                                    .shares_max = {64 << 20, 64 << 20},
                                    .half_ms = 60000,
                                    .busy_ms = coalesce_config_default.busy_ms};
    if (o->users) {
        users_make(&w->users);
        config.users = &w->users;
    }
    w->command = command_create(&config);
    w->sessions = calloc(o->connections, sizeof *w->sessions);
    w->outlets = calloc(o->connections, sizeof *w->outlets);
    if (w->sessions == NULL || w->outlets == NULL) die("memory");
    for (uint32_t i = 0; i < o->connections; i++) {
        session_open(&w->sessions[i], w->command, NULL, &w->outlets[i], false);
        if (o->users) PRE(guard_enter(&w->sessions[i], &w->users.all[0]));
    }
    for (uint32_t i = 0; i < o->lanes; i++)
        lane_up(&w->lanes[i], w->coalesces[i]);
}

static void world_close(struct world *w, const struct options *o)
{
    for (uint32_t i = 0; i < o->connections; i++) {
        session_close(&w->sessions[i]);
        buf_free(&w->outlets[i].out);
    }
    command_destroy(&w->command);
    users_close(&w->users);
    for (uint32_t i = 0; i < o->lanes; i++)
        coalesce_destroy(&w->coalesces[i]);
    free(w->sessions);
    free(w->outlets);
}

/* --- the stream --- */

static size_t file_read(const char *path, char **bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) die(path);
    size_t n = (size_t)ftell(f);
    rewind(f);
    *bytes = malloc(n);
    if (*bytes == NULL || fread(*bytes, 1, n, f) != n) die(path);
    fclose(f);
    return n;
}

static void stream_read(struct stream *s, const struct options *o)
{
    size_t n = file_read(o->stream, &s->bytes), used = 0;
    struct request request;
    struct parser parser = {0};
    request_init(&request, &request_limits_default);
    s->at = malloc((n / o->pipeline + 2) * sizeof *s->at);
    if (s->at == NULL) die("memory");
    for (uint32_t i = 0; used < n; i++) {
        if (i % o->pipeline == 0) s->at[s->pipelines++] = used;
        if (request_parse(&request, &parser, slice_of(s->bytes + used, n - used)) != PARSED_OK)
            die("no RESP");
        used += request.raw.n;
    }
    request_close(&request);
    if (s->pipelines < 2) die("too short a stream");
    s->pipelines--; /* what follows the last mark may be less than a pipeline */
}

/* --- turns --- */

/* As Redis would: each field is somewhat higher with each frame; each request for a lock gets it. */
static void frame_answer(struct lane *l, struct coalesce *c)
{
    struct frame *f = l->sent;
    if (f == NULL) return; /* no hit of this turn was of this lane */
    l->sent = NULL;
    for (uint32_t i = 0; i < f->cells_n; i++)
        f->cells[i].value = 1000 + (int64_t)f->seq + f->cells[i].delta;
    for (uint32_t i = 0; i < f->hashes_n; i++)
        f->hashes[i].lock_granted = f->hashes[i].ask_lock;
    coalesce_on_frame(c, f, FRAME_APPLIED);
}

static void turn(struct world *w, const struct stream *s, const struct options *o, uint32_t number)
{
    for (uint32_t i = 0; i < o->connections; i++) {
        uint32_t at = (number * o->connections + i) % s->pipelines;
        struct slice in = slice_of(s->bytes + s->at[at], s->at[at + 1] - s->at[at]);
        buf_reset(&w->outlets[i].out);
        PRE(session_bytes(&w->sessions[i], in) == in.n);
    }
    for (uint32_t i = 0; i < o->lanes; i++)
        while (coalesce_turn(w->coalesces[i]))
            continue;
    command_turn(w->command);
    for (uint32_t i = 0; i < o->lanes; i++)
        frame_answer(&w->lanes[i], w->coalesces[i]);
}

static void replies_check(const struct world *w, const struct options *o)
{
    for (uint32_t i = 0; i < o->connections; i++) {
        const struct buf *out = &w->outlets[i].out;
        uint32_t lines = 0;
        for (size_t at = 0; at < out->n; at++)
            lines += out->p[at] == '\n';
        if (lines != o->pipeline || memchr(out->p, '-', out->n) != NULL) die("wrong replies");
    }
}

static struct options options_read(int argc, char **argv)
{
    struct options o = {.connections = 50, .pipeline = 16, .turns = 100, .lanes = 1};
    for (int c; (c = getopt(argc, argv, "c:P:n:L:up")) != -1;) {
        uint32_t n = optarg == NULL ? 0 : (uint32_t)strtoul(optarg, NULL, 10);
        if (c == 'c') o.connections = n;
        if (c == 'P') o.pipeline = n;
        if (c == 'n') o.turns = n;
        if (c == 'L') o.lanes = n;
        if (c == 'u') o.users = true;
        if (c == 'p') o.placeholders = true;
    }
    if (optind + 1 != argc || o.connections < 1 || o.pipeline < 1 || o.turns < 1 || o.lanes < 1 ||
        o.lanes > LANES_MAX) {
        fprintf(stderr,
                "usage: instructions STREAM -c connections -P pipeline -n turns [-L lanes] [-u] [-p]\n");
        exit(64);
    }
    o.stream = argv[optind];
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_read(argc, argv);
    struct stream s = {0};
    struct world w = {0};
    stream_read(&s, &o);
    if (o.placeholders) views_make(&all_counters[1]);
    world_init(&w, &o);
    for (uint32_t i = 0; i < o.turns; i++)
        turn(&w, &s, &o, i);
    replies_check(&w, &o);
    printf("hits=%llu\n", (unsigned long long)o.turns * o.connections * o.pipeline);
    world_close(&w, &o);
    free(s.bytes);
    free(s.at);
    return 0;
}
