/* users/users.h - the configured users, and what each may do. Made once from the configuration; only budgets and connections
 * change. Owns all its texts. One loop, no locks.
 *
 * Budget: a bucket of `burst` requests that fills with `rate` a second. A rate delays and does not refuse: an app that gets
 * an error loses the hit, or sends it again at once. Share: while several users are active, each gets a part of a frame, so
 * that no user's long frame delays the others. A transaction cannot be cut: it is bounded (`multi`), and what it takes beyond
 * the share comes off its share of later frames. */
#ifndef USERS_USERS_H
#define USERS_USERS_H

#include "base/list.h"
#include "base/log.h"
#include "base/slice.h"

/* Which keys a user may name: patterns like those of Redis' ACLs (`~pattern`): `*`, `?`, `[a-z]`, `[^a]`, and `\`
 * before a literal character. Bytes, not letters; the whole key must match. */

struct glob {
    struct slice prefix; /* the literal start; owned by the caller of glob_init() */
    struct slice rest;   /* the pattern after them */
    bool is_prefix;      /* rest is `*`: a compare of the prefix is all */
    uint64_t head, mask; /* its first eight bytes, and which of them it has */
};

/* text is borrowed for as long as g is used. */
void glob_init(struct glob *g, struct slice text);

bool glob_match_rest(struct slice pattern, struct slice text);

/* Nearly all keys have eight bytes, and most prefixes no more. */
static inline bool glob_starts(const struct glob *g, struct slice key)
{
    uint64_t head;
    if (key.n < sizeof(head) || g->prefix.n > sizeof(head)) return slice_starts(key, g->prefix);
    memcpy(&head, key.p, sizeof(head));
    return ((head ^ g->head) & g->mask) == 0;
}

static inline bool glob_match(const struct glob *g, struct slice key)
{
    size_t n = g->prefix.n;
    if (!glob_starts(g, key)) return false;
    return g->is_prefix || glob_match_rest(g->rest, slice_of(key.p + n, key.n - n));
}

/* The commands that a user may be given, by name or by group, and which of their arguments name data. command/ looks
 * its commands up here; a missing one ends the start. */

enum grant_group {
    GRANT_FREE, /* about the connection or this server: every user may */
    GRANT_READ,
    GRANT_WRITE,
    GRANT_ADMIN,
};

enum grant_names {
    NAMES_NONE,
    NAMES_KEY,   /* the first argument */
    NAMES_EVENT, /* the first and the second, `name:type`, as the log's own key */
    NAMES_SYNC,  /* the first, or ALL: everything */
    NAMES_ALL,   /* everything there is */
};

struct grant {
    const char *name; /* lower case */
    enum grant_group group;
    enum grant_names names;
};

extern const struct grant grants[];
extern const size_t grants_n; /* at most 64: a user's are bits of a word */

const struct grant *grant_find(struct slice name); /* NULL: no such command */
#define GRANT_BIT(g) (UINT64_C(1) << ((g) - &grants[0]))

uint64_t grants_of(enum grant_group group);

#define USER_PROOF_BYTES 32

struct user_spec { /* one user as it was configured; borrowed for the call */
    struct slice name;
    const char *hash;                    /* crypt(5), NULL: no login is possible */
    const struct slice *keys, *commands; /* commands_n = 0: those that read and write */
    size_t keys_n, commands_n;
    uint32_t rate;        /* requests a second, 0: no limit */
    uint32_t burst;       /* at once, 0: rate / 10, at least USER_BURST_LEAST */
    uint32_t multi;       /* commands in one MULTI, 0: the general limit */
    uint32_t connections; /* at once, 0: no limit */
};
#define USER_BURST_LEAST 100
/* A user over budget adds USER_RIDES requests to each frame that others started. If nobody starts one, it gets a frame of
 * what its budget earns in USER_CHUNK_MS, since each extra frame delays others. */
#define USER_RIDES 16
#define USER_CHUNK_MS 20

struct user {
    char *name, *hash;
    char **texts; /* of the patterns */
    struct glob *keys;
    size_t keys_n;
    bool all_keys;
    uint64_t commands; /* GRANT_BITs */
    bool may_hit;      /* HINCRBY is among them */
    uint32_t rate, burst, multi_max, connections_max;
    /* State. */
    uint32_t connections;
    int64_t budget_milli; /* requests that may be taken, in thousandths; below 0: taken ahead */
    uint64_t budget_ms;   /* mono: as it was then */
    bool dry;             /* it was used up: only `allowed` may be taken */
    uint32_t allowed;
    uint64_t frame; /* the one that `taken` and `room` are about */
    uint32_t taken;
    uint32_t room, room_of; /* user_room()'s last answer, less requests since; while this many were active */
    uint32_t part;  /* what the session that goes on may have, since others wait behind it; UINT32_MAX: any */
    uint32_t ahead; /* of its share of the frames to come */
    uint64_t active_ms;                    /* mono: when it last sent something */
    unsigned char proof[USER_PROOF_BYTES]; /* of the password that was right, for proof_of() */
    bool proved;
    size_t shares[2]; /* bytes that its clients make the asker hold: its numbers */
    struct list
        waiting; /* sessions that wait for budget or share, first come first served; the asker's nodes */
    struct list paced; /* on the asker's list of users with waiting sessions */
};

struct users {
    struct user *all;        /* by name */
    size_t n;                /* 0: none are configured, all have full access */
    struct user stranger;    /* all unauthenticated clients together */
    uint32_t frame_requests; /* of all users in a frame, so that none waits long for it */
    uint32_t active;         /* recently active users, counted at ... */
    uint64_t active_ms;
};

enum user_field { USER_PASSWORD, USER_COMMANDS };

struct users_limits {
    uint32_t frame_requests; /* struct users', 500 */
    uint32_t strangers_rate; /* requests a second of all unauthenticated clients, 20,000 */
};
extern const struct users_limits users_limits_default;

void users_init(struct users *u, const struct users_limits *limits);
/* ERR_CONFIG: *which of the fields it is about. */
enum err users_add(struct users *u, const struct user_spec *spec, enum user_field *which,
                   struct error *e) MUST_CHECK;
void users_sort(struct users *u); /* once all are there; no user moves after that */
void users_close(struct users *u);

struct user *user_find(const struct users *u, struct slice name);

/* After a reload: is it the same user, with the same password? */
bool user_is_same(const struct user *a, const struct user *b);

static inline bool user_may(const struct user *u, const struct grant *g)
{
    return g->group == GRANT_FREE || (u->commands & GRANT_BIT(g)) != 0;
}

static inline bool user_names(const struct user *u, struct slice key)
{
    for (size_t i = 0; i < u->keys_n; i++)
        if (glob_match(&u->keys[i], key)) return true;
    return false;
}

/* How many requests it may have now, for this frame. 0: wait, some ms or until the next one. */
uint32_t user_room(struct users *all, struct user *u, uint64_t frame, uint64_t now_ms);
/* What is left of that, without a look at the clock. 0: ask user_room(). */
static inline uint32_t user_room_left(const struct users *all, const struct user *u, uint64_t frame)
{
    return u->frame == frame && u->room_of == all->active ? u->room : 0;
}
void user_took(struct user *u, uint32_t requests);   /* after user_room(), as the two that follow */
void user_weighed(struct user *u, uint32_t more);    /* of a frame's room than one for each request */
void user_queued(struct user *u, uint32_t requests); /* in a MULTI: paid for, and in no frame yet, */
void user_took_at_once(const struct users *all, struct user *u, uint32_t requests); /* and then in this one */
void user_part(struct user *u, uint32_t most); /* of its room, until the next call; UINT32_MAX: all */
/* A client waits for room: sets how much of a used-up budget it may take. rides: in a frame that is sent anyway. */
void user_allow(struct user *u, uint64_t now_ms, bool rides);

#endif
