/* status/sums.c - see sums.h. */
#include "status/sums.h"

#include "base/heap.h"
#include "base/slice.h"

static struct sum *sum_of(struct sums *s, struct slice name)
{
    for (size_t i = 0; i < s->n; i++)
        if (slice_eq(slice_str(s->all[i].name), name)) return &s->all[i];
    s->all = heap_realloc(s->all, (s->n + 1) * sizeof(*s->all));
    s->all[s->n] = (struct sum){.name = heap_strndup(name.p, name.n)};
    return &s->all[s->n++];
}

void sums_init(struct sums *s, const struct counters *counters)
{
    *s = (struct sums){.counters = counters};
    for (size_t i = 0; i < counters->n; i++)
        sum_of(s, counters->all[i].name)->configured = true;
}

void sums_close(struct sums *s)
{
    for (size_t i = 0; i < s->n; i++)
        heap_free(s->all[i].name);
    for (size_t i = 0; i < s->batches_n; i++) {
        batch_close(&s->batches[i]);
        map_close(&s->hashes[i]);
    }
    heap_free(s->all);
    heap_free(s->batches);
    heap_free(s->hashes);
    *s = (struct sums){0};
}

/* Adds value to *to, or notes that it is no integer. */
static void sum_add(struct sum *sum, struct slice value, sum_t *to)
{
    int64_t v;
    if (num_parse(value, &v))
        *to += v;
    else
        sum->odd++;
}

void sums_accepted(struct sums *s, struct slice counter, struct slice value)
{
    struct sum *sum = sum_of(s, counter);
    sum_add(sum, value, &sum->accepted);
}

void sums_pending(struct sums *s, struct slice key, struct slice value)
{
    const struct counter *counter = counters_match(s->counters, key);
    if (counter == NULL) {
        s->stray++;
        return;
    }
    struct sum *sum = sum_of(s, counter->name);
    sum_add(sum, value, &sum->pending);
}

void sums_batch(struct sums *s, const struct batch_id *id, struct slice counter, uint64_t gen)
{
    size_t n = s->batches_n++;
    s->batches = heap_realloc(s->batches, (n + 1) * sizeof(*s->batches));
    s->hashes = heap_realloc(s->hashes, (n + 1) * sizeof(*s->hashes));
    batch_init(&s->batches[n], id);
    map_init(&s->hashes[n]);
    s->batches[n].gen = gen;
    buf_put_slice(&s->batches[n].counter_name, counter);
}

void sums_claimed(struct sums *s, const struct batch_id *id, struct slice pending, struct slice field,
                  struct slice value)
{
    size_t i = s->batches_n; /* rows follow their batch, so the last one is nearly always it */
    while (i > 0 && memcmp(s->batches[i - 1].id.bytes, id->bytes, sizeof(id->bytes)) != 0)
        i--;
    PRE(i > 0);
    i--;
    struct batch *b = &s->batches[i];
    uintptr_t known = (uintptr_t)map_get(&s->hashes[i], pending);
    uint32_t hash = known > 0 ? (uint32_t)(known - 1) : batch_add_hash(b, pending, 0);
    if (known == 0) map_put(&s->hashes[i], pending, (void *)((uintptr_t)hash + 1));
    batch_add_row(b, hash, field, value);
    b->hashes[hash].hlen++; /* one script read the whole hash, each field once */
}

static const struct books_chunk *ledger_find_chunk(const struct books *books, const struct batch_id *id,
                                                   uint32_t chunk)
{
    for (size_t i = 0; i < books->chunks_n; i++)
        if (books->chunks[i].chunk == chunk &&
            memcmp(books->chunks[i].batch.bytes, id->bytes, sizeof(id->bytes)) == 0)
            return &books->chunks[i];
    return NULL;
}

static void batch_add(struct sums *s, struct batch *b, const struct books *books)
{
    struct sum *sum = sum_of(s, buf_slice(&b->counter_name));
    size_t short_hash;
    bool sealed = batch_seal(b, &short_hash);
    INVARIANT(sealed); /* hlen is what was seen */
    for (uint32_t i = 0, n = batch_chunks(b); i < n; i++) {
        struct chunk chunk;
        batch_chunk(b, i, &chunk);
        const struct books_chunk *row = ledger_find_chunk(books, &b->id, i);
        sum->broken += row != NULL && row->chunks != n;
        for (size_t k = chunk.first; k < chunk.first + chunk.rows_n; k++) {
            struct slice hash = batch_hash_name(b, b->rows[k].hash);
            if (row != NULL && !ledger_names_have(row->waiting, hash)) continue;
            sum_add(sum, batch_value(b, &b->rows[k]), &sum->claimed);
        }
    }
}

static uint64_t batches_lost(const struct sums *s, uint64_t ledger_gen)
{
    uint64_t standing = 0;
    if (s->gen <= ledger_gen) return 0;
    for (size_t i = 0; i < s->batches_n; i++)
        standing += s->batches[i].gen > ledger_gen && s->batches[i].gen <= s->gen;
    uint64_t claimed = s->gen - ledger_gen;
    return claimed > standing ? claimed - standing : 0;
}

void sums_stored(struct sums *s, const struct books *books)
{
    s->lost = batches_lost(s, books->highest.gen);
    for (size_t i = 0; i < books->counters_n; i++) {
        const struct books_counter *c = &books->counters[i];
        struct sum *sum = sum_of(s, slice_str(c->name));
        sum->merged += (sum_t)c->merged - c->newer;
        sum->rejected += c->rejected;
        sum->adjusted += c->adjusted;
    }
    for (size_t i = 0; i < s->batches_n; i++)
        batch_add(s, &s->batches[i], books);
}

void sums_add(struct sums *s, const struct sums *lane)
{
    for (size_t i = 0; i < lane->n; i++) {
        struct sum *to = sum_of(s, slice_str(lane->all[i].name));
        const struct sum *from = &lane->all[i];
        to->accepted += from->accepted;
        to->merged += from->merged;
        to->rejected += from->rejected;
        to->pending += from->pending;
        to->claimed += from->claimed;
        if (from->adjusted != 0) to->adjusted = from->adjusted; /* of no lane: whole in each that has books */
        to->odd += from->odd;
        to->broken += from->broken;
    }
    s->stray += lane->stray;
    s->lost += lane->lost;
    if (lane->realm != REALM_OURS) s->realm = lane->realm;
}

void sums_only(struct sums *s, struct slice name)
{
    struct sum kept = *sum_of(s, name);
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].name != kept.name) heap_free(s->all[i].name);
    s->all[0] = kept;
    s->n = 1;
    s->stray = 0;
}

sum_t sum_difference(const struct sum *s)
{
    return (int64_t)(uint64_t)(s->accepted - s->merged - s->rejected - s->pending - s->claimed);
}

sum_t sum_read(const char *digits)
{
    bool negative = digits[0] == '-';
    sum_t v = 0;
    for (const char *p = digits + negative; *p >= '0' && *p <= '9'; p++)
        v = v * 10 + (*p - '0');
    return negative ? -v : v;
}

size_t sum_write(sum_t v, char out[48])
{
    char digits[48];
    size_t n = 0, at = 0;
    unsigned __int128 rest = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
    do {
        digits[n++] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest > 0);
    if (v < 0) out[at++] = '-';
    while (n > 0)
        out[at++] = digits[--n];
    out[at] = '\0';
    return at;
}

/* No difference, and every batch is cut as the ledger says. */
static bool sum_balanced(const struct sum *s)
{
    return sum_difference(s) == 0 && s->broken == 0;
}

size_t sums_unbalanced(const struct sums *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += !sum_balanced(&s->all[i]);
    return n;
}

bool sums_proved(const struct sums *s)
{
    return sums_unbalanced(s) == 0 && s->realm == REALM_OURS;
}

static const char *realm_advice(const struct sums *s)
{
    switch (s->realm) {
    case REALM_BEHIND:
        return "Redis does not know claims that MySQL has merged: it lost data (FLUSHALL, FLUSHDB, an empty "
               "server, an older copy), and what was counted since with them, or another server is the "
               "primary. Next: `tallyd status`, and `tallyd recover --help` (--accept-rollback).\n";
    case REALM_STRANGER:
        return "Redis does not say which it is (it has no tally:realm), and MySQL counts for others: it lost "
               "everything, or is one more. Next: `tallyd status`, then `tallyd recover --help` "
               "(--accept-rollback) or `tallyd migrate --help` (--another-redis).\n";
    case REALM_UNKNOWN:
        return "MySQL does not count for this Redis (its tally:realm is not in tally_realms). Next: see that "
               "redis.url and mysql.url belong together; otherwise `tallyd recover --help` "
               "(--accept-rollback).\n";
    default:
        return "";
    }
}

void sum_json(struct json *j, const char *key, sum_t v)
{
    char text[48];
    size_t n = sum_write(v, text);
    json_digits(j, key, slice_of(text, n));
}

void sum_columns_json(struct json *j, const struct sum *s)
{
    sum_json(j, "accepted", s->accepted);
    sum_json(j, "merged", s->merged);
    sum_json(j, "rejected", s->rejected);
    sum_json(j, "pending", s->pending);
    sum_json(j, "claimed", s->claimed);
    sum_json(j, "difference", sum_difference(s));
    sum_json(j, "adjusted", s->adjusted);
}

void sums_json(const struct sums *s, struct json *j)
{
    json_open(j, "counters", '[');
    for (size_t i = 0; i < s->n; i++) {
        const struct sum *of = &s->all[i];
        json_open(j, NULL, '{');
        json_text(j, "name", of->name);
        json_bool(j, "balanced", sum_balanced(of));
        sum_columns_json(j, of);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void line_print(const struct sum *s, struct buf *out)
{
    const sum_t columns[] = {s->accepted, s->merged, s->rejected, s->pending, s->claimed, sum_difference(s)};
    char text[48];
    buf_printf(out, "%-22s", s->name);
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        sum_write(columns[i], text);
        buf_printf(out, " %12s", text);
    }
    buf_put_char(out, '\n');
}

static void adjusted_print(const struct sum *s, struct buf *out)
{
    char text[48];
    if (s->adjusted == 0) return;
    sum_write(s->adjusted, text);
    buf_printf(out, "%s: %s adjusted by hand, which are in none of these.\n", s->name, text);
}

static bool is_left(const struct sum *s) /* a counter that was renamed */
{
    return !s->configured && sum_difference(s) != 0;
}

/* What Redis accepted under one name, and the rest has under another. */
static void renamed_print(const struct sum *s, struct buf *out)
{
    char here[48], there[48];
    sum_write(sum_difference(s), here);
    sum_write(-sum_difference(s), there);
    if (is_left(s))
        buf_printf(
            out,
            "%s has books, and no counter is configured by that name. If it was renamed, give it that "
            "name again, or move what Redis accepted: `redis-cli HINCRBY tally:accepted %s %s`, and %s "
            "for the new name.\n",
            s->name, s->name, there, here);
    else
        buf_printf(out,
                   "%s does not balance: %s of its hits were accepted under another name. Next: see below "
                   "which name has no counter.\n",
                   s->name, there);
}

/* Why not, and what to do next. left: the books of another name are there, and no such counter. */
static void advice_print(const struct sum *s, bool left, struct buf *out)
{
    sum_t difference = sum_difference(s);
    char text[48], accepted[48], reversed[48];
    sum_write(difference < 0 ? -difference : difference, text);
    sum_write(-difference, reversed);
    sum_write(s->accepted, accepted);
    if (is_left(s) || (difference < 0 && left))
        renamed_print(s, out);
    else if (difference > 0)
        buf_printf(
            out,
            "%s does not balance: %s accepted hits are neither merged, rejected, pending nor claimed. Next: "
            "`tallyd recover --dry-run` names claimed hashes that no batch knows; a Redis or a MySQL that "
            "lost data is named in tallyd's log (frames_lost, merges_held, mysql_behind).\n",
            s->name, text);
    else if (difference < 0)
        buf_printf(
            out,
            "%s does not balance: Redis knows of %s accepted hits, and %s more are in the books. Next: "
            "see whether another program writes its pending hashes in Redis or its row in tally_counters, "
            "or tally_ledger was dropped (`tallyd migrate --help`); then whether Redis' data are gone "
            "(FLUSHALL, FLUSHDB, an empty server, an older copy), and with them what was pending: `tallyd "
            "recover --help` (--accept-rollback).\n",
            s->name, accepted, text);
    if (difference != 0 && !is_left(s) && !left)
        buf_printf(
            out,
            "When its cause is found, that is done, and tallyd merges again, the difference stays. Then "
            "`redis-cli HINCRBY tally:accepted %s %s` ends it.\n",
            s->name, reversed);
    if (s->broken > 0)
        buf_printf(out,
                   "%s: the ledger has %llu chunks of existing batches that were cut in another way. Next: "
                   "stop every "
                   "tallyd of this Redis and report it, with the output of `tallyd recover --dry-run`.\n",
                   s->name, (unsigned long long)s->broken);
    if (s->odd > 0)
        buf_printf(out,
                   "%s: %llu values in Redis are not integers and in no sum; a merge puts them into "
                   "tally_rejects.\n",
                   s->name, (unsigned long long)s->odd);
}

size_t sums_print(const struct sums *s, struct buf *out)
{
    buf_printf(out, "%-22s %12s %12s %12s %12s %12s %12s\n", "counter", "accepted", "merged", "rejected",
               "pending", "claimed", "difference");
    for (size_t i = 0; i < s->n; i++)
        line_print(&s->all[i], out);
    bool left = false;
    for (size_t i = 0; i < s->n; i++)
        left |= is_left(&s->all[i]);
    for (size_t i = 0; i < s->n; i++)
        adjusted_print(&s->all[i], out);
    for (size_t i = 0; i < s->n; i++)
        advice_print(&s->all[i], left, out);
    buf_put_slice(out, slice_str(realm_advice(s)));
    if (s->lost > 0)
        buf_printf(
            out,
            "MySQL is behind: %llu batches that were merged are in no ledger. After `tallyd migrate "
            "--ledger-lost` that is normal until the next merge. Otherwise it was restored from a "
            "backup, or it failed over to a copy that lagged, and what was merged since is in no table any "
            "more. Next: bring tally_ledger, tally_counters and the counters' tables forward together (a "
            "later backup, the binary log) while every tallyd of this Redis is stopped; what stays lost is "
            "the difference above.\n",
            (unsigned long long)s->lost);
    if (s->stray > 0)
        buf_printf(out,
                   "%llu fields are in hashes that no configured counter claims (tally:held has their "
                   "names); they are in no sum.\n",
                   (unsigned long long)s->stray);
    return sums_unbalanced(s);
}
