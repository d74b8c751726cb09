/* coalesce/group.h - a frame with the clients that wait for it. One group collects, one is in flight, one is being
 * answered. Their memory is kept and reused. */
#ifndef COALESCE_GROUP_H
#define COALESCE_GROUP_H

#include "base/outlet.h"
#include "coalesce/hash_cache.h"
#include "series/frame.h"

#define ANSWER_LITERAL UINT32_MAX
#define ANSWER_OP (UINT32_C(1) << 31)
#define ANSWER_TOKEN (UINT32_C(1) << 30)

struct answer { /* one reply owed to one client, in the order of arrival */
    struct outlet *outlet;
    uint32_t cell; /* or ANSWER_TOKEN | a token, or ANSWER_OP | an op, or ANSWER_LITERAL */
    uint32_t literal_n;
    /* token: unused; cell, series, timebox: sum of its deltas up to and with this hit; event, visitor: its item; literal: offset */
    int64_t at;
};

struct op_slots { /* an op's hash -> its number + 1, 0: free; no memory before the first op */
    uint32_t *at;
    uint32_t n, cap;
};

struct arrival { /* answers up to this one are of requests that came in the turn that began then */
    uint32_t upto;
    uint64_t us;
};

enum group_state {
    GROUP_COLLECTS,
    GROUP_SENT,    /* on the link, no answer yet */
    GROUP_DOUBT,   /* the link was cut before the answer */
    GROUP_APPLIED, /* known to be applied, its values lost: they are being read */
};

struct group {
    struct frame frame;
    struct answer *answers;
    uint32_t answers_n, answers_cap;
    struct arrival *arrivals; /* one a turn of the loop */
    uint32_t arrivals_n, arrivals_cap;
    uint32_t literals_count; /* of the answers, how many are of no write; a write's may be a literal, too */
    uint64_t epoch;          /* of the use; entries with another epoch are not of it */
    uint64_t weight;         /* sum of |delta|: bounded, so that no sum of the frame overflows */
    enum group_state state;
    bool undone;   /* known not to have run: what it did to journals is taken back until it is sent again */
    bool given_up; /* its clients were told "outcome unknown": never sent again */
    bool astray;   /* when last sent, it was refused since its slot is moving: nothing of it ran */
    bool unheard;  /* an old link may run it yet: no number was there that it watches */
    uint64_t doubt_ms; /* mono: since when in doubt */
    struct buf literals;
    /* Hash of key and field -> its cell's number + 1, 0: free. The first cell of a hash is in hash_entry instead. */
    uint32_t *further;
    uint32_t further_n, further_cap;
    struct op_slots op_slots;
    uint32_t
        op_quarters; /* what tokens, ops of clients, and events of hits, count as, in quarters of a cell */
};

void group_init(struct group *g, uint32_t cells_max);
void group_close(struct group *g);
void group_reuse(struct group *g, uint64_t epoch); /* empty and collecting */

struct frame_hash *group_hash(struct group *g,
                              struct hash_entry *e); /* e's place in the frame; adds and pins it when new */
/* The number of a field's cell, or GROUP_NO_CELL; then *code is for group_add_cell. */
#define GROUP_NO_CELL UINT32_MAX
uint32_t group_find(const struct group *g, const struct hash_entry *e, struct slice field, uint64_t *code);
/* raw: key and field, as their bytes came (frame_cell.raw); field points into it. Returns its number. */
uint32_t group_add_cell(struct group *g, struct hash_entry *e, struct slice raw, struct slice field,
                        uint64_t code, int64_t delta);
void group_expect(struct group *g, struct outlet *o, uint32_t cell, int64_t upto);
void group_expect_literal(struct group *g, struct outlet *o, struct slice bytes);
void group_hush(struct group *g, const struct outlet *o, uint32_t n); /* the last n, all of o, say nothing */
void group_unpin(struct group *g);
void group_arrived(struct group *g, uint64_t us); /* what came since the last call came then */

/* Writes every answer into its outlet: values and errors of cells as filed, literals as they are. Each outlet that got
 * something is put on `touched`, once. The second function skips outlets whose answers are `behind` another group. */
void group_answer(struct group *g, struct list *touched);
void group_answer_free_ones(struct group *g, struct list *touched);
void group_refused(const struct group *g, struct slice error); /* counts its hits as refused */
void group_fail(struct group *g, struct slice line); /* every hit's answer becomes the literal "-line\r\n" */
/* Removes hashes and cells; the answers (literals by now) and the corrections in shares remain. */
void group_drop_frame(struct group *g, uint64_t epoch);
void group_correct(struct group *g, const struct counter *c,
                   int64_t delta);                    /* a share beside those of the cells */
static inline bool group_works(const struct group *g) /* clients' hits, tokens or ops are in it */
{
    return g->frame.cells_n > 0 || g->frame.tokens_n > 0 || g->frame.ops_n > 0;
}
static inline uint32_t group_cells(const struct group *g)
{
    return g->frame.cells_n + (g->op_quarters + 3) / 4;
}
static inline uint32_t group_size(const struct group *g) /* what there is to do for us */
{
    return g->frame.cells_n + g->frame.tokens_n + g->frame.ops_n;
}
static inline bool group_empty(const struct group *g)
{
    return !group_works(g) && g->frame.shares_n == 0 && g->answers_n == 0;
}

/* An error reply, appended to out. */
void answer_error(struct buf *out, struct slice line);
/* The value before hits of the sum `later` came, when it is `value` after them. +n and -n may fit together where +n
 * alone would not. Then the value before does not fit int64, and the limit it passed is the answer. */
static inline int64_t answer_running(int64_t value, int64_t later)
{
    int64_t before;
    if (!__builtin_sub_overflow(value, later, &before)) return before;
    return later > 0 ? INT64_MIN : INT64_MAX;
}
void ops_answer(const struct group *g, const struct answer *a, struct buf *out);    /* ops.c */
void tokens_answer(const struct group *g, const struct answer *a, struct buf *out); /* tokens.c */

#endif
