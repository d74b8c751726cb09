/* redis/sentinel.h - asks sentinels where a primary is, listens to them, and tells its place (place.h). It asks each
 * once a second on one connection, all at the same time, and subscribes on another. quorum.h decides what follows; for
 * that, it also asks the primary, and the server that may become it, for their replication. One loop. */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "redis/link.h"
#include "redis/quorum.h"

#define SENTINEL_PORT_DEFAULT 26379

struct sentinels_config {
    const char *name;        /* of the primary, as the sentinels have it; NULL: there are no sentinels */
    struct redis_url access; /* user, password and TLS of the sentinels; it names no host */
    struct redis_target at[SENTINELS_MAX];
    uint32_t n;
};

enum sentinel_state {
    SENTINEL_SILENT,  /* cannot be reached, or does not answer */
    SENTINEL_REFUSES, /* TLS, a password, a right */
    SENTINEL_UNKNOWN, /* knows no primary of that name */
    SENTINEL_NAMES    /* names a primary */
};

struct sentinel_seen { /* of one */
    struct redis_target at, primary;
    enum sentinel_state state;
    bool found;     /* by the others; not configured */
    bool heard;     /* it has confirmed the subscription to its events, which is open */
    char text[240]; /* of SILENT and REFUSES: why */
};

struct sentinels;
/* Asks at once. place: its links wait for what the sentinels say from now on. All is borrowed until closed. */
struct sentinels *sentinels_create(uv_loop_t *loop, const struct sentinels_config *config,
                                   struct redis_place *place);
/* Closes everything, then calls closed, if not NULL. */
void sentinels_close(struct sentinels *s, void (*closed)(void *arg), void *arg);

/* What each asked sentinel says, the configured ones first; out has room for SENTINELS_MAX. Returns how many. */
uint32_t sentinels_seen(const struct sentinels *s, struct sentinel_seen *out);
const char *sentinel_state_name(enum sentinel_state state); /* "answers", for one that names a primary */

struct sentinels_count {
    uint32_t known, answering, majority; /* quorum.h */
};
struct sentinels_count sentinels_count(const struct sentinels *s);
/* At a start: runs the loop until they have named a primary, or for wait_ms. ERR_UNAVAILABLE: none answers; ERR_CONFIG:
 * one refuses, or knows no such name. e says what to do. */
enum err sentinels_wait(struct sentinels *s, uint64_t wait_ms, struct error *e) MUST_CHECK;
/* Runs the loop until each configured sentinel has answered or cannot be reached, at most for wait_ms. */
void sentinels_hear_all(struct sentinels *s, uint64_t wait_ms);

/* "host:port", or a host alone. NULL, or what was expected. */
const char *sentinel_parse(struct slice text, struct redis_target *out);

#endif
