/* http/caches.h - what was read of Redis and MySQL, kept for the next who asks: figures, the status, names of items. */
#ifndef HTTP_CACHES_H
#define HTTP_CACHES_H

#include "base/map.h"
#include "base/slice.h"
#include "mysql/panel.h"
#include "status/status.h"

#include <pthread.h>

/* Rows of figures, and the last answer to each question about them, for when MySQL is away. Bounded: it drops the least recently
 * asked question first. Any thread. Private to the room. */

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

/* The state of Redis and MySQL as status/ reads it, kept for a moment. However many clients ask, one probe runs at a time, and
 * none sooner than its cost allows. Workers only: a probe waits for servers. Private to the room. */

struct lane_figures {
    bool up, held;
    struct figure oldest_ms; /* of its dirty index; not known: nothing waits, or it is away */
};

struct status_figures {
    struct lane_figures *lanes; /* of several; NULL: one, or none was seen yet */
    uint32_t lanes_n;
    struct figure dirty;     /* hashes in the dirty index */
    struct figure oldest_ms; /* age of the oldest hit that is not in MySQL; 0: all are */
    struct figure batches;   /* standing */
    struct figure replicas, behind_bytes, moved_s;  /* Redis', the worst of them; since the links moved */
    struct figure memory_bytes, memory_most_bytes;  /* Redis'; most 0: no limit */
    struct status_refusal refusal[STATUS_REFUSALS]; /* hits that were refused, by reason */
    size_t refusal_n;
    struct figure sentinels, sentinels_up; /* known, answering; unknown: Redis has none */
    struct figure rejects;                 /* rows that wait */
    struct figure balanced;                /* 1 or 0, when the books were last added up */
    struct figure *differences;            /* likewise; one a counter, in the order of the configuration */
};

struct status_cache {
    pthread_mutex_t lock; /* of all below; held while probing */
    const struct source *where;
    struct status_figures last;
    uint64_t at_ms, took_ms, books_at_ms; /* 0: never */
};

void status_cache_init(struct status_cache *c, const struct source *where);
void status_cache_close(struct status_cache *c);

/* The state read at most age_ms ago, or a little more when a probe takes long; calls use with it before it returns.
 * books: adds them up, too, at most every 30 s. */
void status_cache_use(struct status_cache *c, struct redisContext *service, uint32_t age_ms, bool books,
                      void (*use)(void *arg, const struct status_figures *seen), void *arg);

/* Names of items (counters.*.labels), read from MySQL and kept. Bounded by LABELS_MOST; a name is asked for again after
 * LABELS_AGE_MS, and while MySQL does not answer the last known one is used. Any thread. Private to the room. */

#define LABELS_MOST 16384
#define LABELS_AGE_MS 60000
#define LABEL_BYTES_MAX 256 /* a longer name is cut at the end of a character */

/* Two generations: when the young one is half of all, the old one is dropped. A name that is used moves to the young
 * one. */
struct label_cache {
    pthread_mutex_t lock;
    struct map young, old; /* "<counter> <field>" -> struct label */
};

void label_cache_init(struct label_cache *c);
void label_cache_close(struct label_cache *c);

struct labels { /* one an item; p NULL: it has no name */
    struct slice *all;
    size_t n;
};

/* Of n items. The counter has labels. p NULL: MySQL is away. */
struct labels labels_read(struct label_cache *cache, struct panel *p, const struct counter *counter,
                          const struct slice *ids, size_t n);
void labels_free(struct labels *l);

#endif
