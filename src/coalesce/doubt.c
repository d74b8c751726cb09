/* coalesce/doubt.c - after a cut. What was sent and not answered is in doubt: at most one frame, and the claims around
 * it. On the new link, and from the start again when that one is cut too:
 *   (!)     the old link is killed when the server is still the same process, since bytes that it has not read yet would
 *           run later; then seq is read, and each claim's registry looked for; frames go on after that.
 *   frame:  seq >= n: applied, its values are read now. Less or missing: sent again (!) with a ZADD for all its hashes,
 *           but (!) never when its clients were told "outcome unknown". More than was ever sent: two share a life.
 *   claim:  its registry stands: go on at SCAN. Else the id is forgotten. */
#include "base/log.h"
#include "base/stats.h"
#include "coalesce/engine.h"
#include <stdio.h>

static const char unknown_text[] = "ERR outcome unknown: the link to Redis was lost before its answer; "
                                   "the increment may or may not have been counted";

static bool in_doubt(const struct coalesce *c)
{
    return c->flight_n > 0 || !list_empty(&c->claims);
}

/* The suspect is remembered until what was sent on it is settled: between two looks the server may be another
 * one for a while. */
static bool kill_needed(const struct coalesce *c)
{
    bool same_server = strcmp(c->run_id, c->suspect_run_id) == 0;
    if (!HOLDS(RULE_KILL) || c->suspect_id == 0 || !same_server) return false;
    return c->flight_n > 0 || (HOLDS(RULE_KILL_FOR_CLAIM) && !list_empty(&c->claims));
}

static void mark_behind(struct coalesce *c, bool behind)
{
    for (uint32_t i = 0; i < c->flight_n; i++)
        for (uint32_t j = 0; j < c->flight[i]->answers_n; j++)
            c->flight[i]->answers[j].outlet->behind = behind;
}

/* Hits not yet sent fail at once and definitely; only who waits for a frame in doubt first hears of that one.
 */
static void fail_collected(struct coalesce *c)
{
    struct box *b = c->now;
    STAT_ADD(hits_refused, b->answers_n - b->literals_count);
    box_fail(b, slice_str(c->down_text));
    box_drop_frame(b, engine_epoch(c));
    struct list touched;
    list_init(&touched);
    mark_behind(c, true);
    box_answer_free_ones(b, &touched);
    mark_behind(c, false);
    if (b->answers_n == 0) buf_reset(&b->literals);
    engine_touch(c, &touched);
}

void coalesce_cut(struct coalesce *c, const char *why)
{
    engine_down(c, why);
    int was = sm_now(&c->link);
    if (was == LINK_DOWN) return;
    sm_move(&c->link, LINK_DOWN);
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    for (uint32_t i = 0; i < c->flight_n; i++) {
        struct box *b = c->flight[i];
        if (b->state == BOX_SENT) b->state = BOX_DOUBT;
        if (b->doubt_ms == 0) b->doubt_ms = now_ms;
    }
    if (was == LINK_READY && in_doubt(c)) {
        c->suspect_id = c->client_id;
        memcpy(c->suspect_run_id, c->run_id, sizeof c->run_id);
    }
    registry_forget_dirty(&c->registry);
    if (HOLDS(RULE_SERIES_FORGET)) known_forget_all(&c->known);
    if (HOLDS(RULE_LEASE_FORGET)) leases_forget_all(&c->leases);
    checkpoint_cut(c);
    if (HOLDS(RULE_BUCKET_FORGET)) known_forget_all(&c->buckets);
    fail_collected(c);
}

static void look(struct coalesce *c)
{
    struct claim *claims[CLAIMS_OUT_MAX];
    uint32_t n = 0;
    list_for_each (node, &c->claims) {
        INVARIANT(n < CLAIMS_OUT_MAX);
        claims[n++] = CONTAINER_OF(node, struct claim, link);
    }
    uint32_t journals_n = checkpoint_look(c);
    sm_move(&c->link, LINK_LOOK);
    c->ports.look(c->ports.arg, &(struct link_look){claims, n, c->looked, journals_n});
}

void coalesce_up(struct coalesce *c, const char *run_id, int64_t client_id)
{
    PRE(sm_now(&c->link) == LINK_DOWN && client_id > 0);
    snprintf(c->run_id, sizeof c->run_id, "%s", run_id);
    c->client_id = client_id;
    if (kill_needed(c) && HOLDS(RULE_KILL_FIRST)) {
        sm_move(&c->link, LINK_KILL);
        c->ports.kill(c->ports.arg, c->suspect_id);
        return;
    }
    look(c);
}

static void settle_claims(struct coalesce *c, const bool *stands)
{
    struct list claims;
    list_init(&claims);
    list_move_all(&claims, &c->claims);
    for (uint32_t i = 0; !list_empty(&claims); i++) {
        struct claim *claim = CONTAINER_OF(list_pop(&claims), struct claim, link);
        STAT_ADD(claims_doubt, 1);
        if (!stands[i] && !HOLDS(RULE_CLAIM_ONCE)) {
            list_push(&c->claims, &claim->link);
            c->ports.send_claim(c->ports.arg, claim);
            continue;
        }
        claim->outcome = stands[i] ? CLAIM_STANDS : CLAIM_GONE;
        claim->done(claim);
    }
}

/* Did Redis lose what it had answered? */
static bool count_lost(struct coalesce *c, uint64_t seq)
{
    if (seq >= c->seq_known) return false;
    STAT_ADD(frames_lost, c->seq_known - seq);
    log_event(LOG_ERROR, "frames_lost", "answered=%llu found=%llu next=%s", (unsigned long long)c->seq_known,
              (unsigned long long)seq,
              LOGQ("Redis lost answered hits: compare its appendfsync and failovers; run `tallyd verify`"));
    c->seq_known = seq;
    return true;
}

static void hashes_due(struct coalesce *c, const struct box *b)
{
    for (uint32_t i = 0; i < b->frame.hashes_n; i++)
        engine_due(c, b->frame.hashes[i].entry, DUE_TIME);
}

/* Each client of a cell gets the value as it stands by now, of a token the one that it was counted with. */
static void values_lost(struct coalesce *c, struct box *b)
{
    struct frame *f = &b->frame;
    for (uint32_t i = 0; i < f->hashes_n; i++)
        f->hashes[i].ask_lock = f->hashes[i].fresh = false;
    for (uint32_t i = 0; i < b->answers_n; i++)
        if (b->answers[i].cell < ANSWER_TOKEN) b->answers[i].at = f->cells[b->answers[i].cell].delta;
    ops_answers_lost(c, b);
    ops_found_applied(c, b);
    engine_applied(c, b);
}

static void box_found_applied(struct coalesce *c, struct box *b)
{
    for (uint32_t i = 0; i < b->frame.hashes_n; i++)
        if (!b->frame.hashes[i].zadd && b->frame.hashes[i].cells > 0) engine_owe(c, b->frame.hashes[i].entry);
    hashes_due(c, b);
    b->state = BOX_APPLIED;
    if (b->frame.cells_n == 0 && b->frame.tokens_n == 0)
        values_lost(c, b);
    else
        c->ports.read_values(c->ports.arg, &b->frame);
}

static void box_send_again(struct coalesce *c, struct box *b)
{
    for (uint32_t i = 0; i < b->frame.hashes_n && HOLDS(RULE_RESEND_ALL_ZADD); i++) {
        struct frame_hash *h = &b->frame.hashes[i];
        h->zadd = true;
        ((struct entry *)h->entry)->known_dirty = true;
    }
    checkpoint_redo(c, b);
    ops_send_again(c, b);
    b->state = BOX_SENT;
    STAT_ADD(frames_resent, 1);
    c->ports.send_frame(c->ports.arg, &b->frame);
}

static void box_drop(struct coalesce *c, struct box *b)
{
    for (uint32_t i = 0; i < b->frame.hashes_n; i++)
        if (b->frame.hashes[i].owed) engine_owe(c, b->frame.hashes[i].entry);
    hashes_due(c, b);
    ops_not_applied(c, b);
    engine_take_back(c, b);
    engine_finish(c, b);
}

static bool did_run(const struct box *b, uint64_t seq)
{
    return b->state == BOX_APPLIED || b->frame.seq <= seq;
}

static void settle_journals(struct coalesce *c, uint64_t seq, const bool *ours, bool tail_lost)
{
    for (uint32_t i = c->flight_n; i-- > 0;)
        if (!did_run(c->flight[i], seq)) checkpoint_undo(c, c->flight[i]);
    checkpoint_looked(c, ours, tail_lost);
}

static void settle_frames(struct coalesce *c, uint64_t seq)
{
    struct box *boxes[FLIGHT_MAX];
    uint32_t n = c->flight_n;
    memcpy(boxes, c->flight, sizeof boxes);
    for (uint32_t i = 0; i < n; i++) {
        struct box *b = boxes[i];
        if (did_run(b, seq))
            box_found_applied(c, b);
        else if (b->given_up && HOLDS(RULE_ANSWERED_NEVER_SENT))
            box_drop(c, b);
        else
            box_send_again(c, b);
    }
    if (seq > c->seq_known) c->seq_known = seq;
}

void coalesce_on_look(struct coalesce *c, int64_t found, const bool *stands, const bool *ours)
{
    PRE(sm_now(&c->link) == LINK_LOOK);
    uint64_t seq = found < 0 ? 0 : (uint64_t)found;
    if (seq > c->seq) {
        c->ports.fatal(c->ports.arg,
                       "tally:seq of this life is ahead of every frame sent: two processes share a life");
        return;
    }
    settle_journals(c, seq, ours, count_lost(c, seq));
    if (!HOLDS(RULE_KILL_FIRST) && kill_needed(c)) {
        sm_move(&c->link, LINK_KILL);
        c->seq_known = seq;
        settle_claims(c, stands);
        c->ports.kill(c->ports.arg, c->suspect_id);
        return;
    }
    c->suspect_id = 0;
    sm_move(&c->link, LINK_READY);
    settle_frames(c, seq);
    settle_claims(c, stands);
}

void coalesce_on_killed(struct coalesce *c)
{
    PRE(sm_now(&c->link) == LINK_KILL);
    c->suspect_id = 0;
    if (HOLDS(RULE_KILL_FIRST)) {
        look(c);
        return;
    }
    sm_move(&c->link, LINK_READY);
    settle_frames(c, c->seq_known);
}

void coalesce_on_values(struct coalesce *c, struct frame *f)
{
    struct box *b = engine_box_of(c, f);
    INVARIANT(b->state == BOX_APPLIED);
    values_lost(c, b);
}

/* Clients of a frame in doubt wait so long, and (!) a frame so answered is never sent again. */
static void give_up(struct coalesce *c, struct box *b)
{
    log_event(LOG_ERROR, "outcome_unknown", "seq=%llu answers=%u", (unsigned long long)b->frame.seq,
              b->answers_n);
    STAT_ADD(hits_unknown, b->answers_n - b->literals_count);
    box_fail(b, slice_str(unknown_text));
    b->given_up = true;
    engine_answer(c, b);
}

void coalesce_abandon(struct coalesce *c, const char *why)
{
    coalesce_cut(c, why);
    for (uint32_t i = 0; i < c->flight_n; i++)
        if (c->flight[i]->answers_n > 0) give_up(c, c->flight[i]);
    struct list claims;
    list_init(&claims);
    list_move_all(&claims, &c->claims);
    for (struct list *node; (node = list_pop(&claims)) != NULL;) {
        struct claim *claim = CONTAINER_OF(node, struct claim, link);
        claim->outcome = CLAIM_GONE;
        claim->done(claim);
    }
    claims_refuse_all(c);
}

/* Sent, cut for no answer, in doubt until it is given up, sent again at the end of that, taken late. */
int64_t coalesce_lag_ms(const struct coalesce *c, uint32_t answer_ms)
{
    return (int64_t)answer_ms + c->config.doubt_ms + answer_ms;
}

static void tick_parked(struct coalesce *c, uint64_t now_ms)
{
    struct list late;
    list_init(&late);
    for (struct list *node = c->parked.next, *next; node != &c->parked; node = next) {
        next = node->next;
        struct outlet *o = CONTAINER_OF(node, struct outlet, parked);
        if (now_ms - o->parked_ms < c->config.busy_ms) continue;
        list_remove(node);
        list_push(&late, node);
    }
    for (struct list *node; (node = list_pop(&late)) != NULL;)
        c->ports.room(c->ports.arg, CONTAINER_OF(node, struct outlet, parked));
}

void coalesce_tick(struct coalesce *c)
{
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    for (uint32_t i = 0; i < c->flight_n; i++) {
        struct box *b = c->flight[i];
        bool late = b->doubt_ms != 0 && now_ms - b->doubt_ms >= c->config.doubt_ms;
        if (late && b->state != BOX_SENT && b->answers_n > 0) give_up(c, b);
    }
    tick_parked(c, now_ms);
    checkpoint_tick(c);
}
