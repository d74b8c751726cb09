/* redis/reply.h - what Redis answered, built by hiredis' reader in an arena of the link's: nothing is
 * allocated per reply once the arena has grown. A reply and every slice in it live until the callback that
 * got it returns. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "base/slice.h"

enum redis_type { REDIS_NIL, REDIS_STATUS, REDIS_ERROR, REDIS_INTEGER, REDIS_STRING, REDIS_ARRAY };

struct redis_reply {
    enum redis_type type;
    int64_t integer;              /* REDIS_INTEGER */
    struct slice str;             /* REDIS_STATUS, REDIS_ERROR (the line without '-'), REDIS_STRING */
    struct redis_reply *elements; /* REDIS_ARRAY: n of them */
    size_t n;
};

/* Each takes NULL (the link was cut) for an answer of another shape. */
static inline bool reply_is(const struct redis_reply *r, enum redis_type type)
{
    return r != NULL && r->type == type;
}
static inline bool reply_is_array(const struct redis_reply *r, size_t n)
{
    return reply_is(r, REDIS_ARRAY) && r->n == n;
}
bool reply_is_ok(const struct redis_reply *r);                        /* +OK */
bool reply_error_is(const struct redis_reply *r, const char *prefix); /* an error whose first word it is */
/* An integer, or a string of canonical digits. False: neither. */
bool reply_integer(const struct redis_reply *r, int64_t *out);
/* For texts of struct members: an error's own line, "link lost" for NULL, else "unexpected reply".
 * Always terminated. */
void reply_why(const struct redis_reply *r, char *out, size_t size);

#endif
