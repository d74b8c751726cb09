/* lib/lane_redis.h - several lanes: a real coalesce each, with a small Redis of its own, whose link is cut, blocks and comes
 * back whatever the others do. Whoever includes it has draw(), which decides what a lane does where it has a choice.
 * Each hit has a field, each event an id, of its own: its number in hits[], from 1 on. */
#ifndef LIB_LANE_REDIS_H
#define LIB_LANE_REDIS_H

#include "base/log.h"
#include "base/slice.h"
#include "coalesce/coalesce.h"
#include "series/moved.h"
#include "series/names.h"

#include <string.h>

#define LANES_MOST 8
#define FRAMES 4
#define HITS_MAX 4096
#define EVENT_ID_BYTES 256
#define RUN_ID "0123456789012345678901234567890123456789"
#define AWAY "MASTERDOWN sim: the link was cut"

#define HOLDS(e) CHECK_("promise", e, #e)

static uint64_t draw(uint64_t n); /* 0 to n - 1; n is at most 65,536 */

enum told { TOLD_NOTHING, TOLD_COUNTED, TOLD_REFUSED, TOLD_UNKNOWN };

struct hit {
    uint32_t runs; /* how often Redis has it */
    uint32_t lane;
    enum told told;
    bool dropped; /* nobody waits for its answer */
    bool is_event;
};

struct lane {
    struct coalesce *coalesce;
    struct frame *sent[FRAMES];  /* in order, not answered */
    uint32_t sent_n, ran_n;      /* how many of them, from the first, were run */
    struct frame *values;        /* asked for */
    int64_t seq, client, ticker; /* ticker: of its log */
    bool up, held, kills, looks; /* held: its Redis stands still */
    bool waits;                  /* coalesce_hold() */
};

static struct lane lanes[LANES_MOST];
static uint32_t lanes_n = 2;
static struct hit hits[HITS_MAX];
static uint32_t hits_n;
static uint64_t now_ms;

/* Nobody counts the second; its feed says which lane a store's events are in. */
static struct counter counters_all[] = {
    {.name = {"views", 5},
     .field = FIELD_INTEGER,
     .key = {{"s", 1}, {":views", 6}, true, NULL},
     .lock = {{"s", 1}, {":views:sync", 11}, true, NULL},
     .hits = 1000000,
     .every_s = 60},
    {.name = {"logs", 4},
     .field = FIELD_INTEGER,
     .key = {{"s", 1}, {":logs", 5}, true, NULL},
     .lock = {{"s", 1}, {":logs:sync", 10}, true, NULL},
     .hits = 1000000,
     .every_s = 60,
     .feeds = {[FEED_EVENT] = {{"s", 1}, {":log:t", 6}, true, NULL}}},
};
static const struct op_limits limits = {
    .precisions = {60}, .precisions_n = 1, .samples = 120, .timebox_width_s = 60, .timebox_keep = 4};
static const struct counters counters = {.all = counters_all, .n = 2, .ops = &limits};
static const struct life life = {.instance = {"sim", 3}, .id = "0123456789abcdef"};

/* ---- a lane's Redis ---- */

static uint32_t hit_of_number(struct slice text)
{
    int64_t number = 0;
    HOLDS(num_parse(text, &number) && number > 0 && number <= hits_n);
    return (uint32_t)number - 1;
}

static uint32_t hit_of(const struct frame *f, const struct frame_cell *c)
{
    return hit_of_number(FRAME_FIELD(f, c));
}

/* e<number>, and some dots: ids are of many lengths. */
static struct slice event_id(uint32_t number, char out[EVENT_ID_BYTES])
{
    int n = snprintf(out, EVENT_ID_BYTES, "e%u%.*s", number, (int)(number % 8) * 8,
                     "................................................................");
    return slice_of(out, (size_t)n);
}

static uint32_t hit_of_event(struct slice id)
{
    const char *dot = memchr(id.p, '.', id.n);
    HOLDS(id.n > 1 && id.p[0] == 'e');
    return hit_of_number(slice_of(id.p + 1, (dot == NULL ? id.n : (size_t)(dot - id.p)) - 1));
}

static void hit_runs(const struct lane *l, uint32_t hit, bool is_event)
{
    HOLDS(hits[hit].lane == (uint32_t)(l - lanes) && hits[hit].is_event == is_event);
    hits[hit].runs++;
}

static void frame_runs(struct lane *l, struct frame *f)
{
    for (uint32_t i = 0; i < f->cells_n; i++)
        hit_runs(l, hit_of(f, &f->cells[i]), false);
    for (uint32_t i = 0; i < f->ops_n; i++)
        for (uint32_t k = f->ops[i].first_item; f->ops[i].items_n > 0 && k != OP_END; k = f->items[k].next)
            hit_runs(l, hit_of_event(FRAME_TEXT(f, f->items[k].text_at, f->items[k].text_n)), true);
    l->seq = (int64_t)f->seq;
}

/* Each field belongs to one hit, whose n is its number; each event has an id of its client's, so numbers are only drawn
 * for leases. */
static void frame_files(struct lane *l, struct frame *f)
{
    buf_reset(&f->errors);
    f->events_gone = 0;
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_cell *c = &f->cells[i];
        c->error_n = 0;
        c->value = hits[hit_of(f, c)].runs * (int64_t)(hit_of(f, c) + 1);
    }
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        f->hashes[i].fresh = f->hashes[i].lock_granted = false;
        f->hashes[i].lock_pttl_ms = 60000;
    }
    for (uint32_t i = 0; i < f->ops_n; i++) {
        f->ops[i].fresh = f->ops[i].late = false;
        f->ops[i].error_n = 0;
        f->ops[i].value = l->ticker += f->ops[i].lease_n;
    }
}

static void lane_runs(struct lane *l)
{
    if (l->held || l->ran_n == l->sent_n) return;
    frame_runs(l, l->sent[l->ran_n++]);
}

static struct frame *frame_shift(struct lane *l)
{
    struct frame *f = l->sent[0];
    l->sent_n--;
    memmove(l->sent, l->sent + 1, l->sent_n * sizeof l->sent[0]);
    return f;
}

static void lane_refuses(struct lane *l)
{
    if (l->held || l->sent_n == 0 || l->ran_n > 0) return;
    struct frame *f = frame_shift(l);
    buf_reset(&f->errors);
    BUF_LIT(&f->errors, "OOM command not allowed when used memory > 'maxmemory'.");
    coalesce_on_frame(l->coalesce, f, FRAME_REFUSED);
}

static void lane_answers(struct lane *l)
{
    if (l->held || l->ran_n == 0) return;
    struct frame *f = frame_shift(l);
    l->ran_n--;
    frame_files(l, f);
    coalesce_on_frame(l->coalesce, f, FRAME_APPLIED);
}

static void lane_values(struct lane *l)
{
    struct frame *f = l->values;
    if (l->held || f == NULL) return;
    l->values = NULL;
    frame_files(l, f);
    coalesce_on_values(l->coalesce, f);
}

/* Some of what was sent may have run all the same. */
static void lane_cut(struct lane *l)
{
    if (!l->up) return;
    for (uint64_t runs = draw(l->sent_n - l->ran_n + 1); runs > 0; runs--)
        frame_runs(l, l->sent[l->ran_n++]);
    l->sent_n = l->ran_n = 0;
    l->values = NULL;
    l->up = l->kills = l->looks = false;
    coalesce_cut(l->coalesce, AWAY);
}

/* Its slot is moving to another node of the cluster: the frame does not run, and its link ends. */
static void lane_strays(struct lane *l)
{
    if (l->held || l->sent_n == 0 || l->ran_n > 0) return;
    coalesce_on_frame(l->coalesce, frame_shift(l), FRAME_ASTRAY);
    lane_cut(l);
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

static void lane_waits(struct lane *l, bool waits)
{
    if (l->waits == waits) return;
    l->waits = waits;
    coalesce_hold(l->coalesce, waits);
}

/* All that a Redis does when nothing holds it. */
static void lane_goes_on(struct lane *l)
{
    lane_values(l);
    lane_runs(l);
    lane_answers(l);
}

/* One thing that may happen to a lane at any time. */
static void lane_step(struct lane *l)
{
    uint64_t what = draw(16);
    if (what == 0) lane_cut(l);
    if (what >= 1 && what <= 3) lane_up(l);
    if (what == 4) l->held = draw(5) < 3;
    if (what == 5) lane_refuses(l);
    if (what == 6) lane_values(l);
    if (what == 7) lane_strays(l);
    if (what == 8) lane_waits(l, draw(3) == 0);
    if (what >= 9 && what <= 11) lane_runs(l);
    if (what >= 12) lane_answers(l);
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
static void lane_open(struct lane *l, void (*answered)(void *, struct outlet *),
                      void (*room)(void *, struct outlet *))
{
    *l = (struct lane){.seq = -1};
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
                                         .answered = answered,
                                         .room = room,
                                         .mono_ms = port_mono_ms,
                                         .mono_us = port_mono_ms,
                                         .redis_ms = port_redis_ms};
    struct coalesce_config config = coalesce_config_default;
    config.cells_max = 8 + (uint32_t)draw(40);
    config.answers_max = 2 * config.cells_max;
    config.at_once_cells = 4;
    config.gather_turns = (uint32_t)draw(3);
    config.entries_max = 4;
    config.series_max = 64;
    config.replay_bytes = 0;
    l->coalesce = coalesce_create(&ports, &counters, &config);
}

#endif
