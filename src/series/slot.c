/* series/slot.c - see slot.h. */
#include "series/slot.h"

#include "base/log.h"

#include <xxhash.h>

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
