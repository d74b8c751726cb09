/* redis/sentinel.c - see seek.h. A sentinel that was found by others has a slot like the configured ones. */
#include "base/heap.h"
#include "base/log.h"
#include "base/url.h"
#include "redis/check_op.h"
#include "redis/request.h"
#include "redis/seek.h"
#include <stdio.h>

#define SENTINEL_MS 20
#define ASK_MS 1000
#define PRIMARY_DOUBT_MS 100 /* while the primary is in doubt */
#define LIST_MS 10000
#define FOUND_MS 5000
#define PING_MS 1000
#define DEAF_MS 3000 /* a subscription on which nothing came for this long is made again */

struct talk { /* a connection to one server of our choice, none while it has no target */
    struct sentinels *s;
    struct redis_place place;
    struct redis_link link;
    bool open, closing, asking;
    struct redis_target target; /* host empty: none is wanted */
    uint64_t asked_ms;
};

struct asked { /* a sentinel */
    struct talk ask, hear;
    enum sentinel_state state;
    bool told;      /* the state is one that was seen */
    bool heard;     /* `hear` is subscribed, as long as it is up */
    char text[240]; /* of it */
    uint64_t listed_ms, heard_ms;
};

struct sentinels {
    struct sentinels_config config;
    struct redis_place *place;
    uv_loop_t *loop;
    uv_timer_t tick;
    struct quorum quorum;
    struct asked all[SENTINELS_MAX]; /* as quorum.words */
    struct talk primary, candidate;
    bool closing, tick_closed;
    void (*closed)(void *arg);
    void *closed_arg;
};

const char *sentinel_parse(struct slice text, struct redis_target *out)
{
    struct url u;
    struct buf whole = {0};
    BUF_LIT(&whole, "sentinel://");
    buf_put_slice(&whole, text);
    int port = SENTINEL_PORT_DEFAULT;
    const char *why = url_split(buf_slice(&whole), &u);
    if (why == NULL && (u.host.n == 0 || u.host.n >= sizeof out->host || u.user.p != NULL ||
                        u.path.p != NULL || u.query.p != NULL))
        why = "a host and a port";
    if (why == NULL && u.port.p != NULL && !url_port(u.port, &port)) why = "a port from 1 to 65535";
    *out = (struct redis_target){.port = port};
    if (why == NULL) memcpy(out->host, u.host.p, u.host.n);
    buf_free(&whole);
    return why;
}

/* --- connections --- */

static void talk_open(struct talk *t, const struct redis_url *url, const char *role,
                      void (*up)(struct redis_link *), void (*down)(struct redis_link *, const char *),
                      void *arg)
{
    redis_link_init_asker(&t->link, t->s->loop, &t->place, url, &t->target, role);
    t->link.up = up;
    t->link.down = down;
    t->link.arg = arg;
    t->open = true;
    t->asking = false;
    t->asked_ms = 0;
    redis_link_start(&t->link);
}

static void maybe_closed(struct sentinels *s)
{
    bool open = s->primary.open || s->candidate.open || !s->tick_closed;
    for (uint32_t i = 0; i < s->quorum.words_n; i++)
        open = open || s->all[i].ask.open || s->all[i].hear.open;
    if (!s->closing || open) return;
    void (*closed)(void *) = s->closed;
    void *arg = s->closed_arg;
    heap_free(s);
    if (closed != NULL) closed(arg);
}

static void talk_closed(struct redis_link *l)
{
    struct talk *t = CONTAINER_OF(l, struct talk, link);
    t->open = t->closing = false;
    maybe_closed(t->s);
}

static void talk_close(struct talk *t)
{
    t->target = (struct redis_target){0};
    if (!t->open || t->closing) return;
    t->closing = true;
    redis_link_close(&t->link, talk_closed);
}

static void talk_down(struct redis_link *l, const char *why)
{
    (void)l, (void)why;
}

/* --- replication of a server --- */

static void replica_read(struct slice line, struct replication *r)
{
    struct slice host = {0}, port = {0};
    while (line.n > 0) {
        const char *comma = memchr(line.p, ',', line.n);
        size_t n = comma == NULL ? line.n : (size_t)(comma - line.p);
        struct slice word = slice_of(line.p, n);
        if (slice_starts(word, SLICE("ip="))) host = slice_of(word.p + 3, word.n - 3);
        if (slice_starts(word, SLICE("port="))) port = slice_of(word.p + 5, word.n - 5);
        size_t used = n + (comma != NULL);
        line = slice_of(line.p + used, line.n - used);
    }
    if (r->replicas_n < REPLICAS_MAX && target_parse(host, port, &r->replicas[r->replicas_n]))
        r->replicas_n++;
}

static void replication_read(struct slice info, struct replication *r)
{
    struct slice value;
    char key[16];
    *r = (struct replication){.master = info_is(info, "role", "master")};
    if (info_get(info, "master_replid", &value))
        slice_show(value, sizeof r->replid - 1, r->replid, sizeof r->replid);
    if (info_get(info, "master_replid2", &value))
        slice_show(value, sizeof r->replid2 - 1, r->replid2, sizeof r->replid2);
    for (int i = 0; i < REPLICAS_MAX; i++) {
        snprintf(key, sizeof key, "slave%d", i);
        if (!info_get(info, key, &value)) return;
        replica_read(value, r);
    }
}

static void replication_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct talk *t = arg;
    struct sentinels *s = t->s;
    struct replication got;
    (void)l, (void)at;
    t->asking = false;
    if (!answer_is(r, REDIS_STRING) || t->closing) return;
    replication_read(r->str, &got);
    if (t == &s->primary)
        quorum_primary(&s->quorum, &got);
    else
        quorum_looked(&s->quorum, &got, mono_ms());
}

static void replication_ask(struct redis_link *l)
{
    struct talk *t = CONTAINER_OF(l, struct talk, link);
    if (t->asking || t->closing) return;
    t->asking = true;
    t->asked_ms = mono_ms();
    request_words(redis_link_begin(l), "INFO replication");
    redis_link_expect(l, 1, replication_done, t);
    redis_link_flush(l);
}

/* A closed talk is opened again, at the target that is wanted by then. */
static void server_talk(struct talk *t, uint64_t every_ms, uint64_t now_ms)
{
    if (!t->open && t->target.host[0] != '\0')
        talk_open(t, t->s->place->url, "watch", replication_ask, talk_down, t);
    else if (t->open && redis_link_is_up(&t->link) && now_ms - t->asked_ms >= every_ms)
        replication_ask(&t->link);
}

static void server_aim(struct talk *t, const struct redis_target *at)
{
    if (t->open) talk_close(t);
    t->target = *at;
    server_talk(t, 0, mono_ms());
}

/* --- what the quorum decides --- */

static void move_told(void *arg, const struct redis_target *to, const char *why)
{
    struct sentinels *s = arg;
    char text[400];
    log_event(LOG_INFO, "sentinels_say", "name=%s primary=%s:%d why=%s", s->config.name, to->host, to->port,
              LOGQ(why));
    snprintf(text, sizeof text, "MASTERDOWN the sentinels name another primary, %.255s:%d", to->host,
             to->port);
    server_aim(&s->primary, to);
    place_move(s->place, to, text);
}

static void hold_told(void *arg, bool on, const char *why)
{
    struct sentinels *s = arg;
    log_event(LOG_INFO, on ? "hold" : "hold_over", "why=%s", LOGQ(why));
    place_hold(s->place, on);
}

static void look_told(void *arg, const struct redis_target *at)
{
    struct sentinels *s = arg;
    if (at == NULL)
        talk_close(&s->candidate);
    else
        server_aim(&s->candidate, at);
}

/* --- what a sentinel says --- */

static uint32_t index_of(const struct asked *a)
{
    return (uint32_t)(a - a->ask.s->all);
}

const char *sentinel_state_name(enum sentinel_state state)
{
    static const char *const names[] = {"silent", "refuses", "unknown_name", "answers"};
    return names[state];
}

static void said_file(struct asked *a, enum sentinel_state state, const char *text)
{
    if (state != SENTINEL_NAMES) quorum_silent(&a->ask.s->quorum, index_of(a));
    bool same = a->told && a->state == state;
    a->told = true;
    a->state = state;
    snprintf(a->text, sizeof a->text, "%.*s", (int)sizeof a->text - 1, text);
    if (!same)
        log_event(state == SENTINEL_NAMES ? LOG_INFO : LOG_WARN, "sentinel", "at=%s:%d state=%s why=%s",
                  a->ask.target.host, a->ask.target.port, sentinel_state_name(state), LOGQ(text));
}

static void primary_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    struct redis_target named;
    char why[200];
    (void)l, (void)at;
    a->ask.asking = false;
    if (r == NULL || a->ask.closing) return;
    if (answer_is(r, REDIS_NIL)) {
        said_file(a, SENTINEL_UNKNOWN, "");
    } else if (answer_is_array(r, 2) && answer_is(&r->elements[0], REDIS_STRING) &&
               answer_is(&r->elements[1], REDIS_STRING) &&
               target_parse(r->elements[0].str, r->elements[1].str, &named)) {
        said_file(a, SENTINEL_NAMES, "");
        quorum_named(&a->ask.s->quorum, index_of(a), &named, mono_ms());
    } else {
        answer_why(r, why, sizeof why);
        said_file(a, SENTINEL_REFUSES, why);
    }
}

static void id_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    (void)l, (void)at;
    if (answer_is(r, REDIS_STRING)) quorum_id(&a->ask.s->quorum, index_of(a), r->str);
}

static struct slice field_of(const struct redis_answer *r, const char *name)
{
    for (size_t i = 0; r->type == REDIS_ARRAY && i + 1 < r->n; i += 2)
        if (slice_eq(r->elements[i].str, slice_str(name)) && answer_is(&r->elements[i + 1], REDIS_STRING))
            return r->elements[i + 1].str;
    return slice_of(NULL, 0);
}

static uint64_t other_hash(struct slice id, const struct redis_target *at)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ (uint64_t)at->port;
    for (size_t i = 0; i < id.n; i++)
        h = (h ^ (unsigned char)id.p[i]) * UINT64_C(1099511628211);
    for (const char *p = at->host; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    return h;
}

static bool is_asked(const struct sentinels *s, struct slice id, const struct redis_target *at)
{
    for (uint32_t i = 0; i < s->quorum.words_n; i++)
        if (slice_eq(slice_str(s->quorum.words[i].id), id) || target_is(&s->all[i].ask.target, at))
            return true;
    return false;
}

static void asked_begin(struct sentinels *s, uint32_t i, const struct redis_target *at);

static void others_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    struct sentinels *s = a->ask.s;
    uint64_t hashes[SENTINELS_MAX] = {0};
    uint32_t n = 0;
    (void)l, (void)at;
    if (!answer_is(r, REDIS_ARRAY) || a->ask.closing) return;
    struct redis_target other[SENTINELS_MAX];
    struct slice ids[SENTINELS_MAX];
    for (size_t i = 0; i < r->n && n < SENTINELS_MAX; i++) {
        const struct redis_answer *e = &r->elements[i];
        ids[n] = field_of(e, "runid");
        if (ids[n].n > 0 && target_parse(field_of(e, "ip"), field_of(e, "port"), &other[n])) {
            hashes[n] = other_hash(ids[n], &other[n]);
            n++;
        }
    }
    quorum_others(&s->quorum, index_of(a), hashes, n);
    if (mono_ms() - s->quorum.began_ms < FOUND_MS) return; /* the configured ones first give their ids */
    for (uint32_t i = 0; i < n; i++) {
        if (is_asked(s, ids[i], &other[i]) || !quorum_believes(&s->quorum, hashes[i], mono_ms())) continue;
        uint32_t slot = quorum_add(&s->quorum);
        if (slot == SENTINELS_MAX) return;
        quorum_id(&s->quorum, slot, ids[i]);
        asked_begin(s, slot, &other[i]);
    }
}

static void words_ask(struct asked *a, const char *command, bool named, redis_reply_cb *done)
{
    struct buf *out = redis_link_begin(&a->ask.link);
    request_array(out, named ? 3 : 2);
    REQUEST_LIT(out, "SENTINEL");
    request_text(out, command);
    if (named) request_text(out, a->ask.s->config.name);
    redis_link_expect(&a->ask.link, 1, done, a);
}

static void sentinel_ask(struct asked *a, uint64_t now_ms)
{
    if (a->ask.asking || !redis_link_is_up(&a->ask.link)) return;
    a->ask.asking = true;
    a->ask.asked_ms = now_ms;
    if (now_ms - a->listed_ms >= LIST_MS) {
        a->listed_ms = now_ms;
        words_ask(a, "MYID", false, id_done);
        words_ask(a, "SENTINELS", true, others_done);
    }
    words_ask(a, "GET-MASTER-ADDR-BY-NAME", true, primary_done);
    redis_link_flush(&a->ask.link);
}

static void ask_up(struct redis_link *l)
{
    sentinel_ask(l->arg, mono_ms());
}

static void ask_down(struct redis_link *l, const char *why)
{
    struct asked *a = l->arg;
    const char *text = strncmp(why, "MASTERDOWN ", 11) == 0 ? why + 11 : why;
    said_file(a, l->refusal.code != ERR_NONE ? SENTINEL_REFUSES : SENTINEL_SILENT,
              l->refusal.code != ERR_NONE ? l->refusal.text : text);
}

/* --- subscription --- */

static void hear_up(struct redis_link *l)
{
    static const char *const patterns[] = {"+switch-master", "+failover-state-*", "+selected-slave",
                                           "+promoted-slave", "-failover-abort*"};
    struct asked *a = l->arg;
    struct buf *out = redis_link_begin(l);
    request_array(out, 1 + sizeof patterns / sizeof *patterns);
    REQUEST_LIT(out, "PSUBSCRIBE");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        request_text(out, patterns[i]);
    redis_link_flush(l);
    a->heard = false;
    a->heard_ms = a->hear.asked_ms = mono_ms();
}

/* pmessage, pattern, channel, text; other messages confirm the subscription, or answer a PING. */
static void hear_push(struct redis_link *l, const struct redis_answer *r)
{
    struct asked *a = l->arg;
    a->heard_ms = mono_ms();
    if (answer_is_array(r, 3) && slice_eq(r->elements[0].str, SLICE("psubscribe"))) a->heard = true;
    if (!answer_is_array(r, 4) || !slice_eq(r->elements[0].str, SLICE("pmessage"))) return;
    quorum_heard(&a->ask.s->quorum, index_of(a), r->elements[2].str, r->elements[3].str, a->heard_ms);
}

/* --- begin and end --- */

static void asked_begin(struct sentinels *s, uint32_t i, const struct redis_target *at)
{
    struct asked *a = &s->all[i];
    *a = (struct asked){.ask = {.s = s, .target = *at}, .hear = {.s = s, .target = *at}};
    talk_open(&a->ask, &s->config.access, "ask", ask_up, ask_down, a);
    talk_open(&a->hear, &s->config.access, "hear", hear_up, talk_down, a);
    a->hear.link.push = hear_push;
}

static void place_doubts(struct redis_place *place, const char *why)
{
    struct sentinels *s = place->finder;
    uint64_t now_ms = mono_ms();
    (void)why;
    for (uint32_t i = 0; i < s->quorum.words_n; i++)
        if (now_ms - s->all[i].ask.asked_ms >= PRIMARY_DOUBT_MS) sentinel_ask(&s->all[i], now_ms);
}

static void sentinels_tick(uv_timer_t *timer)
{
    struct sentinels *s = timer->data;
    uint64_t now_ms = mono_ms();
    for (uint32_t i = 0; i < s->quorum.words_n; i++) {
        struct asked *a = &s->all[i];
        if (now_ms - a->ask.asked_ms >= ASK_MS) sentinel_ask(a, now_ms);
        if (a->hear.open && redis_link_is_up(&a->hear.link)) {
            if (now_ms - a->heard_ms > DEAF_MS) {
                redis_link_cut(&a->hear.link, "MASTERDOWN nothing is heard");
            } else if (now_ms - a->hear.asked_ms >= PING_MS) {
                a->hear.asked_ms = now_ms;
                request_words(redis_link_begin(&a->hear.link), "PING");
                redis_link_flush(&a->hear.link);
            }
        }
    }
    if (place_is_whole(s->place)) quorum_up(&s->quorum, now_ms);
    quorum_tick(&s->quorum, now_ms);
    server_talk(&s->primary, ASK_MS, now_ms);
    server_talk(&s->candidate, 0, now_ms);
}

struct sentinels *sentinels_create(uv_loop_t *loop, const struct sentinels_config *config,
                                   struct redis_place *place)
{
    struct sentinels *s = heap_zalloc(sizeof *s);
    s->config = *config;
    s->loop = loop;
    s->place = place;
    s->primary.s = s->candidate.s = s;
    place->told_only = true;
    place->doubted = place_doubts;
    place->finder = s;
    const struct quorum_ports ports = {.arg = s, .move = move_told, .hold = hold_told, .look = look_told};
    quorum_init(&s->quorum, &ports, config->name, config->n, mono_ms());
    for (uint32_t i = 0; i < config->n; i++)
        asked_begin(s, i, &config->at[i]);
    uv_timer_init(loop, &s->tick);
    s->tick.data = s;
    uv_timer_start(&s->tick, sentinels_tick, SENTINEL_MS, SENTINEL_MS);
    return s;
}

static void tick_gone(uv_handle_t *handle)
{
    struct sentinels *s = handle->data;
    s->tick_closed = true;
    maybe_closed(s);
}

void sentinels_close(struct sentinels *s, void (*closed)(void *arg), void *arg)
{
    s->closing = true;
    s->place->doubted = NULL;
    s->closed = closed;
    s->closed_arg = arg;
    for (uint32_t i = 0; i < s->quorum.words_n; i++) {
        talk_close(&s->all[i].ask);
        talk_close(&s->all[i].hear);
    }
    talk_close(&s->primary);
    talk_close(&s->candidate);
    uv_close((uv_handle_t *)&s->tick, tick_gone);
}

/* --- what is known of them --- */

uint32_t sentinels_seen(const struct sentinels *s, struct sentinel_seen *out)
{
    for (uint32_t i = 0; i < s->quorum.words_n; i++) {
        const struct asked *a = &s->all[i];
        out[i] = (struct sentinel_seen){.at = a->ask.target,
                                        .primary = s->quorum.words[i].named,
                                        .state = a->state,
                                        .found = i >= s->quorum.configured_n,
                                        .heard = a->heard && a->hear.open && redis_link_is_up(&a->hear.link)};
        snprintf(out[i].text, sizeof out[i].text, "%s", a->text);
    }
    return s->quorum.words_n;
}

struct sentinels_count sentinels_count(const struct sentinels *s)
{
    uint64_t now_ms = mono_ms();
    return (struct sentinels_count){.known = quorum_size(&s->quorum, now_ms),
                                    .answering = quorum_answering(&s->quorum, now_ms),
                                    .majority = quorum_majority(&s->quorum, now_ms)};
}

/* The worst state of all sentinels, for an operator who starts tallyd. */
static enum err sentinels_why(const struct sentinels *s, struct error *e)
{
    const struct asked *refuses = NULL, *unknown = NULL, *silent = NULL;
    for (uint32_t i = s->quorum.words_n; i-- > 0;) {
        const struct asked *a = &s->all[i];
        if (a->state == SENTINEL_NAMES) return ERR_NONE;
        if (a->state == SENTINEL_REFUSES) refuses = a;
        if (a->state == SENTINEL_UNKNOWN) unknown = a;
        if (a->state == SENTINEL_SILENT) silent = a;
    }
    if (refuses != NULL)
        return error_set(e, ERR_CONFIG,
                         "the sentinel %s:%d refuses tallyd (%s): see redis.sentinel.password_file, "
                         "redis.sentinel.user and redis.sentinel.tls",
                         refuses->ask.target.host, refuses->ask.target.port, refuses->text);
    if (unknown != NULL)
        return error_set(
            e, ERR_CONFIG,
            "the sentinel %s:%d knows no primary named '%s': the host of redis.url must be the name "
            "in its `sentinel monitor`",
            unknown->ask.target.host, unknown->ask.target.port, s->config.name);
    PRE(silent != NULL);
    return error_set(
        e, ERR_UNAVAILABLE,
        "none of the %u sentinels answers (%s:%d: %s): see that they run, and that redis.sentinels is "
        "right",
        s->quorum.words_n, silent->ask.target.host, silent->ask.target.port, silent->text);
}

enum err sentinels_wait(struct sentinels *s, uint64_t wait_ms, struct error *e)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    while (s->quorum.now.host[0] == '\0') {
        if (mono_ms() >= until_ms) return sentinels_why(s, e);
        uv_run(s->loop, UV_RUN_ONCE);
    }
    return ERR_NONE;
}

void sentinels_hear_all(struct sentinels *s, uint64_t wait_ms)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    for (uint32_t i = 0; i < s->quorum.configured_n && mono_ms() < until_ms;) {
        if (s->all[i].told)
            i++;
        else
            uv_run(s->loop, UV_RUN_ONCE);
    }
}
