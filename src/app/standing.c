/* app/standing.c - the state of the service in one line: the worst first, then what moves. */
#include "app/service.h"
#include "base/stats.h"
#include <stdio.h>

/* Whose gate is shut, if one is. */
static const struct lane *worst_lane(const struct service *s)
{
    const struct lane *worst = s->lanes;
    EACH_LANE (l, s) {
        const struct gate *gate = &l->core.gate;
        if (gate->rolled_back) return l;
        if (!gate_open(gate)) worst = l;
    }
    return worst;
}

static const char *state_of(const struct service *s)
{
    const struct gate *gate = &worst_lane(s)->core.gate;
    uint32_t up = service_lanes_up(s);
    if (s->stage == STAGE_STARTING) return "starting";
    if (s->stage != STAGE_RUNNING) return "stopping: sends answers, ends merges";
    if (up == 0) return "Redis is away: hits are refused";
    if (up < s->lanes_n) return "a part of the cluster is away: its hits are refused";
    if (gate->rolled_back) return gate->text;
    if (!gate->mysql_up) return "counts; MySQL is away, so hits wait in Redis";
    if (gate->asks) return "counts; asks whether a tallyd lives that merges for another Redis of its realm";
    if (!gate_open(gate)) return "counts; merging waits until MySQL and its tables fit";
    if (STAT_GET(batches_held) > 0) return "counts; batches are held, the log says why";
    return "counts and merges";
}

void service_status(const struct service *s, char *out, size_t size)
{
    snprintf(out, size, "%s; clients %lld, hits %lld, rows merged %lld, fields on their way %lld",
             state_of(s), (long long)STAT_GET(connections_open), (long long)STAT_GET(hits),
             (long long)STAT_GET(rows_merged), (long long)STAT_GET(fields_in_flight));
}
