/* status/judge.c - the faults of a look, each with the next step. */
#include "status/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define LATE_TIMES                                                                                           \
    3 /* a hash is merged after `every` at the latest; so often that, and LATE_MS, is no hiccup */
#define LATE_MS 30000

#define STALLED_NEXT "its log says what fails (event=fence_lost, merge_waits, link_down, mysql_down)"

struct judging {
    const struct status *s;
    status_problem *problem;
    void *arg;
    enum err worst;
};

static void found(struct judging *j, enum err code, const char *next, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
static void found(struct judging *j, enum err code, const char *next, const char *what, ...)
{
    char text[1200];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof text, what, args);
    va_end(args);
    if (j->worst == ERR_NONE || code == ERR_UNAVAILABLE) j->worst = code;
    j->problem(j->arg, text, next);
}

static void servers_judge(struct judging *j)
{
    const struct status *s = j->s;
    if (!s->redis.up && s->redis.lane == NULL)
        found(j, ERR_UNAVAILABLE,
              strstr(s->redis.why, "NOPERM") != NULL ? "give tallyd's user in Redis that right (`redis-cli "
                                                       "ACL LOG` has it); hits are refused meanwhile"
                                                     : "see that it runs, and that redis.url and its "
                                                       "password are right; hits are refused meanwhile",
              "%s", s->redis.why);
    if (s->redis.up && s->redis.unfit[0] != '\0' && s->service.held[0] == '\0')
        found(j, ERR_FAILED, "until then tallyd merges nothing, or refuses hits; then it goes on by itself",
              "Redis is not fit: %s", s->redis.unfit);
    if (!s->mysql.up)
        found(j, ERR_UNAVAILABLE,
              "see that it runs, and that mysql.url and its password are right; hits are counted "
              "meanwhile, and merged when it is back",
              "%s", s->mysql.why);
    else if (!s->mysql.read)
        found(j, ERR_FAILED, "`tallyd migrate` makes tallyd's tables, `tallyd check` names what is wrong",
              "MySQL: %s", s->mysql.why);
    if (s->mysql.up && s->mysql.read_only)
        found(j, ERR_FAILED, "SET GLOBAL read_only = 0, or name the server that takes writes in mysql.url",
              "MySQL is read-only, so nothing is merged");
    if (s->redis.up && s->redis.replicas < s->redis.replicas_wanted)
        found(j, ERR_FAILED, "bring one back, or lower redis.replicas; hits are counted meanwhile",
              "Redis has %" PRId64 " of the %" PRId64 " replicas that must have a batch before it is merged",
              s->redis.replicas, s->redis.replicas_wanted);
    int64_t used =
        s->redis.memory_most_bytes > 0 ? s->redis.memory_bytes * 100 / s->redis.memory_most_bytes : 0;
    if (s->redis.up && used >= STATUS_MEMORY_PERCENT)
        found(j, ERR_FAILED,
              "give it more memory (maxmemory), or delete what is not tallyd's; full, it refuses hits",
              "Redis uses %" PRId64 " %% of its memory", used);
    if (s->redis.up && s->redis.aof_on && !s->redis.aof_writes)
        found(j, ERR_FAILED, "make room on its disk, then see aof_last_write_status in redis-cli INFO",
              "Redis cannot write its AOF, and refuses hits");
}

static void service_judge(struct judging *j)
{
    const struct status_service *v = &j->s->service;
    if (!v->up && v->secure)
        found(j, ERR_FAILED, SERVICE_SECURE_NEXT, "tallyd does not answer: %s", v->why);
    else if (!v->up)
        found(j, ERR_FAILED,
              "start it: `systemctl start tallyd` (of several on one port tallyd@NAME), or `tallyd run`; the "
              "hits "
              "that it counted wait in Redis",
              "no tallyd runs: %s", v->why);
    else if (!v->redis_up && j->s->redis.up)
        found(j, ERR_FAILED, "its log says why (event=redis_down)",
              "the service has no link to Redis, which answers here");
    else if (!v->mysql_up && j->s->mysql.up)
        found(j, ERR_FAILED, "its log says why (event=mysql_check)",
              "the service does not merge into MySQL, which answers here");
}

static void lanes_judge(struct judging *j)
{
    const struct status *s = j->s;
    for (uint32_t i = 0; s->redis.lane != NULL && i < s->redis.lanes; i++)
        if (!s->redis.lane[i].up)
            found(j, ERR_UNAVAILABLE,
                  "see that its node runs; hits of its stores are refused, those of others are counted",
                  "lane %u of %u: %s", i, s->redis.lanes, s->redis.lane[i].why);
    if (s->redis.up && s->service.up && s->service.lanes_up < s->service.lanes)
        found(j, ERR_FAILED, "its log says why (event=redis_down)",
              "the service has %" PRId64 " of its %" PRId64 " lanes, though all answer here",
              s->service.lanes_up, s->service.lanes);
}

/* What to do when hits are refused for that reason. */
static const struct {
    const char *reason, *next;
} refusals_next[] = {
    {"no_counter",
     "give the app's key a counter in the configuration, or take the prefix out of the app's client"},
    {"field", "send a field of the counter's kind, or change its `field`"},
    {"value", "the app sends no integer, or one above limits.hit"},
    {"oom", "give Redis more memory (maxmemory), or delete what is not tallyd's"},
    {"noperm",
     "give the app's user its keys and commands (users.*), or tallyd's in Redis (`redis-cli ACL LOG` names "
     "them)"},
    {"noauth", "give the app the name and password of its user (users.*)"},
    {"readonly", "redis.url leads to a replica: name the primary, or its sentinels"},
    {"wrongtype", "another program uses that key: give tallyd keys, or a database, of its own"},
    {"other", "the error says what the app should send"},
    {"busy", "Redis does not keep up: see its slow log and its processor"},
};

/* Apps that look at no reply lose these hits. */
static void status_refusals_judge(struct judging *j)
{
    const struct status_service *v = &j->s->service;
    for (size_t i = 0; v->up && i < v->refusal_n; i++) {
        const struct status_refusal *r = &v->refusal[i];
        const char *next = "see what Redis says, and the log (event=hits_refused)";
        for (size_t k = 0; k < sizeof refusals_next / sizeof *refusals_next; k++)
            if (strcmp(refusals_next[k].reason, r->reason) == 0) next = refusals_next[k].next;
        bool away = strcmp(r->reason, "masterdown") == 0; /* servers_judge() says so while it is */
        if (r->minute > 0 && !away)
            found(j, ERR_FAILED, next,
                  "hits are refused: %" PRId64 " in the last minute, %" PRId64 " in all: %s", r->minute,
                  r->all, r->why);
    }
}

static void sentinels_judge(struct judging *j)
{
    const struct status_service *v = &j->s->service;
    if (v->sentinels_up < v->sentinels_majority)
        found(j, ERR_FAILED,
              "bring them back, or see that redis.sentinels is right; hits are counted meanwhile",
              "%" PRId64 " of the %" PRId64 " sentinels answer%s, and a majority is %" PRId64
              ": they cannot fail Redis over",
              v->sentinels_up, v->sentinels, v->sentinels_up == 1 ? "s" : "", v->sentinels_majority);
}

static void holds_judge(struct judging *j)
{
    const struct status *s = j->s;
    if (s->redis.nameless && s->service.held[0] != '\0')
        found(j, ERR_FAILED, "run one of the two, once you know which is true", "all merges are held: %s",
              s->service.held);
    else if (status_rolled_back(s))
        found(j, ERR_FAILED,
              "find out what Redis lost, then run `tallyd recover --accept-rollback`; counting goes on",
              "all merges are held: Redis was rolled back, its gen is %" PRIu64 ", the ledger has %" PRIu64,
              s->redis.gen, s->mysql.gen);
    else if (s->service.held[0] != '\0')
        found(j, ERR_FAILED, "what to do is said with it; counting goes on", "all merges are held: %s",
              s->service.held);
    for (size_t i = 0; i < s->schema.n; i++) {
        const struct schema_finding *f = &s->schema.all[i];
        const char *next = f->mend != NULL ? f->mend : "`tallyd check` says more";
        if (f->level == SCHEMA_REFUSE && f->counter == NULL)
            found(j, ERR_FAILED, next, "nothing is merged: %s", f->reason);
        if (f->level == SCHEMA_REFUSE && f->counter != NULL)
            found(j, ERR_FAILED, next, SLICE_FMT " is not merged: %s", SLICE_ARG(f->counter->name),
                  f->reason);
    }
}

static void batches_judge(struct judging *j)
{
    size_t unknown = 0;
    const char *name = "";
    char id[33];
    for (size_t i = 0; i < j->s->batches_n; i++) {
        const struct status_batch *b = &j->s->batches[i];
        batch_id_hex(&b->id, id);
        if (b->held[0] != '\0')
            found(j, ERR_FAILED,
                  strncmp(b->held, "rows_refused", 12) == 0
                      ? "mend what MySQL says; once it takes other rows of the counter, these become rejects"
                      : "the log says more (event=batch_held); `tallyd check` names what MySQL refuses",
                  "batch %s of %s is held: %s", id, b->counter, b->held);
        if (b->format >= 0 && !batch_format_known(b->format)) {
            found(j, ERR_FAILED, "the version of tallyd that claimed it merges it, or a newer one",
                  "batch %s of %s is of format %" PRId64 ", which this tallyd does not know", id, b->counter,
                  b->format);
            continue;
        }
        if (b->configured) continue;
        unknown++;
        name = b->counter;
    }
    if (unknown > 0)
        found(j, ERR_FAILED, "put it back into the configuration, or `tallyd recover --reject-unknown`",
              "%zu batch%s belong%s to a counter (%s) that is not configured", unknown,
              unknown == 1 ? "" : "es", unknown == 1 ? "s" : "", name);
}

static void counter_judge(struct judging *j, const struct status_counter *c)
{
    struct slice name = c->counter->name;
    if (c->stalled[0] != '\0')
        found(j, ERR_FAILED, STALLED_NEXT,
              "merging does not go on: " SLICE_FMT
              " is due, and nothing of it was merged for sync.every and 30 s (%s)",
              SLICE_ARG(name), c->stalled);
    if (c->stores_wait[0] != '\0')
        found(j, ERR_FAILED,
              "mend what MySQL refuses (`tallyd rejects list`), end what locks the rows; they go on by "
              "themselves, at most 10 minutes later",
              SLICE_FMT ": stores wait: %s", SLICE_ARG(name), c->stores_wait);
    int64_t most_ms = (int64_t)c->counter->every_s * 1000 * LATE_TIMES + LATE_MS;
    if (c->rejects.known && c->rejects.value > 0)
        found(j, ERR_FAILED,
              "`tallyd rejects list` says why; mend it, then `tallyd rejects replay --all`, or `drop`",
              SLICE_FMT ": MySQL refused %" PRId64 " row%s", SLICE_ARG(name), c->rejects.value,
              c->rejects.value == 1 ? "" : "s");
    if (c->oldest_ms.known && c->oldest_ms.value > most_ms)
        found(j, ERR_FAILED,
              "see that the service runs and MySQL takes writes; its log says what prevents merging",
              SLICE_FMT ": its oldest hit has waited for %" PRId64 " s, and sync.every is %u s",
              SLICE_ARG(name), c->oldest_ms.value / 1000, c->counter->every_s);
}

static void strays_judge(struct judging *j)
{
    const struct status *s = j->s;
    if (s->service.stalled[0] != '\0')
        found(j, ERR_FAILED, STALLED_NEXT,
              "merging has stopped: tallyd cannot read the batches that it adopted (%s)", s->service.stalled);
    char shown[80] = "";
    if (s->redis.held_names_n > 0) slice_show(slice_str(s->redis.held_names[0]), 60, shown, sizeof shown);
    if (s->redis.up && s->redis.held > 0)
        found(j, ERR_FAILED,
              "give them a counter in the configuration, or delete them and their names in tally:held",
              "%" PRId64 " hash%s in Redis belong%s to no counter: %s%s", s->redis.held,
              s->redis.held == 1 ? "" : "es", s->redis.held == 1 ? "s" : "", shown,
              s->redis.held == 1 ? "" : " ...");
    if (s->service.leftovers.known && s->service.leftovers.value > 0)
        found(j, ERR_FAILED, "`tallyd recover --dry-run` names them, `tallyd recover` merges them",
              "%" PRId64 " claimed hashes are left that no batch knows", s->service.leftovers.value);
    if (s->books.sums.realm != REALM_OURS && s->service.held[0] == '\0')
        found(j, ERR_FAILED, "`tallyd verify` says why, and what to do", "%s", s->books.why);
    if (s->books.known && s->books.unbalanced > 0)
        found(j, ERR_FAILED, "`tallyd verify` says by how much, and what to do",
              "the books of %zu counter%s do not balance", s->books.unbalanced,
              s->books.unbalanced == 1 ? "" : "s");
}

enum err status_judge(const struct status *s, status_problem *problem, void *arg)
{
    struct judging j = {.s = s, .problem = problem, .arg = arg};
    servers_judge(&j);
    service_judge(&j);
    status_refusals_judge(&j);
    lanes_judge(&j);
    sentinels_judge(&j);
    holds_judge(&j);
    batches_judge(&j);
    for (size_t i = 0; i < s->counters_n; i++)
        counter_judge(&j, &s->counters[i]);
    strays_judge(&j);
    return j.worst;
}
