/* status/json.c - the state, and refused rows, for programs. */
#include "base/json.h"
#include "status/status.h"
#include <stdio.h>

/* --- the status as one JSON object. Numbers in seconds and bytes; null is "not known", and the part's "error" says why. --- */

void figure_json(struct json *j, const char *key, struct figure f)
{
    if (f.known)
        json_int(j, key, f.value);
    else
        json_null(j, key);
}

void seconds_json(struct json *j, const char *key, struct figure ms)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld.%03lld", (long long)(ms.value / 1000),
                     (long long)(ms.value < 0 ? -ms.value : ms.value) % 1000);
    if (ms.known)
        json_digits(j, key, slice_of(text, (size_t)n));
    else
        json_null(j, key);
}

static void text_or_null(struct json *j, const char *key, const char *text)
{
    json_slice_or_null(j, key, text[0] == '\0' ? slice_of(NULL, 0) : slice_str(text));
}

static void refusals_json(struct json *j, const struct status_service *v)
{
    json_open(j, "refused", '[');
    for (size_t i = 0; i < v->refusal_n; i++) {
        json_open(j, NULL, '{');
        json_text(j, "reason", v->refusal[i].reason);
        json_int(j, "minute", v->refusal[i].minute);
        json_int(j, "all", v->refusal[i].all);
        json_text(j, "example", v->refusal[i].why);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void sentinels_json(struct json *j, const struct status_service *v)
{
    if (v->sentinels == 0) {
        json_null(j, "sentinels");
        return;
    }
    json_open(j, "sentinels", '{');
    json_int(j, "known", v->sentinels);
    json_int(j, "up", v->sentinels_up);
    json_int(j, "majority", v->sentinels_majority);
    json_open(j, "each", '[');
    for (size_t i = 0; i < v->sentinel_n; i++) {
        json_open(j, NULL, '{');
        json_text(j, "at", v->sentinel[i].at);
        json_text(j, "state", v->sentinel[i].state);
        json_bool(j, "heard", v->sentinel[i].heard);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void service_json(struct json *j, const struct status_service *v)
{
    json_open(j, "service", '{');
    json_bool(j, "up", v->up);
    if (!v->up) {
        json_text(j, "error", v->why);
    } else {
        json_text(j, "version", v->version);
        json_text(j, "instance", v->instance);
        json_int(j, "pid", v->pid);
        json_int(j, "uptime_s", v->uptime_s);
        json_int(j, "connections", v->connections);
        json_int(j, "connections_most", v->connections_most);
        json_bool(j, "redis_up", v->redis_up);
        json_bool(j, "mysql_up", v->mysql_up);
        json_bool(j, "stopping", v->stopping);
        json_bool(j, "recovering", v->recovering);
        text_or_null(j, "redis_server", v->redis_server);
        text_or_null(j, "redis_run_id", v->redis_run_id);
        text_or_null(j, "redis_links", v->redis_links);
        seconds_json(j, "redis_moved_s", v->redis_moved_ms);
        sentinels_json(j, v);
        refusals_json(j, v);
        json_int(j, "hits", v->stats.hits);
        figure_json(j, "hits_per_s", v->hits_per_s);
        json_open(j, "stats", '{');
#define X(name, meaning) json_int(j, #name, v->stats.name);
        STATS(X)
#undef X
        json_close(j, '}');
    }
    json_close(j, '}');
}

static void replica_put(struct json *j, const struct status_replica *r)
{
    json_open(j, NULL, '{');
    json_text(j, "at", r->at);
    json_bool(j, "online", r->online);
    json_int(j, "lag_s", r->lag_s);
    json_int(j, "behind_bytes", r->behind_bytes);
    json_close(j, '}');
}

static void lanes_json(struct json *j, const struct status_redis *r)
{
    json_int(j, "lanes", r->lanes);
    if (r->lane == NULL) return;
    json_open(j, "lane", '[');
    for (uint32_t i = 0; i < r->lanes; i++) {
        const struct status_lane *l = &r->lane[i];
        json_open(j, NULL, '{');
        json_bool(j, "up", l->up);
        if (!l->up) json_text(j, "error", l->why);
        text_or_null(j, "at", l->at);
        json_bool(j, "held", l->held);
        figure_json(j, "dirty", (struct figure){l->up, l->dirty});
        seconds_json(j, "oldest_s", l->oldest_ms);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void redis_put(struct json *j, const struct status_redis *r)
{
    static const char *const durabilities[] = {"disk", "replicas", "none"}; /* as enum conf_durability */
    json_open(j, "redis", '{');
    json_bool(j, "up", r->up);
    lanes_json(j, r);
    if (!r->up) {
        json_text(j, "error", r->why);
    } else {
        json_text(j, "version", r->version);
        json_text(j, "role", r->role);
        json_int(j, "uptime_s", r->uptime_s);
        json_int(j, "memory_bytes", r->memory_bytes);
        json_int(j, "memory_most_bytes", r->memory_most_bytes);
        json_text(j, "policy", r->policy);
        json_text(j, "at", r->at);
        json_text(j, "run_id", r->run_id);
        json_text(j, "durability", durabilities[r->durability]);
        json_int(j, "replicas", r->replicas);
        json_int(j, "replicas_wanted", r->replicas_wanted);
        json_open(j, "replica", '[');
        for (size_t i = 0; i < r->replica_n; i++)
            replica_put(j, &r->replica[i]);
        json_close(j, ']');
        json_bool(j, "aof", r->aof_on);
        text_or_null(j, "appendfsync", r->fsync);
        json_bool(j, "aof_writes", r->aof_writes);
        json_int(j, "gen", (int64_t)r->gen);
    }
    json_close(j, '}');
}

static void mysql_json(struct json *j, const struct status_mysql *m)
{
    json_open(j, "mysql", '{');
    json_bool(j, "up", m->up);
    if (m->why[0] != '\0') json_text(j, "error", m->why);
    if (m->up) {
        json_text(j, "server", m->mariadb ? "MariaDB" : "MySQL");
        json_text(j, "version", m->version);
        text_or_null(j, "at", m->server);
        json_bool(j, "read_only", m->read_only);
    }
    if (m->read) json_int(j, "gen", (int64_t)m->gen);
    json_close(j, '}');
}

static void backlog_json(struct json *j, const struct status *s)
{
    const struct status_redis *r = &s->redis;
    json_open(j, "backlog", '{');
    figure_json(j, "dirty", (struct figure){r->up, r->dirty});
    seconds_json(j, "oldest_s", (struct figure){r->up && r->oldest_ms.known, r->oldest_ms.value});
    figure_json(j, "of_no_counter", (struct figure){r->up, r->held});
    json_open(j, "names_of_no_counter", '[');
    for (size_t i = 0; i < r->held_names_n; i++)
        json_text(j, NULL, r->held_names[i]);
    json_close(j, ']');
    figure_json(j, "leftovers", s->service.leftovers);
    if (r->up && !r->sorted) json_text(j, "error", "too many hashes wait to tell them apart by counter");
    json_close(j, '}');
}

/* Why nothing of this counter is merged, with the correction; null: it is. */
static void counter_held_put(struct json *j, const struct status *s, const struct counter *c)
{
    for (size_t i = 0; i < s->schema.n; i++) {
        const struct schema_finding *f = &s->schema.all[i];
        if (f->level != SCHEMA_REFUSE || f->counter != c) continue;
        json_open(j, "held", '{');
        json_text(j, "why", f->reason);
        text_or_null(j, "next", f->mend != NULL ? f->mend : "");
        json_close(j, '}');
        return;
    }
    if (s->mysql.up)
        json_digits(j, "held", SLICE("false"));
    else
        json_null(j, "held");
}

static void counters_json(struct json *j, const struct status *s)
{
    json_open(j, "counters", '[');
    for (size_t i = 0; i < s->counters_n; i++) {
        const struct status_counter *c = &s->counters[i];
        struct figure until = c->complete_until_ms;
        json_open(j, NULL, '{');
        json_slice(j, "name", c->counter->name);
        json_slice(j, "table", c->counter->table);
        figure_json(j, "dirty", c->dirty);
        seconds_json(j, "oldest_s", c->oldest_ms);
        seconds_json(j, "complete_until", (struct figure){until.known && until.value > 0, until.value});
        figure_json(j, "merged", c->merged);
        figure_json(j, "rejected", c->rejected);
        figure_json(j, "rejects", c->rejects);
        counter_held_put(j, s, c->counter);
        text_or_null(j, "stalled", c->stalled);
        text_or_null(j, "stores_wait", c->stores_wait);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void batch_json(struct json *j, const struct status_batch *b)
{
    char id[33];
    batch_id_hex(&b->id, id);
    json_open(j, NULL, '{');
    json_text(j, "id", id);
    json_text(j, "counter", b->counter);
    json_bool(j, "configured", b->configured);
    json_text(j, "owner", b->owner);
    seconds_json(j, "age_s", (struct figure){true, b->age_ms});
    seconds_json(j, "silent_s", (struct figure){true, b->silent_ms});
    json_int(j, "hashes", b->hashes);
    figure_json(j, "fields", b->fields);
    figure_json(j, "chunks", b->chunks);
    figure_json(j, "chunks_merged", b->chunks_merged);
    text_or_null(j, "held", b->held);
    json_close(j, '}');
}

static void batches_json(struct json *j, const struct status *s)
{
    json_open(j, "batches", '{');
    figure_json(j, "standing", (struct figure){s->redis.up, (int64_t)s->batches_n});
    json_open(j, "oldest", '[');
    for (size_t i = 0; i < s->batches_n && i < STATUS_BATCHES_SIZED; i++)
        batch_json(j, &s->batches[i]);
    json_close(j, ']');
    json_close(j, '}');
}

static void merges_put(struct json *j, const struct status *s)
{
    json_open(j, "merges", '{');
    if (s->redis.up && s->mysql.read)
        json_bool(j, "held", status_rolled_back(s) || s->service.held[0] != '\0');
    else
        json_null(j, "held");
    text_or_null(j, "why", s->service.held);
    figure_json(j, "kept", (struct figure){s->service.up, s->service.stats.batches_kept});
    json_close(j, '}');
}

static void books_json(struct json *j, const struct status_books *b)
{
    json_open(j, "books", '{');
    if (b->known) {
        json_bool(j, "balanced", b->unbalanced == 0);
        sums_json(&b->sums, j);
    } else {
        json_null(j, "balanced");
        json_text(j, "error", b->why);
    }
    json_close(j, '}');
}

void problem_json(void *arg, const char *what, const char *next)
{
    struct json *j = arg;
    json_open(j, NULL, '{');
    json_text(j, "what", what);
    json_text(j, "next", next);
    json_close(j, '}');
}

void status_json(struct buf *out, const struct status *s)
{
    struct json j = {.out = out};
    json_open(&j, NULL, '{');
    seconds_json(&j, "at", (struct figure){true, s->at_ms});
    json_open(&j, "problems", '[');
    enum err verdict = status_judge(s, problem_json, &j);
    json_close(&j, ']');
    json_bool(&j, "well", verdict == ERR_NONE);
    service_json(&j, &s->service);
    redis_put(&j, &s->redis);
    mysql_json(&j, &s->mysql);
    backlog_json(&j, s);
    counters_json(&j, s);
    batches_json(&j, s);
    merges_put(&j, s);
    books_json(&j, &s->books);
    json_close(&j, '}');
}

void reject_json(struct json *j, const struct reject *r, const struct counters *counters)
{
    char id[REJECT_ID_BYTES];
    struct slice store;
    const struct counter *c = counters_find(counters, r->counter);
    reject_id_write(&r->id, id);
    json_open(j, NULL, '{');
    json_text(j, "id", id);
    json_slice(j, "counter", r->counter);
    bool has = c != NULL && c->key.has_store && pattern_match(&c->key, c->store, r->pending_hash, &store);
    json_slice_or_null(j, "store", has ? store : slice_of(NULL, 0));
    json_slice(j, "key", r->pending_hash);
    json_slice(j, "field", r->field);
    json_slice(j, "delta", r->delta);
    json_slice(j, "reason", r->reason);
    json_int(j, "rejected_at", r->rejected_ms / 1000);
    json_close(j, '}');
}
