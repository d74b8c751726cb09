/* lib/redis_books.h - hashes that wait, and one batch that has claimed one: what books and totals are read of. */
#ifndef LIB_REDIS_BOOKS_H
#define LIB_REDIS_BOOKS_H

#include "lib/redis_world.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static inline void books_make(struct world *w)
{
    struct redis_server *r = &w->server;
    redis_ask(r, "HSET tally:accepted product_views 100 unique_visitors 1");
    redis_ask(r, "HSET s1:product_views 1 10 2 20");
    redis_ask(r, "HSET s2:product_views 1 9007199254740993");
    redis_ask(r, "HSET gone:1 1 4");
    redis_ask(r, "ZADD tally:dirty 1 s1:product_views 2 s2:product_views 3 s3:product_views");
    redis_ask(r, "ZADD tally:held 1 gone:1 2 s1:product_views");
    redis_ask(r, "HSET tally:batch:" HEX_A
                 " format 1 counter product_views gen 6 owner a:b lowest_ms 1 =s1:product_views 2");
    redis_ask(r, "HSET s1:product_views_" HEX_A " 1 70 3 5");
    redis_ask(r, "ZADD tally:batches 1 " HEX_A);
    redis_ask(r, "SET tally:gen 7");
}

/* The claimed hash of books_make(), packed. */
static inline void books_pack(struct world *w)
{
    static const char pack[] = "redis.call('DEL', KEYS[2]) redis.call('HDEL', KEYS[1], '=s1:product_views') "
                               "return redis.call('HSET', KEYS[1], 'format', 2, 'packed_n', 1, 'packed', "
                               "cmsgpack.pack({'s1:product_views', {'1', '70', '3', '5'}}))";
    assert_redis(&w->server, "2", "EVAL %s 2 tally:batch:" HEX_A " s1:product_views_" HEX_A, pack);
}

#endif
