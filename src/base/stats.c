/* base/stats.c - the one set of numbers that INFO reads. */
#include "base/stats.h"

struct stats stats;
