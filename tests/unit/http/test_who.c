/* The source of a request: this machine or a token, and which names belong to the store that a token is bound to. */
#include "lib/unit.h"

#include "http/exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

static struct conf_bearer all[] = {{"operator", "operator-0123456789", NULL},
                                   {"shop", "shop-0123456789abc", "7"}};
static const struct conf_bearers tokens = {all, 2};

static bool is_here(const char *address, const char *host, bool forwarded)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool is_v6 = strchr(address, ':') != NULL;
    assert_int_equal(
        inet_pton(is_v6 ? AF_INET6 : AF_INET, address, is_v6 ? (void *)&v6.sin6_addr : &v4.sin_addr), 1);
    struct who_asks q = {.peer = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
                         .host = host,
                         .forwarded = forwarded};
    return who_asks(&q, &tokens).known;
}

UNIT(the_loopback_is_here)
{
    assert_true(is_here("127.0.0.1", "localhost:7371", false));
    assert_true(is_here("127.3.4.5", "127.0.0.1", false));
    assert_true(is_here("::1", "[::1]:7371", false));
    assert_true(is_here("::ffff:127.0.0.1", "localhost", false));
}

UNIT(others_are_not)
{
    assert_false(is_here("192.0.2.1", "localhost", false));
    assert_false(is_here("::ffff:192.0.2.1", "localhost", false));
    assert_false(is_here("2001:db8::1", "[::1]", false));
    assert_false(is_here("127.0.0.1", "shop.example", false)); /* a page that had its name rebound */
    assert_false(is_here("127.0.0.1", "127.0.0.1.example", false));
    assert_false(is_here("127.0.0.1", "1270.0.0.1", false));
    assert_false(is_here("127.0.0.1", NULL, false));
    assert_false(is_here("127.0.0.1", "localhost", true)); /* a proxy */
}

UNIT(a_proxy_gives_itself_away)
{
    static const char *const added[] = {"Forwarded",
                                        "X-Forwarded-For",
                                        "x-forwarded-host",
                                        "X-Real-IP",
                                        "Via",
                                        "CF-Connecting-IP",
                                        "True-Client-IP",
                                        "X-Envoy-External-Address",
                                        "X-Amzn-Trace-Id",
                                        "Fly-Client-IP"};
    static const char *const own[] = {"Host",     "Accept", "User-Agent", "Authorization",
                                      "X-Tallyd", "Cookie", "Origin"};
    for (size_t i = 0; i < sizeof added / sizeof *added; i++)
        assert_true(header_is_of_a_proxy(added[i]));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_false(header_is_of_a_proxy(own[i]));
}

UNIT(another_origin_is_seen)
{
    const char *host = "127.0.0.1:7371";
    assert_false(is_cross_origin(NULL, NULL, host)); /* no browser */
    assert_false(is_cross_origin("same-origin", NULL, host));
    assert_false(is_cross_origin("none", NULL, host)); /* typed, or a bookmark */
    assert_true(is_cross_origin("cross-site", NULL, host));
    assert_true(is_cross_origin("same-site", NULL, host)); /* another port of this machine */
    assert_false(is_cross_origin("same-origin", "https://panel.example", host)); /* a proxy changed Host */
    assert_false(is_cross_origin(NULL, "http://127.0.0.1:7371", host));
    assert_true(is_cross_origin(NULL, "http://127.0.0.1:3000", host));
    assert_true(is_cross_origin(NULL, "null", host));
    assert_true(is_cross_origin(NULL, "http://127.0.0.1:7371", NULL));
}

UNIT(a_unix_socket_is_here)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct who_asks q = {.peer = (struct sockaddr *)&local, .host = "anything"};
    assert_true(who_asks(&q, &tokens).known);
    q.forwarded = true;
    assert_false(who_asks(&q, &tokens).known);
    q.forwarded = false;
    q.local_token = true;
    assert_false(who_asks(&q, &tokens).known);
}

static struct who with(const char *authorization)
{
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xC0000201)};
    struct who_asks q = {
        .peer = (struct sockaddr *)&far, .host = "shop.example", .authorization = authorization};
    return who_asks(&q, &tokens);
}

UNIT(a_token_is_taken_whole)
{
    struct who w = with("Bearer operator-0123456789");
    assert_true(w.known);
    assert_ptr_equal(w.bearer, &all[0]);
    assert_null(who_store(&w).p);
    w = with("bearer shop-0123456789abc");
    assert_true(w.known);
    assert_slice(who_store(&w), "7");
    static const char *const wrong[] = {"Bearer operator-012345678",
                                        "Bearer operator-01234567890",
                                        "Bearer ",
                                        "Bearer",
                                        "operator-0123456789",
                                        "Basic operator-0123456789",
                                        "Bearer  operator-0123456789",
                                        "Bearer Operator-0123456789",
                                        ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(with(wrong[i]).known);
}

UNIT(a_token_too_long_to_be_one_is_refused)
{
    char text[400] = "Bearer ";
    static char secret[CONF_BEARER_MOST + 1];
    struct conf_bearer one = {"long", secret, NULL};
    struct conf_bearers only = {&one, 1};
    memset(secret, 'x', CONF_BEARER_MOST);
    struct sockaddr_in far = {.sin_family = AF_INET};
    struct who_asks q = {.peer = (struct sockaddr *)&far, .authorization = text};
    memset(text + 7, 'x', CONF_BEARER_MOST);
    assert_true(who_asks(&q, &only).known);
    text[7 + CONF_BEARER_MOST] = 'x';
    assert_false(who_asks(&q, &only).known);
}

static struct pattern pattern(const char *text)
{
    struct pattern p;
    assert_int_equal(pattern_parse(slice_str(text), &p, NULL), ERR_NONE);
    return p;
}

UNIT(names_belong_to_stores)
{
    struct counter views = {.store = STORE_INTEGER, .key = pattern("s<store>:product_views")};
    views.feeds[FEED_SERIES] = pattern("s<store>:views");
    views.feeds[FEED_TIMEBOX] = pattern("b<store>");
    views.feeds[FEED_EVENT] = pattern("s<store>:view");
    struct op_limits ops = {.uniq_name = pattern("s<store>:visitors"), .uniq_counter = &views};
    struct counters cs = {&views, 1, &ops};
    struct slice none = slice_of("", 0), seven = SLICE("7");
    assert_true(name_is_of(&cs, OP_SERIES, SLICE("s7:views"), none, seven));
    assert_false(name_is_of(&cs, OP_SERIES, SLICE("s77:views"), none, seven));
    assert_false(name_is_of(&cs, OP_SERIES, SLICE("b7"), none, seven));
    assert_true(name_is_of(&cs, OP_TIMEBOX, SLICE("b7"), none, seven));
    assert_true(name_is_of(&cs, OP_EVENT, SLICE("s7"), SLICE("view"), seven));
    assert_false(name_is_of(&cs, OP_EVENT, SLICE("s7"), SLICE("order"), seven));
    assert_true(name_is_of(&cs, OP_UNIQ, SLICE("s7:visitors"), none, seven));
    ops.uniq_counter = NULL;
    assert_false(name_is_of(&cs, OP_UNIQ, SLICE("s7:visitors"), none, seven));
}
