/* redis/quorum.c - see seek.h. The texts of Sentinel's events are sentinelEvent()'s:
 *   master <name> <ip> <port>                                    of most events about a primary
 *   slave <replica> <ip> <port> @ <name> <ip> <port>             of a replica, its primary behind the @
 *   <name> <old ip> <old port> <new ip> <new port>               of +switch-master */
#include "redis/reader.h"
#include "redis/seek.h"
#include <stdio.h>

#define WORDS_MAX 8

void quorum_init(struct quorum *q, const struct quorum_ports *ports, const char *name, uint32_t configured_n,
                 uint64_t now_ms)
{
    *q = (struct quorum){.ports = *ports,
                         .name = name,
                         .words_n = configured_n,
                         .configured_n = configured_n,
                         .began_ms = now_ms};
}

/* --- which sentinels count --- */

static bool is_fresh(const struct sentinel_word *w, uint64_t now_ms)
{
    return w->named_ms != 0 && now_ms - w->named_ms <= QUORUM_FRESH_MS;
}

/* It answers, and no other one before it in the list is the same. */
static bool word_counts(const struct quorum *q, uint32_t i, uint64_t now_ms)
{
    const struct sentinel_word *w = &q->words[i];
    if (!is_fresh(w, now_ms)) return false;
    for (uint32_t k = 0; k < i && w->id[0] != '\0'; k++)
        if (is_fresh(&q->words[k], now_ms) && strcmp(q->words[k].id, w->id) == 0) return false;
    return true;
}

uint32_t quorum_answering(const struct quorum *q, uint64_t now_ms)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->words_n; i++)
        n += word_counts(q, i, now_ms);
    return n;
}

/* The lower median of what the sentinels that answer say, so that one alone cannot change it; never less than are
 * configured. */
uint32_t quorum_size(const struct quorum *q, uint64_t now_ms)
{
    uint32_t said[SENTINELS_MAX], n = 0;
    for (uint32_t i = 0; i < q->words_n; i++) {
        if (!word_counts(q, i, now_ms)) continue;
        uint32_t at = n++;
        for (; at > 0 && said[at - 1] > q->words[i].others_n + 1; at--)
            said[at] = said[at - 1];
        said[at] = q->words[i].others_n + 1;
    }
    uint32_t middle = n == 0 ? 0 : said[(n - 1) / 2];
    return middle > q->configured_n ? middle : q->configured_n;
}

uint32_t quorum_majority(const struct quorum *q, uint64_t now_ms)
{
    return quorum_size(q, now_ms) / 2 + 1;
}

/* Where it says the primary is, unless that is the server that we know to be replaced. */
static bool word_names(const struct quorum *q, uint32_t i, uint64_t now_ms)
{
    return word_counts(q, i, now_ms) && !(q->words[i].old && now_ms - q->left_ms < QUORUM_PROVEN_MS);
}

/* The server that most of them name (the first of equals), and how many do. NULL: none answers. */
static const struct redis_target *most_named(const struct quorum *q, uint64_t now_ms, uint32_t *most)
{
    const struct redis_target *best = NULL;
    *most = 0;
    for (uint32_t i = 0; i < q->words_n; i++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < q->words_n && word_names(q, i, now_ms); k++)
            n += word_names(q, k, now_ms) && target_is(&q->words[i].named, &q->words[k].named);
        if (n <= *most) continue;
        *most = n;
        best = &q->words[i].named;
    }
    return best;
}

/* --- hold --- */

static void hold_end(struct quorum *q, const char *why, uint64_t now_ms)
{
    if (!q->holding) return;
    q->holding = false;
    if (!q->moved) q->words[q->holder].hold_again_ms = now_ms + QUORUM_HOLD_SHARE * (now_ms - q->hold_ms);
    q->ports.hold(q->ports.arg, false, why);
}

/* --- move --- */

static void candidate_forget(struct quorum *q)
{
    if (q->candidate.host[0] == '\0') return;
    q->candidate = (struct redis_target){0};
    q->ports.look(q->ports.arg, NULL);
}

static void move_to(struct quorum *q, const struct redis_target *to, const char *why)
{
    struct redis_target at = *to; /* it may be the candidate */
    candidate_forget(q);
    q->now = at;
    q->seen = false;
    q->moved = true;
    q->primary = (struct replication){0};
    q->ports.move(q->ports.arg, &q->now, why);
}

static void move_if_most_say(struct quorum *q, uint64_t now_ms)
{
    uint32_t n;
    char why[80];
    const struct redis_target *best = most_named(q, now_ms, &n);
    if (best == NULL || target_is(best, &q->now)) return;
    bool majority = n >= quorum_majority(q, now_ms);
    /* As long as we have seen no primary, the first that is named is used: its server must still say that it is one. */
    bool first = !q->seen && now_ms - q->began_ms >= QUORUM_FIRST_MS;
    if (!majority && !first) return;
    snprintf(why, sizeof why, "%u of %u sentinels name it", n, quorum_size(q, now_ms));
    move_to(q, best, why);
}

static bool target_is_known(const struct quorum *q, const struct redis_target *at)
{
    for (uint32_t i = 0; i < q->known_n && i < REPLICAS_MAX; i++)
        if (target_is(&q->known[i], at)) return true;
    return false;
}

static void target_add(struct quorum *q, const struct redis_target *at)
{
    if (!target_is_known(q, at)) q->known[q->known_n++ % REPLICAS_MAX] = *at;
}

/* One sentinel names it: tallyd looks at it for QUORUM_FRESH_MS. It sends a password only to a server that our
 * primaries have named. */
static void candidate_offer(struct quorum *q, const struct redis_target *at, uint64_t now_ms)
{
    if (!q->seen || target_is(at, &q->now) || !target_is_known(q, at)) return;
    q->candidate_ms = now_ms + QUORUM_FRESH_MS;
    if (target_is(at, &q->candidate)) return;
    q->candidate = *at;
    q->ports.look(q->ports.arg, &q->candidate);
}

/* --- what is heard --- */

void quorum_id(struct quorum *q, uint32_t i, struct slice id)
{
    slice_show(id, REPLID_BYTES - 1, q->words[i].id, REPLID_BYTES);
}

void quorum_others(struct quorum *q, uint32_t i, const uint64_t *others, uint32_t n)
{
    q->words[i].others_n = n < SENTINELS_MAX ? n : SENTINELS_MAX;
    memcpy(q->words[i].others, others, q->words[i].others_n * sizeof *others);
}

static bool word_lists(const struct sentinel_word *w, uint64_t other)
{
    for (uint32_t i = 0; i < w->others_n; i++)
        if (w->others[i] == other) return true;
    return false;
}

bool quorum_believes(const struct quorum *q, uint64_t other, uint64_t now_ms)
{
    uint32_t answering = quorum_answering(q, now_ms), listing = 0;
    for (uint32_t i = 0; i < q->words_n; i++)
        listing += word_counts(q, i, now_ms) && word_lists(&q->words[i], other);
    return answering >= q->configured_n / 2 + 1 && listing > answering / 2;
}

uint32_t quorum_add(struct quorum *q)
{
    if (q->words_n == SENTINELS_MAX) return SENTINELS_MAX;
    q->words[q->words_n] = (struct sentinel_word){0};
    return q->words_n++;
}

void quorum_silent(struct quorum *q, uint32_t i)
{
    q->words[i].named_ms = 0;
}

void quorum_named(struct quorum *q, uint32_t i, const struct redis_target *at, uint64_t now_ms)
{
    struct sentinel_word *w = &q->words[i];
    w->named = *at;
    w->named_ms = now_ms;
    w->old = w->old && target_is(at, &q->left);
    if (!w->old) candidate_offer(q, at, now_ms);
    move_if_most_say(q, now_ms);
}

static uint32_t words_split(struct slice text, struct slice *out)
{
    uint32_t n = 0;
    while (text.n > 0 && n < WORDS_MAX)
        out[n++] = text_part(&text, ' ');
    return n;
}

/* An event about our primary at its current server: promoted, or, if it is about one, the replica. False: about
 * another. */
static bool event_is_ours(const struct quorum *q, struct slice text, struct redis_target *replica)
{
    struct slice w[WORDS_MAX];
    struct redis_target primary;
    uint32_t n = words_split(text, w);
    *replica = (struct redis_target){0};
    bool of_replica = n >= 8 && slice_eq(w[0], SLICE("slave")) && slice_eq(w[4], SLICE("@"));
    if (!of_replica && (n < 4 || !slice_eq(w[0], SLICE("master")))) return false;
    const struct slice *at = of_replica ? w + 5 : w + 1;
    if (of_replica && !target_parse(w[2], w[3], replica)) return false;
    return slice_eq(at[0], slice_str(q->name)) && target_parse(at[1], at[2], &primary) &&
           target_is(&primary, &q->now);
}

void quorum_heard(struct quorum *q, uint32_t i, struct slice channel, struct slice text, uint64_t now_ms)
{
    struct redis_target replica;
    if (slice_eq(channel, SLICE("+switch-master"))) {
        struct slice w[WORDS_MAX];
        struct redis_target to;
        if (words_split(text, w) == 5 && slice_eq(w[0], slice_str(q->name)) && target_parse(w[3], w[4], &to))
            quorum_named(q, i, &to, now_ms);
        return;
    }
    if (!event_is_ours(q, text, &replica)) return;
    if (slice_starts(channel, SLICE("-failover-abort"))) {
        if (q->holding && q->holder == i) hold_end(q, "the failover was called off", now_ms);
        return;
    }
    if (!slice_starts(channel, SLICE("+failover-state-")) && !slice_eq(channel, SLICE("+selected-slave")) &&
        !slice_eq(channel, SLICE("+promoted-slave")))
        return;
    if (!q->holding && now_ms >= q->words[i].hold_again_ms) {
        q->holding = true;
        q->moved = false;
        q->holder = i;
        q->hold_ms = now_ms;
        q->ports.hold(q->ports.arg, true, "a failover has begun");
    }
    if (replica.host[0] != '\0') candidate_offer(q, &replica, now_ms);
}

/* --- what servers say --- */

void quorum_primary(struct quorum *q, const struct replication *r)
{
    if (!r->master) return;
    q->seen = true;
    q->primary = *r;
    target_add(q, &q->now);
    for (uint32_t i = 0; i < r->replicas_n; i++)
        target_add(q, &r->replicas[i]);
}

void quorum_looked(struct quorum *q, const struct replication *r, uint64_t now_ms)
{
    bool continues = r->master && q->primary.replid[0] != '\0' && strcmp(r->replid2, q->primary.replid) == 0;
    if (!continues || q->candidate.host[0] == '\0') return;
    q->left = q->now;
    q->left_ms = now_ms;
    for (uint32_t i = 0; i < q->words_n; i++)
        q->words[i].old = true;
    move_to(q, &q->candidate, "it was promoted, and continues what its primary had");
}

void quorum_up(struct quorum *q, uint64_t now_ms)
{
    if (q->moved) hold_end(q, "links are up", now_ms);
}

void quorum_tick(struct quorum *q, uint64_t now_ms)
{
    if (q->holding && now_ms - q->hold_ms >= QUORUM_HOLD_MS) hold_end(q, "no promotion was seen", now_ms);
    if (q->candidate.host[0] != '\0' && now_ms >= q->candidate_ms) candidate_forget(q);
    move_if_most_say(q, now_ms);
}
