/* users/prover.h - verifies passwords on libuv's thread pool, one at a time, so it never takes more than one core. Clients
 * that ask the same share one answer. It limits failed logins (guesses.h) and the number of logins that wait.
 *
 * The last right password of a user is remembered, until the user's hash changes, as HMAC-SHA-256 of name and password under
 * a key of this process: PHP reconnects for every page. All but the one job runs on the loop. */
#ifndef USERS_PROVER_H
#define USERS_PROVER_H

#include "base/list.h"
#include "users/guesses.h"
#include "users/users.h"

struct uv_loop_s;
struct prover;

enum proof_outcome {
    PROOF_RIGHT,
    PROOF_WRONG,
    PROOF_TOO_MANY, /* wrong guesses from that address */
    PROOF_BUSY,     /* too many wait */
};

struct proof_ask {
    enum proof_outcome outcome;
    void (*done)(struct proof_ask *a); /* once, on the loop, never from inside prover_ask() */
    /* private */
    struct list link;
};

struct prover_limits {
    struct guess_limits guesses;
    uint32_t waiting_max; /* different passwords that wait, 1,024 */
};
extern const struct prover_limits prover_limits_default;

struct prover *prover_create(struct uv_loop_s *loop, const struct prover_limits *limits);
void prover_stop(struct prover *p); /* all that wait are answered PROOF_BUSY; the job under way still ends */
bool prover_over(const struct prover *p); /* no job is under way */
void prover_destroy(struct prover **p);   /* after that */

/* Is it the remembered one? */
bool prover_knows(struct prover *p, const struct user *u, struct slice password);

/* All texts are borrowed for the call; u NULL: no such user, which takes as long to find out. False: a->outcome is set
 * and done() is not called. */
bool prover_ask(struct prover *p, const struct users *all, const struct user *u, struct slice name,
                struct slice password, const char *address, struct proof_ask *a) MUST_CHECK;

/* After PROOF_RIGHT, when the user is still there with that hash. */
void prover_remember(struct prover *p, struct user *u, struct slice password);

#endif
