/* users/password.h - passwords as crypt(5) hashes, made and verified by libcrypt: yescrypt (`$y$`), the system's own way
 * for /etc/shadow, and scrypt (`$7$`), from which it comes. Weaker hashes are refused, and so are those that cost more than
 * an unauthenticated client may make tallyd spend. Thread-safe; each call takes tens of ms and 16 MiB or more, as the hash
 * says, so not on the loop. */
#ifndef USERS_PASSWORD_H
#define USERS_PASSWORD_H

#include "base/log.h"
#include "base/slice.h"

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

#endif
