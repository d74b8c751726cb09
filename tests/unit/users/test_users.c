/* The users room without sockets: patterns as Redis has them, commands, budgets, shares, guesses, passwords. */
#include "lib/unit.h"

#include "users/prover.h"
#include "users/users.h"

#include <stdio.h>

#define HASH "$y$j9T$dE0whxnYYDkhZvUW3DSiK/$1dPSQ.l7nyGQuAtSEtyyxd46vBQXlK9t6JVoB.WOlo5"

static bool matches(const char *pattern, const char *key)
{
    struct glob g;
    glob_init(&g, slice_str(pattern));
    return glob_match(&g, slice_str(key));
}

UNIT(test_patterns)
{
    static const struct {
        const char *pattern, *key;
        bool is;
    } all[] = {
        {"s1:*", "s1:views", true},
        {"s1:*", "s1:", true},
        {"s1:*", "s12:views", false},
        {"s1:*", "s1", false},
        {"s1:*", "xs1:views", false},
        {"*", "", true},
        {"", "", true},
        {"", "a", false},
        {"a", "ab", false},
        {"?", "a", true},
        {"?", "", false},
        {"s?:*", "s1:x", true},
        {"s[1-3]:*", "s2:x", true},
        {"s[1-3]:*", "s4:x", false},
        {"s[3-1]:*", "s2:x", true},
        {"s[^1]:*", "s1:x", false},
        {"s[^1]:*", "s2:x", true},
        {"s\\*", "s*", true},
        {"s\\*", "sx", false},
        {"[\\]]", "]", true},
        {"*:views", "s1:views", true},
        {"*:views", "s1:view", false},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"s1:\\", "s1:\\", true},
        {"[a", "a", true},
        {"**a", "xxa", true},
        {"s1:*:x*", "s1:a:x", true},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (matches(all[i].pattern, all[i].key) != all[i].is)
            fail_msg("%s and %s", all[i].pattern, all[i].key);
}

/* A pattern of stars against a key that nearly matches: bounded, where recursion would take for ever. */
UNIT(test_a_mean_pattern_is_bounded)
{
    char pattern[101], key[501];
    for (int i = 0; i < 100; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[99] = 'b';
    pattern[100] = '\0';
    memset(key, 'a', 500);
    key[500] = '\0';
    assert_false(matches(pattern, key));
}

static struct user_spec spec_of(const char *name, const struct slice *keys, size_t keys_n)
{
    return (struct user_spec){.name = slice_str(name), .hash = HASH, .keys = keys, .keys_n = keys_n};
}

static void add(struct users *u, const struct user_spec *spec)
{
    enum user_field which;
    struct error e;
    if (users_add(u, spec, &which, &e) != ERR_NONE) fail_msg("%s", e.text);
}

UNIT(test_commands)
{
    struct users u;
    struct slice words[] = {SLICE("READ"), SLICE("hincrby")}, wrong[] = {SLICE("hincrbyy")};
    struct user_spec spec = spec_of("b", NULL, 0), other = spec_of("a", NULL, 0);
    users_init(&u, &users_limits_default);
    add(&u, &other);
    spec.commands = words;
    spec.commands_n = 2;
    add(&u, &spec);
    users_sort(&u);
    const struct user *b = user_find(&u, SLICE("b"));
    assert_true(user_may(b, grant_find(SLICE("HINCRBY"))));
    assert_true(user_may(b, grant_find(SLICE("ctr.total"))));
    assert_true(user_may(b, grant_find(SLICE("ping"))));
    assert_false(user_may(b, grant_find(SLICE("ctr.incrby"))));
    assert_false(user_may(user_find(&u, SLICE("a")), grant_find(SLICE("ctr.recover"))));
    assert_null(user_find(&u, SLICE("c")));
    enum user_field which;
    struct error e;
    spec.commands = wrong;
    spec.commands_n = 1;
    assert_int_equal(users_add(&u, &spec, &which, &e), ERR_CONFIG);
    assert_int_equal(which, USER_COMMANDS);
    spec.commands_n = 0;
    spec.hash = "$1$abcdefgh$0123456789012345678901";
    assert_int_equal(users_add(&u, &spec, &which, &e), ERR_CONFIG);
    assert_int_equal(which, USER_PASSWORD);
    assert_null(strstr(e.text, "$1$"));
    users_close(&u);
}

static struct user *one_user(struct users *u, uint32_t rate, uint32_t burst)
{
    struct user_spec spec = spec_of("a", NULL, 0), other = spec_of("b", NULL, 0);
    users_init(u, &users_limits_default);
    spec.rate = rate;
    spec.burst = burst;
    add(u, &spec);
    add(u, &other);
    users_sort(u);
    return user_find(u, SLICE("a"));
}

/* A burst; then only what is allowed: a few in others' frames, or a piece of what the time brought; after a pause a burst again.
 * What is unused does not add up beyond it, and a debt is paid first. */
UNIT(test_budget)
{
    struct users u;
    struct user *a = one_user(&u, 1000, 200);
    uint64_t now = 100000;
    assert_int_equal(user_room(&u, a, 1, now), 200);
    user_took(a, 200);
    assert_int_equal(user_room(&u, a, 2, now), 0);
    assert_int_equal(user_room(&u, a, 3, now + 10), 0);
    user_allow(a, now + 10, false); /* not a whole piece yet */
    assert_int_equal(user_room(&u, a, 3, now + 10), 0);
    user_allow(a, now + 10, true);
    assert_int_equal(user_room(&u, a, 3, now + 10), 10);
    user_took(a, 4);
    assert_int_equal(user_room_left(&u, a, 3), 6);
    assert_int_equal(user_room(&u, a, 3, now + 10), 6);
    user_took(a, 6);
    assert_int_equal(user_room(&u, a, 3, now + 10), 0);
    user_allow(a, now + 60, true);
    assert_int_equal(user_room(&u, a, 4, now + 60), USER_RIDES);
    user_allow(a, now + 60, false);
    assert_int_equal(user_room(&u, a, 5, now + 60), USER_CHUNK_MS);
    assert_int_equal(user_room(&u, a, 6, now + 60000), 200);
    user_took(a, 300);
    assert_int_equal(user_room(&u, a, 7, now + 60100), 0);
    user_allow(a, now + 60100, true);
    assert_int_equal(user_room(&u, a, 7, now + 60100), 0);
    users_close(&u);
}

/* One client's look may be of an earlier millisecond than another's: that is no hour in which a burst came back, and nobody is
 * idle by it. */
UNIT(test_an_earlier_look)
{
    struct users u;
    struct user *a = one_user(&u, 1000, 400), *b = user_find(&u, SLICE("b"));
    uint64_t now = 100000, half = users_limits_default.frame_requests / 2;
    assert_int_equal(user_room(&u, b, 1, now + 5), UINT32_MAX);
    assert_int_equal(user_room(&u, a, 1, now + 5), half);
    user_took(a, 400);
    assert_int_equal(user_room(&u, a, 2, now + 4), 0);
    user_allow(a, now + 3, false);
    assert_int_equal(user_room(&u, a, 3, now + 4), 0);
    assert_int_equal(user_room(&u, b, 3, now + 2000), UINT32_MAX);
    assert_int_equal(user_room(&u, a, 4, now + 1999), half);
    assert_int_equal(user_room(&u, b, 5, now + 1998), half);
    users_close(&u);
}

/* A single user may have all of a frame; with another one, half of what makes a short frame; each frame anew. */
UNIT(test_share)
{
    struct users u;
    struct user *a = one_user(&u, 0, 0), *b = user_find(&u, SLICE("b"));
    uint64_t now = 100000;
    assert_int_equal(user_room(&u, a, 1, now), UINT32_MAX);
    user_took(a, 400);
    assert_true(user_room_left(&u, a, 1) > 0);
    assert_true(user_room(&u, b, 1, now) > 0);
    assert_int_equal(user_room_left(&u, a, 1), 0); /* it is not alone any more */
    assert_int_equal(user_room(&u, a, 1, now), 0);
    assert_int_equal(user_room_left(&u, a, 2), 0);
    assert_int_equal(user_room(&u, a, 2, now), u.frame_requests / 2);
    user_took(a, u.frame_requests / 2 - 3);
    assert_int_equal(user_room_left(&u, a, 2), 3);
    assert_int_equal(user_room(&u, a, 2, now), 3);
    user_took_at_once(&u, a, 2);
    assert_int_equal(user_room_left(&u, a, 2), 0);
    assert_int_equal(user_room(&u, a, 2, now), 1);
    for (uint64_t frame = 3; frame < 6; frame++) /* the other one is silent */
        user_room(&u, a, frame, now += 700);
    assert_int_equal(user_room(&u, a, 9, now), UINT32_MAX);
    users_close(&u);
}

/* A transaction goes into one frame whole; what exceeds the share is taken from the next ones. A single user owes nothing. */
UNIT(test_share_of_transactions)
{
    struct users u;
    struct user *a = one_user(&u, 1000, 1000), *b = user_find(&u, SLICE("b"));
    uint64_t now = 100000;
    uint32_t share = u.frame_requests / 2;
    user_room(&u, a, 1, now);
    user_took_at_once(&u, a, 5000);
    assert_true(user_room(&u, b, 2, now) > 0);
    user_queued(a, 600); /* costs of the budget, and of no frame */
    assert_int_equal(user_room(&u, a, 2, now), share);
    user_took_at_once(&u, a, 2 * share + 10);
    assert_int_equal(user_room(&u, a, 2, now), 0);
    assert_int_equal(user_room(&u, a, 3, now), 0);
    assert_int_equal(user_room(&u, a, 4, now), share - 10);
    assert_int_equal(user_room(&u, a, 5, now), share);
    user_took(a, 300);
    assert_int_equal(user_room(&u, a, 6, now), 100);
    users_close(&u);
}

UNIT(test_guesses)
{
    static struct guesses g;
    struct slice here = SLICE("10.0.0.1"), there = SLICE("10.0.0.2"), shop = SLICE("shop"),
                 other = SLICE("other");
    uint64_t now = 1000000;
    int tries = 0;
    const struct guess_limits limits = {.user = {7, 3000}, .wide = {30, 150}};
    guesses_init(&g, &limits);
    for (; tries < 100 && guess_may(&g, here, shop, now); tries++)
        guess_wrong(&g, here, shop, now);
    assert_int_equal(tries, limits.user.at_once);
    assert_true(guess_may(&g, here, other, now));
    assert_true(guess_may(&g, there, shop, now));
    assert_false(guess_may(&g, here, shop, now + limits.user.gap_ms - 1));
    assert_true(guess_may(&g, here, shop, now + limits.user.gap_ms));
    char name[16];
    for (tries = 0; tries < 1000; tries++) { /* a new name each time */
        snprintf(name, sizeof(name), "u%d", tries);
        if (!guess_may(&g, here, slice_str(name), now)) break;
        guess_wrong(&g, here, slice_str(name), now);
    }
    assert_int_equal(tries + limits.user.at_once, limits.wide.at_once);
    for (tries = 0; tries < 100 && guess_may(&g, there, SLICE(""), now); tries++)
        guess_wrong(&g, there, SLICE(""), now);
    assert_int_equal(tries, limits.user.at_once);
    assert_true(guess_may(&g, there, shop, now));
}

UNIT(test_passwords)
{
    char hash[PASSWORD_HASH_BYTES], long_one[PASSWORD_BYTES_MAX + 2];
    struct error e;
    assert_int_equal(password_hash(SLICE("a secret"), hash, &e), ERR_NONE);
    assert_true(password_hash_fits(hash));
    assert_true(password_is(hash, SLICE("a secret")));
    assert_false(password_is(hash, SLICE("a secret ")));
    assert_false(password_is(hash, SLICE("")));
    assert_false(password_is(hash, SLICE("a secret\0")));
    memset(long_one, 'x', sizeof(long_one));
    assert_false(password_is(hash, slice_of(long_one, sizeof(long_one))));
    assert_int_equal(password_hash(slice_of(long_one, sizeof(long_one)), hash, &e), ERR_USAGE);
    static const char *const weak[] = {"", "secret", "$y$j9T$short", "$6$abcdefgh$x", "$y$", "$y$j9T$a$b$c"};
    for (size_t i = 0; i < sizeof(weak) / sizeof(weak[0]); i++)
        assert_false(password_hash_fits(weak[i]));
}

#define SALT22 "k2XAnEHBqQ1Ct2aMXFKNa/"
#define DIGEST43 "qdVSV23znpN3oRX4v17E59IodBxO1bzdFa3VKKRlE98"

/* A hash says what it costs, and any stranger may have it verified: the costs that crypt_gensalt(3) makes of 1 to 64 MiB are
 * accepted. The others here cost more, or less, or libcrypt would accept no password for them. */
UNIT(test_costs)
{
    static const char *const good[] = {"$y$j75$" SALT22 "$" DIGEST43, "$y$j7T$" SALT22 "$" DIGEST43,
                                       "$y$j9T$" SALT22 "$" DIGEST43, "$y$jBT$" SALT22 "$" DIGEST43,
                                       "$y$j9T$k2XA$" DIGEST43,       "$7$CU..../....k2XAnEHB$" DIGEST43,
                                       "$7$BU..../....aa$" DIGEST43};
    static const char *const bad[] = {"$y$jCT$" SALT22 "$" DIGEST43,
                                      "$y$jFT$" SALT22 "$" DIGEST43,
                                      "$y$jkT$" SALT22 "$" DIGEST43,
                                      "$y$jzzzzz$" SALT22 "$" DIGEST43,
                                      "$y$j65$" SALT22 "$" DIGEST43,
                                      "$y$j..$" SALT22 "$" DIGEST43,
                                      "$y$.9T$" SALT22 "$" DIGEST43,
                                      "$y$j9T/$" SALT22 "$" DIGEST43,
                                      "$y$j9T/z$" SALT22 "$" DIGEST43,
                                      "$y$j9T$$" DIGEST43,
                                      "$y$j9T$" DIGEST43,
                                      "$y$j9T$a$" DIGEST43,
                                      "$y$j9T$ab$" DIGEST43,
                                      "$y$j9T$k2XAn$" DIGEST43,
                                      "$y$j9T$" SALT22 "\xc3$" DIGEST43,
                                      "$y$j9T$" SALT22 "$" DIGEST43 "x",
                                      "$y$j9T$" SALT22 "$qdVSV23znpN3oRX4v17E59IodBxO1bzdFa3VKKRlE9!",
                                      "$7$DU..../....k2XAnEHB$" DIGEST43,
                                      "$7$CU....0....k2XAnEHB$" DIGEST43,
                                      "$7$CU....//...k2XAnEHB$" DIGEST43,
                                      "$7$CU...//....k2XAnEHB$" DIGEST43,
                                      "$7$zU..../....k2XAnEHB$" DIGEST43,
                                      "$7$C/..../....k2XAnEHB$qdVSV",
                                      "$7$5U..../....k2XAnEHB$" DIGEST43,
                                      "$7$CU..../....$" DIGEST43,
                                      "$7$CU..../....k2:AnEHB$" DIGEST43,
                                      "$7$CU....$" DIGEST43};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!password_hash_fits(good[i])) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (password_hash_fits(bad[i])) fail_msg("taken: %s", bad[i]);
}
