/* The tokened increments of a frame on a real server: what moves when a token is new, what when it is not, what an error
 * leaves, what is bounded. */
#include "base/stats.h"
#include "lib/frame_cell.h"
#include "unit/redis/ops_world.h"

#define KEY "s1:unique_visitors:daily"
#define DAY "20140920"

static int tokens_open(void **state)
{
    got_open(state);
    g->limits.token_keep_s = 86400;
    g->limits.tokens_most = 1000;
    return 0;
}

static uint32_t token_by(const char *key, const char *field, int64_t delta, const char *id, const char *user)
{
    frame_add_hash(&g->f, NULL, slice_str(key));
    struct frame_token *t = frame_add_token(&g->f, g->f.hashes_n - 1, SLICE("1"), slice_str(id),
                                            slice_str(field), delta, slice_str(user));
    t->counter = &g->w->all[0];
    return g->f.tokens_n - 1;
}

static uint32_t token_of(const char *key, const char *field, int64_t delta, const char *id)
{
    return token_by(key, field, delta, id, "");
}

static void token_is(uint32_t at, int64_t value, bool is_new)
{
    const struct frame_token *t = &g->f.tokens[at];
    assert_slice(t->error_n > 0 ? FRAME_ERROR(&g->f, t) : SLICE(""), "");
    assert_int_equal(t->value, value);
    assert_int_equal(t->is_new, is_new);
}

static void token_fails(uint32_t at, const char *line)
{
    const struct frame_token *t = &g->f.tokens[at];
    assert_slice(t->error_n > 0 ? FRAME_ERROR(&g->f, t) : SLICE("no error"), line);
}

#define OTHER "ERR this token came with another increment before: key, field or n differ; nothing was counted"

#define TEST(f) UNIT_IN(f, tokens_open, got_close)

TEST(test_counts_once)
{
    for (int round = 0; round < 3; round++) {
        begin();
        token_of(KEY, DAY, 3, "a");
        token_of(KEY, DAY, 3, "a");
        token_of(KEY, DAY, -1, "b");
        token_of(KEY, "20140921", 7, "c");
        send_applied();
        token_is(0, 3, round == 0);
        token_is(1, 3, false);
        token_is(2, 2, round == 0);
        token_is(3, 7, round == 0);
        redis_has(DAY " 2 20140921 7", "HGETALL " KEY);
        redis_has("unique_visitors 9", "HGETALL tally:accepted");
        redis_has(KEY " 1700000000001", "ZRANGE tally:dirty 0 -1 WITHSCORES");
        redis_has("3", "HVALS tally:tokens");
        assert_int_equal(STAT_GET(tokens_standing), 3);
    }
}

/* Redis lost the first of two frames, or both; who sends it again meanwhile counts it, and the replay does not. */
TEST(test_replayed_once)
{
    g->frames.keeps = true;
    begin();
    token_of(KEY, DAY, 3, "a");
    token_of(KEY, DAY, 4, "b");
    token_of(KEY, DAY, 5, "a"); /* refused */
    send_applied();
    token_fails(2, OTHER);
    redis_do("FLUSHALL");
    for (int round = 0; round < 2; round++) {
        replay_applied();
        redis_has(DAY " 7", "HGETALL " KEY);
        redis_has("unique_visitors 7", "HGETALL tally:accepted");
        redis_has(KEY " 1700000000001", "ZRANGE tally:dirty 0 -1 WITHSCORES");
        redis_has("1", "GET tally:seq:shop:%s", g->w->life.id);
    }
    redis_do("FLUSHALL");
    redis_do("SET " KEY " other");
    assert_int_equal(replay_failed(), 2);
}

TEST(test_stands_behind_the_cells)
{
    begin();
    token_of(KEY, DAY, 3, "a");
    frame_add_cell(&g->f, 0, SLICE(DAY), 10);
    frame_add_share(&g->f, &g->w->all[0], 10);
    op_new(OP_TIMEBOX, "b", 60, 4);
    send_applied();
    assert_int_equal(g->f.cells[0].value, 10);
    token_is(0, 13, true);
    assert_int_equal(g->f.ops[0].value, 4);
    redis_has("unique_visitors 13", "HGETALL tally:accepted");
}

TEST(test_refuses_another_payload)
{
    begin();
    token_of(KEY, DAY, 3, "a");
    token_of(KEY, DAY, 4, "a");
    token_of(KEY, "20140921", 3, "a");
    token_of("s2:unique_visitors:daily", DAY, 3, "a");
    send_applied();
    token_is(0, 3, true);
    for (uint32_t i = 1; i < 4; i++)
        token_fails(i, OTHER);
    redis_has("unique_visitors 3", "HGETALL tally:accepted");
    redis_has("0", "EXISTS s2:unique_visitors:daily");
}

/* Beyond 2^53 Lua's numbers are not exact, and Redis' are. */
TEST(test_is_exact_to_the_end_of_int64)
{
    redis_do("HSET " KEY " up 9223372036854775800 down -9223372036854775807 mid 9007199254740991");
    for (int round = 0; round < 2; round++) {
        begin();
        token_of(KEY, "up", 7, "a");
        token_of(KEY, "down", -1, "b");
        token_of(KEY, "mid", 2, "c");
        token_of(KEY, "low", -9007199254740992, "d");
        token_of(KEY, "none", 0, "e");
        send_applied();
        token_is(0, INT64_MAX, round == 0);
        token_is(1, INT64_MIN, round == 0);
        token_is(2, 9007199254740993, round == 0);
        token_is(3, -9007199254740992, round == 0);
        token_is(4, 0, round == 0);
    }
}

/* The sum in tally:accepted is modulo 2^64, also when the share is taken back. */
TEST(test_books_go_round)
{
    redis_do("HSET tally:accepted unique_visitors 9223372036854775805");
    redis_do("SET s2:unique_visitors:daily x");
    begin();
    token_of("s2:unique_visitors:daily", DAY, 3, "a");
    token_of(KEY, DAY, 5, "b");
    token_of(KEY, DAY, -6, "c");
    token_of(KEY, DAY, 8, "d");
    send_applied();
    token_fails(0, wrong_type);
    token_is(1, 5, true);
    token_is(3, 7, true);
    redis_has("-9223372036854775804", "HGET tally:accepted unique_visitors");
}

/* An error leaves neither token nor share; what is behind it counts. */
TEST(test_errors_leave_nothing)
{
    redis_do("SET s2:unique_visitors:daily x");
    redis_do("HSET s3:unique_visitors:daily " DAY " 9223372036854775807 20140921 word");
    redis_do("RPUSH tally:token:1:list x");
    redis_do("SET tally:token:1:odd x");
    for (int round = 0; round < 2; round++) {
        begin();
        token_of("s2:unique_visitors:daily", DAY, 3, "a");
        token_of("s3:unique_visitors:daily", DAY, 3, "b");
        token_of("s3:unique_visitors:daily", "20140921", -3, "c");
        token_of(KEY, DAY, 5, "list");
        token_of(KEY, DAY, 5, "odd");
        token_of(KEY, DAY, 5, "good");
        send_applied();
        token_fails(0, wrong_type);
        token_fails(1, "ERR increment or decrement would overflow");
        token_fails(2, "ERR hash value is not an integer");
        token_fails(3, wrong_type);
        token_fails(4, OTHER);
        token_is(5, 5, round == 0);
        redis_has("unique_visitors 5", "HGETALL tally:accepted");
        redis_has(KEY, "ZRANGE tally:dirty 0 -1");
        redis_has("0", "EXISTS tally:token:1:a tally:token:1:b tally:token:1:c");
        redis_has("1", "HVALS tally:tokens");
    }
}

/* Keys of tallyd's own that are somebody else's fail the tokens, and nothing of them is counted. */
TEST(test_own_keys_of_other_types)
{
    static const char *const spoil[] = {"SET tally:dirty x", "SET tally:tokens x", "HSET tally:tokens by x",
                                        "SET tally:accepted x"};
    static const char *const lines[] = {wrong_type, wrong_type,
                                        "ERR tally:tokens has a field that is no count of tokens: delete it",
                                        wrong_type};
    for (size_t i = 0; i < 4; i++) {
        redis_do("FLUSHALL");
        link_forget(&g->w->link);
        redis_do(spoil[i]);
        begin();
        token_of(KEY, DAY, 3, "a");
        token_of(KEY, DAY, 3, "b");
        send_applied();
        token_fails(0, lines[i]);
        token_fails(1, lines[i]);
        redis_has("0", "EXISTS " KEY " tally:token:1:a tally:token:1:b");
    }
}

TEST(test_lives_so_long_and_no_longer)
{
    g->limits.token_keep_s = 60;
    begin();
    token_of(KEY, DAY, 3, "a");
    send_applied();
    redis_has("1", "EVAL %s 1 tally:token:1:a",
              "local t = redis.call('PTTL', KEYS[1]) return t > 40000 and t <= 60000 and 1 or t");
    /* Counted until it is gone, and for less than a twelfth longer. */
    redis_has("1", "EVAL %s 2 tally:tokens tally:token:1:a",
              "local by, gone = redis.call('HKEYS', KEYS[1])[1] * 1000, redis.call('PEXPIRETIME', KEYS[2]) "
              "return by % 5000 == 0 and by > gone and by <= gone + 5000 and 1 or by - gone");
    redis_do("PEXPIRE tally:token:1:a 1");
    redis_do("HSET tally:tokens 1000 77"); /* of 1970: gone */
    WAIT_UNTIL(g->w, strcmp(redis_do("EXISTS tally:token:1:a"), "0") == 0);
    begin();
    token_of(KEY, DAY, 3, "a");
    send_applied();
    token_is(0, 6, true);
    redis_has("0", "HEXISTS tally:tokens 1000");
    assert_int_equal(STAT_GET(tokens_standing), 2);
}

TEST(test_so_many_stand_and_no_more)
{
    g->limits.tokens_most = 2;
    for (int round = 0; round < 2; round++) {
        begin();
        token_of(KEY, DAY, 3, "a");
        token_of(KEY, DAY, 3, "b");
        token_of(KEY, DAY, 3, "c");
        token_of(KEY, DAY, 3, "a");
        send_applied();
        token_is(0, 3, round == 0);
        token_is(1, 6, round == 0);
        token_fails(2, "OOM 2 tokens are in Redis (tokens.max); nothing was counted");
        token_is(3, 3, false);
        redis_has("unique_visitors 6", "HGETALL tally:accepted");
    }
    redis_do("DEL tally:tokens");
    begin();
    token_of(KEY, DAY, 3, "c");
    send_applied();
    token_is(0, 9, true);
}

/* What was answered is not refused when it is sent again to a Redis that lost it, and has others'. */
TEST(test_what_was_counted_passes_again)
{
    g->limits.tokens_most = 2;
    g->frames.keeps = true;
    begin();
    token_by(KEY, DAY, 3, "a", "1");
    send_applied();
    token_is(0, 3, true);
    redis_do("FLUSHALL");
    redis_do("HSET tally:tokens 9000000000 2");
    replay_applied();
    redis_has("3", "HGET " KEY " " DAY);
    redis_has("unique_visitors 3", "HGETALL tally:accepted");
}

#define SHARE(n, m) "OOM " n " tokens are this user's, and " m " of tokens.max are free; nothing was counted"

/* A user's own are at most as many as are free, in one frame and over many; without a user the last one goes as well. */
TEST(test_a_user_leaves_room_for_others)
{
    static const char *const users[] = {"1", "1", "1", "1", "1", "a:b", "a:b", "a:b"};
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    g->limits.tokens_most = 8;
    redis_do("HSET tally:tokens:1000 1 77"); /* gone, with its second of tally:tokens */
    for (int round = 0; round < 2; round++) {
        begin();
        for (int i = 0; i < 8; i++)
            token_by(KEY, DAY, 1, ids[i], users[i]);
        send_applied();
        for (uint32_t i = 0; i < 8; i++)
            if (i != 4 && i != 7) token_is(i, i < 4 ? i + 1 : i, round == 0);
        token_fails(4, round == 0 ? SHARE("4", "4") : SHARE("4", "2"));
        token_fails(7, SHARE("2", "2"));
    }
    redis_has("1 4 a:b 2 0", "EVAL %s 1 tally:tokens",
              "local by = redis.call('HKEYS', KEYS[1])[1] local key = KEYS[1] .. ':' .. by "
              "local had = redis.call('HGETALL', key) table.insert(had, redis.call('EXPIRETIME', key) - by) "
              "return table.concat(had, ' ')");
    begin();
    token_by(KEY, DAY, 1, "h", "c");
    token_of(KEY, DAY, 1, "i");
    token_of(KEY, DAY, 1, "j");
    token_by(KEY, DAY, 1, "e", "1");
    send_applied();
    token_is(0, 7, true);
    token_is(1, 8, true);
    token_fails(2, "OOM 8 tokens are in Redis (tokens.max); nothing was counted");
    token_fails(3, "OOM 8 tokens are in Redis (tokens.max); nothing was counted");
}

TEST(test_read_back)
{
    redis_do("SET s2:unique_visitors:daily x");
    redis_do("RPUSH tally:token:1:list x");
    begin();
    frame_add_hash(&g->f, NULL, SLICE(KEY));
    frame_add_cell(&g->f, 0, SLICE(DAY), 1);
    token_of(KEY, DAY, 3, "a");
    token_of("s2:unique_visitors:daily", DAY, 3, "b");
    token_of(KEY, DAY, 4, "a");
    token_of(KEY, DAY, 4, "list");
    g->f.dirty_ms = redis_time_ms(&g->w->link);
    send_applied();
    redis_do("HSET " KEY " " DAY " 100");
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->values == 1);
    assert_int_equal(g->f.cells[0].value, 100);
    token_is(0, 4, false);
    token_fails(
        1,
        "ERR not counted: Redis refused it, and its answer was lost with the link; send it again to see why");
    token_fails(2, OTHER);
    token_fails(3, wrong_type);
    g->f.dirty_ms -= 86400 * 1000; /* by now Redis has forgotten what it counted then */
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->values == 2);
    token_is(0, 4, false);
    token_fails(
        1, "ERR outcome unknown: its answer was lost with the link, and Redis may have forgotten the token "
           "since (tokens.keep); the increment may or may not have been counted");
    /* Any other error says nothing: a new connection has to find out. */
    int ups = g->w->ups;
    redis_do("ACL SETUSER default -get");
    begin();
    token_of(KEY, DAY, 3, "a");
    redis_frames_values(&g->frames, &g->f);
    WAIT_UNTIL(g->w, g->w->ups == ups + 1);
    assert_int_equal(g->values, 2);
}

TEST(test_a_full_redis_refuses_the_frame)
{
    redis_do("CONFIG SET maxmemory 1");
    begin();
    token_of(KEY, DAY, 3, "a");
    send_and_wait();
    assert_int_equal(g->outcome, FRAME_REFUSED);
    redis_do("CONFIG SET maxmemory 0");
    redis_has("0", "DBSIZE");
}
