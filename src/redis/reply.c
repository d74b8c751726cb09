/* redis/reply.c - questions that every operation asks of a reply. */
#include "redis/reply.h"
#include "base/num.h"
#include <stdio.h>

bool reply_is_ok(const struct redis_reply *r)
{
    return reply_is(r, REDIS_STATUS) && slice_eq(r->str, SLICE("OK"));
}

bool reply_error_is(const struct redis_reply *r, const char *prefix)
{
    struct slice word = slice_str(prefix);
    if (!reply_is(r, REDIS_ERROR) || !slice_starts(r->str, word)) return false;
    return r->str.n == word.n || r->str.p[word.n] == ' ';
}

bool reply_integer(const struct redis_reply *r, int64_t *out)
{
    if (reply_is(r, REDIS_STRING)) return num_parse(r->str, out);
    if (!reply_is(r, REDIS_INTEGER)) return false;
    *out = r->integer;
    return true;
}

void reply_why(const struct redis_reply *r, char *out, size_t size)
{
    if (r == NULL)
        snprintf(out, size, "the Redis link was lost");
    else if (r->type == REDIS_ERROR)
        slice_show(r->str, size - 1, out, size);
    else
        snprintf(out, size, "Redis gave an answer of an unexpected shape");
}
