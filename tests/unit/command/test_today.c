/* CTR.HIT: the field of today in the store's zone, over midnight and over changes of its clocks; what is refused and how. */
#include "world.h"

#define AUCKLAND_MIDNIGHT INT64_C(1775300400)  /* 2026-04-04 11:00 UTC, its last night of summer time */
#define AUCKLAND_BACK INT64_C(1775311200)      /* 14:00 UTC: 3:00 becomes 2:00 */
#define KATHMANDU_MIDNIGHT INT64_C(1775326500) /* 2026-04-04 18:15 UTC */
#define HONOLULU_MIDNIGHT INT64_C(1775296800)  /* 2026-04-04 10:00 UTC */
#define BERLIN_FORTH INT64_C(1774746000)       /* 2026-03-29 01:00 UTC: 2:00 becomes 3:00 */

static void zones_set(void)
{
    struct zone_table *t = zone_table_create("Europe/Berlin", NULL);
    zone_table_add(t, SLICE("1"), SLICE("Pacific/Auckland"));
    zone_table_add(t, SLICE("2"), SLICE("Asia/Kathmandu"));
    zone_table_add(t, SLICE("3"), SLICE("Pacific/Honolulu"));
    zone_table_add(t, SLICE("4"), SLICE("Middle/Earth"));
    assert_int_equal(t->unknown, 1);
    assert_string_equal(t->unknown_names, "Middle/Earth");
    zones_publish(zones_utc()->of, t);
}

TEST(each_unknown_zone_is_told)
{
    static const char *const names[] = {"Middle/Earth", "Middle", "", "Nowhere", "", " ", "E",
                                        "Central Time", "E"};
    struct zone_table *t = zone_table_create(NULL, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        zone_table_add(t, slice_of((char[]){(char)('1' + i)}, 1), slice_str(names[i]));
    assert_int_equal(t->unknown, 9);
    assert_string_equal(t->unknown_names, "Middle/Earth Middle '' Nowhere ' ' E 'Central Time'");
    assert_int_equal(t->unknown_untold, 0);
    for (char c = 'a'; c <= 'z'; c++) {
        char name[61];
        memset(name, c, sizeof name);
        zone_table_add(t, slice_of(&c, 1), slice_of(name, sizeof name));
    }
    assert_int_equal(t->unknown_untold, 23); /* there is room for three */
    zone_table_drop(t);
}

static void field_of(const char *request, int64_t at_s, const char *field)
{
    world_now_s = at_s;
    say_slice(client, slice_str(request));
    frame_heard(client, ":1\r\n");
    assert_string_equal(fake.field, field);
}

/* An inline request, and what clients send, which is read without the parser. */
static void field_is(const char *request, int64_t at_s, const char *field)
{
    char key[64], as_sent[128];
    field_of(request, at_s, field);
    assert_int_equal(sscanf(request + sizeof "CTR.HIT", "%63s", key), 1);
    snprintf(as_sent, sizeof as_sent, "*2\r\n$7\r\nCTR.HIT\r\n$%zu\r\n%s\r\n", strlen(key), key);
    field_of(as_sent, at_s, field);
}

TEST(today_is_the_stores)
{
    views.field = FIELD_DATE;
    zones_set();
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_MIDNIGHT - 1, "20260404");
    field_is("ctr.hit s1:views 1\r\n", AUCKLAND_MIDNIGHT, "20260405");
    field_is("CTR.HIT s2:views\r\n", AUCKLAND_MIDNIGHT, "20260404");
    field_is("CTR.HIT s3:views\r\n", AUCKLAND_MIDNIGHT, "20260404");
    field_is("CTR.HIT s2:views\r\n", KATHMANDU_MIDNIGHT - 1, "20260404");
    field_is("CTR.HIT s2:views\r\n", KATHMANDU_MIDNIGHT, "20260405");
    field_is("CTR.HIT s3:views\r\n", HONOLULU_MIDNIGHT - 1, "20260403");
    field_is("CTR.HIT s3:views\r\n", HONOLULU_MIDNIGHT, "20260404");
    field_is("CTR.HIT s4:views\r\n", 1775253600 - 1,
             "20260403"); /* as Berlin: 2026-04-04 00:00 is 22:00 UTC */
    field_is("CTR.HIT s4:views\r\n", 1775253600, "20260404");
    field_is("CTR.HIT s5:views\r\n", 0, "19700101");
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_MIDNIGHT - 1, "20260404"); /* a clock that was put back */
}

TEST(hours_over_changes_of_clocks)
{
    views.field = FIELD_HOUR;
    zones_set();
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_BACK - 3601, "2026040501");
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_BACK - 1, "2026040502");
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_BACK, "2026040502");
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_BACK + 3599, "2026040502");
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_BACK + 3600, "2026040503");
    field_is("CTR.HIT s9:views\r\n", BERLIN_FORTH - 1, "2026032901");
    field_is("CTR.HIT s9:views\r\n", BERLIN_FORTH, "2026032903");
    field_is("CTR.HIT s2:views\r\n", KATHMANDU_MIDNIGHT - 1, "2026040423");
    field_is("CTR.HIT s2:views\r\n", KATHMANDU_MIDNIGHT, "2026040500");
}

TEST(as_the_counter_spells_it)
{
    views.field = FIELD_DATE;
    zones_set();
    assert_true(value_type_parse(SLICE("date seconds"), &views.spelled));
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_MIDNIGHT, "1775347200"); /* where that day begins in UTC */
    views.field = FIELD_MONTH;
    views.spelled = (struct value_type){VALUE_INTEGER, SPELLED_DIGITS, 0};
    field_is("CTR.HIT s1:views\r\n", AUCKLAND_MIDNIGHT, "202604");
}

TEST(a_new_table_holds_at_once)
{
    views.field = FIELD_DATE;
    zones_set();
    field_is("CTR.HIT s3:views\r\n", AUCKLAND_MIDNIGHT, "20260404");
    struct zone_table *t = zone_table_create(NULL, NULL);
    zone_table_add(t, SLICE("3"), SLICE("Pacific/Auckland"));
    zones_publish(zones_utc()->of, t);
    field_is("CTR.HIT s3:views\r\n", AUCKLAND_MIDNIGHT, "20260405");
}

/* A table of a million stores takes long to free. */
TEST(the_publisher_frees_what_the_loop_leaves)
{
    struct zones *zones = zones_utc()->of;
    views.field = FIELD_DATE;
    zones_set();
    assert_null(zones->left);
    field_is("CTR.HIT s3:views\r\n", AUCKLAND_MIDNIGHT, "20260404");
    struct zone_table *before = zones->latest;
    zones_set();
    assert_null(zones->left);
    field_is("CTR.HIT s3:views\r\n", AUCKLAND_MIDNIGHT, "20260404");
    assert_ptr_equal(zones->left, before);
    zones_set();
    assert_null(zones->left);
}

TEST(in_a_transaction_the_day_is_that_of_exec)
{
    views.field = FIELD_DATE;
    zones_set();
    world_now_s = AUCKLAND_MIDNIGHT - 1;
    say(client, "MULTI\r\nCTR.HIT s1:views\r\nHINCRBY s1:views 20260404 5\r\nCTR.HIT s1:views 3\r\n");
    world_now_s = AUCKLAND_MIDNIGHT;
    say(client, "EXEC\r\n");
    frame_heard(client, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:5\r\n:3\r\n");
    assert_string_equal(fake.field, "20260405");
    talk(client, "MULTI\r\nCTR.HIT s1:views x\r\nEXEC\r\n",
         "+OK\r\n-ERR value is not an integer or out of range\r\n"
         "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

TEST(what_is_refused)
{
    static const struct {
        const char *request, *answer;
    } cases[] = {
        {"CTR.HIT\r\n", "-ERR wrong number of arguments for 'ctr.hit' command\r\n"},
        {"CTR.HIT s1:views 1 2\r\n", "-ERR syntax error\r\n"},
        {"CTR.HIT s1:views TOKEN\r\n", "-ERR value is not an integer or out of range\r\n"},
        {"CTR.HIT s1:views 1 TOKEN\r\n", "-ERR syntax error\r\n"},
        {"CTR.HIT s1:views TOKEN a b\r\n", "-ERR value is not an integer or out of range\r\n"},
        {"CTR.HIT s1:views 1 TOKEN a b\r\n", "-ERR syntax error\r\n"},
        {"CTR.HIT s1:views TOKEN \"a b\"\r\n",
         "-ERR a TOKEN is 1 to 128 printable ASCII characters without a space\r\n"},
        {"CTR.HIT s1:views 1.5\r\n", "-ERR value is not an integer or out of range\r\n"},
        {"CTR.HIT s1:views 9223372036854775808\r\n", "-ERR value is not an integer or out of range\r\n"},
        {"CTR.HIT s1:views 9007199254740993\r\n", "-ERR increment '9007199254740993' is too large: at most "
                                                  "9007199254740992 either way (limits.hit)\r\n"},
        {"CTR.HIT nobody:knows\r\n", "-ERR no counter is configured for key 'nobody:knows'\r\n"},
    };
    views.field = FIELD_DATE;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        say_slice(client, slice_str(cases[i].request));
        heard(client, cases[i].answer);
    }
    views.field = FIELD_INTEGER;
    say(client, "CTR.HIT s1:views\r\n");
    heard(client,
          "-ERR counter 'views' counts by integer, so it has no field of today; CTR.HIT is for counters "
          "by date, hour or month, use HINCRBY\r\n");
    assert_int_equal(fake.adds, 0);
}
