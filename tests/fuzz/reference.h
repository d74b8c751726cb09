/* reference.h - what a user may, said a second time and slowly, for fuzz_users.c and fuzz_doors.c. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "fuzz.h"

#include "users/users.h"

#define WORDS_MAX 8
#define KEY_MAX 8200 /* every input is shorter */

struct words {
    struct slice all[WORDS_MAX];
    size_t n;
};

/* At most WORDS_MAX; empty ones are words, too. */
static struct words words_of(struct slice line)
{
    struct words w = {.n = 0};
    while (w.n < WORDS_MAX) {
        const char *end = line.n > 0 ? memchr(line.p, ' ', line.n) : NULL;
        w.all[w.n++] = take_bytes(&line, end == NULL ? line.n : (size_t)(end - line.p));
        if (end == NULL) break;
        (void)take_byte(&line);
    }
    return w;
}

/* ---- patterns ---- */

struct sign { /* of a pattern, and which bytes it takes */
    bool is_star, takes[256];
};

static struct slice behind(struct slice s, size_t n)
{
    return slice_of(s.p + n, s.n - n);
}

static void takes_between(struct sign *s, unsigned char a, unsigned char b)
{
    for (unsigned c = a < b ? a : b; c <= (a < b ? b : a); c++)
        s->takes[c] = true;
}

/* From after `[`; returns what follows the class. */
static struct slice class_read(struct slice p, struct sign *s)
{
    bool inverted = p.n > 0 && p.p[0] == '^';
    if (inverted) p = behind(p, 1);
    while (p.n > 0 && p.p[0] != ']') {
        size_t n = p.p[0] == '\\' && p.n > 1 ? 2 : p.n > 2 && p.p[1] == '-' ? 3 : 1;
        const unsigned char *at = (const unsigned char *)p.p;
        takes_between(s, at[n == 2], at[n - 1]);
        p = behind(p, n);
    }
    for (int c = 0; c < 256 && inverted; c++)
        s->takes[c] = !s->takes[c];
    return p.n > 0 ? behind(p, 1) : p;
}

static struct slice sign_read(struct slice p, struct sign *s)
{
    *s = (struct sign){.is_star = p.p[0] == '*'};
    if (p.p[0] == '[') return class_read(behind(p, 1), s);
    size_t n = p.p[0] == '\\' && p.n > 1 ? 2 : 1;
    if (p.p[0] == '?')
        takes_between(s, 0, 255);
    else
        takes_between(s, (unsigned char)p.p[n - 1], (unsigned char)p.p[n - 1]);
    return behind(p, n);
}

/* at: where in the key what came before may have ended. */
static void sign_goes(const struct sign *s, struct slice key, bool *at)
{
    if (s->is_star) {
        for (size_t i = 1; i <= key.n; i++)
            at[i] |= at[i - 1];
        return;
    }
    for (size_t i = key.n; i > 0; i--)
        at[i] = at[i - 1] && s->takes[(unsigned char)key.p[i - 1]];
    at[0] = false;
}

static bool reference_match(struct slice pattern, struct slice key)
{
    static bool at[KEY_MAX + 1];
    struct sign s;
    MUST(key.n <= KEY_MAX);
    memset(at, 0, key.n + 1);
    at[0] = true;
    while (pattern.n > 0) {
        pattern = sign_read(pattern, &s);
        sign_goes(&s, key, at);
    }
    return at[key.n];
}

/* ---- commands: the lists of the README ---- */

static const char *const of_group[] = {
    [GRANT_FREE] = (" ping echo hello auth select client quit reset multi exec discard watch unwatch command "
                    "config info time acl role exists ttl pttl "),
    [GRANT_READ] = (" ctr.pending ctr.total series.get box.recent box.top box.bottom event.range event.count "
                    "uniq.count hget hmget get "),
    [GRANT_WRITE] = (" hincrby ctr.incrby ctr.hit series.incrby box.incrby event.add uniq.add wait waitaof "
                     "expire pexpire expireat pexpireat persist incr incrby decr decrby "),
    [GRANT_ADMIN] = " ctr.sync ctr.recover series.list ",
};

static bool group_has(enum grant_group group, const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(of_group[group], word) != NULL;
}

static bool word_allows(struct slice word, const char *name)
{
    bool reads = slice_ieq(word, SLICE("read")), writes = slice_ieq(word, SLICE("write")),
         rules = slice_ieq(word, SLICE("admin")), all = slice_ieq(word, SLICE("all"));
    return slice_ieq(word, slice_str(name)) || ((reads || all) && group_has(GRANT_READ, name)) ||
           ((writes || all) && group_has(GRANT_WRITE, name)) ||
           ((rules || all) && group_has(GRANT_ADMIN, name));
}

/* Of a user with these words; a line without words gives what reads and writes. */
static bool reference_may(const struct words *words, const char *name)
{
    bool may = group_has(GRANT_FREE, name);
    if (words->n == 0) may |= group_has(GRANT_READ, name) || group_has(GRANT_WRITE, name);
    for (size_t k = 0; k < words->n; k++)
        may |= word_allows(words->all[k], name);
    return may;
}

#endif
