/* redis/query_events.c - the events of a time, in pieces. Each begins after the last event of the previous one, found
 * again by its rank. So an event that exists all the time is in the answer once, whatever is added or removed. */
#include "redis/query_in.h"
#include "series/names.h"

#define EVENTS_A_PIECE 300

static uint32_t piece_size(const struct redis_query *r)
{
    const struct query *q = r->query;
    int64_t left = q->limit < 0 ? r->limits->read.most : q->limit - (int64_t)(r->answer.n / 2);
    return left < EVENTS_A_PIECE ? (uint32_t)left : EVENTS_A_PIECE;
}

/* False: the reply holds something that is no event. */
static bool piece_file(struct redis_query *r, const struct redis_answer *list)
{
    for (size_t i = 0; i + 1 < list->n; i += 2) {
        int64_t second;
        if (!query_score(&list->elements[i + 1], &second)) return false;
        query_put_text(&r->answer, list->elements[i].str);
        query_put_number(&r->answer, second);
    }
    if (list->n == 0) return true;
    buf_reset(&r->last);
    buf_put_slice(&r->last, list->elements[list->n - 2].str);
    buf_reset(&r->last_score);
    buf_put_slice(&r->last_score, list->elements[list->n - 1].str);
    return true;
}

static void on_piece(struct redis_link *l, void *arg, const struct redis_answer *reply, uint32_t at)
{
    struct redis_query *r = arg;
    int64_t left, n;
    (void)l, (void)at;
    if (!answer_is_array(reply, 2) || !answer_integer(&reply->elements[0], &left) ||
        reply->elements[1].type != REDIS_ARRAY || !piece_file(r, &reply->elements[1])) {
        query_fail(r, reply);
        return;
    }
    n = (int64_t)reply->elements[1].n / 2;
    if (r->query->limit < 0 && (int64_t)r->answer.n / 2 - n + left > r->limits->read.most) {
        query_refuse(r,
                     "ERR more than %u events in that time; ask for a shorter one, or for a "
                     "part: LIMIT offset count",
                     r->limits->read.most);
    } else if (r->answer.texts.n > r->limits->read.texts_max) {
        query_refuse(r,
                     "ERR more than %u bytes of ids (limits.memory); ask for a shorter time, or for a "
                     "part: LIMIT offset count",
                     r->limits->read.texts_max);
    } else if (left <= n || piece_size(r) == 0) {
        query_finish(r);
    } else {
        r->begun = true;
        query_more(r, query_events);
    }
}

void query_events(struct redis_query *r)
{
    const struct query *q = r->query;
    struct buf *out = redis_link_begin(r->link);
    name_events(query_key(r), q->name, q->type);
    request_eval(out, lua_query_events, 1, r->begun ? 6 : 4);
    request_key(out, redis_tag(r->link), buf_slice(&r->key));
    request_int(out, q->from);
    request_int(out, q->to);
    request_int(out, q->offset);
    request_int(out, piece_size(r));
    if (r->begun) {
        request_slice(out, buf_slice(&r->last_score));
        request_slice(out, buf_slice(&r->last));
    }
    redis_link_ask(r->link, 1, on_piece, r);
}
