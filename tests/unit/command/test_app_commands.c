/* What an app sends beside HINCRBY: HGET and HMGET read totals, EXPIRE and the like change nothing, EXISTS and TTL tell the
 * configuration, and what would set or delete a count, or read a whole hash, is refused. Texts that Redis has are those of
 * redis-server 7.0.15. */
#include "unit/command/world.h"

#define ARITY(name) "-ERR wrong number of arguments for '" name "' command\r\n"
#define NOT_INT "-ERR value is not an integer or out of range\r\n"
#define NO_COUNTER "-ERR no counter is configured for key 'other'\r\n"
#define BAD_TIME(name) "-ERR invalid expire time in '" name "' command\r\n"
#define NX_ALONE "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"
#define GT_OR_LT "-ERR GT and LT options at the same time are not compatible\r\n"
#define INCREMENTS                                                                                           \
    "-ERR counters only go by increments: send HINCRBY key field n; an operator corrects a count with "      \
    "'tallyd adjust'\r\n"
#define INTEGERS "-ERR counts are integers: send HINCRBY key field n with an integer n\r\n"
#define NO_HASHES(name, args)                                                                                \
    "-ERR unknown command '" name "', with args beginning with:" args                                        \
    "; tallyd keeps no hashes to read: send CTR.TOTAL key field ..., or SELECT from the counter's table\r\n"
#define ABORTED "-EXECABORT Transaction discarded because of previous errors.\r\n"

struct vector {
    const char *request, *reply;
};

static void vector_says(const struct vector *v)
{
    say_slice(client, slice_str(v->request));
    say_slice(client, SLICE("\r\n"));
    heard(client, v->reply);
}

static void vectors_say(const struct vector *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vector_says(&all[i]);
}

#define SAY_ALL(vectors) vectors_say(vectors, sizeof(vectors) / sizeof(vectors[0]))

static void totals_are(const int64_t *totals)
{
    struct total_request *t = total_out;
    total_out = NULL;
    assert_non_null(t);
    t->outcome = ASK_DONE;
    t->totals = totals;
    t->done(t);
    conn_take(client);
    conn_flush(client);
}

/* ---- HGET, HMGET ---- */

TEST(a_total_as_a_bulk)
{
    say(client, "HINCRBY s1:views 7 1\r\nHGET s1:views 7\r\nPING\r\n");
    assert_null(total_out);
    frame_heard(client, ":1\r\n");
    assert_slice(total_out->key, "s1:views");
    assert_int_equal(total_out->fields_n, 1);
    assert_slice(total_out->fields[0], "7");
    totals_are((const int64_t[]){INT64_MIN});
    heard(client, "$20\r\n-9223372036854775808\r\n+PONG\r\n");
}

TEST(totals_as_bulks)
{
    say(client, "HMGET s1:views 8 7\r\n");
    assert_slice(total_out->fields[0], "8");
    assert_slice(total_out->fields[1], "7");
    totals_are((const int64_t[]){0, 42}); /* 0: never counted */
    heard(client, "*2\r\n$1\r\n0\r\n$2\r\n42\r\n");
    say(client, "HMGET s1:views 7\r\n");
    totals_are((const int64_t[]){-1});
    heard(client, "*1\r\n$2\r\n-1\r\n");
}

TEST(reads_refuse_as_ctr_total)
{
    static const struct vector vectors[] = {
        {"HGET s1:views", ARITY("hget")},
        {"HGET s1:views 1 2", ARITY("hget")},
        {"HMGET s1:views", ARITY("hmget")},
        {"HGET other 1", NO_COUNTER},
        {"HMGET s1:views 1 07", "-ERR field '07' of counter 'views' is not an integer\r\n"},
        {"MULTI\r\nHGET s1:views 1\r\nHMGET s1:views 1\r\nEXEC",
         "+OK\r\n-ERR Command not allowed inside a transaction\r\n-ERR Command not allowed inside a "
         "transaction\r\n" ABORTED},
    };
    SAY_ALL(vectors);
    assert_null(total_out);
    say(client, "HGET s1:views 7\r\n");
    total_out->outcome = ASK_MYSQL_DOWN;
    total_out->done(total_out);
    conn_flush(client);
    heard(client, "-ERR MySQL cannot be reached; counts are kept in Redis and merged when it is back\r\n");
}

/* A client that caches what it reads is told at once that it may not: a total changes without a word of Redis'. */
TEST(a_client_that_caches_is_told_to_forget)
{
    say(client, "HELLO 3\r\nCLIENT TRACKING ON\r\n");
    buf_reset(&client->said);
    say(client, "HGET s1:views 7\r\n");
    totals_are((const int64_t[]){5});
    heard(client, "$1\r\n5\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\ns1:views\r\n");
    say(client, "HMGET s2:views 7\r\n");
    totals_are((const int64_t[]){5});
    heard(client, "*1\r\n$1\r\n5\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\ns2:views\r\n");
    say(client, "CTR.TOTAL s1:views 7\r\n");
    totals_are((const int64_t[]){5});
    heard(client, "*1\r\n:5\r\n");
    say(client, "HELLO 2\r\n");
    buf_reset(&client->said);
    say(client, "HGET s1:views 7\r\n");
    totals_are((const int64_t[]){5});
    heard(client, "$1\r\n5\r\n"); /* RESP2 has no pushes */
}

/* ---- EXPIRE and the like, EXISTS, TTL ---- */

TEST(expiry_is_taken_and_does_nothing)
{
    static const struct vector vectors[] = {
        {"EXPIRE s1:views 60", ":1\r\n"},
        {"pexpire s1:views 60000", ":1\r\n"},
        {"EXPIREAT s1:views 1411200060", ":1\r\n"},
        {"PEXPIREAT s1:views 1411200060000", ":1\r\n"},
        {"PERSIST s1:views", ":1\r\n"},
        {"EXPIRE s1:views 60 NX", ":1\r\n"},
        {"EXPIRE s1:views 60 xx gt", ":1\r\n"},
        {"EXPIRE s1:views -1 XX LT LT", ":1\r\n"},
        {"EXPIRE other 60", NO_COUNTER},
        {"PERSIST other", NO_COUNTER},
        {"EXPIRE s1:views", ARITY("expire")},
        {"PEXPIRE s1:views", ARITY("pexpire")},
        {"EXPIREAT s1:views", ARITY("expireat")},
        {"PEXPIREAT s1:views", ARITY("pexpireat")},
        {"PERSIST s1:views 1", ARITY("persist")},
        {"EXPIRE s1:views soon", NOT_INT},
        {"EXPIRE other soon", NOT_INT},
        {"EXPIRE s1:views soon AB", "-ERR Unsupported option AB\r\n"},
        {"EXPIRE s1:views 60 NX LT", NX_ALONE},
        {"EXPIRE s1:views 60 NX XX", NX_ALONE},
        {"EXPIRE s1:views 60 GT LT", GT_OR_LT},
    };
    SAY_ALL(vectors);
}

TEST(times_that_overflow_are_refused)
{
    static const struct vector vectors[] = {
        {"EXPIRE s1:views 9223372036854776", BAD_TIME("expire")},
        {"EXPIRE s1:views -9223372036854776", BAD_TIME("expire")},
        {"EXPIRE s1:views 9223370625654774", ":1\r\n"},
        {"EXPIRE s1:views 9223370625654775", BAD_TIME("expire")}, /* from now */
        {"PEXPIRE s1:views 9223372036854775807", BAD_TIME("pexpire")},
        {"EXPIREAT s1:views 9223372036854775", ":1\r\n"},
        {"EXPIREAT s1:views 9223372036854776", BAD_TIME("expireat")},
        {"PEXPIREAT s1:views 9223372036854775807", ":1\r\n"},
    };
    SAY_ALL(vectors);
}

TEST(the_configuration_tells_what_exists)
{
    static const struct vector vectors[] = {
        {"EXISTS s1:views", ":1\r\n"},
        {"EXISTS other", ":0\r\n"},
        {"EXISTS s1:views other s2:views s1:views", ":3\r\n"},
        {"EXISTS", ARITY("exists")},
        {"TTL s1:views", ":-1\r\n"},
        {"PTTL s1:views", ":-1\r\n"},
        {"TTL other", ":-2\r\n"},
        {"PTTL other", ":-2\r\n"},
        {"TTL", ARITY("ttl")},
        {"PTTL s1:views 1", ARITY("pttl")},
    };
    SAY_ALL(vectors);
}

TEST(in_a_transaction_beside_hits)
{
    say(client, "MULTI\r\n" HIT(1) "EXPIRE s1:views 60\r\nTTL s1:views\r\nEXISTS s1:views other\r\n"
                                   "PERSIST s1:views\r\nEXEC\r\n");
    buf_reset(&client->said);
    frame_answered();
    conn_flush(client);
    heard(client, ":1\r\n:1\r\n:-1\r\n:1\r\n:1\r\n");
    assert_int_equal(fake.adds, 1);
}

TEST(replies_keep_their_place_in_a_pipeline)
{
    talk(client, HIT(1) "EXPIRE s1:views 60\r\n" HIT(2) "TTL s1:views\r\n", "");
    frame_answered();
    conn_flush(client);
    heard(client, ":1\r\n:1\r\n:2\r\n:-1\r\n");
}

/* ---- what would set or delete ---- */

TEST(counters_only_go_by_increments)
{
    static const struct vector vectors[] = {
        {"HINCRBYFLOAT s1:views 7 0.5", INTEGERS},
        {"hincrbyfloat s1:views 7 1", INTEGERS},
        {"SET s1:views 1", INCREMENTS},
        {"del s1:views", INCREMENTS},
        {"UNLINK s1:views s2:views", INCREMENTS},
        {"HSET s1:views 7 1", INCREMENTS},
        {"HSETNX s1:views 7 1", INCREMENTS},
        {"HMSET s1:views 7 1", INCREMENTS},
        {"HDEL s1:views 7", INCREMENTS},
        {"GETSET s1:views 1", INCREMENTS},
        {"GETDEL s1:views", INCREMENTS},
        {"SETEX s1:views 60 1", INCREMENTS},
        {"APPEND s1:views 1", INCREMENTS},
        {"INCRBY s1:views 1", "-ERR counter 'views' counts by field: send HINCRBY key field n\r\n"},
        {"GET s1:views", "-ERR counter 'views' counts by field: send HGET key field\r\n"},
        {"RENAME s1:views other", INCREMENTS},
        {"MULTI\r\nHDEL s1:views 7\r\nEXEC", "+OK\r\n" INCREMENTS ABORTED},
        {"SET other 1", "-ERR unknown command 'SET', with args beginning with: 'other' '1' \r\n"},
        {"DEL", "-ERR unknown command 'DEL', with args beginning with: \r\n"},
        {"HRANDFIELD s1:views",
         "-ERR unknown command 'HRANDFIELD', with args beginning with: 's1:views' \r\n"},
    };
    SAY_ALL(vectors);
}

/* ---- what would read a hash ---- */

TEST(a_read_of_a_whole_hash_says_what_to_send)
{
    static const struct vector vectors[] = {
        {"HGETALL s1:views", NO_HASHES("HGETALL", " 's1:views'")},
        {"hlen s1:views", NO_HASHES("hlen", " 's1:views'")},
        {"HKEYS other", NO_HASHES("HKEYS", " 'other'")},
        {"HVALS s1:views", NO_HASHES("HVALS", " 's1:views'")},
        {"HEXISTS s1:views 7", NO_HASHES("HEXISTS", " 's1:views' '7'")},
        {"HSCAN s1:views 0", NO_HASHES("HSCAN", " 's1:views' '0'")},
        {"HSTRLEN s1:views 7", NO_HASHES("HSTRLEN", " 's1:views' '7'")},
        {"HGETALL", NO_HASHES("HGETALL", "")},
        {"MULTI\r\nHGETALL s1:views\r\nEXEC", "+OK\r\n" NO_HASHES("HGETALL", " 's1:views'") ABORTED},
    };
    SAY_ALL(vectors);
}
