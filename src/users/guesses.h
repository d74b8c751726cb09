/* users/guesses.h - limits failed logins: some at once, then one after each pause, by address and user, and a wider limit
 * by address alone. Bounded: when the slots are full, the entry that would expire first goes. Pure; the time is given
 * (mono). */
#ifndef USERS_GUESSES_H
#define USERS_GUESSES_H

#include "base/slice.h"

#define GUESSES_SLOTS 4096

struct guess_limit {
    uint32_t at_once, gap_ms; /* at_once guesses, then one each gap_ms; neither is 0 */
};
struct guess_limits {
    struct guess_limit user; /* of a user from one address: 10, 2,000 */
    struct guess_limit wide; /* of all users from one address: 50, 200 */
};

struct guesses {
    struct guess_limits limits;
    uint64_t seed;
    struct guess {
        uint64_t who;      /* a hash, 0: free */
        uint64_t until_ms; /* when all its wrong guesses are forgiven */
    } slots[GUESSES_SLOTS];
};

void guesses_init(struct guesses *g, const struct guess_limits *limits);

/* May a password be tried? */
bool guess_may(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms);
void guess_wrong(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms);

#endif
