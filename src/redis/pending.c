/* redis/pending.c - see query_op.h. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/slice.h"
#include "redis/ask.h"
#include "redis/query_op.h"
#include <stdio.h>
#include <xxhash.h>

/* --- a script that only reads; flags=no-writes lets it run when Redis or its disk is full. --- */

static bool total_file(struct total_read *t, const struct redis_answer *r)
{
    const struct redis_answer *pending, *batches, *values, *seq;
    if (!answer_scan(r, "(iaa*)", &t->gen, &pending, &batches, &seq) || pending->n != t->fields_n)
        return false;
    for (uint32_t i = 0; i < t->fields_n; i++)
        t->pending(t->arg, i, pending->elements[i].str);
    for (size_t b = 0; b < batches->n; b++) {
        struct batch_id id;
        struct slice hex;
        if (!answer_scan(&batches->elements[b], "(sa)", &hex, &values)) return false;
        if (values->n != t->fields_n || !batch_id_read(hex, &id)) return false;
        for (uint32_t i = 0; i < t->fields_n; i++)
            t->claimed(t->arg, &id, i, values->elements[i].str);
    }
    return true;
}

static void total_read_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct total_read *t = arg;
    (void)at;
    t->cut = r == NULL || (r->n == 4 && !redis_link_whole(l, t->number, &r->elements[3]));
    t->lost = t->cut || !total_file(t, r);
    if (t->lost) answer_why(r, t->text, sizeof t->text);
    t->done(t);
}

void redis_total(struct redis_link *l, struct total_read *t)
{
    PRE(t->fields_n > 0 && t->fields_n <= TOTAL_FIELDS_MAX);
    t->text[0] = '\0';
    t->number = redis_link_number(l);
    struct buf *out =
        redis_write(l,
                    "EVAL %.*s 4 {}" KEY_GEN " {}" KEY_BATCHES " {}%.*s {}" KEY_SEQ_PREFIX OWNER_FMT
                    " {}" KEY_BATCH_PREFIX " +%zu",
                    SLICE_ARG(lua_total), SLICE_ARG(t->key), OWNER_ARG(l->config.life), (size_t)t->fields_n);
    for (uint32_t i = 0; i < t->fields_n; i++)
        request_slice(out, t->fields[i]);
    redis_link_ask(l, 1, total_read_done, t);
}

/* --- HSCAN. A claim takes the hash out of the dirty index, and the next hit puts it there with a later time. --- */

#define PIECE_FIELDS 200 /* at first, and at most: 0.3 ms of Redis, 0.1 ms of ours */
#define PIECE_BYTES 16384
#define PIECE_LEAST 20
#define PLACES_FIRST 512
#define FIELD_BYTES 64 /* of a field beside its texts */
#define BEGUN_MAX 10

static void hash_end(struct redis_hash *h, enum ask_outcome outcome)
{
    h->outcome = outcome;
    if (outcome != ASK_DONE) h->answer.n = 0;
    heap_free(h->places);
    h->places = NULL;
    h->came(h, false);
}

static void hash_begin(struct redis_hash *h)
{
    heap_free(h->places);
    h->places = NULL;
    h->places_n = 0;
    rand_bytes(&h->seed, sizeof h->seed);
    query_answer_free(&h->answer);
    h->answer = (struct query_answer){0};
    h->cursor = 0;
    h->begun++;
}

struct hash_place {
    uint32_t hash, at;
};

static struct hash_place *hash_place_of(const struct redis_hash *h, uint32_t hash, struct slice field)
{
    for (uint32_t i = hash;; i++) {
        struct hash_place *p = &h->places[i & (h->places_n - 1)];
        if (p->at == 0) return p;
        if (p->hash == hash && slice_eq(QUERY_TEXT(&h->answer, &h->answer.values[p->at - 1]), field))
            return p;
    }
}

/* HSCAN may give a field twice. */
static void hash_field_file(struct redis_hash *h, struct slice field, struct slice value)
{
    if (h->answer.n >= h->places_n) {
        /* At most half of them are taken. */
        struct hash_place *before = h->places;
        uint32_t n = h->places_n;
        h->places_n = n == 0 ? PLACES_FIRST : 2 * n;
        h->places = heap_zalloc(h->places_n * sizeof *h->places);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t to = before[i].hash;
            while (before[i].at != 0 && h->places[to & (h->places_n - 1)].at != 0)
                to++;
            if (before[i].at != 0) h->places[to & (h->places_n - 1)] = before[i];
        }
        heap_free(before);
    }
    uint32_t hash = (uint32_t)XXH3_64bits_withSeed(field.n > 0 ? field.p : "", field.n, h->seed);
    struct hash_place *place = hash_place_of(h, hash, field);
    uint32_t at = place->at;
    if (at == 0) query_put_text(&h->answer, field);
    query_put_text(&h->answer, value);
    if (at > 0)
        h->answer.values[at] = h->answer.values[--h->answer.n];
    else
        *place = (struct hash_place){hash, (uint32_t)h->answer.n - 1};
}

static void hash_piece_file(struct redis_hash *h, const struct redis_answer *list)
{
    size_t before = h->answer.texts.n;
    for (size_t i = 0; i + 1 < list->n; i += 2)
        hash_field_file(h, list->elements[i].str, list->elements[i + 1].str);
    h->piece_bytes = (uint32_t)(h->answer.texts.n - before);
    uint32_t less = h->piece * PIECE_BYTES / (h->piece_bytes + 1);
    h->piece = less > PIECE_FIELDS ? PIECE_FIELDS : less < PIECE_LEAST ? PIECE_LEAST : less;
}

static void hash_piece_end(struct redis_hash *h)
{
    if (h->answer.texts.n + h->answer.n / 2 * FIELD_BYTES > h->bytes_max)
        snprintf(h->text, sizeof h->text,
                 "ERR more than %u bytes are pending (limits.memory); ask for single fields with CTR.TOTAL",
                 h->bytes_max);
    else if (!h->same && h->begun >= BEGUN_MAX)
        snprintf(h->text, sizeof h->text, "TRYAGAIN the hash was claimed during every read; ask again");
    if (h->text[0] != '\0') return hash_end(h, ASK_FAILED);
    if (!h->same) hash_begin(h);
    if (h->same && h->cursor == 0)
        hash_end(h, ASK_DONE);
    else
        h->came(h, true);
}

/* The score, the fields, the score again: it is the same hash as in the piece before, and was while the fields were read. */
static void on_hash_piece(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct redis_hash *h = arg;
    const struct redis_answer *list;
    struct slice cursor, since = SLICE("");
    if (r == NULL) return hash_end(h, ASK_REDIS_DOWN);
    if (at == 0) h->piece_bytes = 0;
    if (at != 1 && (answer_is(r, REDIS_NIL) || answer_scan(r, "s", &since))) {
        if (at == 0 && h->cursor == 0) {
            slice_show(since, sizeof h->since - 4, h->since, sizeof h->since);
            h->client_id = l->client_id;
            h->same = true;
        }
        h->same = h->same && h->client_id == l->client_id && slice_eq(since, slice_str(h->since));
    } else if (at == 1 && answer_scan(r, "(sa)", &cursor, &list) && num_parse_u64(cursor, &h->cursor)) {
        if (h->same) hash_piece_file(h, list);
    } else if (h->text[0] == '\0') {
        answer_why(r, h->text, sizeof h->text);
    }
    if (at == 2) hash_piece_end(h);
}

void redis_hash(struct redis_link *l, struct redis_hash *h)
{
    if (h->begun == 0) {
        h->piece = PIECE_FIELDS;
        hash_begin(h);
    }
    redis_write(l, "ZSCORE {}" KEY_DIRTY " %.*s", SLICE_ARG(h->key));
    redis_write(l, "HSCAN {}%.*s %llu COUNT %u", SLICE_ARG(h->key), (unsigned long long)h->cursor, h->piece);
    redis_write(l, "ZSCORE {}" KEY_DIRTY " %.*s", SLICE_ARG(h->key));
    redis_link_ask(l, 3, on_hash_piece, h);
}
