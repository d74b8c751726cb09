/* Who has the instance's name on a Redis. Its answers are this file's, and so is the time; the link is one that is up. */
#include "engine/core.h"
#include "lib/unit.h"

static struct {
    struct redis_link link;
    struct life life;
    struct name name;
    struct redis_instance *asked; /* NULL: nothing is asked */
    struct redis_kill *killing;
    int taken, refused;
} world;

void redis_instance(struct redis_link *l, struct redis_instance *i)
{
    assert_ptr_equal(l, &world.link);
    world.asked = i;
}

void redis_kill_lives(struct redis_link *l, struct redis_kill *k)
{
    assert_ptr_equal(l, &world.link);
    world.killing = k;
}

static void name_taken(struct name *n)
{
    assert_true(n->ours);
    world.taken++;
}

static void name_refused(struct name *n)
{
    assert_true(n->error.code != ERR_NONE);
    world.refused++;
}

static struct name *name_open(void)
{
    memset(&world, 0, sizeof world);
    life_init(&world.life, SLICE("shop"));
    world.link.sm.now = LINK_UP;
    world.link.config.life = &world.life;
    world.name =
        (struct name){.link = &world.link, .host = "here", .taken = name_taken, .refused = name_refused};
    return &world.name;
}

/* holder: '<life>|<host>', NULL: nobody. */
static void say_holder(const char *holder, bool linked)
{
    struct redis_instance *i = world.asked;
    assert_non_null(i);
    world.asked = NULL;
    i->taken = holder != NULL;
    i->linked = linked;
    snprintf(i->holder, sizeof i->holder, "%s", holder != NULL ? holder : "");
    i->done(i);
}

static void say_killed(bool lost)
{
    struct redis_kill *k = world.killing;
    assert_non_null(k);
    world.killing = NULL;
    k->lost = lost;
    snprintf(k->text, sizeof k->text, "NOPERM");
    k->done(k);
}

UNIT(test_free_then_ours)
{
    struct name *n = name_open();
    name_tick(n, 1000);
    say_holder(NULL, false);
    assert_true(n->free);
    assert_null(world.killing); /* not before name_take() */
    name_tick(n, 2000);
    assert_non_null(world.asked); /* it goes on looking */
    say_holder(NULL, false);
    name_take(n, 2010);
    assert_null(world.killing); /* not on an old answer */
    say_holder(NULL, false);
    assert_false(n->ours);
    say_killed(false);
    assert_int_equal(world.taken, 1);
    name_tick(n, 9000);
    assert_null(world.asked);
}

UNIT(test_links_first)
{
    struct name *n = name_open();
    name_take(n, 1000);
    say_holder(NULL, false);
    say_killed(true);
    assert_int_equal(world.taken, 0);
    assert_int_equal(n->error.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(n->error.text, "earlier start: NOPERM"));
    name_tick(n, 1100);
    assert_null(world.asked);
    name_tick(n, 2100);
    say_holder(NULL, false);
    assert_int_equal(n->error.code, ERR_NONE);
    say_killed(false);
    assert_int_equal(world.taken, 1);
}

/* What was heard of one connection says nothing about the next one's server. */
UNIT(test_cut)
{
    struct name *n = name_open();
    name_take(n, 1000);
    say_holder(NULL, false);
    world.link.sm.now = LINK_CLOSING;
    say_killed(true);
    name_tick(n, 1500);
    assert_false(n->free);
    assert_int_equal(world.refused, 0);
    world.link.sm.now = LINK_UP;
    name_tick(n, 2000);
    world.link.sm.now = LINK_CLOSING;
    say_holder(NULL, false);
    assert_null(world.killing);
    world.link.sm.now = LINK_UP;
    name_tick(n, 3000);
    say_holder(NULL, false);
    say_killed(false);
    assert_int_equal(world.taken, 1);
}

UNIT(test_dead_on_this_machine)
{
    struct name *n = name_open();
    name_take(n, 1000);
    say_holder("dead|here", true); /* Redis has not read the end of its links yet */
    assert_false(n->free);
    name_tick(n, 1010);
    assert_null(world.asked);
    name_tick(n, 1050);
    say_holder("dead|here", false);
    assert_non_null(world.killing);
}

UNIT(test_dead_elsewhere)
{
    struct name *n = name_open();
    name_take(n, 1000);
    say_holder("dead|there", false); /* it may be connecting again */
    assert_null(world.killing);
    name_tick(n, 3900);
    say_holder("dead|there", false);
    assert_null(world.killing);
    name_tick(n, 4000);
    say_holder("dead|there", false);
    assert_non_null(world.killing);
}

/* Asked again, since it may end; after a cut for as long as at first. */
static void living(const char *holder, uint64_t patient_ms)
{
    struct name *n = name_open();
    uint64_t now_ms = 1000;
    for (int times = 0; times < 2; times++) {
        n->may_take = true;
        name_tick(n, now_ms);
        say_holder(holder, true);
        name_tick(n, now_ms + patient_ms - 1);
        say_holder(holder, true);
        assert_int_equal(world.refused, times);
        name_tick(n, now_ms + patient_ms + 49);
        say_holder(holder, true);
        assert_int_equal(world.refused, times + 1);
        assert_int_equal(n->error.code, ERR_CONFIG);
        assert_non_null(strstr(n->error.text, "instance name 'shop'"));
        world.link.sm.now = LINK_WAITING;
        now_ms += 100000;
        name_tick(n, now_ms - 1);
        world.link.sm.now = LINK_UP;
    }
    name_tick(n, now_ms);
    say_holder(NULL, false);
    assert_int_equal(n->error.code, ERR_NONE);
    assert_non_null(world.killing);
}

UNIT(test_living)
{
    living("other|here", 3000);
    living("other|there", 35000);
}

UNIT(test_redis_says_nothing)
{
    struct name *n = name_open();
    name_take(n, 1000);
    world.asked->lost = true;
    snprintf(world.asked->text, sizeof world.asked->text, "NOPERM no");
    say_holder(NULL, false);
    assert_null(world.killing);
    assert_int_equal(n->error.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(n->error.text, "NOPERM no"));
}
