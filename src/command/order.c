/* command/order.c - see order.h. */
#include "command/order.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/outlet.h"

#define RING_FIRST 64
#define RING_KEEP 2048 /* a ring stays up to this size when it is empty, */
#define KEEP 512       /* a buffer likewise; as listen's */
#define DROP_LEAST 4096
#define VALUES_MAX 32 /* at once, so that little memory is reserved for them */

struct order *order_create(struct session *s, uint32_t lanes)
{
    struct order *o = heap_zalloc(sizeof *o + (lanes + 1) * sizeof o->ways[0]);
    o->lanes = lanes;
    o->mask = RING_FIRST - 1;
    o->ring = heap_alloc((RING_FIRST + EXPECT_MAX) * sizeof *o->ring);
    o->texts = heap_zalloc((lanes + 1) * sizeof *o->texts);
    for (uint32_t i = 0; i <= lanes; i++) {
        struct outlet *way = &o->ways[i].outlet;
        o->ways[i].session = s;
        list_init(&way->touched);
        list_init(&way->parked);
        way->texts = &o->texts[i];
    }
    return o;
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
    if (client->waiting > 0) return false;
    for (uint32_t i = 0; i <= o->lanes; i++) {
        buf_free(&o->ways[i].outlet.out);
        buf_free(&o->texts[i]);
    }
    heap_free(o->texts);
    heap_free(o->ring);
    heap_free(o);
    return true;
}

__attribute__((noinline, cold)) static void ring_size(struct order *o, uint32_t cap)
{
    uint16_t *ring = heap_alloc((cap + EXPECT_MAX) * sizeof *ring);
    uint32_t n = o->end - o->first;
    for (uint32_t i = 0; i < n; i++)
        ring[i] = o->ring[(o->first + i) & o->mask];
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

void order_local(struct order *o, struct outlet *client, struct slice reply)
{
    struct outlet *way = &o->ways[o->lanes].outlet;
    memset(outlet_reserve(way, 1), 0, OUTLET_VALUE);
    size_t at = outlet_text_begin(way, 0);
    buf_put_slice(way->texts, reply);
    outlet_text_end(way, at, false);
    outlet_gave(way, 1);
    order_expect_one(o, o->lanes);
    client->waiting++;
}

/* ---- the head ---- */

static inline int64_t order_value_take(struct outlet *way)
{
    int64_t v;
    memcpy(&v, way->out.p + way->taken, sizeof v);
    way->taken += OUTLET_VALUE;
    return v;
}

/* What is at the head one after the other. */
static void values_take(struct order *o, struct outlet *client)
{
    const uint16_t *ring = o->ring;
    uint32_t first = o->first, mask = o->mask, n = o->end - first < VALUES_MAX ? o->end - first : VALUES_MAX;
    char *to = buf_reserve(&client->out, HEAD_BYTES * n);
    for (; n > 0; n--, first++) {
        struct outlet *way = &o->ways[ring[first & mask]].outlet;
        if (way->taken == way->values) break;
        to += head_write(':', order_value_take(way), to);
    }
    client->out.n = (size_t)(to - client->out.p);
    client->counted += first - o->first;
    client->waiting -= first - o->first;
    o->first = first;
}

/* The next text is the first now. */
static void texts_next(struct way *w)
{
    struct outlet *o = &w->outlet;
    struct outlet_text next;
    o->values = o->out.n;
    o->has_text = w->texts_taken < o->texts->n;
    if (!o->has_text) return;
    memcpy(&next, o->texts->p + w->texts_taken, sizeof next);
    o->values -= (o->given - next.number) * OUTLET_VALUE;
}

/* Removes what was taken; of texts that do not become none only when it is much. */
static void texts_drop(struct buf *texts, size_t *taken)
{
    if (*taken == texts->n) {
        texts->n = *taken = 0;
        if (texts->cap > KEEP) buf_free(texts);
    } else if (*taken >= DROP_LEAST && *taken >= texts->n / 2) {
        buf_drop(texts, *taken);
        *taken = 0;
    }
}

static void text_take(struct way *w, struct outlet *client)
{
    struct buf *texts = w->outlet.texts;
    struct outlet_text text;
    memcpy(&text, texts->p + w->texts_taken, sizeof text);
    buf_put(&client->out, texts->p + w->texts_taken + sizeof text, text.n);
    client->counted += text.counts;
    (void)order_value_take(&w->outlet);
    w->texts_taken += sizeof text + text.n;
    texts_next(w);
    texts_drop(texts, &w->texts_taken);
}

/* Of a client without pipelines no way has grown. */
static void all_taken(struct order *o)
{
    if (o->mask < RING_FIRST) return;
    for (uint32_t i = 0; i <= o->lanes; i++) {
        struct outlet *way = &o->ways[i].outlet;
        if (way->out.cap <= KEEP) continue;
        buf_free(&way->out);
        way->taken = way->values = 0;
    }
    if (o->mask >= RING_KEEP) ring_size(o, RING_FIRST);
}

void order_take(struct order *o, struct outlet *client)
{
    while (o->first != o->end) {
        values_take(o, client);
        if (o->first == o->end) break;
        struct way *w = &o->ways[o->ring[o->first & o->mask]];
        if (w->outlet.taken == w->outlet.out.n) return;
        if (w->outlet.taken != w->outlet.values) continue;
        text_take(w, client);
        client->waiting--;
        o->first++;
    }
    INVARIANT(client->waiting == 0);
    all_taken(o);
}

size_t order_ahead(const struct order *o)
{
    size_t n = 0;
    for (const struct way *w = o->ways; w <= &o->ways[o->lanes]; w++)
        n += w->outlet.out.n - w->outlet.taken + w->outlet.texts->n - w->texts_taken;
    return n;
}
