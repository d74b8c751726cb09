/* Users and sessions: strangers and their number, clients from inside, each word of HELLO. Passwords are really verified, on
 * another thread. */
#include "world.h"

#include "users/prover.h"

#include <crypt.h>
#include <time.h>
#include <uv.h>

#define WRONGPASS "WRONGPASS invalid username-password pair or user is disabled."
#define BAD_NAME "ERR Client names cannot contain spaces, newlines or special characters."
#define NOPERM_KEY "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
#define MULTI_MOST 800    /* of ann */
#define STRANGERS_MOST 64 /* a quarter of the world's 100 clients, but at least this many */

static uv_loop_t loop;
static struct users users;

static void user_add(const char *name, const char *password)
{
    char hash[PASSWORD_HASH_BYTES];
    struct error e;
    enum user_field which;
    const struct slice keys[] = {SLICE("s1:*")};
    assert_int_equal(password_hash(slice_str(password), hash, &e), ERR_NONE);
    const struct user_spec spec = {.name = slice_str(name),
                                   .hash = hash,
                                   .keys = keys,
                                   .keys_n = 1,
                                   .multi = MULTI_MOST,
                                   .connections = 1000};
    assert_int_equal(users_add(&users, &spec, &which, &e), ERR_NONE);
}

static int doors_open(void **state)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    users_init(&users, &users_limits_default);
    user_add("ann", "secret");
    user_add("bob", "secret");
    users_sort(&users);
    world_users = &users;
    world_prover = prover_create(&loop, &prover_limits_default);
    world_open();
    return 0;
}

static int doors_close(void **state)
{
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

/* As many strangers as are allowed all ask at once, so none of them can be disconnected; then one more. */
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

#define DOORS_TEST(f) UNIT_IN(f, doors_open, doors_close)

DOORS_TEST(the_oldest_stranger_goes)
{
    struct conn *all[STRANGERS_MOST + 2];
    for (int i = 0; i < STRANGERS_MOST + 2; i++)
        all[i] = conn_open();
    for (int i = 0; i < STRANGERS_MOST + 2; i++) {
        assert_int_equal(all[i]->dropped, i < 2);
        conn_close(all[i]);
    }
}

DOORS_TEST(one_too_many_while_all_ask)
{
    struct conn *all[STRANGERS_MOST], *more;
    strangers_ask(all);
    more = conn_open();
    assert_true(more->dropped);
    conn_close(more);
    strangers_end(all);
}

/* A client from inside is never a stranger, not even for a moment. */
DOORS_TEST(from_inside_while_all_ask)
{
    struct conn *all[STRANGERS_MOST], *inside;
    strangers_ask(all);
    inside = conn_open_inside();
    assert_false(inside->dropped);
    assert_false(inside->outlet.stranger);
    assert_true(all[0]->outlet.stranger);
    say(inside, "PING\r\n");
    heard(inside, "+PONG\r\n");
    conn_close(inside);
    strangers_end(all);
}

/* Of a store that it may not name a user learns nothing, and a stranger of none: not even what is a counter's key. */
DOORS_TEST(only_own_keys_are_those_of_counters)
{
    struct conn *c = conn_open();
    say(c, "EXISTS s1:views\r\nSET s1:views 1\r\n");
    heard(c, "-NOAUTH Authentication required.\r\n"
             "-ERR unknown command 'SET', with args beginning with: 's1:views' '1' \r\n");
    say(c, "AUTH ann secret\r\n");
    proofs_come(c);
    say(c, "EXISTS s1:views s2:views s1:views\r\nTTL s2:views\r\nEXPIRE s2:views 60\r\nSET s2:views 1\r\n"
           "SET s1:views 1\r\n");
    heard(c,
          "+OK\r\n:2\r\n" NOPERM_KEY NOPERM_KEY
          "-ERR unknown command 'SET', with args beginning with: 's2:views' '1' \r\n"
          "-ERR counters only go by increments: send HINCRBY key field n; an operator corrects a count with "
          "'tallyd adjust'\r\n");
    conn_close(c);
}

/* What a HELLO says, the user after it, and the name; as in redis-server 7.0.15 with `user ann on >secret`. An error in a later
 * word does not take back an AUTH. */
DOORS_TEST(hello_word_by_word)
{
    static const struct {
        const char *said, *heard, *name;
        bool is_user;
    } all[] = {
        {"HELLO 3 AUTH ann secret SETNAME \"a b\"", "-" BAD_NAME, "", true},
        {"HELLO 3 SETNAME \"a b\" AUTH ann secret", "-" BAD_NAME, "", false},
        {"HELLO 3 AUTH ann wrong SETNAME \"a b\"", "-" WRONGPASS, "", false},
        {"HELLO 3 AUTH ann secret FOO", "-ERR Syntax error in HELLO option 'FOO'", "", true},
        {"HELLO 3 FOO AUTH ann secret", "-ERR Syntax error in HELLO option 'FOO'", "", false},
        {"HELLO 3 AUTH ann secret SETNAME x FOO", "-ERR Syntax error in HELLO option 'FOO'", "x", true},
        {"HELLO 3 SETNAME x AUTH ann wrong", "-" WRONGPASS, "x", false},
        {"HELLO 3 SETNAME x", "-NOAUTH HELLO must be called", "x", false},
        {"HELLO 4 AUTH ann secret", "-NOPROTO unsupported protocol version", "", false},
        {"HELLO 3 AUTH ann secret SETNAME a SETNAME \"b c\"", "-" BAD_NAME, "a", true},
        {"HELLO 3 AUTH ann secret SETNAME x", "%7\r\n", "x", true},
        {"HELLO 3 SETNAME x AUTH ann secret", "%7\r\n", "x", true},
    };
    for (size_t round = 0; round < 2; round++) /* the second time ann's password is known at once */
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
            struct conn *c = conn_open();
            say_slice(c, slice_str(all[i].said));
            say(c, "\r\n");
            proofs_come(c);
            if (strncmp(c->said.p, all[i].heard, strlen(all[i].heard)) != 0)
                fail_msg("%s: %.*s", all[i].said, (int)c->said.n, c->said.p);
            assert_int_equal(c->session.door == DOOR_USER, all[i].is_user);
            assert_slice(buf_slice(&c->session.name), all[i].name);
            assert_int_equal(c->outlet.stranger, c->session.door == DOOR_CLOSED);
            assert_int_equal(c->session.resp, all[i].heard[0] == '%' ? 3 : 2);
            conn_close(c);
        }
}

static void queue(struct conn *c, int n)
{
    for (int i = 0; i < n; i++)
        say(c, "HINCRBY s1:views 7 1\r\n");
}

/* Both are active, and who has no password, however long the test takes. */
static struct conn *ann_beside_bob(struct conn **bob)
{
    struct conn *ann = conn_open();
    *bob = conn_open();
    command_turn(command);
    say(*bob, "AUTH bob secret\r\n");
    proofs_come(*bob);
    say(*bob, "PING\r\n");
    say(ann, "AUTH ann secret\r\n");
    proofs_come(ann);
    users.stranger.active_ms += 3600 * 1000;
    (*bob)->session.user->active_ms += 3600 * 1000;
    return ann;
}

/* While others are active a transaction is bounded, and takes its share of frames. */
DOORS_TEST(transactions_of_a_user)
{
    struct conn *other, *c = ann_beside_bob(&other);
    say(c, "MULTI\r\n");
    queue(c, MULTI_MOST);
    buf_reset(&c->said);
    queue(c, 1);
    heard(c, "-ERR transaction is too large: at most 800 commands; send more than one transaction\r\n");
    say(c, "DISCARD\r\nMULTI\r\n");
    queue(c, MULTI_MOST);
    assert_int_equal(c->session.state, SESSION_TAKING); /* queued commands hold up no client */
    say(c, "EXEC\r\nPING\r\n");
    assert_int_equal(fake.adds, MULTI_MOST);
    assert_int_equal(c->session.state, SESSION_PACED);
    unsigned windows = 1;
    while (command_pace(command))
        windows++;
    assert_int_equal(windows, MULTI_MOST / (users.frame_requests / users.active));
    answers_come(fake.n);
    conn_close(c);
    conn_close(other);
}

/* It takes the room of several hits in a frame, so as many of its user's share: other users' hits find room. */
static void takes_a_share(const char *request)
{
    struct conn *other, *c = ann_beside_bob(&other);
    uint32_t n = 0;
    for (; c->session.state == SESSION_TAKING; n++)
        say_slice(c, slice_str(request));
    assert_int_equal(c->session.state, SESSION_PACED);
    uint32_t share = users.frame_requests / users.active;
    assert_int_equal(n - 1, (share + SCRIPT_HITS - 1) / SCRIPT_HITS);
    answers_come(fake.n);
    conn_close(c);
    conn_close(other);
}

DOORS_TEST(tokens_of_a_user)
{
    takes_a_share("CTR.INCRBY s1:views 7 1 TOKEN t\r\n");
}

DOORS_TEST(visitors_of_a_user)
{
    takes_a_share("UNIQ.ADD s1:v 20140901 5\r\n");
}

/* Those who ask for little wait for no long pipeline of another's: here an AUTH behind strangers that flood PING. */
DOORS_TEST(strangers_take_turns)
{
    struct conn *flood[20], *c;
    for (int i = 0; i < 20; i++) {
        flood[i] = conn_open();
        for (int n = 0; flood[i]->session.state == SESSION_TAKING || n < 1000; n++)
            say(flood[i], "PING\r\n");
    }
    c = conn_open();
    say(c, "AUTH ann secret\r\n");
    assert_int_equal(c->session.state, SESSION_PACED);
    size_t answers = 0;
    for (int i = 0; i < 20; i++)
        buf_reset(&flood[i]->said);
    while (c->session.state == SESSION_PACED)
        command_pace(command);
    for (int i = 0; i < 20; i++) {
        conn_flush(flood[i]);
        for (size_t at = 0; at < flood[i]->said.n; at++)
            answers += flood[i]->said.p[at] == '\n';
    }
    assert_in_range(answers, 20, 2000); /* what there is at once; 400 to 2,000 for each of them before */
    proofs_come(c);
    heard(c, "+OK\r\n");
    for (int i = 0; i < 20; i++)
        conn_close(flood[i]);
    conn_close(c);
}

/* False: the client was told that there were too many guesses. */
static bool guess_from(const char *peer)
{
    static int n;
    char line[60];
    conn_peer_text = peer;
    struct conn *c = conn_open();
    snprintf(line, sizeof line, "AUTH ann guess%d\r\n", n++);
    say_slice(c, slice_str(line));
    proofs_come(c);
    bool tried = strncmp(c->said.p, "-WRONGPASS", 10) == 0;
    if (!tried && strncmp(c->said.p, "-ERR too many wrong passwords", 29) != 0)
        fail_msg("%s: %.*s", peer, (int)c->said.n, c->said.p);
    conn_close(c);
    conn_peer_text = "127.0.0.1:4711";
    return tried;
}

/* As many guesses as may be made at once, and those that the time since then allows, are tried. format: with a number twice. */
static void guesses_run_out(const char *format)
{
    char peer[80];
    uint64_t since_ms = mono_ms();
    for (int n = 0;; n++) {
        snprintf(peer, sizeof peer, format, n + 1, 100 + n);
        if (guess_from(peer)) continue;
        int at_once = (int)prover_limits_default.guesses.user.at_once;
        assert_true(n >= at_once);
        assert_true((uint64_t)(n - at_once) <=
                    (mono_ms() - since_ms) / prover_limits_default.guesses.user.gap_ms);
        return;
    }
}

/* A client with one IPv6 address has 2^64 of them. Of IPv4 mapped to IPv6 each address is separate. */
DOORS_TEST(guessing_from_many_addresses)
{
    guesses_run_out("[2001:db8:0:7:%x::%x]:4711");
    assert_true(guess_from("[2001:db8:0:8::1]:4711"));
    guesses_run_out("[::ffff:10.0.0.7]:%d%d");
    assert_true(guess_from("[::ffff:10.0.0.8]:4711"));
}

/* MiB of memory as 2^(cost - 1). */
static void user_add_of_cost(const char *name, unsigned long cost)
{
    char salt[CRYPT_GENSALT_OUTPUT_SIZE];
    struct crypt_data *data = heap_zalloc(sizeof(*data));
    enum user_field which;
    struct error e;
    assert_non_null(crypt_gensalt_rn("$y$", cost, NULL, 0, salt, sizeof(salt)));
    const struct user_spec spec = {.name = slice_str(name),
                                   .hash = crypt_rn("secret", salt, data, sizeof(*data))};
    if (users_add(&users, &spec, &which, &e) != ERR_NONE) fail_msg("%s", e.text);
    heap_free(data);
}

static int64_t proof_cpu_ns(const char *name)
{
    char line[60];
    struct timespec from, to;
    struct conn *c = conn_open();
    snprintf(line, sizeof line, "AUTH %s wrong\r\n", name);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    say_slice(c, slice_str(line));
    proofs_come(c);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    assert_memory_equal(c->said.p, "-WRONGPASS", 10);
    conn_close(c);
    return (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
}

/* When users' hashes differ in cost, so does the cost of an unknown name: it does not tell whether a user exists. */
DOORS_TEST(nobody_costs_what_users_cost)
{
    int64_t least_ns = INT64_MAX, most_ns = 0;
    char name[16];
    users_close(&users);
    users_init(&users, &users_limits_default);
    user_add_of_cost("cheap", 1);
    user_add_of_cost("dear", 6);
    users_sort(&users);
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "nobody%d", i);
        int64_t ns = proof_cpu_ns(name);
        least_ns = ns < least_ns ? ns : least_ns;
        most_ns = ns > most_ns ? ns : most_ns;
    }
    assert_true(least_ns < proof_cpu_ns("dear") / 4);
    assert_true(most_ns > 4 * proof_cpu_ns("cheap"));
}

static void on_proved_wrong(struct proof_ask *a)
{
    assert_int_equal(a->outcome, PROOF_WRONG);
}

/* One is being verified and two wait; an ask for the same password as one of them waits with it. */
DOORS_TEST(too_many_passwords_wait)
{
    static const char *const passwords[] = {"a", "b", "c", "c", "d"};
    struct prover_limits few = prover_limits_default;
    struct proof_ask asks[5];
    few.waiting_max = 2;
    struct prover *p = prover_create(&loop, &few);
    for (int i = 0; i < 5; i++) {
        asks[i] = (struct proof_ask){.done = on_proved_wrong};
        bool waits = prover_ask(p, &users, user_find(&users, SLICE("ann")), SLICE("ann"),
                                slice_str(passwords[i]), "10.0.0.1", &asks[i]);
        assert_int_equal(waits, i < 4);
    }
    assert_int_equal(asks[4].outcome, PROOF_BUSY);
    uv_run(&loop, UV_RUN_DEFAULT);
    prover_destroy(&p);
}

/* CLIENT KILL USER takes the name that CLIENT LIST shows. */
DOORS_TEST(others_connections_are_an_admins)
{
    char hash[PASSWORD_HASH_BYTES];
    struct error e;
    enum user_field which;
    const struct slice all[] = {SLICE("all")};
    assert_int_equal(password_hash(SLICE("secret"), hash, &e), ERR_NONE);
    const struct user_spec spec = {.name = SLICE("root"), .hash = hash, .commands = all, .commands_n = 1};
    assert_int_equal(users_add(&users, &spec, &which, &e), ERR_NONE);
    users_sort(&users);
    struct conn *stranger = conn_open(), *ann = conn_open(), *root = conn_open();
    say(stranger, "CLIENT INFO\r\nCLIENT REPLY OFF\r\n");
    heard(stranger, "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n");
    say(ann, "AUTH ann secret\r\nCLIENT KILL ID 1\r\nCLIENT LIST\r\nCLIENT GETREDIR\r\n");
    proofs_come(ann);
    heard(ann, "+OK\r\n-NOPERM this user has no permissions to run the 'client|kill' command\r\n"
               "-NOPERM this user has no permissions to run the 'client|list' command\r\n:-1\r\n");
    say(root, "AUTH root secret\r\nCLIENT LIST\r\n");
    proofs_come(root);
    buf_put_char(&root->said, '\0');
    assert_non_null(strstr(root->said.p, " cmd=client|getredir user=ann "));
    assert_non_null(strstr(root->said.p, " cmd=client|reply user=default "));
    assert_non_null(strstr(root->said.p, " cmd=client|list user=root "));
    buf_reset(&root->said);
    say(root,
        "CLIENT KILL USER bob\r\nCLIENT KILL USER ann\r\nCLIENT KILL USER carl\r\nCLIENT KILL ID 1\r\n");
    heard(root, ":0\r\n:1\r\n-ERR No such user 'carl'\r\n:1\r\n");
    assert_true(ann->dropped && stranger->dropped);
    conn_close(stranger);
    conn_close(ann);
    conn_close(root);
}

/* A client whose replies are off becomes a user all the same. */
DOORS_TEST(a_quiet_client_becomes_a_user)
{
    struct conn *c = conn_open();
    say(c, "AUTH ann secret\r\nCLIENT REPLY SKIP\r\nAUTH bob secret\r\nCLIENT REPLY OFF\r\nAUTH ann wrong\r\n"
           "HINCRBY s1:views 7 1\r\nHINCRBY s2:views 7 1\r\nCLIENT REPLY ON\r\n");
    for (int i = 0; i < 3; i++)
        proofs_come(c);
    assert_slice(slice_str(c->session.user->name), "bob");
    assert_int_equal(fake.adds, 1);
    frame_answered();
    heard(c, "+OK\r\n+OK\r\n");
    conn_close(c);
}
