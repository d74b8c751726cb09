/* redis/read_events.c - the events of a time, in pieces: each begins behind the last event of the one before, found
 * again by its rank, so that an event that stands all the while is in the answer once, whatever comes or goes. */
#include "redis/read_in.h"
#include "series/names.h"

#define EVENTS_A_PIECE 1000

static uint32_t piece_size(const struct redis_read *r)
{
    const struct read_query *q = r->query;
    int64_t left = q->limit < 0 ? r->limits->read.most : q->limit - (int64_t)(r->answer.n / 2);
    return left < EVENTS_A_PIECE ? (uint32_t)left : EVENTS_A_PIECE;
}

/* False: what stands there is no event. */
static bool piece_file(struct redis_read *r, const struct redis_reply *list)
{
    for (size_t i = 0; i + 1 < list->n; i += 2) {
        int64_t second;
        if (!read_score(&list->elements[i + 1], &second)) return false;
        read_put_text(&r->answer, list->elements[i].str);
        read_put_number(&r->answer, second);
    }
    if (list->n == 0) return true;
    buf_reset(&r->last);
    buf_put_slice(&r->last, list->elements[list->n - 2].str);
    buf_reset(&r->last_score);
    buf_put_slice(&r->last_score, list->elements[list->n - 1].str);
    return true;
}

static void on_piece(struct redis_link *l, void *arg, const struct redis_reply *reply, uint32_t at)
{
    struct redis_read *r = arg;
    int64_t left, n;
    (void)l, (void)at;
    if (!reply_is_array(reply, 2) || !reply_integer(&reply->elements[0], &left) ||
        reply->elements[1].type != REDIS_ARRAY || !piece_file(r, &reply->elements[1])) {
        read_fail(r, reply);
        return;
    }
    n = (int64_t)reply->elements[1].n / 2;
    if (r->query->limit < 0 && (int64_t)r->answer.n / 2 - n + left > r->limits->read.most) {
        read_refuse(r,
                    "ERR more than %u events in that time (limits.read); ask for a shorter one, or for a "
                    "part: LIMIT offset count",
                    r->limits->read.most);
    } else if (r->answer.texts.n > r->limits->read.texts_max) {
        read_refuse(r,
                    "ERR more than %u bytes of ids (limits.read_bytes); ask for a shorter time, or for a "
                    "part: LIMIT offset count",
                    r->limits->read.texts_max);
    } else if (left <= n || piece_size(r) == 0) {
        read_finish(r);
    } else {
        r->begun = true;
        read_events(r);
    }
}

void read_events(struct redis_read *r)
{
    const struct read_query *q = r->query;
    struct buf *out = redis_link_begin(r->link);
    name_events(read_key(r), q->name, q->type);
    resp_eval(out, lua_query_events, 1, r->begun ? 6 : 4);
    resp_slice(out, buf_slice(&r->key));
    resp_int(out, q->from);
    resp_int(out, q->to);
    resp_int(out, q->offset);
    resp_int(out, piece_size(r));
    if (r->begun) {
        resp_slice(out, buf_slice(&r->last_score));
        resp_slice(out, buf_slice(&r->last));
    }
    redis_link_expect(r->link, 1, on_piece, r);
    redis_link_flush(r->link);
}
