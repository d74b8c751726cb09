/* redis/handshake.c - the first requests on a new connection, all in one write: AUTH, SELECT, CLIENT SETNAME, CLIENT
 * ID, INFO, CONFIG GET appendfsync, TIME, EXISTS tally:move, and an empty MULTI EXEC. For a user without the right to
 * MULTI each increment of a frame would run by itself. The connection is up only when all of these are answered as a master answers them. */
#include "base/log.h"
#include "base/slice.h"
#include "redis/ask.h"
#include "redis/check_op.h"
#include "redis/link_in.h"
#include <stdio.h>

enum handshake_step {
    STEP_AUTH,
    STEP_PING,
    STEP_SELECT,
    STEP_NAME,
    STEP_ID,
    STEP_INFO,
    STEP_FSYNC,
    STEP_TIME,
    STEP_MOVE,
    STEP_MULTI,
    STEP_EXEC
};

static const char replica_text[] = "READONLY this Redis is a replica, tallyd needs the primary";

static void demoted(struct redis_link *l)
{
    place_unfit(l->config.place, l->facts.run_id, replica_text);
    redis_link_cut(l, replica_text);
}

static void step_add(struct redis_link *l, enum handshake_step step)
{
    PRE(l->steps_n < sizeof l->steps);
    l->steps[l->steps_n++] = (uint8_t)step;
}

static void auth_put(struct redis_link *l)
{
    const struct redis_url *url = l->config.place->url;
    if (url->password == NULL) return;
    request_array(&l->out, url->user != NULL ? 3 : 2);
    REQUEST_LIT(&l->out, "AUTH");
    if (url->user != NULL) request_text(&l->out, url->user);
    request_text(&l->out, url->password);
    step_add(l, STEP_AUTH);
}

static void setname_put(struct redis_link *l)
{
    struct buf name = {0};
    name_link(&name, l->config.life, l->config.role);
    request_format(&l->out, redis_tag(l), "CLIENT SETNAME %.*s", SLICE_ARG(buf_slice(&name)));
    buf_free(&name);
    step_add(l, STEP_NAME);
}

/* (!) After CLIENT SETNAME: the mover sets the mark, then ends all links that have a name. A link that has none yet will
 * find the mark. A cluster refuses by its number of lanes (move.lua). */
static void moved_ask_put(struct redis_link *l)
{
    if (!l->config.counts || l->config.place->url->cluster) return;
    request_format(&l->out, redis_tag(l), "EXISTS {}" KEY_MOVE);
    step_add(l, STEP_MOVE);
}

static bool time_file(struct redis_link *l, const struct redis_answer *r)
{
    int64_t s, us;
    if (!answer_scan(r, "(ii)", &s, &us) || s < 0 || s > INT64_MAX / 2000) return false;
    l->time_offset_ms = s * 1000 + us / 1000 - (int64_t)mono_ms();
    l->time_known = true;
    l->time_asked_ms = mono_ms();
    return true;
}

/* Files the answer to this step. False: a fit server does not answer this. */
static bool handshake_step_file(struct redis_link *l, enum handshake_step step, const struct redis_answer *r)
{
    switch (step) {
    case STEP_ID:
        return r->type == REDIS_INTEGER && answer_integer(r, &l->client_id) && l->client_id > 0;
    case STEP_INFO:
        return answer_is(r, REDIS_STRING) && info_facts(r->str, &l->facts);
    case STEP_FSYNC:
        redis_fsync_file(&l->facts, r);
        return true;
    case STEP_TIME:
        return time_file(l, r);
    case STEP_MOVE:
        l->facts.moved |= r->type == REDIS_INTEGER && r->integer > 0;
        return r->type == REDIS_INTEGER ||
               l->facts.cluster; /* a node whose slot it is not: the check says more */
    case STEP_EXEC:
        return answer_is_array(r, 0);
    case STEP_PING:
        return answer_is(r, REDIS_STATUS);
    case STEP_AUTH:
    case STEP_SELECT:
    case STEP_NAME:
    case STEP_MULTI:
        return answer_is_ok(r);
    }
    UNREACHABLE();
}

/* Redis' own error line where it says that Redis is not ready; other errors are for the operator, and clients see an
 * outage. */
static void handshake_refused(struct redis_link *l, enum handshake_step step, const struct redis_answer *r)
{
    static const char *const own[] = {"LOADING", "MASTERDOWN", "READONLY", "BUSY", "MISCONF", "CLUSTERDOWN"};
    char line[200], why[REDIS_WHY_BYTES];
    answer_why(r, line, sizeof line);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (answer_error_is(r, own[i])) return redis_link_cut(l, line);
    if (l->config.plain) error_set(&l->refusal, ERR_CONFIG, "%s", line);
    if ((step == STEP_NAME || step == STEP_ID) && (answer_error_is(r, "NOPERM") || answer_error_is(r, "ERR")))
        error_set(&l->refusal, ERR_CONFIG,
                  "Redis refuses CLIENT (%s), and tallyd must end links of its own that hang, or a hit may "
                  "count twice: "
                  "allow it to tallyd's user (ACL SETUSER <user> +client), or use a Redis that has it",
                  line);
    snprintf(why, sizeof why, "MASTERDOWN Redis refused tallyd's link (%s)", line);
    redis_link_cut(l, why);
}

static void handshake_over(struct redis_link *l)
{
    char why[REDIS_WHY_BYTES];
    if (l->config.plain) return link_came_up(l);
    if (l->facts.loading) return redis_link_cut(l, "LOADING Redis is loading the dataset in memory");
    if (!l->facts.master) return demoted(l);
    if (l->config.check && redis_check_facts(&l->facts, l->config.keeps, &l->refusal) != ERR_NONE) {
        snprintf(why, sizeof why, "MASTERDOWN Redis is not fit: %.200s", l->refusal.text);
        redis_link_cut(l, why);
    } else if (place_agrees(l->config.place, l))
        link_came_up(l);
    else
        redis_link_cut(l, "MASTERDOWN this is another Redis server than on tallyd's other links");
}

static void handshake_step_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)arg;
    if (r == NULL) return;
    if (!handshake_step_file(l, l->steps[at], r))
        handshake_refused(l, l->steps[at], r);
    else if (at + 1u == l->steps_n)
        handshake_over(l);
}

void handshake_send(struct redis_link *l)
{
    l->steps_n = 0;
    l->client_id = 0;
    memset(&l->facts, 0, sizeof l->facts);
    l->facts.cluster_wanted = l->config.place->url->cluster;
    auth_put(l);
    if (l->config.plain) {
        request_words(&l->out, "PING");
        step_add(l, STEP_PING);
        wire_expect(l, l->steps_n, handshake_step_done, NULL);
        wire_write(l);
        return;
    }
    if (l->config.place->url->db != 0) {
        request_format(&l->out, redis_tag(l), "SELECT %d", l->config.place->url->db);
        step_add(l, STEP_SELECT);
    }
    setname_put(l);
    static const struct {
        enum handshake_step step;
        const char *words;
    } plain[] = {{STEP_ID, "CLIENT ID"}, {STEP_INFO, "INFO"},   {STEP_FSYNC, REDIS_FSYNC_ASK},
                 {STEP_TIME, "TIME"},    {STEP_MULTI, "MULTI"}, {STEP_EXEC, "EXEC"}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (plain[i].step == STEP_MULTI) moved_ask_put(l);
        request_words(&l->out, plain[i].words);
        step_add(l, plain[i].step);
    }
    wire_expect(l, l->steps_n, handshake_step_done, NULL);
    wire_write(l);
}

/* [master, offset, [[host, port, offset], ...]]. False: no such answer. */
static bool role_file(struct redis_role *role, const struct redis_answer *r)
{
    *role = (struct redis_role){.at_ms = mono_ms()};
    if (r->n < 3 || !answer_integer(&r->elements[1], &role->offset) || r->elements[2].type != REDIS_ARRAY)
        return false;
    const struct redis_answer *all = &r->elements[2];
    for (size_t i = 0; i < all->n && role->replicas_n < REDIS_REPLICAS_MAX; i++) {
        const struct redis_answer *e = all->elements[i].elements;
        struct redis_replica *one = &role->replicas[role->replicas_n];
        if (!answer_is_array(&all->elements[i], 3) || !answer_integer(&e[2], &one->offset)) return false;
        snprintf(one->where, sizeof one->where, SLICE_FMT ":" SLICE_FMT, SLICE_ARG(e[0].str),
                 SLICE_ARG(e[1].str));
        role->replicas_n++;
    }
    return true;
}

static void role_file_info(struct redis_role *role, struct slice info)
{
    struct slice offset;
    struct info_replica seen;
    *role = (struct redis_role){.at_ms = mono_ms()};
    if (info_get(info, "master_repl_offset", &offset)) (void)num_parse(offset, &role->offset);
    for (; role->replicas_n < REDIS_REPLICAS_MAX && info_replica(info, role->replicas_n, &seen);
         role->replicas_n++) {
        struct redis_replica *one = &role->replicas[role->replicas_n];
        snprintf(one->where, sizeof one->where, SLICE_FMT ":" SLICE_FMT, SLICE_ARG(seen.ip),
                 SLICE_ARG(seen.port));
        one->offset = seen.offset;
    }
}

static void role_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_role *role = &l->config.place->role;
    (void)arg, (void)at;
    if (r == NULL) return;
    if (r->type == REDIS_ERROR)
        l->no_role = true; /* NOPERM, or renamed away: INFO has it, too */
    else if (r->type == REDIS_STRING
                 ? !info_is(r->str, "role", "master")
                 : r->type != REDIS_ARRAY || r->n == 0 || !slice_eq(r->elements[0].str, SLICE("master")))
        demoted(l);
    else if (r->type == REDIS_STRING)
        role_file_info(role, r->str);
    else if (!role_file(role, r))
        log_event(LOG_WARN, "redis_role", "role=%s why=odd", l->config.role);
}

static void time_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    (void)arg, (void)at;
    if (r != NULL && !time_file(l, r))
        log_event(LOG_WARN, "redis_time", "role=%s why=no_time", l->config.role);
}

static void number_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    uint64_t number = l->number_asked;
    (void)arg, (void)at;
    l->number_asked = 0;
    if (r != NULL) (void)redis_link_whole(l, number, r);
}

void handshake_time(struct redis_link *l)
{
    l->time_asked_ms = mono_ms();
    redis_write(l, "TIME");
    redis_link_expect(l, 1, time_done, NULL);
    request_words(redis_link_begin(l), l->no_role ? "INFO replication" : "ROLE");
    redis_link_expect(l, 1, role_done, NULL);
    /* There may be no hits and no reads for long. */
    if (l->number_asked == 0 && redis_link_number(l) != 0) {
        l->number_asked = redis_link_number(l);
        redis_write(l, "GET {}" KEY_SEQ_PREFIX OWNER_FMT, OWNER_ARG(l->config.life));
        redis_link_expect(l, 1, number_done, NULL);
    }
    redis_link_flush(l);
}
