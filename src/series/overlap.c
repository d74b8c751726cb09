/* series/overlap.c - can two patterns make the same name? Each is an automaton over bytes: its texts, and values that may go on or
 * end. A breadth-first search over both at once finds the shortest name, if there is one. */
#include "base/heap.h"
#include "base/map.h"
#include "series/places.h"

#include <limits.h>

#define HIGHEST "9223372036854775807" /* a 64-bit integer's digits */
#define HIGHEST_N 19

/* Piece 2i is text[i], piece 2i + 1 the i-th value. In a text `at` is the next byte; in a value 0 says that it has none yet. */
struct overlap_spot {
    uint16_t piece, at;
};

struct overlap_node {
    struct overlap_spot a, b;
    uint32_t from; /* the node before it */
    char byte;
};

struct search {
    const struct places *a, *b;
    struct overlap_node *all;
    uint32_t n, cap;
    struct map seen;
};

static struct overlap_spot normal(const struct places *p, struct overlap_spot s)
{
    if (s.piece % 2 == 0 && s.piece / 2 < p->n && s.at == p->text[s.piece / 2].n)
        return (struct overlap_spot){(uint16_t)(s.piece + 1), 0};
    return s;
}

/* An integer's `at`: 1 is the digit 0, otherwise how many digits, and whether they are below, as or above those of HIGHEST. */
static bool integer_step(uint16_t *at, char c)
{
    if (c < '0' || c > '9' || *at == 1) return false;
    if (*at == 0 && c == '0') return *at = 1, true;
    unsigned digits = *at == 0 ? 0 : (*at - 2U) / 3 + 1, order = *at == 0 ? 1 : (*at - 2U) % 3;
    if (digits == HIGHEST_N) return false;
    if (order == 1) order = c < HIGHEST[digits] ? 0 : c > HIGHEST[digits] ? 2 : 1;
    *at = (uint16_t)(2 + digits * 3 + order);
    return true;
}

static bool value_step(const struct places *p, uint32_t i, uint16_t *at, char c)
{
    const struct value_type *t = &p->at[i].type;
    const char *shape = value_shape(t);
    if (t->kind == VALUE_TEXT) return ++*at <= TEXT_BYTES_MAX && place_takes(p, i, c);
    if (shape == NULL) return integer_step(at, c);
    char wanted = shape[*at];
    if (wanted == '\0' || (wanted == 'd' ? c < '0' || c > '9' : c != wanted)) return false;
    ++*at;
    return true;
}

static bool value_may_end(const struct places *p, uint32_t i, uint16_t at)
{
    const char *shape = value_shape(&p->at[i].type);
    if (shape != NULL) return shape[at] == '\0';
    return at > 0 && (p->at[i].type.kind == VALUE_TEXT || at < 2 + (HIGHEST_N - 1) * 3 + 2);
}

static bool text_step(const struct places *p, struct overlap_spot s, char c, struct overlap_spot *out)
{
    struct slice text = p->text[s.piece / 2];
    if (s.at >= text.n || text.p[s.at] != c) return false;
    *out = normal(p, (struct overlap_spot){s.piece, (uint16_t)(s.at + 1)});
    return true;
}

/* Where the byte leads to: up to two spots. */
static size_t spot_step(const struct places *p, struct overlap_spot s, char c, struct overlap_spot out[2])
{
    size_t n = 0;
    if (s.piece % 2 == 0) return text_step(p, s, c, out);
    out[0] = s;
    n += value_step(p, s.piece / 2, &out[0].at, c);
    if (!value_may_end(p, s.piece / 2, s.at)) return n;
    return n + text_step(p, (struct overlap_spot){(uint16_t)(s.piece + 1), 0}, c, &out[n]);
}

static bool spot_ends(const struct places *p, struct overlap_spot s)
{
    if (s.piece == 2 * p->n) return s.at == p->text[p->n].n;
    return s.piece + 1U == 2 * p->n && p->text[p->n].n == 0 && value_may_end(p, s.piece / 2, s.at);
}

static void node_add(struct search *s, struct overlap_node node)
{
    const uint16_t key[] = {node.a.piece, node.a.at, node.b.piece, node.b.at};
    struct slice bytes = slice_of((const char *)key, sizeof key);
    if (map_has(&s->seen, bytes)) return;
    map_put(&s->seen, bytes, NULL);
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 64;
        s->all = heap_realloc(s->all, s->cap * sizeof *s->all);
    }
    s->all[s->n++] = node;
}

static void node_follow(struct search *s, uint32_t at, char c)
{
    struct overlap_spot a[2], b[2];
    const struct overlap_node node = s->all[at];
    size_t a_n = spot_step(s->a, node.a, c, a), b_n = a_n == 0 ? 0 : spot_step(s->b, node.b, c, b);
    for (size_t i = 0; i < a_n; i++)
        for (size_t k = 0; k < b_n; k++)
            node_add(s, (struct overlap_node){a[i], b[k], at, c});
}

/* All bytes that could make a difference: those of the texts, and one letter that stands for all others. */
static size_t bytes_of(const struct places *a, const struct places *b, char out[UCHAR_MAX + 1])
{
    bool has[UCHAR_MAX + 1] = {false};
    const struct places *const both[] = {a, b};
    size_t n = 0;
    for (const char *c = "x0123456789-: T{}"; *c != '\0'; c++)
        has[(unsigned char)*c] = true;
    for (size_t i = 0; i < 2; i++)
        for (uint32_t t = 0; t <= both[i]->n; t++)
            for (size_t k = 0; k < both[i]->text[t].n; k++)
                has[(unsigned char)both[i]->text[t].p[k]] = true;
    for (int c = 0; c <= UCHAR_MAX; c++)
        if (has[c]) out[n++] = (char)c;
    for (int c = 'a'; c <= 'z'; c++)
        if (!has[c]) return out[n++] = (char)c, n;
    return n;
}

static void name_put(const struct search *s, uint32_t at, struct buf *out)
{
    size_t begin = out->n;
    for (; at > 0; at = s->all[at].from)
        buf_put_char(out, s->all[at].byte);
    for (size_t i = begin, k = out->n; i + 1 < k; i++, k--) {
        char c = out->p[i];
        out->p[i] = out->p[k - 1];
        out->p[k - 1] = c;
    }
}

bool places_overlap(const struct places *a, const struct places *b, struct buf *both)
{
    struct search s = {.a = a, .b = b};
    char bytes[UCHAR_MAX + 1];
    size_t bytes_n = bytes_of(a, b, bytes);
    bool found = false;
    map_init(&s.seen);
    node_add(&s, (struct overlap_node){normal(a, (struct overlap_spot){0, 0}),
                                       normal(b, (struct overlap_spot){0, 0}), 0, 0});
    for (uint32_t at = 0; at < s.n && !found; at++) {
        found = spot_ends(a, s.all[at].a) && spot_ends(b, s.all[at].b);
        if (found && both != NULL) name_put(&s, at, both);
        for (size_t i = 0; i < bytes_n && !found; i++)
            node_follow(&s, at, bytes[i]);
    }
    map_close(&s.seen);
    heap_free(s.all);
    return found;
}

bool places_can_begin(const struct places *p, struct slice lead)
{
    struct places all = {.text = {lead}, .n = 0};
    if (places_overlap(p, &all, NULL)) return true;
    all.at[0].type.kind = VALUE_TEXT;
    all.text[1] = SLICE("");
    all.n = 1;
    return places_overlap(p, &all, NULL);
}
