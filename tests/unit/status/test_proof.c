/* The books of one Redis, on a real server. */
#include "lib/redis_books.h"
#include "status/proof.h"

struct told {
    int64_t accepted, pending, claimed;
    int batches, rows;
    int64_t gens;
};

static int64_t number(struct slice s)
{
    int64_t v = 0;
    assert_true(num_parse(s, &v));
    return v;
}

static void sum_accepted(void *arg, struct slice counter, struct slice value)
{
    assert_true(counter.n > 0);
    ((struct told *)arg)->accepted += number(value);
}

static void sum_pending(void *arg, struct slice key, struct slice field, struct slice value)
{
    struct told *s = arg;
    assert_true(key.n > 0 && field.n > 0);
    s->pending += number(value);
    s->rows++;
}

static void sum_batch(void *arg, const struct batch_id *id, struct slice counter, int64_t gen)
{
    struct told *s = arg;
    assert_non_null(id);
    assert_slice(counter, "product_views");
    s->batches++;
    s->gens += gen;
}

static void sum_claimed(void *arg, const struct batch_id *id, struct slice pending, struct slice field,
                        struct slice value)
{
    struct told *s = arg;
    assert_int_equal(id->bytes[0], 0xaa);
    assert_slice(pending, "s1:product_views");
    assert_true(field.n > 0);
    s->claimed += number(value);
}

static enum err tell(struct world *w, uint32_t dirty_max, int64_t fields_max, struct told *told)
{
    const struct proof_limits limits = {.dirty_max = dirty_max, .fields_max = fields_max};
    struct proof_books b = {.accepted = sum_accepted,
                            .pending = sum_pending,
                            .batch = sum_batch,
                            .claimed = sum_claimed,
                            .arg = told};
    struct error e = {0};
    *told = (struct told){0};
    enum err code = proof_redis(&w->link, &limits, &b, &e);
    if (code == ERR_UNAVAILABLE) assert_non_null(strstr(e.text, "WRONGTYPE"));
    if (code == ERR_FAILED) assert_non_null(strstr(e.text, "5 hashes wait"));
    assert_int_equal(b.gen, code == ERR_UNAVAILABLE ? 0 : 7);
    return code;
}

UNIT(test_books)
{
    struct world *w = world_open();
    struct told s;
    books_make(w);
    redis_ask(&w->server, "CONFIG SET maxmemory 1");
    assert_int_equal(tell(w, 50000, 0, &s), ERR_NONE);
    assert_int_equal(s.accepted, 101);
    assert_int_equal(s.pending, 34 + 9007199254740993);
    assert_int_equal(s.rows, 4);
    assert_int_equal(s.batches, 1);
    assert_int_equal(s.gens, 6);
    assert_int_equal(s.claimed, 75);
    assert_int_equal(tell(w, 4, 0, &s), ERR_FAILED);
    assert_int_equal(s.batches, 0);
    redis_ask(&w->server, "CONFIG SET maxmemory 0");
    books_pack(w);
    assert_int_equal(tell(w, 50000, 0, &s), ERR_NONE);
    assert_int_equal(s.claimed, 75);
    assert_int_equal(tell(w, 50000, 5, &s), ERR_FAILED);
    redis_ask(&w->server, "SET tally:accepted word");
    assert_int_equal(tell(w, 50000, 0, &s), ERR_UNAVAILABLE);
    world_close(w);
}
