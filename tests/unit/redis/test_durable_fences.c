/* The barrier in each of its forms: the timed one on a real server, WAITAOF's with the answers of a lying one. */
#include "lib/redis_fake.h"
#include "redis/durable.h"

struct got {
    struct world *w;
    struct redis_fences fs;
    struct aof_watch watch;
    struct fence f[4];
    int answers, closed;
    uint64_t from_ms;
};

static struct got *g; /* of the test that runs */

static void on_fence(struct fence *f)
{
    ((struct got *)f->arg)->answers++;
}
static void on_closed(struct redis_fences *fs)
{
    g->closed++;
}

static int got_of(struct world *w)
{
    g = calloc(1, sizeof *g);
    g->w = w;
    redis_fences_init(&g->fs, &w->link, &w->life, &g->watch, 0);
    for (int i = 0; i < 4; i++)
        g->f[i] = (struct fence){.done = on_fence, .arg = g};
    g->from_ms = mono_ms();
    return 0;
}

static int got_open(void **state)
{
    return got_of(world_open());
}

static int got_always(void **state)
{
    static const char *const args[] = {"--appendfsync", "always", NULL};
    world_link_up(world_with_server(args), "fence");
    return got_of(world);
}

static void got_fake(struct fake *f)
{
    struct world *w = world_empty();
    fake_start(w, f);
    world_link_up(w, "fence");
    got_of(w);
}

static int got_close(void **state)
{
    world_link_close(g->w, &g->w->link);
    redis_fences_close(&g->fs, on_closed);
    WAIT_UNTIL(g->w, g->closed == 1);
    world_end(g->w);
    free(g);
    return 0;
}

static bool passes(struct fence *f)
{
    int before = g->answers;
    redis_fence(&g->fs, f);
    WAIT_UNTIL(g->w, g->answers == before + 1);
    return f->passed;
}

/* A child that never ends while nothing is synced beside one: no timed fence passes. */
static void fences_stall(struct world *w)
{
    world_timed(w);
    redis_do("SET a 1");
    redis_do("CONFIG SET no-appendfsync-on-rewrite yes rdb-key-save-delay 100000000");
    redis_do("BGSAVE");
}

#define TEST(f) UNIT_IN(f, got_open, got_close)

TEST(test_timed)
{
    world_timed(g->w);
    redis_do("CONFIG SET maxmemory 1");
    redis_fence(&g->fs, &g->f[0]);
    assert_int_equal(g->answers, 0);
    WAIT_UNTIL(g->w, g->f[0].sync.looked);
    redis_fence(&g->fs, &g->f[1]); /* overlaps */
    WAIT_UNTIL(g->w, g->answers == 2);
    assert_true(g->f[0].passed && g->f[1].passed);
    assert_string_equal(g->f[0].run_id, g->w->link.facts.run_id);
    redis_has("2", "GET tally:fence:shop:%s", g->w->life.id);
    assert_in_range(atoll(redis_do("TTL tally:fence:shop:%s", g->w->life.id)), 86000, 86400);
}

/* A user that may not ask INFO any more: the fence ends, and says so. */
TEST(test_info_refused)
{
    fences_stall(g->w);
    g->fs.wait_ms = 1000;
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->f[0].sync.looked);
    redis_do("ACL SETUSER default -info");
    WAIT_UNTIL(g->w, g->answers == 1);
    assert_false(g->f[0].passed);
    assert_string_equal(g->f[0].text, "Redis does not answer INFO");
    redis_do("ACL SETUSER default +info");
}

#define ALWAYS_TEST(f) UNIT_IN(f, got_always, got_close)

/* With always, too, Redis syncs nothing beside a child when no-appendfsync-on-rewrite says so. */
ALWAYS_TEST(test_nothing_is_synced)
{
    fences_stall(world);
    g->fs.wait_ms = 300;
    assert_false(passes(&g->f[0]));
    assert_non_null(strstr(g->f[0].text, "CONFIG SET no-appendfsync-on-rewrite no"));
    g->fs.wait_ms = 10000;
    redis_fence(&g->fs, &g->f[1]);
    WAIT_UNTIL(world, g->f[1].sync.looked);
    redis_do("CONFIG SET no-appendfsync-on-rewrite no");
    WAIT_UNTIL(world, g->answers == 2);
    assert_true(g->f[1].passed);
}

ALWAYS_TEST(test_always_and_nothing)
{
    for (int i = 0; i < 3; i++)
        redis_fence(&g->fs, &g->f[i]);
    WAIT_UNTIL(world, g->answers == 3);
    assert_true(g->f[0].passed && g->f[1].passed && g->f[2].passed);
    /* The first alone, the other two in one group: two writes. */
    redis_has("2", "GET tally:fence:shop:%s", world->life.id);
    redis_do("CONFIG SET appendfsync everysec");
    redis_do("CONFIG SET appendonly no");
    redis_link_cut(&world->link, "for the test");
    WAIT_UNTIL(world, world->ups == 2);
    assert_false(passes(&g->f[0]));
    assert_non_null(strstr(g->f[0].text, "CONFIG SET appendonly yes"));
    g->fs.keeps = REDIS_KEEPS_NOTHING;
    assert_true(passes(&g->f[0]));
}

/* A fence that would pass does not pass while a failover is under way; after it, it does. */
ALWAYS_TEST(test_held)
{
    place_hold(&world->place, true);
    assert_false(passes(&g->f[0]));
    assert_string_equal(g->f[0].text, "a failover is under way");
    place_hold(&world->place, false);
    assert_true(passes(&g->f[1]));
}

/* It reads the number, too: a lower number than before means other data. */
TEST(test_other_data)
{
    g->fs.keeps = REDIS_KEEPS_NOTHING;
    redis_do("SET tally:seq:shop:%s 7", g->w->life.id);
    redis_link_numbered(&g->w->link, 7);
    assert_true(passes(&g->f[0]));
    redis_link_numbered(&g->w->link, 8);
    redis_fence(&g->fs, &g->f[1]);
    WAIT_UNTIL(g->w, g->answers == 2 && g->w->downs == 1);
    assert_false(g->f[1].passed);
    assert_non_null(strstr(g->w->why, "another server's data"));
}

/* While it is looked at the server takes over data that lack what the fence wrote. */
TEST(test_other_data_in_between)
{
    fences_stall(g->w);
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->f[0].sync.looked);
    redis_do("DEL tally:fence:shop:%s", g->w->life.id);
    WAIT_UNTIL(g->w, g->answers == 1);
    assert_false(g->f[0].passed);
    assert_non_null(strstr(g->f[0].text, "another server's data"));
}

/* An operator takes its right to keys: that is what it says, and nothing of other data. */
TEST(test_no_right_in_between)
{
    fences_stall(g->w);
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->f[0].sync.looked);
    redis_do("ACL SETUSER default resetkeys");
    WAIT_UNTIL(g->w, g->answers == 1);
    redis_do("ACL SETUSER default allkeys");
    assert_false(g->f[0].passed);
    assert_non_null(strstr(g->f[0].text, "NOPERM"));
}

TEST(test_replicas_missing)
{
    world_timed(g->w);
    g->fs.replicas = 1;
    g->fs.wait_ms = 1500;
    assert_false(passes(&g->f[0]));
    assert_non_null(strstr(g->f[0].text, "redis.replicas"));
    assert_true(mono_ms() - g->from_ms >= 1500);
}

TEST(test_replica_there)
{
    struct redis_server replica = {0};
    char port[8];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n) | getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd); /* a replica needs the master's port: one that was free just now */
    snprintf(port, sizeof port, "%d", ntohs(a.sin_port));
    redis_do("CONFIG SET repl-diskless-sync-delay 0");
    redis_has("OK", "CONFIG SET port %s", port);
    redis_server_start(&replica);
    redis_ask(&replica, "REPLICAOF 127.0.0.1 %s", port);
    g->fs.replicas = 1;
    g->fs.keeps = REDIS_KEEPS_REPLICAS;
    g->fs.wait_ms = 15000;
    assert_true(passes(&g->f[0]));
    redis_server_stop(&replica);
}

TEST(test_lost)
{
    fences_stall(g->w);
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->f[0].sync.looked);
    redis_server_kill(&g->w->server);
    redis_fence(&g->fs, &g->f[1]); /* its write is under way, or refused */
    WAIT_UNTIL(g->w, g->answers == 2);
    assert_false(g->f[0].passed || g->f[1].passed);
    redis_server_run(&g->w->server);
    WAIT_UNTIL(g->w, g->w->ups == 2);
    assert_int_equal(g->answers, 2);
}

/* The same server, but another connection: what the old one wrote is not vouched for. */
TEST(test_link_changed)
{
    fences_stall(g->w);
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->f[0].sync.looked);
    redis_link_cut(&g->w->link, "for the test"); /* CLIENT KILL: the child keeps the socket open */
    WAIT_UNTIL(g->w, g->w->ups == 2 && g->answers == 1);
    assert_false(g->f[0].passed);
}

#define OUR_KEY "$1\r\n1\r\n"
#define AT_REST                                                                                              \
    "redis_version:8.0.0\r\nrun_id:r\r\naof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_"          \
    "scheduled:0\r\n"
#define ENDED_WELL "aof_last_bgrewrite_status:ok\r\n"

/* What an 8.0 says to WAITAOF; the fence must not believe less than was asked for, nor anything without its own key, nor
 * beside a rewrite that runs or failed. */
static void wait_answer_and_more(enum redis_keeps keeps, const char *answer, const char *key,
                                 const char *info, bool passed)
{
    char said[600];
    snprintf(said, sizeof said, "%s%s$%zu\r\n%s\r\n", answer, key, strlen(info), info);
    if (keeps != REDIS_KEEPS_DISK) snprintf(said, sizeof said, "%s%s", answer, key);
    const char *looked = "-NOPERM\r\n*0\r\n" OUR_KEY; /* the second one 100 ms later: it is over then */
    struct fake f = {.say = {"*2\r\n$3\r\nabc\r\n$-1\r\n", said, looked, looked}};
    got_fake(&f);
    g->fs.keeps = keeps;
    g->fs.replicas = 2;
    g->fs.wait_ms = 0; /* asked once */
    assert_int_equal(passes(&g->f[0]), passed);
    assert_string_equal(g->f[0].replid, "abc");
    fake_stop(&f);
    got_close(NULL);
}

static void wait_answer(enum redis_keeps keeps, const char *answer, bool passed)
{
    wait_answer_and_more(keeps, answer, OUR_KEY, AT_REST ENDED_WELL, passed);
}

UNIT(test_waitaof)
{
    wait_answer_and_more(REDIS_KEEPS_DISK, "*2\r\n:1\r\n:2\r\n", "$-1\r\n", AT_REST ENDED_WELL, false);
    wait_answer_and_more(REDIS_KEEPS_DISK, "*2\r\n:1\r\n:2\r\n", OUR_KEY, AT_REST, false);
    wait_answer_and_more(REDIS_KEEPS_DISK, "*2\r\n:1\r\n:2\r\n", OUR_KEY, ENDED_WELL, false);
    wait_answer_and_more(REDIS_KEEPS_REPLICAS, ":2\r\n", "$1\r\n0\r\n", "", false);
    wait_answer(REDIS_KEEPS_DISK, "*2\r\n:1\r\n:2\r\n", true);
    wait_answer(REDIS_KEEPS_DISK,
                "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n", false);
    wait_answer(REDIS_KEEPS_DISK, ":1\r\n", false);
    wait_answer(REDIS_KEEPS_DISK, "*2\r\n:0\r\n:2\r\n", false);
    wait_answer(REDIS_KEEPS_DISK, "*2\r\n:1\r\n:1\r\n", false);
    wait_answer(REDIS_KEEPS_REPLICAS, ":2\r\n", true); /* asked with WAIT, though it has WAITAOF */
    wait_answer(REDIS_KEEPS_REPLICAS, ":1\r\n", false);
}

#define WRITTEN "*2\r\n$3\r\nabc\r\n$-1\r\n"
#define AT_REST_LONG "$128\r\n" AT_REST ENDED_WELL "\r\n"

/* While WAITAOF holds the first link, fences go down the next, once that is up: none waits for the fsync before its own. */
UNIT(test_next_link)
{
    struct world *w = world_empty();
    char at[100];
    struct redis_url url = {.path = at};
    struct redis_place place;
    struct redis_link link;
    struct redis_fences next;
    struct redis_link_config config = {
        .place = &place, .life = &w->life, .role = "fence2", .answer_ms = 20000};
    struct fake one = {.say = {WRITTEN}},
                two = {.say = {WRITTEN, "*2\r\n:1\r\n:0\r\n" OUR_KEY AT_REST_LONG, WRITTEN,
                               "*2\r\n:1\r\n:0\r\n$1\r\n2\r\n" AT_REST_LONG}};
    assert_int_equal(sizeof AT_REST ENDED_WELL - 1, 128);
    snprintf(at, sizeof at, "%s2", w->server.socket);
    place_init(&place, &url);
    fake_start(w, &one);
    fake_start_at(w, &two, at);
    world_link_up(w, "fence");
    got_of(w);
    redis_link_init(&link, &w->loop, &config);
    link.arg = w;
    redis_fences_init(&next, &link, &w->life, &g->watch, 1);
    g->fs.next = &next;
    redis_fence(&g->fs, &g->f[0]);
    assert_int_equal(two.accepts, 0); /* most servers need no further link */
    redis_fence(&g->fs, &g->f[1]);
    WAIT_UNTIL(w, redis_link_is_up(&link));
    for (int i = 2; i < 4; i++) {
        assert_true(passes(&g->f[i]));
    }
    assert_true(g->fs.mark.n == 1 && next.mark.n == 2);
    assert_memory_equal(next.mark.key.p + next.mark.key.n - 2, ":1", 2);
    fake_say(&one, "*2\r\n:1\r\n:0\r\n" OUR_KEY AT_REST_LONG,
             strlen("*2\r\n:1\r\n:0\r\n" OUR_KEY AT_REST_LONG));
    WAIT_UNTIL(w, g->answers == 3);
    assert_true(g->f[0].passed &&
                g->fs.mark.n == 2); /* and the one that came when there was no other is on its way */
    fake_stop(&two);
    world_link_close(w, &link);
    redis_fences_close(&next, on_closed);
    WAIT_UNTIL(w, g->closed == 1);
    g->closed = 0;
    fake_stop(&one);
    got_close(NULL);
}

/* It has the link for milliseconds: the next fence waits for it rather than for another link. */
UNIT(test_background_with_waitaof)
{
    struct redis_fences next = {.link = NULL};
    struct fake f = {.say = {WRITTEN, "*2\r\n:0\r\n:0\r\n" OUR_KEY AT_REST_LONG, WRITTEN,
                             "*2\r\n:1\r\n:0\r\n$1\r\n2\r\n" AT_REST_LONG}};
    got_fake(&f);
    g->fs.next = &next;
    g->f[0].background = true;
    redis_fence(&g->fs, &g->f[0]);
    redis_fence(&g->fs, &g->f[1]);
    WAIT_UNTIL(g->w, g->answers == 2);
    assert_true(g->f[0].passed && g->f[1].passed && g->fs.mark.n == 2);
    fake_stop(&f);
    got_close(NULL);
}

/* A background fence leaves the link to other fences between its looks; the next one takes it with its own write. */
UNIT(test_background)
{
    struct fake f = {.say = {"*2\r\n$3\r\nabc\r\n$-1\r\n", ":0\r\n" OUR_KEY, "*2\r\n$3\r\nabc\r\n$-1\r\n",
                             ":2\r\n$1\r\n2\r\n"}};
    got_fake(&f);
    g->fs.keeps = REDIS_KEEPS_REPLICAS;
    g->fs.replicas = 2;
    g->f[0].background = true;
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->fs.resting);
    assert_int_equal(g->answers, 0);
    redis_fence(&g->fs, &g->f[1]);
    assert_false(g->fs.resting);
    WAIT_UNTIL(g->w, g->answers == 2);
    assert_true(g->f[0].passed && g->f[1].passed);
    assert_int_equal(g->fs.mark.n, 2);
    fake_stop(&f);
    got_close(NULL);
}

/* On another connection WAIT would not cover these writes. */
TEST(test_background_lost)
{
    g->fs.keeps = REDIS_KEEPS_REPLICAS;
    g->fs.replicas = 1;
    g->f[0].background = true;
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->fs.resting);
    redis_do("CLIENT KILL ID %lld", (long long)g->w->link.client_id);
    WAIT_UNTIL(g->w, g->answers == 1);
    assert_false(g->f[0].passed);
    assert_non_null(strstr(g->f[0].text, "link"));
    g->fs.replicas = 2;
    redis_fence(&g->fs, &g->f[0]);
    WAIT_UNTIL(g->w, g->fs.resting || g->answers == 2);
}
