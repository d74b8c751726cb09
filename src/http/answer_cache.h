/* http/answer_cache.h - rows of figures, and the last answer to each question about them, for when MySQL is away.
 * Bounded: it drops the least recently asked question first. Any thread. Private to the room. */
#ifndef HTTP_ANSWER_CACHE_H
#define HTTP_ANSWER_CACHE_H

#include "base/slice.h"
#include "status/status.h"

#include <pthread.h>

#define CACHED_ANSWERS_MAX 256

struct row {
    size_t at, n; /* the field, in rows.bytes */
    struct figure stored, live;
    int64_t pending; /* only while an answer is made */
};

struct rows {
    struct row *all;
    size_t n, cap;
    struct buf bytes;
};

struct row *rows_add(struct rows *r, struct slice field);  /* good until the next */
struct row *rows_find(struct rows *r, struct slice field); /* NULL: it is not there */
static inline struct slice rows_field(const struct rows *r, size_t i)
{
    return slice_of(r->bytes.p + r->all[i].at, r->all[i].n);
}
void rows_free(struct rows *r);

struct rows_answer { /* to a question */
    struct rows rows;
    int64_t stored_s, live_s; /* as of; 0: never */
    struct figure until_s;    /* complete_until */
};

struct cached_answer {
    char *question; /* NULL: free */
    size_t question_n;
    struct rows_answer answer;
    uint64_t used; /* ticks of clock */
};

struct answer_cache {
    pthread_mutex_t lock;
    struct cached_answer entries[CACHED_ANSWERS_MAX];
    uint64_t clock;
};

void answer_cache_init(struct answer_cache *c);
void answer_cache_close(struct answer_cache *c);
void answer_cache_put(struct answer_cache *c, struct slice question,
                      const struct rows_answer *a); /* copies */
bool answer_cache_get(struct answer_cache *c, struct slice question,
                      struct rows_answer *out); /* a copy, the caller's */
void answer_free(struct rows_answer *a);

#endif
