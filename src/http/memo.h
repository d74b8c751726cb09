/* http/memo.h - rows of figures, and the last answer to each question about them, for when MySQL is away: bounded, the
 * question that was asked least lately is forgotten first. Any thread. Private to the room. */
#ifndef HTTP_MEMO_H
#define HTTP_MEMO_H

#include "base/buf.h"
#include "status/status.h"

#include <pthread.h>

#define MEMO_QUESTIONS 256

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

struct answer { /* to a question */
    struct rows rows;
    int64_t stored_s, live_s; /* as of; 0: never */
    struct figure until_s;    /* complete_until */
};

struct memo_entry {
    char *question; /* NULL: free */
    size_t question_n;
    struct answer answer;
    uint64_t used; /* ticks of memo.clock */
};

struct memo {
    pthread_mutex_t lock;
    struct memo_entry entries[MEMO_QUESTIONS];
    uint64_t clock;
};

void memo_init(struct memo *m);
void memo_close(struct memo *m);
void memo_put(struct memo *m, struct slice question, const struct answer *a); /* copies */
bool memo_get(struct memo *m, struct slice question, struct answer *out);     /* a copy, the caller's */
void answer_free(struct answer *a);

#endif
