/* tests/sim/questions.h - what a service asks of MySQL apart from merging: one question after the other, each in one step. */
#ifndef SIM_QUESTIONS_H
#define SIM_QUESTIONS_H

#include "sim/daemon.h"

/* Answered later, in one step. */
void questions_ask(struct process *life, void (*answer)(struct process *life, void *target), void *target);
void questions_wire(struct process *life);   /* makes the machines that ask */
void questions_answer(struct process *life); /* the oldest */
void questions_forget(struct process *life);

#endif
