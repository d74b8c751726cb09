/* tests/sim/rules.c - see rules.h. */
#include "sim/rules.h"

#include "base/sm.h"

#define SHOWS(f) (1U << FAULT_##f)
#define STUCK_PROFILE(c) ((c)->world_off |= WORLD_WALK_TIMER, (c)->for_good_percent = 0)

/* Few hits, frequent claims, no faults except those given. */
static void only(struct sim_config *c, unsigned faults)
{
    static const enum sim_event all[] = {
        EVENT_cut,          EVENT_crash,        EVENT_stop,       EVENT_pause,  EVENT_redis_restart,
        EVENT_redis_refuse, EVENT_mysql_toggle, EVENT_wrong_type, EVENT_full,   EVENT_client_gone,
        EVENT_restore,      EVENT_unfit,        EVENT_fence_late, EVENT_poison, EVENT_leap,
        EVENT_hold,         EVENT_crash_taking};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        c->weight[all[i]] = 0;
    c->weight[EVENT_wait] = c->weight[EVENT_recover] = 0;
    c->partial = c->feeds = false;
    c->ops_percent = c->clean_percent = c->tokens_percent = 0;
    c->faults_most = faults;
    c->sync.keep_ms = 0;
}

static void often(struct sim_config *c, enum sim_event event, unsigned weight)
{
    c->weight[event] = weight;
}

static void eager(struct sim_config *c)
{
    c->counter_hits = 1;
    c->sync.claim_gap_ms = 0;
    c->sync.poll_ms = 50;
    c->sync.fields_max = sync_config_default.fields_max;
    c->sync.runs_max = 6;
    c->sync.rows_burst = sync_config_default.rows_burst;
    c->claim_fields_max = CLAIM_FIELDS_MAX;
}

/* Nothing becomes due by its hits, little by its lock: what is in no index stays there. */
static void lazy(struct sim_config *c)
{
    eager(c);
    STUCK_PROFILE(c);
    c->counter_hits = INT64_MAX;
    c->every_s = 1;
    c->hashes = 1;
    c->hits_most = 3 + (unsigned)(c->seed % 18); /* no later hit makes it due again */
    c->steps = 300;
    c->clock_step_ms = 300;
    often(c, EVENT_hit, 40);
}

/* Cells fail, for one of two reasons. */
static void profile_cell_errors(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    often(c, EVENT_wrong_type, 40);
    often(c, EVENT_full, 40);
}

static void profile_tail(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    often(c, EVENT_redis_restart, 10);
    often(c, EVENT_fsync, 2);
    often(c, EVENT_merge, 200);
    c->lose_tail_percent = 100;
}

static void profile_tail_cut(struct sim_config *c)
{
    profile_tail(c);
    often(c, EVENT_fsync, 20);
    often(c, EVENT_redis_restart, 20);
}

static void profile_restored(struct sim_config *c)
{
    only(c, 2);
    eager(c);
    c->restores = true;
    often(c, EVENT_dump, 20);
    often(c, EVENT_restore, 40);
    c->faults_from = 150;
}

static void profile_swapped(struct sim_config *c)
{
    profile_restored(c);
    c->swaps = true;
    c->daemons = 1; /* one that had no frames of its own there does not see it */
}

static void profile_crash(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    often(c, EVENT_crash, 20);
    c->for_good_percent = 0;
    c->lost_commit_percent = 30;
}

/* A client waits beside almost every fence. */
static void profile_waits(struct sim_config *c)
{
    only(c, 0);
    eager(c);
    often(c, EVENT_client_wait, 400);
    often(c, EVENT_fsync, 1);
}

static void profile_twice(struct sim_config *c)
{
    only(c, 2);
    eager(c);
    c->claim_twice_percent = 50;
}

static void profile_cut(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    often(c, EVENT_cut, 40);
    often(c, EVENT_execute_dead, 30);
    c->unread_percent = 90;
    c->coalesce.doubt_ms = 5000;
}

static void profile_packed(struct sim_config *c)
{
    profile_cut(c);
    c->pack_fields = SIM_FIELDS;
}

static void profile_older(struct sim_config *c)
{
    profile_crash(c);
    c->daemons = SIM_DAEMONS;
    c->pack_fields = SIM_FIELDS;
    c->older = true;
}

/* Cut, and away until the other daemon adopts the batch whose claim was not answered. */
static void profile_claim_once(struct sim_config *c)
{
    profile_cut(c);
    c->daemons = SIM_DAEMONS;
    c->hashes = 1;
    c->steps = 700;
    c->sync.stale_ms = 200;
    c->sync.adopt_ms = 50;
    c->faults_from = 150;
    c->faults_most = 3;
    often(c, EVENT_cut, 20);
    often(c, EVENT_reconnect, 4);
    often(c, EVENT_deliver, 60);
    often(c, EVENT_clock, 60);
}

static void profile_other_cut(struct sim_config *c)
{
    profile_crash(c);
    c->daemons = SIM_DAEMONS;
    c->fields = SIM_HIT_FIELDS;
    c->coalesce.cells_max = SIM_CELLS;
    c->counter_hits = INT64_MAX;
    c->sync.chunks_max = 1;
    c->sync.stale_ms = 200;
    c->faults_most = 1;
    c->faults_from = 100;
    c->for_good_percent = 100; /* the daemon that knows the right cut does not come back */
    often(c, EVENT_merge, 10);
    often(c, EVENT_crash, 3);
}

static void profile_life(struct sim_config *c)
{
    profile_cut(c);
    often(c, EVENT_crash, 20);
}

static void profile_two_frames(struct sim_config *c)
{
    profile_cut(c);
    often(c, EVENT_redis_refuse, 30);
    c->refuse_percent = 50;
}

static void profile_alone(struct sim_config *c)
{
    only(c, 0);
    lazy(c);
    c->daemons = 1;
}

static void profile_alone_refused(struct sim_config *c)
{
    profile_alone(c);
    c->faults_most = 8;
    often(c, EVENT_redis_refuse, 40);
}

static void profile_alone_claim(struct sim_config *c)
{
    profile_alone(c);
    c->faults_most = 4;
    c->faults_from = 60;
    c->unread_percent = 100;
    c->turn_percent = 100;
    c->hits_most = 20;
    c->sync.poll_ms = 250; /* so that cuts meet the frame link */
    c->coalesce.bytes_max = coalesce_config_default.bytes_max;
    often(c, EVENT_cut, 60);
    often(c, EVENT_hit, 40);
    often(c, EVENT_tick, 100);
    often(c, EVENT_reconnect, 200);
    often(c, EVENT_execute_dead, 2);
    often(c, EVENT_walk, 200);
}

static void profile_alone_lost(struct sim_config *c)
{
    profile_alone(c);
    c->faults_most = 4;
    c->faults_from = 40;
    c->lag_ms = 5000;
    c->lose_tail_percent = 100;
    often(c, EVENT_redis_restart, 10);
    often(c, EVENT_fsync, 1);
    often(c, EVENT_walk, 200);
}

static void profile_pair(struct sim_config *c)
{
    only(c, 0);
    lazy(c);
    c->daemons = SIM_DAEMONS;
}

static void profile_pair_refused(struct sim_config *c)
{
    profile_pair(c);
    c->faults_most = 1; /* refuses from early on */
    c->refuse_percent = 40;
    c->claim_refuse_percent = 0;
    often(c, EVENT_redis_refuse, 400);
}

static void profile_named(struct sim_config *c)
{
    profile_cut(c);
    lazy(c);
    c->faults_most = 3;
    c->faults_from = 60;
    often(c, EVENT_crash, 60);
    often(c, EVENT_execute_dead, 2);
    often(c, EVENT_walk, 200);
    often(c, EVENT_start, 400);
}

static void profile_for_good(struct sim_config *c)
{
    profile_crash(c);
    c->daemons = SIM_DAEMONS;
    c->for_good_percent = 100;
    c->unread_percent = 90;
    c->faults_most = 1;
    often(c, EVENT_crash, 10);
    often(c, EVENT_execute_dead, 1);
}

static void profile_old(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    c->daemons = SIM_DAEMONS;
    c->steps = 900;
    c->lost_commit_percent = 30;
    c->pause_ms = 60000;
    c->clock_jump_percent = 30;
    c->clock_jump_ms = 8000;
    often(c, EVENT_pause, 30);
    often(c, EVENT_crash, 4);
    often(c, EVENT_clock, 60);
    c->prune_ms = 100;
}

/* Little is merged while complete_until moves on. */
static void profile_until(struct sim_config *c)
{
    only(c, 2);
    c->coalesce.doubt_ms = 100;
    c->answer_ms = 100;
    c->until_ms = 100;
    often(c, EVENT_mysql_toggle, 10);
    often(c, EVENT_clock, 60);
}

/* The pruning daemon pauses between asking which batches exist and deleting what is old. */
static void profile_slow_prune(struct sim_config *c)
{
    profile_old(c);
    c->prune_ms = 2000;
}

/* A life that is paused until the others have merged, discarded and pruned. */
static void profile_sleep(struct sim_config *c)
{
    profile_old(c);
    often(c, EVENT_pause, 60);
}

static void profile_poison(struct sim_config *c)
{
    only(c, 4);
    eager(c);
    often(c, EVENT_poison, 10);
}

/* MySQL refuses rows of some hashes, and at times all of a table. */
static void profile_refusing(struct sim_config *c)
{
    c->refusing = true;
    often(c, EVENT_poison, 20);
}

static void profile_refusing_eager(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    profile_refusing(c);
    c->hashes = SIM_HASHES;
}

static void profile_unlocked(struct sim_config *c)
{
    c->unlocked = true;
}

/* Rows are made and deleted beside merges; those that are missing are rejected. */
static void profile_missing(struct sim_config *c)
{
    c->makes_none = true;
    often(c, EVENT_shop, 30);
}

static void profile_missing_eager(struct sim_config *c)
{
    only(c, 4);
    eager(c);
    profile_missing(c);
}

/* MySQL's replica is promoted, again and again. */
static void profile_keep(struct sim_config *c)
{
    only(c, 4);
    eager(c);
    c->sync.keep_ms = 2000;
    often(c, EVENT_mysql_toggle, 10);
}

static void profile_keep_paused(struct sim_config *c)
{
    profile_keep(c);
    c->faults_most = 8;
    c->pause_ms = 5000;
    often(c, EVENT_pause, 10);
}

static void profile_totals(struct sim_config *c)
{
    only(c, 0);
    eager(c);
    c->chunk_rows[0] = 1;
    often(c, EVENT_total, 60);
}

static void profile_leap(struct sim_config *c)
{
    only(c, 8);
    c->leap_most_ms = 8000;
    c->counter_hits = INT64_MAX;
    often(c, EVENT_leap, 20);
    often(c, EVENT_wait, 40);
}

static void profile_doubt(struct sim_config *c)
{
    profile_cut(c);
    c->coalesce.doubt_ms = 20;
    often(c, EVENT_tick, 100);
    often(c, EVENT_reconnect, 10);
}

/* Clients of series, and hits that feed them. */
static void series(struct sim_config *c)
{
    c->ops_percent = 60;
    c->feeds = true;
    c->turn_percent = 80;
    often(c, EVENT_hit, 200);
}

static void profile_deleted(struct sim_config *c)
{
    only(c, 0);
    series(c);
    c->clean_percent = 20;
}

/* And what a dead life sent is read after that. */
static void profile_unheard(struct sim_config *c)
{
    only(c, 1);
    series(c);
    c->daemons = SIM_DAEMONS;
    c->faults_from = 100;
    c->steps = 300;
    c->clean_percent = 30;
    c->unread_percent = 100;
    c->clock_step_ms = 40;
    c->turn_percent = 100;
    c->for_good_percent = 0;
    often(c, EVENT_crash, 40);
    often(c, EVENT_execute, 10);
    often(c, EVENT_execute_dead, 1);
    often(c, EVENT_start, 1);
}

static void profile_series_refused(struct sim_config *c)
{
    only(c, 4);
    series(c);
    c->refuse_percent = 50;
    often(c, EVENT_redis_refuse, 40);
}

static void profile_series_lost(struct sim_config *c)
{
    only(c, 4);
    series(c);
    c->faults_from = 40;
    c->lag_ms = 5000;
    c->lose_tail_percent = 100;
    often(c, EVENT_redis_restart, 10);
    often(c, EVENT_fsync, 1);
}

/* Few events at a time, from both daemons. */
static void events(struct sim_config *c)
{
    c->ops_percent = 60;
    c->turn_percent = 80;
    often(c, EVENT_hit, 200);
}

static void profile_events_deleted(struct sim_config *c)
{
    only(c, 0);
    events(c);
    c->clean_percent = 20;
    c->own_numbers = true;
}

static void profile_events_lost(struct sim_config *c)
{
    only(c, 4);
    events(c);
    c->faults_from = 40;
    c->lag_ms = 5000;
    c->lose_tail_percent = 100;
    often(c, EVENT_redis_restart, 10);
    often(c, EVENT_fsync, 1);
}

/* And frames are held during that, as before a failover. */
static void profile_events_held(struct sim_config *c)
{
    profile_events_lost(c);
    c->faults_most = 8;
    often(c, EVENT_hold, 40);
}

/* Two services, one of them cut off again and again for as long as the other needs to take over. */
static void profile_journal(struct sim_config *c)
{
    only(c, 8);
    series(c);
    c->daemons = SIM_DAEMONS;
    c->pause_ms = 3000;
    c->unread_percent = 90;
    c->coalesce.journal_least = 1;
    c->coalesce.journal_ms = 2000;
    c->coalesce.checkpoint_lines = 1;
    often(c, EVENT_cut, 40);
    often(c, EVENT_pause, 20);
    often(c, EVENT_crash, 10);
    often(c, EVENT_tick, 100);
    c->takeover_ms = 100;
    often(c, EVENT_reconnect, 4);
    often(c, EVENT_execute_dead, 1);
}

/* All links end at once, and each service notices the end of one link before the other. */
static void profile_journal_restart(struct sim_config *c)
{
    profile_journal(c);
    c->faults_most = 16;
    c->lose_tail_percent = 0;
    often(c, EVENT_redis_restart, 40);
    often(c, EVENT_deliver, 30);
    often(c, EVENT_reconnect, 100);
}

/* A daemon that takes one dies before it has ended its owner's links. */
static void profile_journal_taker(struct sim_config *c)
{
    profile_journal_restart(c);
    c->for_good_percent = 0;
    c->unheard = true; /* a life that waits for an epoch takes little */
    often(c, EVENT_crash_taking, 400);
}

/* Sent again and again, over cuts, to both daemons. */
static void profile_tokens(struct sim_config *c)
{
    profile_cut(c);
    c->daemons = SIM_DAEMONS;
    c->tokens_percent = 100;
    c->again_percent = 60;
    often(c, EVENT_hit, 200);
}

/* Redis fails over again and again, with all other faults, and the links follow one by one. */
static void profile_moves(struct sim_config *c)
{
    if (c->seed % 2 == 0) eager(c);
    if (c->seed % 4 < 2) only(c, 8);
    c->fresh = c->seed % 8 < 2;
    often(c, EVENT_wait, 4);
    c->moves = true;
    c->restores = false;
    c->killed_percent = 30;
    c->role_ms = 1000;
    c->faults_most = 8;
    often(c, EVENT_failover, 20);
    often(c, EVENT_follow, 20);
    often(c, EVENT_leave, 20);
    often(c, EVENT_total, 20);
}

/* The first epoch of a realm, and failovers around it. */
static void profile_realm(struct sim_config *c)
{
    profile_moves(c);
    only(c, 6);
    c->fresh = true;
    c->steps = 200;
    often(c, EVENT_fsync, 2);
    often(c, EVENT_failover, 100);
}

static void profile_moves_only(struct sim_config *c)
{
    profile_moves(c);
    only(c, 6);
    eager(c);
    c->daemons = SIM_DAEMONS;
    often(c, EVENT_wait, 20);
}

/* A daemon must see what it was answered, wherever it looks. */
static void profile_moves_alone(struct sim_config *c)
{
    profile_moves_only(c);
    c->daemons = 1;
    c->role_ms = 5000;
    often(c, EVENT_total, 200);
    often(c, EVENT_follow, 2);
    often(c, EVENT_leave, 8);
}

/* Another copy acknowledges than the one that is promoted. */
static void profile_moves_announced(struct sim_config *c)
{
    profile_moves_only(c);
    c->fresh = false;
    c->third_copy = true;
    often(c, EVENT_announce, 100);
    often(c, EVENT_failover, 100);
    often(c, EVENT_merge, 200);
}

/* The old primary takes writes for a while, and nothing waits for replicas. */
static void profile_split(struct sim_config *c)
{
    profile_moves(c);
    only(c, 8);
    eager(c);
    c->unfenced = true;
    c->unheard = c->seed % 4 > 0; /* else the second side waits for the first */
    c->keep_ms = 3600000;         /* no copy is older than the ledger */
    c->daemons = SIM_DAEMONS;
    often(c, EVENT_wait, 20);
    often(c, EVENT_merge, 200);
    c->split_percent = 100;
    c->killed_percent = 0;
    often(c, EVENT_demote, 2);
}

/* A server is demoted, takes over other data, and is promoted again, and links to it may stay all the while. */
static void profile_history(struct sim_config *c)
{
    profile_moves(c);
    c->killed_percent = 0;
    c->keeps_links = c->fails_back = true;
}

/* In half of the seeds clients wait, too. No rule uses this: a WAIT notices other data as well, and hides most faults. */
static void profile_history_waits(struct sim_config *c)
{
    profile_history(c);
    if (c->seed / 8 % 2 == 1) often(c, EVENT_client_wait, 20);
}

static void profile_history_eager(struct sim_config *c)
{
    profile_history(c);
    only(c, 8);
    eager(c);
    c->faults_from = 40;
    c->unheard = true; /* else one that did not notice the other data answers for it, and nothing moves */
    often(c, EVENT_failover, 100);
    often(c, EVENT_follow, 200);
    often(c, EVENT_leave, 2);
}

/* A daemon stands still while servers move under its fence, and every frame is kept until one has passed. */
static void profile_history_fence(struct sim_config *c)
{
    profile_history_eager(c);
    c->keeps_all = true;
    c->coalesce.replay_bytes = SIZE_MAX;
    c->daemons = SIM_DAEMONS;
    c->counter_hits = INT64_MAX; /* a scan would notice the other data, too */
    often(c, EVENT_pause, 200);
}

static void profile_history_sync(struct sim_config *c)
{
    profile_history_eager(c);
    c->daemons = SIM_DAEMONS;
    often(c, EVENT_wait, 200);
}

static void profile_history_journal(struct sim_config *c)
{
    profile_history_eager(c);
    series(c);
    c->daemons = SIM_DAEMONS;
    c->coalesce.journal_least = 1;
    c->coalesce.journal_ms = 500;
    c->takeover_ms = 100;
    often(c, EVENT_pause, 40);
}

/* Redis loses what it had answered, and its daemons live on. */
static void profile_replay(struct sim_config *c)
{
    only(c, 6);
    eager(c);
    c->keeps_all = true;
    c->coalesce.replay_bytes = SIZE_MAX;
    c->lose_tail_percent = 100;
    c->lag_ms = 5000;
    c->faults_from = 40;
    often(c, EVENT_redis_restart, 20);
    often(c, EVENT_fsync, 4);
}

static void profile_replay_journal(struct sim_config *c)
{
    profile_replay(c);
    series(c);
    c->coalesce.journal_least = 1;
    c->coalesce.journal_ms = 500;
}

static void profile_replay_events(struct sim_config *c)
{
    profile_replay(c);
    events(c);
    c->daemons = SIM_DAEMONS;
    c->coalesce.lease_first = 2;
}

static void profile_replay_cut(struct sim_config *c)
{
    profile_replay(c);
    c->faults_most = 12;
    often(c, EVENT_cut, 40);
    often(c, EVENT_execute_dead, 20);
}

static void profile_replay_total(struct sim_config *c)
{
    profile_replay(c);
    often(c, EVENT_total, 60);
}

/* Each Redis, and each of its links, fails alone, in addition to what fails for all: of eight seeds two have failovers, and in two
 * an old copy of one is put back. */
static void profile_lanes(struct sim_config *c)
{
    unsigned kind = (unsigned)(c->seed / 3 % 8);
    if (c->seed % 2 == 0) eager(c);
    if (kind < 4) only(c, 8);
    if (kind < 2) profile_restored(c);
    if (kind < 2) often(c, EVENT_merge, 200);
    if (kind > 5) profile_moves(c);
    c->lanes = 2 + (unsigned)(c->seed % (SIM_LANES - 1));
    if (c->lanes > 2) c->counters = 1;
    c->partial &= c->counters == SIM_COUNTERS;
    c->hashes = SIM_HASHES;
    c->ops_percent = c->clean_percent = 0;
    c->feeds = false;
    c->restores = kind < 2;
    c->steps = kind < 2 ? 400 : 150 + c->steps / 8;
    c->away_percent = 60;
}

/* Nothing fails but what is named. */
static void profile_lanes_only(struct sim_config *c)
{
    profile_lanes(c);
    only(c, 6);
    eager(c);
}

/* The same increments are sent again to other lives. */
static void profile_lanes_tokens(struct sim_config *c)
{
    profile_lanes_only(c);
    c->tokens_percent = 100;
    c->again_percent = 60;
    often(c, EVENT_crash, 20);
    often(c, EVENT_hit, 200);
}

static void profile_lanes_old(struct sim_config *c)
{
    profile_old(c);
    c->lanes = 2;
    c->hashes = SIM_HASHES;
}

/* One lane's Redis is behind while complete_until of the others moves on. */
static void profile_lanes_until(struct sim_config *c)
{
    profile_lanes_only(c);
    c->coalesce.doubt_ms = c->answer_ms = c->until_ms = 100;
    often(c, EVENT_cut, 20);
    often(c, EVENT_clock, 60);
}

#define COALESCE(name, rule, faults, seeds, profile, without)                                                \
    ((struct sim_rule){name, without, (uint32_t)(rule), 0, 0, 0, 0, faults, seeds, profile, 0})
/* Owed ZADDs heal what these prevent, so the fault shows only when both are off; alone, a daemon needs none. */
#define UNHEALED(name, rule, faults, seeds, profile, without)                                                \
    ((struct sim_rule){name, without, rule, 0, 0, RULE_OWED, 0, faults, seeds, profile, 0})
/* The same for names in known:. */
#define UNMENDED(name, rule, faults, seeds, profile, without)                                                \
    ((struct sim_rule){name, without, rule, 0, 0, RULE_SERIES_OWED, 0, faults, seeds, profile, 0})
/* And for places in tb. */
#define UNPLACED(name, rule, faults, seeds, profile, without)                                                \
    ((struct sim_rule){name, without, rule, 0, 0, RULE_BUCKET_OWED, 0, faults, seeds, profile, 0})
#define SYNC(name, rule, faults, seeds, profile, without)                                                    \
    ((struct sim_rule){name, without, 0, rule, 0, 0, 0, faults, seeds, profile, 0})
#define WORLD(name, rule, faults, seeds, profile, without)                                                   \
    ((struct sim_rule){name, without, 0, 0, rule, 0, 0, faults, seeds, profile, 0})
#define LANES(name, rule, faults, seeds, profile, without)                                                   \
    ((struct sim_rule){name, without, 0, 0, 0, 0, 0, faults, seeds, profile, rule})
/* No rule, but a profile to run: `sim_run --profile NAME`. */
#define PROFILE(name, profile, what) ((struct sim_rule){name, what, 0, 0, 0, 0, 0, 0, 0, profile, 0})

/* Without the barrier the gate would hold all merges, once Redis lost a claim that is merged. */
#define UNGATED(name, sync, world, faults, seeds, profile, without)                                          \
    ((struct sim_rule){name, without, 0, sync, world, 0, RULE_GATE, faults, seeds, profile, 0})

/* The fault shows only when these others are off too. */
#define UNAIDED(name, sync, world, too, faults, seeds, profile, without)                                     \
    ((struct sim_rule){name, without, 0, sync, world, 0, too, faults, seeds, profile, 0})

const struct sim_rule sim_rules[] = {
    SYNC("gate", RULE_GATE, SHOWS(DOUBLE), 2000, profile_restored,
         "an old copy of Redis is put back: what it has is claimed and merged again"),
    UNAIDED("gate_all_links", 0, WORLD_ALL_LINKS, RULE_GEN_ID, SHOWS(DOUBLE) | SHOWS(STUCK), 10000,
            profile_restored,
            "a claim by a link that is already at the old copy raises its gen before the gate asks for it"),
    WORLD("gate_again", WORLD_GATE_AGAIN, SHOWS(DOUBLE), 5000, profile_swapped,
          "an old copy is put in place under tallyd's links: what it has is merged again"),
    UNGATED("barrier", RULE_BARRIER, 0, SHOWS(DOUBLE), 2000, profile_tail,
            "merged, then Redis loses the claim: merged again under another id"),
    UNGATED("fence_write", 0, WORLD_FENCE_WRITE, SHOWS(DOUBLE) | SHOWS(LOSS), 2000, profile_tail,
            "WAITAOF on a link that wrote nothing answers at once"),
    UNGATED("rescan", RULE_RESCAN, 0, SHOWS(DOUBLE) | SHOWS(LOSS), 5000, profile_tail_cut,
            "rows scanned before Redis lost its tail are merged after it"),
    WORLD("ledger", WORLD_LEDGER, SHOWS(DOUBLE), 1000, profile_crash, "merged, crash, adopted, merged again"),
    WORLD("renamenx", WORLD_RENAMENX, SHOWS(LOSS) | SHOWS(STUCK), 1000, profile_twice,
          "RENAME overwrites a claimed hash"),
    COALESCE("claim_once", RULE_CLAIM_ONCE, SHOWS(LOSS) | SHOWS(STUCK), 10000, profile_claim_once,
             "new hits stand under an id that the ledger knows"),
    WORLD("cut_by_format", WORLD_CUT, SHOWS(LOSS) | SHOWS(DOUBLE) | SHOWS(STUCK), 2000, profile_other_cut,
          "an adopter cuts chunks that the ledger does not know"),
    WORLD("registry_in_script", WORLD_REGISTRY, SHOWS(LOSS) | SHOWS(STUCK), 1000, profile_cut,
          "renamed, but in no registry"),
    WORLD("packed_in_script", WORLD_PACK, SHOWS(LOSS) | SHOWS(DOUBLE), 1000, profile_packed,
          "packed, then hit, then deleted; or packed, and never deleted"),
    WORLD("format_known", WORLD_FORMAT, SHOWS(LOSS), 1000, profile_older,
          "a tallyd of the version before finds no hash in the batch, and discards it"),
    WORLD("life_in_seq", WORLD_LIFE, SHOWS(LOSS) | SHOWS(PROTOCOL), 1000, profile_life,
          "the seq of an earlier life is taken for one's own"),
    COALESCE("kill_before_seq", RULE_KILL, SHOWS(DOUBLE), 1000, profile_cut,
             "an unread frame runs after all"),
    COALESCE("kill_then_look", RULE_KILL_FIRST, SHOWS(DOUBLE), 2000, profile_cut,
             "an unread frame runs between the look and the kill"),
    UNHEALED("kill_for_claim", RULE_KILL_FOR_CLAIM, SHOWS(STUCK), 20000, profile_alone_claim,
             "an unread claim runs behind a frame that was sent later"),
    COALESCE("one_in_flight", RULE_ONE_IN_FLIGHT, SHOWS(LOSS) | SHOWS(ANSWER), 4000, profile_two_frames,
             "a refused frame is taken for applied when the next one was"),
    UNHEALED("dirty_at_send", RULE_DIRTY_AT_SEND, SHOWS(STUCK), 3000, profile_alone,
             "a late reply makes a claimed hash known dirty"),
    UNHEALED("forget_at_send", RULE_FORGET_AT_SEND, SHOWS(STUCK), 1000, profile_alone,
             "a frame behind the claim leaves the ZADD out"),
    UNHEALED("refused_as_is", RULE_REFUSED_AS_IS, SHOWS(STUCK), 1000, profile_alone_refused,
             "a refusal brings back what a claim had forgotten"),
    UNHEALED("resend_all_zadd", RULE_RESEND_ALL_ZADD, SHOWS(STUCK), 10000, profile_alone_lost,
             "a frame sent again makes a hash that is in no index"),
    COALESCE("owed", RULE_OWED, SHOWS(STUCK), 5000, profile_pair,
             "another process claimed the hash before the frame ran"),
    COALESCE("owed_after_refusal", RULE_OWED_AFTER_REFUSAL, SHOWS(STUCK), 5000, profile_pair_refused,
             "the frame with the owed ZADD was refused"),
    COALESCE("share_back", RULE_SHARE_BACK, SHOWS(BOOKS), 1000, profile_cell_errors,
             "tally:accepted keeps what an increment that failed would have added"),
    COALESCE("answered_never_sent", RULE_ANSWERED_NEVER_SENT, SHOWS(ANSWER), 1000, profile_doubt,
             "a hit answered with outcome unknown is sent again"),
    COALESCE("series_owed", RULE_SERIES_OWED, SHOWS(STUCK), 1000, profile_deleted,
             "samples that came into being behind a cleaner are in no index"),
    UNMENDED("series_forget", RULE_SERIES_FORGET, SHOWS(STUCK), 1000, profile_series_refused,
             "the ZADD of a refused frame is taken for done"),
    UNMENDED("series_resend", RULE_SERIES_RESEND, SHOWS(STUCK), 2000, profile_series_lost,
             "a frame sent again makes samples whose ZADD Redis has lost"),
    COALESCE("events_owed", RULE_EVENTS_OWED, SHOWS(STUCK), 2000, profile_events_deleted,
             "the preener takes out a log that is written without its name"),
    COALESCE("lease_forget", RULE_LEASE_FORGET, SHOWS(LOSS) | SHOWS(STUCK), 5000, profile_events_lost,
             "numbers are given of a lease that Redis has lost"),
    COALESCE("lease_resend", RULE_LEASE_RESEND, SHOWS(LOSS), 20000, profile_events_lost,
             "a frame sent again has numbers of a lease that Redis has lost"),
    COALESCE("lease_held", RULE_LEASE_HELD, SHOWS(LOSS), 20000, profile_events_held,
             "a frame that was held through a cut has numbers of a lease that Redis has lost"),
    WORLD("leased_stays", WORLD_LEASED, SHOWS(LOSS), 5000, profile_events_deleted,
          "an own id becomes a number that a lease still holds"),
    COALESCE("journal_undo", RULE_JOURNAL_UNDO, SHOWS(DOUBLE) | SHOWS(LOSS) | SHOWS(STUCK) | SHOWS(ANSWER),
             1000, profile_series_refused, "a journal is believed to hold what its frame was refused"),
    COALESCE("journal_look", RULE_JOURNAL_LOOK, SHOWS(DOUBLE) | SHOWS(LOSS), 5000, profile_journal,
             "what another one took over is brought home twice"),
    WORLD("journal_kill", WORLD_JOURNAL_KILL, SHOWS(DOUBLE) | SHOWS(LOSS) | SHOWS(STUCK), 20000,
          profile_journal, "a frame of its owner runs behind the reading of a journal"),
    WORLD("take_owner", WORLD_TAKE_OWNER, SHOWS(DOUBLE) | SHOWS(LOSS), 20000, profile_journal,
          "two take over the same journal"),
    WORLD("take_link", WORLD_TAKE_LINK, SHOWS(DOUBLE) | SHOWS(LOSS), 20000, profile_journal_restart,
          "a journal is given to coalesce that another one has taken over since"),
    WORLD("take_all", WORLD_TAKE_ALL, SHOWS(DOUBLE) | SHOWS(LOSS), 5000, profile_journal_taker,
          "a journal taken over twice is brought home by its first owner, too"),
    COALESCE("takeover_server", RULE_TAKEOVER_SERVER, SHOWS(PROTOCOL), 5000, profile_journal_restart,
             "a list from the server before ends the links of a neighbour that is well"),
    COALESCE("takeover_own", RULE_TAKEOVER_OWN, SHOWS(STUCK), 1000, profile_series_lost,
             "after Redis lost its tail nobody brings home what stands there"),
    COALESCE("bucket_owed", RULE_BUCKET_OWED, SHOWS(STUCK), 1000, profile_deleted,
             "hits that came into being behind who deleted a timebox have no bucket in tb."),
    UNPLACED("bucket_forget", RULE_BUCKET_FORGET, SHOWS(STUCK) | SHOWS(ANSWER), 2000, profile_series_lost,
             "a bucket that Redis has lost is taken for one that stands"),
    UNPLACED("bucket_resend", RULE_BUCKET_RESEND, SHOWS(STUCK), 4000, profile_series_lost,
             "a frame sent again hits a bucket that Redis has lost"),
    WORLD("unheard_mended", WORLD_MENDED, SHOWS(STUCK), 2000, profile_unheard,
          "what an unread frame of a dead daemon made behind who deleted it is in no index"),
    COALESCE("replay", RULE_REPLAY, SHOWS(LOSS), 1000, profile_replay,
             "answered hits that Redis lost are gone, though tallyd lives"),
    COALESCE("replay_look", RULE_REPLAY_LOOK, SHOWS(DOUBLE), 1000, profile_replay_cut,
             "what Redis has is sent again"),
    COALESCE("replay_first", RULE_REPLAY_FIRST, SHOWS(LOSS) | SHOWS(DOUBLE), 5000, profile_replay_cut,
             "the number of a newer frame says of those that are not sent again yet that Redis has them"),
    COALESCE("replay_fence", RULE_REPLAY_FENCE, SHOWS(LOSS), 5000, profile_replay,
             "a fence releases a frame that was answered behind its write"),
    COALESCE("replay_home", RULE_REPLAY_HOME, SHOWS(DOUBLE), 2000, profile_replay_journal,
             "what came out of a journal is sent again, and stands in the journal still"),
    WORLD("kept_number", WORLD_KEPT_NUMBER, SHOWS(LOSS), 5000, profile_replay_events,
          "an event that is sent again takes a number that another tallyd has, or is refused it"),
    WORLD("caught_up", WORLD_CAUGHT_UP, SHOWS(LOSS), 5000, profile_replay_total,
          "a total, or CTR.SYNC, goes by a Redis that lacks what was answered"),
    WORLD("token_once", WORLD_TOKEN_ONCE, SHOWS(DOUBLE), 1000, profile_tokens,
          "an increment that was sent again counts again"),
    WORLD("token_with_count", WORLD_TOKEN_WITH, SHOWS(DOUBLE), 1000, profile_tokens,
          "an increment whose token was lost behind it is sent again, and counts again"),
    WORLD("kill_named", WORLD_KILL_NAMED, SHOWS(STUCK), 2000, profile_named,
          "an unread frame of the life before runs behind a claim"),
    WORLD("walk_by_timer", WORLD_WALK_TIMER, SHOWS(STUCK), 2000, profile_for_good,
          "an unread frame of a daemon that never returns makes a hash that is in no index"),
    SYNC("adoption", RULE_ADOPT, SHOWS(STUCK), 1000, profile_for_good, "nobody returns for the batch"),
    SYNC("give_up", RULE_GIVE_UP, SHOWS(DOUBLE), 2000, profile_old, "a run outlives its ledger rows"),
    SYNC("prune_not_standing", RULE_PRUNE_STANDING, SHOWS(DOUBLE), 2000, profile_old,
         "the ledger forgets a batch that still stands"),
    SYNC("cutoff_first", RULE_PRUNE_CUTOFF, SHOWS(DOUBLE), 10000, profile_slow_prune,
         "the ledger forgets a batch that was claimed after it was asked what stands"),
    SYNC("keep", RULE_KEEP, SHOWS(LOSS), 300, profile_keep,
         "what was merged and discarded is lost with the tail of MySQL"),
    SYNC("keep_seen", RULE_KEEP_SEEN, SHOWS(LOSS), 2000, profile_keep_paused,
         "a daemon that stood still discards what it kept, before it hears that MySQL moved"),
    SYNC("until_slack", RULE_UNTIL_SLACK, SHOWS(LOSS), 1000, profile_until,
         "complete_until passes a hit that is on its way to Redis"),
    SYNC("until_order", RULE_UNTIL_ORDER, SHOWS(LOSS), 5000, profile_until,
         "a hash is claimed after the batches were asked and before the dirty index is"),
    WORLD("clock_runs", WORLD_CLOCK, SHOWS(DOUBLE), 1000, profile_sleep,
          "a run that slept takes itself for young"),
    SYNC("total_by_gen", RULE_TOTAL_BY_GEN, SHOWS(DOUBLE), 5000, profile_totals,
         "a live total has what was claimed and merged after Redis was read twice"),
    WORLD("total_by_chunk", WORLD_BY_CHUNK, SHOWS(LOSS), 2000, profile_totals,
          "a live total lacks rows of a batch of which one chunk is merged"),
    SYNC("sync_highest", RULE_SYNC_HIGHEST, SHOWS(LOSS), 2000, profile_leap,
         "after Redis' clock was put back, CTR.SYNC ALL does not see what is pending"),
    WORLD("one_server", WORLD_ONE_SERVER | WORLD_ALL_LINKS | WORLD_NUMBER,
          SHOWS(DOUBLE) | SHOWS(LOSS) | SHOWS(STUCK), 10000, profile_moves_alone,
          "one link follows a failover, and the others stay where nothing new is written"),
    UNGATED("hold", 0, WORLD_HOLD, SHOWS(DOUBLE) | SHOWS(LOSS), 10000, profile_moves_announced,
            "acknowledged by one copy and merged, while another is promoted that lacks it"),
    WORLD("realm_fence", WORLD_REALM_FENCE, SHOWS(STUCK), 1000, profile_realm,
          "a failover takes the realm from a Redis that MySQL merges for"),
    SYNC("realm_kept", RULE_REALM_KEPT, SHOWS(STUCK), 1000, profile_realm,
         "a failover takes the realm from Redis before tallyd sees that it stands there, and none is free "
         "any more"),
    WORLD("epoch", WORLD_EPOCH, SHOWS(DOUBLE), 10000, profile_split,
          "both sides of a split brain merge what both had"),
    SYNC("gen_id", RULE_GEN_ID, SHOWS(DOUBLE), 20000, profile_split,
         "the other side of a split brain has made as many claims, others than those that are merged"),
    SYNC("total_epoch", RULE_TOTAL_EPOCH, SHOWS(DOUBLE), 20000, profile_split,
         "a live total reads a Redis that is no primary any more, behind another one's merge of as high a "
         "gen"),
    UNAIDED("rescan_moves", RULE_RESCAN, 0, RULE_GATE | RULE_EPOCH_OF_RUN | RULE_FENCE_HISTORY,
            SHOWS(DOUBLE) | SHOWS(LOSS), 10000, profile_moves_only,
            "rows scanned at the old primary are merged after a fence of the new one"),
    WORLD("link_history", WORLD_WATCH, SHOWS(LOSS) | SHOWS(DOUBLE), 20000, profile_history_eager,
          "a frame runs on a server that took over other data since the one before: its number hides what is "
          "lost"),
    WORLD("link_number", WORLD_NUMBER, SHOWS(LOSS) | SHOWS(STUCK), 20000, profile_history,
          "a total, or a fence, goes by a server that took over other data, and whose links are there still"),
    WORLD("fence_key", WORLD_FENCE_KEY | WORLD_GATE_AGAIN, SHOWS(LOSS) | SHOWS(DOUBLE), 20000,
          profile_history_fence,
          "a server takes over other data between a fence's write and its look, and the fence passes"),
    SYNC("wait_key", RULE_WAIT_KEY, SHOWS(STUCK), 1000, profile_waits,
         "after a client's WAIT no fence finds what it wrote"),
    SYNC("until_history", RULE_UNTIL_HISTORY, SHOWS(LOSS), 20000, profile_history_eager,
         "a claim is lost between the two reads of complete_until, and its hash is in neither"),
    SYNC("sync_history", RULE_SYNC_HISTORY, SHOWS(LOSS), 20000, profile_history_sync,
         "a claim is lost between the two reads of CTR.SYNC, and its hash is in neither"),
    WORLD("take_touches", WORLD_TAKE_TOUCHES, SHOWS(DOUBLE), 20000, profile_history_journal,
          "a journal is taken over, and its owner's links live through that elsewhere"),
    WORLD("rejects_kept", WORLD_REJECTS, SHOWS(LOSS), 300, profile_poison,
          "a row that MySQL refuses is in no table"),
    WORLD("look_locks", WORLD_LOOK, SHOWS(LOSS), 300, profile_missing_eager,
          "a row is deleted between the look for it and its update, and its hits are in no table"),
    WORLD("row_constant", WORLD_CONSTANT, SHOWS(LOSS) | SHOWS(DOUBLE) | SHOWS(ANSWER), 300,
          profile_missing_eager, "two counters of one table, told apart by a constant, have one row"),
    WORLD("row_counts", WORLD_COUNTS, SHOWS(LOSS), 300, profile_missing_eager,
          "of several counts of a row the first alone is written"),
    WORLD("witness", WORLD_WITNESS, SHOWS(LOSS), 300, profile_refusing_eager,
          "a table takes no row for a while, and its rows become rejects"),
    WORLD("left_kept", WORLD_LEFT, SHOWS(LOSS), 300, profile_refusing_eager,
          "what a merge left for its locks is taken for merged"),
    WORLD("left_alone", WORLD_PART, SHOWS(DOUBLE), 300, profile_refusing_eager,
          "what was merged beside locked rows is merged again with them"),
    SYNC("stores_apart", RULE_STORES_APART, SHOWS(STUCK), 1000, profile_refusing_eager,
         "other stores wait for one of which MySQL takes no row"),
    LANES("lane_fixed", LANES_FIXED, SHOWS(DOUBLE), 2000, profile_lanes_tokens,
          "another life looks for the same store's tokens in another lane"),
    LANES("lane_order", LANES_ORDER, SHOWS(ANSWER) | SHOWS(LOSS), 1000, profile_lanes,
          "who is answered first by another lane takes that for the answer to his first request"),
    LANES("lane_realm", LANES_REALM, SHOWS(STUCK) | SHOWS(DOUBLE), 1000, profile_lanes,
          "lanes take each other's epochs, and compare their gens with each other's"),
    LANES("lane_prune", LANES_PRUNE, SHOWS(DOUBLE), 20000, profile_lanes_old,
          "the ledger forgets another lane's batch that still stands"),
    LANES("lane_until", LANES_UNTIL, SHOWS(LOSS), 5000, profile_lanes_until,
          "complete_until passes hits of a lane that is behind"),
    LANES("lane_alone", LANES_ALONE, SHOWS(STUCK), 1000, profile_lanes,
          "hits of all lanes wait for the one whose Redis is away"),
    PROFILE("lanes", profile_lanes, "several Redis, each of which fails alone, and clients over all of them"),
    PROFILE("refusing", profile_refusing,
            "MySQL refuses rows of some stores, or all rows of a table, and the shop locks some"),
    PROFILE("unlocked", profile_unlocked, "counters have no locks in Redis"),
    PROFILE("missing", profile_missing, "counters make no rows, and the shop makes and deletes them"),
    PROFILE("moves", profile_moves, "Redis fails over, and the links follow one by one"),
    PROFILE("split", profile_split,
            "the same, the old primary takes writes for a while, and no replica is waited for"),
    PROFILE("history", profile_history_waits, "the same as moves, and servers come back with their links"),
};
const unsigned sim_rules_n = sizeof sim_rules / sizeof sim_rules[0];

const struct sim_rule *sim_rule_find(const char *name)
{
    for (unsigned i = 0; i < sim_rules_n; i++)
        if (strcmp(sim_rules[i].name, name) == 0) return &sim_rules[i];
    return NULL;
}

/* The search goes as far as ever: where the simulator draws otherwise, it takes longer again, until the number here is mended. */
static const struct {
    const char *rule;
    uint64_t seed;
} late[] = {{"take_link", 22150},    {"total_epoch", 5550},   {"takeover_server", 3000},
            {"gen_id", 2200},        {"kept_number", 1650},   {"take_all", 1300},
            {"cutoff_first", 1130},  {"sync_history", 1200},  {"fence_key", 1450},
            {"rescan", 1000},        {"bucket_resend", 1000}, {"resend_all_zadd", 11760},
            {"gate_all_links", 850}, {"events_owed", 580},    {"epoch", 560},
            {"take_touches", 17},    {"gate_again", 11},      {"lease_held", 480}};

uint64_t sim_rule_first_seed(const struct sim_rule *rule)
{
    for (unsigned i = 0; i < sizeof late / sizeof late[0]; i++)
        if (strcmp(late[i].rule, rule->name) == 0) return late[i].seed;
    return 1;
}
