/* base/list.h - intrusive doubly linked ring. A node is in at most one list. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/log.h"
#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline bool list_linked(const struct list *node)
{
    return node->next != NULL && node->next != node;
}

static inline void list_push(struct list *l, struct list *node) /* at the end */
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

static inline void list_remove(struct list *node) /* leaves node initialised; safe to repeat */
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline struct list *list_pop(struct list *l) /* the first, NULL when empty */
{
    struct list *node = l->next;
    if (node == l) return NULL;
    list_remove(node);
    return node;
}

static inline void list_move_all(struct list *to, struct list *from) /* to must be empty */
{
    PRE(list_empty(to));
    if (list_empty(from)) return;
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    list_init(from);
}

#define list_for_each(node, l) for (struct list *node = (l)->next; node != (l); node = node->next)

#endif
