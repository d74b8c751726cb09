/* Batches: sealing against a naive model; the cut and its digests depend on what is in it, never on how it
 * came. */
#include "lib/unit.h"

#include "base/heap.h"
#include "lib/child.h"
#include "lib/dice.h"
#include "series/batch.h"

#define MODEL_HASHES 12
#define MODEL_ROWS 300

struct model_row {
    uint32_t hash;
    char field[24], value[24];
    size_t field_n;
};

struct model {
    char names[MODEL_HASHES][24];
    uint32_t hashes_n;
    struct model_row rows[MODEL_ROWS];
    size_t rows_n;
};

static struct slice name_of(const struct model *m, uint32_t hash)
{
    return slice_str(m->names[hash]);
}
static struct slice field_of(const struct model_row *r)
{
    return slice_of(r->field, r->field_n);
}

static uint64_t hlen_of(const struct model *m, uint32_t hash)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->rows_n; i++)
        n += m->rows[i].hash == hash;
    return n;
}

/* Overwrites the row of this hash and field, or adds one. */
static void model_put(struct model *m, const struct model_row *r)
{
    for (size_t i = 0; i < m->rows_n; i++) {
        if (m->rows[i].hash != r->hash || !slice_eq(field_of(&m->rows[i]), field_of(r))) continue;
        m->rows[i] = *r;
        return;
    }
    m->rows[m->rows_n++] = *r;
}

static int row_order(const struct model *m, const struct model_row *a, const struct model_row *b)
{
    int order = slice_cmp(name_of(m, a->hash), name_of(m, b->hash));
    return order != 0 ? order : slice_cmp(field_of(a), field_of(b));
}

static void model_sort(struct model *m)
{
    for (size_t i = 1; i < m->rows_n; i++)
        for (size_t at = i; at > 0 && row_order(m, &m->rows[at], &m->rows[at - 1]) < 0; at--) {
            struct model_row swapped = m->rows[at];
            m->rows[at] = m->rows[at - 1];
            m->rows[at - 1] = swapped;
        }
}

static struct model_row draw_row(struct dice *d, uint32_t hashes)
{
    struct model_row r = {.hash = (uint32_t)dice_below(d, hashes)};
    r.field_n = dice_below(d, 3) == 0 ? dice_below(d, 20) : dice_below(d, 3);
    for (size_t i = 0; i < r.field_n; i++)
        r.field[i] = i < 8 && r.field_n > 8 ? 'x' : "a\0\xff"[dice_below(d, 3)];
    (void)snprintf(r.value, sizeof r.value, "%d", (int)dice_below(d, 100000));
    return r;
}

/* A model of random hashes, and a batch that was told the same, with repeats. Each name has its index in it.
 */
static void draw(struct dice *d, struct model *m, struct batch *b)
{
    struct batch_id id = {{1}};
    struct model_row told[MODEL_ROWS];
    memset(m, 0, sizeof *m);
    m->hashes_n = 1 + (uint32_t)dice_below(d, MODEL_HASHES);
    for (uint32_t i = 0; i < m->hashes_n; i++)
        (void)snprintf(m->names[i], sizeof m->names[i], "%.*s%c", (int)dice_below(d, 10), "ssssssssss",
                       'z' - (int)i);
    size_t n = dice_below(d, MODEL_ROWS);
    for (size_t i = 0; i < n; i++) {
        told[i] = draw_row(d, m->hashes_n);
        model_put(m, &told[i]);
    }
    batch_init(b, &id);
    for (uint32_t i = 0; i < m->hashes_n; i++)
        assert_int_equal(batch_add_hash(b, name_of(m, i), hlen_of(m, i)), i);
    for (size_t i = 0; i < n; i++)
        batch_add_row(b, told[i].hash, field_of(&told[i]), slice_str(told[i].value));
}

UNIT(sealing_equals_a_model)
{
    struct dice d = dice_new("sealing_equals_a_model");
    for (int turn = 0; turn < 400; turn++) {
        static struct model m;
        struct batch b;
        size_t short_hash;
        draw(&d, &m, &b);
        assert_true(batch_seal(&b, &short_hash));
        assert_true(b.sealed);
        model_sort(&m);
        assert_int_equal(b.rows_n, m.rows_n);
        for (size_t i = 0; i < m.rows_n; i++) {
            assert_true(slice_eq(batch_hash_name(&b, b.rows[i].hash), name_of(&m, m.rows[i].hash)));
            assert_true(slice_eq(batch_field(&b, &b.rows[i]), field_of(&m.rows[i])));
            assert_slice(batch_value(&b, &b.rows[i]), m.rows[i].value);
        }
        assert_int_equal(b.hashes_n, m.hashes_n);
        for (size_t i = 0; i < b.hashes_n; i++) {
            assert_int_equal(b.hashes[i].seen, b.hashes[i].hlen);
            if (i > 0) assert_true(slice_cmp(batch_hash_name(&b, i - 1), batch_hash_name(&b, i)) < 0);
        }
        batch_close(&b);
    }
}

UNIT(row_keys_are_in_the_order_of_rows)
{
    struct dice d = dice_new("row_keys_are_in_the_order_of_rows");
    struct buf before = {0}, key = {0};
    for (int turn = 0; turn < 100; turn++) {
        static struct model m;
        struct batch b;
        size_t short_hash;
        draw(&d, &m, &b);
        assert_true(batch_seal(&b, &short_hash));
        for (size_t i = 0; i < b.rows_n; i++) {
            chunk_row_key(&b, &b.rows[i], &key);
            size_t both = key.n < before.n ? key.n : before.n;
            int order = i > 0 ? memcmp(before.p, key.p, both) : -1;
            assert_true(order < 0 || (order == 0 && before.n < key.n));
            buf_reset(&before);
            buf_put_slice(&before, buf_slice(&key));
        }
        batch_close(&b);
    }
    buf_free(&before);
    buf_free(&key);
}

UNIT(row_keys_have_their_form)
{
    struct batch b;
    size_t short_hash;
    struct buf key = {0};
    batch_init(&b, &(struct batch_id){{0}});
    char *huge = heap_zalloc(70000);
    memset(huge, 'h', 70000);
    uint32_t h = batch_add_hash(&b, SLICE("s1:x"), 3);
    batch_add_row(&b, h, SLICE("20140920"), SLICE("5"));
    batch_add_row(&b, h, slice_of(huge, 70000), SLICE("6"));
    batch_add_row(&b, h, slice_of(huge, 600), SLICE("7"));
    assert_true(batch_seal(&b, &short_hash));
    chunk_row_key(&b, &b.rows[0], &key);
    assert_int_equal(key.n, 16);
    assert_memory_equal(key.p,
                        "\0\4s1:x\0\x08"
                        "20140920",
                        16);
    chunk_row_key(&b, &b.rows[1], &key);
    assert_int_equal(key.n, 6 + 2 + 600);
    chunk_row_key(&b, &b.rows[2], &key);
    assert_int_equal(key.n, LEDGER_KEY_BYTES_MAX);
    assert_memory_equal(key.p, "\0\4s1:x\xff\xff\0\0\0\0\0\1\x11\x70hhh", 19);
    heap_free(huge);
    buf_free(&key);
    batch_close(&b);
}

/* --- the cut --- */

#define CUT_ROWS 2500

/* Two hashes of CUT_ROWS rows in all, told in a random order; `changed` makes one row differ in the way asked
 * for. */
enum change { CHANGE_NOTHING, CHANGE_VALUE, CHANGE_FIELD, CHANGE_NAME, CHANGE_BORDER };

static void tell(struct dice *d, struct batch *b, enum change change)
{
    uint32_t order[CUT_ROWS], at[2];
    bool first = dice_below(d, 2) == 0;
    batch_init(b, &(struct batch_id){{0}});
    for (int i = 0; i < 2; i++) {
        bool a = (i == 0) == first;
        at[a ? 0 : 1] = batch_add_hash(b,
                                       a                       ? SLICE("s1:x")
                                       : change == CHANGE_NAME ? SLICE("s3:x")
                                                               : SLICE("s2:x"),
                                       CUT_ROWS / 2);
    }
    for (uint32_t i = 0; i < CUT_ROWS; i++)
        order[i] = i;
    for (uint32_t i = CUT_ROWS - 1; i > 0; i--) {
        uint32_t other = (uint32_t)dice_below(d, i + 1), swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
    for (uint32_t i = 0; i < CUT_ROWS; i++) {
        uint32_t n = order[i];
        bool changed = n == CUT_ROWS - 2;
        char field[24], value[24];
        size_t field_n =
            (size_t)snprintf(field, sizeof field, "%u", 100000 + n + (changed && change == CHANGE_FIELD));
        size_t value_n = (size_t)snprintf(value, sizeof value, "%u", 5 + (changed && change == CHANGE_VALUE));
        if (changed && change == CHANGE_BORDER) field[field_n++] = '5', value_n = 0;
        batch_add_row(b, at[n % 2], slice_of(field, field_n), slice_of(value, value_n));
    }
    size_t short_hash;
    assert_true(batch_seal(b, &short_hash));
}

static void digests(struct dice *d, enum change change, uint8_t out[3][16])
{
    struct batch b;
    tell(d, &b, change);
    assert_int_equal(batch_chunks(&b), 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct chunk c = {0};
        batch_chunk(&b, i, &c);
        chunk_digest(&c, out[i]);
    }
    batch_close(&b);
}

UNIT(digests_depend_on_content_alone)
{
    struct dice d = dice_new("digests_depend_on_content_alone");
    uint8_t first[3][16], other[3][16];
    digests(&d, CHANGE_NOTHING, first);
    for (int turn = 0; turn < 20; turn++) {
        digests(&d, CHANGE_NOTHING, other);
        assert_memory_equal(first, other, sizeof first);
    }
    for (enum change change = CHANGE_VALUE; change <= CHANGE_BORDER; change++) {
        digests(&d, change, other);
        assert_memory_not_equal(first, other, sizeof first);
    }
}

/* The format of version 1: a digest that changes here is one that no ledger knows. */
UNIT(digest_is_the_one_of_format_1)
{
    struct batch b;
    size_t short_hash;
    struct chunk c = {0};
    uint8_t digest[16];
    char hex[33] = "";
    batch_init(&b, &(struct batch_id){{0}});
    uint32_t h = batch_add_hash(&b, SLICE("s12345:unique_visitors:daily"), 2);
    batch_add_row(&b, h, SLICE("20140921"), SLICE("7"));
    batch_add_row(&b, h, SLICE("20140920"), SLICE("41"));
    assert_true(batch_seal(&b, &short_hash));
    batch_chunk(&b, 0, &c);
    chunk_digest(&c, digest);
    hex_write(digest, 16, hex);
    assert_string_equal(hex, "1dc4b1fcec0af98c7f815735e2541e4d");
    batch_close(&b);
}

UNIT(borders_are_every_thousand_rows)
{
    static const size_t sizes[] = {0, 1, 999, 1000, 1001, 2000, 2001};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct batch b;
        size_t short_hash, next = 0;
        batch_init(&b, &(struct batch_id){{0}});
        uint32_t h = batch_add_hash(&b, SLICE("k"), sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++) {
            char field[24];
            batch_add_row(&b, h, slice_of(field, (size_t)snprintf(field, sizeof field, "%zu", i)),
                          SLICE("1"));
        }
        assert_true(batch_seal(&b, &short_hash));
        uint32_t chunks = batch_chunks(&b);
        assert_int_equal(chunks, sizes[s] == 0 ? 1 : (sizes[s] + 999) / 1000);
        for (uint32_t i = 0; i < chunks; i++) {
            struct chunk c = {.arg = &next};
            batch_chunk(&b, i, &c);
            assert_ptr_equal(c.batch, &b);
            assert_ptr_equal(c.arg, &next);
            assert_int_equal(c.index, i);
            assert_int_equal(c.chunks, chunks);
            assert_int_equal(c.first, next);
            next += c.rows_n;
        }
        assert_int_equal(next, sizes[s]);
        batch_close(&b);
    }
}

/* --- what is no good batch --- */

UNIT(a_short_hash_is_named)
{
    struct batch b;
    size_t short_hash = 99;
    batch_init(&b, &(struct batch_id){{7}});
    uint32_t longer = batch_add_hash(&b, SLICE("long"), 2), z = batch_add_hash(&b, SLICE("z"), 1);
    batch_add_row(&b, longer, SLICE("f"), SLICE("1"));
    batch_add_row(&b, longer, SLICE("f"), SLICE("2"));
    batch_add_row(&b, z, SLICE("f"), SLICE("1"));
    assert_false(batch_seal(&b, &short_hash));
    assert_false(b.sealed);
    assert_int_equal(short_hash, 1);
    assert_slice(batch_hash_name(&b, short_hash), "long");
    assert_int_equal(b.hashes[1].seen, 1);
    batch_clear(&b);
    assert_int_equal(b.hashes_n + b.rows_n + b.bytes.n, 0);
    assert_int_equal(b.id.bytes[0], 7);
    longer = batch_add_hash(&b, SLICE("long"), 1);
    batch_add_row(&b, longer, SLICE("f"), SLICE("1"));
    batch_add_row(&b, longer, SLICE("g"), SLICE("1"));
    assert_false(batch_seal(&b, &short_hash)); /* more than registered is no better */
    assert_int_equal(short_hash, 0);
    batch_close(&b);
}

static void one_hash_twice(void *arg)
{
    struct batch *b = arg;
    size_t short_hash;
    (void)batch_add_hash(b, SLICE("a"), 0);
    (void)batch_add_hash(b, SLICE("a"), 0);
    if (batch_seal(b, &short_hash)) abort();
}

static void cut_unsealed(void *arg)
{
    (void)batch_chunks(arg);
}

UNIT(our_own_mistakes_end_it)
{
    struct batch b;
    batch_init(&b, &(struct batch_id){{0}});
    struct child_end end = child_run(one_hash_twice, &b);
    assert_true(child_was_killed(&end, SIGABRT));
    assert_non_null(strstr(end.stderr_, "kind=invariant"));
    end = child_run(cut_unsealed, &b);
    assert_true(child_was_killed(&end, SIGABRT));
    batch_close(&b);
}

UNIT(a_million_rows)
{
    enum { ROWS = 1000000, HASHES = 100 };
    struct batch b;
    size_t short_hash;
    batch_init(&b, &(struct batch_id){{0}});
    for (uint32_t h = 0; h < HASHES; h++) {
        char name[40];
        (void)batch_add_hash(
            &b, slice_of(name, (size_t)snprintf(name, sizeof name, "s%u:product_views", h * 37 % 100)),
            ROWS / HASHES);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        char field[24]; /* 2654435761 is odd: each product once, in no order */
        size_t n = (size_t)snprintf(field, sizeof field, "%u", (uint32_t)(i * UINT64_C(2654435761)));
        batch_add_row(&b, i % HASHES, slice_of(field, n), SLICE("1"));
    }
    uint64_t since_us = mono_us();
    assert_true(batch_seal(&b, &short_hash));
    printf("sealed %d rows in %u ms\n", ROWS, (unsigned)((mono_us() - since_us) / 1000));
    for (size_t i = 1; i < b.rows_n; i++) {
        const struct batch_row *a = &b.rows[i - 1], *c = &b.rows[i];
        if (a->hash > c->hash) fail_msg("hash order at %zu", i);
        if (a->hash == c->hash && slice_cmp(batch_field(&b, a), batch_field(&b, c)) >= 0)
            fail_msg("order at %zu", i);
    }
    batch_close(&b);
}
