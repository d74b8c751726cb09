/* tests/sim/moves.c - see moves.h. */
#include "sim/world.h"

#define HOLD_MS 3000 /* PLACE_HOLD_MS */

void moves_init(struct world *w)
{
    *w->other = (struct other){0};
    list_init(&w->other->links);
}

void moves_close(struct world *w)
{
    while (!list_empty(&w->other->links))
        link_free(CONTAINER_OF(w->other->links.next, struct link, all));
}

static void swap_links(struct list *a, struct list *b)
{
    struct list kept;
    list_init(&kept);
    list_move_all(&kept, a);
    list_move_all(a, b);
    list_move_all(b, &kept);
}

static void swap_processes(struct world *w)
{
    static struct twin_state kept;
    struct redis *r = w->redis;
    struct other *o = w->other;
    unsigned run = r->run, history = r->history;
    redis_state_copy(&kept, &r->now);
    redis_state_copy(&r->now, &o->now);
    redis_state_copy(&o->now, &kept);
    r->run = o->run;
    r->history = o->history;
    o->run = run;
    o->history = history;
    swap_links(&r->links, &o->links);
}

void moves_swap(struct world *w)
{
    swap_processes(w);
    w->redis->is_other = !w->redis->is_other;
}

bool moves_is_away(const struct world *w, const struct link *l)
{
    return w->other->there && l->run == w->other->run;
}

bool moves_refuses(const struct world *w, const struct request *q)
{
    if (!w->redis->is_other || w->other->writes) return false;
    switch (q->kind) {
    case REQ_FRAME:
    case REQ_REPLAY:
    case REQ_CLAIM:
    case REQ_FENCE:
    case REQ_WAIT:
    case REQ_DISCARD:
    case REQ_ADOPT:
    case REQ_BEAT:
    case REQ_HOLD_NAMES:
    case REQ_HISTORY:
        return q->step == 0;
    case REQ_JOURNAL_TAKE:
        return q->step == 0 || q->step == 2;
    case REQ_WALK:
        return true;
    default:
        return false;
    }
}

/* --- failover --- */

bool moves_can_fail_over(const struct world *w)
{
    bool chosen = !w->config.third_copy || w->redis->chosen != UINT64_MAX;
    return w->config.moves && chosen && (!w->other->there || w->other->follows);
}

static void end_links(struct list *links)
{
    list_for_each (node, links)
        link_kill(CONTAINER_OF(node, struct link, all));
}

/* The other server reads what has arrived before its role changes, and then says READONLY. */
static void refuse_unread(struct world *w)
{
    moves_swap(w);
    list_for_each (node, &w->redis->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        while (redis_can_execute(w->redis, l) && !redis_is_looking(l))
            redis_execute(w, l);
    }
    moves_swap(w);
}

/* When its role changes, Redis answers the clients that wait. It knows nothing of a fence that is between two looks. */
static void refuse_fences(struct world *w)
{
    list_for_each (node, &w->redis->links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        bool waits = l->client_open && redis_is_looking(l) && !redis_can_execute(w->redis, l);
        if (waits && !(w->config.keeps_links && world_percent(w, 50))) redis_refuse_fence(w, l);
    }
}

/* A server takes over another one's data: links that watch the number that a frame sets notice it. */
void moves_tell(const struct world *w, struct list *links, const struct twin_state *had,
                const struct twin_state *has)
{
    list_for_each (node, links) {
        struct link *l = CONTAINER_OF(node, struct link, all);
        int slot = redis_seq_slot(w, l);
        l->changed |= had->seq[slot] != has->seq[slot] || had->touched[slot] != has->touched[slot];
    }
}

/* A state between what was acknowledged and the newest. */
static void promote(struct world *w)
{
    struct redis *r = w->redis;
    unsigned least = 0;
    while (least + 1 < r->past_n && r->past[least].offset < r->durable && r->past[least].offset < r->chosen)
        least++;
    unsigned to = world_percent(w, 50) ? least : least + (unsigned)world_below(w, r->past_n - least);
    redis_past_only(r, to);
    moves_tell(w, &r->links, &r->now, r->past[0].state);
    redis_state_copy(&r->now, r->past[0].state);
    r->durable = r->offset = r->past[0].offset;
    r->alone = true;
    r->chosen = UINT64_MAX;
    TRACE(w, "redis: server %u is the primary, without all after offset %llu", r->run,
          (unsigned long long)r->offset);
    oracle_lost_tail(w, r->offset);
}

void moves_fail_over(struct world *w)
{
    struct other *o = w->other;
    refuse_fences(w);
    if (!o->there || !w->config.fails_back) {
        end_links(&o->links);
        o->run = ++w->redis->runs;
    } else {
        refuse_unread(w);
    }
    swap_processes(w);
    o->there = true;
    o->follows = false;
    o->writes = world_percent(w, w->config.split_percent);
    o->demoted_ms = w->now_ms;
    if (world_percent(w, w->config.killed_percent)) end_links(&o->links);
    promote(w);
    w->redis->history = ++w->redis->histories;
}

void moves_announce(struct world *w)
{
    w->redis->chosen = w->redis->durable;
    w->redis->chosen_ms = w->now_ms;
    TRACE(w, "redis: a failover is announced");
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) daemon_hold(w->daemons[i].life, w->now_ms + HOLD_MS);
}

void moves_demote(struct world *w)
{
    TRACE(w, "redis: server %u is demoted", w->other->run);
    w->other->writes = false;
    w->other->demoted_ms = w->now_ms;
}

void moves_follow(struct world *w)
{
    struct redis *r = w->redis;
    const struct past *has = &r->past[world_below(w, r->past_n)];
    TRACE(w, "redis: server %u follows, and has all up to offset %llu", w->other->run,
          (unsigned long long)has->offset);
    if (w->config.keeps_links)
        refuse_unread(w);
    else
        end_links(&w->other->links);
    moves_tell(w, &w->other->links, &w->other->now, has->state);
    redis_state_copy(&w->other->now, has->state);
    w->other->history = r->history;
    w->other->follows = true;
    r->alone = false;
    redis_fsync(r, has->offset);
}

static void leave_other(struct process *life)
{
    if (life->w->other->there) daemon_leave_server(life, life->w->other->run);
}

void moves_rest(struct world *w)
{
    w->redis->chosen = UINT64_MAX;
    if (!w->other->there) return;
    if (w->other->writes) moves_demote(w);
    if (!w->other->follows) moves_follow(w);
    for (unsigned i = 0; i < w->config.daemons; i++)
        if (w->daemons[i].life != NULL) leave_other(w->daemons[i].life);
}

/* One that is not carried out soon is called off. */
void moves_clock(struct world *w)
{
    if (w->redis->chosen != UINT64_MAX && w->now_ms - w->redis->chosen_ms >= HOLD_MS / 2)
        w->redis->chosen = UINT64_MAX;
}

/* --- a life's links --- */

bool moves_astray(const struct process *life)
{
    for (int role = 0; role < ROLES; role++)
        if (life->links[role] != NULL && moves_is_away(life->w, life->links[role])) return true;
    return false;
}

bool moves_strayed(const struct process *life, unsigned strays)
{
    return life->w->config.daemons > 1 && life->strays != strays;
}

bool moves_lacks(const struct process *life)
{
    const struct link *l = life->links[ROLE_FRAME];
    const struct redis *r = life->w->redis;
    return l != NULL && l->run == r->run && r->now.seq[redis_seq_slot(life->w, l)] < life->number;
}

static bool agrees(const struct process *life, unsigned run)
{
    for (int role = 0; role < ROLES; role++)
        if (life->links[role] != NULL && life->links[role]->run != run) return false;
    return true;
}

/* A link may come up at any server that says it is a primary; the name leads to either. */
struct link *moves_connect(struct process *life, enum role role)
{
    struct world *w = life->w;
    bool to_other = w->other->there && w->other->writes && world_percent(w, 50);
    unsigned run = to_other ? w->other->run : w->redis->run;
    if (w->config.moves && world_rule(w, WORLD_ONE_SERVER) && !agrees(life, run)) {
        TRACE(w, "life %d: link %d came up at server %u, the others are elsewhere", life->index, (int)role,
              run);
        return NULL;
    }
    life->strays += to_other;
    struct list *links = to_other ? &w->other->links : &w->redis->links;
    struct link *l = link_open(links, life->index, life->instance, role, ++w->redis->client_id);
    l->run = run;
    return l;
}

/* As each link asks now and then: for ROLE, and for the number. */
static void look_for_number(struct process *life)
{
    struct world *w = life->w;
    if (!world_rule(w, WORLD_NUMBER) || w->now_ms - life->looked_ms < w->config.role_ms) return;
    life->looked_ms = w->now_ms;
    if (moves_lacks(life)) daemon_leave_server(life, w->redis->run);
}

void moves_tick(struct process *life)
{
    const struct other *o = life->w->other;
    if (life->w->config.moves) look_for_number(life);
    if (!o->there || o->writes || life->w->now_ms - o->demoted_ms < life->w->config.role_ms) return;
    leave_other(life);
}
