/* What MySQL refuses of a store: its batches wait, or its hashes; other stores, and other counters, do not. */
#include "world.h"

/* A claim of this key alone, sent to MySQL. */
static void to_merge(const char *key)
{
    due(VIEWS, key);
    tick_after(200);
    assert_int_equal(world->claims.n, 1);
    assert_slice(claim_out(0)->keys[0], key);
    claim_answered(CLAIM_STANDS, 2, 0);
    scan_of(VIEWS, key, 2, RUN_A);
    fence_answered(true, RUN_A);
    assert_int_equal(world->merges.n, 1);
}

static void none_taken(bool by_value)
{
    struct chunk *c = world->merges.all[0];
    c->by_value = by_value;
    snprintf(c->text, sizeof c->text, "none");
    merge_answered(MERGE_REFUSED);
}

static void taken(void)
{
    merged_whole();
}

static void again_to_merge(const char *key)
{
    assert_int_equal(world->scans.n, 1);
    scan_of(VIEWS, key, 2, RUN_A);
    fence_answered(true, RUN_A);
}

static void seconds(unsigned n)
{
    for (unsigned i = 0; i < 4 * n; i++)
        tick_after(250);
}

static bool is_claimed(const struct counter *c, const char *key)
{
    due(c, key);
    tick_after(200);
    return world->claims.n > 0;
}

static void locked(const char *key)
{
    struct chunk *c = world->merges.all[0];
    put_measured(&c->left, slice_str(key));
    snprintf(c->locked_by, sizeof c->locked_by, "thread 7");
    merge_answered(MERGE_LOCKED);
}

/* Its rows are locked: it is left alone, others are claimed, and when it is merged it is claimed again. */
TEST(a_locked_store_waits_alone)
{
    to_merge("p1");
    locked("p1");
    assert_false(is_claimed(VIEWS, "p1"));
    to_merge("p2");
    taken();
    seconds(1);
    again_to_merge("p1");
    taken();
    to_merge("p1");
    taken();
}

/* A table that refused all was mended; then rows of the same batch are refused. */
TEST(a_mended_table_is_not_held)
{
    to_merge("p1");
    merge_answered(MERGE_HELD);
    assert_false(is_claimed(VIEWS, "p2"));
    for (unsigned i = 0; i < 1000 && world->scans.n == 0; i++)
        tick_after(250);
    again_to_merge("p1");
    none_taken(false);
    assert_true(is_claimed(VIEWS, "p2"));
}

TEST(other_stores_go_on)
{
    to_merge("p1");
    none_taken(false);
    assert_false(is_claimed(VIEWS, "p1"));
    to_merge("p2");
    merge_answered(MERGE_DONE);
    seconds(1);
    again_to_merge("p1"); /* which MySQL may know to be at fault now */
    discard_answered(true);
    taken();
    to_merge("p1");
    taken();
}

TEST(one_store_holds_none)
{
    static const unsigned pauses[] = {3, 5, 9};
    to_merge("p1");
    none_taken(false);
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        assert_false(is_claimed(VIEWS, "p1"));
        seconds(pauses[i]); /* what came since may be taken */
        to_merge("p1");
        none_taken(false);
    }
    seconds(10);
    assert_false(is_claimed(VIEWS, "p1")); /* no more than four */
    assert_false(family_refuses(&world->s->families[0]));
    to_merge("p2");
    taken();
}

TEST(all_stores_are_tries)
{
    to_merge("p1");
    none_taken(false);
    to_merge("p2");
    none_taken(false);
    assert_true(family_refuses(&world->s->families[0]));
    assert_false(is_claimed(VIEWS, "p3"));
    assert_true(is_claimed(VOTES, "v1"));
    claim_answered(CLAIM_EMPTY, 0, 0);
    seconds(3);
    to_merge("p4");
    assert_false(is_claimed(VIEWS, "p5"));
    taken();
    assert_false(family_refuses(&world->s->families[0]));
    assert_true(is_claimed(VIEWS, "p5"));
}

TEST(values_are_at_fault_after_a_while)
{
    to_merge("p1");
    none_taken(true);
    for (int i = 0; i < 2; i++) {
        seconds(31);
        again_to_merge("p1");
        assert_int_equal(((struct chunk *)world->merges.all[0])->values_only, i == 1);
        none_taken(true);
    }
}

static char told[300];

static void store_note(void *arg, struct slice counter, struct slice store, int64_t rows, const char *why)
{
    snprintf(told + strlen(told), sizeof told - strlen(told), SLICE_FMT ":" SLICE_FMT ":%lld:%s ",
             SLICE_ARG(counter), SLICE_ARG(store), (long long)rows, why);
}

static void assert_waiting(const char *want)
{
    told[0] = '\0';
    sync_stores_waiting(world->s, store_note, NULL);
    assert_string_equal(told, want);
    assert_int_equal(STAT_GET(stores_waiting), want[0] != '\0');
}

static void rejected(uint32_t rows)
{
    struct chunk *c = world->merges.all[0];
    c->rejected[0].hash = 0;
    c->rejected[0].rows = c->rows_rejected = rows;
    c->rejected_n = 1;
    snprintf(c->text, sizeof c->text, "1264");
    taken();
}

TEST(many_rejects_make_a_store_wait)
{
    to_merge("p1");
    rejected(900);
    seconds(1);
    assert_waiting("");
    to_merge("p1");
    rejected(600); /* 1,000 a minute are paid for */
    seconds(1);
    assert_waiting("views:1:1500:1264 ");
    assert_false(is_claimed(VIEWS, "p1"));
    to_merge("p2");
    taken();
    seconds(31);
    assert_waiting("");
    to_merge("p1");
    rejected(100000);
    seconds(1);
    assert_waiting("views:1:101500:1264 ");
    seconds(601); /* at most */
    assert_waiting("");
    to_merge("p1");
    taken();
    seconds(62);
    assert_int_equal(world->s->families[0].stores.n, 0);
}

/* Of a batch from before the counter's key was another: its rows are rejects, and it names no store. */
TEST(a_key_of_before_is_a_store)
{
    due(VIEWS, "p1");
    tick_after(200);
    claim_answered(CLAIM_STANDS, 2, 0);
    scan_of(VIEWS, "views:of:1", 2, RUN_A);
    fence_answered(true, RUN_A);
    none_taken(false);
    seconds(31);
    scan_of(VIEWS, "views:of:1", 2, RUN_A);
    fence_answered(true, RUN_A);
    rejected(2000);
    seconds(1);
    assert_waiting("views:views:of:1:2000:1264 ");
    assert_true(is_claimed(VIEWS, "p1"));
}

TEST(names_in_the_queue_are_left_in_the_index)
{
    to_merge("p1");
    sync_redis(world->s, true);
    world->s->config.claims_max = 0;
    due(VIEWS, "p1");
    due(VIEWS, "p2");
    rejected(1500);
    assert_int_equal(world->s->due_n, 1);
    world->s->config.claims_max = CLAIMS_OUT_MAX;
    tick_after(200);
    assert_int_equal(claim_out(0)->keys_n, 1);
    assert_slice(claim_out(0)->keys[0], "p2");
}
