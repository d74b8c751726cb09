/* redis/answer.h - what Redis answered, built by hiredis' reader in an arena of the link: once the arena has grown, a
 * reply allocates nothing. A reply and every slice in it live until the callback that got it returns. */
#ifndef REDIS_ANSWER_H
#define REDIS_ANSWER_H

#include "base/slice.h"

enum redis_type { REDIS_NIL, REDIS_STATUS, REDIS_ERROR, REDIS_INTEGER, REDIS_STRING, REDIS_ARRAY };

struct redis_answer {
    enum redis_type type;
    int64_t integer;               /* REDIS_INTEGER */
    struct slice str;              /* REDIS_STATUS, REDIS_ERROR (the line without '-'), REDIS_STRING */
    struct redis_answer *elements; /* REDIS_ARRAY: n of them */
    size_t n;
};

/* Each treats NULL (the link was cut) as an answer of another shape. */
static inline bool answer_is(const struct redis_answer *r, enum redis_type type)
{
    return r != NULL && r->type == type;
}
static inline bool answer_is_array(const struct redis_answer *r, size_t n)
{
    return answer_is(r, REDIS_ARRAY) && r->n == n;
}
bool answer_is_ok(const struct redis_answer *r);                        /* +OK */
bool answer_error_is(const struct redis_answer *r, const char *prefix); /* an error whose first word it is */
/* An integer, or a string of canonical digits. False: neither. */
bool answer_integer(const struct redis_answer *r, int64_t *out);
/* For texts of struct members: an error's own line, "link lost" for NULL, else "unexpected reply".
 * Always terminated. */
void answer_why(const struct redis_answer *r, char *out, size_t size);

#endif
