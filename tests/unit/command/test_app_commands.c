/* What an app sends beside HINCRBY: HGET and HMGET read totals. */
#include "unit/command/world.h"

#define ARITY(name) "-ERR wrong number of arguments for '" name "' command\r\n"
#define NO_COUNTER "-ERR no counter is configured for key 'other'\r\n"
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

static void a_total_as_a_bulk(void **state)
{
    (void)state;
    say(client, "HINCRBY s1:views 7 1\r\nHGET s1:views 7\r\nPING\r\n");
    assert_null(total_out);
    frame_answered();
    heard(client, ":1\r\n");
    assert_slice(total_out->key, "s1:views");
    assert_int_equal(total_out->fields_n, 1);
    assert_slice(total_out->fields[0], "7");
    totals_are((const int64_t[]){INT64_MIN});
    heard(client, "$20\r\n-9223372036854775808\r\n+PONG\r\n");
}

static void totals_as_bulks(void **state)
{
    (void)state;
    say(client, "HMGET s1:views 8 7\r\n");
    assert_slice(total_out->fields[0], "8");
    assert_slice(total_out->fields[1], "7");
    totals_are((const int64_t[]){0, 42}); /* 0: never counted */
    heard(client, "*2\r\n$1\r\n0\r\n$2\r\n42\r\n");
    say(client, "HMGET s1:views 7\r\n");
    totals_are((const int64_t[]){-1});
    heard(client, "*1\r\n$2\r\n-1\r\n");
}

static void reads_refuse_as_ctr_total(void **state)
{
    (void)state;
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
static void a_client_that_caches_is_told_to_forget(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_total_as_a_bulk),
        TEST(totals_as_bulks),
        TEST(reads_refuse_as_ctr_total),
        TEST(a_client_that_caches_is_told_to_forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
