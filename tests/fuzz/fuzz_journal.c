/* fuzz_journal.c - a journal's bytes (series/frame.h), which another daemon may have left, and a fault in Redis may have
 * torn. Any bytes are read or refused; what was read is written and read again to the same; and coalesce, which brings
 * home what a dead daemon left, takes them all without a fault of its own. */
#include "fuzz.h"
#include "wire.h"

#include "base/log.h"
#include "coalesce/coalesce.h"
#include "series/frame.h"

#define NOW_S INT64_C(1411200000)
#define RUN_ID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define TURNS 6

static void record_put(struct buf *out, const struct journal_record *r)
{
    switch (r->mark) {
    case JOURNAL_OP:
        journal_put_op(out, r->number, r->kind, r->at, r->name, r->type);
        return;
    case JOURNAL_ADD:
        journal_put_add(out, r->number, r->n);
        return;
    case JOURNAL_DONE:
        journal_put_done(out, r->number);
        return;
    case JOURNAL_EVENT:
        journal_put_event(out, r->number, r->at, r->n, r->name);
        return;
    case JOURNAL_GONE:
        journal_put_gone(out, r->number, (uint32_t)r->n);
        return;
    case JOURNAL_MARKS:
        break;
    }
    UNREACHABLE();
}

static bool same(const struct journal_record *a, const struct journal_record *b)
{
    return a->mark == b->mark && a->number == b->number && a->kind == b->kind && a->at == b->at &&
           a->n == b->n && slice_eq(a->name, b->name) && slice_eq(a->type, b->type);
}

static void written_again(const struct journal_record *r)
{
    struct buf bytes = {0};
    struct journal_record again;
    record_put(&bytes, r);
    struct slice rest = buf_slice(&bytes);
    bool read = journal_next(&rest, &again);
    MUST(read && rest.n == 0);
    MUST(same(r, &again));
    for (size_t part = 0; part < bytes.n; part++) { /* a part of a record is not a record */
        rest = slice_of(bytes.p, part);
        MUST(!journal_next(&rest, &again) && rest.n == part);
    }
    buf_free(&bytes);
}

/* Numbers out of the input come back as they were written. */
static void numbers_come_back(struct slice in)
{
    int64_t n = 0;
    uint32_t number = 0;
    struct buf bytes = {0};
    struct journal_record r;
    if (in.n >= sizeof n) memcpy(&n, in.p, sizeof n);
    if (in.n >= sizeof n + sizeof number) memcpy(&number, in.p + sizeof n, sizeof number);
    n >>= (uint64_t)n % 64; /* of every size */
    journal_put_add(&bytes, number, n);
    struct slice rest = buf_slice(&bytes);
    bool read = journal_next(&rest, &r);
    MUST(read && rest.n == 0 && r.mark == JOURNAL_ADD && r.number == number && r.n == n);
    buf_free(&bytes);
}

/* False: it is torn. */
static bool records_read(struct slice rest)
{
    struct journal_record r;
    for (size_t before = rest.n; journal_next(&rest, &r); before = rest.n) {
        MUST(rest.n < before);
        written_again(&r);
    }
    return rest.n == 0;
}

/* ---- coalesce, with a Redis that runs all ---- */

static struct counter views = {.name = {"views", 5},
                               .key = {{"p", 1}, {"", 0}, true, NULL},
                               .lock = {{"lock:", 5}, {"", 0}, true, NULL},
                               .field = FIELD_INTEGER,
                               .hits = 50,
                               .every_s = 10};
static const struct op_limits limits = {.precisions = {1, 60},
                                        .precisions_n = 2,
                                        .samples = 100,
                                        .timebox_width_s = 60,
                                        .timebox_keep = 4,
                                        .uniq_limit = 1000,
                                        .events_keep_s = INT64_C(1) << 40,
                                        .ahead_s = 60};
static const struct counters counters = {.all = &views, .n = 1, .ops = &limits};
static void frame_answer(struct coalesce *c)
{
    struct frame *f = wire.frame;
    wire.frame = NULL;
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->ops_n; i++) {
        struct frame_op *op = &f->ops[i];
        op->fresh = op->late = false;
        op->error_n = 0;
        op->value = 1;
        MUST(op->silent || op->kind <= OP_EVENT);
    }
    f->events_gone = 0;
    coalesce_on_frame(c, f, FRAME_APPLIED);
}

static void adopted(struct slice bytes)
{
    static const bool none[1];
    struct coalesce_config config = coalesce_config_default;
    config.gather_turns = 0;
    config.replay_bytes = 0;
    config.series_max = 64;
    wire = (struct wire){.mono_ms = 1000000, .redis_ms = NOW_S * 1000};
    struct coalesce *c = coalesce_create(&wire_ports, &counters, &config);
    coalesce_up(c, RUN_ID, 7);
    coalesce_on_look(c, -1, none, none);
    coalesce_adopt(c, SLICE("dead:0123456789abcdef:1"), bytes);
    coalesce_flush(c);
    for (int i = 0; i < TURNS; i++) {
        wire.mono_ms += 1000;
        coalesce_tick(c);
        coalesce_turn(c);
        if (wire.frame != NULL) frame_answer(c);
    }
    MUST(!coalesce_has_journal(c, SLICE("dead:0123456789abcdef:1")));
    coalesce_destroy(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    numbers_come_back(slice_of(bytes, size));
    bool whole = records_read(slice_of(bytes, size));
    log_set_level(whole ? LOG_ERROR : LOG_ERROR + 1); /* journal_torn, again and again */
    adopted(slice_of(bytes, size));
    heap_free(bytes);
    log_set_level(LOG_INFO);
    return 0;
}
