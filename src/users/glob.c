/* users/glob.c - see glob.h. Follows redis 7.0 (src/util.c, stringmatchlen), except that ranges compare unsigned bytes:
 * [a-\xff] matches `b` here, but not in Redis. Time is bounded by the product of the lengths: only the last of several
 * stars is ever tried again. */
#include "users/glob.h"

void glob_init(struct glob *g, struct slice text)
{
    size_t n = 0;
    while (n < text.n && memchr("*?[\\", text.p[n], 4) == NULL)
        n++;
    g->prefix = slice_of(text.p, n);
    g->rest = slice_of(text.p + n, text.n - n);
    g->is_prefix = slice_eq(g->rest, SLICE("*"));
    size_t head_n = n < sizeof(g->head) ? n : sizeof(g->head);
    g->head = g->mask = 0;
    memcpy(&g->head, text.p, head_n);
    memset(&g->mask, 0xFF, head_n);
}

/* Is c in the `[...]` at p->p? Moves p past it; a class without an end ends with the pattern, as in Redis. */
static bool class_has(struct slice *p, char c)
{
    size_t i = 1;
    bool inverted = i < p->n && p->p[i] == '^', found = false;
    if (inverted) i++;
    for (; i < p->n && p->p[i] != ']'; i++) {
        if (p->p[i] == '\\' && i + 1 < p->n) {
            found |= p->p[++i] == c;
        } else if (i + 2 < p->n && p->p[i + 1] == '-') {
            unsigned char from = (unsigned char)p->p[i], to = (unsigned char)p->p[i + 2],
                          at = (unsigned char)c;
            found |= from <= to ? at >= from && at <= to : at >= to && at <= from;
            i += 2;
        } else {
            found |= p->p[i] == c;
        }
    }
    if (i < p->n) i++;
    *p = slice_of(p->p + i, p->n - i);
    return found != inverted;
}

/* The first sign of pattern (no star) takes the byte c; moves pattern past it. */
static bool one_takes(struct slice *pattern, char c)
{
    struct slice p = *pattern;
    if (p.p[0] == '[') return class_has(pattern, c);
    size_t n = p.p[0] == '\\' && p.n >= 2 ? 2 : 1;
    *pattern = slice_of(p.p + n, p.n - n);
    return p.p[0] == '?' || p.p[n - 1] == c;
}

bool glob_match_rest(struct slice pattern, struct slice text)
{
    struct slice after_star = {NULL, 0}, retry = {NULL, 0};
    while (text.n > 0) {
        if (pattern.n > 0 && pattern.p[0] == '*') {
            pattern = after_star = slice_of(pattern.p + 1, pattern.n - 1);
            retry = text;
        } else if (pattern.n > 0 && one_takes(&pattern, text.p[0])) {
            text = slice_of(text.p + 1, text.n - 1);
        } else if (after_star.p != NULL) { /* the star takes one byte more */
            pattern = after_star;
            text = retry = slice_of(retry.p + 1, retry.n - 1);
        } else {
            return false;
        }
    }
    while (pattern.n > 0 && pattern.p[0] == '*')
        pattern = slice_of(pattern.p + 1, pattern.n - 1);
    return pattern.n == 0;
}
