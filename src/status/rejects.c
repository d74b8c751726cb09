/* status/rejects.c - see rejects.h. */
#include "status/rejects.h"

void reject_json(struct json *j, const struct reject *r, const struct counters *counters)
{
    char id[REJECT_ID_BYTES];
    struct slice store;
    const struct counter *c = counters_find(counters, r->counter);
    reject_id_write(&r->id, id);
    json_open(j, NULL, '{');
    json_text(j, "id", id);
    json_slice(j, "counter", r->counter);
    if (c != NULL && c->key.has_store && pattern_match(&c->key, c->store, r->pending_hash, &store))
        json_slice(j, "store", store);
    else
        json_null(j, "store");
    json_slice(j, "key", r->pending_hash);
    json_slice(j, "field", r->field);
    json_slice(j, "delta", r->delta);
    json_slice(j, "reason", r->reason);
    json_int(j, "rejected_at", r->rejected_ms / 1000);
    json_close(j, '}');
}
