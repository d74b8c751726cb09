/* status/probe_redis.c - Redis' side: its state, what waits in it, which batches it has. Each question is a small one:
 * the dirty index is read in pages of 1,000, and only the oldest batches are counted out. */
#include "status/probe.h"

#include "base/heap.h"
#include "base/slice.h"
#include "redis/batch.h"
#include "redis/check_op.h"
#include "redis/index.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE 1000

static bool probe_failed(struct status *s, bool lost, const char *text)
{
    if (!lost) return false;
    s->redis.up = false;
    snprintf(s->redis.why, sizeof s->redis.why, "Redis could not be read: %s", text);
    return true;
}

/* --- how it does --- */

static int64_t number(struct slice info, const char *name)
{
    struct slice text;
    int64_t v;
    return info_get(info, name, &text) && num_parse(text, &v) ? v : 0;
}

/* `slave0:ip=10.0.0.2,port=6379,state=online,offset=123,lag=0`: INFO's texts end in a NUL or a line's end. */
static void replicas_take(struct slice info, struct status_redis *r)
{
    char name[16], line[200], ip[64], state[32];
    long long offset, lag, port;
    for (int i = 0; i < STATUS_REPLICAS; i++) {
        struct slice text;
        struct status_replica *to = &r->replica[r->replica_n];
        snprintf(name, sizeof name, "slave%d", i);
        if (!info_get(info, name, &text)) continue;
        slice_show(text, sizeof line - 1, line, sizeof line);
        if (sscanf(line, "ip=%63[^,],port=%lld,state=%31[^,],offset=%lld,lag=%lld", ip, &port, state, &offset,
                   &lag) != 5)
            continue;
        snprintf(to->at, sizeof to->at, strchr(ip, ':') != NULL ? "[%s]:%lld" : "%s:%lld", ip, port);
        to->online = strcmp(state, "online") == 0;
        to->lag_s = lag;
        to->behind_bytes = number(info, "master_repl_offset") - offset;
        r->replica_n++;
    }
}

/* INFO, and the first names of tally:held. */
static bool self_probe(struct ask *a, struct status *s)
{
    char why[200];
    struct status_redis *to = &s->redis;
    const struct redis_answer *r = redis_call(&a->link, "INFO");
    bool told = answer_is(r, REDIS_STRING);
    if (told) {
        struct slice info = r->str;
        struct slice role;
        if (info_get(info, "role", &role)) slice_show(role, sizeof to->role - 1, to->role, sizeof to->role);
        to->memory_bytes = number(info, "used_memory");
        to->memory_most_bytes = number(info, "maxmemory");
        to->replicas = number(info, "connected_slaves");
        to->uptime_s = number(info, "uptime_in_seconds");
        replicas_take(info, to);
        to->aof_on = info_is(info, "aof_enabled", "1");
        to->aof_writes = info_is(info, "aof_last_write_status", "ok");
        struct error e;
        if (redis_check_facts(&a->link.facts, a->link.config.keeps, &e) != ERR_NONE)
            snprintf(to->unfit, sizeof to->unfit, "%s", e.text);
        r = redis_call(&a->link, "ZRANGE {}" KEY_HELD " 0 %d", STATUS_NAMES_MAX - 1);
    }
    answer_why(r, why, sizeof why);
    if (probe_failed(s, !told || !answer_is(r, REDIS_ARRAY), why)) return false;
    for (; to->held_names_n < r->n && to->held_names_n < STATUS_NAMES_MAX; to->held_names_n++) {
        struct slice name = r->elements[to->held_names_n].str;
        to->held_names[to->held_names_n] = heap_strndup(name.p, name.n);
    }
    return true;
}

/* --- what waits --- */

static bool backlog_probe(struct ask *a, struct status *s)
{
    struct dirty_state d = {0};
    redis_dirty_state(&a->link, &d);
    redis_settle(&a->link);
    if (probe_failed(s, d.lost, "no answer about tally:dirty")) return false;
    s->redis.dirty = d.dirty;
    s->redis.held = d.held;
    s->redis.now_ms = redis_time_ms(&a->link);
    s->redis.oldest_ms =
        (struct figure){.known = d.lowest_ms != INT64_MAX, .value = s->redis.now_ms - d.lowest_ms};
    return true;
}

static void due_page_file(const struct due_poll *page, const struct counters *counters, struct status *s)
{
    for (uint32_t i = 0; i < page->keys_n; i++) {
        const struct counter *c = counters_match(counters, page->keys[i]);
        if (c == NULL) continue;
        struct status_counter *of = &s->counters[c - counters->all];
        of->dirty.value++;
        if (of->oldest_ms.known) continue; /* the oldest come first */
        of->oldest_ms = (struct figure){.known = true, .value = s->redis.now_ms - page->scores[i]};
    }
}

/* Counts are given by counter only when all can be: a part of them would look like all of them. */
static bool dirty_sort(struct ask *a, const struct counters *counters, struct status *s)
{
    int64_t got = PAGE;
    for (uint32_t skip = 0; got == PAGE && skip < STATUS_DIRTY_LOOKED; skip += PAGE) {
        struct due_poll page = {.before_ms = DELTA_MAX, .skip = skip, .limit = PAGE};
        redis_due(&a->link, &page);
        redis_settle(&a->link);
        if (!page.lost) due_page_file(&page, counters, s);
        buf_free(&page.names);
        heap_free(page.keys);
        heap_free(page.scores);
        got = page.lost ? -1 : (int64_t)page.keys_n;
    }
    if (probe_failed(s, got < 0, "no answer about tally:dirty")) return false;
    s->redis.sorted = got < PAGE;
    for (size_t i = 0; i < s->counters_n; i++)
        s->counters[i].dirty.known = s->redis.sorted;
    return true;
}

/* --- which batches exist --- */

struct listing {
    struct status *s;
    const struct counters *counters;
};

static void batch_take(void *arg, const struct batch_seen *seen)
{
    struct listing *l = arg;
    struct status *s = l->s;
    struct status_batch b = {.hashes = seen->hashes,
                             .configured = counters_find(l->counters, seen->counter) != NULL,
                             .format = seen->format,
                             .age_ms = seen->lowest_ms < 0 ? 0 : s->redis.now_ms - seen->lowest_ms,
                             .silent_ms = s->redis.now_ms - seen->beat_ms};
    if (!batch_id_read(seen->id, &b.id)) return;
    slice_show(seen->counter, NAME_BYTES_MAX, b.counter, sizeof b.counter);
    slice_show(seen->owner, sizeof b.owner - 1, b.owner, sizeof b.owner);
    s->batches = heap_realloc(s->batches, (s->batches_n + 1) * sizeof *s->batches);
    s->batches[s->batches_n++] = b;
}

int batches_order(const void *a, const void *b)
{
    int64_t left = ((const struct status_batch *)a)->age_ms, right = ((const struct status_batch *)b)->age_ms;
    return (left < right) - (left > right);
}

static bool batches_probe(struct ask *a, const struct counters *counters, bool brief, struct status *s)
{
    struct listing l = {.s = s, .counters = counters};
    struct batch_list list = {.batch = batch_take, .arg = &l};
    redis_batch_list(&a->link, &list);
    redis_settle(&a->link);
    if (probe_failed(s, list.lost, "no answer about tally:batches")) return false;
    if (s->batches_n > 0) qsort(s->batches, s->batches_n, sizeof *s->batches, batches_order);
    for (size_t i = 0; !brief && i < s->batches_n && i < STATUS_BATCHES_SIZED; i++) {
        /* Its fields, as its registry counts them. */
        struct status_batch *b = &s->batches[i];
        char hex[33];
        batch_id_hex(&b->id, hex);
        b->fields.known = answer_integer(
            redis_call(&a->link, "EVAL %.*s 1 {}" KEY_BATCH_PREFIX "%s", SLICE_ARG(lua_status_size), hex),
            &b->fields.value);
    }
    return true;
}

/* --- */

static bool gen_probe(struct ask *a, struct status *s)
{
    struct gen_read gen = {0};
    redis_gen(&a->link, &gen);
    redis_settle(&a->link);
    s->redis.gen = gen.gen;
    return !probe_failed(s, gen.lost, gen.text);
}

void probe_redis(struct ask *a, const struct counters *counters, bool brief, struct status *s)
{
    const struct redis_facts *facts = &a->link.facts;
    s->redis.up = true;
    memcpy(s->redis.version, facts->version_text, sizeof s->redis.version);
    memcpy(s->redis.policy, facts->policy, sizeof s->redis.policy);
    memcpy(s->redis.fsync, facts->appendfsync, sizeof s->redis.fsync);
    snprintf(s->redis.at, sizeof s->redis.at, "%s", a->config.place->where);
    memcpy(s->redis.run_id, facts->run_id, sizeof s->redis.run_id);
    (void)(gen_probe(a, s) && self_probe(a, s) && backlog_probe(a, s) &&
           (brief || dirty_sort(a, counters, s)) && batches_probe(a, counters, brief, s));
}
