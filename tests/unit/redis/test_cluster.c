/* What nodes of a cluster say of a slot, as redis-server 7.0.15 writes it. */
#include "lib/unit.h"

#include "redis/seek.h"

#define ID_A "07c37dfeb235213a872192d90877d0cd55635b91"
#define ID_B "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"

static struct redis_answer text(const char *s)
{
    return (struct redis_answer){.type = REDIS_STRING, .str = slice_str(s)};
}

static struct redis_answer number(int64_t n)
{
    return (struct redis_answer){.type = REDIS_INTEGER, .integer = n};
}

static struct redis_answer array(struct redis_answer *all, size_t n)
{
    return (struct redis_answer){.type = REDIS_ARRAY, .elements = all, .n = n};
}

static const struct redis_target asked = {.host = "seed", .port = 7000};

UNIT(the_owner_is_the_first_of_its_range)
{
    struct redis_answer a[] = {text("10.0.0.1"), number(7001), text(ID_A)};
    struct redis_answer b[] = {text("node-b.shop"), number(7002), text(ID_B)};
    struct redis_answer low[] = {number(0), number(8191), array(a, 3)};
    struct redis_answer high[] = {number(8192), number(16383), array(b, 3), array(a, 3)};
    struct redis_answer ranges[] = {array(low, 3), array(high, 4)}, all = array(ranges, 2);
    struct redis_target owner;
    struct slice id;
    assert_true(cluster_owner(&all, 8191, &asked, &owner, &id));
    assert_string_equal(owner.host, "10.0.0.1");
    assert_int_equal(owner.port, 7001);
    assert_slice(id, ID_A);
    assert_true(cluster_owner(&all, 8192, &asked, &owner, &id));
    assert_string_equal(owner.host, "node-b.shop");
    assert_slice(id, ID_B);
    all = array(ranges, 1);
    assert_false(cluster_owner(&all, 8192, &asked, &owner, &id));
}

/* One that does not know its own address, and endpoints that are not told. */
UNIT(a_node_without_a_host_is_the_one_that_was_asked)
{
    struct redis_answer hosts[] = {text(""), text("?"), {.type = REDIS_NIL}};
    for (size_t i = 0; i < 3; i++) {
        struct redis_answer a[] = {hosts[i], number(7001), text(ID_A)};
        struct redis_answer range[] = {number(0), number(16383), array(a, 3)}, one = array(range, 3);
        struct redis_answer all = array(&one, 1);
        struct redis_target owner;
        struct slice id;
        assert_true(cluster_owner(&all, 5, &asked, &owner, &id));
        assert_string_equal(owner.host, "seed");
        assert_int_equal(owner.port, 7001);
    }
}

/* The cluster prefers hostnames, and this node has none yet: [?, port, id, [ip, 10.0.0.7]]. */
UNIT(a_node_without_a_hostname_has_an_address)
{
    struct redis_answer more[] = {text("hostname"), text(""), text("ip"), text("10.0.0.7")};
    struct redis_answer a[] = {text("?"), number(7001), text(ID_A), array(more, 4)};
    struct redis_answer range[] = {number(0), number(16383), array(a, 4)}, one = array(range, 3);
    struct redis_answer all = array(&one, 1);
    struct redis_target owner;
    struct slice id;
    assert_true(cluster_owner(&all, 5, &asked, &owner, &id));
    assert_string_equal(owner.host, "10.0.0.7");
    a[3] = array(more, 3);
    assert_true(cluster_owner(&all, 5, &asked, &owner, &id));
    assert_string_equal(owner.host, "seed");
}

UNIT(what_has_another_shape_names_nobody)
{
    struct redis_answer a[] = {text("h"), number(0), text(ID_A)}, short_one[] = {text("h"), number(1)};
    struct redis_answer no_port[] = {number(0), number(9), array(a, 3)};
    struct redis_answer no_id[] = {number(0), number(9), array(short_one, 2)},
                        no_node[] = {number(0), number(9)};
    struct redis_answer ranges[] = {array(no_port, 3), array(no_id, 3), array(no_node, 2), text("x")};
    struct redis_target owner;
    struct slice id;
    for (size_t i = 0; i < 4; i++) {
        struct redis_answer all = array(&ranges[i], 1);
        assert_false(cluster_owner(&all, 5, &asked, &owner, &id));
    }
    struct redis_answer error = {.type = REDIS_ERROR,
                                 .str = SLICE("ERR This instance has cluster support disabled")};
    assert_false(cluster_owner(&error, 5, &asked, &owner, &id));
    assert_false(cluster_owner(NULL, 5, &asked, &owner, &id));
}

static bool owner_of_5(struct redis_answer first, struct redis_answer host)
{
    struct redis_answer a[] = {host, number(7001), text(ID_A)};
    struct redis_answer range[] = {first, number(9), array(a, 3)}, one = array(range, 3);
    struct redis_answer all = array(&one, 1);
    struct redis_target owner;
    struct slice id;
    return cluster_owner(&all, 5, &asked, &owner, &id);
}

UNIT(a_slot_is_a_number_and_a_host_a_text)
{
    assert_true(owner_of_5(number(0), text("h")));
    assert_false(owner_of_5(text("0"), text("h")));
    assert_false(owner_of_5((struct redis_answer){.type = REDIS_NIL}, text("h")));
    assert_false(owner_of_5(number(0), number(1)));
    assert_false(owner_of_5(number(0), array(NULL, 0)));
}

/* Hosts are written to the log and to clients as they are. */
UNIT(a_host_has_only_visible_characters)
{
    assert_false(owner_of_5(number(0), text("h\nts=2026 event=forged")));
    assert_false(owner_of_5(number(0), text("a b")));
    assert_false(owner_of_5(number(0), text("a\x7f")));
    assert_false(owner_of_5(number(0), text("\xc3\xa4")));
}

UNIT(epochs_are_found_by_id)
{
    struct slice nodes =
        SLICE(ID_A " 10.0.0.1:7001@17001,host slave " ID_B " 0 1426238317239 4 connected\n" ID_B
                   " 10.0.0.2:7002@17002 myself,master - 0 0 12 connected 8192-16383 [93-<-x]\n");
    assert_int_equal(cluster_epoch(nodes, SLICE(ID_A)), 4);
    assert_int_equal(cluster_epoch(nodes, SLICE(ID_B)), 12);
    assert_int_equal(cluster_epoch(nodes, SLICE("67ed")), 0);
    assert_int_equal(cluster_epoch(nodes, SLICE("")), 0);
    assert_int_equal(cluster_epoch(SLICE(ID_A " short"), SLICE(ID_A)), 0);
    assert_int_equal(cluster_epoch(SLICE(""), SLICE(ID_A)), 0);
}
