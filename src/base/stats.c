/* base/stats.c - the one set of numbers that /metrics, INFO and `tallyd status` read. */
#include "base/stats.h"

struct stats stats;
