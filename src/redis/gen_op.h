/* redis/gen_op.h - tally:gen, which counts the claims of this Redis: read to find out whether it lost some.
 * */
#ifndef REDIS_GEN_OP_H
#define REDIS_GEN_OP_H

#include "redis/link.h"

struct redis_gen {
    uint64_t least; /* 0: only reads. Else raises tally:gen to it when it is lower (--accept-rollback). */
    uint64_t gen;   /* out: as it stands then; 0: there is none */
    bool lost;      /* link lost or an error; text */
    char text[200];
    void (*done)(struct redis_gen *g); /* once */
    void *arg;
};
void redis_gen(struct redis_link *l, struct redis_gen *g);

#endif
