/* INFO's figures: each call counts once, wherever it is taken; a waiting client counts as blocked; the rate is of the last samples.
 * */
#include "world.h"

#include "command/inside.h"

#include <stdlib.h>

#define HIT_RESP "*4\r\n$7\r\nHINCRBY\r\n$8\r\ns1:views\r\n$1\r\n7\r\n$1\r\n1\r\n"

static struct conn *looker;

static int open_both(void **state)
{
    open_world(state);
    looker = conn_open();
    return 0;
}

static int close_both(void **state)
{
    conn_close(looker);
    return close_world(state);
}

/* -1: INFO <section> has no such line. */
static long long told(const char *section, const char *name)
{
    char request[100], line[100];
    snprintf(request, sizeof request, "INFO %s\r\n", section);
    snprintf(line, sizeof line, "\n%s", name);
    buf_reset(&looker->said);
    say_slice(looker, slice_str(request));
    buf_put_char(&looker->said, '\0');
    const char *at = strstr(looker->said.p, line);
    return at == NULL ? -1 : atoll(at + strlen(line));
}

static long long hincrbys(void)
{
    return told("commandstats", "cmdstat_hincrby:calls=");
}

#define BOTH_TEST(name) UNIT_IN(name, open_both, close_both)

BOTH_TEST(hits_count_once_each)
{
    assert_int_equal(hincrbys(), -1); /* never called: no line, as in Redis */
    for (int i = 0; i < 40; i++)      /* more than are looked up together */
        buf_put_slice(&client->kept, SLICE(HIT_RESP));
    conn_take(client);
    assert_int_equal(fake.adds, 40);
    assert_int_equal(hincrbys(), 40);
    say(client, HIT(1) HIT(2)); /* inline: one by one */
    assert_int_equal(hincrbys(), 42);
    say(client, "HINCRBY s1:views 7 x\r\n"); /* as in Redis one that fails is a call, too; */
    assert_int_equal(hincrbys(), 43);
    say(client, "HINCRBY s1:views 7\r\nnonsense\r\n"); /* and a line that is not a command is no call */
    assert_int_equal(hincrbys(), 43);
}

BOTH_TEST(a_hit_that_waited_for_room_counts_once)
{
    fake.room = 2;
    say(client, HIT_RESP HIT_RESP HIT_RESP);
    assert_int_equal(hincrbys(), 2);
    assert_int_equal(told("clients", "blocked_clients:"), 1);
    frame_answered();
    frame_has_room(10);
    assert_int_equal(hincrbys(), 3);
    assert_int_equal(told("clients", "blocked_clients:"), 0);
}

BOTH_TEST(what_is_queued_counts_when_it_is_run)
{
    say(client, "MULTI\r\n" HIT(1) "PING\r\n");
    assert_int_equal(hincrbys(), -1);
    assert_int_equal(told("commandstats", "cmdstat_multi:calls="), 1);
    say(client, "EXEC\r\n");
    assert_int_equal(hincrbys(), 1);
    assert_int_equal(told("commandstats", "cmdstat_ping:calls="), 1);
    assert_int_equal(told("commandstats", "cmdstat_exec:calls="), 1);
}

BOTH_TEST(all_commands_are_the_sum)
{
    say(client, "PING\r\nECHO x\r\nCLIENT ID\r\nCLIENT GETNAME\r\n" HIT(1));
    assert_int_equal(told("stats", "total_commands_processed:"), 5);
    assert_int_equal(told("stats", "total_commands_processed:"), 6); /* and the INFO before */
    assert_int_equal(told("commandstats", "cmdstat_client:calls="), 2);
}

BOTH_TEST(who_asks_what_takes_time_is_blocked)
{
    assert_int_equal(told("clients", "blocked_clients:"), 0);
    say(client, HIT(1));
    assert_int_equal(told("clients", "blocked_clients:"), 0);
    say(client, "CTR.SYNC ALL\r\n"); /* first waits for the hit, then for itself */
    assert_int_equal(told("clients", "blocked_clients:"), 1);
    frame_answered();
    assert_non_null(sync_out);
    assert_int_equal(told("clients", "blocked_clients:"), 1);
    sync_out->done(sync_out);
    assert_int_equal(told("clients", "blocked_clients:"), 0);
}

BOTH_TEST(who_leaves_is_not_blocked_any_more)
{
    struct conn *other = conn_open();
    fake.room = 0;
    say(other, HIT(1));
    assert_int_equal(told("clients", "blocked_clients:"), 1);
    conn_close(other);
    assert_int_equal(told("clients", "blocked_clients:"), 0);
}

BOTH_TEST(the_rate_is_of_the_last_samples)
{
    uint64_t now_ms = 1000;
    assert_int_equal(told("stats", "instantaneous_ops_per_sec:"), 0);
    buf_reset(&looker->said);
    command->calls[SPEC_HINCRBY].n = 0;
    for (int i = 0; i < 200; i++) { /* 20 ms each, 5 calls: 250 a second, for 4 s */
        command_tick(command, now_ms);
        now_ms += 20;
        command->calls[SPEC_HINCRBY].n += 5;
    }
    assert_in_range(told("stats", "instantaneous_ops_per_sec:"), 249, 251);
    for (int i = 0; i < 60;
         i++) { /* nothing in 11 of the last 15 times 100 ms: 100 calls in 1.5 s are left */
        command_tick(command, now_ms);
        now_ms += 20;
    }
    assert_in_range(told("stats", "instantaneous_ops_per_sec:"), 65, 68);
    for (int i = 0; i < 100; i++) { /* and for 2 s more: what was before is forgotten */
        command_tick(command, now_ms);
        now_ms += 20;
    }
    assert_in_range(told("stats", "instantaneous_ops_per_sec:"), 0, 2); /* the INFO before */
}

/* One in CALLS_TIMED is: the estimate is for all of them. */
BOTH_TEST(time_is_estimated_of_those_timed)
{
    struct calls k = {0};
    assert_int_equal(calls_us(&k), 0);
    uint64_t begun = calls_begin(&k);
    assert_true(begun > 0);
    calls_end(&k, begun - 500, 1);
    assert_in_range(calls_us(&k), 500, 100000);
    for (int i = 1; i < CALLS_TIMED + 1; i++) {
        assert_int_equal(calls_begin(&k), 0);
        calls_end(&k, 0, 1);
    }
    assert_int_equal(k.timed, 1);
    assert_int_equal(calls_us(&k), k.timed_us * (CALLS_TIMED + 1));
    assert_true(calls_begin(&k) > 0);
    calls_end(&k, calls_begin(&k), 0); /* no call after all */
    assert_int_equal(k.timed, 1);
    assert_int_equal(calls_begin(&k), 0);
}

BOTH_TEST(memory_is_what_the_process_holds)
{
    long long before = told("memory", "used_memory:");
    void *big = heap_alloc(50 << 20);
    memset(big, 1, 50 << 20);
    assert_true(before > 0 && told("memory", "used_memory:") >= before + (49 << 20));
    assert_true(told("memory", "used_memory_rss:") >= told("memory", "used_memory:"));
    heap_free(big);
    assert_int_equal(told("memory", "maxmemory:"), 0);
}
