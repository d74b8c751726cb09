/* conf/near.c - optimal string alignment distance over three rows of the table. */
#include "conf/near.h"

#define WORD_MAX 64

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t near_distance(struct slice a, struct slice b)
{
    if (a.n > WORD_MAX || b.n > WORD_MAX) return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *now = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t changed = above[j - 1] + (a.p[i - 1] == b.p[j - 1] ? 0 : 1);
            now[j] = least(changed, least(above[j], now[j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1];
            if (swapped) now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
}

/* Is word a whole part of name, as "busy" is of "busy_timeout"? */
static bool is_part(struct slice word, const char *name)
{
    size_t n = strlen(name);
    if (word.n == 0 || n <= word.n) return false;
    bool begins = memcmp(name, word.p, word.n) == 0 && name[word.n] == '_';
    bool ends = memcmp(name + n - word.n, word.p, word.n) == 0 && name[n - word.n - 1] == '_';
    return begins || ends;
}

const char *near_name(struct slice word, const char *const *names, size_t n)
{
    size_t best = SIZE_MAX, bound = word.n / 3 > 0 ? word.n / 3 : 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t distance = near_distance(word, slice_str(names[i]));
        if (distance >= best || distance > bound) continue;
        best = distance;
        nearest = names[i];
    }
    for (size_t i = 0; nearest == NULL && i < n; i++)
        if (is_part(word, names[i])) nearest = names[i];
    return nearest;
}
