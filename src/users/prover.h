/* users/prover.h - passwords, wrong guesses, and who proves which. */
#ifndef USERS_PROVER_H
#define USERS_PROVER_H

#include "base/list.h"
#include "base/log.h"
#include "base/slice.h"
#include "users/users.h"

/* Passwords as crypt(5) hashes, made and verified by libcrypt: yescrypt (`$y$`), the system's own way for /etc/shadow,
 * and scrypt (`$7$`), from which it comes. Weaker hashes are refused, and so are those that cost more than an
 * unauthenticated client may make tallyd spend. Thread-safe; each call takes tens of ms and 16 MiB or more, as the hash
 * says, so not on the loop. */

#define PASSWORD_BYTES_MAX 511 /* of a password, without NUL bytes; libcrypt takes no more */
#define PASSWORD_HASH_BYTES 384
/* Of memory, for each time that a password is proved: 16 is yescrypt's own, 64 scrypt's in libcrypt. */
#define PASSWORD_MIB_LEAST 1
#define PASSWORD_MIB_MOST 64

/* A whole hash of an accepted kind and cost; password_is() is only for those. */
bool password_hash_fits(const char *hash);
bool password_is(const char *hash, struct slice password);
/* A new yescrypt hash with a salt of its own. */
enum err password_hash(struct slice password, char out[PASSWORD_HASH_BYTES], struct error *e) MUST_CHECK;

/* Limits failed logins: some at once, then one after each pause, by address and user, and a wider limit by address
 * alone. Bounded: when the slots are full, the entry that would expire first goes. Pure; the time is given (mono). */

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
    struct wrong_guesses {
        uint64_t who;      /* a hash, 0: free */
        uint64_t until_ms; /* when all its wrong guesses are forgiven */
    } slots[GUESSES_SLOTS];
};

void guesses_init(struct guesses *g, const struct guess_limits *limits);

/* May a password be tried? */
bool guess_may(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms);
void guess_wrong(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms);

/* Verifies passwords on libuv's thread pool, one at a time, so it never takes more than one core. Clients that ask the same
 * share one answer. It limits failed logins, and the number of logins that wait.
 *
 * The last right password of a user is remembered, until the user's hash changes, as HMAC-SHA-256 of name and password under
 * a key of this process: PHP reconnects for every page. All but the one job runs on the loop. */

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
