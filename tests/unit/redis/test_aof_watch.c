/* Looks at a Redis whose aof.c is modelled here, turn by turn (7.0.15, 7.2.6, 7.4.1: flushAppendOnlyFile, bio.c,
 * rewriteAppendOnlyFileBackground), at random schedules: no wait ends before what was written is on the disk. */
#include "lib/unit.h"
#include "redis/durable.h"

#define SEEDS 20000
#define SECOND 1000000

struct job { /* an fsync in a thread of Redis: it covers this much of a file, until then */
    bool runs;
    int file;
    int64_t bytes, ends_us;
};

struct model {
    uint64_t seed;
    int version;
    bool valkey, always, lax, busy;
    int64_t mono_us, ahead_us;                            /* ours; Redis' clock less it */
    int64_t last_fsync_us, buffered, bytes, synced_begun; /* of the file that grows */
    int file;                                             /* its number */
    int64_t disk[64];                                     /* of each file, bytes on the disk */
    struct job fsync, closes[8];
    int64_t postponed_us;
    bool rewriting, rewritten_ok, waits_rewrite, scheduled;
    int64_t child_ends_us; /* 0: none */
    int64_t rewrites, forks;
    int base_file;   /* a base on the disk has all of the files before this one */
    bool calm;       /* nothing but writes happens any more */
    bool seen;       /* the clock as it is, by a look: it is not put forward and back between two */
    int waited_file; /* what is waited for is in this file, that far: */
    int64_t waited_bytes;
};

static uint64_t draw(struct model *m, uint64_t below)
{
    m->seed ^= m->seed << 13, m->seed ^= m->seed >> 7, m->seed ^= m->seed << 17;
    return m->seed % below;
}
static bool one_in(struct model *m, uint64_t n)
{
    return !m->calm && draw(m, n) == 0;
}
static int64_t clock_us(const struct model *m)
{
    return m->mono_us + m->ahead_us;
}

static void job_look(struct model *m, struct job *j)
{
    if (!j->runs || j->ends_us > m->mono_us) return;
    if (j->bytes > m->disk[j->file]) m->disk[j->file] = j->bytes;
    j->runs = false;
}

/* 8.0 takes what was written to older files for synced when the newest has nothing left to sync. */
static bool waitaof_says_synced(const struct model *m)
{
    if (m->buffered == 0 && m->synced_begun == m->bytes && !m->fsync.runs) return true;
    return m->disk[m->file] > (m->waited_file == m->file ? m->waited_bytes - 1 : 0);
}

/* One that is behind others in its thread ends after them. */
static struct job job_begin(struct model *m, int64_t behind_us, int64_t longest_us)
{
    int64_t from_us = behind_us > m->mono_us ? behind_us : m->mono_us;
    int64_t took_us = draw(m, 8) > 0 ? (int64_t)draw(m, 20000) : (int64_t)draw(m, (uint64_t)longest_us);
    return (struct job){true, m->file, m->bytes, from_us + took_us + 1};
}

static int64_t closes_end(const struct model *m)
{
    int64_t ends_us = 0;
    for (int i = 0; i < 8; i++)
        if (m->closes[i].runs && m->closes[i].ends_us > ends_us) ends_us = m->closes[i].ends_us;
    return ends_us;
}

static bool second_over(const struct model *m)
{
    if (m->version < 70400 && !m->valkey) return clock_us(m) / SECOND > m->last_fsync_us / SECOND;
    return clock_us(m) / 1000 - m->last_fsync_us / 1000 >= 1000;
}

static void flush(struct model *m, bool force)
{
    bool syncing = m->fsync.runs;
    if (m->buffered == 0 && m->synced_begun == m->bytes) return;
    if (m->buffered == 0 && !m->always && (syncing || !second_over(m))) return;
    if (m->buffered == 0 && m->always && m->version < 70011) return;
    if (m->buffered > 0 && !m->always && syncing && !force) {
        if (m->postponed_us == 0) m->postponed_us = m->mono_us;
        if (m->mono_us - m->postponed_us < 2 * SECOND) return;
    }
    m->postponed_us = 0;
    m->bytes += m->buffered;
    m->buffered = 0;
    if (m->lax && m->child_ends_us > 0) return;
    if (m->always) {
        m->disk[m->file] = m->synced_begun = m->bytes;
    } else if (second_over(m)) {
        if (!syncing) {
            m->fsync = job_begin(m, m->version < 70200 ? 0 : closes_end(m), 2500000);
            m->synced_begun = m->bytes;
        }
    } else {
        return;
    }
    m->last_fsync_us = clock_us(m);
}

static void child_begin(struct model *m, bool rewrite)
{
    if (m->child_ends_us > 0 || m->file > 60) return;
    if (rewrite) {
        flush(m, true);
        for (int i = 0; i < 8; i++)
            if (!m->closes[i].runs) {
                m->closes[i] = job_begin(m, 0, 4500000);
                break;
            }
        m->last_fsync_us = clock_us(m);
        m->file++;
        m->bytes = m->synced_begun = 0;
        m->rewrites++;
        m->scheduled = false;
    }
    m->rewriting = rewrite;
    m->forks++;
    m->child_ends_us = m->mono_us + 1 + (int64_t)draw(m, draw(m, 2) == 0 ? 20000 : 8 * SECOND);
}

static void child_look(struct model *m)
{
    if (m->child_ends_us == 0 || m->child_ends_us > m->mono_us) return;
    if (m->rewriting) {
        m->rewritten_ok = !one_in(m, 4);
        if (m->rewritten_ok) m->base_file = m->file, m->waits_rewrite = false;
        if (m->waits_rewrite) m->scheduled = true;
    }
    m->rewriting = false;
    m->child_ends_us = 0;
}

/* Time passes, and a turn of Redis' loop begins: what others do. */
static void turn_begin(struct model *m, int64_t passes_us)
{
    m->mono_us += passes_us;
    if (m->seen && one_in(m, 30)) {
        m->ahead_us += (int64_t)draw(m, 8 * SECOND) - 4 * SECOND;
        m->seen = false;
    }
    job_look(m, &m->fsync);
    for (int i = 0; i < 8; i++)
        job_look(m, &m->closes[i]);
    child_look(m);
    if (m->scheduled) child_begin(m, true);
    if (m->busy && draw(m, 3) > 0) m->buffered += 10;
}
static void turn_end(struct model *m)
{
    if (one_in(m, 30)) child_begin(m, false); /* cron, behind the commands */
    if (one_in(m, 30)) child_begin(m, true);
    flush(m, false);
}

static struct aof_look look(const struct model *m, bool pushed)
{
    struct aof_look l = {.time_us = clock_us(m),
                         .rewrites = m->rewrites,
                         .forks = m->forks,
                         .rewriting = m->rewriting,
                         .rewritten_ok = m->rewritten_ok,
                         .at_rest = !m->rewriting && !m->scheduled,
                         .written_ok = true,
                         .syncing = m->fsync.runs,
                         .child = m->child_ends_us > 0,
                         .valkey = m->valkey,
                         .pushed = pushed};
    l.facts = (struct redis_facts){.version = m->version, .aof_on = true, .lax_fsync = m->lax, .run_id = "r"};
    snprintf(l.facts.appendfsync, sizeof l.facts.appendfsync, m->always ? "always" : "everysec");
    return l;
}

static bool on_disk(const struct model *m)
{
    return m->disk[m->waited_file] >= m->waited_bytes ? !m->waits_rewrite : m->base_file > m->waited_file;
}

static void model_init(struct model *m, uint64_t seed)
{
    static const int versions[] = {70015, 70206, 70401, 70204, 70005, 80000};
    *m = (struct model){.seed = seed * 0x9E3779B97F4A7C15u + 1, .rewritten_ok = true, .mono_us = 5 * SECOND};
    for (int i = 0; i < 4; i++)
        (void)draw(m, 2);
    uint64_t which = draw(m, 6);
    m->version = versions[which];
    m->valkey = which == 3;
    m->always = draw(m, 5) == 0;
    m->lax = draw(m, 2) == 0;
    m->busy = draw(m, 2) == 0;
    m->waits_rewrite = m->scheduled = draw(m, 5) == 0;
    m->ahead_us = 1700000000ll * SECOND;
    m->last_fsync_us = clock_us(m);
}

static void fail_early(const struct model *m, uint64_t seed, int looks, const char *who)
{
    fail_msg("seed %llu: version %d%s, %s, lax %d: look %d: %s says synced, %lld of file %d is not",
             (unsigned long long)seed, m->version, m->valkey ? " valkey" : "",
             m->always ? "always" : "everysec", m->lax, looks, who, (long long)m->waited_bytes,
             m->waited_file);
}

/* WAITAOF is answered; then a look, in this turn or later. True: it is believed. */
static bool waitaof(struct model *m)
{
    for (int i = 0; i < 4000 && !waitaof_says_synced(m); i++) {
        turn_begin(m, (int64_t)draw(m, 60000));
        turn_end(m);
    }
    if (draw(m, 2) == 0) turn_begin(m, (int64_t)draw(m, 700000));
    struct aof_look l = look(m, false);
    return waitaof_says_synced(m) && aof_look_vouches(&l);
}

/* How long the wait took; -1: it had no end while there was trouble, nor soon after. */
static int64_t schedule(uint64_t seed)
{
    struct model m;
    struct aof_watch w = {0};
    struct aof_wait a = {0};
    model_init(&m, seed);
    for (int i = 0; i < 40; i++) { /* looks of before */
        turn_begin(&m, (int64_t)draw(&m, 300000));
        struct aof_look l = look(&m, false);
        l.asked_ms = l.answered_ms = (uint64_t)m.mono_us / 1000;
        if (draw(&m, 4) == 0) {
            aof_watch_look(&w, &l);
            m.seen = true;
        }
        turn_end(&m);
    }
    m.buffered += 10; /* the write; it runs in the turn of the first look, or in one before it */
    int64_t from_us = m.mono_us;
    bool push = false;
    m.waited_bytes = m.bytes + m.buffered;
    m.waited_file = m.file;
    if (m.version >= 80000 && waitaof(&m)) {
        if (!on_disk(&m)) fail_early(&m, seed, 0, "WAITAOF");
        return m.mono_us - from_us;
    }
    for (int looks = 0; looks < 4000; looks++) {
        m.calm = m.mono_us > from_us + 20 * SECOND;
        uint64_t asked_ms = (uint64_t)m.mono_us / 1000;
        int64_t left_us = (int64_t)a.again_ms * 1000 - m.mono_us;
        int64_t late_us = draw(&m, 10) > 0 ? (int64_t)draw(&m, 2000) : (int64_t)draw(&m, 700000);
        turn_begin(&m, late_us + (left_us > 0 && draw(&m, 30) > 0 ? left_us : 0)); /* others look, too */
        struct aof_look l = look(&m, push);
        if (push) m.buffered += 10;
        turn_end(&m);
        l.asked_ms = asked_ms;
        l.answered_ms = (uint64_t)m.mono_us / 1000 + draw(&m, 3);
        aof_watch_look(&w, &l);
        m.seen = true;
        push = aof_look_wants_push(&l);
        if (aof_wait_look(&a, &w, &l) == AOF_SYNCED) {
            if (!on_disk(&m)) fail_early(&m, seed, looks, "aof_wait_look");
            return m.mono_us - from_us;
        }
        while ((uint64_t)m.mono_us / 1000 < a.again_ms) {
            int64_t passes_us = (int64_t)draw(&m, 60000);
            if (m.mono_us + passes_us >= (int64_t)a.again_ms * 1000) break;
            turn_begin(&m, passes_us);
            turn_end(&m);
        }
    }
    return -1;
}

UNIT(test_schedules)
{
    int64_t sum_us = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int64_t took_us = schedule(seed);
        if (took_us < 0) fail_msg("seed %llu: it never ends", (unsigned long long)seed);
        sum_us += took_us;
    }
    print_message("mean %lld ms\n", (long long)(sum_us / SEEDS / 1000));
}
