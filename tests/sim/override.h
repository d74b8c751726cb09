/* tests/sim/override.h - replaces base/rand.c and base/log.c: randomness from the seed, log lines in the trace, and a
 * failed check that names the seed before it ends the process. */
#ifndef SIM_OVERRIDE_H
#define SIM_OVERRIDE_H

struct world;
void override_begin(struct world *w); /* NULL: no run is under way */

#endif
