/* redis/query_op.c - begins a read of each kind, and ends every read. */
#include "base/slice.h"
#include "redis/query_in.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void end(struct redis_query *r, enum ask_outcome outcome)
{
    struct query_answer answer = r->answer; /* r may be gone after came */
    r->outcome = outcome;
    if (outcome != ASK_DONE) r->answer.n = 0;
    buf_free(&r->key);
    buf_free(&r->last);
    buf_free(&r->last_score);
    r->came(r, false);
    query_answer_free(&answer);
}

void query_more(struct redis_query *r, void (*ask)(struct redis_query *r))
{
    r->next = ask;
    r->came(r, true);
}

void query_finish(struct redis_query *r)
{
    end(r, ASK_DONE);
}

/* Redis adds to an error inside a script its place in the script: of no use to a client. */
static struct slice error_line(struct slice line)
{
    static const char mark[] = " script: ";
    const char *at = memmem(line.p, line.n, mark, sizeof mark - 1);
    return at == NULL ? line : slice_of(line.p, (size_t)(at - line.p));
}

void query_fail(struct redis_query *r, const struct redis_answer *reply)
{
    struct redis_answer cleaned;
    if (reply == NULL) {
        end(r, ASK_REDIS_DOWN);
        return;
    }
    cleaned = *reply;
    if (reply->type == REDIS_ERROR) {
        cleaned.str = error_line(reply->str);
        answer_why(&cleaned, r->text, sizeof r->text);
    } else {
        snprintf(r->text, sizeof r->text, "ERR Redis gave an answer of an unexpected shape");
    }
    end(r, ASK_FAILED);
}

void query_refuse(struct redis_query *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->text, sizeof r->text, format, args);
    va_end(args);
    end(r, ASK_FAILED);
}

void query_refuse_key(struct redis_query *r, struct slice key, struct slice held)
{
    char shown_key[100], shown_held[40];
    query_refuse(r, "ERR key '%s' holds '%s', which tallyd did not write; another program uses that key",
                 slice_show(key, 90, shown_key, sizeof shown_key),
                 slice_show(held, 30, shown_held, sizeof shown_held));
}

/* Values that Redis in Action's readers or other programs wrote may have fractions. */
bool query_score(const struct redis_answer *reply, int64_t *out)
{
    char text[64], *rest;
    if (!answer_is(reply, REDIS_STRING) || reply->str.n >= sizeof text) return false;
    if (num_parse(reply->str, out)) return true;
    memcpy(text, reply->str.p, reply->str.n);
    text[reply->str.n] = '\0';
    double v = strtod(text, &rest);
    if (rest == text || *rest != '\0' || !(v > -9e18 && v < 9e18)) return false;
    *out = (int64_t)v;
    if ((double)*out > v) --*out; /* down, also below 0 */
    return true;
}

struct buf *query_key(struct redis_query *r)
{
    buf_reset(&r->key);
    return &r->key;
}

void redis_query(struct redis_link *l, struct redis_query *r)
{
    static void (*const begin[])(struct redis_query *) = {
        [QUERY_SERIES] = query_samples,         [QUERY_NAMES] = query_names,
        [QUERY_TIMEBOX_RECENT] = query_timebox, [QUERY_TIMEBOX_TOP] = query_timebox,
        [QUERY_TIMEBOX_BOTTOM] = query_timebox, [QUERY_EVENTS] = query_events,
        [QUERY_WINDOWS] = query_windows,        [QUERY_VISITORS] = query_visitors,
    };
    if (r->next != NULL) {
        r->next(r);
        return;
    }
    r->link = l;
    r->answer = (struct query_answer){0};
    r->key = r->last = r->last_score = (struct buf){0};
    r->begun = r->has_bits = r->has_sketch = false;
    r->at = 0;
    r->text[0] = '\0';
    PRE((size_t)r->query->kind < sizeof begin / sizeof begin[0]);
    begin[r->query->kind](r);
}
