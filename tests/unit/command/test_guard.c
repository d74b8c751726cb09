/* Users at the door of a session: strangers and their number, who comes from inside, what HELLO does word by word. Passwords
 * are really proved, beside the loop. */
#include "world.h"

#include "users/password.h"

#include <uv.h>

#define STRANGERS_MOST 64 /* of the world's 100 clients a quarter, but at least so many */

static uv_loop_t loop;
static struct users users;

static void user_add(const char *name, const char *password, uint32_t rate)
{
    char hash[PASSWORD_HASH_BYTES];
    struct error e;
    enum user_field which;
    const struct slice keys[] = {SLICE("s1:*")};
    assert_int_equal(password_hash(slice_str(password), hash, &e), ERR_NONE);
    const struct user_spec spec = {
        .name = slice_str(name), .hash = hash, .keys = keys, .keys_n = 1, .rate = rate, .connections = 1000};
    assert_int_equal(users_add(&users, &spec, &which, &e), ERR_NONE);
}

static int doors_open(void **state)
{
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    users_init(&users);
    user_add("ann", "secret", 0);
    users_sort(&users);
    world_users = &users;
    world_prover = prover_create(&loop);
    world_open();
    return 0;
}

static int doors_close(void **state)
{
    (void)state;
    prover_stop(world_prover);
    uv_run(&loop, UV_RUN_DEFAULT);
    world_close();
    prover_destroy(&world_prover);
    users_close(&users);
    return uv_loop_close(&loop);
}

/* Until all passwords are proved. */
static inline void proofs_come(struct conn *c)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    conn_take(c);
    conn_flush(c);
}

/* All who may be strangers ask at once, so that none of them can be sent away; one more. */
static void strangers_ask(struct conn **all)
{
    for (int i = 0; i < STRANGERS_MOST; i++) {
        all[i] = conn_open();
        say(all[i], "AUTH ann wrong\r\n");
        assert_int_equal(all[i]->session.state, SESSION_ASKING);
    }
}

static void strangers_end(struct conn **all)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < STRANGERS_MOST; i++)
        conn_close(all[i]);
}

static void the_oldest_stranger_goes(void **state)
{
    (void)state;
    struct conn *all[STRANGERS_MOST + 2];
    for (int i = 0; i < STRANGERS_MOST + 2; i++)
        all[i] = conn_open();
    for (int i = 0; i < STRANGERS_MOST + 2; i++) {
        assert_int_equal(all[i]->dropped, i < 2);
        conn_close(all[i]);
    }
}

static void one_too_many_while_all_ask(void **state)
{
    (void)state;
    struct conn *all[STRANGERS_MOST], *more;
    strangers_ask(all);
    more = conn_open();
    assert_true(more->dropped);
    conn_close(more);
    strangers_end(all);
}

/* Who comes from inside is no stranger, not for a moment. */
static void from_inside_while_all_ask(void **state)
{
    (void)state;
    struct conn *all[STRANGERS_MOST], *inside;
    strangers_ask(all);
    inside = conn_open_inside();
    assert_false(inside->dropped);
    say(inside, "PING\r\n");
    heard(inside, "+PONG\r\n");
    conn_close(inside);
    strangers_end(all);
}

int main(void)
{
#define test(f) cmocka_unit_test_setup_teardown(f, doors_open, doors_close)
    const struct CMUnitTest tests[] = {
        test(the_oldest_stranger_goes),
        test(one_too_many_while_all_ask),
        test(from_inside_while_all_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
