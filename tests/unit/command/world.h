/* world.h - a session's surroundings for its tests: clients, a coalesce and ports that answer when the test lets them.
 * Header only: each test is one program. */
#ifndef COMMAND_WORLD_H
#define COMMAND_WORLD_H

#include "lib/unit.h"

#include "lib/fake_coalesce.h"
#include "lib/zones.h"

#include <stdio.h>

#ifndef LANES
#define LANES 1
#endif
static struct coalesce fakes[LANES], *fake_lanes[LANES];
#define fake fakes[0]
static struct command *command;
static int64_t world_now_s;       /* Redis' clock */
static struct users *world_users; /* set before world_open(): there are users; with a prover */
static struct prover *world_prover;
static unsigned paces; /* how often a client began to wait for room */
static struct pending_request *pending_out;
static struct total_request *total_out;
static struct read_request *read_out;
static struct sync_request *sync_out, *sync_outs[LANES]; /* the last one asked; of each lane */
static struct recover_request *recover_out, *recover_outs[LANES];
static struct wait_request *wait_out, *wait_outs[LANES];
static struct read_request *read_outs[LANES];
static uint32_t asked_lane; /* last */
static bool answer_inside;  /* CTR.SYNC is answered from inside the call */

static void port_pending(void *arg, uint32_t lane, struct pending_request *r)
{
    asked_lane = lane;
    pending_out = r;
}

static void port_total(void *arg, uint32_t lane, struct total_request *r)
{
    asked_lane = lane;
    total_out = r;
}

static void port_sync(void *arg, uint32_t lane, struct sync_request *r)
{
    asked_lane = lane;
    sync_outs[lane] = r;
    sync_out = r;
    if (!answer_inside) return;
    sync_out = NULL;
    r->rows = 77;
    r->done(r);
}

static void port_recover(void *arg, uint32_t lane, struct recover_request *r)
{
    asked_lane = lane;
    recover_outs[lane] = r;
    recover_out = r;
}

static void port_wait(void *arg, uint32_t lane, struct wait_request *r)
{
    asked_lane = lane;
    wait_outs[lane] = r;
    wait_out = r;
}

static void port_read(void *arg, uint32_t lane, struct read_request *r)
{
    asked_lane = lane;
    read_outs[lane] = r;
    read_out = r;
}

static void port_pace(void *arg)
{
    paces++;
}

static int64_t port_redis_ms(void *arg)
{
    return world_now_s * 1000 + 999;
}

static void port_info(void *arg, const struct info_asked *asked, struct buf *out)
{
    if (info_begins(asked, "World", out)) BUF_LIT(out, "round:1\r\n");
}

static void world_open(void)
{
    for (uint32_t i = 0; i < LANES; i++) {
        fakes[i] = (struct coalesce){.room = ANSWERS_MAX};
        fake_lanes[i] = &fakes[i];
        wait_outs[i] = NULL;
    }
    world_now_s = NOW_S;
    limits.events_keep_s = NOW_S;
    read_out = NULL;
    total_out = NULL;
    wait_out = NULL;
    answer_inside = false;
    const struct command_config config = {
        .lanes = fake_lanes,
        .lanes_n = LANES,
        .client = fake_client_ports,
        .counters = &counters,
        .zones = zones_utc(),
        .ports = {.pending = port_pending,
                  .sync = port_sync,
                  .recover = port_recover,
                  .info = port_info,
                  .total = port_total,
                  .read = port_read,
                  .wait = port_wait,
                  .redis_ms = port_redis_ms,
                  .pace = port_pace},
        .users = world_users,
        .prover = world_prover,
        .stranger_ms = 10000,
        .limits = request_limits_default,
        .clients_max = 100,
        .multi_max = 2000,
        .multi_bytes_max = 200000,
        .shares_max = {64 << 20, 64 << 20},
        .lasts_max = 20000,
        .half_ms = 60000,
        .busy_ms = 5000,
    };
    command = command_create(&config);
    fake_command = command;
}

static void world_close(void)
{
    command_destroy(&command);
    for (uint32_t i = 0; i < LANES; i++)
        fake_forget(&fakes[i]);
}

static struct conn *conn_open(void)
{
    struct conn *c = heap_zalloc(sizeof(*c));
    session_open(&c->session, command, c, &c->outlet, false);
    return c;
}

static inline struct conn *conn_open_inside(void)
{
    struct conn *c = heap_zalloc(sizeof(*c));
    session_open(&c->session, command, c, &c->outlet, true);
    return c;
}

static void conn_close(struct conn *c)
{
    fake_client_close(c);
    heap_free(c);
}

/* ---- most tests: one world, one client ---- */

static struct conn *client;

static inline int open_world(void **state)
{
    world_open();
    client = conn_open();
    return 0;
}

static inline int close_world(void **state)
{
    conn_close(client);
    world_close();
    return 0;
}

#define TEST(f) UNIT_IN(f, open_world, close_world)

#define HIT(n) "HINCRBY s1:views 7 " #n "\r\n"

static void say_slice(struct conn *c, struct slice bytes)
{
    buf_put_slice(&c->kept, bytes);
    conn_take(c);
    conn_flush(c);
}

#define say(c, text) say_slice(c, SLICE(text))

static inline void answers_come(uint32_t upto)
{
    fake_answers(&fake, upto);
}

static inline void frame_answered(void)
{
    fake_answers(&fake, fake.n);
}

static inline void frame_has_room(uint32_t room)
{
    fake_room(&fake, room);
}

/* The text that the client was sent since the last call. */
#define heard(c, text)                                                                                       \
    do {                                                                                                     \
        buf_put_char(&(c)->said, '\0');                                                                      \
        assert_string_equal((c)->said.p, text);                                                              \
        buf_reset(&(c)->said);                                                                               \
    } while (0)

/* The client says this, and hears that at once; ... and what it hears when the frame is answered. */
#define talk(c, text, answer)                                                                                \
    do {                                                                                                     \
        say(c, text);                                                                                        \
        heard(c, answer);                                                                                    \
    } while (0)
#define frame_heard(c, answer)                                                                               \
    do {                                                                                                     \
        frame_answered();                                                                                    \
        heard(c, answer);                                                                                    \
    } while (0)

#endif
