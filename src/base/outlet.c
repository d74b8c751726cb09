/* base/outlet.c - see outlet.h. */
#include "base/outlet.h"

#define DROP_LEAST 4096

/* Less than half, or little, is not worth the move. */
char *outlet_reserve(struct outlet *o, size_t n)
{
    if (o->taken == o->out.n) {
        o->out.n = o->taken = o->values = 0;
    } else if (o->taken >= DROP_LEAST && o->taken >= o->out.n / 2) {
        buf_drop(&o->out, o->taken);
        o->values -= o->taken;
        o->taken = 0;
    }
    return buf_reserve(&o->out, n * OUTLET_VALUE);
}

size_t outlet_text_begin(struct outlet *o, size_t i)
{
    size_t at = o->texts->n;
    struct outlet_text text = {.number = o->given + i};
    buf_put(o->texts, (const char *)&text, sizeof text);
    if (!o->has_text) o->values = o->out.n + i * OUTLET_VALUE;
    o->has_text = true;
    return at;
}

void outlet_text_end(struct outlet *o, size_t at, bool counts)
{
    struct outlet_text text;
    memcpy(&text, o->texts->p + at, sizeof text);
    text.n = (uint32_t)(o->texts->n - at - sizeof text);
    text.counts = counts;
    memcpy(o->texts->p + at, &text, sizeof text);
}
