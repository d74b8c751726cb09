/* users/prover.c - see prover.h. */
#include "users/prover.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"

#include <crypt.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <uv.h>
#include <xxhash.h>

#define NAME_BYTES_MAX 64 /* of a user */

/* A person mistypes twice, an app with an old password retries forever: one in 2 s is enough for both. 1,024 that wait
 * are 1.2 MiB, and 15 s of proving. */
const struct prover_limits prover_limits_default = {.guesses = {.user = {10, 2000}, .wide = {50, 200}},
                                                    .waiting_max = 1024};

struct proof_job { /* its own copies: between queue and done it is the thread's */
    uv_work_t work;
    struct prover *prover;
    struct list link; /* in prover.waiting; none: it is under way */
    struct list asks;
    unsigned char proof[USER_PROOF_BYTES];
    char address[64], name[NAME_BYTES_MAX + 1], hash[PASSWORD_HASH_BYTES], password[PASSWORD_BYTES_MAX + 1];
    size_t password_n;
    bool known, right;
};

struct prover {
    uv_loop_t *loop;
    unsigned char key[32];
    struct guesses guesses;
    uint32_t waiting_max;
    struct list waiting; /* of jobs, first come first served */
    size_t waiting_n;
    struct proof_job *running; /* NULL: none */
    bool stopping;
};

struct prover *prover_create(uv_loop_t *loop, const struct prover_limits *limits)
{
    struct prover *p = heap_zalloc(sizeof(*p));
    p->loop = loop;
    rand_bytes(p->key, sizeof(p->key));
    guesses_init(&p->guesses, &limits->guesses);
    p->waiting_max = limits->waiting_max;
    list_init(&p->waiting);
    return p;
}

bool prover_over(const struct prover *p)
{
    return p->running == NULL;
}

void prover_destroy(struct prover **p)
{
    PRE(prover_over(*p) && list_empty(&(*p)->waiting));
    explicit_bzero((*p)->key, sizeof((*p)->key));
    heap_free(*p);
    *p = NULL;
}

/* The name's length goes before it, so that no other pair makes the same bytes. */
static void proof_make(const struct prover *p, struct slice name, struct slice password,
                       unsigned char out[USER_PROOF_BYTES])
{
    struct buf text = {0};
    unsigned n = USER_PROOF_BYTES;
    buf_put(&text, (const char *)&name.n, sizeof(name.n));
    buf_put_slice(&text, name);
    buf_put_slice(&text, password);
    const void *made =
        HMAC(EVP_sha256(), p->key, (int)sizeof(p->key), (const unsigned char *)text.p, text.n, out, &n);
    INVARIANT(made != NULL && n == USER_PROOF_BYTES);
    explicit_bzero(text.p, text.n);
    buf_free(&text);
}

bool prover_knows(struct prover *p, const struct user *u, struct slice password)
{
    unsigned char proof[USER_PROOF_BYTES];
    if (!u->proved || password.n > PASSWORD_BYTES_MAX) return false;
    proof_make(p, slice_str(u->name), password, proof);
    return CRYPTO_memcmp(proof, u->proof, sizeof(proof)) == 0;
}

void prover_remember(struct prover *p, struct user *u, struct slice password)
{
    proof_make(p, slice_str(u->name), password, u->proof);
    u->proved = true;
}

/* --- jobs --- */

static void job_free(struct proof_job *j)
{
    explicit_bzero(j, sizeof(*j));
    heap_free(j);
}

static void job_answer(struct proof_job *j, enum proof_outcome outcome)
{
    for (struct list *at; (at = list_pop(&j->asks)) != NULL;) {
        struct proof_ask *a = CONTAINER_OF(at, struct proof_ask, link);
        a->outcome = outcome;
        a->done(a);
    }
}

/* The thread's. */
static void proof_work(uv_work_t *work)
{
    struct proof_job *j = work->data;
    j->right = password_is(j->hash, slice_of(j->password, j->password_n)) && j->known;
}

static void run_next(struct prover *p);

static void proof_worked(uv_work_t *work, int status)
{
    struct proof_job *j = work->data;
    struct prover *p = j->prover;
    (void)status; /* never cancelled */
    if (!j->right) guess_wrong(&p->guesses, slice_str(j->address), slice_str(j->name), mono_ms());
    job_answer(j, j->right ? PROOF_RIGHT : PROOF_WRONG);
    /* Not before: a done() that asks again would start the next job too early. */
    p->running = NULL;
    job_free(j);
    run_next(p);
}

/* Checks again whether it may be tried: guesses before it may have been wrong. */
static void run_next(struct prover *p)
{
    while (p->running == NULL && !list_empty(&p->waiting)) {
        struct proof_job *j = CONTAINER_OF(list_pop(&p->waiting), struct proof_job, link);
        p->waiting_n--;
        if (guess_may(&p->guesses, slice_str(j->address), slice_str(j->name), mono_ms())) {
            p->running = j;
            j->work.data = j;
            int rc = uv_queue_work(p->loop, &j->work, proof_work, proof_worked);
            INVARIANT(rc == 0);
        } else {
            job_answer(j, PROOF_TOO_MANY);
            job_free(j);
        }
    }
}

void prover_stop(struct prover *p)
{
    p->stopping = true;
    for (struct list *at; (at = list_pop(&p->waiting)) != NULL;) {
        struct proof_job *j = CONTAINER_OF(at, struct proof_job, link);
        p->waiting_n--;
        job_answer(j, PROOF_BUSY);
        job_free(j);
    }
}

/* --- asking --- */

/* The job that proves the same already. */
static struct proof_job *job_find(struct prover *p, const char *hash,
                                  const unsigned char proof[USER_PROOF_BYTES])
{
    struct proof_job *j = p->running;
    if (j != NULL && memcmp(j->proof, proof, USER_PROOF_BYTES) == 0 && strcmp(j->hash, hash) == 0) return j;
    list_for_each (at, &p->waiting) {
        j = CONTAINER_OF(at, struct proof_job, link);
        if (memcmp(j->proof, proof, USER_PROOF_BYTES) == 0 && strcmp(j->hash, hash) == 0) return j;
    }
    return NULL;
}

static struct proof_job *job_new(struct prover *p, const char *hash, struct slice name, struct slice password,
                                 const char *address)
{
    struct proof_job *j = heap_zalloc(sizeof(*j));
    j->prover = p;
    list_init(&j->asks);
    snprintf(j->hash, sizeof(j->hash), "%s", hash);
    snprintf(j->address, sizeof(j->address), "%s", address);
    memcpy(j->name, name.p, name.n);
    memcpy(j->password, password.p, password.n);
    j->password_n = password.n;
    list_push(&p->waiting, &j->link);
    p->waiting_n++;
    return j;
}

/* The hash that an unknown name is checked against: always the same one, so that it takes as long as a user's. */
static const char *stand_in(const struct prover *p, const struct users *all, struct slice name)
{
    unsigned char proof[USER_PROOF_BYTES];
    uint32_t which;
    proof_make(p, name, slice_of("", 0), proof);
    memcpy(&which, proof, sizeof(which));
    return all->all[which % all->n].hash;
}

bool prover_ask(struct prover *p, const struct users *all, const struct user *u, struct slice name,
                struct slice password, const char *address, struct proof_ask *a)
{
    PRE(all->n > 0);
    unsigned char proof[USER_PROOF_BYTES];
    a->outcome = PROOF_WRONG;
    if (password.n > PASSWORD_BYTES_MAX || name.n > NAME_BYTES_MAX) return false;
    const char *hash = u != NULL ? u->hash : stand_in(p, all, name);
    proof_make(p, name, password, proof);
    struct proof_job *j = job_find(p, hash, proof);
    a->outcome = PROOF_BUSY;
    if (p->stopping || (j == NULL && p->waiting_n >= p->waiting_max)) return false;
    a->outcome = PROOF_TOO_MANY;
    if (j == NULL && !guess_may(&p->guesses, slice_str(address), name, mono_ms())) return false;
    if (j == NULL) {
        j = job_new(p, hash, name, password, address);
        memcpy(j->proof, proof, sizeof(proof));
        j->known = u != NULL;
    }
    list_push(&j->asks, &a->link);
    if (p->running == NULL) run_next(p);
    return true;
}

_Static_assert(PASSWORD_BYTES_MAX < CRYPT_MAX_PASSPHRASE_SIZE, "libcrypt takes it");
_Static_assert(PASSWORD_HASH_BYTES >= CRYPT_OUTPUT_SIZE, "a hash and its NUL");

#define DIGEST_SIGNS 43 /* 32 bytes */
#define SALT_SIGNS_MAX 86

/* The prefixes that crypt_gensalt(3) and mkpasswd(1) write, before the salt: yescrypt from 1 MiB and scrypt from 32
 * MiB, each twice the previous one, up to 64 MiB. */
static const char *const costs[] = {
    "$y$j75$", "$y$j85$", "$y$j7T$",        "$y$j8T$",        "$y$j9T$",
    "$y$jAT$", "$y$jBT$", "$7$BU..../....", "$7$CU..../....",
};

/* NULL: another cost. */
static const char *salt_of(const char *hash)
{
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
        if (strncmp(hash, costs[i], strlen(costs[i])) == 0) return hash + strlen(costs[i]);
    return NULL;
}

/* Six bits each; 64: none of them. */
static uint32_t sign_value(char c)
{
    static const char signs[] = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const char *at = c == '\0' ? NULL : strchr(signs, c);
    return at == NULL ? 64 : (uint32_t)(at - signs);
}

static size_t signs_at(const char *at)
{
    size_t n = 0;
    while (sign_value(at[n]) < 64)
        n++;
    return n;
}

/* yescrypt reads its salt as bytes: after the last whole one all bits are 0. */
static bool bytes_are_whole(const char *at, size_t n)
{
    uint32_t last = sign_value(at[n - 1]);
    return n % 4 == 0 || (n % 4 == 2 && last < 4) || (n % 4 == 3 && last < 16);
}

bool password_hash_fits(const char *hash)
{
    const char *salt = salt_of(hash);
    size_t salt_n = salt == NULL ? 0 : signs_at(salt);
    if (salt_n == 0 || salt_n > SALT_SIGNS_MAX || salt[salt_n] != '$') return false;
    if (hash[1] == 'y' && !bytes_are_whole(salt, salt_n)) return false;
    const char *digest = salt + salt_n + 1;
    int kind = crypt_checksalt(hash);
    return signs_at(digest) == DIGEST_SIGNS && digest[DIGEST_SIGNS] == '\0' &&
           (kind == CRYPT_SALT_OK || kind == CRYPT_SALT_METHOD_LEGACY);
}

/* In constant time, so timing does not show how much was right. The length of a hash is no secret. */
static bool hash_same(const char *a, const char *b)
{
    size_t n = strlen(a);
    unsigned different = 0;
    if (n != strlen(b)) return false;
    for (size_t i = 0; i < n; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}

/* crypt(3) of the password by a hash or a salt into out. */
static bool crypt_into(struct slice password, const char *by, char out[PASSWORD_HASH_BYTES])
{
    char text[PASSWORD_BYTES_MAX + 1];
    if (password.n > PASSWORD_BYTES_MAX || memchr(password.p, '\0', password.n) != NULL) return false;
    memcpy(text, password.p, password.n);
    text[password.n] = '\0';
    struct crypt_data *data = heap_zalloc(sizeof(*data));
    const char *got = crypt_rn(text, by, data, (int)sizeof(*data));
    bool made = got != NULL && got[0] != '*';
    if (made) snprintf(out, PASSWORD_HASH_BYTES, "%s", got);
    explicit_bzero(data, sizeof(*data));
    explicit_bzero(text, sizeof(text));
    heap_free(data);
    return made;
}

bool password_is(const char *hash, struct slice password)
{
    char got[PASSWORD_HASH_BYTES];
    bool is = password.n > 0 && crypt_into(password, hash, got) && hash_same(hash, got);
    explicit_bzero(got, sizeof(got));
    return is;
}

enum err password_hash(struct slice password, char out[PASSWORD_HASH_BYTES], struct error *e)
{
    char salt[CRYPT_GENSALT_OUTPUT_SIZE];
    if (password.n == 0 || password.n > PASSWORD_BYTES_MAX || memchr(password.p, '\0', password.n) != NULL)
        return error_set(e, ERR_USAGE, "a password is 1 to %d bytes of text", PASSWORD_BYTES_MAX);
    if (crypt_gensalt_rn("$y$", 0, NULL, 0, salt, (int)sizeof(salt)) == NULL ||
        !crypt_into(password, salt, out))
        return error_set(e, ERR_FAILED, "libcrypt cannot make a yescrypt hash: %s", strerror(errno));
    return ERR_NONE;
}

/* A slot holds one time. Each wrong guess moves it on by the gap; when it is more than `at_once` gaps ahead of now, the
 * next guess has to wait. */

#define WAYS 4 /* slots that one may be in */

void guesses_init(struct guesses *g, const struct guess_limits *limits)
{
    memset(g, 0, sizeof(*g));
    g->limits = *limits;
    rand_bytes(&g->seed, sizeof(g->seed));
}

static uint64_t address_hash(struct slice address, uint64_t seed)
{
    uint64_t who = XXH3_64bits_withSeed(address.p, address.n, seed);
    return who == 0 ? 1 : who;
}

static uint64_t who_is(const struct guesses *g, struct slice address, struct slice user)
{
    return address_hash(address, XXH3_64bits_withSeed(user.p, user.n, g->seed));
}

/* All users of an address; no name hashes to the same, not even an empty one. */
static uint64_t all_of(const struct guesses *g, struct slice address)
{
    return address_hash(address, g->seed);
}

/* NULL: it has none. */
static struct wrong_guesses *slot_find(struct guesses *g, uint64_t who)
{
    for (unsigned i = 0; i < WAYS; i++)
        if (g->slots[(who + i) % GUESSES_SLOTS].who == who) return &g->slots[(who + i) % GUESSES_SLOTS];
    return NULL;
}

/* A new entry takes the slot that expires first. */
static struct wrong_guesses *guess_slot_take(struct guesses *g, uint64_t who)
{
    struct wrong_guesses *mildest = slot_find(g, who);
    if (mildest != NULL) return mildest;
    mildest = &g->slots[who % GUESSES_SLOTS];
    for (unsigned i = 1; i < WAYS; i++)
        if (g->slots[(who + i) % GUESSES_SLOTS].until_ms < mildest->until_ms)
            mildest = &g->slots[(who + i) % GUESSES_SLOTS];
    *mildest = (struct wrong_guesses){.who = who};
    return mildest;
}

static bool may(struct guesses *g, uint64_t who, uint64_t now_ms, struct guess_limit limit)
{
    const struct wrong_guesses *at = slot_find(g, who);
    return at == NULL || at->until_ms <= now_ms + (limit.at_once - UINT64_C(1)) * limit.gap_ms;
}

bool guess_may(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms)
{
    return may(g, all_of(g, address), now_ms, g->limits.wide) &&
           may(g, who_is(g, address, user), now_ms, g->limits.user);
}

static void guess_count(struct wrong_guesses *at, uint64_t now_ms, uint64_t gap_ms)
{
    at->until_ms = (at->until_ms > now_ms ? at->until_ms : now_ms) + gap_ms;
}

void guess_wrong(struct guesses *g, struct slice address, struct slice user, uint64_t now_ms)
{
    guess_count(guess_slot_take(g, all_of(g, address)), now_ms, g->limits.wide.gap_ms);
    guess_count(guess_slot_take(g, who_is(g, address, user)), now_ms, g->limits.user.gap_ms);
}
