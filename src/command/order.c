/* command/order.c - see order.h. */
#include "command/order.h"

#include "base/check.h"
#include "base/heap.h"

#include <string.h>

#define RING_FIRST 32
#define RING_KEEP 1024 /* a ring stays up to this size when it is empty, */
#define WAY_KEEP 512   /* a buffer likewise; as listen's */
#define DROP_LEAST 4096

struct order *order_create(struct session *s, uint32_t lanes)
{
    struct order *o = heap_zalloc(sizeof *o + lanes * sizeof o->ways[0]);
    o->lanes = lanes;
    o->mask = RING_FIRST - 1;
    o->ring = heap_alloc(RING_FIRST * sizeof *o->ring);
    o->ring[o->mask].what = OWED_NOTHING;
    for (uint32_t i = 0; i < lanes; i++) {
        o->ways[i].session = s;
        list_init(&o->ways[i].outlet.touched);
        list_init(&o->ways[i].outlet.parked);
    }
    return o;
}

static void order_free(struct order *o)
{
    for (uint32_t i = 0; i < o->lanes; i++)
        buf_free(&o->ways[i].outlet.out);
    buf_free(&o->local);
    heap_free(o->ring);
    heap_free(o);
}

/* A way that coalesce has on a list still belongs to it: it reports the way once more. */
bool order_gone(struct order *o, struct outlet *client)
{
    client->waiting = 0;
    for (uint32_t i = 0; i < o->lanes; i++) {
        struct outlet *way = &o->ways[i].outlet;
        way->gone = true;
        client->waiting += way->waiting + list_linked(&way->touched);
    }
    if (client->waiting == 0) order_free(o);
    return client->waiting == 0;
}

static struct owed *ring_at(const struct order *o, uint32_t i)
{
    return &o->ring[i & o->mask];
}

__attribute__((noinline, cold)) static void ring_size(struct order *o, uint32_t cap)
{
    struct owed *ring = heap_alloc(cap * sizeof *ring);
    uint32_t n = o->end - o->first;
    for (uint32_t i = 0; i < n; i++)
        ring[i] = *ring_at(o, o->first + i);
    ring[cap - 1].what = OWED_NOTHING;
    heap_free(o->ring);
    o->ring = ring;
    o->mask = cap - 1;
    o->first = 0;
    o->end = n;
}

void order_grow(struct order *o)
{
    ring_size(o, 2 * (o->mask + 1));
}

static struct owed *owed_add(struct order *o, uint32_t what)
{
    if (o->end - o->first == o->mask) order_grow(o);
    *ring_at(o, o->end) = (struct owed){.what = what};
    return ring_at(o, o->end++);
}

void order_local(struct order *o, struct outlet *client, struct slice reply)
{
    static const uint32_t local = OWED_LOCAL << OWED_KIND;
    struct owed *last = ring_at(o, o->end - 1);
    if (last->what != local) {
        last = owed_add(o, local);
        client->waiting++;
    }
    last->n += (uint32_t)reply.n;
    buf_put_slice(&o->local, reply);
}

void order_hush(struct order *o, uint32_t n)
{
    struct owed *last = ring_at(o, o->end - 1);
    uint32_t silent = last->what | OWED_SILENT << OWED_KIND;
    PRE(last->what < o->lanes && last->n >= n);
    last->n -= n;
    if (last->n == 0) o->end--;
    last = ring_at(o, o->end - 1);
    if (last->what != silent) last = owed_add(o, silent);
    last->n += n;
}

/* ---- the head ---- */

/* Of a line; it is there whole. */
static size_t line_bytes(const char *p, size_t left)
{
    const char *end = memchr(p, '\n', left);
    INVARIANT(end != NULL);
    return (size_t)(end - p) + 1;
}

/* Lanes answer with lines and bulk strings. */
static size_t reply_bytes(const char *p, size_t left)
{
    size_t line = line_bytes(p, left), bulk = 0;
    if (__builtin_expect(*p != '$', 1)) return line;
    for (const char *digit = p + 1; *digit != '\r'; digit++)
        bulk = 10 * bulk + (size_t)(*digit - '0');
    INVARIANT(line + bulk + 2 <= left);
    return line + bulk + 2;
}

/* Moves one reply; it counts unless it is an error. */
static void one_move(struct way *w, struct outlet *client)
{
    const char *p = w->outlet.out.p + w->taken;
    size_t left = w->outlet.out.n - w->taken, bytes = reply_bytes(p, left);
    bool counts = *p != '-';
    client->counted += counts;
    w->outlet.counted -= counts;
    buf_put(&client->out, p, bytes);
    w->taken += bytes;
}

static void all_move(struct way *w, struct outlet *client)
{
    buf_put(&client->out, w->outlet.out.p + w->taken, w->outlet.out.n - w->taken);
    client->counted += w->outlet.counted;
    w->outlet.counted = 0;
    w->taken = w->outlet.out.n;
}

/* Removes what was taken; from a buffer that does not become empty only when it is much. */
static inline void taken_drop(struct buf *b, size_t *taken)
{
    if (*taken == b->n) {
        b->n = *taken = 0;
        if (b->cap > WAY_KEEP) buf_free(b);
    } else if (*taken >= DROP_LEAST && *taken >= b->n / 2) {
        buf_drop(b, *taken);
        *taken = 0;
    }
}

static inline void way_drop(struct way *w)
{
    taken_drop(&w->outlet.out, &w->taken);
    if (w->taken == 0) w->used = true;
}

/* Moves the head's answers to the client; returns how many there were. */
static uint32_t answers_take(struct way *w, const struct owed *head, struct outlet *client)
{
    uint32_t come = w->owed - w->outlet.waiting, n = come < head->n ? come : head->n;
    if (n == 0) return 0;
    if (head->what >> OWED_KIND == OWED_SILENT)
        w->used = true;
    else if (n == come)
        all_move(w, client);
    else
        for (uint32_t i = 0; i < n; i++)
            one_move(w, client);
    way_drop(w);
    w->owed -= n;
    client->waiting -= n;
    return n;
}

static uint32_t local_take(struct order *o, const struct owed *head, struct outlet *client)
{
    buf_put(&client->out, o->local.p + o->local_taken, head->n);
    o->local_taken += head->n;
    taken_drop(&o->local, &o->local_taken);
    client->waiting--;
    return head->n;
}

#define WORD sizeof(uint64_t)
#define ONES_MAX 128 /* at once, so that little memory is reserved for them */

/* A short line as one word, its bytes in *n; 0: it is longer, or no line. The way has a word of memory there. */
static inline uint64_t line_word(const char *p, size_t *n)
{
    uint64_t word = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, p, sizeof word);
    uint64_t at = word ^ UINT64_C(0x0a0a0a0a0a0a0a0a);
    at = (at - UINT64_C(0x0101010101010101)) & ~at & UINT64_C(0x8080808080808080);
    if (at == 0 || (word & 0xff) == '$') return 0;
    *n = (size_t)__builtin_ctzll(at) / 8 + 1;
#endif
    return word;
}

/* A run of one, whose reply is there. */
static inline bool is_one(const struct order *o, const struct owed *head)
{
    if (head->n != 1 || head->what >= OWED_SILENT << OWED_KIND) return false;
    const struct way *w = &o->ways[head->what];
    return w->owed != w->outlet.waiting;
}

/* Hits of many stores change lanes often: runs of one, whose replies are short. False: the first is not of this
 * kind. */
static bool ones_take(struct order *o, struct outlet *client)
{
    uint32_t first = o->first, n = o->end - first < ONES_MAX ? o->end - first : ONES_MAX;
    char *to = buf_reserve(&client->out, WORD * (n + 1));
    for (struct owed *head; n > 0 && is_one(o, head = ring_at(o, first)); first++, n--) {
        struct way *w = &o->ways[head->what];
        size_t bytes, taken = w->taken;
        if (w->outlet.out.cap < taken + WORD) break;
        uint64_t word = line_word(w->outlet.out.p + taken, &bytes);
        if (word == 0) break;
        memcpy(to, &word, sizeof word);
        to += bytes;
        w->owed--;
        w->outlet.counted -= (word & 0xff) != '-';
        client->counted += (word & 0xff) != '-';
        w->taken = taken + bytes;
        if (w->taken == w->outlet.out.n || w->taken >= DROP_LEAST) way_drop(w);
    }
    if (first == o->first) return false;
    client->waiting -= first - o->first;
    client->out.n = (size_t)(to - client->out.p);
    ring_at(o, first - 1)->what = OWED_NOTHING;
    o->first = first;
    return true;
}

static bool head_take(struct order *o, struct owed *head, struct outlet *client)
{
    bool local = head->what == OWED_LOCAL << OWED_KIND;
    head->n -=
        local ? local_take(o, head, client) : answers_take(&o->ways[head->what & 0xffff], head, client);
    return head->n == 0;
}

void order_take(struct order *o, struct outlet *client)
{
    while (o->first != o->end) {
        struct owed *head = ring_at(o, o->first);
        if (is_one(o, head) && ones_take(o, client)) continue;
        if (!head_take(o, head, client)) return;
        head->what = OWED_NOTHING;
        o->first++;
    }
    INVARIANT(client->waiting == 0);
    if (o->mask >= RING_KEEP) ring_size(o, RING_FIRST);
}

size_t order_ahead(const struct order *o)
{
    size_t n = o->local.n - o->local_taken;
    for (uint32_t i = 0; i < o->lanes; i++)
        n += o->ways[i].outlet.out.n - o->ways[i].taken;
    return n;
}
