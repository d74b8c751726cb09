/* bench/requests.h - requests built before the clock starts, in one buffer. A hit is what its shape says: a HINCRBY,
 * which a SETNX of the lock may follow, as in the seeds' protocol; another of tallyd's commands; or what the seeds
 * send to a bare Redis for such a one. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shape {
    SHAPE_HIT,         /* HINCRBY on s<store>:unique_visitors:daily */
    SHAPE_FED,         /* the same on s<store>:fed_visitors:daily, a counter that feeds a series */
    SHAPE_SERIES,      /* SERIES.INCRBY */
    SHAPE_SERIES_SEED, /* the book's update_counter: ZADD and HINCRBY for each of seven precisions */
    SHAPE_BOX,         /* BOX.INCRBY */
    SHAPE_BOX_SEED, /* ZINCRBY, ZSCORE, ZREVRANGE: the seed's way when the bucket exists and none falls out */
    SHAPE_EVENT,    /* EVENT.ADD */
    SHAPE_EVENT_SEED, /* INCR, ZADD; in one pipeline, so the event has a number, but not the one that INCR gives */
};

struct requests_spec {
    enum shape shape;
    uint32_t n;     /* how many hits a part */
    uint32_t parts; /* each has stores of its own, the next after those of the one before */
    uint32_t stores,
        first;    /* stores first .. first + stores - 1, pending hashes s<store>:unique_visitors:daily */
    double zipf;  /* exponent over the stores */
    bool in_turn; /* each store once before any comes again, in a scattered order; no Zipf */
    bool lock;    /* the seeds' SETNX behind each hit */
    int64_t delta;
    int64_t now_s; /* the seeds' own clock */
};

struct requests {
    char *bytes; /* hit i is bytes[at[i] .. lock_at[i]), its SETNX bytes[lock_at[i] .. at[i + 1]) */
    size_t *at;  /* n + 1 */
    size_t *lock_at;
    uint32_t n;
    enum shape shape;
    uint32_t number; /* of the seeds' last event */
};

/* Reply lines that a hit gets, without the lock's. A box of a seed: when its bucket exists already. */
uint32_t requests_lines(enum shape shape);
void requests_build(struct requests *r, const struct requests_spec *spec);
/* Before hits first .. first + n - 1 are sent: each event of the seeds is another one. */
void requests_renew(struct requests *r, uint32_t first, uint32_t n);
void requests_free(struct requests *r);

#endif
