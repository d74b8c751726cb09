/* tests/sim/link.c - see link.h. */
#include "sim/link.h"

#include "base/heap.h"

const char *request_name(enum request_kind kind)
{
    static const char *const names[] = {
        "frame",    "replay",       "claim",   "kill",     "look",     "values", "scan",       "fence",
        "wait",     "discard",      "adopt",   "due_poll", "standing", "beat",   "hold_names", "walk",
        "journals", "journal_take", "history", "dirty",    "batches",  "total"};
    return names[kind];
}

struct link *link_open(struct list *all, int life, int instance, enum role role, int64_t client_id)
{
    struct link *l = heap_zalloc(sizeof *l);
    list_init(&l->sent);
    list_init(&l->done);
    list_init(&l->gone);
    list_push(all, &l->all);
    l->life = life;
    l->instance = instance;
    l->role = role;
    l->client_id = client_id;
    l->client_open = l->server_open = true;
    return l;
}

void link_drop(struct list *requests)
{
    for (struct list *node; (node = list_pop(requests)) != NULL;)
        heap_free(CONTAINER_OF(node, struct request, link));
}

void link_free(struct link *l)
{
    link_drop(&l->sent);
    link_drop(&l->done);
    link_drop(&l->gone);
    list_remove(&l->all);
    heap_free(l);
}

/* A frame takes ten times what any other request does. */
static size_t request_bytes(enum request_kind kind)
{
    bool is_frame = kind == REQ_FRAME || kind == REQ_REPLAY || kind == REQ_VALUES;
    return is_frame ? sizeof(struct request) : offsetof(struct request, others_end);
}

struct request *request_send(struct link *l, enum request_kind kind, void *target, uint64_t now_ms)
{
    struct request *r = heap_zalloc(request_bytes(kind));
    r->kind = kind;
    r->target = target;
    r->sent_ms = now_ms;
    list_push(&l->sent, &r->link);
    return r;
}

void link_kill(struct link *l)
{
    if (!l->server_open) return;
    l->server_open = false;
    list_move_all(&l->gone, &l->sent);
    if (!l->client_open) link_drop(&l->gone);
}

bool request_is_driven(const struct request *r)
{
    return r->kind == REQ_SCAN || r->kind == REQ_WALK || r->kind == REQ_JOURNAL_TAKE ||
           (r->kind == REQ_CLAIM && r->step > 0);
}

void link_lose(struct link *l, unsigned unread_kept)
{
    l->client_open = false;
    link_drop(&l->done);
    link_drop(&l->gone);
    struct list kept;
    list_init(&kept);
    for (struct list *node; unread_kept > 0 && (node = list_pop(&l->sent)) != NULL; unread_kept--) {
        list_push(&kept, node); /* half done and driven by the daemon, it ends here */
        if (!request_is_driven(CONTAINER_OF(node, struct request, link))) continue;
        list_remove(node);
        heap_free(CONTAINER_OF(node, struct request, link));
    }
    link_drop(&l->sent);
    list_move_all(&l->sent, &kept);
    if (list_empty(&l->sent)) l->server_open = false;
}

bool link_is_dead(const struct link *l)
{
    return !l->client_open && (!l->server_open || list_empty(&l->sent));
}

unsigned link_unread(const struct link *l)
{
    unsigned n = 0;
    list_for_each (node, &l->sent)
        n++;
    return n;
}
