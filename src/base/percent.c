#include "base/percent.h"

#include "base/heap.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
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
