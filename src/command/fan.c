/* command/fan.c - requests to several lanes: all lanes are asked at once, and their answers become one. If lanes fail,
 * the client gets the failure of the first of them, but any UNBLOCKED before all others. The other lanes have done their
 * part all the same; where that is more than a look, the reply says what it was. */
#include "base/heap.h"
#include "command/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fan_part {
    struct fan *fan;
    uint32_t lane;
    union {
        struct sync_request sync;
        struct recover_request recover;
        struct wait_request wait;
        struct read_request read;
    } ask;
};

struct fan {
    struct session *session;
    void (*over)(struct fan *f); /* all have answered: the session's own request is done */
    uint32_t asked, left;
    uint32_t failed, failed_n; /* the lane whose refusal is told, UINT32_MAX: none; how many refused */
    enum ask_outcome outcome;
    struct buf text;
    struct query_answer names;
    struct buf lines; /* "kind name\0" each */
    size_t lines_n;
    struct fan_part parts[]; /* of those asked */
};

static struct fan *fan_open(struct session *s, void (*over)(struct fan *f),
                            bool (*asks)(const struct session *s, uint32_t lane))
{
    uint32_t lanes = s->command->config.lanes_n;
    struct fan *f = heap_zalloc(sizeof *f + lanes * sizeof f->parts[0]);
    *f = (struct fan){.session = s, .over = over, .failed = UINT32_MAX};
    for (uint32_t i = 0; i < lanes; i++)
        if (asks == NULL || asks(s, i)) f->parts[f->asked++] = (struct fan_part){.fan = f, .lane = i};
    f->left = f->asked;
    return f;
}

static bool part_is_told(const struct fan_part *p, enum ask_outcome outcome)
{
    bool unblocked = outcome == ASK_UNBLOCKED, told = p->fan->outcome == ASK_UNBLOCKED;
    return outcome != ASK_DONE && (unblocked != told ? unblocked : p->lane < p->fan->failed);
}

/* text is read now: it is the lane's. */
static void part_over(struct fan_part *p, enum ask_outcome outcome, const char *text)
{
    struct fan *f = p->fan;
    f->failed_n += outcome != ASK_DONE;
    if (part_is_told(p, outcome)) {
        f->failed = p->lane;
        f->outcome = outcome;
        buf_reset(&f->text);
        if (outcome == ASK_FAILED || outcome == ASK_UNBLOCKED) buf_printf(&f->text, "%s%c", text, '\0');
    }
    if (--f->left > 0) return;
    if (f->failed != UINT32_MAX) f->session->lane = f->failed;
    f->over(f);
    buf_free(&f->text);
    buf_free(&f->lines);
    query_answer_free(&f->names);
    heap_free(f);
}

#define EACH_PART(p, f) /* f may be gone after the last */                                                   \
    for (struct fan_part *p = (f)->parts, *p##_end = p + (f)->asked; p < p##_end; p++)

/* The refusal as it is told: with its lane, and with what the other lanes did. */
static void fan_refuse(struct fan *f, struct slice others)
{
    if (f->failed_n == 0) return;
    struct buf text = {0};
    buf_printf(&text, "%s (lane %u", ask_refusal(f->session, f->outcome, f->text.p), f->failed);
    if (f->failed_n > 1) buf_printf(&text, " and %u more", f->failed_n - 1);
    buf_printf(&text, " of %u", f->asked);
    if (f->failed_n < f->asked) {
        BUF_LIT(&text, "; the other lanes: ");
        buf_put_slice(&text, others);
    }
    buf_printf(&text, ")%c", '\0');
    buf_free(&f->text);
    f->text = text;
    f->outcome = ASK_FAILED;
}

/* ---- CTR.SYNC ALL: rows summed ---- */

static void sync_over(struct fan *f)
{
    struct sync_request *all = &f->session->ask.sync;
    char merged[48];
    int n = snprintf(merged, sizeof merged, "%lld rows merged", (long long)all->rows);
    fan_refuse(f, slice_of(merged, (size_t)n));
    all->outcome = f->outcome;
    all->text = f->text.p;
    all->done(all);
}

static void sync_part_done(struct sync_request *y)
{
    struct fan_part *p = CONTAINER_OF(y, struct fan_part, ask.sync);
    if (y->outcome == ASK_DONE) p->fan->session->ask.sync.rows += y->rows;
    part_over(p, y->outcome, y->text);
}

void fan_sync(struct session *s)
{
    const struct command_ports *ports = &s->command->config.ports;
    struct fan *f = fan_open(s, sync_over, NULL);
    EACH_PART(p, f)
    {
        p->ask.sync = (struct sync_request){.key = s->ask.sync.key, .done = sync_part_done};
        ports->sync(ports->arg, p->lane, &p->ask.sync);
    }
}

/* ---- CTR.RECOVER: numbers summed, lines lane after lane ---- */

static void recover_over(struct fan *f)
{
    struct recover_request *all = &f->session->ask.recover;
    char done[120];
    int n =
        all->dry_run
            ? snprintf(done, sizeof done, "%zu findings", f->lines_n)
            : snprintf(done, sizeof done, "%lld batches taken over, %lld rows merged, %lld merged before",
                       (long long)all->adopted, (long long)all->rows_merged, (long long)all->rows_already);
    fan_refuse(f, slice_of(done, (size_t)n));
    struct slice *lines = heap_alloc((f->lines_n + 1) * sizeof *lines);
    const char *at = f->lines.p;
    for (size_t i = 0; i < f->lines_n; i++, at += lines[i - 1].n + 1)
        lines[i] = slice_str(at);
    all->lines = lines;
    all->lines_n = f->lines_n;
    all->outcome = f->outcome;
    all->text = f->text.p;
    all->done(all);
    heap_free(lines);
}

static void recover_part_done(struct recover_request *v)
{
    struct fan_part *p = CONTAINER_OF(v, struct fan_part, ask.recover);
    struct recover_request *all = &p->fan->session->ask.recover;
    bool done = v->outcome == ASK_DONE;
    for (size_t i = 0; i < v->lines_n && done; i++) {
        buf_put_slice(&p->fan->lines, v->lines[i]);
        buf_put_char(&p->fan->lines, '\0');
        p->fan->lines_n++;
    }
    all->adopted += done ? v->adopted : 0;
    all->rows_merged += done ? v->rows_merged : 0;
    all->rows_already += done ? v->rows_already : 0;
    part_over(p, v->outcome, v->text);
}

void fan_recover(struct session *s)
{
    const struct command_ports *ports = &s->command->config.ports;
    struct fan *f = fan_open(s, recover_over, NULL);
    EACH_PART(p, f)
    {
        p->ask.recover =
            (struct recover_request){.dry_run = s->ask.recover.dry_run, .done = recover_part_done};
        ports->recover(ports->arg, p->lane, &p->ask.recover);
    }
}

/* ---- WAIT, WAITAOF: the lanes that have hits of this connection, or all; the fewest replicas of any ---- */

static bool lane_used(const struct session *s, uint32_t lane)
{
    return s->order->ways[lane].outlet.given > 0;
}

static void wait_over(struct fan *f)
{
    struct wait_request *all = &f->session->ask.wait;
    for (uint32_t i = 0; i < f->asked; i++) {
        const struct wait_request *q = &f->parts[i].ask.wait;
        if (i == 0 || q->local < all->local) all->local = q->local;
        if (i == 0 || q->replicas < all->replicas) all->replicas = q->replicas;
    }
    all->outcome = f->outcome;
    all->text = f->text.p;
    all->done(all);
}

static void wait_part_done(struct wait_request *q)
{
    part_over(CONTAINER_OF(q, struct fan_part, ask.wait), q->outcome, q->text);
}

/* Once a lane has refused, what the others count is not told. */
static bool wait_part_left(struct wait_request *q)
{
    const struct fan *f = CONTAINER_OF(q, struct fan_part, ask.wait)->fan;
    struct wait_request *all = &f->session->ask.wait;
    return f->failed_n > 0 || all->left(all);
}

void fan_wait(struct session *s)
{
    const struct command_ports *ports = &s->command->config.ports;
    bool any_used = false;
    for (uint32_t i = 0; s->order != NULL && i < s->order->lanes; i++)
        any_used = any_used || lane_used(s, i);
    struct fan *f = fan_open(s, wait_over, any_used ? lane_used : NULL);
    struct wait_request asked = s->ask.wait;
    asked.left = wait_part_left;
    asked.done = wait_part_done;
    EACH_PART(p, f)
    {
        p->ask.wait = asked;
        ports->wait(ports->arg, p->lane, &p->ask.wait);
    }
}

/* ---- SERIES.LIST: all names, in one order ---- */

static int names_order(const void *a, const void *b, void *names)
{
    const struct query_answer *all = names;
    return slice_cmp_bytes(QUERY_TEXT(all, (const struct query_value *)a),
                           QUERY_TEXT(all, (const struct query_value *)b));
}

static void names_over(struct fan *f)
{
    struct read_request *all = &f->session->ask.read;
    if (f->names.n > 0)
        qsort_r(f->names.values, f->names.n, sizeof f->names.values[0], names_order, &f->names);
    all->answer = &f->names;
    all->outcome = f->outcome;
    all->text = f->text.p;
    all->done(all);
}

static void names_part_done(struct read_request *q)
{
    struct fan_part *p = CONTAINER_OF(q, struct fan_part, ask.read);
    for (size_t i = 0; q->outcome == ASK_DONE && i < q->answer->n; i++)
        query_put_text(&p->fan->names, QUERY_TEXT(q->answer, &q->answer->values[i]));
    part_over(p, q->outcome, q->text);
}

void fan_names(struct session *s)
{
    const struct command_ports *ports = &s->command->config.ports;
    struct fan *f = fan_open(s, names_over, NULL);
    EACH_PART(p, f)
    {
        p->ask.read =
            (struct read_request){.who = s->user, .query = s->ask.read.query, .done = names_part_done};
        ports->read(ports->arg, p->lane, &p->ask.read);
    }
}
