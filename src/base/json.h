/* base/json.h - writes JSON into a buffer, value after value; it puts the commas where they belong. Texts may be any
 * bytes: bytes that are not UTF-8 become U+FFFD, so that every reader accepts the output. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/slice.h"

struct json {
    struct buf *out; /* borrowed */
    bool comma;      /* the next value has one before it */
};

/* key: the member's name inside an object; NULL inside an array and at the top. */
void json_open(struct json *j, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *j, char bracket);                 /* '}' or ']' */
void json_slice(struct json *j, const char *key, struct slice text);
void json_slice_or_null(struct json *j, const char *key, struct slice text); /* null: its p is NULL */
void json_text(struct json *j, const char *key, const char *text);
void json_int(struct json *j, const char *key, int64_t v);
void json_bool(struct json *j, const char *key, bool v);
void json_null(struct json *j, const char *key);
void json_digits(struct json *j, const char *key,
                 struct slice number);                  /* a number as it is written, of any size */
bool text_is_utf8(struct slice text);                   /* RFC 3629 */
void text_put_utf8(struct buf *out, struct slice text); /* what is not UTF-8 becomes U+FFFD */

#endif
