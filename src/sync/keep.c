/* sync/keep.c - merged batches that remain in Redis for keep_ms, since a MySQL that lost its tail may take over:
 * nothing else has what was discarded. When MySQL comes back, each is run again, and the ledger says which chunks it
 * lacks. A kept batch has no run, no rows and no share of the fields in flight; only its names are here, for its
 * discard.
 *
 * (!) It is discarded once keep_ms are over and MySQL has then merged something that was sent to it later. That proves
 * that this server was the primary all the time, even if this process was suspended meanwhile. When there is nothing
 * else to merge, a kept batch itself is run again for that. */
#include "base/heap.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/stats.h"
#include "sync/inside.h"

#define ASK_MS 1000 /* how long it waits for another merge */

struct kept {
    struct sync *sync;
    struct list link;   /* sync->kept, by due_ms */
    struct batch batch; /* id, gen and names; no rows */
    struct discard discard;
    uint64_t born_ms, due_ms, retry_ms;
    uint64_t rows;
    int64_t hits;
    uint32_t era;
    bool out; /* its discard is under way */
};

bool keep_has(const struct sync *s, const struct batch_id *id)
{
    return map_has(&s->kept_ids, id_slice(id));
}

bool keep_wanted(const struct run *r)
{
    const struct sync *s = r->sync;
    return s->config.keep_ms > 0 && HOLDS(RULE_KEEP) && r->kept_era != s->mysql_era;
}

void keep_add(const struct run *r)
{
    struct sync *s = r->sync;
    struct kept *k = heap_zalloc(sizeof *k);
    const struct batch *b = &r->batch;
    *k = (struct kept){.sync = s,
                       .born_ms = r->born_ms,
                       .due_ms = sync_now(s) + s->config.keep_ms,
                       .rows = b->rows_n,
                       .hits = b->hits,
                       .era = s->mysql_era};
    batch_init(&k->batch, &b->id);
    k->batch.gen = b->gen;
    k->batch.hashes = heap_alloc((b->hashes_n + 1) * sizeof *k->batch.hashes);
    k->batch.hashes_cap = b->hashes_n;
    for (size_t i = 0; i < b->hashes_n; i++)
        batch_add_hash(&k->batch, batch_hash_name(b, i), b->hashes[i].hlen);
    list_push(&s->kept, &k->link);
    map_put(&s->kept_ids, id_slice(&k->batch.id), k);
    STAT_ADD(batches_kept, 1);
    STAT_ADD(rows_kept, k->rows);
}

static void kept_free(struct kept *k)
{
    map_remove(&k->sync->kept_ids, id_slice(&k->batch.id));
    list_remove(&k->link);
    STAT_ADD(batches_kept, -1);
    STAT_ADD(rows_kept, -(int64_t)k->rows);
    batch_close(&k->batch);
    heap_free(k);
}

static void kept_again(struct kept *k)
{
    struct sync *s = k->sync;
    adopt_push(s, &k->batch.id, false);
    s->queue[s->queue_n - 1].kept_era = k->era;
    kept_free(k);
}

void keep_discarded(struct sync *s, uint64_t gen, int64_t hits)
{
    s->discarded[s->discarded_n++ % DISCARDED_MAX] = (struct discarded){gen, hits};
    STAT_ADD(batches_done, 1);
}

int64_t sync_discarded_above(const struct sync *s, uint64_t gen)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < DISCARDED_MAX && i < s->discarded_n; i++)
        if (s->discarded[i].gen > gen) sum += (uint64_t)s->discarded[i].hits;
    return (int64_t)sum;
}

static void kept_discarded(struct discard *d)
{
    struct kept *k = d->arg;
    struct sync *s = k->sync;
    s->requests_out--;
    k->out = false;
    if (d->done_ok) {
        keep_discarded(s, k->batch.gen, k->hits);
        kept_free(k);
    } else if (k->era != s->mysql_era) {
        kept_again(k);
    } else {
        k->retry_ms = sync_now(s) + s->config.retry_most_ms;
    }
}

static void kept_due(struct kept *k, uint64_t now_ms)
{
    struct sync *s = k->sync;
    if (k->out || now_ms < k->retry_ms) return;
    if (HOLDS(RULE_GIVE_UP) && now_ms - k->born_ms >= s->config.give_up_ms) {
        /* Too old (S17): the process that adopts it scans it again. */
        char hex[33];
        batch_id_hex(&k->batch.id, hex);
        log_event(LOG_WARN, "kept_let_go", "batch=%s", hex);
        kept_free(k);
    } else if (k->due_ms <= s->mysql_seen_ms || !HOLDS(RULE_KEEP_SEEN)) {
        k->out = true;
        k->discard = (struct discard){.batch = &k->batch, .done = kept_discarded, .arg = k};
        s->requests_out++;
        s->ports.discard(s->ports.arg, &k->discard);
    } else if (now_ms >= k->due_ms + ASK_MS && now_ms >= s->kept_ask_ms) {
        s->kept_ask_ms = now_ms + ASK_MS;
        kept_again(k);
    }
}

void keep_tick(struct sync *s, uint64_t now_ms)
{
    if (!sync_may_merge(s)) return;
    for (struct list *node = s->kept.next, *next; node != &s->kept; node = next) {
        next = node->next;
        struct kept *k = CONTAINER_OF(node, struct kept, link);
        if (now_ms < k->due_ms) return;
        kept_due(k, now_ms);
    }
}

void keep_mysql_back(struct sync *s)
{
    uint32_t n = 0;
    s->mysql_era++;
    s->mysql_seen_ms = 0;
    for (struct list *node = s->kept.next, *next; node != &s->kept; node = next) {
        next = node->next;
        struct kept *k = CONTAINER_OF(node, struct kept, link);
        if (k->out) continue;
        kept_again(k);
        n++;
    }
    if (n == 0) return;
    log_event(LOG_INFO, "kept_again", "batches=%u next=%s", n,
              LOGQ("MySQL is back: tallyd merges again what MySQL lacks of them"));
}

uint32_t keep_ids(const struct sync *s, struct batch_id *out)
{
    uint32_t n = 0;
    list_for_each (node, &s->kept)
        out[n++] = CONTAINER_OF(node, struct kept, link)->batch.id;
    return n;
}

void keep_close(struct sync *s)
{
    while (!list_empty(&s->kept))
        kept_free(CONTAINER_OF(s->kept.next, struct kept, link));
    map_close(&s->kept_ids);
}
