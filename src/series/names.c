/* series/names.c - see names.h. */
#include "series/names.h"

#include "base/clock.h"
#include "base/log.h"
#include "series/day.h"

const struct slice name_leads[NAME_LEADS_N] = {{"tally:", 6},      {KEY_KNOWN, 6}, {KEY_SAMPLES_PREFIX, 6},
                                               {"statcache:", 10}, {"tb.", 3},     {"pv.", 3}};

#define LIFE_BYTES 8

void life_init(struct life *l, struct slice instance)
{
    uint8_t bytes[LIFE_BYTES];
    rand_bytes(bytes, sizeof bytes);
    l->instance = instance;
    hex_write(bytes, sizeof bytes, l->id);
    l->id[2 * LIFE_BYTES] = '\0';
}

void batch_id_draw(struct batch_id *id)
{
    rand_bytes(id->bytes, sizeof id->bytes);
}

void batch_id_hex(const struct batch_id *id, char out[33])
{
    hex_write(id->bytes, sizeof id->bytes, out);
    out[HEX_ID] = '\0';
}

bool batch_id_read(struct slice hex, struct batch_id *id)
{
    struct batch_id read;
    if (!hex_read(hex, read.bytes, sizeof read.bytes)) return false;
    *id = read;
    return true;
}

static void put_id(struct buf *out, const struct batch_id *id)
{
    hex_write(id->bytes, sizeof id->bytes, buf_reserve(out, HEX_ID));
    out->n += HEX_ID;
}

void name_batch(struct buf *out, const struct batch_id *id)
{
    BUF_LIT(out, KEY_BATCH_PREFIX);
    put_id(out, id);
}

void name_claimed(struct buf *out, struct slice pending, const struct batch_id *id)
{
    buf_put_slice(out, pending);
    buf_put_char(out, '_');
    put_id(out, id);
}

void name_owner(struct buf *out, const struct life *l)
{
    buf_put_slice(out, l->instance);
    buf_put_char(out, ':');
    buf_put_slice(out, slice_str(l->id));
}

void name_seq(struct buf *out, const struct life *l)
{
    BUF_LIT(out, KEY_SEQ_PREFIX);
    name_owner(out, l);
}

void name_fence(struct buf *out, const struct life *l)
{
    BUF_LIT(out, KEY_FENCE_PREFIX);
    name_owner(out, l);
}

void name_wait(struct buf *out, const struct life *l)
{
    BUF_LIT(out, KEY_WAIT_PREFIX);
    name_owner(out, l);
}

void name_waitaof(struct buf *out, const struct life *l)
{
    BUF_LIT(out, KEY_WAITAOF_PREFIX);
    name_owner(out, l);
}

void name_instance(struct buf *out, struct slice instance)
{
    BUF_LIT(out, KEY_INSTANCE_PREFIX);
    buf_put_slice(out, instance);
}

void name_journal(struct buf *out, const struct life *l, uint64_t number)
{
    name_owner(out, l);
    buf_put_char(out, ':');
    buf_int(out, (int64_t)number);
}

void name_journal_key(struct buf *out, struct slice journal)
{
    BUF_LIT(out, KEY_JOURNAL_PREFIX);
    buf_put_slice(out, journal);
}

void name_link(struct buf *out, const struct life *l, const char *role)
{
    BUF_LIT(out, "tallyd:");
    name_owner(out, l);
    buf_put_char(out, ':');
    buf_put_slice(out, slice_str(role));
}

/* No store has a ':' in it, so two of them never make one name. */
void name_token(struct buf *out, struct slice store, struct slice id)
{
    BUF_LIT(out, KEY_TOKEN_PREFIX);
    buf_put_slice(out, store);
    buf_put_char(out, ':');
    buf_put_slice(out, id);
}

bool claimed_split(struct slice key, struct slice *pending, struct batch_id *id)
{
    struct batch_id read;
    if (key.n < HEX_ID + 1 || key.p[key.n - HEX_ID - 1] != '_') return false;
    if (!batch_id_read(slice_of(key.p + key.n - HEX_ID, HEX_ID), &read)) return false;
    if (pending != NULL) *pending = slice_of(key.p, key.n - HEX_ID - 1);
    if (id != NULL) *id = read;
    return true;
}

void name_series(struct buf *out, uint32_t precision, struct slice name)
{
    buf_int(out, precision);
    buf_put_char(out, ':');
    buf_put_slice(out, name);
}

void name_samples(struct buf *out, uint32_t precision, struct slice name)
{
    BUF_LIT(out, KEY_SAMPLES_PREFIX);
    name_series(out, precision, name);
}

void name_samples_of(struct buf *out, struct slice known)
{
    BUF_LIT(out, KEY_SAMPLES_PREFIX);
    buf_put_slice(out, known);
}

void name_buckets(struct buf *out, struct slice name)
{
    BUF_LIT(out, "tb.");
    buf_put_slice(out, name);
}

void name_bucket_hits(struct buf *out, struct slice name)
{
    BUF_LIT(out, "pv.");
    buf_put_slice(out, name);
}

void name_events(struct buf *out, struct slice name, struct slice type)
{
    buf_put_slice(out, name);
    buf_put_char(out, ':');
    buf_put_slice(out, type);
}

void name_ticker(struct buf *out, struct slice name)
{
    name_events(out, name, SLICE(EVENT_TICKER_TYPE));
}

void name_windows(struct buf *out, struct slice type)
{
    BUF_LIT(out, "statcache:");
    buf_put_slice(out, type);
}

static void put_padded(struct buf *out, int64_t v, int64_t unit)
{
    for (; unit > 0; unit /= 10)
        buf_put_char(out, (char)('0' + v / unit % 10));
}

void name_visitors(struct buf *out, struct slice name, int64_t day)
{
    PRE(day >= 0 && day <= 99999999);
    buf_put_slice(out, name);
    buf_put_char(out, '_');
    put_padded(out, day / 10000, 1000);
    buf_put_char(out, '_');
    put_padded(out, day / 100 % 100, 10);
    buf_put_char(out, '_');
    put_padded(out, day % 100, 10);
}

void name_visitors_sketch(struct buf *out, struct slice name, int64_t day)
{
    name_visitors(out, name, day);
    BUF_LIT(out, ":hll");
}

void name_grown(struct buf *out, int64_t at_s)
{
    BUF_LIT(out, KEY_GROWN_PREFIX);
    buf_int(out, day_of_s(at_s));
}

void name_temporary(struct buf *out, struct slice id, struct slice of)
{
    BUF_LIT(out, KEY_TEMPORARY_PREFIX);
    buf_put_slice(out, id);
    buf_put_char(out, ':');
    buf_put_slice(out, of);
}
