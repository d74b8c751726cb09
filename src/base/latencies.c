/* base/latencies.c - the one set of them. */
#include "base/latencies.h"

struct latencies latencies;
