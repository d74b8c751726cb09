/* tests/sim/main.h - see main.c. */
#ifndef SIM_MAIN_H
#define SIM_MAIN_H

#include "sim/model.h"

void sim_print_rerun(const struct sim_config *c); /* the command that shows this run again */

#endif
