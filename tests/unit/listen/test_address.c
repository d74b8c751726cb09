/* Addresses: what may be listened on, and what a refused one is told. */
#include "lib/unit.h"

#include "listen/address.h"

static void takes(void **state)
{
    (void)state;
    struct address a;
    assert_int_equal(address_parse(SLICE("tcp://127.0.0.1:7370"), &a, NULL), ERR_NONE);
    assert_string_equal(a.host, "127.0.0.1");
    assert_string_equal(a.port, "7370");
    assert_false(a.is_unix);
    assert_int_equal(address_parse(SLICE("tcp://[::1]:0"), &a, NULL), ERR_NONE);
    assert_string_equal(a.host, "::1");
    assert_false(a.is_tls);
    assert_int_equal(address_parse(SLICE("tls://0.0.0.0:7380"), &a, NULL), ERR_NONE);
    assert_true(a.is_tls);
    assert_string_equal(a.host, "0.0.0.0");
    assert_int_equal(address_parse(SLICE("unix:///s?group=7&mode=666"), &a, NULL), ERR_NONE);
    assert_string_equal(a.path, "/s");
    assert_int_equal(a.options.mode, 0666);
    assert_string_equal(a.options.group, "7");
    assert_int_equal(address_parse(SLICE("unix:///run/tallyd/tallyd.sock"), &a, NULL), ERR_NONE);
    assert_true(a.is_unix);
    assert_string_equal(a.path, "/run/tallyd/tallyd.sock");
}

static void refuses(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"127.0.0.1:7370", "expected tcp://host:port, tls://host:port or unix:///path"},
        {"tcp://127.0.0.1", "expected tcp://host:port"},
        {"tcp://:7370", "expected a host"},
        {"tcp://::1:7370", "brackets"},
        {"tcp://[]:7370", "brackets"},
        {"tcp://a:65536", "0 to 65535"},
        {"tcp://a:x", "0 to 65535"},
        {"tcp://a:", "0 to 65535"},
        {"unix://run/x", "must begin with /"},
        {"unix://", "must begin with /"},
        {"tls://a:65536", "0 to 65535"},
        {"unix:///s?mode=9", "no"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct address a;
        struct error e;
        assert_int_equal(address_parse(slice_str(bad[i][0]), &a, &e), ERR_CONFIG);
        assert_non_null(strstr(e.text, bad[i][1]));
        assert_non_null(strstr(e.text, bad[i][0]));
    }
}

static void refuses_paths_longer_than_a_socket_name(void **state)
{
    (void)state;
    char url[7 + 108 + 1] = "unix:///";
    struct address a;
    struct error e;
    memset(url + 8, 'x', 107);
    assert_int_equal(address_parse(slice_of(url, 7 + 108), &a, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "107"));
    assert_int_equal(address_parse(slice_of(url, 7 + 107), &a, &e), ERR_NONE);
    assert_int_equal(strlen(a.path), 107);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_paths_longer_than_a_socket_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
