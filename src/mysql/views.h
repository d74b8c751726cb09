/* mysql/views.h - the views of sql/views.sql, one more for each counter, and the role tally_reader, which may read them
 * and nothing else. Nothing of tallyd reads them: a database without is as good. */
#ifndef MYSQL_VIEWS_H
#define MYSQL_VIEWS_H

#include "mysql/db.h"
#include "series/counter.h"

struct views_made {
    uint32_t views;
    bool role;           /* made, or there, with its rights */
    char role_text[300]; /* else why not; the server's words */
    uint32_t nameless;   /* counters whose view would have a longer name than MySQL allows: left out */
};

/* Makes or renews them. An error is that a view could not be made; a role mostly needs rights that tallyd's own account
 * should not have, so that is no error. */
enum err views_apply(struct db *db, const struct counters *cs, struct views_made *made,
                     struct error *e) MUST_CHECK;
void views_print(const struct counters *cs, struct buf *out); /* all of it, for somebody who has the rights */

#endif
