/* The table of routes against openapi.yaml, as the program carries it: no path or method in one that is not in the other,
 * and the same parameters. */
#include "lib/unit.h"

#include "http/exchange.h"

#include <stdio.h>

/* The text of openapi.yaml from the line `  <path>:` on to the next path. */
static bool contract_of(const char *path, struct slice *out)
{
    char head[128];
    struct slice all = asset_find(SLICE("openapi.yaml"))->text;
    int n = snprintf(head, sizeof head, "\n  %s:\n", path);
    const char *from = memmem(all.p, all.n, head, (size_t)n);
    if (from == NULL) return false;
    size_t left = (size_t)(all.p + all.n - from) - (size_t)n;
    const char *end = memmem(from + n, left, "\n  /", 4), *last = memmem(from + n, left, "\ncomponents:", 12);
    if (end == NULL || last < end) end = last;
    *out = slice_of(from + n - 1, (size_t)(end - from) - (size_t)n + 2);
    return true;
}

static bool has(struct slice text, const char *part)
{
    return memmem(text.p, text.n, part, strlen(part)) != NULL;
}

static size_t count(struct slice text, const char *part)
{
    size_t n = 0;
    for (const char *at; (at = memmem(text.p, text.n, part, strlen(part))) != NULL; n++)
        text = slice_of(at + 1, (size_t)(text.p + text.n - at) - 1);
    return n;
}

UNIT(every_route_is_in_the_contract)
{
    for (size_t i = 0; i < routes_n; i++) {
        struct slice text;
        char method[16];
        if (!contract_of(routes[i].path, &text)) fail_msg("openapi.yaml has no %s", routes[i].path);
        snprintf(method, sizeof method, "\n    %s:\n", strcmp(routes[i].method, "GET") == 0 ? "get" : "post");
        assert_true(has(text, method));
        assert_int_equal(count(text, "\n    get:\n") + count(text, "\n    post:\n"), 1);
    }
}

UNIT(everything_in_the_contract_has_a_route)
{
    struct slice all = asset_find(SLICE("openapi.yaml"))->text;
    const char *end = memmem(all.p, all.n, "\ncomponents:", 12);
    assert_non_null(end);
    assert_int_equal(count(slice_of(all.p, (size_t)(end - all.p)), "\n  /"), routes_n);
}

UNIT(parameters_are_the_same)
{
    for (size_t i = 0; i < routes_n; i++) {
        struct slice text;
        size_t words = 0;
        assert_true(contract_of(routes[i].path, &text));
        for (const char *at = routes[i].args; *at != '\0'; at += strspn(at, " ")) {
            char wanted[64];
            size_t n = strcspn(at, " ");
            snprintf(wanted, sizeof wanted, "{ name: %.*s, in: query,", (int)n, at);
            if (!has(text, wanted)) fail_msg("%s: openapi.yaml has no %s", routes[i].path, wanted);
            at += n;
            words++;
        }
        assert_int_equal(count(text, "in: query"), words);
    }
}

static const struct route *find(const char *method, const char *path, const char **allow)
{
    struct target t = {0};
    assert_null(target_read_path(&t, slice_str(path)));
    const struct route *r = route_find(method, &t, allow);
    target_close(&t);
    return r;
}

UNIT(finds_by_method_and_path)
{
    const char *allow;
    const struct route *r = find("GET", "/api/stores/7/counters/views", &allow);
    assert_string_equal(r->path, "/api/stores/{store}/counters/{counter}");
    assert_int_equal(route_variable(r, 0), 2);
    assert_int_equal(route_variable(r, 1), 4);
    assert_true(route_knows(r, SLICE("from")) && route_knows(r, SLICE("field")));
    assert_false(route_knows(r, SLICE("fiel")) || route_knows(r, SLICE("")) ||
                 route_knows(r, SLICE("to top")));
    assert_ptr_equal(find("HEAD", "/healthz", &allow), find("GET", "/healthz", &allow));
    assert_null(find("POST", "/healthz", &allow));
    assert_string_equal(allow, "GET, HEAD");
    assert_null(find("GET", "/api/rejects/x/drop", &allow));
    assert_string_equal(allow, "POST");
    assert_null(find("GET", "/api/stores//counters/views", &allow));
    assert_string_equal(allow, "");
    assert_string_equal(find("GET", "/", &allow)->path, "/");
    assert_null(find("GET", "//", &allow));
}
