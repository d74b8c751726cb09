/* sim/lanes.c - clients over several lanes (lib/lane_clients.h, which says what must hold), as the seed's dice fall.
 *
 *   sim_lanes [--seed N] [--seeds N] [--lanes N]     N seeds from N on; the first that fails is named, and aborts. One alone
 *                                                    is run with the log */
#include "base/log.h"
#include "lib/dice.h"
#include "lib/lane_clients.h"

#include <getopt.h>
#include <signal.h>

#define STEPS 120

static struct dice dice;
static uint64_t seed_now;
static unsigned steps;

static uint64_t draw(uint64_t n)
{
    return dice_below(&dice, n);
}

static bool steps_left(void)
{
    return steps++ < STEPS;
}

static void seed_runs(uint64_t seed)
{
    dice = (struct dice){seed};
    steps = 0;
    world_runs(command_create, steps_left);
    command_destroy(&command);
}

static void on_abort(int number)
{
    (void)number;
    fprintf(stderr, "failed: sim_lanes --lanes %u --seed %llu\n", lanes_n, (unsigned long long)seed_now);
}

static void seeds_run(uint64_t first, uint64_t n)
{
    signal(SIGABRT, on_abort);
    log_set_level(n > 1 ? (enum log_level)(LOG_ERROR + 1)
                        : LOG_DEBUG); /* an unknown outcome is no error here */
    for (seed_now = first; seed_now < first + n; seed_now++)
        seed_runs(seed_now);
    printf("%llu seeds: %llu hits counted, %llu refused, %llu unknown, %llu not told\n",
           (unsigned long long)n, (unsigned long long)told[TOLD_COUNTED],
           (unsigned long long)told[TOLD_REFUSED], (unsigned long long)told[TOLD_UNKNOWN],
           (unsigned long long)told[TOLD_NOTHING]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"seeds", required_argument, NULL, 'n'},
                                            {"lanes", required_argument, NULL, 'l'},
                                            {0}};
    uint64_t seed = 0, seeds = 1;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's') seed = strtoull(optarg, NULL, 10);
        if (c == 'n') seeds = strtoull(optarg, NULL, 10);
        if (c == 'l') lanes_n = (uint32_t)strtoul(optarg, NULL, 10);
    }
    PRE(lanes_n >= 2 && lanes_n <= LANES_MOST);
    seeds_run(seed, seeds);
    return 0;
}
