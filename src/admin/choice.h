/* admin/choice.h - the counters and the store that --counter and --store name, checked against the configuration. */
#ifndef ADMIN_CHOICE_H
#define ADMIN_CHOICE_H

#include "admin/verbs.h"

/* ERR_USAGE, with what was perhaps meant: no such counter. *out NULL: no counter was named. */
enum err choice_counter(const struct call *call, const struct setup *setup, const struct counter **out,
                        struct error *e) MUST_CHECK;

struct choice_keys { /* the pending hashes of one store */
    struct buf bytes;
    struct slice *all;               /* into bytes; heap; choice_keys_close gives both back */
    const struct counter **counters; /* of each; heap */
    size_t n;
};
/* Of the counter, or with NULL of all that have such stores. ERR_USAGE: none has. */
enum err choice_keys(const struct call *call, const struct setup *setup, const struct counter *only,
                     struct choice_keys *out, struct error *e) MUST_CHECK;
void choice_keys_close(struct choice_keys *k);

#endif
