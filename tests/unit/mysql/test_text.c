/* Tests without a server: URLs, error classes, the text of statements in both dialects, forms of columns. */
#include "lib/unit.h"

#include "mysql/db.h"
#include "mysql/merge.h"
#include "mysql/schema.h"
#include "mysql/text.h"

#include <stdlib.h>

#define assert_maybe(got, expected)                                                                          \
    do {                                                                                                     \
        if ((expected) == NULL)                                                                              \
            assert_null(got);                                                                                \
        else                                                                                                 \
            assert_string_equal((got), (expected));                                                          \
    } while (0)

static void url_is(const char *url, const char *user, const char *password, const char *host, unsigned port,
                   const char *database, const char *socket)
{
    struct db_config c;
    struct error e;
    db_config_init(&c);
    if (db_config_parse(slice_str(url), &c, &e) != ERR_NONE) fail_msg("%s", e.text);
    assert_maybe(c.user, user);
    assert_maybe(c.password, password);
    assert_int_equal(c.hosts_n, 1);
    assert_maybe(c.hosts[0].name, host);
    assert_maybe(c.database, database);
    assert_maybe(c.socket, socket);
    assert_int_equal(c.hosts[0].port, port);
    db_config_close(&c);
}

UNIT(url_good)
{
    url_is("mysql://tally@127.0.0.1:3306/shop", "tally", NULL, "127.0.0.1", 3306, "shop", NULL);
    url_is("mysql://tally@localhost/shop?socket=/run/my%20sql.sock", "tally", NULL, "localhost", 0, "shop",
           "/run/my sql.sock");
    url_is("mysql://t%40lly:p%3Aa%2F@db/shop", "t@lly", "p:a/", "db", 0, "shop", NULL);
    url_is("mysql://tally:a:b@db/shop", "tally", "a:b", "db", 0, "shop", NULL);
    url_is("mysql://tally@[::1]:3307/shop", "tally", NULL, "::1", 3307, "shop", NULL);
    url_is("mysql://[::1]/shop", NULL, NULL, "::1", 0, "shop", NULL);
    url_is("mysql:///shop", NULL, NULL, NULL, 0, "shop", NULL);
}

UNIT(url_of_several_hosts)
{
    static const char *const want[] = {"db1:3306", "db2:3307", "::1:9", "localhost"};
    struct db_config c;
    struct error e;
    char text[40];
    db_config_init(&c);
    assert_int_equal(db_config_parse(SLICE("mysql://t@db1,db2:3307,[::1]:9,localhost/shop"), &c, &e),
                     ERR_NONE);
    assert_int_equal(c.hosts_n, 4);
    for (size_t i = 0; i < 4; i++) {
        db_host_text(&c, i, text, sizeof text);
        assert_string_equal(text, want[i]);
    }
    assert_true(db_config_is_socket(&c));
    db_config_close(&c);
    assert_int_equal(c.hosts_n, 0);
}

UNIT(url_bad)
{
    static const char *const bad[] = {"",
                                      "mysql:/x/shop",
                                      "redis://localhost/0",
                                      "mysql://secret@localhost",
                                      "mysql://secret@localhost/",
                                      "mysql://secret@localhost/a/b",
                                      "mysql://x:secret@localhost:0/shop",
                                      "mysql://x:secret@localhost:65536/shop",
                                      "mysql://x:secret@localhost:33x/shop",
                                      "mysql://x:secret%@localhost/shop",
                                      "mysql://x:secret%0@localhost/shop",
                                      "mysql://x:secret%zz@localhost/shop",
                                      "mysql://x:secret%00@localhost/shop",
                                      "mysql://x:secret@[::1/shop",
                                      "mysql://x:secret@[::1]3306/shop",
                                      "mysql://x:secret@a,/shop",
                                      "mysql://x:secret@,a/shop",
                                      "mysql://x:secret@a:1,b:0/shop",
                                      "mysql://x:secret@a,[::1/shop",
                                      "mysql://x:secret@a,b/shop?socket=/x",
                                      "mysql://x:secret@localhost/shop?sock=/x",
                                      "mysql://x:secret@localhost/shop?socket="};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct db_config c;
        struct error e;
        db_config_init(&c);
        if (db_config_parse(slice_str(bad[i]), &c, &e) != ERR_CONFIG) fail_msg("%s was taken", bad[i]);
        assert_null(strstr(e.text, "secret"));
        assert_null(c.user);
        assert_null(c.password);
        db_config_close(&c);
    }
}

UNIT(password_of_its_own)
{
    struct db_config c;
    struct error e;
    db_config_init(&c);
    assert_int_equal(db_config_parse(SLICE("mysql://tally:hush@[::1]:3306/shop"), &c, &e), ERR_NONE);
    db_config_set_password(&c, SLICE("hush2"));
    assert_string_equal(c.password, "hush2");
    db_config_close(&c);
}

/* The table of the facts about MySQL, code by code. */
UNIT(codes)
{
    static const struct {
        enum code_class class;
        unsigned codes[24];
    } facts[] = {
        {CODE_AGAIN,
         {1205, 1213, 1020, 1180, 3101, 1206, 1614, 1317, 1969, 3024, 3572, 1412, 1615, 8002, 8005, 8022,
          8028, 9007}},
        {CODE_LINK,
         {2006, 2013, 2055, 2002, 2003, 4031, 1053, 1927, 3169, 1158, 1159, 1160, 1161, 2014, 2027, 2012}},
        {CODE_WAIT, {3, 20, 1040, 1203, 1226, 3100, 1114, 1021, 1030, 1041, 2005}},
        {CODE_AWAY, {1036, 1047, 1290, 1792, 1836, 1874, 3032, 9001, 9002, 9003, 9004, 9005}},
        {CODE_DUPLICATE, {1062}},
        {CODE_POISON, {1264, 1690, 1406, 1366, 1292, 1048, 3819, 4025, 1452, 1526, 1644}},
        {CODE_SIZE, {1153, 1197}},
        {CODE_OPERATOR, {1044, 1045, 1142, 1143, 1146, 1054, 1049, 1064, 1193, 1136, 1364}},
        {CODE_FOREIGN, {1, 999, 1105, 9000, 9006, 9501, 30001, 65535}},
    };
    assert_int_equal(code_class(0), CODE_OK);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        for (size_t j = 0; facts[i].codes[j] != 0; j++)
            if (code_class(facts[i].codes[j]) != facts[i].class)
                fail_msg("%u is of class %d", facts[i].codes[j], (int)code_class(facts[i].codes[j]));
}

const char *db_tls_advice(const char *said); /* its header wants mysql.h, which no test sees */

/* One certificate for another name, as each library says it. */
UNIT(advice_of_tls)
{
    static const char *const said[] = {"Validation of SSL server certificate failed",
                                       "TLS/SSL error: Hostname verification failed", "hostname mismatch",
                                       "IP address mismatch"};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        assert_non_null(strstr(db_tls_advice(said[i]), "does not name the host of mysql.url"));
    assert_non_null(strstr(db_tls_advice("certificate has expired"), "renew"));
}

UNIT(dialects)
{
    assert_int_equal(db_dialect_of("8.0.19", false), DB_VALUES);
    assert_int_equal(db_dialect_of("8.0.20-0ubuntu", false), DB_ROW_ALIAS);
    assert_int_equal(db_dialect_of("5.7.44-log", false), DB_VALUES);
    assert_int_equal(db_dialect_of("9.7.4", false), DB_ROW_ALIAS);
    assert_int_equal(db_dialect_of("8.4.0", false), DB_ROW_ALIAS);
    assert_int_equal(db_dialect_of("10.11.19-MariaDB", true), DB_VALUES);
    assert_int_equal(db_dialect_of("5.5.5-10.11.19-MariaDB", true), DB_VALUES);
    assert_int_equal(db_dialect_of("no version", false), DB_VALUES);
}

static const struct counter views = {
    .name = {"product_views", 13},
    .key = {.prefix = {"s", 1}, .suffix = {":product_views", 14}, .has_store = true},
    .field = FIELD_HOUR,
    .store = STORE_TEXT,
    .table = {"product_views", 13},
    .column_store = {"store_id", 8},
    .column_field = {"hour", 4},
    .column_count = {"n", 1},
};

static void upsert_is(enum db_dialect dialect, bool nullable, const char *expected)
{
    struct buf sql = {0}, key = {0};
    struct columns forms = {.store = FORM_BYTES, .field = FORM_DATETIME, .nullable = nullable};
    const struct table_row row = {.store = {SLICE("a'b"), SLICE("a'b")},
                                  .field = {SLICE("2014092013"), SLICE("2014092013")}};
    sql_key(&key, &views, &forms, &row);
    sql_upsert_head(&sql, &views);
    sql_upsert_row(&sql, &views, &forms, buf_slice(&key), 5, true);
    sql_upsert_row(&sql, &views, &forms, buf_slice(&key), -7, false);
    sql_upsert_tail(&sql, &views, &forms, dialect);
    assert_slice(buf_slice(&sql), expected);
    buf_free(&sql);
    buf_free(&key);
}

UNIT(upsert_text)
{
    upsert_is(DB_VALUES, false,
              "INSERT INTO `product_views` (`store_id`,`hour`,`n`) VALUES "
              "(x'612762','2014-09-20 13:00:00',5),(x'612762','2014-09-20 13:00:00',-7)"
              " ON DUPLICATE KEY UPDATE `n` = `product_views`.`n` + VALUES(`n`)");
    upsert_is(DB_VALUES, true,
              "INSERT INTO `product_views` (`store_id`,`hour`,`n`) VALUES "
              "(x'612762','2014-09-20 13:00:00',5),(x'612762','2014-09-20 13:00:00',-7)"
              " ON DUPLICATE KEY UPDATE `n` = COALESCE(`product_views`.`n`, 0) + VALUES(`n`)");
    upsert_is(DB_ROW_ALIAS, false,
              "INSERT INTO `product_views` (`store_id`,`hour`,`n`) VALUES "
              "(x'612762','2014-09-20 13:00:00',5),(x'612762','2014-09-20 13:00:00',-7)"
              " AS tallyd_row ON DUPLICATE KEY UPDATE `n` = `product_views`.`n` + tallyd_row.`n`");
}

UNIT(update_text)
{
    struct buf sql = {0};
    const struct columns forms = {
        .store = FORM_BYTES, .field = FORM_DATETIME, .nullable = true, .bounded = true};
    sql_update_row(&sql, &views, &forms, SLICE("x'61',7"), -5);
    assert_slice(buf_slice(&sql), "UPDATE `product_views` SET `n` = COALESCE(`product_views`.`n`, 0) + (-5)"
                                  " WHERE (`store_id`,`hour`) = (x'61',7)");
    buf_free(&sql);
}

static void key_is(enum column_form form, struct slice field, const char *expected)
{
    const struct counter c = {.column_field = SLICE("d")};
    const struct table_row row = {.field = {field, field}};
    const struct columns forms = {.field = form};
    struct buf key = {0};
    sql_key(&key, &c, &forms, &row);
    assert_slice(buf_slice(&key), expected);
    buf_free(&key);
}

UNIT(key_text)
{
    key_is(FORM_INTEGER, SLICE("20140920"), "20140920");
    key_is(FORM_DATE, SLICE("20140920"), "'2014-09-20'");
    key_is(FORM_DATE, SLICE("201409"), "'2014-09-01'");
    key_is(FORM_DATETIME, SLICE("20140920"), "'2014-09-20 00:00:00'");
    key_is(FORM_DATETIME, SLICE("2014092013"), "'2014-09-20 13:00:00'");
    key_is(FORM_BYTES, SLICE("ab"), "x'6162'");
    key_is(FORM_TEXT, SLICE("ab"), "_utf8mb4 x'6162'");
}

UNIT(forms)
{
    assert_int_equal(column_form_of(SLICE("bigint"), SLICE("")), FORM_INTEGER);
    assert_int_equal(column_form_of(SLICE("INT"), SLICE("")), FORM_INTEGER);
    assert_int_equal(column_form_of(SLICE("date"), SLICE("")), FORM_DATE);
    assert_int_equal(column_form_of(SLICE("datetime"), SLICE("")), FORM_DATETIME);
    assert_int_equal(column_form_of(SLICE("timestamp"), SLICE("")), FORM_NONE);
    assert_int_equal(column_form_of(SLICE("varbinary"), SLICE("")), FORM_BYTES);
    assert_int_equal(column_form_of(SLICE("binary"), SLICE("")), FORM_NONE);
    assert_int_equal(column_form_of(SLICE("varchar"), SLICE("utf8mb4_general_ci")), FORM_TEXT);
    assert_int_equal(column_form_of(SLICE("varchar"), SLICE("utf8mb4_bin")), FORM_TEXT);
    assert_int_equal(column_form_of(SLICE("varchar"), SLICE("utf8mb4_nopad_bin")), FORM_BYTES);
    assert_int_equal(column_form_of(SLICE("varchar"), SLICE("utf8mb4_0900_bin")), FORM_BYTES);
    assert_int_equal(column_form_of(SLICE("text"), SLICE("utf8mb4_nopad_bin")), FORM_NONE);
    assert_int_equal(column_form_of(SLICE("double"), SLICE("")), FORM_NONE);
    assert_false(column_fits(FORM_DATE, VALUE_HOUR));
    assert_true(column_fits(FORM_DATETIME, VALUE_DATE));
    assert_false(column_fits(FORM_DATETIME, VALUE_INTEGER));
    assert_false(column_fits(FORM_INTEGER, VALUE_TEXT));
    assert_false(column_fits_store(FORM_INTEGER, STORE_TEXT));
    assert_false(column_fits_store(FORM_DATE, STORE_INTEGER));
    assert_true(column_fits_store(FORM_BYTES, STORE_INTEGER));
}

UNIT(statements_of_a_file)
{
    struct slice rest =
        SLICE("-- a comment;\n\nCREATE TABLE a (\n  x INT COMMENT 'a; b'\n);\n-- more\nDROP TABLE b;");
    struct slice statement;
    assert_true(sql_next(&rest, &statement));
    assert_slice(statement, "CREATE TABLE a (\n  x INT COMMENT 'a; b'\n)");
    assert_true(sql_next(&rest, &statement));
    assert_slice(statement, "DROP TABLE b");
    assert_false(sql_next(&rest, &statement));
}

UNIT(files_are_numbered)
{
    assert_true(sql_files_n > 0);
    for (size_t i = 0; i < sql_files_n; i++)
        assert_int_equal(sql_files[i].version, i + 1);
}
