/* admin/check.c - `tallyd check`: everything that would keep tallyd from running, each with its correction. */
#include "admin/verbs.h"
#include "base/heap.h"
#include "mysql/ledger.h"
#include "mysql/schema.h"
#include "redis/check_op.h"
#include "redis/seek.h"
#include "setup/setup.h"
#include "status/ask.h"
#include "status/status.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Corrects the first fault that redis_check_facts finds and that is not corrected yet. */
static void facts_mend(struct redis_facts *f, unsigned step)
{
    switch (step) {
    case 0:
        f->version = f->version < 70000 ? 70000 : f->version;
        return;
    case 1:
        f->master = true;
        return;
    case 2:
        snprintf(f->policy, sizeof(f->policy), "noeviction");
        return;
    case 3:
        f->aof_on = true;
        return;
    default:
        snprintf(f->appendfsync, sizeof(f->appendfsync), "everysec");
        return;
    }
}
#define MENDS 5

/* All that is wrong with a Redis: the check names the first fault, so it is repeated with that corrected. Adds a line
 * each; returns how many. at: which of several, else empty. */
static unsigned facts_problems(struct redis_facts facts, enum redis_keeps keeps, const char *at,
                               struct buf *out)
{
    char last[sizeof(((struct error *)0)->text)] = "";
    struct error e;
    unsigned n = 0;
    for (unsigned step = 0; redis_check_facts(&facts, keeps, &e) != ERR_NONE; step++) {
        if (strcmp(last, e.text) != 0) {
            buf_printf(out, "Redis%s: %s\n", at, e.text);
            snprintf(last, sizeof(last), "%s", e.text);
            n++;
        }
        if (step == MENDS) break;
        facts_mend(&facts, step);
    }
    return n;
}

static void sentinels_print(struct sentinels *s)
{
    struct sentinel_seen seen[SENTINELS_MAX];
    if (s == NULL) return;
    sentinels_hear_all(s, 1000);
    uint32_t n = sentinels_seen(s, seen);
    for (uint32_t i = 0; i < n; i++) {
        const struct sentinel_seen *one = &seen[i];
        printf("%sthe sentinel %s:%d ", one->state == SENTINEL_NAMES ? "" : "warning: ", one->at.host,
               one->at.port);
        if (one->state == SENTINEL_NAMES)
            printf("names %s:%d.\n", one->primary.host, one->primary.port);
        else if (one->state == SENTINEL_UNKNOWN)
            printf("knows no primary of that name.\n");
        else if (one->state == SENTINEL_REFUSES)
            printf("refuses tallyd: %s.\n", one->text);
        else
            printf("does not answer%s%s.\n", one->text[0] == '\0' ? "" : ": ", one->text);
    }
}

static void cluster_print(struct cluster *c, uint32_t lanes)
{
    struct cluster_seen seen[CLUSTER_NODES_MAX];
    if (c == NULL) return;
    uint32_t n = cluster_look(c, seen);
    for (uint32_t i = 0; i < n; i++) {
        const struct cluster_seen *one = &seen[i];
        printf("%sthe cluster node %s:%d ", one->state == CLUSTER_NAMES ? "" : "warning: ", one->at.host,
               one->at.port);
        if (one->state == CLUSTER_NAMES)
            printf("has %u of tallyd's %u slots.\n", one->own, lanes);
        else if (one->state == CLUSTER_UNOWNED)
            printf("knows of no node that has %s, in which tallyd counts.\n", one->text);
        else if (one->state == CLUSTER_OTHER)
            printf("is in another cluster: %s.\n", one->text);
        else if (one->state == CLUSTER_REFUSES)
            printf("refuses tallyd: %s.\n", one->text);
        else
            printf("does not answer%s%s.\n", one->text[0] == '\0' ? "" : ": ", one->text);
    }
}

struct lane_seen {
    char realm[33]; /* empty: it has none */
    struct redis_facts facts;
};

struct lanes_seen {
    struct lane_seen *all; /* heap */
    uint32_t n;
};

struct redis_check {
    struct ask ask;
    enum redis_keeps keeps;
    const struct counters *counters;
    struct buf problems;
    unsigned problems_n;
    struct lanes_seen *seen; /* so far */
};

static bool server_is_new(struct redis_check *c)
{
    struct lanes_seen *seen = c->seen;
    struct lane_seen *now = &seen->all[seen->n++];
    now->facts = c->ask.link.facts;
    if (!batch_id_is_zero(&c->ask.realms[c->ask.lane])) batch_id_hex(&c->ask.realms[c->ask.lane], now->realm);
    for (struct lane_seen *one = seen->all; one < now; one++)
        if (strcmp(one->facts.run_id, now->facts.run_id) == 0) return false;
    return true;
}

static bool is_refused(const struct redis_answer *r, const char *what)
{
    return r != NULL && answer_error_is(r, "NOPERM") &&
           memmem(r->str.p, r->str.n, what, strlen(what)) != NULL;
}

/* Redis asks for rights before it looks at arguments: on a key that is not there these change nothing. */
static void rights_check(struct redis_check *c, const char *at)
{
    static const char *const tried[] = {"EXISTS {}%s",   "TYPE {}%s",       "GET {}%s",
                                        "MGET {}%s",     "STRLEN {}%s",     "PTTL {}%s",
                                        "HGET {}%s f",   "HMGET {}%s f",    "HGETALL {}%s",
                                        "HSCAN {}%s 0",  "HLEN {}%s",       "HINCRBY {}%s f x",
                                        "HDEL {}%s f",   "SET {}%s v EX x", "DEL {}%s",
                                        "UNLINK {}%s",   "EXPIRE {}%s x",   "PERSIST {}%s",
                                        "ZADD {}%s x m", "ZREM {}%s m",     "ZSCORE {}%s m",
                                        "ZCARD {}%s",    "ZRANGE {}%s 0 1", "RENAMENX {}%s {}tally:check:2",
                                        "BITCOUNT {}%s", "PFCOUNT {}%s",    "EVAL return(1) 1 {}%s"};
    const char *key = "tally:check";
    struct redis_link *l = &c->ask.link;
    struct buf lacks = {0}, pattern = {0};
    if (is_refused(redis_call(l, tried[0], key), "access"))
        BUF_LIT(&lacks, " ~tally:*");
    else
        for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
            if (is_refused(redis_call(l, tried[i], key), "run"))
                buf_printf(&lacks, " +%.*s", (int)strcspn(tried[i], " "), tried[i]);
    for (size_t i = 0; i < c->counters->n; i++) {
        buf_reset(&pattern);
        pattern_text(&c->counters->all[i].key, &pattern);
        if (is_refused(redis_call(l, "EXISTS {}%.*s", SLICE_ARG(buf_slice(&pattern))), "access"))
            buf_printf(&lacks, " ~" SLICE_FMT, SLICE_ARG(buf_slice(&pattern)));
    }
    if (lacks.n > 0) {
        c->problems_n++;
        buf_printf(&c->problems,
                   "Redis%s: tallyd's user lacks rights, as" SLICE_FMT
                   ": config/README.md has all that it needs\n",
                   at, SLICE_ARG(buf_slice(&lacks)));
    }
    buf_free(&lacks);
    buf_free(&pattern);
}

static void server_check(struct redis_check *c)
{
    char at[sizeof(c->ask.link.target.host) + 16] = "";
    const struct redis_facts *facts = &c->ask.link.facts;
    const struct redis_target *target = &c->ask.link.target;
    if (c->ask.at.lanes > 1) snprintf(at, sizeof(at), " at %s:%d", target->host, target->port);
    unsigned before = c->problems_n;
    c->problems_n += facts_problems(*facts, c->keeps, at, &c->problems);
    rights_check(c, at);
    if (c->problems_n > before) return;
    const char *advice = redis_check_advice(facts, c->keeps);
    printf("Redis %s%s is fit. %s.\n", facts->version_text, at, redis_check_promise(facts, c->keeps));
    if (advice != NULL) printf("recommended: %s.\n", advice);
    if (facts->used_percent >= STATUS_MEMORY_PERCENT)
        printf("warning: Redis%s uses %" PRId64
               " %% of its memory (maxmemory): full, it refuses hits. Give it "
               "more, or delete what is not tallyd's.\n",
               at, facts->used_percent);
}

/* Each server that has a lane, once. */
static enum err servers_check(struct redis_check *c, struct error *e)
{
    for (uint32_t lane = 0; lane < c->ask.at.lanes; lane++) {
        if (lane > 0 && ask_lane(&c->ask, lane, e) != ERR_NONE) return e->code;
        if (server_is_new(c)) server_check(c);
    }
    return ERR_NONE;
}

static enum err check_redis(const struct setup *setup, struct lanes_seen *seen)
{
    struct error e;
    struct redis_check c = {
        .keeps = (enum redis_keeps)setup->conf->redis_durability, .counters = &setup->counters, .seen = seen};
    const struct source where = setup_source(setup);
    if (lanes_agree(&where, false, &e) != ERR_NONE) return call_failed(&e);
    if (ask_open_patiently(&c.ask, &where, &e) != ERR_NONE) return call_failed(&e);
    sentinels_print(c.ask.at.sentinels);
    cluster_print(c.ask.at.cluster, setup->lanes);
    seen->all = heap_zalloc(c.ask.at.lanes * sizeof *seen->all);
    enum err code = servers_check(&c, &e);
    if (code != ERR_NONE) call_failed(&e);
    if (c.problems_n > 0) fprintf(stderr, "%.*s", (int)c.problems.n, c.problems.p);
    buf_free(&c.problems);
    ask_close(&c.ask);
    return c.problems_n > 0 ? ERR_CONFIG : code;
}

/* What is only read. */
static enum err lookups_check(struct db *db, const struct setup *setup, struct schema_report *report,
                              struct error *e)
{
    enum err code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && i < setup->counters.n; i++) {
        const struct counter *c = &setup->counters.all[i];
        if (c->labels.table.n > 0) code = lookup_check(db, &c->labels, c, "labels", report, e);
    }
    if (code == ERR_NONE && setup->store_zone.table.n > 0)
        code = lookup_check(db, &setup->store_zone, NULL, "store_zone", report, e);
    if (code == ERR_NONE && setup->store_names.table.n > 0)
        code = lookup_check(db, &setup->store_names, NULL, "store_names", report, e);
    return code;
}

static enum err trials_check(struct db *db, const struct setup *setup, bool even_so,
                             struct schema_report *report, struct error *e)
{
    enum err code = ERR_NONE;
    for (size_t i = 0; code == ERR_NONE && !schema_refused(report, NULL) && i < setup->counters.n; i++)
        code = trial_check(db, &setup->counters.all[i], even_so, report, e);
    return code;
}

/* A copy of a Redis names the same realm. It cannot be told from a Redis that was started anew while no tallyd merged for it. */
static void copy_print(void *arg, const struct realm_row *r)
{
    const struct lanes_seen *seen = arg;
    for (uint32_t i = 0; i < seen->n; i++) {
        const struct lane_seen *one = &seen->all[i];
        if (!slice_eq(r->id, slice_str(one->realm)) || r->run_id.n == 0) continue;
        if (slice_eq(r->run_id, slice_str(one->facts.run_id)) &&
            slice_eq(r->history, slice_str(one->facts.replid)))
            continue;
        printf(
            "MySQL: warning: " SLICE_FMT " merged last for another Redis of the same origin, or for this one "
            "before it was started anew or promoted. If this is a copy of a Redis that is still used, give "
            "its tallyd a MySQL of its own: at this one it merges nothing while the first one's tallyd "
            "lives.\n",
            SLICE_ARG(r->taken_by));
        return;
    }
}

static enum err schema_look(struct db *db, const struct setup *setup, const struct lanes_seen *seen,
                            bool even_so)
{
    const struct schema_rules rules = {
        .accept_flush = setup->conf->mysql_durability == CONF_RELAXED, .room = true, .lanes = setup->lanes};
    struct schema_report report = {0};
    struct error e;
    enum err code = schema_check(db, &setup->counters, &rules, &report, &e);
    if (code == ERR_NONE) code = lookups_check(db, setup, &report, &e);
    if (code == ERR_NONE) code = trials_check(db, setup, even_so, &report, &e);
    if (code == ERR_NONE && !schema_refused(&report, NULL))
        code = realms_read(db, copy_print, (void *)seen, &e);
    bool misfit = false;
    for (size_t i = 0; i < report.n; i++) {
        const struct schema_finding *f = &report.all[i];
        bool refused = f->level == SCHEMA_REFUSE;
        FILE *to = refused ? stderr : stdout;
        fprintf(to, "MySQL: %s", refused ? "" : "warning: ");
        if (f->counter != NULL) fprintf(to, "counter " SLICE_FMT ": ", SLICE_ARG(f->counter->name));
        fprintf(to, "%s\n", f->reason);
        if (f->mend != NULL) fprintf(to, "  mend it with: %s\n", f->mend);
        misfit |= report.all[i].level == SCHEMA_REFUSE && report.all[i].counter != NULL;
    }
    if (misfit)
        fprintf(stderr, "`tallyd suggest TABLE --key 'HINCRBY key field 1'` prints lines that fit a table.\n"
                        "A new table is a choice, too: with its name in counters.*.table `tallyd migrate "
                        "--tables` makes it, and --print shows its CREATE TABLE.\n");
    if (code != ERR_NONE) {
        call_failed(&e);
    } else if (schema_refusals(&report) > 0) {
        code = ERR_CONFIG;
    } else {
        printf("MySQL %s is fit, and so is its schema.\n", db_version(db));
    }
    schema_report_close(&report);
    return code;
}

/* Of several hosts each is asked. */
static void hosts_look(const struct db_config *all)
{
    for (size_t i = 0; all->hosts_n > 1 && i < all->hosts_n; i++) {
        struct db_config one = *all; /* borrows its texts */
        char host[120];
        one.hosts = &all->hosts[i];
        one.hosts_n = 1;
        db_host_text(&one, 0, host, sizeof host);
        struct db *db = db_create(&one);
        if (db_open(db) == CODE_OK)
            printf("MySQL at %s takes writes.\n", db_server(db));
        else
            printf("MySQL at %s: %s.\n", host, db_text(db));
        db_destroy(&db);
    }
}

static enum err check_mysql(const struct setup *setup, const struct lanes_seen *seen, bool even_so)
{
    hosts_look(&setup->mysql);
    if (setup->mysql.hosts_n > 1 && setup->conf->mysql_keep_ms == 0)
        printf("warning: mysql.keep is 0s: if a replica that lags takes over, the last merged counts are "
               "lost; with 30s tallyd can merge them again.\n");
    struct error e;
    struct db *db = db_create(&setup->mysql);
    enum err code;
    if (db_open(db) != CODE_OK) {
        db_error(db, &e);
        code = call_failed(&e);
    } else {
        code = schema_look(db, setup, seen, even_so);
    }
    db_destroy(&db);
    return code;
}

static void warning_print(const char *text)
{
    printf("warning: %s.\n", text);
}

static enum err certificate_print(struct tls_context *c, const char *of)
{
    char text[200];
    if (c == NULL || tls_context_files(c).cert == NULL) return ERR_NONE;
    enum secure_level level = secure_certificate(c, text, sizeof(text));
    fprintf(level == SECURE_BAD ? stderr : stdout, "%sthe certificate of %s %s.\n",
            level == SECURE_WARN ? "warning: " : "", of, text);
    return level == SECURE_BAD ? ERR_CONFIG : ERR_NONE;
}

/* A bucket's sum has a bound, as a double has: near it the hits of other stores move the feed no more until the next bucket. */
static void shared_feeds_warn(const struct setup *setup)
{
    static const char *const names[] = {"series", "box", "event"};
    char text[300];
    for (size_t i = 0; setup->conf->users_n > 0 && i < 3 * setup->counters.n; i++) {
        const struct counter *c = &setup->counters.all[i / 3];
        if (!c->key.has_store || !counter_feeds(c, (enum feed)(i % 3)) || c->feeds[i % 3].has_store) continue;
        snprintf(text, sizeof text,
                 "counters." SLICE_FMT ".feeds.%s has no <store>: all stores feed the same one, and one "
                 "user's large hits can fill it for all of them. Give it <store>, or lower limits.hit",
                 SLICE_ARG(c->name), names[i % 3]);
        warning_print(text);
    }
}

/* Reports which connections TLS protects, with which certificate, and which it does not. */
static enum err check_secure(struct setup *setup)
{
    struct buf problems = {0};
    enum err doors = ERR_CONFIG, redis = certificate_print(setup->redis.tls, "redis.tls");
    if (setup_doors(setup, &problems)) doors = certificate_print(setup->doors, "listen.tls");
    fprintf(stderr, "%.*s", (int)problems.n, problems.n > 0 ? problems.p : "");
    buf_free(&problems);
    secure_warnings(setup, warning_print);
    if (setup->conf->users_n > 0 && setup->conf->listen_control.n == 0)
        warning_print(
            "there are users, and no listen.control: `tallyd status` and `tallyd recover` cannot ask the "
            "service. Give it a unix socket such as unix:///run/tallyd/control.sock");
    shared_feeds_warn(setup);
    return doors != ERR_NONE ? doors : redis;
}

static bool has_shared(const struct conf_addresses *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->all[i].shared) return true;
    return false;
}

/* Several tallyds on one port, most with this one file: what each must have for itself. The one that runs may be this one. */
static enum err check_shared(const struct setup *setup)
{
    const struct conf *c = setup->conf;
    struct error e;
    int fd;
    if (!has_shared(&c->listen_resp)) return ERR_NONE;
    if (setup_hold_name(setup, c->instance, &fd, &e) == ERR_NONE)
        close(fd);
    else
        printf("warning: a tallyd runs here as '%s'. Another one on this port needs a name of its "
               "own: " CONF_INSTANCE_ENVIRONMENT "=NAME in its environment.\n",
               c->instance);
    if (c->listen_control.n == 0)
        warning_print(
            "several tallyds share a port, so `tallyd status` reaches any of them. Give each a socket, by "
            "listen.control: unix:///run/tallyd-<instance>/control.sock");
    int on = 1;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    if (!can)
        fprintf(stderr,
                "This kernel lets no processes share a port (SO_REUSEPORT: %s). Take ?reuseport=1 away.\n",
                strerror(errno));
    if (fd >= 0) close(fd);
    return can ? ERR_NONE : ERR_CONFIG;
}

#define UNIT_USER "tallyd"

/* As that user. Passwords are not looked at: systemd reads them for the unit. */
static bool files_readable(const struct passwd *user, const struct conf *c)
{
    const char *const files[] = {c->file,
                                 c->http_tokens_file,
                                 c->listen_tls_cert,
                                 c->listen_tls_key,
                                 c->listen_tls_ca,
                                 c->redis_tls_cert,
                                 c->redis_tls_key,
                                 c->redis_tls_ca,
                                 c->redis_sentinel_tls_cert,
                                 c->redis_sentinel_tls_key,
                                 c->redis_sentinel_tls_ca,
                                 c->mysql_tls_cert,
                                 c->mysql_tls_key,
                                 c->mysql_tls_ca};
    bool all = initgroups(user->pw_name, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 &&
               setuid(user->pw_uid) == 0;
    if (!all) fprintf(stderr, "What user " UNIT_USER " can read is not known: %s.\n", strerror(errno));
    for (size_t i = 0; all && i < sizeof files / sizeof *files; i++) {
        char *path = files[i] == NULL || i == 0 ? NULL : conf_beside(c, files[i]);
        const char *at = path != NULL ? path : files[i];
        if (at != NULL && access(at, R_OK) != 0) {
            bool tokens = files[i] == c->http_tokens_file; /* which no group may read */
            fprintf(stderr, "The service's user cannot read %s (%s): %s it.\n", at, strerror(errno),
                    tokens ? "chown " UNIT_USER : "chmod 640 and chgrp " UNIT_USER);
            all = false;
        }
        heap_free(path);
    }
    return all;
}

/* root can read what the unit's user cannot, which would end the service at its next start. */
static enum err check_readable(const struct call *call, const struct conf *c)
{
    const struct passwd *user =
        geteuid() == 0 && strcmp(call->conf_path, CONF_PATH_DEFAULT) == 0 ? getpwnam(UNIT_USER) : NULL;
    if (user == NULL) return ERR_NONE;
    pid_t child = fork();
    if (child == 0) _exit(files_readable(user, c) ? 0 : 1);
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? ERR_NONE : ERR_CONFIG;
}

/* The configuration that a shop starts with: it counts visitors a day. */
static const char starter[] =
    "listen: { resp: \"tcp://127.0.0.1:7370\", http: \"tcp://127.0.0.1:7371\" }  # your apps; the panel\n"
    "redis: \"redis://127.0.0.1:6379/0\"             # Redis 7.0 or newer, or Valkey, with AOF\n"
    "mysql: \"mysql://tally@127.0.0.1:3306/shop\"    # its password: TALLYD_MYSQL_PASSWORD\n"
    "counters:\n"
    "  unique_visitors:\n"
    "    key: \"s<store>:unique_visitors:daily\"      # HINCRBY s12345:unique_visitors:daily 20140920 1\n"
    "    field: date                                # date, hour, integer or text\n"
    "    sync: { hits: 50, every: 60s }             # merged at 50 hits of a field, or after a minute\n"
    "    table: daily_visitors                      # `tallyd migrate --tables` makes it\n"
    "    columns: { store: store_id, field: day, count: visitors }\n";

/* There is no such file, or nothing in it but comments and an empty map. */
static bool conf_is_bare(const char *path)
{
    FILE *f = fopen(path, "re");
    if (f == NULL) return errno == ENOENT;
    bool bare = true, comment = false;
    for (int c; bare && (c = fgetc(f)) != EOF;) {
        comment = c == '#' || (comment && c != '\n');
        bare = comment || isspace(c) || strchr("-{}", c) != NULL;
    }
    bare = bare && !ferror(f);
    fclose(f);
    return bare;
}

/* The lines alone go to stdout: `tallyd check -c NEW > NEW` makes the file. */
static void starter_print(const char *path)
{
    fprintf(
        stderr,
        "tallyd: write these ten lines to %s, change the addresses, and check again; then `tallyd suggest "
        "TABLE` prints the lines for a table of your shop:\n",
        path);
    fflush(stderr);
    fputs(starter, stdout);
}

enum err verb_check(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    if (!call_load(call, &conf, &setup)) {
        if (conf_is_bare(call->conf_path)) starter_print(call->conf_path);
        return ERR_CONFIG;
    }
    printf("%s is a good configuration with %zu counter%s.\n", call->conf_path, conf.counters_n,
           conf.counters_n == 1 ? "" : "s");
    fflush(stdout);
    enum err secure = check_secure(&setup), shared = check_shared(&setup),
             readable = check_readable(call, &conf);
    fflush(stdout);
    struct lanes_seen seen = {0};
    enum err redis = check_redis(&setup, &seen);
    fflush(stdout);
    enum err mysql = check_mysql(&setup, &seen, call->try_rows);
    heap_free(seen.all);
    setup_close(&setup);
    conf_free(&conf);
    if (secure == ERR_CONFIG || shared == ERR_CONFIG || readable == ERR_CONFIG || redis == ERR_CONFIG ||
        mysql == ERR_CONFIG)
        return ERR_CONFIG;
    return redis != ERR_NONE ? redis : mysql;
}
