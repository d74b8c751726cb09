/* app/wire_users.c - users on the loop: the prover of their passwords, the timer that lets users go on whose budget was
 * used up, the operator's own socket, and a reload. */
#include "app/service.h"
#include "base/heap.h"
#include "base/log.h"

#define PACE_MS 2
#define LOGINS_OF_ALL 5 /* an office behind one address has several users with a wrong password at once */

static void on_pace(uv_timer_t *timer)
{
    struct service *s = timer->data;
    if (!command_pace(s->command)) uv_timer_stop(timer);
}

void wire_users_pace(void *arg)
{
    struct service *s = arg;
    if (!uv_is_active((uv_handle_t *)&s->users.pace))
        uv_timer_start(&s->users.pace, on_pace, PACE_MS, PACE_MS);
}

static struct prover_limits limits_of(const struct conf *conf)
{
    struct prover_limits limits = prover_limits_default;
    limits.guesses.user.at_once = (uint32_t)conf->limits_failed_logins;
    limits.guesses.wide.at_once = LOGINS_OF_ALL * (uint32_t)conf->limits_failed_logins;
    return limits;
}

void wire_users_init(struct service *s)
{
    struct prover_limits limits = limits_of(s->settings->conf);
    s->users.now = &s->settings->setup.users;
    s->users.prover = prover_create(&s->loop, &limits);
    uv_timer_init(&s->loop, &s->users.pace);
    s->users.pace.data = s;
}

/* Unless the address says otherwise only tallyd's own user and root may open it. */
enum err wire_users_listen(struct service *s, struct error *e)
{
    const struct conf_addresses *control = &s->settings->conf->listen_control;
    struct listen_handler handler = wire_inside_handler(s);
    for (size_t i = 0; i < control->n; i++) {
        struct address a = control->all[i];
        if (a.mode == 0) a.mode = 0600;
        if (listen_add(s->listen, &a, &handler, e) != ERR_NONE) return e->code;
    }
    if (s->users.now->n > 0 && control->n == 0)
        log_event(
            LOG_WARN, "no_control", "next=%s",
            LOGQ("there are users, so `tallyd status` and `recover` need listen.control: configure it"));
    return ERR_NONE;
}

static void users_drop(struct service *s)
{
    if (s->users.now == &s->settings->setup.users) return;
    users_close(s->users.now);
    heap_free(s->users.now);
}

bool wire_users_reload(struct service *s, const struct conf *wanted, struct error *e)
{
    struct buf problems = {0};
    struct users *fresh = heap_alloc(sizeof *fresh);
    bool good = setup_users(fresh, wanted, &problems);
    if (good) {
        bool opens = fresh->n == 0 && s->users.now->n > 0;
        command_users(s->command, fresh);
        users_drop(s);
        s->users.now = fresh;
        log_event(opens ? LOG_WARN : LOG_INFO, "users", "n=%zu%s", fresh->n,
                  opens ? " next=\"without users anyone who can connect has full access: restore the section "
                          "users, unless you mean that\""
                        : "");
    } else {
        heap_free(fresh);
        buf_put_char(&problems, '\0');
        error_set(e, ERR_CONFIG, "%.*s", (int)strcspn(problems.p, "\n"), problems.p);
    }
    buf_free(&problems);
    return good;
}

void wire_users_stop(struct service *s)
{
    prover_stop(s->users.prover);
}

void wire_users_close(struct service *s)
{
    users_drop(s);
    prover_destroy(&s->users.prover);
}
