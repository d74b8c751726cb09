/* fuzz_session.c - a client's bytes through command/ and coalesce/, with a Redis that answers all the same. The same bytes
 * whole, in small pieces, and in others without the short way of a hit (so without looking up 16 ahead) say the same to the
 * client and send the same frames, with one lane and with three. Inputs of odd length meet coalesces with hardly any room,
 * so that sessions are parked. Lanes at times of their own are fuzz_lanes.c's.
 *
 * The linker's --wrap stops the clock and takes the short way out. */
#include "fuzz.h"
#include "kept_command.h"
#include "lib/fake_client.h"
#include "lib/frame_cell.h"
#include "wire.h"

#include "base/clock.h"
#include "base/stats.h"
#include "protocol/reply.h"
#include "protocol/request.h"

#include <time.h>

#define NOW_S INT64_C(1411200000)
#define ROUNDS_MAX 10000
#define LANES 3
#define PIECES_GROW SIZE_MAX
#define RUN_ID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static bool without_short_way;

size_t __real_request_hit(struct slice in, struct hit_bytes *h);
size_t __wrap_request_hit(struct slice in, struct hit_bytes *h);
size_t __real_request_today(struct slice in, struct hit_bytes *h);
size_t __wrap_request_today(struct slice in, struct hit_bytes *h);
int __wrap_clock_gettime(clockid_t which, struct timespec *out);

size_t __wrap_request_hit(struct slice in, struct hit_bytes *h)
{
    return without_short_way ? 0 : __real_request_hit(in, h);
}

size_t __wrap_request_today(struct slice in, struct hit_bytes *h)
{
    return without_short_way ? 0 : __real_request_today(in, h);
}

int __wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    (void)which;
    *out = (struct timespec){.tv_sec = NOW_S};
    return 0;
}

static struct counter counters_all[] = {
    {.name = {"visitors", 8},
     .key = {{"s", 1}, {":v", 2}, true, NULL},
     .lock = {{"s", 1}, {":sync", 5}, true, NULL},
     .field = FIELD_DATE,
     .hits = 3,
     .every_s = 60},
    {.name = {"views", 5},
     .key = {{"p", 1}, {"", 0}, true, NULL},
     .lock = {{"lock:", 5}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = INT64_MAX,
     .every_s = 10,
     .feeds = {[FEED_SERIES] = {{"x", 1}, {"", 0}, true, NULL},
               [FEED_EVENT] = {{"x", 1}, {":hit", 4}, true, NULL}}},
};
static const struct op_limits limits = {.precisions = {1, 60},
                                        .precisions_n = 2,
                                        .samples = 100,
                                        .timebox_width_s = 60,
                                        .timebox_keep = 4,
                                        .uniq_limit = 1000,
                                        .uniq_name = {{"v", 1}, {"", 0}, true, NULL},
                                        .uniq_counter = &counters_all[0],
                                        .events_keep_s = INT64_C(1) << 40,
                                        .ahead_s = 60,
                                        .read = {.most = 100000, .days = 366, .texts_max = 16 << 20}};
static const struct counters counters = {.all = counters_all, .n = 2, .ops = &limits};

/* One run: a client, what went to Redis as text, and what Redis has. */
struct world {
    struct conn conn;
    struct command *command;
    struct buf frames;
    struct coalesce *lanes[LANES];
    struct frame *sent[LANES]; /* not answered */
    uint32_t lanes_n;
    int64_t sum;    /* of all deltas */
    int64_t ticker; /* of all events: numbers are above 0 */
};

static struct world *world;

/* ---- what takes time is answered at once ---- */

static void port_pending(void *arg, uint32_t lane, struct pending_request *r)
{
    (void)lane;
    (void)arg;
    r->outcome = ASK_TRY_AGAIN;
    r->done(r);
}
static void port_sync(void *arg, uint32_t lane, struct sync_request *r)
{
    (void)lane;
    (void)arg;
    r->outcome = ASK_DONE;
    r->rows = 77;
    r->done(r);
}
static void port_recover(void *arg, uint32_t lane, struct recover_request *r)
{
    (void)lane;
    (void)arg;
    r->outcome = ASK_REDIS_DOWN;
    r->done(r);
}
static void port_total(void *arg, uint32_t lane, struct total_request *r)
{
    (void)lane;
    static const int64_t none[TOTAL_FIELDS_ASKED_MAX];
    (void)arg;
    r->outcome = ASK_DONE;
    r->totals = none;
    r->done(r);
}
static void port_wait(void *arg, uint32_t lane, struct wait_request *r)
{
    (void)lane;
    (void)arg;
    r->outcome = ASK_DONE; /* as many as were asked for */
    r->done(r);
}
static void port_read(void *arg, uint32_t lane, struct read_request *r)
{
    (void)lane;
    (void)arg;
    r->outcome = ASK_HELD;
    r->done(r);
}
/* ---- the link of coalesce; arg: the lane's place in world->lanes ---- */

static void port_frame(void *arg, struct frame *f)
{
    struct frame **sent = &world->sent[(struct coalesce **)arg - world->lanes];
    MUST(*sent == NULL);
    *sent = f;
}
static void port_due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    (void)arg;
    buf_printf(&world->frames, "due " SLICE_FMT " " SLICE_FMT " %d\n", SLICE_ARG(c->name), SLICE_ARG(key),
               why);
}
static struct session *session_at(struct outlet *o)
{
    return &CONTAINER_OF(command_outlet(world->command, o), struct conn, outlet)->session;
}
static void port_answered(void *arg, struct outlet *o)
{
    (void)arg;
    session_answered(session_at(o));
}
static void port_room(void *arg, struct outlet *o)
{
    (void)arg;
    session_room(session_at(o));
}
/* ---- Redis ---- */

static void put_text(struct buf *out, struct slice s)
{
    buf_put_char(out, ' ');
    buf_put_slice(out, s);
}

static void frame_said(struct buf *out, const struct frame *f)
{
    buf_printf(out, "frame of %u cells\n", f->cells_n);
    for (uint32_t i = 0; i < f->cells_n; i++) {
        const struct frame_cell *c = &f->cells[i];
        struct buf raw = {0};
        frame_raw_put(&raw, f->hashes[c->hash].key, FRAME_FIELD(f, c));
        MUST(slice_eq(buf_slice(&raw), FRAME_RAW(f, c)));
        buf_free(&raw);
        put_text(out, FRAME_RAW(f, c));
        buf_printf(out, " by %lld of %u\n", (long long)c->delta, c->hits);
    }
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        put_text(out, f->hashes[i].key);
        buf_printf(out, " zadd %d lock %d owed %d\n", f->hashes[i].zadd, f->hashes[i].ask_lock,
                   f->hashes[i].owed);
    }
    for (uint32_t i = 0; i < f->ops_n; i++) {
        const struct frame_op *op = &f->ops[i];
        buf_printf(out, "op %d at %lld by %lld items %u", op->kind, (long long)op->which,
                   (long long)op->delta, op->items_n);
        put_text(out, FRAME_NAME(f, op));
        put_text(out, FRAME_TYPE(f, op));
        for (uint32_t k = op->first_item; k != OP_END && op->items_n > 0; k = f->items[k].next) {
            buf_printf(out, " %lld", (long long)f->items[k].at);
            put_text(out, FRAME_TEXT(f, f->items[k].text_at, f->items[k].text_n));
        }
        buf_put_char(out, '\n');
    }
    for (uint32_t i = 0; i < f->appends_n; i++)
        put_text(out, slice_of(f->records.p + f->appends[i].bytes_at, f->appends[i].bytes_n));
}

static void op_answer(struct world *w, struct frame *f, struct frame_op *op)
{
    op->fresh = op->late = false;
    op->error_n = 0;
    op->value = w->sum += op->delta % 1000;
    bool draws = op->kind == OP_EVENT && !op_is_given(op);
    for (uint32_t k = op->first_item; k != OP_END && op->items_n > 0; k = f->items[k].next) {
        if (op->kind == OP_UNIQ) f->items[k].value = k & 1;
        if (draws) f->items[k].value = ++w->ticker;
    }
    if (draws) op->value = w->ticker += op->lease_n;
}

static void frame_answer(struct world *w, uint32_t lane)
{
    struct frame *f = w->sent[lane];
    w->sent[lane] = NULL;
    frame_said(&w->frames, f);
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->cells_n; i++) {
        f->cells[i].error_n = 0;
        f->cells[i].value = w->sum += f->cells[i].delta % 1000;
    }
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        f->hashes[i].fresh = false;
        f->hashes[i].lock_granted = (i & 1) != 0;
        f->hashes[i].lock_pttl_ms = 60000;
    }
    for (uint32_t i = 0; i < f->ops_n; i++)
        op_answer(w, f, &f->ops[i]);
    f->events_gone = 0;
    coalesce_on_frame(w->lanes[lane], f, FRAME_APPLIED);
}

/* ---- one run ---- */

static void lane_make(struct coalesce **lane, bool narrow)
{
    static const bool none[1];
    struct coalesce_config config = coalesce_config_default;
    config.gather_turns = 0;
    config.series_max = 64;
    config.entries_max = 256;
    config.cells_max = 256;
    if (narrow) {
        config.cells_max = 24;
        config.at_once_cells = 4;
        config.answers_max = 24;
        config.bytes_max = 8192;
        config.journal_least = 2;
    }
    struct coalesce_ports ports = wire_ports;
    ports.arg = lane;
    ports.send_frame = port_frame;
    ports.due = port_due;
    ports.answered = port_answered;
    ports.room = port_room;
    *lane = coalesce_create(&ports, &counters, &config);
    coalesce_up(*lane, RUN_ID, 7);
    coalesce_on_look(*lane, -1, none, none);
}

static struct command *command_make(const struct world *w)
{
    const struct command_config config = {
        .lanes = w->lanes,
        .lanes_n = w->lanes_n,
        .client = fake_client_ports,
        .counters = &counters,
        .zones = zones_utc(),
        .ports = {.pending = port_pending,
                  .sync = port_sync,
                  .recover = port_recover,
                  .total = port_total,
                  .read = port_read,
                  .wait = port_wait,
                  .redis_ms = wire_redis_ms},
        .limits = request_limits_default,
        .clients_max = 100,
        .multi_max = 10,
        .multi_bytes_max = 1 << 20,
        .shares_max = {64 << 20, 64 << 20},
        .half_ms = 60000,
        .busy_ms = 5000,
    };
    return command_again(&config);
}

/* A turn of the loop; false: no lane had a frame. */
static bool turn(struct world *w)
{
    bool answered = false;
    for (uint32_t i = 0; i < w->lanes_n; i++)
        coalesce_turn(w->lanes[i]);
    for (uint32_t i = w->lanes_n; i-- > 0;) {
        if (w->sent[i] == NULL) continue;
        frame_answer(w, i);
        answered = true;
    }
    return answered;
}

/* Turns of the loop until nothing moves. */
static void settle(struct world *w)
{
    struct conn *c = &w->conn;
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        size_t kept = c->kept.n, out = c->outlet.out.n;
        conn_flush(c);
        conn_take(c);
        if (!turn(w) && c->kept.n == kept && out == 0 && c->outlet.out.n == 0) return;
    }
    UNREACHABLE(); /* it never comes to rest */
}

/* Pieces of `step` bytes, 0: whole, PIECES_GROW: of one byte at first, and longer and longer ones. */
static void conn_sends(struct conn *c, struct slice in, size_t step)
{
    for (size_t at = 0, n; at < in.n && !c->finished && !c->dropped; at += n) {
        n = step == 0 ? in.n : step == PIECES_GROW ? 1 + at / 64 : step;
        if (n > in.n - at) n = in.n - at;
        buf_put(&c->kept, in.p + at, n);
        conn_take(c);
    }
}

static void run(struct world *w, struct slice in, size_t step, uint32_t lanes)
{
    wire = (struct wire){.mono_ms = 1000000, .redis_ms = NOW_S * 1000};
    *w = (struct world){.lanes_n = lanes};
    world = w;
    stats = (struct stats){0};
    list_init(&w->conn.outlet.touched);
    list_init(&w->conn.outlet.parked);
    for (uint32_t i = 0; i < lanes; i++)
        lane_make(&w->lanes[i], in.n % 2 == 1);
    w->command = command_make(w);
    session_open(&w->conn.session, w->command, &w->conn, &w->conn.outlet, false);
    conn_sends(&w->conn, in, step);
    settle(w);
    MUST(w->conn.outlet.waiting == 0 && list_empty(&w->conn.outlet.parked));
    on_drop(&w->conn);
    MUST(w->conn.session.order == NULL);
    command_rest(w->command);
    for (uint32_t i = 0; i < lanes; i++)
        coalesce_destroy(&w->lanes[i]);
}

static void same(struct world *other, const struct world *whole)
{
    MUST(other->conn.finished == whole->conn.finished && other->conn.dropped == whole->conn.dropped);
    MUST(slice_eq(buf_slice(&other->conn.said), buf_slice(&whole->conn.said)));
    MUST(slice_eq(buf_slice(&other->frames), buf_slice(&whole->frames)));
}

static void world_free(struct world *w)
{
    fake_client_close(&w->conn);
    buf_free(&w->frames);
}

static void run_each_way(struct slice in, uint32_t lanes)
{
    static const struct {
        size_t step;
        bool without_short_way;
    } ways[] = {{PIECES_GROW, false}, {13, true}};
    struct world whole, other;
    without_short_way = false;
    run(&whole, in, 0, lanes);
    for (size_t i = lanes > 1; i < sizeof ways / sizeof ways[0]; i++) { /* half the time */
        without_short_way = ways[i].without_short_way;
        run(&other, in, ways[i].step, lanes);
        same(&other, &whole);
        world_free(&other);
    }
    world_free(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    run_each_way(in, 1);
    run_each_way(in, LANES);
    return 0;
}
