/* command/shares.c - memory that clients make tallyd hold, in shares of limits.memory: each user may have half of what the
 * others leave, so one user's clients leave room for all others. */
#include "command/inside.h"

void shares_init(struct command *c)
{
    for (size_t i = 0; i < SHARES; i++) {
        PRE(c->config.shares_max[i] > 0);
        list_init(&c->shares[i].held);
    }
}

static size_t *party_of(const struct session *s, enum share_kind kind)
{
    struct user *u = s->door == DOOR_CLOSED ? &s->command->config.users->stranger : s->user;
    return u != NULL ? &u->shares[kind] : &s->command->shares[kind].of[s->inside];
}

void share_set(struct session *s, enum share_kind kind, size_t bytes)
{
    struct share *h = &s->share[kind];
    if (h->of == NULL) h->of = party_of(s, kind);
    *h->of += bytes - h->bytes;
    s->command->shares[kind].n += bytes - h->bytes;
    h->bytes = bytes;
    if (list_linked(&h->place)) list_remove(&h->place);
    if (bytes > 0)
        list_push(&s->command->shares[kind].held, &h->place);
    else
        h->of = NULL;
}

bool share_fits(const struct session *s, enum share_kind kind, size_t more)
{
    const struct command *c = s->command;
    size_t own = *party_of(s, kind), others = c->shares[kind].n - own, most = c->config.shares_max[kind];
    if (own > 0) return others < most && own + more <= (most - others) / 2;
    return others + more <= most;
}

void shares_users(struct command *c)
{
    for (size_t i = 0; i < SHARES; i++) {
        c->shares[i].of[0] = c->shares[i].of[1] = 0;
        list_for_each (at, &c->shares[i].held) {
            struct session *s = CONTAINER_OF(at, struct session, share[i].place);
            s->share[i].of = party_of(s, (enum share_kind)i);
            *s->share[i].of += s->share[i].bytes;
        }
    }
}
