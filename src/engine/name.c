/* engine/name.c - see core.h. */
#include "base/log.h"
#include "engine/core.h"
#include <stdio.h>

#define HOLDER_MS 35000 /* a sign of life in tally:instance lasts 30 s */
#define HOLDER_GAP_MS 3000
#define HOLDER_POLL_MS 50
#define REFUSED_POLL_MS 1000

static void name_refuse(struct name *n, enum err code, const char *text)
{
    n->next_ms = n->asked_ms + REFUSED_POLL_MS;
    if (strcmp(n->error.text, text) != 0)
        log_event(code == ERR_CONFIG ? LOG_ERROR : LOG_WARN, "name_refused", "error=%s", LOGQ(text));
    error_set(&n->error, code, "%s", text);
    n->refused(n);
}

static void lives_killed(struct redis_kill *k)
{
    struct name *n = CONTAINER_OF(k, struct name, kill);
    char text[300];
    n->busy = false;
    if (!redis_link_is_up(n->link)) return;
    if (k->lost) {
        snprintf(text, sizeof text, "cannot end links of an earlier start: %s", k->text);
        name_refuse(n, ERR_UNAVAILABLE, text);
        return;
    }
    if (k->killed > 0) log_event(LOG_INFO, "killed_links", "n=%u", k->killed);
    n->ours = true;
    n->taken(n);
}

static bool holder_is_here(const struct name *n)
{
    const char *host = strchr(n->instance.holder, '|'); /* '<life>|<host>' */
    return host != NULL && strcmp(host + 1, n->host) == 0;
}

/* A living holder has links, except during a reconnect. A dead one on this machine has none at once. A dead one on
 * another machine has links until Redis notices, but then its sign of life expires. */
static bool holder_lives(struct name *n)
{
    const struct redis_instance *i = &n->instance;
    if (!i->taken) return false;
    if (i->linked) n->unlinked_ms = n->asked_ms;
    return i->linked || (!holder_is_here(n) && n->asked_ms - n->unlinked_ms < HOLDER_GAP_MS);
}

static void holder_known(struct redis_instance *i)
{
    struct name *n = CONTAINER_OF(i, struct name, instance);
    char text[300];
    n->busy = n->free = false;
    n->next_ms = n->asked_ms + HOLDER_POLL_MS;
    if (!redis_link_is_up(n->link)) return;
    if (i->lost) {
        snprintf(text, sizeof text, "Redis does not say who uses the instance's name: %s", i->text);
        name_refuse(n, ERR_UNAVAILABLE, text);
    } else if (holder_lives(n)) {
        if (n->asked_ms - n->began_ms < (holder_is_here(n) ? HOLDER_GAP_MS : HOLDER_MS)) return;
        snprintf(text, sizeof text,
                 "another tallyd with the instance name '" SLICE_FMT
                 "' runs on this Redis; stop it, or give this one a name of its own (option `instance`)",
                 SLICE_ARG(n->link->config.life->instance));
        name_refuse(n, ERR_CONFIG, text);
    } else {
        n->free = true;
        n->error = (struct error){.code = ERR_NONE};
        if (n->may_take) {
            /* (!) Before the first frame and the first claim: what an earlier life sent and Redis has not read yet must never
             * run. */
            n->busy = true;
            n->kill = (struct redis_kill){.life = n->link->config.life, .done = lives_killed};
            redis_kill_lives(n->link, &n->kill);
        }
    }
}

void name_tick(struct name *n, uint64_t now_ms)
{
    if (n->ours || n->busy) return;
    if (!redis_link_is_up(n->link)) {
        n->free = false;
        n->began_ms = n->next_ms = 0;
        return;
    }
    if (now_ms < n->next_ms) return;
    if (n->began_ms == 0) n->began_ms = n->unlinked_ms = now_ms;
    n->busy = true;
    n->asked_ms = now_ms;
    n->instance = (struct redis_instance){.life = n->link->config.life, .done = holder_known};
    redis_instance(n->link, &n->instance);
}

void name_take(struct name *n, uint64_t now_ms)
{
    n->may_take = true;
    n->next_ms = 0;
    name_tick(n, now_ms);
}
