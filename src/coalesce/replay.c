/* coalesce/replay.c - answered frames that Redis could still lose (README.md, rules C36 to C40). Each is kept, as it
 * would be sent again, until a fence has passed that was asked for after its answer. A server that comes up without
 * some of the answered frames gets those, one at a time and in order, before anything new; then what was in doubt is
 * settled. Frames that are no longer kept are logged as lost. */
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "coalesce/inside.h"
#include "series/frame.h"

#define FENCE_PAUSE_MS 100
#define REPLAY_PAUSE_MS 100 /* after a refusal */

static struct kept_frame *kept_of(struct list *node)
{
    return CONTAINER_OF(node, struct kept_frame, link);
}

static struct kept_frame *kept_next(struct replay *r, struct list *node)
{
    return node->next == &r->kept ? NULL : kept_of(node->next);
}

static size_t kept_bytes(const struct kept_frame *k)
{
    return sizeof *k + k->bytes.cap + k->records.cap;
}

static void kept_drop(struct replay *r, struct kept_frame *k)
{
    r->gone = k->seq;
    r->bytes -= kept_bytes(k);
    STAT_ADD(replay_bytes, -(int64_t)kept_bytes(k));
    if (r->next == k) r->next = kept_next(r, &k->link);
    list_remove(&k->link);
    buf_free(&k->bytes);
    buf_free(&k->records);
    heap_free(k);
}

static void kept_drop_to(struct replay *r, uint64_t seq)
{
    while (!list_empty(&r->kept) && kept_of(r->kept.next)->seq <= seq)
        kept_drop(r, kept_of(r->kept.next));
    if (seq > r->gone) r->gone = seq;
}

void replay_init(struct coalesce *c)
{
    list_init(&c->replay.kept);
}

void replay_destroy(struct coalesce *c)
{
    kept_drop_to(&c->replay, UINT64_MAX);
}

/* --- what is kept --- */

/* (!) What came out of a journal is still in it, in a Redis that lacks the frame, and its owner brings it home. What
 * went into one goes straight. */
static bool is_kept(const struct frame_op *op, bool told)
{
    bool is_home = op->way == OP_HOME && HOLDS(RULE_REPLAY_HOME);
    return op->kind != OP_UNIQ && !is_home && !(told && (op->error_n > 0 || op->late));
}

/* (!) What was answered "outcome unknown" is never sent again. */
void replay_keep(struct coalesce *c, struct group *g)
{
    struct replay *r = &c->replay;
    struct frame *f = &g->frame;
    if (g->given_up) return;
    r->answered = f->seq;
    if (c->config.replay_bytes == 0) r->gone = f->seq;
    if (c->config.replay_bytes == 0 || f->again.n + f->ops_n == 0) return;
    struct kept_frame *k = heap_zalloc(sizeof *k);
    *k = (struct kept_frame){.seq = f->seq, .dirty_ms = f->dirty_ms, .bytes = f->again, .found = UINT64_MAX};
    k->hits = g->answers_n - g->literals_count;
    bool told = g->state != GROUP_APPLIED;
    buf_reset(&c->raw);
    for (uint32_t i = 0; i < f->ops_n; i++)
        if (is_kept(&f->ops[i], told)) kept_put_op(&c->raw, f, &f->ops[i], told);
    if (c->raw.n != 0) {
        k->records.p = heap_alloc(k->records.cap = c->raw.n);
        buf_put_slice(&k->records, buf_slice(&c->raw));
    }
    k->lines = f->again_lines;
    k->cells = f->again_cells;
    f->again = (struct buf){0};
    list_push(&r->kept, &k->link);
    r->bytes += kept_bytes(k);
    STAT_ADD(replay_bytes, kept_bytes(k));
    while (r->bytes > c->config.replay_bytes)
        kept_drop(r, kept_of(r->kept.next));
}

/* --- the fence --- */

/* (!) A fence covers what was answered before it was asked for, on the server that it passed on. */
static void replay_fenced(struct fence *f)
{
    struct coalesce *c = f->arg;
    struct replay *r = &c->replay;
    uint64_t upto = HOLDS(RULE_REPLAY_FENCE) ? r->fence_upto : r->answered;
    r->fencing = false;
    r->fence_ms = c->ports.mono_ms(c->ports.arg) + FENCE_PAUSE_MS;
    if (!f->passed || r->fence_upto == 0 || strcmp(f->run_id, c->run_id) != 0) return;
    r->fenced = upto;
    kept_drop_to(r, upto);
}

void replay_tick(struct coalesce *c)
{
    struct replay *r = &c->replay;
    if (r->fencing || list_empty(&r->kept) || !coalesce_caught_up(c)) return;
    if (c->ports.mono_ms(c->ports.arg) < r->fence_ms) return;
    r->fencing = true;
    r->fence_upto = kept_of(r->kept.prev)->seq;
    r->fence = (struct fence){.done = replay_fenced, .arg = c, .background = true};
    c->ports.fence(c->ports.arg, &r->fence);
}

/* --- what Redis lacks --- */

static void name_lost(struct coalesce *c, uint64_t found, uint64_t frames)
{
    STAT_ADD(frames_lost, frames);
    log_event(
        LOG_ERROR, "frames_lost", "answered=%llu found=%llu lost=%llu next=%s",
        (unsigned long long)c->replay.answered, (unsigned long long)found, (unsigned long long)frames,
        LOGQ("Redis lost answered frames; what was merged before is in MySQL. Compare its appendfsync and "
             "failovers; `tallyd verify` says what is missing"));
}

/* How many lost frames are not logged yet. Those logged last are consecutive, from named_from on. */
static uint64_t frames_to_name(struct replay *r, uint64_t found)
{
    uint64_t from = found > r->named ? found : r->named, frames = 0;
    if (r->gone <= found) return 0;
    if (found < r->named_from) frames += (r->gone < r->named_from ? r->gone : r->named_from) - found;
    if (r->gone > from) frames += r->gone - from;
    if (found < r->named_from || found > r->named) r->named_from = found;
    if (r->gone > r->named) r->named = r->gone;
    return frames;
}

/* (!) If a server lacks frames that a fence has passed, fences say nothing about it: what is kept may be merged
 * already. */
bool replay_look(struct coalesce *c, uint64_t found)
{
    struct replay *r = &c->replay;
    bool is_behind = found < c->seq_known, all = !HOLDS(RULE_REPLAY_LOOK);
    r->next = NULL;
    r->sent = r->in_doubt = false;
    if (!is_behind && !all) return false;
    if (found < r->fenced || !HOLDS(RULE_REPLAY)) kept_drop_to(r, r->answered);
    for (struct list *node = r->kept.prev; node != &r->kept && (all || kept_of(node)->seq > found);
         node = node->prev) {
        r->next = kept_of(node);
        if (found < r->next->found) r->next->found = found;
    }
    uint64_t lost = is_behind ? frames_to_name(r, found) : 0;
    if (lost > 0) name_lost(c, found, lost);
    if (is_behind) c->seq_known = r->next != NULL ? r->answered : found;
    r->frames = 0;
    r->hits = 0;
    r->begun_ms = c->ports.mono_ms(c->ports.arg);
    return is_behind;
}

/* --- again --- */

void replay_turn(struct coalesce *c)
{
    struct replay *r = &c->replay;
    if (r->next == NULL || r->sent || c->held || sm_now(&c->link) != LINK_READY) return;
    if (c->ports.mono_ms(c->ports.arg) < r->again_ms) return;
    r->sent = true;
    c->ports.send_kept(c->ports.arg, r->next);
}

void replay_cut(struct coalesce *c)
{
    struct replay *r = &c->replay;
    r->in_doubt |= r->sent;
    r->sent = false;
    r->fence_upto = 0;
}

void coalesce_on_kept(struct coalesce *c, struct kept_frame *k, enum frame_outcome outcome)
{
    struct replay *r = &c->replay;
    INVARIANT(r->sent && r->next == k);
    r->sent = false;
    if (outcome == FRAME_REFUSED) {
        r->again_ms = c->ports.mono_ms(c->ports.arg) + REPLAY_PAUSE_MS;
        return;
    }
    if (k->failed > 0) STAT_ADD(frames_lost, 1);
    if (k->failed > 0)
        log_event(
            LOG_ERROR, "replay_failed", "seq=%llu failed=%u next=%s", (unsigned long long)k->seq, k->failed,
            LOGQ("some keys of this frame have another type now, or ids of its events are numbers of another "
                 "tallyd now; run `tallyd verify`"));
    if (k->renumbered > 0)
        log_event(LOG_WARN, "events_renumbered", "seq=%llu events=%u", (unsigned long long)k->seq,
                  k->renumbered);
    STAT_ADD(frames_replayed, 1);
    r->frames++;
    r->hits += k->hits;
    r->next = kept_next(r, &k->link);
    if (r->next == NULL) {
        log_event(LOG_WARN, "frames_replayed", "frames=%u hits=%llu upto=%llu ms=%llu", r->frames,
                  (unsigned long long)r->hits, (unsigned long long)r->answered,
                  (unsigned long long)(c->ports.mono_ms(c->ports.arg) - r->begun_ms));
        doubt_settle(c);
    } else
        replay_turn(c);
}

/* It stops before all was sent again. */
void replay_abandon(struct coalesce *c)
{
    struct replay *r = &c->replay;
    if (r->next == NULL) return;
    uint64_t found = r->next->seq - 1;
    r->next = NULL;
    name_lost(c, found, r->answered - found);
}
