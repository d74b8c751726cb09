/* users/password.h - passwords as crypt(5) hashes, made and proved by libcrypt: yescrypt (`$y$`), the system's own way for
 * /etc/shadow, and scrypt (`$7$`), from which it comes. What is weaker is refused, and so is what costs more than a stranger
 * may make tallyd spend. Thread-safe; each call takes tens of ms and 16 MiB or more, as the hash says, and is to be made
 * beside the loop. */
#ifndef USERS_PASSWORD_H
#define USERS_PASSWORD_H

#include "base/error.h"
#include "base/slice.h"

#define PASSWORD_BYTES_MAX 511 /* of a password, without NUL bytes; libcrypt takes no more */
#define PASSWORD_HASH_BYTES 384
/* Of memory, for each time that a password is proved: 16 is yescrypt's own, 64 scrypt's in libcrypt. */
#define PASSWORD_MIB_LEAST 1
#define PASSWORD_MIB_MOST 64

/* Of a kind that is taken, whole, and of such a cost: password_is() is only for those. */
bool password_hash_fits(const char *hash);
bool password_is(const char *hash, struct slice password);
/* A new yescrypt hash with a salt of its own. */
enum err password_hash(struct slice password, char out[PASSWORD_HASH_BYTES], struct error *e) MUST_CHECK;

#endif
