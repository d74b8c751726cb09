/* tests/sim/main.c - sim_run: the real src/coalesce and src/sync, and of src/redis what writes frames and files their
 * answers (filing.c), against an in-memory Redis and MySQL, in thousands of seeded crash schedules a second.
 *
 * - scheduler.c draws by weight what happens next, of events.c: a hit, a loop turn, a reply, a step of Redis
 *   or of a MySQL transaction, time, a cut, a crash, a rollback, a pause ... then all comes to rest, calmly
 * - redis_twin.c is Redis as tallyd uses it, with a log whose tail can be lost, down to the last fence
 * - over several lanes (profile `lanes`) there are as many Redis, and a life has a coalesce and a sync for each
 * - moves.c has the other server: a failover promotes it, and links follow one by one
 * - link.c has connections, whose ends break one at a time: what a server has not read may still run
 * - table.c has the counters, of three shapes, and the rows that their hashes and fields mean
 * - mysql_twin.c has rows, which the shop may make and delete (profile `missing`), ledger, transactions whose COMMIT is lost on the way there or back, or read late
 * - daemon.c wires coalesce and sync as the service does (ports.c out, deliver.c back; questions.c has what is asked of
 *   MySQL apart from merging, journals.c how journals are taken over), on a heap (arena.c) that a crash takes away at once,
 *   and that must be empty after a clean end
 * - oracle.c knows, since the k-th hit on a field adds or takes 4^k, which hits are in any sum. Every hit must be once
 *   in MySQL if Redis' history has it; in the history if its client was told so, unless an unfenced tail was
 *   lost later, and then frames_lost named it; never twice; never after a refusal. Running values are exact, tally:accepted
 *   balances, CTR.SYNC, CTR.TOTAL and complete_until tell the truth, nothing is left over, nothing leaks
 * - rules.c names the rules (coalesce/README.md, sync/README.md) that can be taken out, each with a profile that brings its fault
 *
 * - sim_run [--seed N] [--seeds N] [--daemons N] [--jobs N] [--rule-off NAME | --profile NAME] [--trace]
 * - sim_run --prove NAME: the rule out, its fault is found within the bound of rules.c, which also says where the search begins;
 *   in, twice as many seeds as that took pass; at least 500, unless these are the schedules of a rule or a profile that is
 *   above it in rules.c, or of any profile
 * - sim_run --list
 *
 * Exit status: 0 all as it should be, 1 a fault, 64 usage. */
#include "sim/main.h"

#include "base/sm.h"
#include "sim/rules.h"
#include "sim/world.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
    uint64_t seed, seeds;
    unsigned daemons, jobs;
    bool trace, rule_off, prove;
    const struct sim_rule *rule;
};

#define SOUND_LEAST 500

static struct options options = {.seed = 1, .seeds = 1, .jobs = 1};

void sim_print_rerun(const struct sim_config *c)
{
    fprintf(stderr, "run it again: sim_run --seed %llu", (unsigned long long)c->seed);
    if (options.daemons != 0) fprintf(stderr, " --daemons %u", options.daemons);
    if (options.rule != NULL)
        fprintf(stderr, " --%s %s", options.rule_off ? "rule-off" : "profile", options.rule->name);
    fprintf(stderr, " --trace\n");
}

static void configure(struct sim_config *c, const struct sim_rule *rule, uint64_t seed)
{
    sim_config_draw(c, seed, options.daemons);
    if (rule == NULL) return;
    rule->profile(c);
    if (options.daemons != 0) c->daemons = options.daemons;
    if (options.rule_off)
        c->world_off |= rule->world_off;
    else
        c->world_off &= ~rule->world_off;
    c->lanes_off = options.rule_off ? rule->lanes_off : 0;
    c->rule_out = options.rule_off;
    coalesce_rules_off = rule->coalesce_too | (options.rule_off ? rule->coalesce_off : 0);
    sync_rules_off = rule->sync_too | (options.rule_off ? rule->sync_off : 0);
}

static enum fault run_seed(struct world *w, uint64_t seed)
{
    struct sim_config c;
    configure(&c, options.rule, seed);
    world_run(w, &c);
    return w->oracle.fault;
}

static void print_config(const struct sim_config *c)
{
    fprintf(
        stderr,
        "config: daemons %u, counters %u, hashes %u, fields %u, steps %u, hits %u, faults %u, cells_max %u, "
        "answers_max %u, entries_max %u, runs_max %u, claims_max %u, chunk_rows %u, hits due %lld, every %u "
        "s, "
        "rows_burst %u, world_off %#llx\n",
        c->daemons, c->counters, c->hashes, c->fields, c->steps, c->hits_most, c->faults_most,
        c->coalesce.cells_max, c->coalesce.answers_max, c->coalesce.entries_max, c->sync.runs_max,
        c->sync.claims_max, c->chunk_rows[0], (long long)c->counter_hits, c->every_s, c->sync.rows_burst,
        (unsigned long long)c->world_off);
}

/* The same seed again, with its trace: which also shows that a seed is all that a run depends on. */
static void report(struct world *w, uint64_t seed)
{
    enum fault fault = w->oracle.fault;
    uint64_t step = w->oracle.step;
    if (!sim_tracing) {
        sim_tracing = true;
        run_seed(w, seed);
        sim_tracing = false;
        if (w->oracle.fault != fault || w->oracle.step != step)
            fprintf(stderr, "the run did not repeat itself: it depends on more than its seed\n");
    }
    print_config(&w->config);
    fprintf(stderr, "seed %llu: %s, step %llu: %s\n", (unsigned long long)seed, fault_name(fault),
            (unsigned long long)step, w->oracle.text);
    sim_print_rerun(&w->config);
}

/* Runs every jobs-th seed; false: one failed. */
static bool run_share(struct world *w, unsigned share)
{
    for (uint64_t i = share; i < options.seeds; i += options.jobs) {
        if (run_seed(w, options.seed + i) == FAULT_NONE) continue;
        report(w, options.seed + i);
        return false;
    }
    return true;
}

static bool run_all(struct world *w)
{
    if (options.jobs == 1) return run_share(w, 0);
    bool good = true;
    for (unsigned share = 0; share < options.jobs; share++) {
        pid_t pid = fork();
        if (pid == 0) {
            bool passed = run_share(w, share);
            free(w);
            exit(passed ? 0 : 1);
        }
        good &= pid > 0;
    }
    int status;
    while (wait(&status) > 0)
        good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good;
}

/* The first seed whose run fails; 0: none within the bound. */
static uint64_t first_failure(struct world *w, uint64_t seeds)
{
    for (uint64_t seed = options.seed; seed < options.seed + seeds; seed++)
        if (run_seed(w, seed) != FAULT_NONE) return seed;
    return 0;
}

/* With both rules in, do their seeds give the same schedules? All else that configure() sets is the profile's. */
static bool same_schedules(const struct sim_rule *a, const struct sim_rule *b)
{
    if (a->profile != b->profile || a->coalesce_too != b->coalesce_too || a->sync_too != b->sync_too)
        return false;
    for (uint64_t seed = 1; seed <= SOUND_LEAST; seed++) {
        struct sim_config of_a, of_b;
        configure(&of_a, a, seed);
        configure(&of_b, b, seed);
        if (of_a.world_off != of_b.world_off) return false;
    }
    return true;
}

static bool is_first_of_its_schedules(const struct sim_rule *rule)
{
    for (const struct sim_rule *other = sim_rules; other < sim_rules + sim_rules_n; other++)
        if ((other < rule || other->seeds == 0) && same_schedules(rule, other)) return false;
    return true;
}

/* As many as it took to show the fault without the rule, and as many again, where the bound allows. Rules share schedules: one of them is
 * enough to see that these are sound. */
static uint64_t sound_seeds(const struct sim_rule *rule, uint64_t took)
{
    uint64_t least = is_first_of_its_schedules(rule) ? SOUND_LEAST : 1;
    uint64_t seeds = 2 * took > least ? 2 * took : least;
    return seeds < rule->seeds ? seeds : rule->seeds;
}

static bool prove(struct world *w)
{
    const struct sim_rule *rule = options.rule;
    options.rule_off = true;
    options.seed = sim_rule_first_seed(rule);
    uint64_t found = first_failure(w, rule->seeds);
    if (found == 0) {
        printf("%s: without it nothing was found in %u seeds from %llu on\n", rule->name, rule->seeds,
               (unsigned long long)options.seed);
        return false;
    }
    printf("%s: without it (%s) seed %llu, of at most %u from %llu on, shows %s: %s\n", rule->name,
           rule->without, (unsigned long long)found, rule->seeds, (unsigned long long)options.seed,
           fault_name(w->oracle.fault), w->oracle.text);
    if ((rule->faults & 1U << w->oracle.fault) == 0) {
        report(w, found);
        return false;
    }
    options.rule_off = false;
    uint64_t sound = sound_seeds(rule, found - options.seed + 1);
    uint64_t failed = first_failure(w, sound);
    if (failed != 0) report(w, failed);
    if (failed == 0)
        printf("%s: with it the first %llu of these pass\n", rule->name, (unsigned long long)sound);
    return failed == 0;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: sim_run [--seed N] [--seeds N] [--daemons N] [--jobs N] [--rule-off NAME | --profile NAME |"
        " --prove NAME] [--trace] | --list\n");
    return 64;
}

static int list_rules(void)
{
    for (unsigned i = 0; i < sim_rules_n; i++)
        printf("%-20s %s\n", sim_rules[i].name, sim_rules[i].without);
    return 0;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && *out <= most;
}

static const struct option long_options[] = {
    {"seed", required_argument, NULL, 's'},     {"seeds", required_argument, NULL, 'n'},
    {"daemons", required_argument, NULL, 'd'},  {"jobs", required_argument, NULL, 'j'},
    {"rule-off", required_argument, NULL, 'o'}, {"profile", required_argument, NULL, 'p'},
    {"prove", required_argument, NULL, 'v'},    {"trace", no_argument, NULL, 't'},
    {"list", no_argument, NULL, 'l'},           {NULL, 0, NULL, 0}};

static bool take_option(int letter)
{
    uint64_t n = 0;
    switch (letter) {
    case 's':
        return parse_number(optarg, UINT64_MAX, &options.seed);
    case 'n':
        return parse_number(optarg, UINT64_MAX, &options.seeds);
    case 'd':
        if (!parse_number(optarg, SIM_DAEMONS, &n) || n == 0) return false;
        options.daemons = (unsigned)n;
        return true;
    case 'j':
        if (!parse_number(optarg, 64, &n) || n == 0) return false;
        options.jobs = (unsigned)n;
        return true;
    case 't':
        options.trace = true;
        return true;
    case 'o':
    case 'p':
    case 'v':
        options.rule = sim_rule_find(optarg);
        options.rule_off = letter == 'o';
        options.prove = letter == 'v';
        return options.rule != NULL && (letter == 'p' || options.rule->seeds > 0);
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    for (int letter; (letter = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (letter == 'l') return list_rules();
        if (!take_option(letter)) return usage();
    }
    if (optind < argc) return usage();
    arena_install();
    sim_tracing = options.trace;
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL) return 1;
    bool good = options.prove ? prove(w) : run_all(w);
    free(w);
    return good ? 0 : 1;
}
