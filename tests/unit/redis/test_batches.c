/* Standing batches, their owners and signs of life, and the two indexes of pending hashes. */
#include "base/heap.h"
#include "lib/redis_world.h"
#include "redis/batch.h"
#include "redis/index.h"

#define ID(n) "0000000000000000000000000000000" #n

static void batch_make(struct world *w, const char *id, const char *owner, const char *counter,
                       int64_t age_ms)
{
    redis_do("HSET tally:batch:%s format 1 counter %s gen 3 owner %s lowest_ms 99 =s1:product_views 4", id,
             counter, owner);
    redis_do("ZADD tally:batches %lld %s", (long long)(wall_ms() - age_ms), id);
}

COUNTS(on_adopt, adopt)

/* Adopts, and says which, as a word of the last digits of the ids. */
static const char *adopt(struct world *w, enum adopt_mode mode, bool dry, struct adopt *a)
{
    static char digits[16];
    *a = (struct adopt){.mode = mode,
                        .stale_ms = 60000,
                        .limit = a->limit > 0 ? a->limit : 100,
                        .dry_run = dry,
                        .counters = &w->counters,
                        .done = on_adopt};
    ANSWERED(redis_adopt(&w->link, a));
    assert_true(a->ids_n < sizeof digits);
    memset(digits, 0, sizeof digits);
    for (uint32_t i = 0; i < a->ids_n && i < sizeof digits; i++)
        digits[i] = (char)('0' + a->ids[i].bytes[15]);
    heap_free(a->ids);
    return digits;
}

static void five_batches(struct world *w)
{
    char mine[100];
    snprintf(mine, sizeof mine, "shop:%s", w->life.id);
    batch_make(w, ID(1), "shop:0123456789abcdef", "product_views", 50);
    batch_make(w, ID(2), "other:0123456789abcdef", "product_views", 40);
    batch_make(w, ID(3), "other:fedcba9876543210", "product_views", 61000);
    batch_make(w, ID(4), mine, "product_views", 30);
    batch_make(w, ID(5), "shop2:0123456789abcdef", "strange", 70000);
}

/* After a reconnect: batches that are ours already, and nothing else. */
WORLD_TEST(test_adopt_own)
{
    struct adopt a = {0};
    five_batches(world);
    assert_string_equal(adopt(world, ADOPT_OWN, false, &a), "4");
    assert_string_equal(adopt(world, ADOPT_OWN, false, &a), "4");
}

WORLD_TEST(test_adopt_instance)
{
    struct adopt a = {0};
    char owner[100];
    five_batches(world);
    redis_do("CONFIG SET maxmemory 1");
    assert_string_equal(adopt(world, ADOPT_INSTANCE, true, &a), "1");
    redis_has("shop:0123456789abcdef", "HGET tally:batch:" ID(1) " owner");
    assert_string_equal(adopt(world, ADOPT_INSTANCE, false, &a), "1");
    snprintf(owner, sizeof owner, "shop:%s", world->life.id);
    redis_has(owner, "HGET tally:batch:" ID(1) " owner");
    assert_true(wall_ms() - atoll(redis_do("ZSCORE tally:batches " ID(1))) < 5000);
    assert_string_equal(adopt(world, ADOPT_INSTANCE, false, &a), "");
    assert_int_equal(a.unknown, 0);
}

WORLD_TEST(test_adopt_stale)
{
    struct adopt a = {0};
    five_batches(world);
    redis_do("ZADD tally:batches 1 " ID(9)); /* no registry: no batch */
    assert_string_equal(adopt(world, ADOPT_STALE, true, &a), "3");
    redis_has("1", "ZSCORE tally:batches " ID(9));
    assert_string_equal(adopt(world, ADOPT_STALE, false, &a), "3");
    assert_int_equal(a.unknown, 1);
    redis_has("nil", "ZSCORE tally:batches " ID(9));
    redis_has("shop2:0123456789abcdef", "HGET tally:batch:" ID(5) " owner");
    assert_string_equal(adopt(world, ADOPT_STALE, false, &a), "");
    redis_do("HSET tally:batch:" ID(3) " format 2 owner gone:1");
    redis_do("ZADD tally:batches 1 " ID(3));
    assert_string_equal(adopt(world, ADOPT_STALE, false, &a), "3"); /* a format that it knows, too */
    redis_do("HSET tally:batch:" ID(3) " format 3");
    redis_do("ZADD tally:batches 1 " ID(3));
    assert_string_equal(adopt(world, ADOPT_STALE, false, &a), "");
    assert_int_equal(a.unknown, 2);
}

WORLD_TEST(test_adopt_dead)
{
    struct adopt a = {.limit = 2};
    five_batches(world);
    redis_do("CLIENT SETNAME tallyd:other:0123456789abcdef:frame"); /* that one lives */
    assert_string_equal(adopt(world, ADOPT_DEAD, true, &a), "31");
    a.limit = 1;
    assert_string_equal(adopt(world, ADOPT_DEAD, false, &a), "3");
    assert_string_equal(adopt(world, ADOPT_DEAD, false, &a), "1");
    redis_do("ZADD tally:batches 1 " ID(2)); /* alive, and gives no sign of life for it */
    assert_string_equal(adopt(world, ADOPT_DEAD, true, &a), "2");
    redis_do("ZADD tally:batches %lld " ID(2), (long long)wall_ms());
    assert_string_equal(adopt(world, ADOPT_DEAD, true, &a), "");
    redis_do("CLIENT SETNAME x");
    assert_string_equal(adopt(world, ADOPT_DEAD, false, &a), "2");
    redis_server_kill(&world->server);
    adopt(world, ADOPT_DEAD, false, &a);
    assert_true(a.lost);
}

COUNTS(on_standing, standing)

WORLD_TEST(test_standing)
{
    struct standing s = {.done = on_standing};
    five_batches(world);
    redis_do("HSET tally:batch:" ID(2) " =s77:product_views 1");
    ANSWERED(redis_standing(&world->link, &s));
    assert_int_equal(s.ids_n, 5);
    heap_free(s.ids);
    s.key = SLICE("s77:product_views");
    ANSWERED(redis_standing(&world->link, &s));
    assert_int_equal(s.ids_n, 1);
    assert_int_equal(s.ids[0].bytes[15], 2);
    assert_false(s.lost);
    heap_free(s.ids);
    redis_do(
        "EVAL %s 1 tally:batch:" ID(4),
        "return redis.call('HSET', KEYS[1], 'packed', cmsgpack.pack({'s78:product_views', {'1', '2'}}))");
    s.key = SLICE("s78:product_views");
    ANSWERED(redis_standing(&world->link, &s));
    assert_int_equal(s.ids_n, 1);
    assert_int_equal(s.ids[0].bytes[15], 4);
    heap_free(s.ids);
}

/* The answer names the history, and the number is read too: a lower number than before means other data. */
WORLD_TEST(test_standing_history)
{
    struct standing s = {.done = on_standing};
    redis_do("SET tally:seq:shop:%s 7", world->life.id);
    redis_link_numbered(&world->link, 7);
    ANSWERED(redis_standing(&world->link, &s));
    assert_false(s.lost);
    assert_int_equal(strlen(s.replid), 40);
    heap_free(s.ids);
    redis_link_numbered(&world->link, 8);
    ANSWERED(redis_standing(&world->link, &s));
    WAIT_UNTIL(world, world->downs == 1);
    assert_true(s.lost);
    assert_non_null(strstr(world->why, "another server's data"));
}

COUNTS(on_instance, redis_instance)

WORLD_TEST(test_beat_and_instance)
{
    struct batch_id ids[2];
    struct life other;
    struct redis_instance i = {.life = &world->life, .done = on_instance};
    five_batches(world);
    redis_do("CONFIG SET maxmemory 1");
    assert_true(batch_id_read(SLICE(ID(3)), &ids[0]));
    assert_true(batch_id_read(SLICE(ID(8)), &ids[1])); /* does not exist: is not added */
    redis_beat(&world->link, &world->life, SLICE("web1"), ids, 2);
    ANSWERED(redis_instance(&world->link, &i));
    assert_false(i.taken);
    assert_true(slice_ends(slice_str(i.holder), SLICE("|web1")));
    assert_true(wall_ms() - atoll(redis_do("ZSCORE tally:batches " ID(3))) < 5000);
    redis_has("5", "ZCARD tally:batches");
    assert_in_range(atoll(redis_do("TTL tally:instance:shop")), 20, 30);
    life_init(&other, SLICE("shop"));
    i.life = &other;
    ANSWERED(redis_instance(&world->link, &i));
    assert_true(i.taken);
    assert_true(i.linked); /* world->link itself carries that life's name */
    redis_has("OK", "CONFIG SET maxmemory 0");
    redis_has("OK", "SET tally:instance:shop fedcba9876543210|web1");
    ANSWERED(redis_instance(&world->link, &i));
    assert_true(i.taken);
    assert_false(i.linked);
}

/* A cleaning script's. */
WORLD_TEST(test_beat_ends_ttls)
{
    struct redis_instance i = {.life = &world->life, .done = on_instance};
    redis_do("HSET s1:product_views 1 1");
    redis_do("ZADD tally:dirty 7 s1:product_views 8 s2:product_views");
    redis_do("EXPIRE s1:product_views 1000");
    redis_beat(&world->link, &world->life, SLICE("web1"), NULL, 0);
    ANSWERED(redis_instance(&world->link, &i));
    redis_has("-1", "TTL s1:product_views");
}

static void on_batch(void *arg, const struct batch_seen *b)
{
    assert_int_equal(b->id.n, 32);
    assert_true(b->beat_ms > 0 && b->counter.n > 0 && b->owner.n > 0);
    assert_true(b->format > 0);
    assert_int_equal(b->gen, 3);
    assert_int_equal(b->lowest_ms, 99);
    assert_int_equal(b->hashes, 1);
    ++*(int *)arg;
}

COUNTS(on_list, batch_list)

WORLD_TEST(test_list)
{
    int n = 0;
    struct batch_list b = {.batch = on_batch, .done = on_list, .arg = &n};
    five_batches(world);
    ANSWERED(redis_batch_list(&world->link, &b));
    assert_int_equal(n, 5);
    assert_false(b.lost);
}

/* --- the indexes --- */

COUNTS(on_due, due_poll)

COUNTS(on_restore, redis_restore)

COUNTS(on_state, dirty_state)

static void due(struct world *w, struct due_poll *d)
{
    d->done = on_due;
    ANSWERED(redis_due(&w->link, d));
}

static void due_free(struct due_poll *d)
{
    buf_free(&d->names);
    heap_free(d->keys);
    heap_free(d->scores);
}

WORLD_TEST(test_due)
{
    struct due_poll d = {.before_ms = 1700000000300, .limit = 2};
    due(world, &d);
    assert_int_equal(d.keys_n, 0);
    due_free(&d);
    redis_do("ZADD tally:dirty 1700000000300 c 1700000000100 a 1700000000200 b 1700000000301 d");
    due(world, &d);
    assert_int_equal(d.keys_n, 2);
    assert_slice(d.keys[0], "a");
    assert_slice(d.keys[1], "b");
    assert_int_equal(d.scores[1], 1700000000200);
    due_free(&d);
    d.limit = 10;
    due(world, &d);
    assert_int_equal(d.keys_n, 3);
    due_free(&d);
    d.limit = 1;
    d.highest = true;
    due(world, &d);
    assert_int_equal(d.keys_n, 1);
    assert_slice(d.keys[0], "d");
    due_free(&d);
    redis_server_kill(&world->server);
    due(world, &d);
    assert_true(d.lost);
    due_free(&d);
}

WORLD_TEST(test_held)
{
    struct slice names[1200];
    char text[1200][32];
    struct redis_restore r = {.counters = &world->counters, .done = on_restore};
    struct dirty_state d = {.done = on_state};
    for (int i = 0; i < 1200; i++) {
        snprintf(text[i], sizeof text[i], i < 600 ? "s%d:product_views" : "gone:%d", i);
        names[i] = slice_str(text[i]);
        redis_do("ZADD tally:dirty %d %s", 5000 + i, text[i]);
    }
    redis_do("CONFIG SET maxmemory 1");
    redis_hold_names(&world->link, names, 1200);
    ANSWERED(redis_dirty_state(&world->link, &d));
    assert_int_equal(d.dirty, 0);
    assert_int_equal(d.held, 1200);
    assert_int_equal(d.lowest_ms, INT64_MAX);
    ANSWERED(redis_restore(&world->link, &r));
    assert_int_equal(r.restored, 600);
    assert_false(r.lost);
    ANSWERED(redis_dirty_state(&world->link, &d));
    assert_int_equal(d.dirty, 600);
    assert_int_equal(d.held, 600);
    assert_int_equal(d.lowest_ms, 5000);
    ANSWERED(redis_restore(&world->link, &r));
    assert_int_equal(r.restored, 0);
}

COUNTS(on_gen, gen_read)

WORLD_TEST(test_gen)
{
    static const struct {
        uint64_t least, gen;
    } steps[] = {{0, 0}, {5, 5}, {3, 5}, {0, 5}};
    for (int i = 0; i < 4; i++) {
        struct gen_read g = {.accept = i > 0, .least = steps[i].least, .realm = {{7}}, .done = on_gen};
        ANSWERED(redis_gen(&world->link, &g));
        assert_false(g.lost);
        assert_int_equal(g.gen, steps[i].gen);
        assert_int_equal(g.realm.bytes[0], i > 0 ? 7 : 0);
    }
}

/* --- other lives, and what is fit --- */

COUNTS(on_kill, redis_kill)

WORLD_TEST(test_kill_lives)
{
    static const char *const names[] = {
        "tallyd:shop:0123456789abcdef:frame", "tallyd:shop:0123456789abcdef:sync",
        "tallyd:shop2:0123456789abcdef:frame", "tallyd:sho:0123456789abcdef:frame", "web"};
    struct redis_kill k = {.life = &world->life, .done = on_kill};
    redisContext *clients[5];
    for (int i = 0; i < 5; i++) {
        clients[i] = redisConnectUnix(world->server.socket);
        freeReplyObject(redisCommand(clients[i], "CLIENT SETNAME %s", names[i]));
    }
    ANSWERED(redis_kill_lives(&world->link, &k));
    assert_false(k.lost);
    assert_int_equal(k.killed, 2);
    for (int i = 0; i < 5; i++) {
        redisReply *r = redisCommand(clients[i], "PING");
        assert_int_equal(r != NULL, i >= 2);
        if (r != NULL) freeReplyObject(r);
        redisFree(clients[i]);
    }
    ANSWERED(redis_kill_lives(&world->link, &k));
    assert_int_equal(k.killed, 0);
    assert_int_equal(world->downs, 0);
}

UNIT(test_check)
{
    static const struct redis_facts good = {.version = 70015,
                                            .master = true,
                                            .aof_on = true,
                                            .policy = "noeviction",
                                            .appendfsync = "everysec",
                                            .version_text = "7.0.15"};
    enum { NO_AOF = 1, CLUSTER, REPLICA };
    static const struct {
        const char *policy, *appendfsync;
        int version, but;
        enum redis_keeps keeps;
        const char *refused; /* NULL: it is fit */
        const char *promise; /* NULL: not asked */
    } rows[] = {
        {"noeviction", "everysec", 70015, 0, REDIS_KEEPS_DISK, NULL, "2 s"},
        {"volatile-ttl", "everysec", 70015, 0, REDIS_KEEPS_DISK, "maxmemory-policy is volatile-ttl", NULL},
        {"volatile-ttl", "everysec", 70015, 0, REDIS_KEEPS_NOTHING, NULL, NULL},
        {"noeviction", "everysec", 70015, NO_AOF, REDIS_KEEPS_DISK, "CONFIG SET appendonly yes", NULL},
        {"noeviction", "no", 70015, 0, REDIS_KEEPS_DISK, "CONFIG SET appendfsync everysec", NULL},
        {"noeviction", "", 70015, 0, REDIS_KEEPS_DISK, "redis.durability: replicas", NULL},
        {"noeviction", "", REDIS_WAITAOF_TRUE, 0, REDIS_KEEPS_DISK, NULL, "tallyd cannot read appendfsync"},
        {"noeviction", "", REDIS_WAITAOF_TRUE, NO_AOF, REDIS_KEEPS_DISK, "", NULL},
        {"noeviction", "", REDIS_WAITAOF_TRUE, NO_AOF, REDIS_KEEPS_REPLICAS, NULL, "a failover loses"},
        {"volatile-lru", "", REDIS_WAITAOF_TRUE, NO_AOF, REDIS_KEEPS_REPLICAS, "", NULL},
        {"volatile-lru", "", REDIS_WAITAOF_TRUE, NO_AOF, REDIS_KEEPS_NOTHING, NULL, "count twice"},
        {"noeviction", "everysec", 60214, 0, REDIS_KEEPS_NOTHING, "", NULL},
        {"noeviction", "everysec", 70015, CLUSTER, REDIS_KEEPS_NOTHING, "", NULL},
        {"", "everysec", 70015, 0, REDIS_KEEPS_DISK, "", NULL},
        {"noeviction", "everysec", 70015, REPLICA, REDIS_KEEPS_NOTHING, "", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_facts f = good;
        struct error e = {0};
        strcpy(f.policy, rows[i].policy);
        strcpy(f.appendfsync, rows[i].appendfsync);
        f.version = rows[i].version;
        f.aof_on = rows[i].but != NO_AOF;
        f.cluster = rows[i].but == CLUSTER;
        f.master = rows[i].but != REPLICA;
        enum err expected = rows[i].refused == NULL ? ERR_NONE : ERR_CONFIG;
        assert_int_equal(redis_check_facts(&f, rows[i].keeps, &e), expected);
        if (rows[i].refused != NULL) assert_non_null(strstr(e.text, rows[i].refused));
        if (rows[i].promise != NULL)
            assert_non_null(strstr(redis_check_promise(&f, rows[i].keeps), rows[i].promise));
    }
}

UNIT(test_advice)
{
    struct redis_facts f = {.version = 70015, .appendfsync = "everysec", .lax_fsync = true};
    assert_non_null(
        strstr(redis_check_advice(&f, REDIS_KEEPS_DISK), "CONFIG SET no-appendfsync-on-rewrite no"));
    assert_null(redis_check_advice(&f, REDIS_KEEPS_REPLICAS));
    f.lax_fsync = false;
    assert_null(redis_check_advice(&f, REDIS_KEEPS_DISK));
}
