/* redis/reader.h - RESP: requests as bytes, what Redis answered, and the reader that builds it. */
#ifndef REDIS_READER_H
#define REDIS_READER_H

#include "base/slice.h"

/* --- requests, written piece by piece, as frames do. Each appends to out; nothing is copied twice, nothing is formatted with %. --- */

void request_array(struct buf *out, size_t n);       /* *n */
void request_slice(struct buf *out, struct slice s); /* $n, bytes */
/* $n, the lane's tag and a key's name. It writes all keys, and all texts that scripts make keys of. */
void request_key(struct buf *out, struct slice tag, struct slice name);
#define REQUEST_KEY(out, tag, literal) request_key((out), (tag), SLICE(literal))
void request_int(struct buf *out, int64_t v); /* an integer as a bulk string */
void request_text(struct buf *out, const char *text);
#define REQUEST_LIT(out, literal) request_slice((out), SLICE(literal))
/* A whole command of words without arguments in it: request_words(out, "CLIENT ID"). Split at single spaces. */
void request_words(struct buf *out, const char *words);

/* Opens EVAL script numkeys; the caller appends keys_n keys and args_n arguments. It sends the whole script, never its
 * hash, so that there is no NOSCRIPT, and no second sending. Redis keeps the compiled script. */
void request_eval(struct buf *out, struct slice script, size_t keys_n, size_t args_n);

/* --- what Redis answered, built by hiredis' reader in an arena of the link: once the arena has grown, a reply allocates nothing.
 * A reply and every slice in it live until the callback that got it returns. --- */

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
/* Takes what is in front of the first `end`, which goes as well, off a text that has parts; all of it, if none is there. */
struct slice text_part(struct slice *text, char end);

/* --- bytes from Redis into replies: hiredis' redisReader with object functions of ours, which build in an arena. A reader serves
 * one connection after another: reset forgets half a reply. --- */

/* What clients get instead of MOVED and ASK. */
#define CLUSTER_ASTRAY "TRYAGAIN the slot of tallyd's keys is moving to another node of the cluster"

#define REDIS_ELEMENTS_MAX (4 << 20)            /* of one array; a server that claims more is not believed */
#define REDIS_DEPTH_MAX 8                       /* arrays in arrays; ours have six */
#define REDIS_REPLY_BYTES_MAX ((size_t)1 << 29) /* of one reply: Redis' own bound of a bulk string */

struct redis_reader;
struct redis_reader *redis_reader_create(void);
void redis_reader_destroy(struct redis_reader **r);
void redis_reader_reset(struct redis_reader *r);

enum redis_read { READ_REPLY, READ_MORE, READ_GARBAGE };
bool redis_reader_feed(struct redis_reader *r, const char *p,
                       size_t n); /* false: garbage, or a reply beyond bounds */
/* The first error, at any depth of what was read so far, that says this is not the server to ask (READONLY, LOADING,
 * MASTERDOWN, CLUSTERDOWN, MOVED, ASK, REDIRECT), with its line in *line; NULL: none. */
const char *redis_reader_unfit(const struct redis_reader *r);
/* For a cluster's node: an error for a slot that is elsewhere, or moving, becomes TRYAGAIN for the callers, since a
 * client that knows clusters would follow it there. The line of a MOVED is also kept: returns it, or NULL. */
void redis_reader_of_cluster(struct redis_reader *r);
const char *redis_reader_moved(const struct redis_reader *r);
bool redis_reader_lonely(struct redis_reader *r); /* some said NOREPLICAS; asked once */
/* The next whole reply; it lives until the next call. After READ_GARBAGE only reset helps. */
bool redis_reader_is_empty(const struct redis_reader *r); /* no part of a reply is in it */
enum redis_read redis_reader_next(struct redis_reader *r, const struct redis_answer **out);
/* The reply of the last call lives until this is called for another one. */
void redis_reader_keep(struct redis_reader *r);

/* The value of `key:value` in INFO's text. False: no such line. */
bool info_get(struct slice info, const char *key, struct slice *value);
bool info_is(struct slice info, const char *key, const char *value);

#endif
