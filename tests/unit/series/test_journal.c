/* test_journal.c - the records of a journal: what was written is read back, and reading any other bytes ends and stays inside of
 * them. */
#include "lib/unit.h"

#include "base/heap.h"
#include "lib/dice.h"
#include "series/frame.h"

#define RECORDS 40

static const int64_t extremes[] = {
    0, 1, -1, 63, -64, 64, 127, 128, INT32_MAX, INT64_MAX - 1, INT64_MAX, INT64_MIN, INT64_MIN + 1};
#define EXTREMES (sizeof extremes / sizeof extremes[0])

static int64_t some_number(struct dice *d)
{
    return dice_below(d, 2) == 0 ? extremes[dice_below(d, EXTREMES)]
                                 : (int64_t)dice_u64(d) >> dice_below(d, 64);
}

/* Any bytes, also none and as many as there may be; in texts, which must not move. */
static struct slice some_text(struct dice *d, struct buf *texts)
{
    static const size_t lengths[] = {0, 1, 127, 128, OP_NAME_BYTES_MAX};
    size_t n = dice_below(d, 2) == 0 ? lengths[dice_below(d, 5)] : dice_below(d, 20);
    struct slice text = slice_of(texts->p + texts->n, n);
    for (size_t i = 0; i < n; i++)
        buf_put_char(texts, (char)dice_u64(d));
    return text;
}

static struct journal_record some_record(struct dice *d, struct buf *texts)
{
    struct journal_record r = {.mark = (enum journal_mark)dice_below(d, JOURNAL_MARKS)};
    r.number = dice_below(d, 4) == 0 ? UINT32_MAX : (uint32_t)dice_u64(d) >> dice_below(d, 32);
    if (r.mark == JOURNAL_ADD) r.n = some_number(d);
    if (r.mark == JOURNAL_GONE) r.n = 1 + (int64_t)((uint32_t)dice_u64(d) >> 1 >> dice_below(d, 31));
    if (r.mark == JOURNAL_OP || r.mark == JOURNAL_EVENT) r.at = some_number(d) & INT64_MAX;
    if (r.mark == JOURNAL_EVENT) r.n = dice_below(d, 2) == 0 ? 0 : some_number(d) & INT64_MAX;
    if (r.mark == JOURNAL_OP) r.kind = (enum op_kind)dice_below(d, OP_EVENT + 1);
    if (r.mark == JOURNAL_OP || (r.mark == JOURNAL_EVENT && r.n == 0)) r.name = some_text(d, texts);
    if (r.mark == JOURNAL_OP) r.type = some_text(d, texts);
    return r;
}

static void put(struct buf *out, const struct journal_record *r)
{
    if (r->mark == JOURNAL_OP) journal_put_op(out, r->number, r->kind, r->at, r->name, r->type);
    if (r->mark == JOURNAL_ADD) journal_put_add(out, r->number, r->n);
    if (r->mark == JOURNAL_DONE) journal_put_done(out, r->number);
    if (r->mark == JOURNAL_EVENT) journal_put_event(out, r->number, r->at, r->n, r->name);
    if (r->mark == JOURNAL_GONE) journal_put_gone(out, r->number, (uint32_t)r->n);
}

static bool same(const struct journal_record *a, const struct journal_record *b)
{
    return a->mark == b->mark && a->number == b->number && a->kind == b->kind && a->at == b->at &&
           a->n == b->n && slice_eq(a->name, b->name) && slice_eq(a->type, b->type);
}

/* A stream of random records; where each of them ends is in ends. */
struct stream {
    struct journal_record records[RECORDS];
    size_t ends[RECORDS];
    struct buf texts, bytes;
};

static void stream_throw(struct stream *s, struct dice *d)
{
    buf_reset(&s->bytes);
    buf_reset(&s->texts);
    buf_reserve(&s->texts, RECORDS * 2 * OP_NAME_BYTES_MAX);
    for (int i = 0; i < RECORDS; i++) {
        s->records[i] = some_record(d, &s->texts);
        put(&s->bytes, &s->records[i]);
        s->ends[i] = s->bytes.n;
    }
}

static void stream_free(struct stream *s)
{
    buf_free(&s->texts);
    buf_free(&s->bytes);
}

static bool lies_in(struct slice whole, struct slice part)
{
    return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

/* How many records a copy has that ends where its memory does, each of them inside of it; *left: the bytes that are no record. */
static int read_all(struct slice bytes, size_t *left)
{
    char *copy = malloc(bytes.n > 0 ? bytes.n : 1);
    assert_non_null(copy);
    if (bytes.n > 0) memcpy(copy, bytes.p, bytes.n);
    struct slice whole = slice_of(copy, bytes.n), rest = whole;
    struct journal_record r;
    int records = 0;
    for (size_t before = rest.n; journal_next(&rest, &r); before = rest.n, records++) {
        assert_true(rest.n < before);
        assert_ptr_equal(rest.p + rest.n, whole.p + whole.n);
        assert_true(lies_in(whole, r.name) && lies_in(whole, r.type));
        assert_true(r.mark < JOURNAL_MARKS && r.kind <= OP_EVENT && r.at >= 0);
    }
    *left = rest.n;
    free(copy);
    return records;
}

static bool is_one_record(const char *bytes, size_t n)
{
    size_t left;
    return read_all(slice_of(bytes, n), &left) == 1 && left == 0;
}
#define IS_RECORD(text) is_one_record(text, sizeof(text) - 1)

UNIT(what_is_written_is_read)
{
    struct dice d = dice_new(__func__);
    struct stream s = {0};
    for (int round = 0; round < 500; round++) {
        stream_throw(&s, &d);
        struct slice rest = buf_slice(&s.bytes);
        struct journal_record r;
        for (int i = 0; i < RECORDS; i++) {
            assert_true(journal_next(&rest, &r));
            assert_true(same(&r, &s.records[i]));
            assert_int_equal(s.bytes.n - rest.n, s.ends[i]);
        }
        assert_false(journal_next(&rest, &r));
        assert_int_equal(rest.n, 0);
    }
    stream_free(&s);
}

UNIT(every_extreme_comes_back)
{
    struct buf out = {0};
    struct journal_record r;
    for (size_t i = 0; i < EXTREMES; i++)
        for (uint32_t number = 1; number != 0; number = number == UINT32_MAX ? 0 : number << 1 | 1) {
            buf_reset(&out);
            journal_put_add(&out, number, extremes[i]);
            struct slice rest = buf_slice(&out);
            assert_true(journal_next(&rest, &r));
            assert_int_equal(r.number, number);
            assert_true(r.n == extremes[i] && rest.n == 0);
        }
    buf_free(&out);
}

/* Other versions read these bytes from Redis too: they are the format. */
UNIT(the_bytes_are_these)
{
    struct buf out = {0};
    journal_put_op(&out, 1, OP_EVENT, 300, SLICE("ab"), SLICE("t"));
    journal_put_add(&out, 1, -2);
    journal_put_add(&out, 64, 1);
    journal_put_done(&out, 1);
    journal_put_event(&out, 1, 300, 0, SLICE("x"));
    journal_put_event(&out, 1, 300, 5, SLICE("not written"));
    journal_put_gone(&out, 1, 2);
    static const char want[] = "\x08\x02\xd8\x04\x02"
                               "ab\x01t"
                               "\x09\x03"
                               "\x81\x04\x02"
                               "\x0a"
                               "\x0b\xd8\x04\x00\x01x"
                               "\x0b\xd8\x04\x0a"
                               "\x0c\x04";
    assert_int_equal(out.n, sizeof want - 1);
    assert_memory_equal(out.p, want, sizeof want - 1);
    buf_free(&out);
}

UNIT(a_cut_stream_has_its_whole_records)
{
    struct dice d = dice_new(__func__);
    struct stream s = {0};
    for (int round = 0; round < 4; round++) {
        stream_throw(&s, &d);
        int whole = 0;
        for (size_t n = 0; n <= s.bytes.n; n++) {
            size_t left;
            whole += whole < RECORDS && s.ends[whole] <= n;
            assert_int_equal(read_all(slice_of(s.bytes.p, n), &left), whole);
            assert_int_equal(left, n - (whole > 0 ? s.ends[whole - 1] : 0));
        }
    }
    stream_free(&s);
}

UNIT(flipped_bytes_stay_inside)
{
    struct dice d = dice_new(__func__);
    struct stream s = {0};
    for (int round = 0; round < 3000; round++) {
        stream_throw(&s, &d);
        for (size_t i = 0, n = 1 + dice_below(&d, 8); i < n; i++)
            s.bytes.p[dice_below(&d, s.bytes.n)] ^= (char)(1 + dice_below(&d, 255));
        size_t left;
        (void)read_all(buf_slice(&s.bytes), &left);
    }
    stream_free(&s);
}

UNIT(any_bytes_stay_inside)
{
    struct dice d = dice_new(__func__);
    char bytes[64];
    for (int round = 0; round < 100000; round++) {
        size_t left, n = dice_below(&d, sizeof bytes + 1);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(dice_u64(&d) & (dice_below(&d, 2) == 0 ? 0xff : 0x0f));
        (void)read_all(slice_of(bytes, n), &left);
    }
}

UNIT(marks_that_there_are_not_are_refused)
{
    assert_true(IS_RECORD("\x0a"));
    assert_false(IS_RECORD("\x0d") || IS_RECORD("\x0e") || IS_RECORD("\x0f"));
    assert_true(IS_RECORD("\xfa\xff\xff\xff\x7f"));
    assert_false(IS_RECORD("\x82\x80\x80\x80\x80\x01")); /* a number of more than 32 bits */
    assert_false(IS_RECORD("\x8a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"));
}

UNIT(ops_that_there_are_not_are_refused)
{
    assert_true(IS_RECORD("\x08\x02\x00\x00\x00"));
    assert_false(IS_RECORD("\x08\x03\x00\x00\x00"));                 /* visitors are in no journal */
    assert_false(IS_RECORD("\x08\x80\x80\x80\x80\x10\x00\x00\x00")); /* 2^32 is no kind, its low half is */
    assert_false(IS_RECORD("\x08\x00\x01\x00\x00"));                 /* a time before 1970 */
    assert_false(IS_RECORD("\x09\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")); /* eleven bytes */
    char longest[5 + OP_NAME_BYTES_MAX + 1] = "\x08\x00\x00\x80\x04";
    assert_true(is_one_record(longest, sizeof longest));
    char longer[5 + OP_NAME_BYTES_MAX + 2] = "\x08\x00\x00\x81\x04";
    assert_false(is_one_record(longer, sizeof longer));
}

UNIT(events_that_there_are_not_are_refused)
{
    assert_true(IS_RECORD("\x0b\x00\x00\x01"
                          "a") &&
                IS_RECORD("\x0b\x00\x02"));
    assert_false(IS_RECORD("\x0b\x01\x02")); /* a time before 1970 */
    assert_false(IS_RECORD("\x0b\x00\x01")); /* a negative id */
    assert_false(IS_RECORD("\x0b\x00\x00")); /* no id at all */
    assert_true(IS_RECORD("\x0c\x02"));
    assert_false(IS_RECORD("\x0c\x00") || IS_RECORD("\x0c\x01")); /* a count of 0, or less */
}

UNIT(a_length_beyond_all_memory_is_refused)
{
    assert_false(IS_RECORD("\x08\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                           "ab"));
    assert_false(IS_RECORD("\x08\x00\x00\x02"
                           "ab\x03"
                           "ab"));
    assert_false(IS_RECORD("\x0b\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                           "ab"));
}
