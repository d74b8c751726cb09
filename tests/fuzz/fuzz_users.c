/* fuzz_users.c - logins and rights (users/), from the words of a configuration. Lines: a password and one
 * to try, a hash, patterns and commands with blanks between them, keys with blanks between them; then guesses, a byte each.
 *   A pattern matches what a slow reference matches, which goes through the key at all its places together.
 *   A command is allowed when its name is among the words, or that of its group, whose lists below are those of the README.
 *   A hash that is taken costs what crypt_gensalt(3) makes of allowed costs, and is one that libcrypt can prove; a password is
 *   right when all its bytes are the same. Both are asked at a cost that no configuration may have: a few microseconds.
 *   Guesses are refused by a debt that shrinks with time. */
#include "fuzz.h"
#include "reference.h"

#include "users/prover.h"
#include "users/users.h"

#include <crypt.h>

/* ---- patterns and commands ---- */

static void keys_agree(const struct user *u, const struct words *patterns, const struct words *keys)
{
    for (size_t k = 0; k < keys->n; k++) {
        struct slice key = slice_of(keys->all[k].p, keys->all[k].n < KEY_MAX ? keys->all[k].n : KEY_MAX);
        bool may = false;
        for (size_t i = 0; i < patterns->n; i++) {
            bool matches = reference_match(patterns->all[i], key);
            MUST(glob_match(&u->keys[i], key) == matches);
            may |= matches;
        }
        MUST(user_names(u, key) == may);
    }
}

static void commands_agree(const struct user *u, const struct words *words)
{
    for (size_t i = 0; i < grants_n; i++)
        MUST(user_may(u, &grants[i]) == reference_may(words, grants[i].name));
}

static bool commands_are_known(const struct words *words)
{
    bool known = true;
    for (size_t k = 0; k < words->n; k++) {
        bool found = slice_ieq(words->all[k], SLICE("all")) || slice_ieq(words->all[k], SLICE("read")) ||
                     slice_ieq(words->all[k], SLICE("write")) || slice_ieq(words->all[k], SLICE("admin"));
        for (size_t i = 0; i < grants_n; i++)
            found |= slice_ieq(words->all[k], slice_str(grants[i].name));
        known &= found;
    }
    return known;
}

/* ---- hashes and passwords ---- */

static char allowed[9][64]; /* what hashes begin with */
static size_t allowed_n;

/* Of these costs; the salt, which is all "aa" bytes, is cut off. */
static void allowed_make(const char *kind, unsigned long from, unsigned long to)
{
    char text[CRYPT_GENSALT_OUTPUT_SIZE];
    for (unsigned long cost = from; cost <= to; cost++) {
        MUST(crypt_gensalt_rn(kind, cost, "0123456789abcdef", 16, text, (int)sizeof text) != NULL);
        size_t n = kind[1] == 'y' ? 7 : 14;
        MUST(allowed_n < sizeof allowed / sizeof allowed[0]);
        snprintf(allowed[allowed_n++], sizeof allowed[0], "%.*s", (int)n, text);
    }
}

static const char *salt_of(const char *hash)
{
    for (size_t i = 0; i < allowed_n; i++)
        if (strncmp(hash, allowed[i], strlen(allowed[i])) == 0) return hash + strlen(allowed[i]);
    return NULL;
}

/* The hash of a password with that hash's salt, at next to no cost; false: libcrypt takes neither. */
static bool cheap_hash(const char *salt, bool is_yescrypt, const char *password,
                       char out[PASSWORD_HASH_BYTES])
{
    static struct crypt_data data;
    char setting[PASSWORD_HASH_BYTES + 16];
    snprintf(setting, sizeof setting, "%s%s", is_yescrypt ? "$y$j/.$" : "$7$2/..../....", salt);
    const char *made = crypt_rn(password, setting, &data, (int)sizeof data);
    if (made == NULL || made[0] == '*') return false;
    snprintf(out, PASSWORD_HASH_BYTES, "%s", made);
    return true;
}

static void hash_costs(const char *hash)
{
    char made[PASSWORD_HASH_BYTES];
    const char *salt = salt_of(hash);
    MUST(salt != NULL && strlen(hash) < PASSWORD_HASH_BYTES);
    bool is_made = cheap_hash(salt, hash[1] == 'y', "x", made);
    MUST(is_made);
    MUST(strlen(strrchr(made, '$')) == strlen(strrchr(hash, '$')));
}

static void passwords_agree(struct slice password, struct slice tried)
{
    char hash[PASSWORD_HASH_BYTES], *text = heap_strndup(password.p, password.n);
    bool storable = password.n > 0 && password.n <= PASSWORD_BYTES_MAX && strlen(text) == password.n;
    if (storable) {
        bool is_made = cheap_hash("k2XAnEHBqQ1Ct2aMXFKNa/$", true, text, hash);
        MUST(is_made && password_is(hash, password));
        MUST(password_is(hash, tried) == slice_eq(password, tried));
    }
    heap_free(text);
}

/* ---- a user ---- */

static void user_try(struct slice hash, const struct words *patterns, const struct words *commands,
                     const struct words *keys)
{
    char *text = heap_strndup(hash.p, hash.n);
    const struct user_spec spec = {.name = SLICE("shop"),
                                   .hash = text,
                                   .keys = patterns->all,
                                   .keys_n = patterns->n,
                                   .commands = commands->all,
                                   .commands_n = commands->n};
    struct users users;
    enum user_field which;
    struct error e;
    users_init(&users, &users_limits_default);
    bool fits = password_hash_fits(text), known = commands_are_known(commands);
    if (fits) hash_costs(text);
    bool taken = users_add(&users, &spec, &which, &e) == ERR_NONE;
    MUST(taken == (fits && known) && (taken || (which == USER_COMMANDS) == !known));
    for (const char *p = e.text; !taken && *p != '\0'; p++)
        MUST(*p >= ' ' && *p <= '~');
    users_sort(&users);
    const struct user *u = user_find(&users, SLICE("shop"));
    MUST((u != NULL) == taken);
    if (taken) {
        keys_agree(u, patterns, keys);
        commands_agree(u, commands);
    }
    users_close(&users);
    heap_free(text);
}

/* ---- guesses ---- */

#define PLACES 4
#define NAMES 4

struct debts { /* ms of gaps that are not over yet */
    uint64_t of[PLACES][NAMES], wide[PLACES];
};

static void debts_shrink(struct debts *d, uint64_t ms)
{
    for (int p = 0; p < PLACES; p++) {
        d->wide[p] -= d->wide[p] < ms ? d->wide[p] : ms;
        for (int n = 0; n < NAMES; n++)
            d->of[p][n] -= d->of[p][n] < ms ? d->of[p][n] : ms;
    }
}

/* Two bits for the place, two for the name; then how much time passes first. */
static void guesses_agree(struct slice in)
{
    static const char *const places[PLACES] = {"10.0.0.1", "10.0.0.2", "[::1]", "/run/tallyd.sock"};
    static const char *const names[NAMES] = {"", "shop", "jobs", "default"};
    static const uint16_t pauses_ms[16] = {
        [9] = 1, [10] = 199, [11] = 200, [12] = 1999, [13] = 2000, [14] = 2001, [15] = 60000};
    static const struct guess_limits limits = {.user = {10, 2000}, .wide = {50, 200}};
    static struct guesses g;
    struct debts d = {0};
    uint64_t now_ms = 1000000;
    guesses_init(&g, &limits);
    g.seed = 1; /* so that none of these meets another in the slots */
    while (in.n > 0) {
        uint8_t byte = take_byte(&in), p = byte & 3, n = byte >> 2 & 3;
        struct slice place = slice_str(places[p]), name = slice_str(names[n]);
        now_ms += pauses_ms[byte >> 4];
        debts_shrink(&d, pauses_ms[byte >> 4]);
        bool may = d.wide[p] <= (limits.wide.at_once - 1) * limits.wide.gap_ms &&
                   d.of[p][n] <= (limits.user.at_once - 1) * limits.user.gap_ms;
        MUST(guess_may(&g, place, name, now_ms) == may);
        if (!may) continue;
        guess_wrong(&g, place, name, now_ms);
        d.wide[p] += limits.wide.gap_ms;
        d.of[p][n] += limits.user.gap_ms;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (allowed_n == 0) {
        allowed_make("$y$", 1, 7);
        allowed_make("$7$", 6, 7);
    }
    char *text = fuzz_copy(data, size);
    struct slice in = slice_of(text, size), password = take_line(&in), tried = take_line(&in),
                 hash = take_line(&in);
    struct words patterns = words_of(take_line(&in)), commands = {.n = 0};
    struct slice line = take_line(&in);
    if (line.n > 0) commands = words_of(line);
    struct words keys = words_of(take_line(&in));
    passwords_agree(password, tried);
    user_try(hash, &patterns, &commands, &keys);
    guesses_agree(in);
    heap_free(text);
    return 0;
}
