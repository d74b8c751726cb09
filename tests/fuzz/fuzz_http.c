/* fuzz_http.c - what a request over HTTP asks for (http/exchange.c, route.c, range.c, who.c). Lines: method, path, query,
 * Host, Authorization, then from and to of a range. The path and the query are decoded here once more, by other means,
 * and must come out the same; limits hold; a Host or a token that is not ours opens nothing. */
#include "fuzz.h"

#include "http/exchange.h"
#include "http/figures.h"

#include <arpa/inet.h>

static int hex(struct slice s, size_t i)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = i < s.n && s.p[i] != '\0'
                         ? strchr(digits, s.p[i] | (s.p[i] >= 'A' && s.p[i] <= 'F' ? 0x20 : 0))
                         : NULL;
    return at == NULL || *at == '\0' ? -1 : (int)(at - digits);
}

/* NULL: there is a fault in it. */
static struct buf *decoded(struct slice text)
{
    struct buf *out = heap_zalloc(sizeof *out);
    for (size_t i = 0; i < text.n; i++) {
        int byte = (unsigned char)text.p[i];
        if (byte == '%') {
            byte =
                hex(text, i + 1) < 0 || hex(text, i + 2) < 0 ? 0 : hex(text, i + 1) * 16 + hex(text, i + 2);
            i += 2;
        }
        buf_put_char(out, (char)byte);
        if (byte != 0) continue;
        buf_free(out);
        heap_free(out);
        return NULL;
    }
    return out;
}

static bool decodes_to(struct slice text, struct slice got)
{
    struct buf *want = decoded(text);
    bool same = want != NULL && slice_eq(buf_slice(want), got);
    if (want != NULL) buf_free(want);
    heap_free(want);
    return same;
}

static struct slice part_take(struct slice *text, char end)
{
    const char *at = text->n > 0 ? memchr(text->p, end, text->n) : NULL;
    struct slice part = take_bytes(text, at == NULL ? text->n : (size_t)(at - text->p));
    return part;
}

static void path_agrees(const struct target *t, struct slice path)
{
    MUST(path.n > 0 && path.p[0] == '/' && t->segments_n <= TARGET_SEGMENTS_MAX);
    size_t i = 0;
    if (path.n == 1) path.n = 0;
    for (; path.n > 0; i++) {
        (void)take_byte(&path);
        MUST(i < t->segments_n && decodes_to(part_take(&path, '/'), target_segment(t, i)));
    }
    MUST(i == t->segments_n);
}

static bool args_read(struct target *t, struct slice query)
{
    while (query.n > 0) {
        struct slice pair = part_take(&query, '&'), name = part_take(&pair, '='), found;
        (void)take_byte(&query);
        (void)take_byte(&pair);
        size_t before = t->args_n;
        const char *fault = target_add_arg(t, name, pair);
        MUST((fault == NULL) == (t->args_n == before + 1) && t->args_n <= TARGET_ARGS_MAX);
        if (fault != NULL) return false;
        char *text = heap_strndup(target_arg_name(t, before).p, target_arg_name(t, before).n);
        MUST(decodes_to(name, slice_str(text)));
        MUST(target_arg(t, text, &found) && decodes_to(pair, found));
        heap_free(text);
    }
    return true;
}

static void route_agrees(const struct target *t, struct slice method)
{
    char *word = heap_strndup(method.p, method.n);
    const char *allow;
    const struct route *r = route_find(word, t, &allow);
    MUST(allow != NULL);
    if (r != NULL) {
        MUST(strcmp(r->method, word) == 0 || (strcmp(word, "HEAD") == 0 && strcmp(r->method, "GET") == 0));
        size_t variables = 0;
        for (const char *p = r->path; *p != '\0'; p++)
            variables += *p == '{';
        for (size_t i = 0; i < variables; i++)
            MUST(target_segment(t, route_variable(r, i)).n > 0);
        for (size_t i = 0; i < t->args_n; i++)
            (void)route_knows(r, target_arg_name(t, i));
    }
    heap_free(word);
}

static char token_secret[] = "0123456789abcdef", token_store[] = "17", token_name[] = "shop";
static struct conf_bearer token = {token_name, token_secret, token_store};
static const struct conf_bearers tokens = {&token, 1};

static bool names_loopback(const char *host)
{
    return strncasecmp(host, "localhost", 9) == 0 || strncmp(host, "[::1]", 5) == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static bool has_token(const char *authorization)
{
    return strncasecmp(authorization, "Bearer ", 7) == 0 && strcmp(authorization + 7, token_secret) == 0;
}

static void who_agrees(struct slice host_line, struct slice authorization_line)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}},
                       away = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a000001)}};
    char *host = heap_strndup(host_line.p, host_line.n),
         *given = heap_strndup(authorization_line.p, authorization_line.n);
    const char *authorization = authorization_line.n > 0 ? given : NULL;
    const struct sockaddr *peers[] = {(struct sockaddr *)&here, (struct sockaddr *)&away};
    for (int i = 0; i < 4; i++) {
        struct who_asks q = {peers[i & 1], host, authorization, (i & 2) != 0, false};
        struct who who = who_asks(&q, &tokens);
        MUST(authorization == NULL || who.known == has_token(given));
        MUST(authorization != NULL || who.known == (i == 0 && who.known && names_loopback(host)));
        MUST((who.bearer != NULL) == (who.known && authorization != NULL));
        if (who.bearer != NULL) MUST(slice_eq(who_store(&who), slice_str(token_store)));
    }
    heap_free(host);
    heap_free(given);
}

static void range_agrees(enum field_kind kind, struct slice from, struct slice to)
{
    struct range r;
    char why[200] = "", field[RANGE_FIELD_BYTES];
    size_t at;
    if (!range_read(kind, from, to, INT64_C(1411200000), 30, &r, why, sizeof why)) {
        MUST(why[0] != '\0');
        return;
    }
    MUST(r.kind == kind && r.n >= 1 && r.n <= RANGE_MAX);
    for (size_t i = 0; i < r.n; i += i < 3 ? 1 : 97) {
        struct slice digits = slice_of(field, range_field(&r, i, field));
        MUST(field_valid(kind, digits) && range_index(&r, digits, &at) && at == i);
    }
    if (to.p != NULL) MUST(range_index(&r, to, &at) && at == r.n - 1);
    if (from.p != NULL) MUST(range_index(&r, from, &at) && at == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    struct slice in = slice_of(text, size), method = take_line(&in), path = take_line(&in),
                 query = take_line(&in);
    struct slice host = take_line(&in), authorization = take_line(&in);
    struct target t = {0};
    if (target_read_path(&t, path) == NULL) {
        path_agrees(&t, path);
        if (args_read(&t, query)) route_agrees(&t, method);
    }
    target_close(&t);
    who_agrees(host, authorization);
    struct slice from = take_line(&in), to = take_line(&in);
    if (from.n == 0) from.p = NULL;
    if (to.n == 0) to.p = NULL;
    range_agrees(FIELD_DATE, from, to);
    range_agrees(FIELD_HOUR, from, to);
    heap_free(text);
    return 0;
}
