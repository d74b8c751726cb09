/* base/slice.c - see slice.h. */
#include "base/slice.h"

#include "base/heap.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static char char_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool slice_ieq(struct slice a, struct slice b)
{
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (char_lower(a.p[i]) != char_lower(b.p[i])) return false;
    return true;
}

bool slice_starts(struct slice s, struct slice prefix)
{
    return s.n >= prefix.n && slice_eq(slice_of(s.p, prefix.n), prefix);
}

bool slice_ends(struct slice s, struct slice suffix)
{
    return s.n >= suffix.n && slice_eq(slice_of(s.p + (s.n - suffix.n), suffix.n), suffix);
}

char *slice_show(struct slice s, size_t most, char *out, size_t size)
{
    static const char dots[] = "...";
    PRE(size >= sizeof dots);
    size_t n = s.n < most ? s.n : most;
    size_t room = size - (n < s.n ? sizeof dots : 1);
    if (n > room) n = size - sizeof dots;
    for (size_t i = 0; i < n; i++)
        out[i] = s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?';
    memcpy(out + n, n < s.n ? dots : "", n < s.n ? sizeof dots : 1);
    return out;
}

#define DIGITS_SAFE 18 /* decimal digits that cannot overflow 64 bits */

static bool digits_add(struct slice s, uint64_t *v)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned digit = (unsigned)(s.p[i] - '0');
        if (digit > 9) return false;
        *v = *v * 10 + digit;
    }
    return true;
}

bool num_parse_u64(struct slice s, uint64_t *out)
{
    if (s.n == 0 || s.n > 20) return false;
    if (s.p[0] == '0' && s.n > 1) return false;
    uint64_t v = 0;
    size_t safe = s.n < DIGITS_SAFE ? s.n : DIGITS_SAFE;
    if (!digits_add(slice_of(s.p, safe), &v)) return false;
    for (size_t i = safe; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        if (__builtin_mul_overflow(v, UINT64_C(10), &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

bool num_parse(struct slice s, int64_t *out)
{
    if (s.n == 1 && (unsigned)(s.p[0] - '0') <= 9) { /* nearly every increment */
        *out = s.p[0] - '0';
        return true;
    }
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t size;
    if (!num_parse_u64(negative ? slice_of(s.p + 1, s.n - 1) : s, &size)) return false;
    if (negative && (size == 0 || size > (uint64_t)INT64_MAX + 1)) return false;
    if (!negative && size > (uint64_t)INT64_MAX) return false;
    *out = negative ? -(int64_t)(size - 1) - 1 : (int64_t)size;
    return true;
}

static const char pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546"
    "4748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293"
    "949596979899";

/* Writes four bytes, even if fewer count. */
static inline size_t upto_four_write(unsigned v, char *out)
{
    char digits[8];
    unsigned zeros = (v < 10) + (v < 100) + (v < 1000);
    memcpy(digits, pairs + 2 * (v / 100), 2);
    memcpy(digits + 2, pairs + 2 * (v % 100), 2);
    memcpy(out, digits + zeros, 4);
    return 4 - zeros;
}

/* Four digits a division. */
static size_t size_write(uint64_t v, char *out)
{
    if (v < 10000) return upto_four_write((unsigned)v, out);
    size_t at = size_write(v / 10000, out);
    unsigned low = (unsigned)(v % 10000);
    memcpy(out + at, pairs + 2 * (low / 100), 2);
    memcpy(out + at + 2, pairs + 2 * (low % 100), 2);
    return at + 4;
}

size_t num_write(int64_t v, char out[21])
{
    if ((uint64_t)v < 10000) return upto_four_write((unsigned)v, out); /* nearly every reply */
    if (v >= 0) return size_write((uint64_t)v, out);
    out[0] = '-';
    return 1 + size_write(-(uint64_t)v, out + 1);
}

void hex_write(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

static int hex_value(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_digit(c);
}

bool hex_read(struct slice digits, uint8_t *bytes, size_t n)
{
    if (digits.n != 2 * n) return false;
    for (size_t i = 0; i < n; i++) {
        int high = hex_value(digits.p[2 * i]), low = hex_value(digits.p[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* Capacity doubles, so n single bytes cost O(n) in all. */

#define BUF_CAP_FIRST 64

void buf_free(struct buf *b)
{
    heap_free(b->p);
    *b = (struct buf){0};
}

void buf_grow(struct buf *b, size_t more)
{
    PRE(more <= SIZE_MAX / 2 - b->n);
    size_t cap = b->cap > 0 ? b->cap : BUF_CAP_FIRST;
    while (cap - b->n < more)
        cap *= 2;
    b->p = heap_realloc(b->p, cap);
    b->cap = cap;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    INVARIANT(n >= 0);
    (void)vsnprintf(buf_reserve(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    b->n += (size_t)n;
}

void buf_int(struct buf *b, int64_t v)
{
    b->n += num_write(v, buf_reserve(b, 21));
}

void buf_drop(struct buf *b, size_t n)
{
    PRE(n <= b->n);
    if (n == 0) return;
    b->n -= n;
    memmove(b->p, b->p + n, b->n);
}

void buf_trim(struct buf *b)
{
    if (b->n == 0) {
        buf_free(b);
    } else if (b->n < b->cap) {
        b->p = heap_realloc(b->p, b->n);
        b->cap = b->n;
    }
}
