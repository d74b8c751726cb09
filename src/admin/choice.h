/* admin/choice.h - what a verb works on: stores' keys, and the servers that have them. */
#ifndef ADMIN_CHOICE_H
#define ADMIN_CHOICE_H

#include "admin/verbs.h"
#include "status/ask.h"

/* --- the counters and the store that --counter and --store name, checked against the configuration. --- */

/* ERR_USAGE, with what was perhaps meant: no such counter. *out NULL: no counter was named. */
enum err choice_counter(const struct call *call, const struct setup *setup, const struct counter **out,
                        struct error *e) MUST_CHECK;

struct choice_keys { /* pending hashes, heap; choice_keys_close gives all back */
    struct slice *all;
    const struct counter **counters; /* of each */
    size_t n;
};
/* The one of --key; or of --store those of the counter, or with NULL of all, in which a store has one hash. ERR_USAGE: no counter has
 * it. */
enum err choice_keys(const struct call *call, const struct setup *setup, const struct counter *only,
                     struct choice_keys *out, struct error *e) MUST_CHECK;
void choice_keys_close(struct choice_keys *k);
void choice_keys_add(struct choice_keys *k, const struct counter *c, struct slice key); /* copies */
enum err choice_no_store(const struct call *call, struct error *e); /* ERR_USAGE: no counter has it */

/* --- Redis and MySQL, connected, for a verb that asks both. --- */

struct servers {
    struct ask ask;
    struct db_config reading; /* borrows its texts; a MySQL that takes no writes will do */
    struct db *db;
};

/* ERR_UNAVAILABLE: one of them cannot be reached; e says which, and what to do next. Nothing is open then. */
enum err servers_open(struct servers *s, const struct source *where, struct error *e) MUST_CHECK;
void servers_close(struct servers *s);

#endif
