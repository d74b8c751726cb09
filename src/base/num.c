/* base/num.c - see num.h. */
#include "base/num.h"

bool num_parse_u64(struct slice s, uint64_t *out)
{
    if (s.n == 0 || s.n > 20) return false;
    if (s.p[0] == '0' && s.n > 1) return false;
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        if (__builtin_mul_overflow(v, UINT64_C(10), &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

bool num_parse(struct slice s, int64_t *out)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t size;
    if (!num_parse_u64(negative ? slice_of(s.p + 1, s.n - 1) : s, &size)) return false;
    if (negative && (size == 0 || size > (uint64_t)INT64_MAX + 1)) return false;
    if (!negative && size > (uint64_t)INT64_MAX) return false;
    *out = negative ? -(int64_t)(size - 1) - 1 : (int64_t)size;
    return true;
}

size_t num_write(int64_t v, char out[21])
{
    char digits[20];
    uint64_t size = v < 0 ? -(uint64_t)v : (uint64_t)v;
    size_t n = 0, at = 0;
    do {
        digits[n++] = (char)('0' + size % 10);
        size /= 10;
    } while (size > 0);
    if (v < 0) out[at++] = '-';
    while (n > 0)
        out[at++] = digits[--n];
    return at;
}

void hex_write(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
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
