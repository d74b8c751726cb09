/* http/target.c - see target.h. */
#include "http/target.h"

#include "base/log.h"
#include "base/url.h"

static const char *piece_add(struct target *t, struct slice text, struct target_piece *out)
{
    static const char *const faults[] = {
        [PERCENT_ESCAPE] = "has a % without two hexadecimal digits behind it",
        [PERCENT_NUL] = "has a NUL byte (%00)",
    };
    out->at = t->bytes.n;
    char *to = buf_reserve(&t->bytes, text.n + 1); /* so a piece without bytes has a place, too */
    const char *fault = faults[percent_decode(text, to, &out->n)];
    t->bytes.n += out->n;
    return fault;
}

const char *target_read_path(struct target *t, struct slice path)
{
    const char *fault = NULL;
    if (path.n == 0 || path.p[0] != '/') return "does not begin with /";
    if (path.n == 1) return NULL;
    for (size_t from = 1; fault == NULL && from <= path.n;) {
        const char *slash = memchr(path.p + from, '/', path.n - from);
        size_t end = slash == NULL ? path.n : (size_t)(slash - path.p);
        if (t->segments_n == TARGET_SEGMENTS_MAX) return "has too many segments";
        fault = piece_add(t, slice_of(path.p + from, end - from), &t->segments[t->segments_n++]);
        from = end + 1;
    }
    return fault;
}

const char *target_add_arg(struct target *t, struct slice name, struct slice value)
{
    if (t->args_n == TARGET_ARGS_MAX) return "has too many parameters";
    size_t i = t->args_n;
    const char *fault = piece_add(t, name, &t->names[i]);
    if (fault == NULL) fault = piece_add(t, value, &t->values[i]);
    if (fault != NULL) return fault;
    for (size_t k = 0; k < i; k++)
        if (slice_eq(target_arg_name(t, k), slice_of(t->bytes.p + t->names[i].at, t->names[i].n)))
            return "has a parameter twice";
    t->args_n++;
    return NULL;
}

void target_close(struct target *t)
{
    buf_free(&t->bytes);
    *t = (struct target){0};
}

struct slice target_segment(const struct target *t, size_t i)
{
    PRE(i < t->segments_n);
    return slice_of(t->bytes.p + t->segments[i].at, t->segments[i].n);
}

struct slice target_arg_name(const struct target *t, size_t i)
{
    PRE(i < t->args_n);
    return slice_of(t->bytes.p + t->names[i].at, t->names[i].n);
}

bool target_arg(const struct target *t, const char *name, struct slice *value)
{
    for (size_t i = 0; i < t->args_n; i++) {
        if (!slice_eq(target_arg_name(t, i), slice_str(name))) continue;
        *value = slice_of(t->bytes.p + t->values[i].at, t->values[i].n);
        return true;
    }
    return false;
}
