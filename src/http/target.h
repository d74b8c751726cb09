/* http/target.h - what a request asks for: the segments of its path and the parameters of its query, percent-decoded.
 * Pure. The target owns the bytes; slices are good until target_close. */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include "base/slice.h"

#define TARGET_SEGMENTS_MAX 8
#define TARGET_ARGS_MAX 16

struct target_piece { /* of bytes */
    size_t at, n;
};

struct target {
    struct buf bytes;
    struct target_piece segments[TARGET_SEGMENTS_MAX];
    size_t segments_n; /* "/" has none; "/api/" has "api" and "" */
    struct target_piece names[TARGET_ARGS_MAX], values[TARGET_ARGS_MAX];
    size_t args_n;
};

/* Both return NULL, or in a phrase what is wrong. The path begins with '/' and has no query. %2F does not split
 * segments, "." and ".." are names like others. Every % must begin a %XX, and none may be a NUL byte. */
const char *target_read_path(struct target *t, struct slice path);
const char *target_add_arg(struct target *t, struct slice name, struct slice value); /* each name once */
void target_close(struct target *t);

struct slice target_segment(const struct target *t, size_t i);
struct slice target_arg_name(const struct target *t, size_t i);
/* The value of a parameter. False: it was not given. */
bool target_arg(const struct target *t, const char *name, struct slice *value);

#endif
