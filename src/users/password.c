/* users/password.c - see password.h. */
#include "users/password.h"

#include "base/heap.h"

#include <crypt.h>
#include <errno.h>
#include <stdio.h>

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
static bool same_text(const char *a, const char *b)
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
    bool is = password.n > 0 && crypt_into(password, hash, got) && same_text(hash, got);
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
