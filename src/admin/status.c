/* admin/status.c - `tallyd status`. */
#include "status/status.h"
#include "admin/human.h"
#include "admin/verbs.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* --- Faults come last, where a reader looks when the text has scrolled by. --- */

#define BATCHES_SHOWN 5
#define COUNTER_WIDTH 24
#define WHY_WIDTH 80                               /* the problem below has all of it */
#define TABLE "%-24s %9s %11s %19s %13s %9s %9s\n" /* a hundred columns */

struct screen {
    const struct status *s;
    const struct screen_style *style;
    struct buf *out;
    size_t problems, problems_max;
};

static char *figure_text(struct figure f, char out[HUMAN_BYTES])
{
    if (f.known) return human_count(f.value, out);
    snprintf(out, HUMAN_BYTES, "?");
    return out;
}

static char *figure_span(struct figure f, bool known, char out[HUMAN_BYTES])
{
    if (f.known) return human_span(f.value, out);
    snprintf(out, HUMAN_BYTES, "%s", known ? "-" : "?");
    return out;
}

static void service_show(struct screen *c)
{
    const struct status_service *v = &c->s->service;
    if (!v->up) {
        buf_printf(c->out, "%-10s %s: %s\n", "tallyd", v->secure ? "?" : "down", v->why);
        return;
    }
    buf_printf(c->out, "%-10s up %s, version %s, pid %" PRId64 ", instance %s%s%s\n", "tallyd",
               human_span(v->uptime_s * 1000, HUMAN), v->version, v->pid, v->instance,
               v->stopping ? ", stopping" : "", v->recovering ? ", recovering" : "");
    buf_printf(c->out, "%-10s %s counted, %s a second, %s repeated, %s refused, %s connection%s\n", "hits",
               human_count(v->stats.hits - v->stats.tokens_known, HUMAN), figure_text(v->hits_per_s, HUMAN),
               human_count(v->stats.tokens_known, HUMAN), human_count(v->stats.hits_refused, HUMAN),
               human_count(v->connections, HUMAN), v->connections == 1 ? "" : "s");
}

/* All links are on one server; this look may have been at another one. */
static void links_put(struct screen *c)
{
    const struct status_service *v = &c->s->service;
    const struct status_redis *r = &c->s->redis;
    if (!v->up || v->redis_server[0] == '\0') return;
    buf_printf(c->out, "%-10s links on %s, role %s, run_id %.8s", "", v->redis_server,
               strcmp(v->redis_run_id, r->run_id) == 0 ? r->role : "?", v->redis_run_id);
    if (!v->redis_up) buf_printf(c->out, ", not all up (%s)", v->redis_links);
    if (v->redis_moved_ms.known)
        buf_printf(c->out, ", moved %s ago", human_span(v->redis_moved_ms.value, HUMAN));
    buf_put_char(c->out, '\n');
}

static void sentinels_show(struct screen *c)
{
    const struct status_service *v = &c->s->service;
    if (v->sentinels == 0) return;
    buf_printf(c->out, "%-10s %" PRId64 " of %" PRId64 " sentinels answer, a majority is %" PRId64 "\n", "",
               v->sentinels_up, v->sentinels, v->sentinels_majority);
    for (size_t i = 0; i < v->sentinel_n; i++) {
        const struct status_sentinel *one = &v->sentinel[i];
        buf_printf(c->out, "%-10s sentinel %s: %s, its events are %sheard\n", "", one->at, one->state,
                   one->heard ? "" : "not ");
    }
}

/* Of several: those that are away, or hold their merges. */
static void lanes_show(struct screen *c)
{
    const struct status_redis *r = &c->s->redis;
    uint32_t up = 0;
    for (uint32_t i = 0; r->lane != NULL && i < r->lanes; i++)
        up += r->lane[i].up;
    if (r->lane == NULL) return;
    buf_printf(c->out, "%-10s %u of %u are up\n", "lanes", up, r->lanes);
    for (uint32_t i = 0; i < r->lanes; i++)
        if (!r->lane[i].up)
            buf_printf(c->out, "%-10s lane %u is down: %s\n", "", i, r->lane[i].why);
        else if (r->lane[i].held)
            buf_printf(c->out, "%-10s lane %u on %s holds its merges\n", "", i, r->lane[i].at);
}

static void redis_show(struct screen *c)
{
    const struct status_redis *r = &c->s->redis;
    lanes_show(c);
    if (!r->up) {
        buf_printf(c->out, "%-10s down: %s\n", "Redis", SLICE_SHOW(slice_str(r->why), WHY_WIDTH));
        return;
    }
    buf_printf(c->out, "%-10s up, version %s, %s", "Redis", r->version, human_bytes(r->memory_bytes, HUMAN));
    if (r->memory_most_bytes > 0) buf_printf(c->out, " of %s", human_bytes(r->memory_most_bytes, HUMAN));
    buf_printf(c->out, ", AOF %s%s, %" PRId64 " replica%s\n", r->aof_on ? r->fsync : "off",
               r->aof_writes ? "" : " (cannot be written)", r->replicas, r->replicas == 1 ? "" : "s");
    links_put(c);
    if (r->durability == CONF_DURABILITY_NONE)
        buf_printf(
            c->out,
            "%-10s durability none: hits that Redis loses are lost, hits that it brings back count twice\n",
            "");
    for (size_t i = 0; i < r->replica_n; i++) {
        const struct status_replica *p = &r->replica[i];
        buf_printf(c->out, "%-10s replica %s %s, heard %" PRId64 " s ago, %" PRId64 " bytes behind\n", "",
                   p->at, p->online ? "online" : "not in step", p->lag_s, p->behind_bytes);
    }
}

static void mysql_show(struct screen *c)
{
    const struct status_mysql *m = &c->s->mysql;
    if (!m->up)
        buf_printf(c->out, "%-10s down: %s\n", "MySQL", SLICE_SHOW(slice_str(m->why), WHY_WIDTH));
    else
        buf_printf(c->out, "%-10s up, %s %s%s%s%s\n", "MySQL", m->mariadb ? "version" : "MySQL", m->version,
                   m->server[0] != '\0' ? ", at " : "", m->server, m->read_only ? ", read-only" : "");
}

static void backlog_show(struct screen *c)
{
    const struct status_redis *r = &c->s->redis;
    if (!r->up) {
        buf_printf(c->out, "%-10s ? (Redis)\n", "waiting");
        return;
    }
    buf_printf(c->out, "%-10s %s hash%s to be merged", "waiting", human_count(r->dirty, HUMAN),
               r->dirty == 1 ? "" : "es");
    if (r->oldest_ms.known)
        buf_printf(c->out, ", the oldest hit for %s", human_span(r->oldest_ms.value, HUMAN));
    if (!r->sorted) BUF_LIT(c->out, "; too many to tell apart by counter");
    buf_put_char(c->out, '\n');
}

static void counters_show(struct screen *c)
{
    buf_put_char(c->out, '\n');
    buf_printf(c->out, TABLE, "", "", "", "", "", "rejected", "rejected");
    buf_printf(c->out, TABLE, "counter", "waiting", "oldest", "complete up to", "merged", "hits", "rows");
    bool none_waits = c->s->redis.up && c->s->redis.sorted;
    for (size_t i = 0; i < c->s->counters_n; i++) {
        const struct status_counter *of = &c->s->counters[i];
        char name[COUNTER_WIDTH + 1], until[HUMAN_BYTES];
        snprintf(until, sizeof(until), "%s", of->complete_until_ms.known ? "not yet" : "?");
        if (of->complete_until_ms.known && of->complete_until_ms.value > 0)
            human_time(of->complete_until_ms.value, until);
        buf_printf(c->out, TABLE, slice_show(of->counter->name, COUNTER_WIDTH, name, sizeof name),
                   figure_text(of->dirty, HUMAN), figure_span(of->oldest_ms, none_waits, HUMAN), until,
                   figure_text(of->merged, HUMAN), figure_text(of->rejected, HUMAN),
                   figure_text(of->rejects, HUMAN));
    }
}

static void batches_show(struct screen *c)
{
    const struct status *s = c->s;
    buf_put_char(c->out, '\n');
    if (!s->redis.up) {
        buf_printf(c->out, "%-10s ? (Redis)\n", "batches");
        return;
    }
    buf_printf(c->out, "%-10s %s on the way to MySQL", "batches",
               s->batches_n == 0 ? "none" : human_count((int64_t)s->batches_n, HUMAN));
    if (s->service.stats.batches_kept > 0)
        buf_printf(c->out, ", %s of them merged, and kept",
                   human_count(s->service.stats.batches_kept, HUMAN));
    buf_printf(c->out, "%s\n", s->batches_n > BATCHES_SHOWN ? ", the oldest:" : "");
    for (size_t i = 0; i < s->batches_n && i < BATCHES_SHOWN; i++) {
        const struct status_batch *b = &s->batches[i];
        char id[33], progress[80] = "-";
        batch_id_hex(&b->id, id);
        if (b->chunks.known)
            snprintf(progress, sizeof(progress), "%s/%s", figure_text(b->chunks_merged, HUMAN),
                     figure_text(b->chunks, HUMAN));
        buf_printf(c->out, "  %s %-20.20s %10s fields, %s chunks merged\n", id, b->counter,
                   figure_text(b->fields, HUMAN), progress);
        buf_printf(c->out, "    oldest hit %s, owner %s%s\n", human_span(b->age_ms, HUMAN), b->owner,
                   b->held[0] != '\0' ? ", HELD" : "");
    }
}

static void books_show(struct screen *c)
{
    const struct status_books *b = &c->s->books;
    if (b->known)
        buf_printf(c->out, "%-10s %s\n", "books", b->unbalanced == 0 ? "balance" : "do NOT balance");
    else
        buf_printf(c->out, "%-10s ? (%s)\n", "books", b->why);
}

static void problem_put(void *arg, const char *what, const char *next)
{
    struct screen *c = arg;
    if (++c->problems > c->problems_max) return;
    buf_printf(c->out, "%s! %s%s\n", c->style->colour ? "\033[1;31m" : "", what,
               c->style->colour ? "\033[0m" : "");
    /* The correction of a schema is SQL of several lines. */
    BUF_LIT(c->out, "  -> ");
    for (const char *p = next; *p != '\0'; p++) {
        buf_put_char(c->out, *p);
        if (*p == '\n' && p[1] != '\0') BUF_LIT(c->out, "     ");
    }
    buf_put_char(c->out, '\n');
}

static void problems_put(struct screen *c)
{
    size_t used = 2, most = c->style->lines_max;
    for (size_t i = 0; i < c->out->n; i++)
        used += c->out->p[i] == '\n';
    buf_put_char(c->out, '\n');
    c->problems_max = most == 0 ? SIZE_MAX : most > used + 2 ? (most - used) / 2 : 1;
    enum err verdict = status_judge(c->s, problem_put, c);
    if (verdict == ERR_NONE) BUF_LIT(c->out, "All is well.\n");
    if (c->problems > c->problems_max)
        buf_printf(c->out, "... and %zu more\n", c->problems - c->problems_max);
}

void screen_put(const struct status *s, const struct screen_style *style, struct buf *out)
{
    struct screen c = {.s = s, .style = style, .out = out};
    service_show(&c);
    redis_show(&c);
    sentinels_show(&c);
    mysql_show(&c);
    backlog_show(&c);
    books_show(&c);
    counters_show(&c);
    batches_show(&c);
    problems_put(&c);
}

/* --- `tallyd status`: one look, or one after the other, as a screen or as JSON. --- */

#define RATE_MS 300
#define HOME "\033[H\033[J"

static void problem_ignore(void *arg, const char *what, const char *next)
{
    (void)arg, (void)what, (void)next;
}

static struct screen_style style_of(bool watching)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    struct winsize size;
    const char *no_colour = getenv("NO_COLOR"); /* not empty: none (no-color.org) */
    struct screen_style style = {.colour = terminal && (no_colour == NULL || no_colour[0] == '\0')};
    if (watching && terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1)
        style.lines_max = size.ws_row - 1u;
    return style;
}

static enum err look_once(const struct call *call, const struct setup *setup)
{
    const struct source where = setup_source(setup);
    const struct status_how how = {.rate_ms = RATE_MS, .books = true};
    const struct screen_style style = style_of(call->watch_s > 0);
    struct status s;
    struct buf text = {0};
    status_probe(&where, &how, &s);
    if (call->watch_s > 0 && !call->json && isatty(STDOUT_FILENO) == 1) BUF_LIT(&text, HOME);
    if (call->json) {
        status_json(&text, &s);
        buf_put_char(&text, '\n');
    } else {
        screen_put(&s, &style, &text);
    }
    enum err code = text_print(&text);
    if (code == ERR_NONE) code = status_judge(&s, problem_ignore, NULL);
    status_close(&s);
    return code;
}

/* Until SIGINT, SIGTERM, or the end of the reader of stdout; then the verdict of the last look. */
static enum err look_again_and_again(const struct call *call, const struct setup *setup)
{
    const struct timespec pause = {.tv_sec = call->watch_s};
    sigset_t stop;
    enum err code;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    do
        code = look_once(call, setup);
    while (!ferror(stdout) && sigtimedwait(&stop, NULL, &pause) < 0);
    return code;
}

enum err verb_status(const struct call *call)
{
    return call_configured(call, call->watch_s > 0 ? look_again_and_again : look_once);
}
