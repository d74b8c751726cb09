/* Journals on a real server: what frames leave of them, which life owns them, and how a dead service's journal is taken over. */
#include "base/heap.h"
#include "redis/batch.h"
#include "unit/redis/frames_world.h"

#define PIECE (256 << 10)

/* --- frames --- */

/* One frame that appends this text, and does no more. */
static void append(const char *name, const char *records, bool opens, bool ends)
{
    begin();
    struct frame_append *a = frame_add_append(&g->f, slice_str(name), slice_str(records));
    a->opens = opens;
    a->ends = ends;
    send_and_wait();
}

FRAME_TEST(a_frame_opens_appends_and_ends)
{
    append("shop:1", "abc", true, false);
    assert_int_equal(g->outcome, FRAME_APPLIED);
    redis_has(g->mine, "HGET tally:journals shop:1");
    redis_has("abc", "GET tally:journal:shop:1");
    redis_do("HSET tally:journals shop:1 another");
    append("shop:1", "de", false, false);
    redis_has("abcde", "GET tally:journal:shop:1");
    redis_has("another", "HGET tally:journals shop:1"); /* named once */
    append("shop:2", "x", true, false);
    append("shop:1", "", false, true);
    redis_has("0", "EXISTS tally:journal:shop:1");
    redis_has("shop:2", "HKEYS tally:journals");
    redis_has("4", "GET tally:seq:%s", g->mine);
    assert_false(g->frames.told); /* no trouble was seen in the answers */
}

/* All its ops were taken out before Redis ever got the journal. */
FRAME_TEST(what_ends_before_it_began_leaves_nothing)
{
    append("shop:1", "", true, true);
    assert_int_equal(g->outcome, FRAME_APPLIED);
    redis_has("0", "EXISTS tally:journal:shop:1 tally:journals");
}

FRAME_TEST(a_frame_appends_to_many)
{
    append("a", "1", true, false);
    begin();
    frame_add_append(&g->f, SLICE("a"), SLICE(""))->ends = true;
    frame_add_append(&g->f, SLICE("b"), SLICE("\0\r\n"))->opens = true;
    frame_add_append(&g->f, SLICE("c"), SLICE("4444"))->opens = true;
    frame_add_append(&g->f, SLICE("d"), SLICE("")); /* nothing to say */
    sent_is(FRAME_APPLIED);
    redis_has("2", "HLEN tally:journals");
    redis_has("0", "EXISTS tally:journal:a tally:journal:d");
    redis_has("3", "STRLEN tally:journal:b");
    redis_has("4444", "GET tally:journal:c");
}

static struct frame_op *op(const char *name, int64_t delta)
{
    struct frame_op *o = frame_add_op(&g->f, OP_SERIES, slice_str(name), SLICE(""), NOW);
    o->delta = delta;
    return o;
}

/* The answers of those with commands go to them alone. */
FRAME_TEST(what_is_in_an_append_has_no_command)
{
    redis_do("SET count:60:taken mine");
    begin();
    op("silent", 5)->silent = true;
    op("taken", 5);
    op("quiet", 5)->silent = true;
    op("loud", 7);
    frame_add_append(&g->f, SLICE("a"), SLICE("bytes"))->opens = true;
    sent_is(FRAME_APPLIED);
    redis_has("0", "EXISTS count:60:silent count:60:quiet");
    redis_has("7", "HGET count:60:loud 1699999980");
    redis_has("bytes", "GET tally:journal:a");
    assert_int_equal(g->f.ops[0].error_n + g->f.ops[2].error_n + g->f.ops[3].error_n, 0);
    assert_true(slice_starts(FRAME_ERROR(&g->f, &g->f.ops[1]), SLICE("WRONGTYPE ")));
    assert_int_equal(g->f.ops[3].value, 3);
}

FRAME_TEST(a_full_redis_takes_nothing)
{
    append("a", "1", true, false);
    redis_do("CONFIG SET maxmemory 1");
    append("a", "2", false, false);
    assert_int_equal(g->outcome, FRAME_REFUSED);
    append("a", "", false, true);
    redis_has("1", "GET tally:journal:a");
    redis_has(g->mine, "HGET tally:journals a");
}

/* Trouble with a journal's own keys is logged; requests that clients wait for are answered. */
FRAME_TEST(keys_of_another_kind_fail_no_client)
{
    redis_do("SET tally:journals mine");
    redis_do("HSET tally:journal:a mine 1");
    begin();
    op("loud", 7);
    frame_add_append(&g->f, SLICE("a"), SLICE("bytes"))->opens = true;
    sent_is(FRAME_APPLIED);
    assert_int_equal(g->f.ops[0].error_n, 0);
    redis_has("1", "GET tally:seq:%s", g->mine);
    redis_has("mine", "GET tally:journals");
    assert_true(g->frames.told);
}

/* --- owners --- */

static void look(struct slice *names, uint32_t n, int looks)
{
    redis_frames_look(&g->frames, &(struct link_look){.journals = names, .journals_n = n});
    WAIT_UNTIL(g->w, g->looks == looks);
}

FRAME_TEST(a_look_tells_whose_they_are)
{
    struct slice names[] = {SLICE("gone"), SLICE("ours"), SLICE("his"), SLICE("like")};
    append("ours", "1", true, false);
    redis_do("HSET tally:journals his shop:0000000000000000 like %s0", g->mine);
    redis_do("SET tally:journal:gone 1");
    look(names, 4, 1);
    static const bool want[] = {false, true, false, false};
    assert_memory_equal(g->ours, want, sizeof want);
    look(names + 1, 1, 2);
    assert_true(g->ours[0]);
    assert_int_equal(g->w->downs, 0);
}

/* Without an answer nothing may go on. */
FRAME_TEST(a_look_that_fails_cuts_the_link)
{
    struct slice name = SLICE("a");
    redis_do("SET tally:journals mine");
    redis_frames_look(&g->frames, &(struct link_look){.journals = &name, .journals_n = 1});
    WAIT_UNTIL(g->w, g->w->downs == 1);
    assert_int_equal(g->looks, 0);
    assert_non_null(strstr(g->w->why, "WRONGTYPE"));
}

/* --- the list --- */

static void on_listed(struct journal_list *list)
{
    g->done++;
}

static struct journal_list listed(void)
{
    struct journal_list list = {.done = on_listed};
    int before = g->done;
    redis_journals(&g->w->link, &list);
    assert_int_equal(g->done, before);
    WAIT_UNTIL(g->w, g->done == before + 1);
    return list;
}

static void listed_free(struct journal_list *list)
{
    heap_free(list->all);
    buf_free(&list->texts);
}

static const struct listed_journal *listed_as(const struct journal_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (slice_eq(list->all[i].name, slice_str(name))) return &list->all[i];
    return NULL;
}

/* A link of another life, as tallyd names it. */
static void another_link(struct world *w, struct redis_link *l, const struct life *life, const char *role)
{
    int ups = w->ups;
    world_link(w, l, role);
    l->config.life = life;
    redis_link_start(l);
    WAIT_UNTIL(w, w->ups == ups + 1);
}

static const struct life other = {.instance = {"other", 5}, .id = "0123456789abcdef"};
#define OTHER "other:0123456789abcdef"

FRAME_TEST(the_list_tells_whose_links_stand)
{
    struct redis_link link;
    another_link(g->w, &link, &other, "sync");
    redis_do("HSET tally:journals a %s b " OTHER " c other:0123456789abcde d other e shop:0 f " OTHER,
             g->mine);
    struct journal_list list = listed();
    assert_false(list.lost);
    assert_int_equal(list.n, 6);
    assert_slice(listed_as(&list, "a")->owner, g->mine);
    assert_slice(listed_as(&list, "b")->owner, OTHER);
    assert_true(listed_as(&list, "a")->linked && listed_as(&list, "b")->linked &&
                listed_as(&list, "f")->linked);
    assert_false(listed_as(&list, "c")->linked || listed_as(&list, "e")->linked);
    listed_free(&list);
    world_link_close(g->w, &link);
    WAIT_UNTIL(g->w, strstr(redis_do("CLIENT LIST"), OTHER) == NULL);
    list = listed();
    assert_true(listed_as(&list, "a")->linked);
    assert_false(listed_as(&list, "b")->linked || listed_as(&list, "f")->linked);
    listed_free(&list);
}

FRAME_TEST(an_empty_list_is_none)
{
    struct journal_list list = listed();
    assert_false(list.lost);
    assert_int_equal(list.n, 0);
    listed_free(&list);
}

FRAME_TEST(a_list_that_fails_is_lost)
{
    redis_do("SET tally:journals mine");
    struct journal_list list = listed();
    assert_true(list.lost);
    assert_int_equal(list.n, 0);
    listed_free(&list);
    redis_do("DEL tally:journals");
    redis_do("HSET tally:journals a b");
    list = (struct journal_list){.done = on_listed};
    redis_journals(&g->w->link, &list);
    redis_link_cut(&g->w->link, "MASTERDOWN for the test");
    WAIT_UNTIL(g->w, g->done == 2);
    assert_true(list.lost);
    listed_free(&list);
}

/* --- one is taken --- */

static void on_taken(struct journal_take *t)
{
    g->done++;
}

static struct journal_take take_of(const char *name, const char *owner)
{
    return (struct journal_take){.name = slice_str(name), .owner = slice_str(owner), .done = on_taken};
}

static void take(struct journal_take *t)
{
    int before = g->done;
    redis_journal_take(&g->w->link, t);
    assert_int_equal(g->done, before);
    WAIT_UNTIL(g->w, g->done == before + 1);
}

static void take_free(struct journal_take *t)
{
    buf_free(&t->bytes);
    buf_free(&t->owners);
}

FRAME_TEST(a_taken_one_is_ours_and_its_owner_has_no_link)
{
    struct redis_link frame, sync, like;
    static const struct life near = {.instance = {"other", 5}, .id = "0123456789abcdee"};
    another_link(g->w, &frame, &other, "frame");
    another_link(g->w, &sync, &other, "sync");
    another_link(g->w, &like, &near, "frame");
    int64_t frame_id = frame.client_id, sync_id = sync.client_id, like_id = like.client_id;
    redis_do("HSET tally:journals a " OTHER " b " OTHER);
    redis_do("SET tally:journal:a records");
    redis_do("SET tally:seq:" OTHER " 1");
    struct journal_take t = take_of("a", OTHER);
    take(&t);
    assert_true(t.taken && !t.lost);
    assert_true(atoll(redis_do("TTL tally:seq:" OTHER)) > 0); /* touched: its watchers notice */
    assert_slice(buf_slice(&t.bytes), "records");
    redis_has(g->mine, "HGET tally:journals a");
    redis_has(OTHER, "HGET tally:journals b");
    redis_has("records", "GET tally:journal:a");
    redis_has("0", "EXISTS tally:journals:taken");
    WAIT_UNTIL(g->w, g->w->downs == 2);
    WAIT_UNTIL(g->w, redis_link_is_up(&frame) && redis_link_is_up(&sync));
    assert_true(frame.client_id != frame_id && sync.client_id != sync_id);
    assert_true(like.client_id == like_id && redis_link_is_up(&g->w->link));
    assert_int_equal(g->w->downs, 2);
    take_free(&t);
    world_link_close(g->w, &frame);
    world_link_close(g->w, &sync);
    world_link_close(g->w, &like);
}

FRAME_TEST(one_whose_owner_changed_is_left_alone)
{
    struct redis_link link;
    another_link(g->w, &link, &other, "frame");
    redis_do("HSET tally:journals a third:1");
    redis_do("SET tally:journal:a records");
    static const char *const names[] = {"a", "gone"};
    for (int i = 0; i < 2; i++) {
        struct journal_take t = take_of(names[i], OTHER);
        take(&t);
        assert_false(t.taken || t.lost);
        assert_int_equal(t.bytes.n, 0);
        take_free(&t);
    }
    redis_has("a third:1", "HGETALL tally:journals");
    assert_int_equal(g->w->downs, 0);
    world_link_close(g->w, &link);
}

/* The answer was lost, or Redis lost its tail: ours again, and our own links stay. */
FRAME_TEST(our_own_is_taken_again)
{
    struct redis_link link;
    another_link(g->w, &link, &g->w->life, "sync");
    redis_do("HSET tally:journals a %s", g->mine);
    redis_do("SET tally:journal:a records");
    struct journal_take t = take_of("a", g->mine);
    take(&t);
    assert_true(t.taken);
    assert_slice(buf_slice(&t.bytes), "records");
    redis_has(g->mine, "HGET tally:journals a");
    assert_int_equal(g->w->downs, 0);
    take_free(&t);
    world_link_close(g->w, &link);
}

/* The one that took it before us died before it had ended the owner's links. Our links stay: we owned it once before. */
FRAME_TEST(of_one_taken_twice_all_owners_have_no_link)
{
    struct redis_link first, mine;
    another_link(g->w, &first, &other, "frame");
    another_link(g->w, &mine, &g->w->life, "sync");
    int64_t first_id = first.client_id;
    char owners[160];
    snprintf(owners, sizeof owners, "%s dead:1 %s ", OTHER, g->mine);
    redis_do("HSET tally:journals a dead:2 b " OTHER);
    redis_do("HSET tally:journals:taken a %s gone %s b %s", owners, "dead:3 ", "dead:4 ");
    redis_do("SET tally:journal:a records");
    struct journal_take t = take_of("a", "dead:2");
    take(&t);
    assert_true(t.taken && !t.lost);
    assert_slice(buf_slice(&t.bytes), "records");
    WAIT_UNTIL(g->w, g->w->downs == 1);
    WAIT_UNTIL(g->w, redis_link_is_up(&first));
    assert_true(first.client_id != first_id && redis_link_is_up(&mine));
    assert_int_equal(g->w->downs, 1);
    redis_has("b", "HKEYS tally:journals:taken");
    take_free(&t);
    world_link_close(g->w, &first);
    world_link_close(g->w, &mine);
}

/* They are written down until they have ended. */
FRAME_TEST(a_take_that_is_refused_leaves_its_owners_named)
{
    redis_do("HSET tally:journals a dead:1");
    redis_do("ACL SETUSER default -client|list");
    for (int again = 0; again < 2; again++) {
        struct journal_take t = take_of("a", again ? g->mine : "dead:1");
        take(&t);
        assert_true(t.lost && !t.taken);
        redis_has("dead:1 ", "HGET tally:journals:taken a");
        take_free(&t);
    }
    redis_do("ACL SETUSER default +client|list");
    struct journal_take t = take_of("a", g->mine);
    take(&t);
    assert_true(t.taken);
    redis_has("0", "EXISTS tally:journals:taken");
    take_free(&t);
}

FRAME_TEST(a_long_one_comes_in_pieces)
{
    static const size_t lengths[] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5};
    struct buf bytes = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        while (bytes.n < lengths[i])
            buf_put_char(&bytes, (char)(bytes.n * 31 >> 3));
        redis_do("HSET tally:journals a dead:1");
        redis_do("DEL tally:journal:a");
        if (bytes.n > 0) redis_do("SET tally:journal:a %b", bytes.p, bytes.n);
        struct journal_take t = take_of("a", "dead:1");
        BUF_LIT(&t.bytes, "of the one before");
        take(&t);
        assert_true(t.taken);
        assert_int_equal(t.bytes.n, bytes.n);
        if (bytes.n > 0) assert_memory_equal(t.bytes.p, bytes.p, bytes.n);
        take_free(&t);
    }
    buf_free(&bytes);
}

FRAME_TEST(one_is_taken_of_a_full_redis)
{
    redis_do("HSET tally:journals a dead:1");
    redis_do("SET tally:journal:a records");
    redis_do("CONFIG SET maxmemory 1");
    struct journal_take t = take_of("a", "dead:1");
    take(&t);
    assert_true(t.taken);
    redis_has(g->mine, "HGET tally:journals a");
    take_free(&t);
}

FRAME_TEST(a_key_of_another_kind_is_told)
{
    redis_do("HSET tally:journals a dead:1");
    redis_do("HSET tally:journal:a mine 1");
    struct journal_take t = take_of("a", "dead:1");
    take(&t);
    assert_true(t.lost && !t.taken);
    assert_non_null(strstr(t.why, "WRONGTYPE"));
    take_free(&t);
}

/* --- a link that is lost in the middle, and a Redis that refuses there --- */

#define CLIENTS                                                                                              \
    "$109\r\nid=3 addr=? name=tallyd:dead:1:frame age=1\nid=4 addr=? name= age=1\n"                          \
    "id=5 addr=? name=tallyd:dead:1:sync age=1\n\r\n"

static const char *const steps[] = {"$7\r\ndead:1 \r\n", CLIENTS, ":1\r\n:1\r\n", ":1\r\n",
                                    "$7\r\nrecords\r\n"};
#define STEPS 5

UNIT(a_fake_that_answers_all_is_taken)
{
    struct fake f = {.say = {steps[0], steps[1], steps[2], steps[3], steps[4]}};
    got_fake(&f);
    struct journal_take t = take_of("a", "dead:1");
    take(&t);
    assert_true(t.taken);
    assert_int_equal(f.reads, 1 + STEPS);
    assert_slice(buf_slice(&t.bytes), "records");
    take_free(&t);
    got_fake_close(&f);
}

/* Its new owner will have ended our links by the time it reads. */
UNIT(one_taken_from_us_meanwhile_is_left_alone)
{
    struct fake f = {.say = {steps[0], steps[1], steps[2], ":0\r\n"}};
    got_fake(&f);
    struct journal_take t = take_of("a", "dead:1");
    take(&t);
    assert_false(t.taken || t.lost);
    assert_int_equal(f.reads, 1 + 4);
    take_free(&t);
    got_fake_close(&f);
}

static void lost_after(struct fake *f, int reads)
{
    got_fake(f);
    struct journal_take t = take_of("a", "dead:1");
    redis_journal_take(&g->w->link, &t);
    WAIT_UNTIL(g->w, f->reads == reads);
    assert_int_equal(g->done, 0);
    fake_cut(f);
    WAIT_UNTIL(g->w, g->w->downs > 0);
    assert_int_equal(g->done, 1);
    assert_true(t.lost && !t.taken);
    take_free(&t);
    got_fake_close(f);
}

UNIT(a_link_lost_at_any_step_is_told_once)
{
    for (int lost = 0; lost < STEPS; lost++) {
        struct fake f = {0};
        for (int i = 0; i < lost; i++)
            f.say[i] = steps[i];
        lost_after(&f, 1 + lost + 1);
    }
}

UNIT(a_link_lost_between_two_kills_is_told_once)
{
    lost_after(&(struct fake){.say = {steps[0], steps[1], ":1\r\n"}}, 4);
}

/* It is ours by then, and is taken again, whole. */
FRAME_TEST(a_link_lost_between_two_pieces_is_told_once)
{
    size_t n = 40 * PIECE + 1;
    redis_do("HSET tally:journals a dead:1");
    redis_do("SETRANGE tally:journal:a %d x", (int)n - 1);
    struct journal_take t = take_of("a", "dead:1");
    redis_journal_take(&g->w->link, &t);
    WAIT_UNTIL(g->w, t.bytes.n >= PIECE);
    assert_int_equal(g->done, 0);
    redis_link_cut(&g->w->link, "MASTERDOWN for the test");
    WAIT_UNTIL(g->w, g->w->downs == 1);
    assert_int_equal(g->done, 1);
    assert_true(t.lost && !t.taken && t.bytes.n < n);
    redis_has(g->mine, "HGET tally:journals a");
    WAIT_UNTIL(g->w, redis_link_is_up(&g->w->link));
    t.owner = slice_str(g->mine);
    take(&t);
    assert_true(t.taken);
    assert_int_equal(t.bytes.n, n);
    take_free(&t);
}

UNIT(a_refusal_at_any_step_is_told_once)
{
    static const char *const noes[] = {"-NOPERM no\r\n", "-NOPERM no\r\n", ":1\r\n-NOPERM no\r\n",
                                       "-NOPERM no\r\n", "-NOPERM no\r\n"};
    for (int at = 0; at < STEPS; at++) {
        struct fake f = {0};
        for (int i = 0; i <= at; i++)
            f.say[i] = i == at ? noes[i] : steps[i];
        got_fake(&f);
        struct journal_take t = take_of("a", "dead:1");
        take(&t);
        assert_true(t.lost && !t.taken);
        assert_non_null(strstr(t.why, "NOPERM no"));
        assert_int_equal(f.reads, 1 + at + 1); /* nothing more is asked */
        take_free(&t);
        got_fake_close(&f);
    }
}

FRAME_TEST(nothing_is_taken_without_a_link)
{
    redis_server_kill(&g->w->server);
    WAIT_UNTIL(g->w, g->w->downs == 1);
    struct journal_take t = take_of("a", "dead:1");
    take(&t);
    assert_true(t.lost && !t.taken);
    assert_non_null(strstr(t.why, "link was lost"));
    take_free(&t);
}
