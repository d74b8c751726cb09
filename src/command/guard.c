/* command/guard.c - what a client may do, and how much of it. Requests of sessions with DOOR_OPEN do not come here.
 *
 * A session without room waits on its user's list (user.waiting), and the user on the command's. command_pace() gives
 * room as time passes, command_turn() with each frame. Only names that a client sends are checked: the operator
 * configures what an allowed hit feeds. */
#include "base/clock.h"
#include "command/inside.h"

#define NOPERM "NOPERM this user has no permissions to run the "
#define NOAUTH "NOAUTH Authentication required."
#define STRANGERS_LEAST 64

void guard_init(struct command *c)
{
    list_init(&c->sessions);
    list_init(&c->strangers);
    list_init(&c->paced);
    for (size_t i = 0; specs[i].name != NULL; i++) {
        INVARIANT(i < SPECS_MAX);
        c->grants[i] = grant_find(slice_str(specs[i].name));
        INVARIANT(c->grants[i] != NULL); /* a command is missing in users/users.c */
        bool names = c->grants[i]->names != NAMES_NONE && c->grants[i]->names != NAMES_ALL;
        INVARIANT(names == ((specs[i].flags & SPEC_KEY) != 0));
    }
}

static struct users *users_of(const struct session *s)
{
    return s->command->config.users;
}

/* The user whose budget pays; session.user is NULL except after DOOR_USER. */
static struct user *payer(const struct session *s)
{
    return s->user != NULL ? s->user : &users_of(s)->stranger;
}

/* ---- in and out ---- */

static void place_take(struct session *s)
{
    if (!list_linked(&s->place)) return;
    list_remove(&s->place);
    if (s->door == DOOR_CLOSED) s->command->strangers_n--;
}

static void place_set(struct session *s, enum session_door door)
{
    struct command *c = s->command;
    place_take(s);
    s->door = door;
    s->outlet->stranger = door == DOOR_CLOSED;
    list_push(door == DOOR_CLOSED ? &c->strangers : &c->sessions, &s->place);
    if (door != DOOR_CLOSED) return;
    s->stranger_ms = mono_ms();
    c->strangers_n++;
}

static void guard_leave(struct session *s)
{
    if (s->user == NULL) return;
    INVARIANT(s->user->connections > 0);
    s->user->connections--;
    s->user = NULL;
}

/* Unauthenticated clients must not use up limits.clients. Of too many the oldest is dropped, unless its password is
 * being verified. */
static void strangers_thin(struct command *c)
{
    uint32_t most = c->config.clients_max / 4;
    if (c->strangers_n <= (most > STRANGERS_LEAST ? most : STRANGERS_LEAST)) return;
    list_for_each (at, &c->strangers) {
        struct session *s = CONTAINER_OF(at, struct session, place);
        if (s->state == SESSION_ASKING) continue;
        c->config.client.drop(s->conn);
        return;
    }
}

void guard_open(struct session *s, bool inside)
{
    struct command *c = s->command;
    list_init(&s->place);
    list_init(&s->paced);
    for (size_t i = 0; i < SHARES; i++)
        list_init(&s->share[i].place);
    list_init(&s->answer.queued);
    s->inside = inside;
    place_set(s, inside || c->config.users == NULL || c->config.users->n == 0 ? DOOR_OPEN : DOOR_CLOSED);
    if (s->door == DOOR_CLOSED) strangers_thin(c); /* s itself, when all others are being proved */
}

void guard_close(struct session *s)
{
    if (list_linked(&s->paced)) list_remove(&s->paced);
    guard_leave(s);
    place_take(s);
}

void guard_reset(struct session *s)
{
    if (s->door != DOOR_USER) return;
    guard_leave(s);
    place_set(s, DOOR_CLOSED);
}

bool guard_enter(struct session *s, struct user *u)
{
    if (u != s->user && u->connections_max > 0 && u->connections >= u->connections_max) return false;
    guard_leave(s);
    s->user = u;
    u->connections++;
    place_set(s, DOOR_USER);
    return true;
}

/* ---- may it? ---- */

static bool event_named(const struct session *s, struct slice name, struct slice type)
{
    struct buf *key = &s->command->name;
    buf_reset(key);
    buf_put_slice(key, name);
    buf_put_char(key, ':');
    buf_put_slice(key, type);
    return user_names(s->user, buf_slice(key));
}

static bool names_allowed(const struct session *s, const struct grant *g, const struct request *r)
{
    switch (g->names) {
    case NAMES_NONE:
        return true;
    case NAMES_KEY:
        return user_names(s->user, r->args[1]);
    case NAMES_EVENT:
        return event_named(s, r->args[1], r->args[2]);
    case NAMES_SYNC:
        return slice_ieq(r->args[1], SLICE("all")) ? s->user->all_keys : user_names(s->user, r->args[1]);
    case NAMES_ALL:
        return s->user->all_keys;
    }
    UNREACHABLE();
}

bool guard_lets(struct session *s, const struct spec *whole, const struct spec *spec, const struct request *r,
                struct buf *out)
{
    const struct grant *g = s->command->grants[whole - specs];
    size_t before = out->n;
    if (s->door == DOOR_CLOSED) {
        if ((spec->flags & SPEC_STRANGER) != 0) return true;
        if (spec->run == run_exec)
            reply_error(out, "EXECABORT Transaction discarded because of: " NOAUTH);
        else
            reply_error(out, NOAUTH);
    } else if (!user_may(s->user, g))
        reply_errorf(out, NOPERM "'%s' command", whole->name);
    else if (spec != whole && (spec->flags & SPEC_ADMIN) != 0 && !guard_is_admin(s))
        reply_errorf(out, NOPERM "'%s|%s' command", whole->name, spec->name);
    else if (!names_allowed(s, g, r))
        reply_error(out, "NOPERM this user has no permissions to access one of the keys used as arguments");
    else
        return true;
    if ((spec->flags & (SPEC_HIT | SPEC_OP)) != 0) hit_refused(s, r->args[1], out, before);
    return false;
}

bool guard_names(const struct session *s, struct slice key)
{
    if (s->door == DOOR_OPEN) return true;
    return s->door == DOOR_USER && user_names(s->user, key);
}

/* ---- how much? ---- */

#define PART_LEAST 16 /* requests */

uint32_t guard_room(struct session *s)
{
    struct user *u = payer(s);
    uint32_t room = user_room_left(users_of(s), u, s->command->window);
    if (room == 0) room = user_room(users_of(s), u, s->command->window, mono_ms());
    if (room > 0) return room;
    struct command *c = s->command;
    session_wait(s, SESSION_PACED);
    list_push(&u->waiting, &s->paced);
    if (!list_linked(&u->paced)) list_push(&c->paced, &u->paced);
    c->config.ports.pace(c->config.ports.arg);
    return 0;
}

void guard_took(struct session *s, uint32_t requests)
{
    user_took(payer(s), requests);
}

void guard_weighed(struct session *s, uint32_t hits)
{
    if (s->user != NULL && hits > 1) user_weighed(s->user, hits - 1);
}

void guard_queued(struct session *s)
{
    user_queued(payer(s), 1);
}

void guard_took_at_once(struct session *s, uint32_t requests)
{
    if (s->door == DOOR_USER) user_took_at_once(users_of(s), s->user, requests);
}

uint32_t guard_multi_max(const struct session *s)
{
    uint32_t most = s->command->config.multi_max;
    return s->door == DOOR_USER && s->user->multi_max < most ? s->user->multi_max : most;
}

/* Waiting sessions go on while there is room, each with a part of it: none waits for another's long pipeline. One that has to
 * wait again goes to the end of the line. */
static void user_go_on(struct command *c, struct user *u, uint64_t now_ms)
{
    uint32_t n = 0, part = 0;
    list_for_each (node, &u->waiting)
        n++;
    if (n > 0) part = user_room(c->config.users, u, c->window, now_ms) / n;
    if (part < PART_LEAST) part = PART_LEAST;
    while (!list_empty(&u->waiting) && user_room(c->config.users, u, c->window, now_ms) > 0) {
        struct session *s = CONTAINER_OF(list_pop(&u->waiting), struct session, paced);
        user_part(u, part);
        session_go_on(s);
        c->config.client.offer(s->conn);
        user_part(u, UINT32_MAX);
    }
}

enum go_on {
    GO_SHARE, /* a frame was sent: there is a new one to share */
    GO_TIME,  /* and some time has passed: there may be a new budget */
    GO_RIDE,  /* a frame will be sent anyway */
};

static void all_go_on(struct command *c, enum go_on why)
{
    struct list users;
    uint64_t now_ms = mono_ms();
    list_init(&users);
    list_move_all(&users, &c->paced);
    for (struct list *at; (at = list_pop(&users)) != NULL;) {
        struct user *u = CONTAINER_OF(at, struct user, paced);
        if (why != GO_SHARE) user_allow(u, now_ms, why == GO_RIDE);
        user_go_on(c, u, now_ms);
        if (!list_empty(&u->waiting) && !list_linked(&u->paced)) list_push(&c->paced, &u->paced);
    }
}

/* A frame of their own could make others wait; a few more hits in another client's frame cost that client some
 * microseconds. */
void command_join(struct command *c)
{
    if (list_empty(&c->paced)) return;
    uint64_t frame = lanes_frame(c);
    if (c->rode == frame || !lanes_collect(c)) return;
    c->rode = frame;
    all_go_on(c, GO_RIDE);
}

void command_turn(struct command *c)
{
    uint64_t frame = lanes_frame(c);
    if (frame == c->frame) return;
    c->frame = frame;
    c->window++;
    if (!list_empty(&c->paced)) all_go_on(c, GO_SHARE);
}

bool command_pace(struct command *c)
{
    c->window++;
    if (!list_empty(&c->paced)) all_go_on(c, GO_TIME);
    return !list_empty(&c->paced);
}

void command_tick(struct command *c, uint64_t now_ms)
{
    c->now_ms = now_ms;
    calls_tick(c, now_ms);
    answers_tick(c, now_ms);
    halves_tick(c, now_ms);
    lasts_tick(c, now_ms);
    for (struct list *at = c->strangers.next, *next; at != &c->strangers; at = next) {
        struct session *s = CONTAINER_OF(at, struct session, place);
        next = at->next;
        if (now_ms - s->stranger_ms < c->config.stranger_ms) return; /* those after it came later */
        if (s->state != SESSION_ASKING) c->config.client.drop(s->conn);
    }
}

/* ---- reload ---- */

static void proofs_keep(const struct users *old, struct users *fresh)
{
    for (size_t i = 0; i < fresh->n; i++) {
        struct user *u = &fresh->all[i];
        const struct user *before = user_find(old, slice_str(u->name));
        if (before == NULL || !before->proved || !user_is_same(before, u)) continue;
        memcpy(u->proof, before->proof, sizeof(u->proof));
        u->proved = true;
    }
}

static void new_users(struct list *of, struct users *users)
{
    struct list all;
    list_init(&all);
    list_move_all(&all, of);
    while (!list_empty(&all)) {
        struct session *s = CONTAINER_OF(all.next, struct session, place);
        list_remove(&s->place);
        list_push(of, &s->place);
        if (s->inside || (s->door == DOOR_CLOSED && users->n > 0)) continue;
        const struct user *old = s->user;
        struct user *u = old == NULL ? NULL : user_find(users, slice_str(old->name));
        s->broken = true;
        s->user = NULL;
        if (users->n == 0) {
            place_set(s, DOOR_OPEN);
        } else if (u == NULL || !user_is_same(old, u)) {
            place_set(s, DOOR_CLOSED);
        } else {
            s->user = u;
            u->connections++;
        }
    }
}

void command_users(struct command *c, struct users *users)
{
    struct list paced;
    list_init(&paced);
    list_move_all(&paced, &c->paced);
    /* No session waits at an old user any more; it may wait again at the new one. */
    for (struct list *at; (at = list_pop(&paced)) != NULL;) {
        struct user *u = CONTAINER_OF(at, struct user, paced);
        for (struct list *node; (node = list_pop(&u->waiting)) != NULL;)
            session_go_on(CONTAINER_OF(node, struct session, paced));
    }
    proofs_keep(c->config.users, users);
    c->config.users = users;
    c->users_version++;
    new_users(&c->strangers, users); /* first: more may become strangers */
    new_users(&c->sessions, users);
    shares_users(c);
}
