/* series/names.c - see names.h. */
#include "series/names.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/slice.h"

#include <stddef.h>
#include <time.h>
#include <xxhash.h>

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

void name_of_life(struct buf *out, const char *prefix, const struct life *l)
{
    buf_put_slice(out, slice_str(prefix));
    name_owner(out, l);
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

int64_t day_number(int64_t day)
{
    PRE(day >= DAY_FIRST && day <= DAY_LAST);
    struct tm tm = {.tm_year = (int)(day / 10000) - 1900,
                    .tm_mon = (int)(day / 100 % 100) - 1,
                    .tm_mday = (int)(day % 100)};
    return (int64_t)timegm(&tm) / DAY_S;
}

int64_t day_of_number(int64_t days)
{
    time_t at_s = (time_t)(days * DAY_S);
    struct tm tm;
    PRE(days >= 0 && gmtime_r(&at_s, &tm) != NULL);
    return (tm.tm_year + 1900) * 10000 + (tm.tm_mon + 1) * 100 + tm.tm_mday;
}

#define LETTERS_MAX 4
#define LANE_SEED UINT64_C(0x74616c6c79) /* "tally" */

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

/* CRC16-CCITT as XMODEM has it: polynomial 0x1021, begun with 0. */
static unsigned crc16(struct slice s)
{
    unsigned crc = 0;
    for (size_t i = 0; i < s.n; i++) {
        crc ^= (unsigned)(unsigned char)s.p[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return crc & 0xffff;
}

/* If there is text between the first '{' and the next '}', only that text is hashed. */
unsigned slot_of(struct slice key)
{
    const char *open = key.n == 0 ? NULL : memchr(key.p, '{', key.n);
    if (open != NULL) {
        size_t left = key.n - (size_t)(open + 1 - key.p);
        const char *close = memchr(open + 1, '}', left);
        if (close != NULL && close > open + 1) key = slice_of(open + 1, (size_t)(close - open) - 1);
    }
    return crc16(key) % SLOTS;
}

/* The next text of n letters; false: it was the last. */
static bool text_next(uint8_t *at, size_t n)
{
    while (n > 0 && ++at[n - 1] == sizeof letters - 1)
        at[--n] = 0;
    return n > 0;
}

static bool tag_of_length(size_t n, unsigned slot, struct tag *out)
{
    uint8_t at[LETTERS_MAX] = {0};
    char text[LETTERS_MAX];
    do {
        for (size_t i = 0; i < n; i++)
            text[i] = letters[at[i]];
        if (crc16(slice_of(text, n)) % SLOTS == slot) {
            out->n = (uint8_t)(n + 2);
            out->text[0] = '{';
            memcpy(out->text + 1, text, n);
            out->text[n + 1] = '}';
            return true;
        }
    } while (text_next(at, n));
    return false;
}

void tag_find(unsigned lane, unsigned lanes, struct tag *out)
{
    PRE(lane < lanes && lanes <= LANES_MAX);
    unsigned slot = (2 * lane + 1) * SLOTS / (2 * lanes);
    for (size_t n = 1; n <= LETTERS_MAX; n++)
        if (tag_of_length(n, slot, out)) return;
    UNREACHABLE(); /* texts of four letters are in all slots */
}

/* Multiplied instead of divided: each lane has an equal part of all hashes. */
unsigned lane_of_store(struct slice store, unsigned lanes)
{
    PRE(lanes > 0 && lanes <= LANES_MAX);
    uint64_t hash = XXH3_64bits_withSeed(store.n > 0 ? store.p : "", store.n, LANE_SEED);
    return (unsigned)((hash >> 32) * lanes >> 32);
}

int64_t clean_precision(struct slice known)
{
    const char *colon = known.n == 0 ? NULL : memchr(known.p, ':', known.n);
    int64_t precision_s;
    if (colon == NULL || !num_parse(slice_of(known.p, (size_t)(colon - known.p)), &precision_s)) return 0;
    return precision_s > 0 ? precision_s : 0;
}

bool clean_due(int64_t precision_s, int64_t now_s, int64_t last_s)
{
    if (last_s < 0 || precision_s <= CLEAN_PASS_S) return true;
    return now_s / precision_s != last_s / precision_s;
}
