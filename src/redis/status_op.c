/* redis/status_op.c - see status_op.h. */
#include "redis/status_op.h"
#include "redis/lua.h"
#include "redis/request.h"

static void self_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_self *s = arg;
    (void)l;
    if (!answer_is(r, at == 0 ? REDIS_STRING : REDIS_ARRAY)) {
        s->lost = true;
        answer_why(r, s->text, sizeof s->text);
    } else if (at == 0) {
        s->info(s->arg, r->str);
    } else {
        for (size_t i = 0; i < r->n; i++)
            s->held(s->arg, r->elements[i].str);
    }
    if (r == NULL || at == 1) s->done(s);
}

void redis_self(struct redis_link *l, struct redis_self *s)
{
    struct buf *out = redis_link_begin(l);
    s->lost = false;
    s->text[0] = '\0';
    request_words(out, "INFO");
    request_array(out, 4);
    REQUEST_LIT(out, "ZRANGE");
    REQUEST_KEY(out, redis_tag(l), KEY_HELD);
    request_int(out, 0);
    request_int(out, (int64_t)s->names_most - 1);
    redis_link_ask(l, 2, self_done, s);
}

static void size_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_batch_size *b = arg;
    (void)l, (void)at;
    b->lost = !answer_integer(r, &b->fields);
    b->done(b);
}

void redis_batch_size(struct redis_link *l, struct redis_batch_size *b)
{
    struct buf *out = redis_link_begin(l), name = {0};
    b->fields = 0;
    request_eval(out, lua_status_size, 1, 0);
    name_batch(&name, &b->id);
    request_key(out, redis_tag(l), buf_slice(&name));
    buf_free(&name);
    redis_link_ask(l, 1, size_done, b);
}
