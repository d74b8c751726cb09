/* URLs in pieces: which piece each byte belongs to. */
#include "lib/unit.h"

#include "base/url.h"

#include <string.h>

/* "-": not there */
static void piece(struct slice got, const char *want)
{
    if (strcmp(want, "-") == 0)
        assert_null(got.p);
    else
        assert_slice(got, want);
}

UNIT(pieces)
{
    static const struct {
        const char *text, *scheme, *user, *password, *host, *port, *path, *query;
    } all[] = {
        {"tcp://127.0.0.1:7370", "tcp", "-", "-", "127.0.0.1", "7370", "-", "-"},
        {"redis://shop:a%40b@h:1/2", "redis", "shop", "a%40b", "h", "1", "/2", "-"},
        {"redis://h", "redis", "-", "-", "h", "-", "-", "-"},
        {"redis://", "redis", "-", "-", "", "-", "-", "-"},
        {"redis://h:", "redis", "-", "-", "h", "", "-", "-"},
        {"rediss://:se@cr/e?t@h/", "rediss", "", "se@cr/e?t", "h", "-", "/", "-"},
        {"redis://lonely@[::1]:9", "redis", "lonely", "-", "::1", "9", "-", "-"},
        {"redis://[::1]", "redis", "-", "-", "::1", "-", "-", "-"},
        {"mysql://u:p:q@db/shop?socket=/tmp/a@b", "mysql", "u", "p:q", "db", "-", "/shop", "socket=/tmp/a@b"},
        {"mysql:///sh@p?socket=/s", "mysql", "-", "-", "", "-", "/sh@p", "socket=/s"},
        {"unix:///run/u@x:1?db=3", "unix", "-", "-", "-", "-", "/run/u@x:1", "db=3"},
        {"unix://run/x?", "unix", "-", "-", "-", "-", "run/x", ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct url u;
        assert_null(url_split(slice_str(all[i].text), &u));
        piece(u.scheme, all[i].scheme);
        piece(u.user, all[i].user);
        piece(u.password, all[i].password);
        piece(u.host, all[i].host);
        piece(u.port, all[i].port);
        piece(u.path, all[i].path);
        piece(u.query, all[i].query);
        assert_int_equal(u.bracketed, strchr(all[i].text, '[') != NULL);
    }
}

UNIT(several_hosts)
{
    struct url u;
    assert_null(url_split(SLICE("redis://shop:s,t@a:1,b,[::1]:3,,e:/0"), &u));
    static const char *const want[][2] = {{"a", "1"}, {"b", "-"}, {"::1", "3"}, {"", "-"}, {"e", ""}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        piece(u.host, want[i][0]);
        piece(u.port, want[i][1]);
        assert_int_equal(u.bracketed, i == 2);
        assert_int_equal(u.more.p != NULL, i < 4);
        if (i < 4) assert_null(url_host_next(&u));
    }
    piece(u.password, "s,t");
    piece(u.path, "/0");
    assert_null(url_split(SLICE("mysql://a,[::1/shop"), &u));
    assert_non_null(strstr(url_host_next(&u), "']' after"));
}

UNIT(what_is_none)
{
    static const char *const bad[][2] = {
        {"", "scheme://"},
        {"h:1", "scheme://"},
        {"redis:/h", "scheme://"},
        {"redis://[::1", "']' after"},
        {"redis://[::1]x", "':port' after"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct url u;
        const char *expected = url_split(slice_str(bad[i][0]), &u);
        assert_non_null(strstr(expected, bad[i][1]));
        assert_int_equal(u.scheme.n, i < 3 ? 0 : 5);
    }
}

UNIT(ports)
{
    int port = 7;
    static const char *const bad[] = {"", "0", "65536", "-1", "1x", "x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(url_port(slice_str(bad[i]), &port));
    assert_int_equal(port, 7);
    assert_true(url_port(SLICE("65535"), &port));
    assert_int_equal(port, 65535);
}
