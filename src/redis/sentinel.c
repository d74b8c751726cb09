/* redis/sentinel.c - see seek.h. A sentinel that was found by others has a slot like the configured ones. */
#include "base/heap.h"
#include "base/log.h"
#include "base/url.h"
#include "redis/ask.h"
#include "redis/check_op.h"
#include "redis/link_in.h"
#include "redis/seek.h"
#include <stdio.h>

#define SENTINEL_MS 20
#define ASK_MS 1000
#define PRIMARY_DOUBT_MS 100 /* while the primary is in doubt */
#define LIST_MS 10000
#define FOUND_MS 5000
#define PING_MS 1000
#define DEAF_MS 3000 /* a subscription on which nothing came for this long is made again */

struct asked { /* a sentinel */
    struct sentinels *s;
    struct talk ask, hear;
    bool heard; /* `hear` is subscribed, as long as it is up */
    uint64_t listed_ms, heard_ms;
};

struct sentinels {
    struct seeker seeker;
    struct sentinels_config config;
    struct redis_place *place;
    struct quorum quorum;
    struct asked all[SENTINELS_MAX]; /* as quorum.words */
    struct talk primary, candidate;
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

/* --- replication of a server --- */

static void replication_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct talk *t = arg;
    struct sentinels *s = CONTAINER_OF(t->of, struct sentinels, seeker);
    struct slice value;
    struct info_replica one;
    (void)l, (void)at;
    t->asking = false;
    if (!answer_is(r, REDIS_STRING) || t->closing) return;
    struct replication got = {.master = info_is(r->str, "role", "master")};
    if (info_get(r->str, "master_replid", &value))
        slice_show(value, sizeof got.replid - 1, got.replid, sizeof got.replid);
    if (info_get(r->str, "master_replid2", &value))
        slice_show(value, sizeof got.replid2 - 1, got.replid2, sizeof got.replid2);
    for (uint32_t i = 0; i < REPLICAS_MAX && info_replica(r->str, i, &one); i++)
        got.replicas_n += target_parse(one.ip, one.port, &got.replicas[got.replicas_n]);
    if (t == &s->primary)
        quorum_primary(&s->quorum, &got);
    else
        quorum_looked(&s->quorum, &got, mono_ms());
}

static void replication_ask(struct talk *t, uint64_t every_ms)
{
    if (!talk_asks(t, every_ms)) return;
    redis_write(&t->link, "INFO replication");
    redis_link_ask(&t->link, 1, replication_done, t);
}

static void watch_up(struct redis_link *l)
{
    replication_ask(l->arg, 0);
}

/* A closed talk is opened again, at the target that is wanted by then. */
static void server_talk(struct sentinels *s, struct talk *t, uint64_t every_ms)
{
    if (t->open)
        replication_ask(t, every_ms);
    else if (t->at.host[0] != '\0')
        talk_open(t, s->place->url, "watch", watch_up, NULL, t);
}

static void server_aim(struct sentinels *s, struct talk *t, const struct redis_target *at)
{
    talk_close(t);
    t->at = *at;
    server_talk(s, t, 0);
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
    server_aim(s, &s->primary, to);
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
        server_aim(s, &s->candidate, at);
}

/* --- what a sentinel says --- */

static uint32_t index_of(const struct asked *a)
{
    return (uint32_t)(a - a->s->all);
}

const char *sentinel_state_name(enum sentinel_state state)
{
    static const char *const names[] = {"silent", "refuses", "unknown_name", "answers"};
    return names[state];
}

static void said_file(struct asked *a, enum sentinel_state state, const char *text)
{
    if (state != SENTINEL_NAMES) quorum_silent(&a->s->quorum, index_of(a));
    if (talk_says(&a->ask, state, text))
        log_event(state == SENTINEL_NAMES ? LOG_INFO : LOG_WARN, "sentinel", "at=%s:%d state=%s why=%s",
                  a->ask.at.host, a->ask.at.port, sentinel_state_name(state), LOGQ(text));
}

static void primary_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    struct redis_target named;
    struct slice host, port;
    char why[200];
    (void)l, (void)at;
    a->ask.asking = false;
    if (r == NULL || a->ask.closing) return;
    if (answer_is(r, REDIS_NIL)) {
        said_file(a, SENTINEL_UNKNOWN, "");
    } else if (answer_scan(r, "(ss)", &host, &port) && target_parse(host, port, &named)) {
        said_file(a, SENTINEL_NAMES, "");
        quorum_named(&a->s->quorum, index_of(a), &named, mono_ms());
    } else {
        answer_why(r, why, sizeof why);
        said_file(a, SENTINEL_REFUSES, why);
    }
}

static void id_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    (void)l, (void)at;
    if (answer_is(r, REDIS_STRING)) quorum_id(&a->s->quorum, index_of(a), r->str);
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

static void asked_begin(struct sentinels *s, uint32_t i, const struct redis_target *at);

static void others_done(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct asked *a = arg;
    struct sentinels *s = a->s;
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
        bool is_asked = false;
        for (uint32_t k = 0; k < s->quorum.words_n; k++)
            is_asked |=
                slice_eq(slice_str(s->quorum.words[k].id), ids[i]) || target_is(&s->all[k].ask.at, &other[i]);
        if (is_asked || !quorum_believes(&s->quorum, hashes[i], mono_ms())) continue;
        uint32_t slot = quorum_add(&s->quorum);
        if (slot == SENTINELS_MAX) return;
        quorum_id(&s->quorum, slot, ids[i]);
        asked_begin(s, slot, &other[i]);
    }
}

static void sentinel_ask(struct asked *a, uint64_t pause_ms)
{
    struct redis_link *l = &a->ask.link;
    const char *name = a->s->config.name;
    if (!talk_asks(&a->ask, pause_ms)) return;
    if (a->ask.asked_ms - a->listed_ms >= LIST_MS) {
        a->listed_ms = a->ask.asked_ms;
        redis_write(l, "SENTINEL MYID");
        redis_link_expect(l, 1, id_done, a);
        redis_write(l, "SENTINEL SENTINELS %s", name);
        redis_link_expect(l, 1, others_done, a);
    }
    redis_write(l, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", name);
    redis_link_ask(l, 1, primary_done, a);
}

static void ask_up(struct redis_link *l)
{
    sentinel_ask(l->arg, 0);
}

static void ask_down(struct redis_link *l, const char *why)
{
    said_file(l->arg, l->refusal.code != ERR_NONE ? SENTINEL_REFUSES : SENTINEL_SILENT, talk_end_why(l, why));
}

/* --- subscription --- */

static void hear_up(struct redis_link *l)
{
    struct asked *a = l->arg;
    redis_write(l, "PSUBSCRIBE +switch-master +failover-state-* +selected-slave +promoted-slave "
                   "-failover-abort*");
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
    quorum_heard(&a->s->quorum, index_of(a), r->elements[2].str, r->elements[3].str, a->heard_ms);
}

/* --- begin and end --- */

static void asked_begin(struct sentinels *s, uint32_t i, const struct redis_target *at)
{
    struct asked *a = &s->all[i];
    *a = (struct asked){.s = s, .ask = {.of = &s->seeker, .at = *at}, .hear = {.of = &s->seeker, .at = *at}};
    talk_open(&a->ask, &s->config.access, "ask", ask_up, ask_down, a);
    talk_open(&a->hear, &s->config.access, "hear", hear_up, NULL, a);
    a->hear.link.push = hear_push;
}

static void place_doubts(struct redis_place *place, const char *why)
{
    struct sentinels *s = place->finder;
    (void)why;
    for (uint32_t i = 0; i < s->quorum.words_n; i++)
        sentinel_ask(&s->all[i], PRIMARY_DOUBT_MS);
}

static void sentinels_tick(uv_timer_t *timer)
{
    struct sentinels *s = CONTAINER_OF(timer, struct sentinels, seeker.tick);
    uint64_t now_ms = mono_ms();
    for (uint32_t i = 0; i < s->quorum.words_n; i++) {
        struct asked *a = &s->all[i];
        sentinel_ask(a, ASK_MS);
        if (a->hear.open && redis_link_is_up(&a->hear.link)) {
            if (now_ms - a->heard_ms > DEAF_MS) {
                redis_link_cut(&a->hear.link, "MASTERDOWN nothing is heard");
            } else if (now_ms - a->hear.asked_ms >= PING_MS) {
                a->hear.asked_ms = now_ms;
                redis_write(&a->hear.link, "PING");
                redis_link_flush(&a->hear.link);
            }
        }
    }
    if (place_is_whole(s->place)) quorum_up(&s->quorum, now_ms);
    quorum_tick(&s->quorum, now_ms);
    server_talk(s, &s->primary, ASK_MS);
    server_talk(s, &s->candidate, 0);
}

static void sentinels_gone(struct seeker *f)
{
    heap_free(CONTAINER_OF(f, struct sentinels, seeker));
}

struct sentinels *sentinels_create(uv_loop_t *loop, const struct sentinels_config *config,
                                   struct redis_place *place)
{
    struct sentinels *s = heap_zalloc(sizeof *s);
    seeker_init(&s->seeker, loop, sentinels_tick, SENTINEL_MS, sentinels_gone);
    s->config = *config;
    s->place = place;
    s->primary.of = s->candidate.of = &s->seeker;
    place->told_only = true;
    place->doubted = place_doubts;
    place->finder = s;
    const struct quorum_ports ports = {.arg = s, .move = move_told, .hold = hold_told, .look = look_told};
    quorum_init(&s->quorum, &ports, config->name, config->n, mono_ms());
    for (uint32_t i = 0; i < config->n; i++)
        asked_begin(s, i, &config->at[i]);
    return s;
}

void sentinels_close(struct sentinels *s, void (*closed)(void *arg), void *arg)
{
    s->place->doubted = NULL;
    for (uint32_t i = 0; i < s->quorum.words_n; i++) {
        talk_close(&s->all[i].ask);
        talk_close(&s->all[i].hear);
    }
    talk_close(&s->primary);
    talk_close(&s->candidate);
    seeker_close(&s->seeker, closed, arg);
}

/* --- what is known of them --- */

uint32_t sentinels_seen(const struct sentinels *s, struct sentinel_seen *out)
{
    for (uint32_t i = 0; i < s->quorum.words_n; i++) {
        const struct asked *a = &s->all[i];
        out[i] = (struct sentinel_seen){.at = a->ask.at,
                                        .primary = s->quorum.words[i].named,
                                        .state = a->ask.state,
                                        .found = i >= s->quorum.configured_n,
                                        .heard = a->heard && a->hear.open && redis_link_is_up(&a->hear.link)};
        snprintf(out[i].text, sizeof out[i].text, "%s", a->ask.text);
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
    const struct talk *refuses = NULL, *unknown = NULL, *silent = NULL;
    for (uint32_t i = s->quorum.words_n; i-- > 0;) {
        const struct talk *t = &s->all[i].ask;
        if (t->state == SENTINEL_NAMES) return ERR_NONE;
        if (t->state == SENTINEL_REFUSES) refuses = t;
        if (t->state == SENTINEL_UNKNOWN) unknown = t;
        if (t->state == SENTINEL_SILENT) silent = t;
    }
    if (refuses != NULL)
        return error_set(e, ERR_CONFIG,
                         "the sentinel %s:%d refuses tallyd (%s): see redis.sentinel.password_file, "
                         "redis.sentinel.user and redis.sentinel.tls",
                         refuses->at.host, refuses->at.port, refuses->text);
    if (unknown != NULL)
        return error_set(
            e, ERR_CONFIG,
            "the sentinel %s:%d knows no primary named '%s': the host of redis.url must be the name "
            "in its `sentinel monitor`",
            unknown->at.host, unknown->at.port, s->config.name);
    PRE(silent != NULL);
    return error_set(
        e, ERR_UNAVAILABLE,
        "none of the %u sentinels answers (%s:%d: %s): see that they run, and that redis.sentinels is "
        "right",
        s->quorum.words_n, silent->at.host, silent->at.port, silent->text);
}

enum err sentinels_wait(struct sentinels *s, uint64_t wait_ms, struct error *e)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    while (s->quorum.now.host[0] == '\0') {
        if (mono_ms() >= until_ms) return sentinels_why(s, e);
        uv_run(s->seeker.loop, UV_RUN_ONCE);
    }
    return ERR_NONE;
}

void sentinels_hear_all(struct sentinels *s, uint64_t wait_ms)
{
    uint64_t until_ms = mono_ms() + wait_ms;
    for (uint32_t i = 0; i < s->quorum.configured_n; i++)
        talk_hear(&s->all[i].ask, until_ms);
}
