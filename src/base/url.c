/* base/url.c - see url.h. */
#include "base/url.h"

#include "base/heap.h"
#include "base/slice.h"

/* Cuts s at its first c: *behind is what follows. False: no c. */
static bool url_cut(struct slice *s, char c, struct slice *behind)
{
    const char *at = s->n == 0 ? NULL : memchr(s->p, c, s->n);
    if (at == NULL) return false;
    *behind = slice_of(at + 1, (size_t)(s->p + s->n - (at + 1)));
    s->n = (size_t)(at - s->p);
    return true;
}

/* The last '@' ends user and password, in which it should be escaped. Redis' may hold '/' and '?', too. */
static void user_cut(struct slice *s, struct url *out)
{
    struct slice head = *s, unused;
    if (!slice_starts(out->scheme, SLICE("redis")))
        url_cut(&head, '?', &unused), url_cut(&head, '/', &unused);
    const char *at = head.n == 0 ? NULL : memrchr(head.p, '@', head.n);
    if (at == NULL) return;
    out->user = slice_of(s->p, (size_t)(at - s->p));
    *s = slice_of(at + 1, s->n - out->user.n - 1);
    url_cut(&out->user, ':', &out->password);
}

const char *url_host_next(struct url *out)
{
    struct slice s = out->more, rest;
    out->more = out->port = slice_of(NULL, 0);
    url_cut(&s, ',', &out->more);
    out->bracketed = s.n > 0 && s.p[0] == '[';
    if (out->bracketed) {
        out->host = slice_of(s.p + 1, s.n - 1);
        if (!url_cut(&out->host, ']', &rest)) return "']' after an IPv6 address";
        return rest.n == 0 || (rest.p[0] == ':' && url_cut(&rest, ':', &out->port))
                   ? NULL
                   : "':port' after the IPv6 address";
    }
    const char *colon = s.n == 0 ? NULL : memrchr(s.p, ':', s.n);
    out->host = slice_of(s.p, colon == NULL ? s.n : (size_t)(colon - s.p));
    if (colon != NULL) out->port = slice_of(colon + 1, s.n - out->host.n - 1);
    return NULL;
}

const char *url_split(struct slice text, struct url *out)
{
    struct slice rest;
    *out = (struct url){.scheme = text};
    if (!url_cut(&out->scheme, ':', &rest) || !slice_starts(rest, SLICE("//"))) {
        out->scheme = slice_of(NULL, 0);
        return "scheme://";
    }
    rest = slice_of(rest.p + 2, rest.n - 2);
    bool is_unix = slice_eq(out->scheme, SLICE("unix"));
    if (!is_unix) user_cut(&rest, out);
    url_cut(&rest, '?', &out->query);
    const char *slash = is_unix ? rest.p : rest.n == 0 ? NULL : memchr(rest.p, '/', rest.n);
    if (slash != NULL) out->path = slice_of(slash, (size_t)(rest.p + rest.n - slash));
    if (is_unix) return NULL;
    out->more = slice_of(rest.p, rest.n - out->path.n);
    return url_host_next(out);
}

bool url_port(struct slice port, int *out)
{
    int64_t number;
    if (!num_parse(port, &number) || number < 1 || number > 65535) return false;
    *out = (int)number;
    return true;
}

enum percent percent_decode(struct slice text, char *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '%') {
            int high = text.n - i > 2 ? hex_digit(text.p[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.p[i + 2]) : -1;
            if (low < 0) return PERCENT_ESCAPE;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0') return PERCENT_NUL;
        out[(*n)++] = c;
    }
    return PERCENT_OK;
}

char *percent_string(struct slice text)
{
    size_t n;
    char *out = heap_alloc(text.n + 1);
    enum percent fault = percent_decode(text, out, &n);
    out[n] = '\0';
    if (fault == PERCENT_OK) return out;
    explicit_bzero(out, n);
    heap_free(out);
    return NULL;
}
