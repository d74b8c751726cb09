/* Each crash point of this room ends the process, and Redis holds by then what the name of the point says. */
#include "base/sm.h"
#include "lib/child.h"
#include "lib/frame_cell.h"
#include "lib/redis_world.h"
#include "redis/batch.h"
#include "redis/durable.h"
#include "redis/frame_op.h"

#define KEY "s1:unique_visitors:daily"

struct plan { /* what the child does; the server is the parent's */
    const char *point, *socket;
    struct batch_id id;
};

static void on_frame(void *arg, struct frame *f, enum frame_outcome outcome)
{
    answers++;
}
static void on_claim(void *arg, struct claim *c)
{
    answers++;
}
COUNTS(on_scan, scan)
COUNTS(on_fence, fence)
COUNTS(on_discard, discard)

/* A frame, its claim, scan, fence and discard, one after the other. */
static void whole_way(void *arg)
{
    struct plan *plan = arg;
    struct world *w = world_empty();
    struct redis_frames frames;
    struct redis_fences fences;
    struct aof_watch watch = {0};
    struct redis_scans scans;
    struct frame f = {.seq = 1};
    struct slice key = SLICE(KEY);
    struct claim claim = {.id = plan->id, .counter = &w->all[0], .keys = &key, .keys_n = 1};
    struct batch batch;
    struct scan scan = {.batch = &batch, .counters = &w->counters, .done = on_scan};
    struct fence fence = {.done = on_fence};
    struct discard discard = {.batch = &batch, .done = on_discard};

    setenv("TALLYD_CRASH", plan->point, 1);
    if (!crash_init()) abort();
    if (rmdir(w->server.dir) != 0) abort(); /* the parent's server is asked, and a crash removes nothing */
    w->url.path = (char *)(void *)plan->socket;
    world_link(w, &w->link, "frame");
    redis_frames_init(&frames, &w->link, &w->life);
    frames.on_frame = on_frame;
    frames.on_claim = on_claim;
    redis_scans_init(&scans, &w->link);
    redis_fences_init(&fences, &w->link, &w->life, &watch, 0);
    fences.keeps = REDIS_KEEPS_NOTHING;
    redis_link_start(&w->link);
    WAIT_UNTIL(w, w->ups == 1);
    frame_add_hash(&f, NULL, key)->zadd = true;
    frame_add_cell(&f, 0, SLICE("20140920"), 3);
    ANSWERED(redis_frames_send(&frames, &f));
    ANSWERED(redis_frames_claim(&frames, &claim));
    batch_init(&batch, &plan->id);
    ANSWERED(redis_scan(&scans, &scan));
    ANSWERED(redis_fence(&fences, &fence));
    ANSWERED(redis_discard(&w->link, &discard));
}

/* Waits for it: what the socket took is run by Redis, whether we live or not. */
static void becomes(struct redis_server *s, const char *question, const char *expected)
{
    uint64_t until_ms = mono_ms() + 10000;
    while (strcmp(redis_ask(s, question), expected) != 0)
        if (mono_ms() > until_ms) fail_msg("%s: %s, not %s", question, s->text, expected);
}

UNIT(test_points)
{
    static const struct {
        const char *point, *question, *expected;
    } cases[] = {
        {"frame_before_send", "EXISTS " KEY, "0"},
        {"frame_after_send", "EXISTS " KEY, "1"},
        {"frame_applied", "HGET " KEY " 20140920", "3"},
        {"claim_before_send", "EXISTS " KEY, "1"},
        {"claim_after_send", "EXISTS " KEY, "0"},
        {"claim_done", "ZCARD tally:batches", "1"},
        {"scan_mid", "ZCARD tally:batches", "1"},
        {"scan_done", "ZCARD tally:batches", "1"},
        {"fence_mid", "ZCARD tally:batches", "1"},
        {"fence_done", "ZCARD tally:batches", "1"},
        {"discard_before_send", "ZCARD tally:batches", "1"},
        {"discard_after_send", "ZCARD tally:batches", "0"},
        {"discard_done", "ZCARD tally:batches", "0"},
    };
    struct redis_server *s = calloc(1, sizeof *s);
    redis_server_start(s);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plan plan = {.point = cases[i].point, .socket = s->socket};
        redis_ask(s, "FLUSHALL");
        batch_id_draw(&plan.id);
        struct child_end end = child_run(whole_way, &plan);
        if (!child_was_killed(&end, SIGKILL)) fail_msg("%s: %s", cases[i].point, end.stderr_);
        becomes(s, cases[i].question, cases[i].expected);
    }
    redis_server_stop(s);
    free(s);
}
