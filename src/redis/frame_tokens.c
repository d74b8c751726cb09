/* redis/frame_tokens.c - the tokened increments of a frame: one script for all of them, in the order of arrival. A
 * token is a string with a time to live, `<payload>:<value>`. tally:tokens counts how many exist, by the second at
 * which they are gone, rounded up to a twelfth of how long they are kept. So the sum is never too small, and tokens
 * that another tallyd, or an earlier configuration, keeps longer or shorter are counted correctly, too. How many of a second
 * are a user's is in a key beside it, which goes with that second; tallyds that know no such key write for nobody. */
#include "base/stats.h"
#include "redis/frame_parts.h"

#define TOKEN_OTHER                                                                                          \
    "ERR this token came with another increment before: key, field or n differ; nothing was counted"
#define TOKEN_GONE                                                                                           \
    "ERR not counted: Redis refused it, and its answer was lost with the link; send it again to see why"
#define TOKEN_FORGOTTEN                                                                                      \
    "ERR outcome unknown: its answer was lost with the link, and Redis may have forgotten the token since "  \
    "(tokens.keep); the increment may or may not have been counted"

#define UNBOUNDED ((int64_t)1 << 53) /* exact in Lua */

uint32_t tokens_put(struct redis_frames *fr, struct buf *out, const struct frame *f)
{
    fr->bounded = true;
    request_eval(out, lua_frame_tokens, 3 + 2 * (size_t)f->tokens_n, 3 + 5 * (size_t)f->tokens_n);
    REQUEST_KEY(out, fr->tag, KEY_ACCEPTED);
    REQUEST_KEY(out, fr->tag, KEY_DIRTY);
    REQUEST_KEY(out, fr->tag, KEY_TOKENS);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        request_key(out, fr->tag, FRAME_NAME(f, &f->tokens[i]));
        request_key(out, fr->tag, f->hashes[f->tokens[i].hash].key);
    }
    request_int(out, f->dirty_ms);
    request_int(out, fr->limits->token_keep_s);
    request_int(out, fr->again ? UNBOUNDED : fr->limits->tokens_most);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        const struct frame_token *t = &f->tokens[i];
        request_slice(out, FRAME_FIELD(f, t));
        request_int(out, t->delta);
        request_slice(out, t->counter->name);
        request_slice(out, slice_of(t->payload, TOKEN_PAYLOAD));
        request_slice(out, FRAME_TEXT(f, t->user_at, t->user_n));
    }
    return 1;
}

static void token_fail(struct frame *f, struct frame_token *t, const struct redis_answer *r)
{
    char line[200] = "ERR Redis gave an answer of an unexpected shape";
    if (r->type == REDIS_ERROR) answer_why(r, line, sizeof line);
    frame_fail_token(f, t, slice_str(line));
}

void tokens_file(struct redis_frames *fr, struct frame *f, const struct redis_answer *r, uint32_t n)
{
    (void)n;
    bool is_good = answer_is_array(r, f->tokens_n + 1);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        struct frame_token *t = &f->tokens[i];
        const struct redis_answer *own = is_good ? &r->elements[i] : r;
        bool counts = is_good && own->type == REDIS_STRING && own->str.n > 1 &&
                      (own->str.p[0] == 'n' || own->str.p[0] == 'o');
        if (counts && num_parse(slice_of(own->str.p + 1, own->str.n - 1), &t->value))
            t->is_new = own->str.p[0] == 'n';
        else
            token_fail(f, t, own);
    }
    int64_t stand;
    if (!is_good || !answer_integer(&r->elements[f->tokens_n], &stand)) return;
    STAT_ADD(tokens_standing, stand - fr->tokens_standing);
    fr->tokens_standing = stand;
}

void tokens_ask(struct buf *out, struct slice tag, const struct frame *f)
{
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        BUF_LIT(out, "*2\r\n$3\r\nGET\r\n");
        request_key(out, tag, FRAME_NAME(f, &f->tokens[i]));
    }
}

bool tokens_told(const struct redis_frames *fr, struct frame *f, uint32_t at, const struct redis_answer *r)
{
    /* Redis may have counted it and forgotten it since. */
    bool forgotten = redis_time_ms(fr->link) - f->dirty_ms >= 1000 * fr->limits->token_keep_s;
    struct frame_token *t = &f->tokens[at];
    if (r->type == REDIS_STRING && frame_token_read(t, r->str)) return true;
    if (r->type == REDIS_NIL)
        frame_fail_token(f, t, forgotten ? SLICE(TOKEN_FORGOTTEN) : SLICE(TOKEN_GONE));
    else if (r->type == REDIS_STRING)
        frame_fail_token(f, t, SLICE(TOKEN_OTHER));
    else if (answer_error_is(r, "WRONGTYPE")) /* only that shows that the script met it as well */
        token_fail(f, t, r);
    else
        return false;
    return true;
}
