/* sync/queue.c - what is due, two queues a counter: by time, and by hits alone. They are bounded. The dirty index has
 * what does not fit; its pages are filed into them (due.c and wait.c ask for those). */
#include "base/heap.h"
#include "sync/inside.h"

struct family *family_of(struct sync *s, const struct counter *c)
{
    PRE(c >= s->counters->all && c < s->counters->all + s->counters->n);
    return &s->families[c - s->counters->all];
}

static void name_into(struct sync *s, struct family *f, struct due_name *d, bool paced)
{
    d->paced = paced;
    list_push(paced ? &f->paced : &f->queue, &d->link);
    f->paced_n += paced;
    s->paced_n += paced;
}

static void name_out(struct sync *s, struct family *f, struct due_name *d)
{
    list_remove(&d->link);
    f->paced_n -= d->paced;
    s->paced_n -= d->paced;
}

bool family_add(struct sync *s, struct family *f, struct slice key, enum due_why why)
{
    if (family_held(f)) return false;
    struct due_name *d = map_get(&f->names, key);
    if (d != NULL && (why == DUE_HITS || !d->paced)) return true;
    if (d != NULL) {
        name_out(s, f, d);
        name_into(s, f, d, false);
        return true;
    }
    uint32_t kept_free = why == DUE_HITS ? CLAIM_HASHES_MAX : 0; /* for a page of what is due by time */
    if (s->due_n + kept_free >= s->config.due_max) return false;
    d = heap_zalloc(sizeof *d + key.n);
    d->n = key.n;
    memcpy(d->name, key.p, key.n);
    name_into(s, f, d, why == DUE_HITS);
    map_put(&f->names, key, d);
    s->due_n++;
    return true;
}

static void name_drop(struct sync *s, struct family *f, struct due_name *d)
{
    map_remove(&f->names, slice_of(d->name, d->n));
    name_out(s, f, d);
    heap_free(d);
    s->due_n--;
}

void family_take(struct sync *s, struct family *f, struct list *from, struct buf *bytes, struct slice *keys,
                 uint32_t n)
{
    size_t total = 0;
    struct list *node = from->next;
    for (uint32_t i = 0; i < n; i++, node = node->next)
        total += CONTAINER_OF(node, struct due_name, link)->n;
    buf_reserve(bytes, total); /* so that it does not move below */
    for (uint32_t i = 0; i < n; i++) {
        struct due_name *d = CONTAINER_OF(from->next, struct due_name, link);
        keys[i] = slice_of(bytes->p + bytes->n, d->n);
        buf_put(bytes, d->name, d->n);
        name_drop(s, f, d);
    }
}

void family_release(struct sync *s, struct family *f)
{
    while (!list_empty(&f->paced)) {
        struct due_name *d = CONTAINER_OF(f->paced.next, struct due_name, link);
        name_out(s, f, d);
        name_into(s, f, d, false);
    }
}

void family_drop(struct sync *s, struct family *f, struct slice name)
{
    wait_names_back(s, &name, 1);
    name_drop(s, f, map_get(&f->names, name));
}

void family_forget(struct sync *s, struct family *f)
{
    family_release(s, f);
    while (!list_empty(&f->queue)) {
        struct due_name *d = CONTAINER_OF(f->queue.next, struct due_name, link);
        family_drop(s, f, slice_of(d->name, d->n));
    }
}

void due_close(struct sync *s)
{
    for (size_t i = 0; i < s->counters->n; i++) {
        family_forget(s, &s->families[i]);
        map_close(&s->families[i].names);
        refused_close(&s->families[i]);
    }
}

void sync_due(struct sync *s, const struct counter *c, struct slice key, enum due_why why)
{
    struct family *f = family_of(s, c);
    if (!refused_waits(s, f, key, true)) family_add(s, f, key, why);
}

/* A name is due when its own counter's `every` has passed since its score. One that no counter of ours matches may
 * belong to another tallyd, so it is put into tally:held only when it was not merged for long. Returns how many of the
 * page stay. */
static uint32_t file_names(struct sync *s, struct due_poll *p, bool all)
{
    struct slice *unknown = heap_alloc((p->keys_n + 1) * sizeof *unknown);
    uint32_t unknown_n = 0, stays = 0;
    int64_t now_ms = s->ports.redis_ms(s->ports.arg);
    for (uint32_t i = 0; i < p->keys_n; i++) {
        const struct counter *c = counters_match(s->counters, p->keys[i]);
        bool is_due = c != NULL && (all || p->scores[i] <= now_ms - INT64_C(1000) * c->every_s);
        bool forsaken = c == NULL && p->scores[i] <= now_ms - (int64_t)s->config.forsaken_ms;
        if (forsaken)
            unknown[unknown_n++] = p->keys[i];
        else if (c == NULL || !is_due || family_held(family_of(s, c)) ||
                 refused_waits(s, family_of(s, c), p->keys[i], !all))
            stays++;
        else
            family_add(s, family_of(s, c), p->keys[i], DUE_TIME);
    }
    if (unknown_n > 0) s->ports.hold_names(s->ports.arg, unknown, unknown_n);
    heap_free(unknown);
    return stays;
}

void due_poll_free(struct due_poll *p)
{
    buf_free(&p->names);
    heap_free(p->keys);
    heap_free(p->scores);
    p->keys = NULL;
    p->scores = NULL;
}

/* Names of counters with a long `every`, or of held ones, may come first in the index and stay there: the next page
 * begins after them. */
void due_poll_names(struct sync *s, struct due_poll *p, bool all)
{
    uint32_t stays = p->lost ? 0 : file_names(s, p, all);
    bool more = !p->lost && p->keys_n == p->limit;
    p->skip = more ? p->skip + stays : 0;
    due_poll_free(p);
}
