/* coalesce/feeding.c - adds up what the hits of a frame feed, from its cells when the frame is sent, so that a hit
 * costs nothing more. */
#include "coalesce/inside.h"

static struct frame_op *feed_op(struct coalesce *c, struct group *g, enum feed which, struct slice name)
{
    static const enum op_kind kinds[] = {
        [FEED_SERIES] = OP_SERIES, [FEED_TIMEBOX] = OP_TIMEBOX, [FEED_EVENT] = OP_EVENT};
    struct coalesce_op op = {.kind = kinds[which], .name = name, .at = g->frame.dirty_ms / 1000};
    if (which == FEED_EVENT) {
        bool parted = event_split(name, &op.name, &op.type);
        INVARIANT(parted);
    }
    if (which == FEED_TIMEBOX) op.at = op_slot(op.at, c->counters->ops->timebox_width_s);
    return ops_fed(c, g, &op);
}

void feeding_on_send(struct coalesce *c, struct group *g)
{
    struct frame *f = &g->frame;
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_hash *h = &f->hashes[f->cells[i].hash];
        h->fed_delta += f->cells[i].delta;
        h->fed_hits += f->cells[i].hits;
    }
    for (uint32_t i = 0; i < f->hashes_n; i++)
        if (f->hashes[i].cells > 0) {
            const struct frame_hash *h = &f->hashes[i];
            const struct counter *counter = ((const struct hash_entry *)h->entry)->counter;
            for (int which = 0; which < FEEDS; which++) {
                int64_t n = which == FEED_EVENT ? h->fed_hits : h->fed_delta;
                buf_reset(&c->raw);
                if (n == 0 || !counter_feed_name(counter, which, h->key, &c->raw)) continue;
                feed_op(c, g, which, buf_slice(&c->raw))->delta += n;
            }
        }
}
