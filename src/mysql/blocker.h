/* mysql/blocker.h - which thread of the server's holds what a connection waits for: asked on a connection of its own, by a thread of its
 * own, while the other one waits. */
#ifndef MYSQL_BLOCKER_H
#define MYSQL_BLOCKER_H

#include "mysql/db.h"

#define BLOCKER_BYTES 160

struct blocker;
struct blocker *blocker_start(const struct db *waiting); /* an open one; NULL: there is no thread for it */
/* Ends it; b may be NULL. text: who was seen to block it, or why that is not known. */
void blocker_stop(struct blocker *b, char text[BLOCKER_BYTES]);

#endif
