/* Walk, leftovers and live totals on a real server. */
#include "lib/redis_books.h"
#include "redis/batch.h"
#include "redis/index.h"
#include "redis/query_op.h"

#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct seen {
    int leftovers, with_id;
    char names[512];
};

static void on_leftover(struct redis_walk *w, const struct counter *c, struct slice key, struct slice pending,
                        const struct batch_id *id)
{
    struct seen *s = w->arg;
    size_t n = strlen(s->names);
    s->leftovers++;
    s->with_id += id != NULL;
    snprintf(s->names + n, sizeof s->names - n, "[" SLICE_FMT " of " SLICE_FMT " in " SLICE_FMT "]",
             SLICE_ARG(key), SLICE_ARG(pending), SLICE_ARG(c->name));
}

COUNTS(on_walk, redis_walk)

static void walk(struct world *w, struct redis_walk *k)
{
    ANSWERED(redis_walk(&w->link, k));
}

WORLD_TEST(test_walk_restores)
{
    struct seen s = {0};
    struct redis_walk k = {.counters = &world->counters,
                           .step = 10,
                           .pause_ms = 1,
                           .leftover = on_leftover,
                           .done = on_walk,
                           .arg = &s,
                           .read_only = true};
    for (int i = 0; i < 200; i++) {
        redis_do("HSET s%d:product_views 1 1", i);
        redis_do("SET other:%d x", i);
    }
    redis_do("ZADD tally:dirty 77 s5:product_views");
    redis_do("SET s999:product_views word"); /* no hash */
    redis_do("CONFIG SET maxmemory 1");
    walk(world, &k);
    assert_int_equal(k.restored, 0);
    assert_true(k.keys >= 200);
    k.read_only = false;
    walk(world, &k);
    assert_false(k.lost);
    assert_int_equal(k.restored, 199);
    assert_int_equal(s.leftovers, 0);
    redis_has("200", "ZCARD tally:dirty");
    redis_has("77", "ZSCORE tally:dirty s5:product_views");
    assert_true(llabs(atoll(redis_do("ZSCORE tally:dirty s6:product_views")) - wall_ms()) < 5000);
    walk(world, &k);
    assert_int_equal(k.restored, 0);
}

WORLD_TEST(test_walk_leftovers)
{
    struct seen s = {0};
    struct redis_walk k = {.counters = &world->counters, .leftover = on_leftover, .done = on_walk, .arg = &s};
    redis_do("HSET s1:product_views_" HEX_A " 1 1"); /* registered: the batch exists */
    redis_do("HSET tally:batch:" HEX_A " format 1");
    walk(world, &k);
    assert_int_equal(s.leftovers, 0);
    redis_do("HSET s1:product_views_" HEX_B " 1 1");
    redis_do("HSET s2:product_views_20140920_x 1 1");
    redis_do("HSET s2:product_views_ 1 1"); /* nothing after the '_' */
    redis_do("HSET s2:products_x 1 1");
    redis_do("SET s3:product_views_x word");
    walk(world, &k);
    assert_int_equal(s.leftovers, 2);
    assert_int_equal(s.with_id, 1);
    assert_non_null(strstr(s.names, "[s1:product_views_" HEX_B " of s1:product_views in product_views]"));
    assert_non_null(strstr(s.names, "[s2:product_views_20140920_x of s2:product_views in product_views]"));
    redis_server_kill(&world->server);
    walk(world, &k);
    assert_true(k.lost);
}

WORLD_TEST(test_walk_stopped)
{
    struct redis_walk k = {.counters = &world->counters, .step = 5, .pause_ms = 100000, .done = on_walk};
    uint64_t from_ms = mono_ms();
    for (int i = 0; i < 100; i++)
        redis_do("HSET s%d:product_views 1 1", i);
    answers = 0;
    redis_walk(&world->link, &k);
    WAIT_UNTIL(world, k.keys > 0);
    redis_walk_stop(&k);
    WAIT_UNTIL(world, answers == 1);
    assert_true(k.lost);
    assert_true(mono_ms() - from_ms < 50000);
    redis_walk(&world->link, &k);
    redis_walk_stop(&k); /* while its first SCAN is under way */
    WAIT_UNTIL(world, answers == 2);
    assert_true(k.lost);
}

/* --- leftovers --- */

COUNTS(on_claimed, redis_leftover)

static const char *claim(struct world *w, struct redis_leftover *o)
{
    static char hex[33];
    o->done = on_claimed;
    o->counter = &w->all[1];
    o->life = &w->life;
    batch_id_draw(&o->id);
    batch_id_hex(&o->id, hex);
    ANSWERED(redis_leftover(&w->link, o));
    return hex;
}

WORLD_TEST(test_leftover)
{
    struct redis_server *r = &world->server;
    struct slice names[] = {SLICE("s1:product_views_x"), SLICE("s2:product_views_y"),
                            SLICE("s3:product_views_gone"), SLICE("s1:product_views_z")};
    struct slice pendings[] = {SLICE("s1:product_views"), SLICE("s2:product_views"),
                               SLICE("s3:product_views"), SLICE("s1:product_views")};
    struct redis_leftover o = {.names = names, .pendings = pendings, .n = 4, .accept = true};
    redis_ask(r, "HSET s1:product_views_x 1 9007199254740993 2 -5 3 word");
    redis_ask(r, "HSET s2:product_views_y 1 7");
    redis_ask(r, "HSET s1:product_views_z 1 100");
    redis_ask(r, "SET tally:gen 41");
    redis_ask(r, "CONFIG SET maxmemory 1");
    const char *hex = claim(world, &o);
    assert_int_equal(o.outcome, CLAIM_STANDS);
    assert_int_equal(o.renamed, 2);
    assert_int_equal(o.left, 1); /* s1 a second time: under another id */
    assert_int_equal(o.fields, 4);
    assert_int_equal(o.odd, 1);
    assert_redis(r, "9007199254740995", "HGET tally:accepted product_views");
    assert_redis(r, "2 product_views 42 3 1",
                 "HMGET tally:batch:%s format counter gen =s1:product_views =s2:product_views", hex);
    assert_redis(r, "3", "HLEN s1:product_views_%s", hex);
    assert_redis(r, hex, "ZRANGE tally:batches 0 -1");
    o.names = names + 3;
    o.pendings = pendings + 3;
    o.n = 1;
    o.accept = false;
    hex = claim(world, &o);
    assert_int_equal(o.renamed, 1);
    assert_redis(r, "9007199254740995", "HGET tally:accepted product_views");
    assert_redis(r, "100", "HGET s1:product_views_%s 1", hex);
    claim(world, &o);
    assert_int_equal(o.outcome, CLAIM_EMPTY);
    redis_ask(r, "CONFIG SET maxmemory 0");
    redis_ask(r, "HSET s1:product_views_z 1 100");
    redis_ask(r, "SET tally:accepted word");
    claim(world, &o);
    assert_int_equal(o.outcome, CLAIM_REFUSED);
    assert_redis(r, "1", "EXISTS s1:product_views_z");
    redis_server_kill(r);
    claim(world, &o);
    assert_int_equal(o.outcome, CLAIM_GONE);
}

/* --- live totals --- */

struct sums {
    int64_t pending, claimed;
};

static int64_t number(struct slice s)
{
    int64_t v = 0;
    assert_true(num_parse(s, &v));
    return v;
}

static void total_pending(void *arg, uint32_t field, struct slice value)
{
    struct sums *s = arg;
    if (value.n > 0) s->pending += number(value) * (field + 1);
}

static void total_claimed(void *arg, const struct batch_id *id, uint32_t field, struct slice value)
{
    struct sums *s = arg;
    assert_int_equal(id->bytes[15], 0xaa);
    if (value.n > 0) s->claimed += number(value) * (field + 1);
}

COUNTS(on_total, total_read)

WORLD_TEST(test_total)
{
    struct sums s = {0};
    struct slice fields[] = {SLICE("1"), SLICE("2"), SLICE("3")};
    struct total_read t = {.key = SLICE("s1:product_views"),
                           .fields = fields,
                           .fields_n = 3,
                           .pending = total_pending,
                           .claimed = total_claimed,
                           .done = on_total,
                           .arg = &s};
    books_make(world);
    ANSWERED(redis_total(&world->link, &t));
    assert_false(t.lost);
    assert_int_equal(t.gen, 7);
    assert_int_equal(s.pending, 10 + 20 * 2);
    assert_int_equal(s.claimed, 70 + 5 * 3);
    books_pack(world);
    s = (struct sums){0};
    ANSWERED(redis_total(&world->link, &t));
    assert_int_equal(s.claimed, 70 + 5 * 3);
    t.key = SLICE("s1:product"); /* its bytes are in the packed text, but not as a hash */
    ANSWERED(redis_total(&world->link, &t));
    assert_int_equal(s.claimed, 70 + 5 * 3);
    redis_do("SET s3:product_views word");
    t.key = SLICE("s3:product_views");
    ANSWERED(redis_total(&world->link, &t));
    assert_true(t.lost && !t.cut);
    assert_string_equal(t.text, "WRONGTYPE Operation against a key holding the wrong kind of value");
    redis_link_numbered(&world->link, 1); /* but the server has none */
    t.key = SLICE("s1:product_views");
    ANSWERED(redis_total(&world->link, &t));
    WAIT_UNTIL(world, world->ups == 2);
    assert_true(t.lost && t.cut);
    redis_link_numbered(&world->link, 0);
    redis_server_kill(&world->server);
    ANSWERED(redis_total(&world->link, &t));
    assert_true(t.lost && t.cut);
}

/* Between two pieces the test does `between`, once. */
struct hash_read {
    struct redis_hash h;
    struct world *w;
    const char *between;
    int64_t n; /* fields; -1: Redis is away, -2: an error */
    int pieces, odd;
};

static void on_hash(struct redis_hash *h, bool more)
{
    struct hash_read *g = CONTAINER_OF(h, struct hash_read, h);
    g->pieces++;
    if (more) {
        if (g->between != NULL) redis_do("EVAL %s 0", g->between);
        g->between = NULL;
        return redis_hash(&g->w->link, h);
    }
    g->n = h->outcome == ASK_REDIS_DOWN ? -1 : h->outcome == ASK_FAILED ? -2 : (int64_t)h->answer.n / 2;
    for (size_t i = 0; i + 1 < h->answer.n; i += 2)
        g->odd += !slice_eq(QUERY_TEXT(&h->answer, &h->answer.values[i + 1]), SLICE("7"));
    query_answer_free(&h->answer);
    answers++;
}

static struct hash_read hash_read(struct world *w, const char *key, const char *between)
{
    struct hash_read g = {
        .h = {.key = slice_str(key), .bytes_max = 1 << 22, .came = on_hash}, .w = w, .between = between};
    ANSWERED(redis_hash(&w->link, &g.h));
    return g;
}

WORLD_TEST(test_hash)
{
    books_make(world);
    assert_int_equal(hash_read(world, "s1:product_views", NULL).n, 2);
    assert_int_equal(hash_read(world, "nothing", NULL).n, 0);
    assert_int_equal(hash_read(world, "tally:gen", NULL).n, -2);
    redis_server_kill(&world->server);
    assert_int_equal(hash_read(world, "s1:product_views", NULL).n, -1);
}

#define MANY "for i = 1, 5000 do redis.call('HSET', 's1:product_views', i, 7) end"

/* Each field once, also when the table grows meanwhile; from the beginning when the hash was claimed; bounded. */
WORLD_TEST(test_hash_in_pieces)
{
    redis_do("EVAL %s 0", MANY);
    redis_do("ZADD tally:dirty 5 s1:product_views");
    struct hash_read g = hash_read(world, "s1:product_views", NULL);
    assert_int_equal(g.n, 5000);
    assert_true(g.pieces >= 4);
    g = hash_read(world, "s1:product_views",
                  "for i = 5001, 20000 do redis.call('HSET', 's1:product_views', i, 7) end");
    assert_in_range(g.n, 5000, 20000);
    g = hash_read(world, "s1:product_views",
                  "redis.call('DEL', 's1:product_views') redis.call('ZADD', 'tally:dirty', 6, "
                  "'s1:product_views') "
                  "redis.call('HSET', 's1:product_views', 1, 7, 'x', 7)");
    assert_int_equal(g.n, 2);
    assert_int_equal(g.odd, 0);
    redis_do("EVAL %s 0", MANY);
    g = hash_read(world, "s1:product_views",
                  "redis.call('DEL', 's1:product_views') redis.call('ZREM', 'tally:dirty', "
                  "'s1:product_views')");
    assert_int_equal(g.n, 0);
    g = (struct hash_read){.h = {.key = SLICE("s1:product_views"), .bytes_max = 100000, .came = on_hash},
                           .w = world};
    redis_do("EVAL %s 0", MANY);
    ANSWERED(redis_hash(&world->link, &g.h));
    assert_int_equal(g.n, -2);
    assert_non_null(strstr(g.h.text, "ERR more than 100000 bytes are pending"));
}
