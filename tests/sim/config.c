/* tests/sim/config.c - the numbers of one run, drawn from its seed. Every run has a temper of its own: some
 * see no fault at all, some many; some frames hold one cell, some all; time crawls or leaps. */
#include "sim/model.h"

static uint64_t between(struct prng *p, uint64_t low, uint64_t high)
{
    return low + prng_below(p, high - low + 1);
}

static void draw_weights(struct sim_config *c, struct prng *p)
{
    static const unsigned usual[EVENT_COUNT] = {
#define X(name, weight) [EVENT_##name] = weight,
        SIM_EVENTS(X)
#undef X
    };
    for (int i = 0; i < EVENT_COUNT; i++)
        c->weight[i] = 4 * usual[i];
    for (unsigned i = 0; i < 4; i++) { /* some things happen seldom, or often, in this run */
        unsigned at = (unsigned)prng_below(p, EVENTS_DRAWN);
        c->weight[at] = prng_percent(p, 50) ? c->weight[at] / 4 + 1 : c->weight[at] * 4;
    }
    static const unsigned faults[] = {0, 2, 4, 8, 16, 32};
    c->faults_most = faults[prng_below(p, 6)];
}

static void draw_world(struct sim_config *c, struct prng *p)
{
    c->counters = prng_percent(p, 70) ? 1 : SIM_COUNTERS;
    c->partial = c->counters == SIM_COUNTERS && prng_percent(p, 40);
    c->hashes = (unsigned)between(p, 1, SIM_HASHES);
    c->fields = (unsigned)between(p, 1, prng_percent(p, 75) ? 3 : SIM_HIT_FIELDS);
    c->steps = (unsigned)between(p, 200, 1500);
    c->hits_most = (unsigned)between(p, 8, 150);
    c->for_good_percent = !c->partial && prng_percent(p, 20) ? 50 : 0; /* a daemon must know each counter */
    c->turn_percent = prng_percent(p, 30) ? 100 : (unsigned)between(p, 20, 90);
    c->unread_percent = (unsigned)between(p, 20, 90);
    c->chunk_rows[0] = (uint32_t)between(p, 1, prng_percent(p, 75) ? 3 : 8);
    c->chunk_rows[1] = c->chunk_rows[0] % 3 + 1;
    c->counter_hits = prng_percent(p, 30) ? 1 : prng_percent(p, 50) ? hit_delta(6) : INT64_MAX;
    c->every_s = (uint32_t)between(p, 1, 2);
}

static void draw_twins(struct sim_config *c, struct prng *p)
{
    c->refuse_percent = (unsigned)between(p, 10, 90);
    c->claim_refuse_percent = (unsigned)between(p, 0, 50);
    c->repeat_percent = (unsigned)between(p, 0, 40);
    c->lose_tail_percent = (unsigned)between(p, 30, 100);
    c->lost_commit_percent = prng_percent(p, 50) ? (unsigned)between(p, 5, 50) : 0;
    c->table_refuses_percent = prng_percent(p, 10) ? 10 : 0;
    c->claim_fields_max = prng_percent(p, 70) ? CLAIM_FIELDS_MAX : between(p, 1, 6);
    c->keep_ms = 18000;
    c->unread_ms = 3000;
    c->wait_timeout_ms = 3000;
}

static void draw_clock(struct sim_config *c, struct prng *p)
{
    c->clock_step_ms = (unsigned)between(p, 10, 200);
    c->clock_jump_percent = (unsigned)between(p, 0, 10);
    c->clock_jump_ms = between(p, 1000, 5000);
    c->lag_ms = 2500;
    c->walk_ms = between(p, 1000, 5000);
    c->answer_ms = (uint32_t)between(p, 100, 1500);
    c->prune_ms = (uint32_t)between(p, 300, 3000);
    c->until_ms = (uint32_t)between(p, 100, 1000);
    c->pause_ms = prng_percent(p, 50) ? 500 : 15000;
}

static void draw_coalesce(struct coalesce_config *c, struct prng *p)
{
    *c = coalesce_config_default;
    c->cells_max = (uint32_t)between(p, 1, SIM_CELLS);
    c->answers_max = (uint32_t)between(p, 2, 20);
    if (prng_percent(p, 20)) c->bytes_max = (uint32_t)between(p, 64, 256);
    if (prng_percent(p, 20)) c->entries_max = (uint32_t)between(p, 1, SIM_HASHES);
    c->doubt_ms = (uint32_t)between(p, 100, 2000);
    c->busy_ms = (uint32_t)between(p, 100, 2000);
    c->gather_turns = (uint32_t)between(p, 0, 3);
    c->series_max = 8;
    c->journal_least = (uint32_t)between(p, 1, 3);
    c->journal_ms = (uint32_t)between(p, 0, 500);
    c->journal_ops_max = (uint32_t)between(p, 1, 20);
    c->journal_bytes_max = 512;
    c->checkpoint_lines = (uint32_t)between(p, 1, 10);
    (void)between(p, 1, 4);
    if (prng_percent(p, 70)) c->at_once_cells = (uint32_t)between(p, 1, 3);
}

/* Rows for paced claims: for all of them, for few, for none. */
static void draw_pace(struct sync_config *c, struct prng *p)
{
    if (prng_percent(p, 40)) return;
    c->rows_burst = (uint32_t)between(p, 0, 4);
    c->rows_free_per_s = (uint32_t)between(p, 0, 3);
    c->hits_a_row = (uint32_t)between(p, 1, 20);
    c->paced_wait_ms = (uint32_t)between(p, 0, 1000);
}

static void draw_sync(struct sync_config *c, struct prng *p)
{
    *c = sync_config_default;
    c->runs_max = (uint32_t)between(p, 1, 6);
    c->claims_max = (uint32_t)between(p, 1, 2);
    c->chunks_max = (uint32_t)between(p, 1, 3);
    if (prng_percent(p, 20)) c->fields_max = between(p, 1, 6);
    c->claim_gap_ms = (uint32_t)between(p, 0, 100);
    c->claim_least = 1;
    c->poll_ms = (uint32_t)between(p, 50, 300);
    c->beat_ms = 300;
    c->adopt_ms = 300;
    c->stale_ms = (uint32_t)between(p, 600, 2000);
    c->retry_ms = 20;
    c->retry_most_ms = 300;
    c->held_ms = 500;
    c->give_up_ms = 6000;
    c->wait_ms = 2000;
    if (prng_percent(p, 20)) c->due_max = CLAIM_HASHES_MAX + 2;
    draw_pace(c, p);
}

static void draw_ops(struct sim_config *c, struct prng *p)
{
    c->ops_percent = prng_percent(p, 60) ? (unsigned)between(p, 5, 70) : 0;
    c->clean_percent = prng_percent(p, 30) ? (unsigned)between(p, 1, 20) : 0;
    c->feeds = prng_percent(p, 50);
    c->own_numbers = prng_percent(p, 30);
    c->coalesce.lease_first = (uint32_t)between(p, 1, 4);
    c->coalesce.lease_most = (uint32_t)between(p, 4, 10);
    c->tokens_percent = prng_percent(p, 50) ? (unsigned)between(p, 10, 100) : 0;
    c->again_percent = (unsigned)between(p, 10, 80);
}

/* Only while the clock does not leap are the times of series, boxes and events known in advance. */
static void draw_leaps(struct sim_config *c, struct prng *p)
{
    bool leaps = c->ops_percent == 0 && !c->feeds && prng_percent(p, 60);
    c->leap_most_ms = leaps ? between(p, 1000, 8000) : 0;
}

/* None of the hits, all of them, or some. */
static void draw_down(struct sim_config *c, struct prng *p)
{
    if (c->feeds || prng_percent(p, 50)) return;
    bool all = prng_percent(p, 30);
    for (unsigned k = 0; k < SIM_HITS; k++)
        if (all || prng_percent(p, 50)) c->down |= UINT64_C(3) << (2 * k);
}

static void draw_replay(struct sim_config *c, struct prng *p)
{
    c->keeps_all = prng_percent(p, 75);
    c->coalesce.replay_bytes = c->keeps_all ? SIZE_MAX : between(p, 0, 4) * SIM_KEPT_BYTES;
}

void sim_config_draw(struct sim_config *c, uint64_t seed, unsigned daemons)
{
    struct prng p = {seed * UINT64_C(0xD1342543DE82EF95) + 1};
    *c = (struct sim_config){.seed = seed, .lanes = 1};
    c->daemons = prng_percent(&p, 30) ? 1 : SIM_DAEMONS;
    if (daemons != 0) c->daemons = daemons;
    draw_weights(c, &p);
    draw_world(c, &p);
    draw_twins(c, &p);
    draw_clock(c, &p);
    draw_coalesce(&c->coalesce, &p);
    draw_sync(&c->sync, &p);
    draw_ops(c, &p);
    draw_leaps(c, &p);
    c->restores = c->ops_percent == 0 && !c->feeds && c->tokens_percent == 0;
    draw_down(c, &p);
    c->takeover_ms = (uint32_t)between(&p, 100, 2000);
    if (prng_percent(&p, 30)) c->sync.keep_ms = between(&p, 300, 3000);
    draw_replay(c, &p);
    c->pack_fields = (unsigned)between(&p, 0, SIM_FIELDS);
}
