/* tests/sim/tokens.h - increments with a token: hits like all others, each followed by its k, but sent up to three times, by any
 * client of any daemon, whatever was answered before. However often it is sent, it is in Redis' history once. */
#ifndef SIM_TOKENS_H
#define SIM_TOKENS_H

#include "sim/model.h"

#define SIM_TOKENS 32 /* of a frame */
#define SIM_SENDS 3   /* of one hit */

struct wire_token {
    int hash, field;
    unsigned k;
    int64_t delta;
    bool is_new, stands; /* replies; stands: read after a cut */
    int64_t value;
    const char *error; /* as a cell's */
};

struct twin_tokens {
    uint32_t has[SIM_HASHES][SIM_HIT_FIELDS]; /* set of k */
    int64_t value[SIM_HASHES][SIM_HIT_FIELDS][SIM_HITS];
};

struct world;
struct process;
struct wire_frame;
struct execution;
struct redis;
struct outlet;
struct hit;

/* The way of a frame. */
void tokens_to_wire(struct process *life, struct wire_frame *wire, const struct frame *f);
void tokens_run(struct world *w, struct wire_frame *f);
bool tokens_later(const struct world *w,
                  const struct wire_frame *f); /* rule out: written in a step of their own */
void tokens_write(struct world *w, const struct wire_frame *f);
void tokens_executed(struct world *w, const struct wire_frame *f, struct execution *e);
void tokens_read(struct redis *r, struct wire_frame *f); /* GET of each */
void tokens_each(struct world *w, const struct execution *e, bool only_new, void (*act)(struct hit *hit));

/* A client's request. */
bool tokens_draw(struct world *w, int *hash, int *field,
                 unsigned *k);                    /* one to send again; false: there is none */
bool tokens_fit(const struct world *w, int hash); /* its counter feeds nothing */
enum add_result tokens_send(struct process *life, struct outlet *o, int hash, int field, unsigned k);

#endif
