/* http/labels.c - see caches.h. */
#include "http/caches.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"

struct label {
    uint64_t at_ms; /* mono: it was read from MySQL */
    bool named;
    uint32_t n;
    char text[];
};

void label_cache_init(struct label_cache *c)
{
    *c = (struct label_cache){0};
    pthread_mutex_init(&c->lock, NULL);
    map_init(&c->young);
    map_init(&c->old);
}

static void generation_close(struct map *m)
{
    size_t at = 0;
    struct slice key;
    void *label;
    while (map_next(m, &at, &key, &label))
        heap_free(label);
    map_close(m);
}

void label_cache_close(struct label_cache *c)
{
    generation_close(&c->young);
    generation_close(&c->old);
    pthread_mutex_destroy(&c->lock);
}

static void key_put(struct buf *key, const struct counter *counter, struct slice field)
{
    buf_reset(key);
    buf_put_slice(key, counter->name);
    buf_put_char(key, ' ');
    buf_put_slice(key, field);
}

/* Owns label. */
static void young_put(struct label_cache *c, struct slice key, struct label *label)
{
    heap_free(map_get(&c->young, key));
    map_put(&c->young, key, label);
    if (c->young.n < LABELS_MOST / 2) return;
    generation_close(&c->old);
    c->old = c->young;
    map_init(&c->young);
}

static struct label *label_make(uint64_t now_ms, struct slice name)
{
    size_t n = name.n;
    if (n > LABEL_BYTES_MAX)
        for (n = LABEL_BYTES_MAX; n > 0 && ((uint8_t)name.p[n] & 0xC0) == 0x80;)
            n--;
    struct label *made = heap_alloc(sizeof *made + n);
    *made = (struct label){.at_ms = now_ms, .named = name.p != NULL, .n = (uint32_t)n};
    if (n > 0) memcpy(made->text, name.p, n);
    return made;
}

static void text_free(struct slice *text)
{
    heap_free((void *)(uintptr_t)text->p);
    *text = slice_of(NULL, 0);
}

static struct slice text_copy(struct slice text)
{
    return slice_of(heap_strndup(text.p, text.n), text.n);
}

/* --- a question --- */

struct asking {
    const struct counter *counter;
    const struct slice *ids; /* of the items */
    uint64_t now_ms;
    size_t *wanted;       /* those whose names MySQL is asked for, */
    struct slice *fields; /* and their fields */
    size_t n;
    struct map said; /* field -> struct label: what it answers */
};

/* Puts kept names into out; those that are missing, or too old, are wanted. */
static void kept_look(struct label_cache *c, struct asking *a, struct labels *out)
{
    struct buf key = {0};
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < out->n; i++) {
        key_put(&key, a->counter, a->ids[i]);
        struct label *kept = map_get(&c->young, buf_slice(&key));
        if (kept == NULL && (kept = map_get(&c->old, buf_slice(&key))) != NULL) {
            map_remove(&c->old, buf_slice(&key));
            young_put(c, buf_slice(&key), kept);
        }
        if (kept != NULL && kept->named) out->all[i] = text_copy(slice_of(kept->text, kept->n));
        if (kept != NULL && a->now_ms - kept->at_ms < LABELS_AGE_MS) continue;
        a->wanted[a->n] = i;
        a->fields[a->n++] = a->ids[i];
    }
    pthread_mutex_unlock(&c->lock);
    buf_free(&key);
}

static void label_take(void *arg, struct slice id, struct slice name)
{
    struct asking *a = arg;
    if (!map_has(&a->said, id)) map_put(&a->said, id, label_make(a->now_ms, name));
}

/* Puts MySQL's answers into out, and keeps them; also that there is no name. */
static void asked_keep(struct label_cache *c, struct asking *a, struct labels *out)
{
    struct buf key = {0};
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < a->n; i++) {
        struct label *said = map_get(&a->said, a->fields[i]);
        struct slice *to = &out->all[a->wanted[i]];
        text_free(to);
        if (said != NULL) *to = text_copy(slice_of(said->text, said->n));
        key_put(&key, a->counter, a->fields[i]);
        map_remove(&a->said, a->fields[i]);
        young_put(c, buf_slice(&key), said != NULL ? said : label_make(a->now_ms, slice_of(NULL, 0)));
    }
    pthread_mutex_unlock(&c->lock);
    buf_free(&key);
}

struct labels labels_read(struct label_cache *cache, struct panel *p, const struct counter *counter,
                          const struct slice *ids, size_t n)
{
    static struct log_seldom line;
    unsigned times;
    struct error e;
    struct labels out = {heap_zalloc((n + 1) * sizeof *out.all), n};
    struct asking a = {.counter = counter, .ids = ids, .now_ms = mono_ms()};
    a.wanted = heap_alloc((n + 1) * sizeof *a.wanted);
    a.fields = heap_alloc((n + 1) * sizeof *a.fields);
    kept_look(cache, &a, &out);
    if (a.n > 0 && p != NULL) {
        map_init(&a.said);
        if (panel_labels(p, counter, a.fields, a.n, label_take, &a, &e) == ERR_NONE)
            asked_keep(cache, &a, &out);
        else if (log_seldom(&line, &times))
            log_event(LOG_WARN, "labels_unread", "counter=" SLICE_FMT " times=%u why=%s",
                      SLICE_ARG(counter->name), times, LOGQ(e.text));
        generation_close(&a.said);
    }
    heap_free(a.wanted);
    heap_free(a.fields);
    return out;
}

void labels_free(struct labels *l)
{
    for (size_t i = 0; i < l->n; i++)
        text_free(&l->all[i]);
    heap_free(l->all);
    *l = (struct labels){0};
}
