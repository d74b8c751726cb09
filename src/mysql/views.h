/* mysql/views.h - the views of sql/views.sql, a view of each counter, and the role tally_reader, which may read only them.
 * tallyd itself does not use them. */
#ifndef MYSQL_VIEWS_H
#define MYSQL_VIEWS_H

#include "mysql/db.h"
#include "series/counter.h"

struct views_made {
    uint32_t views;
    bool role;           /* it exists, with its rights */
    char role_text[300]; /* else the server's error */
    uint32_t nameless;   /* counters left out because their view's name is too long for MySQL */
};

/* Makes or renews them. If the role cannot be made, that is no error: it takes rights which tallyd's account should not
 * have. */
enum err views_apply(struct db *db, const struct counters *cs, struct views_made *made,
                     struct error *e) MUST_CHECK;
void views_print(const struct counters *cs, struct buf *out); /* as SQL, for an account with the rights */

#endif
