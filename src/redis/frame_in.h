/* redis/frame_in.h - between frame_op.c and claim_op.c, which share the frame link. */
#ifndef REDIS_FRAME_IN_H
#define REDIS_FRAME_IN_H

#include "redis/frame_op.h"

/* READONLY, LOADING, MASTERDOWN: this connection is of no more use. */
void frames_cut_if_unfit(struct redis_frames *fr, const struct redis_answer *r);

#endif
