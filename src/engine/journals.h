/* engine/journals.h - take-over of journals of services that died before they had brought everything home. */
#ifndef ENGINE_JOURNALS_H
#define ENGINE_JOURNALS_H

#include "engine/core.h"
#include "redis/journal_op.h"

struct journals {
    struct core *core;
    struct redis_journals list;
    struct redis_journal_take take;
    bool listing, taking, again;
    size_t at; /* in the list */
    uint64_t at_ms;
};

void journals_soon(struct journals *j); /* at the next tick */
void journals_tick(struct journals *j, uint64_t now_ms);
bool journals_quiet(const struct journals *j);

#endif
