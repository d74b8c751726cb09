/* users/password.c - see password.h. */
#include "users/password.h"

#include "base/heap.h"

#include <crypt.h>
#include <errno.h>
#include <stdio.h>

_Static_assert(PASSWORD_BYTES_MAX < CRYPT_MAX_PASSPHRASE_SIZE, "libcrypt takes it");
_Static_assert(PASSWORD_HASH_BYTES >= CRYPT_OUTPUT_SIZE, "a hash and its NUL");

bool password_hash_fits(const char *hash)
{
    size_t n = strlen(hash);
    if (n >= PASSWORD_HASH_BYTES || (strncmp(hash, "$y$", 3) != 0 && strncmp(hash, "$7$", 3) != 0))
        return false;
    int kind = crypt_checksalt(hash);
    const char *digest = strrchr(hash, '$');
    return (kind == CRYPT_SALT_OK || kind == CRYPT_SALT_METHOD_LEGACY) && strlen(digest + 1) == 43;
}

/* Always looks at all of both: how long it takes tells nothing of how much was right. How long a hash is is no secret. */
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
