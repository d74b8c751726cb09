/* series/op.c - see op.h. */
#include "series/op.h"

#include "base/num.h"

bool op_id_is_number(struct slice id)
{
    int64_t n;
    return num_parse(id, &n) && n > 0 && n <= OP_NUMBER_MAX;
}

bool op_uniq_key(const struct op_limits *l, struct slice name, struct buf *out)
{
    const struct counter *c = l->uniq_counter;
    struct slice store;
    if (c == NULL || !pattern_match(&l->uniq_name, c->store, name, &store)) return false;
    pattern_put(&c->key, store, out);
    return true;
}
