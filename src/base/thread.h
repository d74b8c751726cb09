/* base/thread.h - what a thread asks of the kernel: hits come first. Without effect where the kernel does not know it, a filter of
 * system calls forbids it, or an operator gave the service another scheduling policy than the usual one. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

/* The loop: it sleeps often and works little at a time, so it asks for short slices, and is let run sooner when it wakes
 * (Linux 6.12; sched(7), sched_runtime of SCHED_OTHER). */
void thread_prompt(void);

/* What computes behind the loop: that many steps of nice behind the process, and the kernel's own slice. Again: nothing more. What
 * merges takes few, or a busy machine merges too late: each step is a quarter less of a processor that is wanted by all. */
#define BEHIND_MERGING 2
#define BEHIND_READING 10
void thread_behind(int steps);

#endif
