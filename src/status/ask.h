/* status/ask.h - a blocking connection to Redis with a loop of its own, for any thread. */
#ifndef STATUS_ASK_H
#define STATUS_ASK_H

#include "redis/link.h"
#include "status/source.h"

struct ask {
    uv_loop_t loop;
    struct life life;
    struct redis_link_config config;
    struct redis_place *places; /* one a lane */
    uint32_t lane, lanes;       /* which of them link is on */
    uint32_t wait_ms;
    struct sentinels *sentinels; /* NULL: none */
    struct cluster *cluster;     /* likewise */
    struct redis_link link;
    struct batch_id *realms; /* tally:realm of each lane that was asked; zero: it has none */
    bool closed;
};

/* Connected to lane 0, not checked; where's parts are borrowed until ask_close. wait_ms: how long it tries to connect;
 * answer_ms: how long an answer may take. On an error (ERR_UNAVAILABLE, with what to do next) nothing is left open. */
enum err ask_open(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e) MUST_CHECK;
/* As ask_open, but not connected: it knows where each lane is, and ask_lane() is next. */
enum err ask_find(struct ask *a, const struct source *where, uint32_t wait_ms, uint32_t answer_ms,
                  struct error *e) MUST_CHECK;
/* For a verb that needs Redis: with the time limits of the configuration. */
enum err ask_open_patiently(struct ask *a, const struct source *where, struct error *e) MUST_CHECK;
/* Goes on to another lane: connects, and reads its realm. On an error link is up to none, and ask_lane() may be tried
 * with another one. */
enum err ask_lane(struct ask *a, uint32_t lane, struct error *e) MUST_CHECK;
void ask_close(struct ask *a);

#endif
