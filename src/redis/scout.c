/* redis/scout.c - see scout.h. A scout is a link to one host that comes up or not: only a primary's does. */
#include "redis/scout.h"
#include <stdio.h>

#define SCOUT_MS 500

void scouts_init(struct redis_scouts *s, uv_loop_t *loop, const struct life *life, struct redis_place *place)
{
    *s = (struct redis_scouts){.place = place, .loop = loop, .life = life};
}

static void scout_gone(struct redis_link *l)
{
    struct redis_scout *scout = l->arg;
    struct redis_scouts *s = scout->of;
    scout->out = false;
    if (--s->out == 0 && s->closing) s->closed(s);
}

/* A primary that came back after another was promoted is also a primary, but with older data: it has another
 * replication id. */
static bool is_successor(const struct redis_place *p, const struct redis_facts *f)
{
    if (!place_is_up(p)) return true;
    return p->replid[0] != '\0' && strcmp(f->replid2, p->replid) == 0;
}

static void scout_up(struct redis_link *l)
{
    const struct redis_scout *scout = l->arg;
    struct redis_place *p = scout->of->place;
    if (strcmp(l->facts.run_id, p->run_id) != 0 && is_successor(p, &l->facts))
        place_move(p, &l->target, "MASTERDOWN Redis has another primary now");
    redis_link_close(l, scout_gone);
}

static void scout_down(struct redis_link *l, const char *why)
{
    (void)why;
    redis_link_close(l, scout_gone);
}

static void scout_send(struct redis_scouts *s, unsigned i)
{
    struct redis_scout *scout = &s->all[i];
    const struct redis_url *url = s->place->url;
    scout->of = s;
    scout->sent_ms = mono_ms();
    scout->out = true;
    s->out++;
    scout->url = *url;
    scout->url.hosts[0] = url->hosts[i];
    scout->url.hosts_n = 1;
    place_init(&scout->place, &scout->url);
    redis_link_init(&scout->link, s->loop,
                    &(struct redis_link_config){.place = &scout->place,
                                                .life = s->life,
                                                .role = "scout",
                                                .quiet = true,
                                                .connect_ms = SCOUT_MS,
                                                .answer_ms = SCOUT_MS});
    scout->link.up = scout_up;
    scout->link.down = scout_down;
    scout->link.arg = scout;
    redis_link_start(&scout->link);
}

void scouts_send(struct redis_scouts *s)
{
    const struct redis_place *p = s->place;
    uint64_t now_ms = mono_ms();
    if (p->told_only || p->url->hosts_n < 2 || s->closing) return;
    for (unsigned i = 0; i < p->url->hosts_n; i++)
        if (!s->all[i].out && now_ms - s->all[i].sent_ms >= SCOUT_MS && (i != p->home || !place_is_up(p)))
            scout_send(s, i);
}

void scouts_close(struct redis_scouts *s, void (*closed)(struct redis_scouts *s))
{
    s->closing = true;
    s->closed = closed;
    for (unsigned i = 0; i < REDIS_HOSTS_MAX; i++)
        if (s->all[i].out && !s->all[i].link.closing) redis_link_close(&s->all[i].link, scout_gone);
    if (s->out == 0) closed(s);
}
