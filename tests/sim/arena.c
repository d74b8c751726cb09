/* tests/sim/arena.c - see arena.h. */
#include "sim/arena.h"

#include "base/heap.h"
#include <stdlib.h>

struct block {
    struct list link;
    struct arena *arena;
    size_t size; /* keeps the payload aligned to 16 bytes, too */
};

static struct arena *entered;

static void block_place(struct block *b, struct arena *a, size_t size)
{
    b->arena = a;
    b->size = size;
    list_push(&a->blocks, &b->link);
    a->n++;
}

static void block_take(struct block *b)
{
    list_remove(&b->link);
    b->arena->n--;
}

static void *arena_realloc(void *arg, void *p, size_t size)
{
    (void)arg;
    struct block *old = p == NULL ? NULL : (struct block *)p - 1;
    struct arena *a = old == NULL ? entered : old->arena;
    if (old != NULL) block_take(old);
    struct block *b = realloc(old, sizeof *b + size);
    if (b == NULL) abort();
    block_place(b, a, size);
    return b + 1;
}

static void arena_free(void *arg, void *p)
{
    (void)arg;
    if (p == NULL) return;
    struct block *b = (struct block *)p - 1;
    block_take(b);
    free(b);
}

void arena_install(void)
{
    static const struct heap heap = {arena_realloc, arena_free, NULL};
    heap_replace(&heap);
}

void arena_init(struct arena *a)
{
    list_init(&a->blocks);
    a->n = 0;
}

void arena_drop(struct arena *a)
{
    for (struct list *node; (node = list_pop(&a->blocks)) != NULL;)
        free(CONTAINER_OF(node, struct block, link));
    a->n = 0;
}

struct arena *arena_enter(struct arena *a)
{
    struct arena *before = entered;
    entered = a;
    return before;
}
