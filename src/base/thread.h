/* base/thread.h - what a thread asks of the kernel: hits come first. Without effect where the kernel does not know it, a filter of
 * system calls forbids it, or an operator gave the service another scheduling policy than the usual one. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

/* The loop: it sleeps often and works little at a time, so it asks for short slices, and is let run sooner when it wakes
 * (Linux 6.12; sched(7), sched_runtime of SCHED_OTHER). */
void thread_prompt(void);

/* What computes behind the loop: ten steps of nice behind the process, and the kernel's own slice. Again: nothing more. */
void thread_behind(void);

#endif
