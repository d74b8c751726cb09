/* series/overlap.c - can two patterns make the same name? Each is an automaton over bytes: its texts, and values that may go on or
 * end. A breadth-first search over both at once finds the shortest name, if there is one. */
#include "base/heap.h"
#include "series/places.h"

#define HIGHEST "9223372036854775807" /* a 64-bit integer's digits */
#define HIGHEST_N 19
/* With fewer bytes in both patterns the shortest name that both make has no text beyond its bound: of all other values the shortest
 * that are needed have at most 13 bytes. */
#define LONG_BYTES (TEXT_BYTES_MAX - 2 * PLACES_MAX * 13)

/* Piece 2i is text[i], piece 2i + 1 the i-th value. In a text `at` is the next byte; in a value 0 says that it has none
 * yet. */
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
    uint32_t *seen; /* open addressing: 1 + a node's place; as many as twice the room of all */
    bool long_names;
};

static struct overlap_spot normal(const struct places *p, struct overlap_spot s)
{
    if (s.piece % 2 == 0 && s.piece / 2 < p->n && s.at == p->text[s.piece / 2].n)
        return (struct overlap_spot){(uint16_t)(s.piece + 1), 0};
    return s;
}

/* An integer's `at`: 1 is the digit 0, otherwise how many digits, and whether they are below, as or above those of
 * HIGHEST. */
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

/* A text's `at` is its length or, where no name is long enough to pass a text's bound, whether it has a byte: with that there are
 * far fewer spots. */
static bool value_step(const struct places *p, uint32_t i, uint16_t *at, char c, bool long_names)
{
    const struct value_type *t = &p->at[i].type;
    const char *shape = value_shape(t);
    if (t->kind == VALUE_TEXT) {
        *at = long_names ? (uint16_t)(*at + 1) : 1;
        return *at <= TEXT_BYTES_MAX && place_takes(p, i, c);
    }
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
static size_t spot_step(const struct places *p, struct overlap_spot s, char c, bool long_names,
                        struct overlap_spot out[2])
{
    size_t n = 0;
    if (s.piece % 2 == 0) return text_step(p, s, c, out);
    out[0] = s;
    n += value_step(p, s.piece / 2, &out[0].at, c, long_names);
    if (!value_may_end(p, s.piece / 2, s.at)) return n;
    return n + text_step(p, (struct overlap_spot){(uint16_t)(s.piece + 1), 0}, c, &out[n]);
}

static bool spot_ends(const struct places *p, struct overlap_spot s)
{
    if (s.piece == 2 * p->n) return s.at == p->text[p->n].n;
    return s.piece + 1U == 2 * p->n && p->text[p->n].n == 0 && value_may_end(p, s.piece / 2, s.at);
}

static bool spots_same(const struct overlap_node *x, const struct overlap_node *y)
{
    return x->a.piece == y->a.piece && x->a.at == y->a.at && x->b.piece == y->b.piece && x->b.at == y->b.at;
}

/* Where node is in seen, or would be. */
static uint32_t *seen_find(const struct search *s, const struct overlap_node *node)
{
    uint64_t bits = ((uint64_t)node->a.piece << 48 | (uint64_t)node->a.at << 32 |
                     (uint64_t)node->b.piece << 16 | node->b.at);
    size_t i = (size_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 44) & (2 * s->cap - 1);
    while (s->seen[i] != 0 && !spots_same(&s->all[s->seen[i] - 1], node))
        i = (i + 1) & (2 * s->cap - 1);
    return &s->seen[i];
}

static void room_double(struct search *s)
{
    s->cap = s->cap == 0 ? 64 : 2 * s->cap;
    s->all = heap_realloc(s->all, s->cap * sizeof *s->all);
    heap_free(s->seen);
    s->seen = heap_zalloc(2 * (size_t)s->cap * sizeof *s->seen);
    for (uint32_t i = 0; i < s->n; i++)
        *seen_find(s, &s->all[i]) = i + 1;
}

static void node_add(struct search *s, struct overlap_node node)
{
    if (s->n == s->cap) room_double(s);
    uint32_t *seen = seen_find(s, &node);
    if (*seen != 0) return;
    s->all[s->n++] = node;
    *seen = s->n;
}

static void node_follow(struct search *s, uint32_t at, char c)
{
    struct overlap_spot a[2], b[2];
    const struct overlap_node node = s->all[at];
    size_t a_n = spot_step(s->a, node.a, c, s->long_names, a),
           b_n = a_n == 0 ? 0 : spot_step(s->b, node.b, c, s->long_names, b);
    for (size_t i = 0; i < a_n; i++)
        for (size_t k = 0; k < b_n; k++)
            node_add(s, (struct overlap_node){a[i], b[k], at, c});
}

/* The byte that a spot in a text takes; of one in a value, that which begins the text behind it. '\0': there is none. */
static char byte_of(const struct places *p, struct overlap_spot s)
{
    struct slice text = p->text[(s.piece + 1) / 2];
    size_t at = s.piece % 2 == 0 ? s.at : 0;
    return at < text.n ? text.p[at] : '\0';
}

/* In two values all bytes but these are alike; of three letters one is in no text behind them. */
static void node_follow_all(struct search *s, uint32_t at)
{
    static const char some[] = "0123456789-: T{}xyz";
    struct overlap_spot a = s->all[at].a, b = s->all[at].b;
    char of_a = byte_of(s->a, a), of_b = byte_of(s->b, b);
    if (a.piece % 2 == 0 || b.piece % 2 == 0) {
        node_follow(s, at, a.piece % 2 == 0 ? of_a : of_b);
        return;
    }
    for (size_t i = 0; i < sizeof some - 1; i++)
        node_follow(s, at, some[i]);
    if (memchr(some, of_a, sizeof some) == NULL) node_follow(s, at, of_a);
    if (memchr(some, of_b, sizeof some) == NULL && of_b != of_a) node_follow(s, at, of_b);
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

static size_t texts_bytes(const struct places *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i <= p->n; i++)
        n += p->text[i].n;
    return n;
}

bool places_overlap(const struct places *a, const struct places *b, struct buf *both)
{
    struct search s = {.a = a, .b = b, .long_names = texts_bytes(a) + texts_bytes(b) > LONG_BYTES};
    bool found = false;
    node_add(&s, (struct overlap_node){normal(a, (struct overlap_spot){0, 0}),
                                       normal(b, (struct overlap_spot){0, 0}), 0, 0});
    for (uint32_t at = 0; at < s.n && !found; at++) {
        found = spot_ends(a, s.all[at].a) && spot_ends(b, s.all[at].b);
        if (found && both != NULL) name_put(&s, at, both);
        if (!found) node_follow_all(&s, at);
    }
    heap_free(s.seen);
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
