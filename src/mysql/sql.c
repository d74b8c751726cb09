/* mysql/sql.c - see sql.h. */
#include "mysql/sql.h"

/* A line without its newline; *rest moves past it. */
static struct slice line_next(struct slice *rest)
{
    const char *end = memchr(rest->p, '\n', rest->n);
    size_t n = end == NULL ? rest->n : (size_t)(end - rest->p);
    struct slice line = slice_of(rest->p, n);
    size_t used = n + (end != NULL);
    *rest = slice_of(rest->p + used, rest->n - used);
    return line;
}

/* A statement begins at the first line that is neither empty nor a comment, and ends with the line that ends in ';'. */
bool sql_next(struct slice *rest, struct slice *statement)
{
    const char *begin = NULL;
    while (rest->n > 0) {
        struct slice line = line_next(rest);
        bool nothing = line.n == 0 || slice_starts(line, SLICE("--"));
        if (begin == NULL && nothing) continue;
        if (begin == NULL) begin = line.p;
        if (line.n == 0 || line.p[line.n - 1] != ';') continue;
        *statement = slice_of(begin, (size_t)(line.p - begin) + line.n - 1);
        return true;
    }
    return false;
}
