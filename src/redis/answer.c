/* redis/answer.c - questions that every operation asks of a reply. */
#include "redis/answer.h"
#include "base/slice.h"
#include <stdio.h>

bool answer_is_ok(const struct redis_answer *r)
{
    return answer_is(r, REDIS_STATUS) && slice_eq(r->str, SLICE("OK"));
}

bool answer_error_is(const struct redis_answer *r, const char *prefix)
{
    struct slice word = slice_str(prefix);
    if (!answer_is(r, REDIS_ERROR) || !slice_starts(r->str, word)) return false;
    return r->str.n == word.n || r->str.p[word.n] == ' ';
}

bool answer_integer(const struct redis_answer *r, int64_t *out)
{
    if (answer_is(r, REDIS_STRING)) return num_parse(r->str, out);
    if (!answer_is(r, REDIS_INTEGER)) return false;
    *out = r->integer;
    return true;
}

void answer_why(const struct redis_answer *r, char *out, size_t size)
{
    if (r == NULL)
        snprintf(out, size, "the Redis link was lost");
    else if (r->type == REDIS_ERROR)
        slice_show(r->str, size - 1, out, size);
    else
        snprintf(out, size, "Redis gave an answer of an unexpected shape");
}
