/* test_bounds.c - a full frame parks its clients, in order and for a limited time; the cache of hashes forgets. */
#include "unit/coalesce/world.h"

#include "coalesce/inside.h"

static struct coalesce_config small(void)
{
    struct coalesce_config c = coalesce_config_default;
    c.cells_max = 4;
    c.answers_max = 6;
    c.bytes_max = 78; /* five times `$2 p1 $1 0` and a little */
    c.entries_max = 8;
    c.at_once_cells = 2;
    return c;
}

static int small_open(void **state)
{
    struct coalesce_config c = small();
    world_make(&c);
    link_ready(RUN_A, 7);
    forget_did();
    return 0;
}

static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static void fill(char letter)
{
    for (int i = 0; i < 4; i++)
        HIT(letter, "p1", digits[i], 1);
}

#define SMALL(f) UNIT_IN(f, small_open, world_close)

/* --- bounds of a frame --- */

SMALL(cells_answers_and_bytes_are_bounded)
{
    fill('a');
    assert_int_equal(hit('b', "p1", "9", 1), ADD_FULL);
    HIT('b', "p1", "0", 1); /* a cell that is there has room */
    HIT('b', "p1", "0", 1);
    assert_int_equal(hit('b', "p1", "0", 1), ADD_FULL);
    assert_int_equal(literal('b', "+PONG\r\n"), ADD_FULL);
    turn_applied();
    HIT('a', "p1", "1", 1);
    char big[65] = {0};
    memset(big, 'x', 64);
    assert_int_equal(literal('a', big), ADD_FULL);
    big[63] = '\0';
    assert_int_equal(literal('a', big), ADD_OK);
    assert_int_equal(hit('b', "p1", "2", 1), ADD_FULL);
}

SMALL(room_for_a_transaction)
{
    bool never;
    assert_true(coalesce_room(world->c, 4, 10, &never));
    assert_false(never);
    HIT('a', "p1", "0", 1);
    assert_false(coalesce_room(world->c, 4, 10, &never));
    assert_false(never);
    assert_false(coalesce_room(world->c, 5, 10, &never));
    assert_true(never);
    assert_false(coalesce_room(world->c, 1, 79, &never));
    assert_true(never);
}

/* What coalesce_room() promised holds for |delta| up to COALESCE_ROOM_WEIGHT. */
SMALL(room_for_a_transaction_is_room_for_its_weight)
{
    struct coalesce_config c = coalesce_config_default;
    world_reopen(&c);
    bool never;
    for (int i = 0; i < 65; i++)
        HIT('a', "p1", "5", DELTA_MAX);
    assert_false(coalesce_room(world->c, 64, 64, &never));
    assert_false(never);
    turn();
    assert_true(coalesce_room(world->c, 64, 64, &never));
    for (int i = 0; i < 64; i++)
        HIT('a', "p1", "5", i % 2 == 0 ? DELTA_MAX : -DELTA_MAX);
}

/* --- parking --- */

static void park(char letter)
{
    client(letter)->greedy = true;
    coalesce_park(world->c, &client(letter)->o);
}

SMALL(parked_clients_go_on_in_their_order)
{
    fill('z');
    park('a');
    park('b');
    park('c');
    coalesce_park(world->c, &client('b')->o); /* twice is once */
    turn();
    assert_did("FABC");
    assert_int_equal(world->c->now->frame.cells_n, 3);
    frame_applied();
}

SMALL(who_finds_no_room_keeps_his_place_before_later_ones)
{
    fill('z');
    for (char l = 'a'; l <= 'f'; l++)
        park(l);
    turn();
    assert_did("FABCD");
    park('g');
    turn();
    assert_did("");
    frame_applied();
    turn();
    assert_did("FzEFG");
}

SMALL(a_frame_of_some_size_goes_before_the_answers_of_the_last)
{
    hit_goes('z', "p1", "0", 1);
    forget_did();
    HIT('a', "p1", "1", 1);
    HIT('a', "p1", "2", 1);
    HIT('b', "p1", "1", 1);
    frame_applied();
    assert_did("Fz");
    HIT('c', "p1", "3", 1);
    frame_applied();
    assert_did("ab");
    turn();
    assert_did("F");
}

SMALL(a_small_frame_waits_while_each_turn_brings_more)
{
    struct coalesce_config c = small();
    c.at_once_cells = 3;
    c.gather_turns = 2;
    c.gather_answers = 4;
    world_reopen(&c);
    HIT('a', "p1", "1", 1);
    assert_true(coalesce_turn(world->c));
    assert_did("");
    assert_false(coalesce_turn(world->c));
    assert_did("F");
    frame_applied();
    assert_did("a");
    for (int i = 0; i < 3; i++) {
        HIT('a', "p1", "1", 1);
        assert_int_equal(coalesce_turn(world->c), i < 2);
    }
    assert_did("F");
    frame_applied();
    forget_did();
    HIT('a', "p1", "1", 1);
    assert_true(coalesce_turn(world->c));
    HIT('b', "p1", "2", 1);
    HIT('b', "p1", "3", 1);
    assert_false(coalesce_turn(world->c));
    assert_did("F");
    frame_applied();
    forget_did();
    for (int i = 0; i < 4; i++)
        HIT('a', "p1", "1", 1);
    assert_false(coalesce_turn(world->c)); /* one cell, but many answers */
    assert_did("F");
}

SMALL(a_parked_client_is_told_busy_in_time_and_others_not)
{
    fill('z');
    turn();
    fill('z');
    forget_did();
    park('a');
    tick_after(4000);
    park('b');
    tick_after(999);
    assert_did("");
    tick_after(1);
    assert_did("A-");
    tick_after(4000);
    assert_did("B-");
    assert_true(list_empty(&world->c->parked));
}

SMALL(who_got_room_waits_anew_the_next_time)
{
    fill('z');
    park('a');
    turn();
    assert_int_equal(client('a')->o.parked_ms, 0);
    frame_applied();
    turn_applied();
    world->mono_ms += 60000;
    fill('z');
    assert_int_equal(hit('a', "p1", "9", 1), ADD_FULL);
}

/* The rest of its pipeline is told so at once. */
SMALL(who_was_told_busy_waits_anew_the_next_time)
{
    fill('z');
    turn();
    fill('z');
    park('a');
    tick_after(9000); /* the machine slept */
    assert_int_equal(hit('a', "p1", "9", 1), ADD_BUSY);
    world->mono_ms += 500;
    assert_int_equal(hit('a', "p1", "9", 1), ADD_BUSY);
    world->mono_ms += 60000;
    assert_int_equal(hit('a', "p1", "9", 1), ADD_FULL);
    park('a');
    forget_did();
    tick_after(4999);
    assert_did("");
    tick_after(1);
    assert_did("A-");
}

/* Waiting ended with "Redis is away": that was an answer, the next wait is a new one. */
SMALL(who_heard_that_redis_is_away_waits_anew_the_next_time)
{
    fill('z');
    turn();
    fill('z');
    coalesce_park(world->c, &client('a')->o);
    cut();
    turn();
    assert_int_equal(hit('a', "p1", "9", 1), ADD_DOWN);
    link_ready(RUN_B, 8);
    frame_applied();
    turn();
    world->mono_ms += 60000;
    fill('z');
    assert_int_equal(hit('a', "p1", "9", 1), ADD_FULL);
}

SMALL(after_a_cut_all_parked_clients_hear_of_it_at_once)
{
    fill('z');
    turn();
    fill('z');
    for (char l = 'a'; l <= 'f'; l++)
        coalesce_park(world->c, &client(l)->o);
    forget_did();
    cut();
    turn();
    assert_did("ABCDEF");
    assert_true(list_empty(&world->c->parked));
}

SMALL(an_unparked_client_is_told_nothing)
{
    fill('z');
    park('a');
    park('b');
    coalesce_unpark(world->c, &client('a')->o);
    coalesce_unpark(world->c, &client('c')->o); /* was not */
    turn();
    assert_did("FB");
    frame_applied();
}

/* --- the cache of hashes --- */

SMALL(the_registry_stays_bounded_and_forgetting_costs_a_zadd)
{
    char key[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "p%d", i);
        world->rows_n = 0;
        round_of('a', key, "5", 1);
        assert_true(world->c->hash_cache.n <= 8);
        buf_reset(&client('a')->o.out);
    }
    hit_goes('a', "p0", "5", 1);
    assert_true(zadds("p0"));
    frame_applied();
}

/* Clients may ask for any number of keys. */
SMALL(asking_is_bounded_too)
{
    char key[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "p%d", i);
        assert_non_null(coalesce_counter(world->c, slice_str(key)));
        assert_null(coalesce_counter(world->c, SLICE("q")));
    }
    assert_true(world->c->hash_cache.n <= 8);
}

SMALL(what_a_frame_names_or_what_owes_is_not_forgotten)
{
    char key[16];
    round_of('a', "p500", "5", 1);
    row_of(SLICE("p500"), SLICE("5"))->value = 0;
    round_of('a', "p500", "5", 1); /* owes */
    cut();                         /* so that it is not sent */
    link_up(RUN_B, 8);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "p%d", i);
        assert_non_null(coalesce_counter(world->c, slice_str(key)));
    }
    look_answered(NULL);
    HIT('a', "p600", "1", 1);
    hit_goes('a', "p601", "1", 1);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "p%d", i);
        assert_non_null(coalesce_counter(world->c, slice_str(key)));
    }
    assert_non_null(hash_of(world->frame, "p500"));
    assert_true(hash_of(world->frame, "p500")->owed);
    frame_applied();
    assert_told('a', ":1\r\n:1\r\n:1\r\n:1\r\n");
}

/* Against a model: finds exactly what was put and not evicted, through growth and backward shifts. */
SMALL(the_table_finds_what_is_in_it)
{
    struct hash_cache r;
    hash_cache_init(&r, 3000);
    static struct hash_entry *known[20000];
    char key[16];
    uint64_t code;
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "p%d", i);
        code = hash_cache_code(&r, slice_str(key));
        assert_null(hash_cache_find(&r, slice_str(key), code));
        known[i] = hash_cache_add(&r, slice_str(key), code, &counters_all[1]);
        known[i]->slot = (uint32_t)i;
        if (i % 1000 != 0) continue;
        known[i]->pins = 1; /* these must stay */
        for (int j = 0; j <= i; j += 1000) {
            snprintf(key, sizeof key, "p%d", j);
            assert_ptr_equal(hash_cache_find(&r, slice_str(key), hash_cache_code(&r, slice_str(key))),
                             known[j]);
        }
    }
    assert_int_equal(r.n, 3000);
    size_t found = 0;
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "p%d", i);
        struct hash_entry *e = hash_cache_find(&r, slice_str(key), hash_cache_code(&r, slice_str(key)));
        if (e == NULL) continue;
        assert_int_equal(e->slot, i);
        found++;
    }
    assert_int_equal(found, 3000);
    hash_cache_close(&r);
}
