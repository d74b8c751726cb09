/* fuzz_tokens.c - increments with tokens, from a client's bytes to Redis: command/, coalesce/, redis/frame_tokens.c, and its script
 * as it stands, on the Redis of lua_redis.h. An input says what three clients send (tokens of any bytes, hits without, MULTI),
 * when frames go, are answered, refused or cut before or behind their EXEC, how time goes by, and what keys are spoilt.
 *   A plain model counts beside it: a token counts once for as long as it is kept, with another key, field or n it is
 *   refused, an error leaves no token. Each client hears, line by line, what the model says, and in the end counts, tokens,
 *   dirty index and tally:accepted in Redis are the model's.
 *   There are never more tokens than tokens.max, and a new one is only refused when so many were written in the time
 *   that they are kept and a twelfth of it before; tally:tokens stays a handful of fields. Two clients are users: each has at most
 *   as many as are free, and is refused one only then; the third is nobody. */
#include "fuzz.h"
#include "kept_command.h"
#include "lib/fake_client.h"
#include "lua_redis.h"
#include "wire.h"

#include "base/log.h"
#include "base/stats.h"
#include "coalesce/coalesce.h"
#include "redis/frame_tokens.h"

#include <time.h>

#define CLIENTS 3
#define USERS 2 /* the first of them */
#define START_MS INT64_C(1700000000000)
#define RUN_ID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define WHY "MASTERDOWN gone"
#define REFUSED "-" WHY "; nothing was counted"
#define OTHER                                                                                                \
    "-ERR this token came with another increment before: key, field or n differ; nothing was counted"
#define GONE                                                                                                 \
    "-ERR not counted: Redis refused it, and its answer was lost with the link; send it again to see why"
#define REQUESTS_MAX 150 /* that wait for a frame: fewer than fill one */
#define MULTI_MAX 8

/* ---- what is configured ---- */

static struct counter counters_all[] = {
    {.name = {"visitors", 8},
     .key = {{"s", 1}, {":v", 2}, true, NULL},
     .lock = {{"s", 1}, {":sync", 5}, true, NULL},
     .field = FIELD_DATE,
     .hits = 3,
     .every_s = 60},
    {.name = {"views", 5},
     .key = {{"p", 1}, {"", 0}, true, NULL},
     .lock = {{"lock:", 5}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = INT64_MAX,
     .every_s = 10},
    {.name = {"texts", 5},
     .key = {{"t", 1}, {":z", 2}, true, NULL},
     .lock = {{"t", 1}, {":zsync", 6}, true, NULL},
     .store = STORE_TEXT,
     .field = FIELD_TEXT,
     .hits = 100,
     .every_s = 10},
    {.name = {"one", 3},
     .key = {{"all", 3}, {"", 0}, false, NULL},
     .lock = {{"all:lock", 8}, {"", 0}, false, NULL},
     .field = FIELD_INTEGER,
     .hits = 9,
     .every_s = 10},
    {.name = {"fed", 3},
     .key = {{"f", 1}, {"", 0}, true, NULL},
     .lock = {{"flock:", 6}, {"", 0}, true, NULL},
     .field = FIELD_INTEGER,
     .hits = 9,
     .every_s = 10,
     .feeds = {[FEED_SERIES] = {{"x", 1}, {"", 0}, true, NULL}}},
};
static struct op_limits limits = {.precisions = {1},
                                  .precisions_n = 1,
                                  .samples = 100,
                                  .timebox_width_s = 60,
                                  .timebox_keep = 4,
                                  .ahead_s = 60};
static const struct counters counters = {.all = counters_all, .n = 5, .ops = &limits};

static const struct known_key {
    const char *name, *store;
    int counter; /* -1: none */
} keys[] = {{"s1:v", "1", 0},     {"s12:v", "12", 0}, {"p1", "1", 1}, {"p2", "2", 1},  {"t1:z", "1", 2},
            {"ta b:z", "a b", 2}, {"all", "", 3},     {"f1", "1", 4}, {"none", "", -1}};
#define KEYS (sizeof keys / sizeof keys[0])
static const char *const fields[] = {"20140920", "20140921", "7", "x"};
#define FIELDS 4
static const bool field_fits[5][FIELDS] = {{true, true, false, false},
                                           {true, true, true, false},
                                           {true, true, true, true},
                                           {true, true, true, false},
                                           {true, true, true, false}};
static const int64_t deltas[] = {1, -1, 7, 0, 10, DELTA_MAX, -DELTA_MAX, DELTA_MAX + 1};

/* ---- the model ---- */

struct increment {
    size_t client, expect; /* whose line */
    size_t key, field;
    int64_t delta;
    struct slice id; /* n = 0: a hit without a token */
};

struct increments {
    struct increment all[REQUESTS_MAX];
    size_t n;
};

struct known_token {
    const char *store;
    struct slice id;
    size_t key, field;
    int64_t delta, value, written_ms;
    size_t client;
};

struct expect {
    enum { EXPECT_OPEN, EXPECT_LINE, EXPECT_ERROR } kind; /* ERROR: any line that begins so */
    struct buf line;
};

static struct model {
    bool has[KEYS][FIELDS], spoilt[KEYS], moved[KEYS];
    int64_t count[KEYS][FIELDS], accepted[5];
    bool accepted_spoilt, tokens_spoilt, dirty_spoilt;
    bool tokens_forgot, dirty_forgot; /* these keys were deleted */
    struct known_token *tokens;       /* all that were ever written */
    size_t tokens_n, tokens_cap;
    struct expect *expects[CLIENTS];
    size_t expects_n[CLIENTS], expects_cap[CLIENTS];
} model;

static size_t expect_add(size_t client)
{
    struct model *m = &model;
    if (m->expects_n[client] == m->expects_cap[client]) {
        m->expects_cap[client] = m->expects_cap[client] * 2 + 16;
        m->expects[client] = heap_realloc(m->expects[client], m->expects_cap[client] * sizeof(struct expect));
    }
    m->expects[client][m->expects_n[client]] = (struct expect){.kind = EXPECT_OPEN};
    return m->expects_n[client]++;
}

static void expect_line(const struct increment *q, const char *line)
{
    struct expect *e = &model.expects[q->client][q->expect];
    MUST(e->kind == EXPECT_OPEN);
    e->kind = EXPECT_LINE;
    buf_put_slice(&e->line, slice_str(line));
}

static void expect_value(const struct increment *q, int64_t value)
{
    char line[32];
    snprintf(line, sizeof line, ":%lld", (long long)value);
    expect_line(q, line);
}

static void expect_error(const struct increment *q)
{
    MUST(model.expects[q->client][q->expect].kind == EXPECT_OPEN);
    model.expects[q->client][q->expect].kind = EXPECT_ERROR;
}

static void expect_now(size_t client, const char *line)
{
    expect_line(&(struct increment){.client = client, .expect = expect_add(client)}, line);
}

static bool token_is_kept(const struct known_token *t)
{
    return t->written_ms + limits.token_keep_s * 1000 > redis.now_ms;
}

static const struct known_token *token_known(const struct increment *q)
{
    for (size_t i = model.tokens_n; i-- > 0;) {
        const struct known_token *t = &model.tokens[i];
        if (strcmp(t->store, keys[q->key].store) == 0 && slice_eq(t->id, q->id))
            return token_is_kept(t) ? t : NULL;
    }
    return NULL;
}

static bool is_the_same(const struct known_token *t, const struct increment *q)
{
    return t->key == q->key && t->field == q->field && t->delta == q->delta;
}

/* Written in so many ms up to now, by that client; CLIENTS: by all. */
static int64_t tokens_of_last(int64_t ms, size_t client)
{
    int64_t n = 0;
    for (size_t i = 0; i < model.tokens_n; i++) {
        const struct known_token *t = &model.tokens[i];
        n += t->written_ms + ms > redis.now_ms && (client == CLIENTS || t->client == client);
    }
    return n;
}

static void token_write(const struct increment *q, int64_t value)
{
    struct model *m = &model;
    if (m->tokens_n == m->tokens_cap) {
        m->tokens_cap = m->tokens_cap * 2 + 16;
        m->tokens = heap_realloc(m->tokens, m->tokens_cap * sizeof *m->tokens);
    }
    m->tokens[m->tokens_n++] = (struct known_token){keys[q->key].store, q->id, q->key,       q->field,
                                                    q->delta,           value, redis.now_ms, q->client};
}

/* NULL: it went well. */
static const char *model_adds(size_t key, size_t field, int64_t delta)
{
    int64_t value = model.has[key][field] ? model.count[key][field] : 0;
    if (model.spoilt[key]) return "-" WRONGTYPE;
    if (__builtin_add_overflow(value, delta, &value)) return "-ERR increment or decrement would overflow";
    model.has[key][field] = model.moved[key] = true;
    model.count[key][field] = value;
    return NULL;
}

static void model_counts_token(const struct increment *q)
{
    const char *error = model.accepted_spoilt ? "-" WRONGTYPE : model_adds(q->key, q->field, q->delta);
    if (error != NULL) {
        expect_line(q, error);
        return;
    }
    model.accepted[keys[q->key].counter] += q->delta;
    token_write(q, model.count[q->key][q->field]);
    expect_value(q, model.count[q->key][q->field]);
}

/* Redis refused one more; whether it may is looked at here. */
static void model_refuses(const struct increment *q, struct slice oom)
{
    int64_t keep_ms = limits.token_keep_s * 1000, most_ms = keep_ms + keep_ms / 12 + 2000;
    long long own, free, most = limits.tokens_most;
    char told[200], line[201];
    snprintf(told, sizeof told, SLICE_FMT, SLICE_ARG(oom));
    if (sscanf(told, "OOM %lld tokens are this user's, and %lld of", &own, &free) == 2) {
        MUST(q->client < USERS && free > 0 && own >= free && own <= tokens_of_last(most_ms, q->client));
        MUST(model.tokens_forgot ||
             (own >= tokens_of_last(keep_ms, q->client) && free <= most - tokens_of_last(keep_ms, CLIENTS)));
        MUST(free >= most - tokens_of_last(most_ms, CLIENTS));
        snprintf(line, sizeof line, "-%s", told);
    } else {
        MUST(tokens_of_last(most_ms, CLIENTS) >= most);
        snprintf(line, sizeof line, "-OOM %lld tokens are in Redis (tokens.max); nothing was counted", most);
    }
    expect_line(q, line);
}

static bool has_free(const struct increment *q)
{
    int64_t keep_ms = limits.token_keep_s * 1000;
    int64_t free = limits.tokens_most - tokens_of_last(keep_ms, CLIENTS);
    return free > (q->client < USERS ? tokens_of_last(keep_ms, q->client) : 0);
}

/* oom: Redis said so; n = 0: it did not. */
static void model_runs_token(const struct increment *q, struct slice oom)
{
    const struct known_token *t = token_known(q);
    if (model.tokens_spoilt || model.dirty_spoilt) {
        expect_line(q, "-" WRONGTYPE);
    } else if (t != NULL) {
        MUST(oom.n == 0);
        if (is_the_same(t, q))
            expect_value(q, t->value);
        else
            expect_line(q, OTHER);
    } else if (oom.n > 0) {
        model_refuses(q, oom);
    } else {
        MUST(model.tokens_forgot || has_free(q));
        model_counts_token(q);
    }
}

/* Of hits that fit together where one alone would not: the end that it passed is told. */
static int64_t stood(__int128 value)
{
    return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

/* A frame adds what all hits of a field come to; each hears the value behind its own. */
static void model_runs_hits(const struct increments *sent, size_t key, size_t field)
{
    int64_t sum = 0, so_far = 0;
    bool any = false;
    for (size_t i = 0; i < sent->n; i++) {
        const struct increment *q = &sent->all[i];
        if (q->id.n > 0 || q->key != key || q->field != field) continue;
        sum += q->delta;
        any = true;
    }
    if (!any) return;
    const char *error = model_adds(key, field, sum);
    for (size_t i = 0; i < sent->n; i++) {
        const struct increment *q = &sent->all[i];
        if (q->id.n > 0 || q->key != key || q->field != field) continue;
        so_far += q->delta;
        if (error != NULL)
            expect_line(q, error);
        else
            expect_value(q, stood((__int128)model.count[key][field] - sum + so_far));
    }
}

static void model_runs(const struct increments *sent, const struct frame *f)
{
    for (size_t k = 0; k < KEYS; k++)
        for (size_t i = 0; i < FIELDS; i++)
            model_runs_hits(sent, k, i);
    uint32_t at = 0;
    for (size_t i = 0; i < sent->n; i++) {
        if (sent->all[i].id.n == 0) continue;
        MUST(at < f->tokens_n);
        const struct frame_token *t = &f->tokens[at++];
        bool oom = t->error_n > 0 && slice_starts(FRAME_ERROR(f, t), SLICE("OOM "));
        model_runs_token(&sent->all[i], oom ? FRAME_ERROR(f, t) : SLICE(""));
    }
    MUST(at == f->tokens_n);
}

/* After a cut: what stands, whoever wrote it; replaces what was expected. */
static void model_tells(const struct increments *sent)
{
    for (size_t i = 0; i < sent->n; i++) {
        const struct increment *q = &sent->all[i];
        struct expect *e = &model.expects[q->client][q->expect];
        buf_reset(&e->line);
        e->kind = EXPECT_OPEN;
        const struct known_token *t = q->id.n > 0 ? token_known(q) : NULL;
        if (q->id.n == 0 && (model.spoilt[q->key] || !model.has[q->key][q->field]))
            expect_error(q);
        else if (q->id.n == 0)
            expect_value(q, model.count[q->key][q->field]);
        else if (t == NULL)
            expect_line(q, GONE);
        else if (is_the_same(t, q))
            expect_value(q, t->value);
        else
            expect_line(q, OTHER);
    }
}

static void model_close(void)
{
    for (size_t c = 0; c < CLIENTS; c++) {
        for (size_t i = 0; i < model.expects_n[c]; i++)
            buf_free(&model.expects[c][i].line);
        heap_free(model.expects[c]);
    }
    heap_free(model.tokens);
    model = (struct model){.tokens = NULL};
}

/* ---- the world ---- */

static struct conn conns[CLIENTS];
static struct user users[USERS];
static char user_names_all[USERS][4] = {"a:b", "7"};
static struct coalesce *coalesce;
static struct command *command;
static struct increments collected, sent;
static bool is_up, ran; /* ran: the frame that is out was applied */
static int64_t seq, client_id;

int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    (void)which;
    *out = (struct timespec){.tv_sec = START_MS / 1000};
    return 0;
}

/* The one that was in doubt, sent again, or what was collected. */
static void port_frame(void *arg, struct frame *f)
{
    MUST(is_up);
    if (sent.n == 0) {
        sent = collected;
        collected.n = 0;
    }
    wire_frame(arg, f);
}
static void port_kill(void *arg, int64_t id)
{
    MUST(id == client_id - 1);
    wire_kill(arg, id);
}
static void port_answered(void *arg, struct outlet *o)
{
    (void)arg;
    session_answered(&CONTAINER_OF(o, struct conn, outlet)->session);
}
static void port_room(void *arg, struct outlet *o)
{
    (void)arg, (void)o;
    UNREACHABLE(); /* there always is */
}
static int64_t port_redis_ms(void *arg)
{
    (void)arg;
    return redis.now_ms;
}

/* ---- Redis runs a frame ---- */

static void cell_runs(struct frame *f, struct frame_cell *c)
{
    char digits[24];
    const struct slice args[] = {SLICE("hincrby"), f->hashes[c->hash].key, FRAME_FIELD(f, c),
                                 slice_of(digits, num_write(c->delta, digits))};
    struct redis_answer r = redis_run(args, 4);
    c->error_n = 0;
    c->value = r.integer;
    if (r.type == REDIS_ERROR) {
        c->error_at = (uint32_t)f->errors.n;
        c->error_n = (uint32_t)r.str.n;
        buf_put_slice(&f->errors, r.str);
    }
    reply_free(&r);
}

static void tokens_run(struct frame *f)
{
    struct buf out = {0};
    struct redis_frames frames = {.limits = &limits};
    uint32_t requests_n = f->tokens_n > 0 ? tokens_put(&frames, &out, f) : 0;
    struct slice rest = buf_slice(&out);
    tokens_clear(f);
    if (requests_n > 0) {
        struct redis_answer r = redis_wire(&rest);
        MUST(rest.n == 0);
        tokens_file(&frames, f, &r, requests_n);
        reply_free(&r);
    }
    buf_free(&out);
}

static void hash_dirty(const struct frame_hash *h)
{
    const struct slice args[] = {SLICE("zadd"), SLICE("tally:dirty"), SLICE("nx"), SLICE("1"), h->key};
    struct redis_answer r = redis_run(args, 5);
    reply_free(&r);
}

static void frame_runs(struct frame *f)
{
    MUST(!ran);
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->cells_n; i++)
        cell_runs(f, &f->cells[i]);
    for (uint32_t i = 0; i < f->hashes_n; i++) {
        f->hashes[i].fresh = f->hashes[i].lock_granted = false;
        f->hashes[i].lock_pttl_ms = 60000;
        if (f->hashes[i].zadd) hash_dirty(&f->hashes[i]);
    }
    tokens_run(f);
    model_runs(&sent, f);
    seq = (int64_t)f->seq;
    ran = true;
}

static void frame_over(void)
{
    sent.n = 0;
    ran = false;
}

static void values_read(struct frame *f)
{
    struct buf out = {0};
    buf_reset(&f->errors);
    for (uint32_t i = 0; i < f->cells_n; i++) {
        struct frame_cell *c = &f->cells[i];
        const struct slice args[] = {SLICE("hget"), f->hashes[c->hash].key, FRAME_FIELD(f, c)};
        struct redis_answer r = redis_run(args, 3);
        c->error_n = 0;
        if (r.type != REDIS_STRING || !num_parse(r.str, &c->value)) {
            c->error_at = (uint32_t)f->errors.n;
            c->error_n = 8;
            BUF_LIT(&f->errors, "ERR gone");
        }
        reply_free(&r);
    }
    tokens_clear(f);
    tokens_ask(&out, slice_of(NULL, 0), f);
    struct slice rest = buf_slice(&out);
    for (uint32_t i = 0; i < f->tokens_n; i++) {
        struct redis_answer r = redis_wire(&rest);
        MUST(tokens_told(f, i, &r, false));
        reply_free(&r);
    }
    MUST(rest.n == 0);
    buf_free(&out);
}

/* ---- what happens ---- */

static void frame_answered(void)
{
    if (wire.frame == NULL) return;
    struct frame *f = wire.frame;
    frame_runs(f);
    wire.frame = NULL;
    frame_over();
    coalesce_on_frame(coalesce, f, FRAME_APPLIED);
}

static void frame_refused(void)
{
    if (wire.frame == NULL) return;
    struct frame *f = wire.frame;
    buf_reset(&f->errors);
    BUF_LIT(&f->errors, "OOM command not allowed when used memory > 'maxmemory'.");
    for (size_t i = 0; i < sent.n; i++)
        expect_error(&sent.all[i]);
    wire.frame = NULL;
    frame_over();
    coalesce_on_frame(coalesce, f, FRAME_REFUSED);
}

static void link_cut(bool behind_exec)
{
    if (!is_up) return;
    if (behind_exec && wire.frame != NULL) frame_runs(wire.frame);
    for (size_t i = 0; i < collected.n; i++)
        expect_line(&collected.all[i], REFUSED);
    collected.n = 0;
    wire.frame = wire.values = NULL;
    is_up = wire.kills = wire.looks = false;
    coalesce_cut(coalesce, WHY);
}

static void link_up(void)
{
    static const bool none[8];
    if (is_up) return;
    is_up = true;
    coalesce_up(coalesce, RUN_ID, ++client_id);
    if (wire.kills) coalesce_on_killed(coalesce);
    MUST(wire.looks);
    wire.kills = wire.looks = false;
    coalesce_on_look(coalesce, seq, none, none);
    if (ran && wire.values == NULL) frame_over(); /* of corrections alone: there is nothing to read */
}

/* Of a frame that was found applied. */
static void values_come(void)
{
    if (wire.values == NULL) return;
    struct frame *f = wire.values;
    wire.values = NULL;
    values_read(f);
    model_tells(&sent);
    frame_over();
    coalesce_on_values(coalesce, f);
}

static void turn(void)
{
    if (is_up) coalesce_turn(coalesce);
}

/* ---- what an input says ---- */

static bool id_is_good(struct slice id)
{
    bool good = id.n >= 1 && id.n <= TOKEN_BYTES_MAX;
    for (size_t i = 0; i < id.n; i++)
        good &= id.p[i] >= '!' && id.p[i] <= '~';
    return good;
}

struct asked {
    struct increment q;
    bool has_token, is_good;
};

static struct asked asked_take(struct slice *in)
{
    struct asked a = {.is_good = true};
    uint8_t what = take_byte(in);
    a.q.key = take_byte(in) % KEYS;
    a.q.field = what % FIELDS;
    a.q.delta = deltas[what / 4 % 8];
    a.has_token = what < 224;
    if (a.has_token) a.q.id = take_text(in);
    int counter = keys[a.q.key].counter;
    a.is_good = counter >= 0 && field_fits[counter][a.q.field] && a.q.delta <= DELTA_MAX;
    if (a.has_token) a.is_good &= id_is_good(a.q.id) && counter != 4;
    return a;
}

static void asked_put(struct buf *out, const struct asked *a)
{
    char digits[24];
    const struct slice words[] = {a->has_token ? SLICE("CTR.INCRBY") : SLICE("HINCRBY"),
                                  slice_str(keys[a->q.key].name),
                                  slice_str(fields[a->q.field]),
                                  slice_of(digits, num_write(a->q.delta, digits)),
                                  SLICE("TOKEN"),
                                  a->q.id};
    size_t n = a->has_token ? 6 : 4;
    buf_printf(out, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "$%zu\r\n", words[i].n);
        buf_put_slice(out, words[i]);
        BUF_LIT(out, "\r\n");
    }
}

/* It is sent now, and goes into the frame that collects, if it may. */
static void model_takes(const struct asked *a, size_t client)
{
    struct increment q = a->q;
    q.client = client;
    q.expect = expect_add(client);
    if (!a->is_good)
        expect_error(&q);
    else if (!is_up)
        expect_line(&q, REFUSED);
    else
        collected.all[collected.n++] = q;
}

static void say(size_t client, struct buf *bytes)
{
    struct conn *c = &conns[client];
    buf_put_slice(&c->kept, buf_slice(bytes));
    conn_take(c);
    MUST(c->kept.n == 0 && !c->paused);
    buf_reset(bytes);
}

/* So many fill no frame, and none of them waits: a transaction wants room for COALESCE_ROOM_WEIGHT beside what is there, and
 * corrections of the frame before may weigh as much as hits. */
static bool has_room(size_t n)
{
    uint64_t weight = 0;
    for (size_t i = 0; i < collected.n; i++)
        weight += (uint64_t)llabs(collected.all[i].delta);
    return collected.n + n <= REQUESTS_MAX && weight <= COALESCE_ROOM_WEIGHT / 2;
}

static void one_comes(struct slice *in, size_t client, struct buf *bytes)
{
    struct asked a = asked_take(in);
    if (!has_room(1)) return;
    asked_put(bytes, &a);
    model_takes(&a, client);
    say(client, bytes);
}

static void multi_comes(struct slice *in, size_t client, struct buf *bytes)
{
    struct asked all[MULTI_MAX];
    size_t n = take_byte(in) % (MULTI_MAX + 1);
    bool good = true;
    if (!has_room(n)) return;
    BUF_LIT(bytes, "MULTI\r\n");
    expect_now(client, "+OK");
    for (size_t i = 0; i < n; i++) {
        all[i] = asked_take(in);
        asked_put(bytes, &all[i]);
        good &= all[i].is_good;
        if (all[i].is_good)
            expect_now(client, "+QUEUED");
        else
            expect_error(&(struct increment){.client = client, .expect = expect_add(client)});
    }
    BUF_LIT(bytes, "EXEC\r\n");
    char head[8];
    snprintf(head, sizeof head, "*%zu", n);
    if (good)
        expect_now(client, head);
    else
        expect_error(&(struct increment){.client = client, .expect = expect_add(client)});
    for (size_t i = 0; i < n && good; i++)
        model_takes(&all[i], client);
    say(client, bytes);
}

static void key_drop(struct slice name)
{
    struct redis_key *k = key_find(name);
    if (k == NULL) return;
    key_free(k);
    *k = redis.keys[--redis.n];
}

/* Somebody writes keys that are not his: another type, or a count near the end of what there is. */
static void spoil(uint8_t what)
{
    struct model *m = &model;
    size_t key = what % KEYS, field = what / 16 % FIELDS;
    bool own = key == KEYS - 1, back = what >= 128;
    const char *const names[] = {"tally:tokens", "tally:dirty", "tally:accepted"};
    bool *flags[] = {&m->tokens_spoilt, &m->dirty_spoilt, &m->accepted_spoilt};
    size_t which = field % 3;
    struct slice name = slice_str(own ? names[which] : keys[key].name);
    key_drop(name);
    if (!back) key_make(name, KEY_LIST);
    if (own) {
        *flags[which] = !back;
        m->tokens_forgot |= which == 0;
        m->dirty_forgot |= which == 1;
        if (which == 2) memset(m->accepted, 0, sizeof m->accepted);
        return;
    }
    m->spoilt[key] = !back;
    memset(m->has[key], 0, sizeof m->has[key]);
    if (!back) return;
    char digits[24];
    m->has[key][field] = true;
    m->count[key][field] = what % 2 == 0 ? INT64_MAX - 5 : INT64_MIN + 5;
    field_put(key_make(name, KEY_HASH), slice_str(fields[field]),
              slice_of(digits, num_write(m->count[key][field], digits)));
}

static void step(struct slice *in, struct buf *bytes)
{
    static const int32_t pauses_ms[] = {1, 999, 1000, 5000, 59000, 60000, 65000, 3600000, 86400000};
    uint8_t what = take_byte(in);
    if (what < 150) {
        one_comes(in, what % CLIENTS, bytes);
        return;
    }
    switch (what % 12) {
    case 0:
    case 1:
        turn();
        return;
    case 2:
    case 3:
        frame_answered();
        return;
    case 4:
        frame_refused();
        return;
    case 5:
        link_cut(false);
        return;
    case 6:
        link_cut(true);
        return;
    case 7:
        link_up();
        return;
    case 8:
        values_come();
        return;
    case 9:
        redis.now_ms += pauses_ms[take_byte(in) % 9];
        return;
    case 10:
        spoil(take_byte(in));
        return;
    default:
        multi_comes(in, what % CLIENTS, bytes);
    }
}

/* ---- what must hold ---- */

static void heard_as_expected(size_t client)
{
    struct slice said = buf_slice(&conns[client].said);
    for (size_t i = 0; i < model.expects_n[client]; i++) {
        const struct expect *e = &model.expects[client][i];
        struct slice line = take_line(&said);
        MUST(line.n > 0 && line.p[line.n - 1] == '\r');
        line.n--;
        MUST(e->kind == EXPECT_LINE || e->kind == EXPECT_ERROR);
        MUST(e->kind == EXPECT_ERROR ? line.p[0] == '-' : slice_eq(line, buf_slice(&e->line)));
    }
    MUST(said.n == 0);
}

static int64_t number_in(const char *key, const char *field, bool *has)
{
    const struct redis_key *k = key_find(slice_str(key));
    const struct redis_field *f = k != NULL && k->type == KEY_HASH ? field_find(k, slice_str(field)) : NULL;
    int64_t value = 0;
    *has = f != NULL;
    if (f != NULL) MUST(num_parse(buf_slice(&f->value), &value));
    return value;
}

static void counts_stand(void)
{
    bool has;
    for (size_t k = 0; k < KEYS; k++)
        for (size_t i = 0; i < FIELDS; i++) {
            int64_t value = number_in(keys[k].name, fields[i], &has);
            MUST(has == model.has[k][i] && (!has || value == model.count[k][i]));
        }
    for (size_t k = 0; k < KEYS && !model.dirty_forgot; k++)
        MUST(!model.moved[k] || field_find(key_find(SLICE("tally:dirty")), slice_str(keys[k].name)) != NULL);
    for (size_t i = 0; i < counters.n && !model.accepted_spoilt; i++)
        MUST(number_in("tally:accepted", counters_all[i].name.p, &has) == model.accepted[i]);
}

static void tokens_stand(void)
{
    size_t stand = 0, known = 0;
    for (size_t i = 0; i < redis.n; i++)
        stand += slice_starts(buf_slice(&redis.keys[i].name), SLICE("tally:token:")) &&
                 redis.keys[i].gone_ms > redis.now_ms;
    for (size_t i = 0; i < model.tokens_n; i++) {
        const struct known_token *t = &model.tokens[i];
        if (!token_is_kept(t)) continue;
        struct buf name = {0};
        buf_printf(&name, "tally:token:%s:", t->store);
        buf_put_slice(&name, t->id);
        MUST(key_find(buf_slice(&name)) != NULL);
        buf_free(&name);
        known++;
    }
    MUST(stand == known);
    MUST(model.tokens_forgot || (int64_t)stand <= limits.tokens_most);
    const struct redis_key *k = key_find(SLICE("tally:tokens"));
    MUST(k == NULL || k->n <= 15);
}

/* ---- one run ---- */

static void world_open(void)
{
    struct coalesce_config config = coalesce_config_default;
    config.gather_turns = 0;
    config.series_max = 64;
    config.entries_max = 64;
    config.cells_max = 1024;
    redis.now_ms = START_MS;
    seq = -1;
    client_id = 0;
    is_up = ran = false;
    wire = (struct wire){.mono_ms = 1000000};
    collected.n = sent.n = 0;
    stats = (struct stats){0};
    struct coalesce_ports ports = wire_ports;
    ports.send_frame = port_frame;
    ports.kill = port_kill;
    ports.answered = port_answered;
    ports.room = port_room;
    ports.redis_ms = port_redis_ms;
    coalesce = coalesce_create(&ports, &counters, &config);
    const struct command_config commands = {.lanes = &coalesce,
                                            .lanes_n = 1,
                                            .client = fake_client_ports,
                                            .counters = &counters,
                                            .zones = zones_utc(),
                                            .ports = {.redis_ms = port_redis_ms},
                                            .limits = request_limits_default,
                                            .clients_max = 100,
                                            .multi_max = MULTI_MAX,
                                            .multi_bytes_max = 1 << 20,
                                            .shares_max = {64 << 20, 64 << 20},
                                            .half_ms = 60000,
                                            .busy_ms = 5000};
    command = command_again(&commands);
    for (size_t i = 0; i < CLIENTS; i++) {
        conns[i] = (struct conn){.holds = 0};
        list_init(&conns[i].outlet.touched);
        list_init(&conns[i].outlet.parked);
        session_open(&conns[i].session, command, &conns[i], &conns[i].outlet, false);
        if (i >= USERS) continue;
        users[i] = (struct user){.name = user_names_all[i], .connections = 1};
        conns[i].session.user = &users[i]; /* its door is open all the same */
    }
    link_up();
}

static void world_close(void)
{
    for (size_t i = 0; i < CLIENTS; i++)
        fake_client_close(&conns[i]);
    command_rest(command);
    coalesce_destroy(&coalesce);
    redis_close();
    model_close();
}

static void finish(void)
{
    link_up();
    for (unsigned i = 0; i < 8; i++) {
        values_come();
        frame_answered();
        wire.mono_ms += 10000; /* corrections wait a while after a refusal */
        turn();
    }
    MUST(wire.frame == NULL && wire.values == NULL && collected.n == 0 && coalesce_idle(coalesce));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_set_level(LOG_ERROR); /* what is refused and cut is told otherwise */
    char *text = fuzz_copy(data, size);
    struct slice in = slice_of(text, size);
    struct buf bytes = {0};
    static const int64_t keeps_s[] = {60, 61, 7200, 86400};
    limits.token_keep_s = keeps_s[take_byte(&in) % 4];
    limits.tokens_most = take_byte(&in) % 32;
    world_open();
    while (in.n > 0)
        step(&in, &bytes);
    finish();
    for (size_t i = 0; i < CLIENTS; i++) {
        conn_flush(&conns[i]);
        heard_as_expected(i);
    }
    counts_stand();
    tokens_stand();
    world_close();
    buf_free(&bytes);
    heap_free(text);
    return 0;
}
