/* Passwords verified on another thread: the prover ends during its work, each ask is answered once, and never from inside its own
 * call. */
#include "lib/unit.h"

#include "users/prover.h"

#include <crypt.h>
#include <stdio.h>
#include <uv.h>

#define HERE "10.0.0.7"

static uv_loop_t loop;
static struct prover *prover;
static struct users users;

/* The cheapest that yescrypt can: a test has many. */
static void hash_make(const char *password, char out[PASSWORD_HASH_BYTES])
{
    static struct crypt_data data;
    char salt[CRYPT_GENSALT_OUTPUT_SIZE];
    assert_non_null(crypt_gensalt_rn("$y$", 1, NULL, 0, salt, (int)sizeof salt));
    snprintf(out, PASSWORD_HASH_BYTES, "%s", crypt_rn(password, salt, &data, (int)sizeof data));
}

static int users_make(void **state)
{
    char hash[PASSWORD_HASH_BYTES];
    struct error e;
    enum user_field which;
    const struct slice keys[] = {SLICE("*")};
    hash_make("secret", hash);
    users_init(&users, &users_limits_default);
    const struct user_spec spec = {
        .name = SLICE("ann"), .hash = hash, .keys = keys, .keys_n = 1, .multi = 1, .connections = 1};
    if (users_add(&users, &spec, &which, &e) != ERR_NONE) fail_msg("%s", e.text);
    users_sort(&users);
    return 0;
}

static int users_end(void **state)
{
    users_close(&users);
    return 0;
}

static struct prover_limits limits;

static void begin(void)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    limits = prover_limits_default;
    limits.guesses.user.gap_ms = 3600 * 1000; /* the clock gives no guess back */
    prover = prover_create(&loop, &limits);
}

static void end(void)
{
    prover_stop(prover);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(prover_over(prover));
    prover_destroy(&prover);
    assert_int_equal(uv_loop_close(&loop), 0);
}

struct ask {
    struct proof_ask ask;
    int answers;
};

static void on_answer(struct proof_ask *a)
{
    CONTAINER_OF(a, struct ask, ask)->answers++;
}

static bool ask(struct ask *a, const char *password, void (*done)(struct proof_ask *a))
{
    *a = (struct ask){.ask.done = done};
    return prover_ask(prover, &users, user_find(&users, SLICE("ann")), SLICE("ann"), slice_str(password),
                      HERE, &a->ask);
}

UNIT(ends_beside_its_work)
{
    static const char *const passwords[] = {"secret", "wrong", "secret", "other"};
    for (int i = 0; i < 200; i++) {
        struct ask all[4];
        begin();
        for (int j = 0; j < 4; j++)
            assert_true(ask(&all[j], passwords[j], on_answer));
        for (int j = 0; j < i % 4; j++)
            uv_run(&loop, i % 8 < 4 ? UV_RUN_NOWAIT : UV_RUN_ONCE);
        end();
        for (int j = 0; j < 4; j++)
            assert_int_equal(all[j].answers, 1);
        assert_int_equal(all[0].ask.outcome, PROOF_RIGHT); /* it was under way */
        assert_int_equal(all[2].ask.outcome, PROOF_RIGHT); /* the same ask again shares the answer */
    }
}

static struct ask again;
static bool inside;

static void on_again(struct proof_ask *a)
{
    assert_false(inside);
    on_answer(a);
}

static void on_last_guess(struct proof_ask *a)
{
    on_answer(a);
    inside = true;
    assert_true(ask(&again, "second", on_again));
    inside = false;
}

/* A done() that asks for a password that waits already, and that may not be tried any more. */
UNIT(never_from_inside_the_call)
{
    struct ask first, second;
    char password[20];
    begin();
    for (int i = 0; i < (int)limits.guesses.user.at_once - 1; i++) {
        snprintf(password, sizeof password, "wrong%d", i);
        assert_true(ask(&first, password, on_answer));
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(first.ask.outcome, PROOF_WRONG);
    }
    assert_true(ask(&first, "first", on_last_guess));
    assert_true(ask(&second, "second", on_answer));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(first.answers + second.answers + again.answers, 3);
    assert_int_equal(first.ask.outcome, PROOF_WRONG);
    assert_int_equal(again.ask.outcome, PROOF_TOO_MANY);
    end();
}

UNITS_IN(users_make, users_end)
