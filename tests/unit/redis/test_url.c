/* Which Redis URLs are valid, and that no error repeats a password. */
#include "base/heap.h"
#include "base/url.h"
#include "lib/unit.h"
#include "redis/place.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

static void reads(const char *text, struct redis_url want)
{
    struct redis_url url;
    struct error e = {0};
    assert_int_equal(redis_url_parse(slice_str(text), &url, &e), ERR_NONE);
    const char *const got[] = {url.path, url.user, url.password};
    const char *const expected[] = {want.path, want.user, want.password};
    for (int i = 0; i < 3; i++) {
        if (expected[i] == NULL)
            assert_null(got[i]);
        else
            assert_string_equal(got[i], expected[i]);
    }
    assert_int_equal(url.hosts_n, want.hosts_n);
    for (unsigned i = 0; i < url.hosts_n; i++) {
        assert_string_equal(url.hosts[i].name, want.hosts[i].name);
        assert_int_equal(url.hosts[i].port, want.hosts[i].port);
    }
    assert_int_equal(url.db, want.db);
    assert_int_equal(url.secure, want.secure);
    redis_url_close(&url);
}

#define ONE_HOST(n, p) .hosts = {{n, p}}, .hosts_n = 1

UNIT(test_forms)
{
    reads("redis://127.0.0.1:6380/2", (struct redis_url){ONE_HOST("127.0.0.1", 6380), .db = 2});
    reads("redis://cache", (struct redis_url){ONE_HOST("cache", 6379)});
    reads("rediss://u:p@cache:6390/1",
          (struct redis_url){ONE_HOST("cache", 6390), .db = 1, .user = "u", .password = "p", .secure = true});
    reads("redis://cache/", (struct redis_url){ONE_HOST("cache", 6379)});
    reads("redis://[::1]:7000", (struct redis_url){ONE_HOST("::1", 7000)});
    reads("redis://[::1]", (struct redis_url){ONE_HOST("::1", 6379)});
    reads("redis://shop:a%40b%3Ac@h:1",
          (struct redis_url){ONE_HOST("h", 1), .user = "shop", .password = "a@b:c"});
    reads("redis://:secret@h", (struct redis_url){ONE_HOST("h", 6379), .password = "secret"});
    reads("redis://shop@h",
          (struct redis_url){ONE_HOST("h", 6379), .user = "shop"}); /* its password is in a file */
    reads("redis://:se@cret@h", (struct redis_url){ONE_HOST("h", 6379), .password = "se@cret"});
    reads("redis://a,b:7000,[::1]:7001/3",
          (struct redis_url){.hosts = {{"a", 6379}, {"b", 7000}, {"::1", 7001}}, .hosts_n = 3, .db = 3});
    reads("unix:///run/redis.sock", (struct redis_url){.path = "/run/redis.sock"});
    reads("unix:///run/a%20b?db=3", (struct redis_url){.path = "/run/a b", .db = 3});
}

UNIT(test_refused)
{
    static const char *const bad[] = {"",
                                      "http://h",
                                      "redis://",
                                      "redis://h:0",
                                      "rediss://",
                                      "rediss://u:hidden%@h",
                                      "redis://h:65536",
                                      "redis://h:x",
                                      "redis://h/x",
                                      "redis://h:1/-1",
                                      "redis://u:hidden%@h",
                                      "redis://u:hidden%2@h",
                                      "redis://u:hidden%00@h",
                                      "redis://[::1",
                                      "redis://[::1]x",
                                      "unix://run/s",
                                      "unix:///s?hidden=1",
                                      "unix:///s?db=x",
                                      "redis://h,",
                                      "redis://h,,i",
                                      "redis://h:1,i:x",
                                      "redis://1,2,3,4,5,6,7,8,9",
                                      "redis://h:"};
    struct redis_url url;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error e = {0};
        assert_int_equal(redis_url_parse(slice_str(bad[i]), &url, &e), ERR_CONFIG);
        assert_null(strstr(e.text, "hidden"));
        assert_non_null(strstr(e.text, "expected"));
        assert_int_equal(url.hosts_n, 0);
        assert_null(url.password);
    }
}

UNIT(test_long_path)
{
    char text[300];
    struct redis_url url;
    struct error e = {0};
    snprintf(text, sizeof text, "unix:///%0*d", UNIX_PATH_MAX - 1, 0);
    assert_int_equal(redis_url_parse(slice_str(text), &url, &e), ERR_NONE);
    redis_url_close(&url);
    snprintf(text, sizeof text, "unix:///%0*d", UNIX_PATH_MAX, 0);
    assert_int_equal(redis_url_parse(slice_str(text), &url, &e), ERR_CONFIG);
}

UNIT(test_password_apart)
{
    struct redis_url url;
    struct error e;
    assert_int_equal(redis_url_parse(slice_str("redis://shop:old@h"), &url, &e), ERR_NONE);
    redis_url_set_password(&url, SLICE("new"));
    assert_string_equal(url.password, "new");
    assert_string_equal(url.user, "shop");
    redis_url_close(&url);
}

/* Freed memory holds no secret. */
static void *plain_realloc(void *arg, void *p, size_t size)
{
    return realloc(p, size);
}

static void looking_free(void *arg, void *p)
{
    if (p != NULL) assert_null(memmem(p, malloc_usable_size(p), "secret", 6));
    free(p);
}

UNIT(test_passwords_are_wiped)
{
    struct redis_url url;
    struct error e;
    heap_replace(&(struct heap){plain_realloc, looking_free, NULL});
    assert_int_equal(redis_url_parse(SLICE("redis://:secret@h"), &url, &e), ERR_NONE);
    redis_url_set_password(&url, SLICE("another secret"));
    redis_url_close(&url);
    assert_int_equal(redis_url_parse(SLICE("redis://:secret@h:0"), &url, &e), ERR_CONFIG);
    assert_int_equal(redis_url_parse(SLICE("redis://:secret%zz@h"), &url, &e), ERR_CONFIG);
    heap_replace(NULL);
}
