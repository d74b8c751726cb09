/* coalesce/doubt.c - after a cut. Requests sent and not answered are in doubt: at most one frame, and the claims around
 * it. On the new link, and again from the start when that one is cut too:
 *   (!)     when the server is the same process, tallyd kills the old link first, since bytes that Redis has not read yet would
 *           run later. Then it reads seq and looks for each claim's registry; frames go on after that.
 *   frame:  seq >= n: applied, its values are read now. Less or missing: sent again (!) with a ZADD for all its hashes,
 *           but (!) never when its clients were told "outcome unknown". Above every frame sent: two processes share a life.
 *   claim:  if its registry exists, it goes on at SCAN. If not, the id is forgotten. */
#include "base/log.h"
#include "base/stats.h"
#include "coalesce/inside.h"
#include <stdio.h>

static const char unknown_text[] = "ERR outcome unknown: the link to Redis was lost before its answer; "
                                   "the increment may or may not have been counted";
static const char behind_text[] = BEHIND_WHY "; nothing was counted";
static const char astray_text[] =
    "TRYAGAIN the slot of tallyd's keys is moving to another node of the cluster; "
    "nothing was counted";

static bool in_doubt(const struct coalesce *c)
{
    return c->replay.in_doubt || c->flight_n > 0 || !list_empty(&c->claims);
}

void coalesce_in_doubt(const struct coalesce *c, uint32_t *answers, uint32_t *claims)
{
    *answers = *claims = 0;
    for (uint32_t i = 0; i < c->flight_n; i++)
        *answers += c->flight[i]->answers_n;
    list_for_each (node, &c->claims)
        ++*claims;
}

/* The suspect is kept until what was sent on its link is settled: between two looks the server may be another one for a
 * while. */
static bool kill_needed(const struct coalesce *c)
{
    bool same_server = strcmp(c->run_id, c->suspect_run_id) == 0;
    if (!HOLDS(RULE_KILL) || c->suspect_id == 0 || !same_server) return false;
    return c->replay.in_doubt || c->flight_n > 0 || (HOLDS(RULE_KILL_FOR_CLAIM) && !list_empty(&c->claims));
}

static void mark_behind(struct coalesce *c, bool behind)
{
    for (uint32_t i = 0; i < c->flight_n; i++)
        for (uint32_t j = 0; j < c->flight[i]->answers_n; j++)
            c->flight[i]->answers[j].outlet->behind = behind;
}

/* Hits not yet sent fail at once and definitely. A client that also waits for a frame in doubt gets that frame's answer
 * first. */
static void fail_collected(struct coalesce *c, const char *why)
{
    struct group *g = c->now;
    group_refused(g, slice_str(why));
    group_fail(g, slice_str(why));
    group_drop_frame(g, coalesce_epoch(c));
    struct list touched;
    list_init(&touched);
    mark_behind(c, true);
    group_answer_free_ones(g, &touched);
    mark_behind(c, false);
    if (g->answers_n == 0) buf_reset(&g->literals);
    flight_touch(c, &touched);
}

void doubt_fail_collected(struct coalesce *c)
{
    fail_collected(c, c->down_text);
}

static void release(struct coalesce *c)
{
    if (c->releases) c->held = c->releases = false;
}

void coalesce_cut(struct coalesce *c, const char *why)
{
    coalesce_down(c, why);
    int was = sm_now(&c->link);
    if (was == LINK_DOWN) return;
    sm_move(&c->link, LINK_DOWN);
    replay_cut(c);
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    for (uint32_t i = 0; i < c->flight_n; i++) {
        struct group *g = c->flight[i];
        if (g->state == GROUP_SENT) g->state = GROUP_DOUBT;
        if (g->doubt_ms == 0) g->doubt_ms = now_ms;
    }
    if (was == LINK_READY && in_doubt(c)) {
        c->suspect_id = c->client_id;
        memcpy(c->suspect_run_id, c->run_id, sizeof c->run_id);
    }
    hash_cache_forget_dirty(&c->hash_cache);
    if (HOLDS(RULE_SERIES_FORGET)) known_forget_all(&c->known);
    if (HOLDS(RULE_LEASE_FORGET)) leases_forget_all(&c->leases);
    settles_cut(c);
    if (HOLDS(RULE_BUCKET_FORGET)) known_forget_all(&c->buckets);
    release(c);
    if (!c->held)
        doubt_fail_collected(c);
    else if (HOLDS(RULE_LEASE_HELD))
        ops_held(c, c->now);
}

static void doubt_look(struct coalesce *c)
{
    struct claim *claims[CLAIMS_OUT_MAX];
    uint32_t n = 0;
    list_for_each (node, &c->claims) {
        INVARIANT(n < CLAIMS_OUT_MAX);
        claims[n++] = CONTAINER_OF(node, struct claim, link);
    }
    uint32_t journals_n = journals_look(c);
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
    doubt_look(c);
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

static void hashes_due(struct coalesce *c, const struct group *g)
{
    for (uint32_t i = 0; i < g->frame.hashes_n; i++)
        flight_due(c, g->frame.hashes[i].entry, DUE_TIME);
}

/* Each client of a cell gets the value that the cell has now, each client of a token the value it was counted with. */
static void values_lost(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->hashes_n; i++)
        f->hashes[i].ask_lock = f->hashes[i].fresh = false;
    for (uint32_t i = 0; i < g->answers_n; i++)
        if (g->answers[i].cell < ANSWER_TOKEN) g->answers[i].at = f->cells[g->answers[i].cell].delta;
    ops_answers_lost(c, g);
    ops_found_applied(c, g);
    flight_applied(c, g);
}

static void group_found_applied(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < g->frame.hashes_n; i++)
        if (!g->frame.hashes[i].zadd && g->frame.hashes[i].cells > 0) flight_owe(c, g->frame.hashes[i].entry);
    hashes_due(c, g);
    g->state = GROUP_APPLIED;
    if (g->frame.cells_n == 0 && g->frame.tokens_n == 0)
        values_lost(c, g);
    else
        c->ports.read_values(c->ports.arg, &g->frame);
}

static void group_send_again(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < g->frame.hashes_n && HOLDS(RULE_RESEND_ALL_ZADD); i++) {
        struct frame_hash *h = &g->frame.hashes[i];
        h->zadd = true;
        ((struct hash_entry *)h->entry)->known_dirty = true;
    }
    checkpoint_redo(c, g);
    ops_send_again(c, g);
    g->state = GROUP_SENT;
    g->unheard |= !g->astray && c->seq_known == 0;
    g->astray = false;
    STAT_ADD(frames_resent, 1);
    c->ports.send_frame(c->ports.arg, &g->frame);
}

static void group_drop(struct coalesce *c, struct group *g)
{
    for (uint32_t i = 0; i < g->frame.hashes_n; i++)
        if (g->frame.hashes[i].owed) flight_owe(c, g->frame.hashes[i].entry);
    hashes_due(c, g);
    ops_not_applied(c, g);
    flight_take_back(c, g);
    flight_finish(c, g);
}

static bool did_run(const struct group *g, uint64_t seq)
{
    return g->state == GROUP_APPLIED || g->frame.seq <= seq;
}

static void settle_frames(struct coalesce *c, uint64_t seq)
{
    struct group *groups[FLIGHT_MAX];
    uint32_t n = c->flight_n;
    memcpy(groups, c->flight, sizeof groups);
    for (uint32_t i = 0; i < n; i++) {
        struct group *g = groups[i];
        if (did_run(g, seq))
            group_found_applied(c, g);
        else if (g->given_up && HOLDS(RULE_ANSWERED_NEVER_SENT))
            group_drop(c, g);
        else
            group_send_again(c, g);
    }
    if (seq > c->seq_known) c->seq_known = seq;
}

void doubt_settle(struct coalesce *c)
{
    if (HOLDS(RULE_REPLAY_FIRST)) settle_frames(c, c->seq_known);
    c->ports.caught_up(c->ports.arg);
}

/* (!) What was answered is sent again before what is in doubt, which is newer. */
static void doubt_ready(struct coalesce *c, uint64_t seq, const bool *stands)
{
    c->suspect_id = 0;
    sm_move(&c->link, LINK_READY);
    release(c);
    if (c->replay.next == NULL || !HOLDS(RULE_REPLAY_FIRST)) settle_frames(c, seq);
    if (stands != NULL) settle_claims(c, stands);
    if (c->replay.next == NULL) c->ports.caught_up(c->ports.arg);
    replay_turn(c);
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
    /* A frame that was found applied, and that Redis no longer has, was not answered yet. */
    for (uint32_t i = 0; i < c->flight_n; i++)
        if (c->flight[i]->state == GROUP_APPLIED && c->flight[i]->frame.seq > seq)
            c->flight[i]->state = GROUP_DOUBT;
    bool tail_lost = replay_look(c, seq);
    for (uint32_t i = c->flight_n; i-- > 0;)
        if (!did_run(c->flight[i], seq)) checkpoint_undo(c, c->flight[i]);
    journals_looked(c, ours, tail_lost);
    if (!HOLDS(RULE_KILL_FIRST) && kill_needed(c)) {
        sm_move(&c->link, LINK_KILL);
        c->looked_seq = seq;
        settle_claims(c, stands);
        c->ports.kill(c->ports.arg, c->suspect_id);
        return;
    }
    doubt_ready(c, seq, stands);
}

void coalesce_on_killed(struct coalesce *c)
{
    PRE(sm_now(&c->link) == LINK_KILL);
    c->suspect_id = 0;
    if (HOLDS(RULE_KILL_FIRST))
        doubt_look(c);
    else
        doubt_ready(c, c->looked_seq, NULL);
}

void coalesce_on_values(struct coalesce *c, struct frame *f)
{
    struct group *g = flight_group_of(c, f);
    INVARIANT(g->state == GROUP_APPLIED);
    values_lost(c, g);
}

/* Clients of a frame in doubt wait for doubt_ms. (!) A frame whose clients were told so is never sent again. */
static void give_up(struct coalesce *c, struct group *g)
{
    bool none_ran = g->astray && !g->unheard;
    log_event(LOG_ERROR, none_ran ? "frame_astray" : "outcome_unknown", "seq=%llu answers=%u",
              (unsigned long long)g->frame.seq, g->answers_n);
    uint64_t hits = g->answers_n - g->literals_count;
    if (none_ran)
        group_refused(g, slice_str(astray_text));
    else
        STAT_ADD(hits_unknown, hits);
    group_fail(g, slice_str(none_ran ? astray_text : unknown_text));
    g->given_up = true;
    flight_answer(c, g);
}

void coalesce_abandon(struct coalesce *c, const char *why)
{
    c->held = false;
    coalesce_cut(c, why);
    replay_abandon(c);
    for (uint32_t i = 0; i < c->flight_n; i++)
        if (c->flight[i]->answers_n > 0) give_up(c, c->flight[i]);
    doubt_fail_collected(c); /* also who waited behind those, or was held when the link went */
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

/* A frame is sent, cut for no answer, in doubt until it is given up, sent again at the end of that, and taken late. */
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
        o->parked_ms = now_ms - c->config.busy_ms; /* also where this process slept for longer */
    }
    for (struct list *node; (node = list_pop(&late)) != NULL;)
        c->ports.room(c->ports.arg, CONTAINER_OF(node, struct outlet, parked));
}

void coalesce_tick(struct coalesce *c)
{
    uint64_t now_ms = c->ports.mono_ms(c->ports.arg);
    for (uint32_t i = 0; i < c->flight_n; i++) {
        struct group *g = c->flight[i];
        bool late = g->doubt_ms != 0 && now_ms - g->doubt_ms >= c->config.doubt_ms;
        if (late && g->state != GROUP_SENT && g->answers_n > 0) give_up(c, g);
    }
    /* A server that does not take again what it lost may refuse for long, and new hits wait for that. */
    const struct group *g = c->now;
    bool waits = c->replay.next != NULL && sm_now(&c->link) == LINK_READY && g->arrivals_n > 0;
    uint64_t busy_us = UINT64_C(1000) * c->config.busy_ms;
    if (waits && c->ports.mono_us(c->ports.arg) - g->arrivals[0].us >= busy_us)
        fail_collected(c, behind_text);
    tick_parked(c, now_ms);
    settles_tick(c);
    journals_tick(c);
    replay_tick(c);
}
