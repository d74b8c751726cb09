/* tests/sim/filing.h - frames are written, and what Redis answers is filed, by redis/ itself, over a link that goes nowhere:
 * the bytes are dropped, and the answers made of what the twin ran. */
#ifndef SIM_FILING_H
#define SIM_FILING_H

#include "sim/daemon.h"

void filing_open(struct process *life);
void filing_close(struct process *life);
void filing_send(struct process *life, struct frame *f);
void filing_read_values(struct process *life, struct frame *f);
/* Calls coalesce_on_frame, coalesce_on_values. */
void filing_answer(struct process *life, struct frame *f, const struct wire_frame *wire);
void filing_answer_values(struct process *life, struct frame *f, const struct wire_frame *wire);
void filing_cut(struct process *life); /* before coalesce_cut() */

#endif
