/* test_takeover.c - which journals are taken over, and when it is looked for them again. */
#include "unit/coalesce/world.h"

#define EVERY_MS 10000
#define MINE "unit:0123456789abcdef"

static struct takeover takeover;
static struct journal_list *listing; /* asked, not answered */
static struct journal_take *taking;
static int lists, takes;
static const char *list_server; /* the server that gives the list */

static void port_list(void *arg, struct journal_list *list)
{
    listing = list;
    snprintf(list->run_id, sizeof list->run_id, "%s", list_server);
    lists++;
}

static void port_take(void *arg, struct journal_take *take)
{
    taking = take;
    takes++;
}

static void begin(void)
{
    const struct takeover_ports ports = {.list = port_list, .take = port_take};
    lists = takes = 0;
    list_server = RUN_A;
    takeover_init(&takeover, world->c, &ports, EVERY_MS);
    takeover_tick(&takeover);
    assert_int_equal(lists, 1);
}

static const struct listed_journal some[] = {{SLICE("a"), SLICE("other:1"), true},
                                             {SLICE("b"), SLICE("other:2"), false},
                                             {SLICE("c"), SLICE("unit:1"), true},
                                             {SLICE("d"), SLICE("unity:1"), true},
                                             {SLICE("e"), SLICE(MINE), true}};

static void list_answered(bool lost)
{
    listing->n = sizeof some / sizeof some[0];
    listing->all = heap_alloc(sizeof some);
    memcpy(listing->all, some, sizeof some);
    listing->lost = lost;
    listing->done(listing);
}

/* Checks that it asks for that journal, and answers whether it was taken. */
static void take_answered(const char *name, bool taken)
{
    struct journal_take *take = taking;
    assert_slice(take->name, name);
    taking = NULL;
    take->taken = taken;
    take->done(take);
}

static void look_comes_after(uint64_t ms)
{
    int before = lists;
    assert_false(takeover.busy);
    world->mono_ms += ms - 1;
    takeover_tick(&takeover);
    assert_int_equal(lists, before);
    world->mono_ms++;
    takeover_tick(&takeover);
    assert_int_equal(lists, before + 1);
    listing->done(listing);
}

TEST(those_of_the_dead_and_ours_are_taken_one_by_one)
{
    begin();
    list_answered(false);
    take_answered("b", true);
    assert_true(coalesce_has_journal(world->c, SLICE("b")));
    take_answered("c", false);
    assert_false(coalesce_has_journal(world->c, SLICE("c")));
    take_answered("e", true);
    assert_int_equal(takes, 3);
    look_comes_after(EVERY_MS);
}

TEST(what_coalesce_has_is_not_taken)
{
    begin();
    coalesce_adopt(world->c, SLICE("b"), SLICE(""));
    coalesce_adopt(world->c, SLICE("e"), SLICE(""));
    list_answered(false);
    take_answered("c", true);
    assert_int_equal(takes, 1);
    assert_false(takeover.busy);
}

/* Then tallyd does not know which links exist. */
TEST(a_list_that_is_lost_takes_nothing)
{
    begin();
    list_answered(true);
    assert_int_equal(takes, 0);
    look_comes_after(EVERY_MS / 10);
}

TEST(a_take_that_is_lost_ends_the_look)
{
    begin();
    list_answered(false);
    taking->lost = true;
    take_answered("b", false);
    assert_int_equal(takes, 1);
    look_comes_after(EVERY_MS / 10);
}

/* The links of others are another server's. */
TEST(a_list_of_another_server_takes_nothing)
{
    begin();
    cut();
    link_up(RUN_B, 8);
    list_answered(false);
    assert_int_equal(takes, 0);
    list_server = RUN_B;
    look_comes_after(EVERY_MS / 10);
}

TEST(it_looks_again_at_once_when_told_meanwhile)
{
    begin();
    takeover_soon(&takeover);
    takeover_tick(&takeover);
    assert_int_equal(lists, 1);
    listing->done(listing);
    takeover_tick(&takeover);
    assert_int_equal(lists, 2);
    listing->done(listing);
    look_comes_after(EVERY_MS);
}

TEST(stopped_it_takes_no_more)
{
    begin();
    list_answered(false);
    takeover_stop(&takeover);
    take_answered("b", true);
    assert_true(coalesce_has_journal(world->c, SLICE("b")));
    assert_int_equal(takes, 1);
    world->mono_ms += EVERY_MS;
    takeover_tick(&takeover);
    assert_int_equal(lists, 1);
    assert_false(takeover.busy);
}
