/* mysql/locks.c - a chunk in parts (sync/README.md, rule S48): when its rows waited for a lock of another program's, they are written
 * hash by hash, with short waits. A hash whose rows are locked stays out, those before it are merged in a transaction of their own, then
 * those after it. The ledger's row names what is left, and who merges the chunk again goes on with that. */
#include "mysql/merge.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"

#include <stdio.h>

#define LOCKS_MS 10000 /* so long a merge waits for locks, hash by hash; what is left comes with the next */

static uint32_t hash_at(const struct chunk *c, size_t row)
{
    return c->batch->rows[c->first + row].hash;
}

/* The chunk's hashes are first .. last of the batch. */
#define EACH_HASH(h, w)                                                                                      \
    for (uint32_t h = (w)->chunk->rows_n > 0 ? hash_at((w)->chunk, 0) : 1,                                   \
                  last_ = (w)->chunk->rows_n > 0 ? hash_at((w)->chunk, (w)->chunk->rows_n - 1) : 0;          \
         h <= last_; h++)

void locks_init(struct work *w)
{
    w->locks.state = heap_zalloc(w->chunk->batch->hashes_n + 1);
}

void locks_close(struct work *w)
{
    heap_free(w->locks.state);
    blocker_stop(w->locks.blocker, w->chunk->locked_by);
    if (!w->locks.by_hash || !db_is_open(w->db)) return;
    buf_reset(&w->sql);
    buf_printf(&w->sql, "SET SESSION innodb_lock_wait_timeout = %u", (unsigned)db_config(w->db)->lock_wait_s);
    if (db_exec(w->db, buf_slice(&w->sql)) != CODE_OK) db_close(w->db);
}

bool locks_any(const struct work *w, enum part part)
{
    EACH_HASH (h, w)
        if (w->locks.state[h] == part) return true;
    return false;
}

static bool part_move(struct work *w, enum part from, enum part to)
{
    bool any = false;
    EACH_HASH (h, w)
        if (w->locks.state[h] == from) w->locks.state[h] = (uint8_t)to, any = true;
    w->plan_is_old |= any;
    return any;
}

void locks_forget(struct work *w)
{
    w->locks.of_ledger = false;
    part_move(w, PART_IN, PART_NOW);
}

void locks_read(struct work *w, struct slice waiting)
{
    w->locks.of_ledger = true;
    EACH_HASH (h, w) {
        bool waits = ledger_names_have(waiting, batch_hash_name(w->chunk->batch, h));
        if (waits != (w->locks.state[h] == PART_IN)) continue;
        w->locks.state[h] = waits ? PART_NOW : PART_IN;
        w->plan_is_old = true;
    }
}

bool locks_next(struct work *w)
{
    part_move(w, PART_NOW, PART_IN);
    return mono_ms() < w->locks.until_ms && part_move(w, PART_LATER, PART_NOW);
}

void locks_left(const struct work *w, struct buf *names)
{
    EACH_HASH (h, w)
        if (w->locks.state[h] == PART_LATER || w->locks.state[h] == PART_LOCKED)
            put_measured(names, batch_hash_name(w->chunk->batch, h));
}

enum verdict locks_found(struct work *w)
{
    uint32_t at = w->locks.at;
    bool before = false, after = false, late = mono_ms() >= w->locks.until_ms;
    if (!w->locks.by_hash) {
        /* From a hash at random: otherwise, where many are locked, the time would always end at the same ones. */
        uint32_t first = hash_at(w->chunk, rand_below(w->chunk->rows_n));
        char id[33];
        batch_id_hex(&w->chunk->batch->id, id);
        log_event(LOG_INFO, "chunk_retry", "batch=%s chunk=%u why=%s", id, w->chunk->index,
                  LOGQ(db_text(w->db)));
        w->locks.by_hash = true;
        w->locks.blocker = blocker_start(w->db);
        w->locks.until_ms = mono_ms() + LOCKS_MS;
        EACH_HASH (h, w)
            if (h < first && w->locks.state[h] == PART_NOW) w->locks.state[h] = PART_LATER;
        w->plan_is_old = true;
        return NEXT_PART;
    }
    w->locks.state[at] = PART_LOCKED;
    w->plan_is_old = true;
    EACH_HASH (h, w)
        before |= h < at && w->locks.state[h] == PART_NOW;
    EACH_HASH (h, w)
        if (h > at && w->locks.state[h] == PART_NOW) {
            if (before || late) w->locks.state[h] = PART_LATER;
            after = true;
        }
    if (before || (after && !late)) return NEXT_PART;
    w->chunk->outcome = MERGE_LOCKED; /* the text may be of rejects */
    return ENDED;
}

enum verdict locks_wait_short(struct work *w)
{
    if (!w->locks.by_hash || db_config(w->db)->lock_wait_s <= 1) return GO_ON;
    return merge_run_literal(w, "SET SESSION innodb_lock_wait_timeout = 1");
}

void locks_tell(struct work *w)
{
    struct chunk *c = w->chunk;
    uint32_t n = 0;
    EACH_HASH (h, w)
        n += w->locks.state[h] == PART_LATER || w->locks.state[h] == PART_LOCKED;
    c->outcome = MERGE_LOCKED;
    blocker_stop(w->locks.blocker, c->locked_by);
    w->locks.blocker = NULL;
    if (c->rejected_n == 0)
        snprintf(c->text, sizeof c->text, "rows of %u of its hashes are locked%s%s", n,
                 c->locked_by[0] != '\0' ? " by " : "", c->locked_by);
}
