/* base/turns.h - what keeps one asker's work from delaying that of others: turns and pieces. In this queue askers take
 * turns: many requests of one delay those of another by one. Intrusive. */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include "base/list.h"
#include "base/log.h"

#include <stdint.h>

struct turn {
    struct list link;   /* of its asker's first: in turns.first; of the others: in the first one's behind */
    struct list behind; /* of an asker's first: the others, oldest first */
    const void *who;    /* only compared */
};

struct turns {
    struct list first; /* one of each asker, the next to come first */
};

static inline struct turn *turns_of(const struct turns *t, const void *who) /* NULL: none of it waits */
{
    list_for_each (node, &t->first)
        if (CONTAINER_OF(node, struct turn, link)->who == who) return CONTAINER_OF(node, struct turn, link);
    return NULL;
}

static inline void turns_push(struct turns *t, struct turn *n)
{
    struct turn *first = turns_of(t, n->who);
    list_init(&n->behind);
    list_push(first != NULL ? &first->behind : &t->first, &n->link);
}

/* It was taken: of its asker it is the next again. */
static inline void turns_push_again(struct turns *t, struct turn *n)
{
    struct turn *first = turns_of(t, n->who);
    list_init(&n->behind);
    list_push(first != NULL ? &first->link : &t->first, &n->link);
    if (first == NULL) return;
    list_remove(&first->link);
    list_push(&n->behind, &first->link);
    for (struct list *node; (node = list_pop(&first->behind)) != NULL;)
        list_push(&n->behind, node);
}

/* n is the first of its asker, whose next one comes after all other askers'. */
static inline void turns_take(struct turns *t, struct turn *n)
{
    struct list *node = list_pop(&n->behind);
    list_remove(&n->link);
    if (node == NULL) return;
    struct turn *next = CONTAINER_OF(node, struct turn, link);
    list_init(&next->behind);
    list_move_all(&next->behind, &n->behind);
    list_push(&t->first, &next->link);
}

static inline struct turn *turns_pop(struct turns *t) /* NULL when empty */
{
    struct turn *n = list_empty(&t->first) ? NULL : CONTAINER_OF(t->first.next, struct turn, link);
    if (n != NULL) turns_take(t, n);
    return n;
}

/* Gives work to a server in pieces, because other requests wait behind each piece. A piece is as large as the server
 * can do in a given number of us, by the times of the pieces before. A time may include other work, and two answers may
 * come together. So the estimate of one item's time is near the lowest third of the times: it goes down by a quarter,
 * or up by an eighth. */

struct piece {
    uint32_t now, least, most;
    uint32_t us;      /* of the server's time; > 0 */
    uint64_t each_ns; /* 0: not known */
};

static inline void piece_took(struct piece *p, uint32_t done, uint64_t us)
{
    PRE(p->us > 0 && p->least > 0 && p->least <= p->most);
    if (done == 0 || (done < p->now / 2 && us <= p->us)) return; /* a small one says little */
    uint64_t ns = 1000 * us / done;
    if (p->each_ns == 0) p->each_ns = UINT64_C(1000) * p->us / p->most + 1;
    if (ns < p->each_ns)
        p->each_ns = ns > p->each_ns - p->each_ns / 4 ? ns : p->each_ns - p->each_ns / 4;
    else
        p->each_ns = ns < p->each_ns + p->each_ns / 8 ? ns : p->each_ns + p->each_ns / 8 + 1;
    uint64_t fits = UINT64_C(1000) * p->us / (p->each_ns + 1);
    p->now = fits < p->least ? p->least : fits > p->most ? p->most : (uint32_t)fits;
}

#endif
