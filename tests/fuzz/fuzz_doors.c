/* fuzz_doors.c - three clients of a service with users: AUTH, HELLO, and every command of the table (command/, users/), on a
 * coalesce and ports that check the asking user. An input is two users, a line each for password, patterns and commands, then what
 * the clients do: requests made of words, bytes as they are, reloads, time, hanging up.
 *   By the reference, nothing that a session's user may not do reaches coalesce, Redis or MySQL, and no such name or figure
 *   reaches the client. A client becomes a user only with all bytes of its password; a reload keeps the sessions it may keep.
 *   The same bytes in small pieces get the same replies.
 * libcrypt is replaced by a hash of no cost, which also records what it is asked for; the thread pool by a queue. */
#include "fuzz.h"
#include "kept_command.h"
#include "lib/fake_coalesce.h"
#include "reference.h"

#include "base/stats.h"
#include "users/prover.h"

#include <crypt.h>
#include <time.h>
#include <uv.h>
#include <xxhash.h>

#define CLIENTS 3
#define RULES 2
#define SETS 3
#define STRANGER_MS 10000
#define ROUNDS_MAX 20000
#define SETTING "$y$j75$k2XA$"

struct rule { /* a user as the input has it */
    const char *name;
    struct slice password;
    struct words keys, commands;
    uint32_t rate, multi, connections;
    char hash[PASSWORD_HASH_BYTES];
};

struct rules {
    struct rule all[RULES];
    size_t n;
};

struct proof { /* what a client said last, and what it came in with */
    struct buf asked_name, asked_password, password;
};

struct ask { /* under way */
    void *request;
    void (*answer)(void *request);
};

static struct conn conns[CLIENTS];
static struct proof proofs[CLIENTS];
static struct ask asks[CLIENTS];
static struct buf heard[CLIENTS]; /* by those that are gone */
static struct rules sets[SETS];
static const struct rules *now;
static struct users *users;
static struct command *command;
static struct prover *prover;
static struct coalesce fake;
static uv_work_t *work;
static uv_work_cb work_do;
static uv_after_work_cb work_done;
static uint64_t clock_ms, paced_rounds;
static bool pacing;

/* ---- instead of the system's (the linker's --wrap) ---- */

int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *w, uv_work_cb todo, uv_after_work_cb done);
char *__wrap_crypt_rn(const char *phrase, const char *setting, void *data, int size);

int __wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    *out = (struct timespec){.tv_sec = which == CLOCK_REALTIME ? NOW_S : (time_t)(clock_ms / 1000),
                             .tv_nsec = (long)(clock_ms % 1000) * 1000000};
    return 0;
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *w, uv_work_cb todo, uv_after_work_cb done)
{
    (void)loop;
    MUST(work == NULL);
    work = w, work_do = todo, work_done = done;
    return 0;
}

static void hash_make(const char *phrase, char *out, size_t size)
{
    XXH128_hash_t h = XXH3_128bits(phrase, strlen(phrase));
    snprintf(out, size, SETTING "%016llx%016llx%011d", (unsigned long long)h.low64,
             (unsigned long long)h.high64, 0);
}

char *__wrap_crypt_rn(const char *phrase, const char *setting, void *data, int size)
{
    struct crypt_data *d = data;
    MUST((size_t)size >= sizeof *d && strlen(phrase) <= PASSWORD_BYTES_MAX);
    MUST(password_hash_fits(setting) && strncmp(setting, SETTING, strlen(SETTING)) == 0);
    hash_make(phrase, d->output, sizeof d->output);
    return d->output;
}

/* ---- what each user may do ---- */

static const struct rule *rule_named(struct slice name)
{
    for (size_t i = 0; i < now->n; i++)
        if (slice_eq(slice_str(now->all[i].name), name)) return &now->all[i];
    return NULL;
}

static bool rule_names(const struct rule *r, struct slice key)
{
    bool names = false;
    for (size_t i = 0; i < r->keys.n; i++)
        names |= reference_match(r->keys.all[i], key);
    return names;
}

static bool rule_has_all(const struct rule *r)
{
    bool all = false;
    for (size_t i = 0; i < r->keys.n; i++)
        all |= slice_eq(r->keys.all[i], SLICE("*"));
    return all;
}

/* NULL: everything is allowed. */
static const struct rule *rule_of(const struct session *s)
{
    if (now->n == 0) return NULL;
    MUST(s->door == DOOR_USER && s->user != NULL);
    const struct rule *r = rule_named(slice_str(s->user->name));
    MUST(r != NULL);
    return r;
}

static void must_name(const struct rule *r, const char *name, struct slice key)
{
    MUST(r == NULL || (reference_may(&r->commands, name) && rule_names(r, key)));
}

static void must_everything(const struct rule *r, const char *name)
{
    MUST(r == NULL || (reference_may(&r->commands, name) && rule_has_all(r)));
}

static void must_event(const struct rule *r, const char *name, struct slice of, struct slice type)
{
    struct buf exact = {0};
    buf_put_slice(&exact, of);
    buf_put_char(&exact, ':');
    buf_put_slice(&exact, type);
    must_name(r, name, buf_slice(&exact));
    buf_free(&exact);
}

static void on_took(const struct fake_taken *t)
{
    static const char *const ops[] = {[OP_SERIES] = "series.incrby",
                                      [OP_TIMEBOX] = "box.incrby",
                                      [OP_EVENT] = "event.add",
                                      [OP_UNIQ] = "uniq.add"};
    const struct conn *c = CONTAINER_OF(t->outlet, struct conn, outlet);
    const struct rule *r = rule_of(&c->session);
    if (t->is_op && t->kind == OP_EVENT)
        must_event(r, ops[t->kind], t->key, t->type);
    else if (t->is_op)
        must_name(r, ops[t->kind], t->key);
    else if (t->today)
        must_name(r, "ctr.hit", t->key);
    else if (t->has_token || (r != NULL && !reference_may(&r->commands, "hincrby")))
        must_name(r, "ctr.incrby", t->key);
    else
        must_name(r, "hincrby", t->key);
}

/* ---- which user each session is ---- */

static size_t number_of(const struct session *s)
{
    return (size_t)(CONTAINER_OF(s, struct conn, session) - conns);
}

static void asks_as(const struct session *s, struct slice name, struct slice password)
{
    struct proof *p = &proofs[number_of(s)];
    buf_reset(&p->asked_name);
    buf_reset(&p->asked_password);
    buf_put_slice(&p->asked_name, name);
    buf_put_slice(&p->asked_password, password);
}

bool __real_prover_knows(struct prover *p, const struct user *u, struct slice password);
bool __wrap_prover_knows(struct prover *p, const struct user *u, struct slice password);
bool __real_prover_ask(struct prover *p, const struct users *all, const struct user *u, struct slice name,
                       struct slice password, const char *address, struct proof_ask *a);
bool __wrap_prover_ask(struct prover *p, const struct users *all, const struct user *u, struct slice name,
                       struct slice password, const char *address, struct proof_ask *a);
bool __real_guard_enter(struct session *s, struct user *u);
bool __wrap_guard_enter(struct session *s, struct user *u);

bool __wrap_prover_knows(struct prover *p, const struct user *u, struct slice password)
{
    for (size_t i = 0; i < CLIENTS; i++)
        if (conns[i].taking) asks_as(&conns[i].session, slice_str(u->name), password);
    return __real_prover_knows(p, u, password);
}

bool __wrap_prover_ask(struct prover *p, const struct users *all, const struct user *u, struct slice name,
                       struct slice password, const char *address, struct proof_ask *a)
{
    asks_as(CONTAINER_OF(a, struct session, ask.auth.proof), name, password);
    return __real_prover_ask(p, all, u, name, password, address, a);
}

static uint32_t sessions_of(const struct user *u)
{
    uint32_t n = 0;
    for (int i = 0; i < CLIENTS; i++)
        n += conns[i].session.user == u;
    return n;
}

bool __wrap_guard_enter(struct session *s, struct user *u)
{
    struct proof *p = &proofs[number_of(s)];
    const struct rule *r = rule_named(slice_str(u->name));
    MUST(r != NULL && slice_eq(buf_slice(&p->asked_name), slice_str(u->name)));
    MUST(slice_eq(buf_slice(&p->asked_password), r->password));
    if (!__real_guard_enter(s, u)) return false;
    MUST(u->connections_max == 0 || sessions_of(u) <= u->connections_max);
    buf_reset(&p->password);
    buf_put_slice(&p->password, r->password);
    return true;
}

/* At any time between turns. */
static void doors_stand(void)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct session *s = &conns[i].session;
        if (conns[i].dropped) continue;
        MUST((s->door == DOOR_OPEN) == (now->n == 0) && (s->door == DOOR_USER) == (s->user != NULL));
        if (s->user == NULL) continue;
        MUST(slice_eq(buf_slice(&proofs[i].password), rule_of(s)->password));
        MUST(s->user->connections == sessions_of(s->user));
        MUST(s->user->rate == 0 || s->user->budget_milli >= -1000);
    }
}

/* ---- what takes time is answered in a later round ---- */

static void ask_keep(const struct session *s, void *request, void (*answer)(void *request))
{
    struct ask *a = &asks[number_of(s)];
    MUST(a->request == NULL && conns[number_of(s)].holds == 1);
    *a = (struct ask){request, answer};
}

static void pending_answer(void *request)
{
    struct pending_request *q = request;
    q->outcome = ASK_TRY_AGAIN;
    q->done(q);
}

static void sync_answer(void *request)
{
    struct sync_request *q = request;
    q->outcome = ASK_DONE;
    q->rows = 77;
    q->done(q);
}

static void recover_answer(void *request)
{
    struct recover_request *q = request;
    q->outcome = ASK_REDIS_DOWN;
    q->done(q);
}

static void wait_answer(void *request)
{
    struct wait_request *q = request;
    q->outcome = ASK_DONE;
    q->done(q);
}

static void total_answer(void *request)
{
    static const int64_t none[TOTAL_FIELDS_ASKED_MAX];
    struct total_request *q = request;
    q->outcome = ASK_DONE;
    q->totals = none;
    q->done(q);
}

static const char *const series[] = {"1:s1:views", "60:s2:views", "5:p1", "5::", "1:"};

/* The reply names exactly those of all names that it may; a client that has become a stranger sees none. */
static void names_shown(const struct session *s, struct slice reply)
{
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        struct buf shown = {0};
        struct slice key = slice_str(strchr(series[i], ':') + 1);
        const struct rule *r = now->n == 0 || s->door != DOOR_USER ? NULL : rule_of(s);
        bool may = now->n == 0 || (r != NULL && rule_names(r, key));
        buf_printf(&shown, "\r\n%s\r\n", series[i]);
        MUST((memmem(reply.p, reply.n, shown.p, shown.n) != NULL) == may);
        buf_free(&shown);
    }
}

static void names_answer(struct read_request *q)
{
    struct session *s = CONTAINER_OF(q, struct session, ask.read);
    struct conn *c = &conns[number_of(s)];
    struct query_answer a = {0};
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++)
        query_put_text(&a, slice_str(series[i]));
    q->outcome = ASK_DONE;
    q->answer = &a;
    size_t before = c->outlet.out.n;
    bool quiet = session_is_quiet(s); /* CLIENT REPLY OFF or SKIP */
    q->done(q);
    if (!c->dropped && !quiet) names_shown(s, slice_of(c->outlet.out.p + before, c->outlet.out.n - before));
    query_answer_free(&a);
}

static void query_answer(void *request)
{
    struct read_request *q = request;
    if (q->query.kind == QUERY_NAMES) {
        names_answer(q);
        return;
    }
    q->outcome = ASK_HELD;
    q->done(q);
}

static void port_pending(void *arg, uint32_t lane, struct pending_request *q)
{
    (void)lane;
    (void)arg;
    const struct session *s = CONTAINER_OF(q, struct session, ask.pending);
    must_name(rule_of(s), "ctr.pending", q->key);
    ask_keep(s, q, pending_answer);
}
static void port_sync(void *arg, uint32_t lane, struct sync_request *q)
{
    (void)lane;
    (void)arg;
    const struct session *s = CONTAINER_OF(q, struct session, ask.sync);
    if (q->key.n == 0)
        must_everything(rule_of(s), "ctr.sync");
    else
        must_name(rule_of(s), "ctr.sync", q->key);
    ask_keep(s, q, sync_answer);
}
static void port_recover(void *arg, uint32_t lane, struct recover_request *q)
{
    (void)lane;
    (void)arg;
    const struct session *s = CONTAINER_OF(q, struct session, ask.recover);
    must_everything(rule_of(s), "ctr.recover");
    ask_keep(s, q, recover_answer);
}
static void port_total(void *arg, uint32_t lane, struct total_request *q)
{
    (void)lane;
    (void)arg;
    const struct session *s = CONTAINER_OF(q, struct session, ask.total);
    must_name(rule_of(s), s->ran->name, q->key); /* or HGET, HMGET */
    ask_keep(s, q, total_answer);
}
static void port_wait(void *arg, uint32_t lane, struct wait_request *q)
{
    (void)lane;
    (void)arg;
    const struct session *s = CONTAINER_OF(q, struct session, ask.wait);
    const struct rule *r = rule_of(s);
    MUST(r == NULL || reference_may(&r->commands, q->disk ? "waitaof" : "wait"));
    ask_keep(s, q, wait_answer);
}
static void port_read(void *arg, uint32_t lane, struct read_request *q)
{
    (void)lane;
    static const char *const names[] = {
        [QUERY_SERIES] = "series.get",         [QUERY_NAMES] = "series.list",
        [QUERY_TIMEBOX_RECENT] = "box.recent", [QUERY_TIMEBOX_TOP] = "box.top",
        [QUERY_TIMEBOX_BOTTOM] = "box.bottom", [QUERY_EVENTS] = "event.range",
        [QUERY_WINDOWS] = "event.count",       [QUERY_VISITORS] = "uniq.count"};
    (void)arg;
    const struct session *s = CONTAINER_OF(q, struct session, ask.read);
    const struct rule *r = rule_of(s);
    enum query_kind kind = q->query.kind;
    if (kind == QUERY_EVENTS || kind == QUERY_WINDOWS)
        must_event(r, names[kind], q->query.name, q->query.type);
    else if (kind == QUERY_NAMES)
        MUST(r == NULL || reference_may(&r->commands, names[kind]));
    else
        must_name(r, names[kind], q->query.name);
    ask_keep(s, q, query_answer);
}
static int64_t port_redis_ms(void *arg)
{
    (void)arg;
    return NOW_S * 1000;
}
static void port_pace(void *arg)
{
    (void)arg;
    pacing = true;
}
/* Figures of all stores together: asked by the client whose input is run. */
static void port_info(void *arg, const struct info_asked *asked, struct buf *out)
{
    (void)arg, (void)asked, (void)out;
    for (size_t i = 0; i < CLIENTS; i++) {
        if (!conns[i].taking) continue;
        const struct rule *r = rule_of(&conns[i].session);
        for (size_t k = 0; r != NULL && k < grants_n; k++)
            MUST(grants[k].group != GRANT_ADMIN || reference_may(&r->commands, grants[k].name));
    }
}

/* ---- clients ---- */

static void conn_open(size_t i)
{
    conns[i] = (struct conn){.holds = 0};
    session_open(&conns[i].session, command, &conns[i], &conns[i].outlet, false);
}

static void conn_end(size_t i)
{
    struct conn *c = &conns[i];
    conn_flush(c);
    buf_put_slice(&heard[i], buf_slice(&c->said));
    buf_put_char(&heard[i], '|');
    fake_client_close(c);
}

/* One step of everything that waits; false: nothing moved. */
static bool round_goes(void)
{
    bool moved = work != NULL || fake.n > 0 || fake.parked_n > 0 || pacing;
    if (work != NULL) {
        uv_work_t *w = work;
        work = NULL;
        work_do(w);
        work_done(w, 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        struct ask a = asks[i];
        asks[i] = (struct ask){NULL, NULL};
        if (a.request == NULL) continue;
        a.answer(a.request);
        moved = true;
    }
    fake_answers(&fake, fake.n);
    if (fake.parked_n > 0) fake_room(&fake, ANSWERS_MAX);
    if (pacing) {
        clock_ms += 20;
        paced_rounds++;
        pacing = command_pace(command);
    }
    return moved;
}

static void settle(void)
{
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        bool moved = round_goes();
        for (size_t i = 0; i < CLIENTS; i++) {
            struct conn *c = &conns[i];
            size_t kept = c->kept.n, out = c->outlet.out.n;
            conn_flush(c);
            conn_take(c);
            if (c->finished && c->outlet.waiting == 0) on_drop(c);
            moved |= c->kept.n != kept || out > 0 || c->outlet.out.n > 0;
        }
        doors_stand();
        if (!moved) return;
    }
    UNREACHABLE(); /* it never comes to rest */
}

/* ---- what an input says ---- */

static const char *const fixed[] = {
    "s1:views", "s2:views", "s1:x",       "p1",   "blob",    "submit", "ALL",  "DRYRUN",  "TOKEN", "AT", "ID",
    "FROM",     "TO",       "LIMIT",      "AUTH", "SETNAME", "shop",   "jobs", "default", "1",     "2",  "3",
    "60",       "20140920", "1411200000", "-1",   "0",       "get",    "info", "id",      "docs",  "*"};
#define FIXED (sizeof fixed / sizeof fixed[0])

static struct slice word_taken(struct slice *in)
{
    uint8_t which = take_byte(in);
    if (which < FIXED) return slice_str(fixed[which]);
    if (which < 64) return sets[0].all[which % RULES].password;
    return take_bytes(in, which - 64);
}

static void request_put(struct buf *out, const char *name, struct slice *in)
{
    size_t n = take_byte(in) % 8;
    buf_printf(out, "*%zu\r\n$%zu\r\n%s\r\n", n + 1, strlen(name), name);
    for (size_t i = 0; i < n; i++) {
        struct slice word = word_taken(in);
        buf_printf(out, "$%zu\r\n", word.n);
        buf_put_slice(out, word);
        BUF_LIT(out, "\r\n");
    }
}

static struct rule rule_taken(const char *name, struct slice *in)
{
    struct rule r = {.name = name, .password = take_line(in)};
    r.keys = words_of(take_line(in));
    struct slice words = take_line(in);
    if (words.n > 0) r.commands = words_of(words);
    r.connections = take_byte(in) % 4;
    uint8_t limits_of = take_byte(in);
    r.rate = limits_of % 4 * 100;
    r.multi = limits_of / 4 % 4 * 2;
    char *text = heap_strndup(r.password.p, r.password.n);
    hash_make(text, r.hash, sizeof r.hash);
    heap_free(text);
    return r;
}

static bool add_rule(struct users *u, const struct rule *r)
{
    const struct user_spec spec = {.name = slice_str(r->name),
                                   .hash = r->hash,
                                   .keys = r->keys.all,
                                   .keys_n = r->keys.n,
                                   .commands = r->commands.all,
                                   .commands_n = r->commands.n,
                                   .rate = r->rate,
                                   .multi = r->multi,
                                   .connections = r->connections};
    enum user_field which;
    struct error e;
    return users_add(u, &spec, &which, &e) == ERR_NONE;
}

/* NULL: a word is no command. */
static struct users *users_made(const struct rules *of)
{
    struct users *u = heap_alloc(sizeof *u);
    bool good = true;
    users_init(u, &users_limits_default);
    for (size_t i = 0; i < of->n; i++)
        good = add_rule(u, &of->all[i]) && good;
    users_sort(u);
    if (good) return u;
    users_close(u);
    heap_free(u);
    return NULL;
}

static void reload(size_t which)
{
    struct users *fresh = users_made(&sets[which]);
    MUST(fresh != NULL);
    now = &sets[which];
    command_users(command, fresh);
    users_close(users);
    heap_free(users);
    users = fresh;
    doors_stand();
}

/* shop and jobs; shop with the rights of jobs, and a jobs with another password; no users. */
static void sets_take(struct slice *in)
{
    sets[0] = (struct rules){.n = 2};
    sets[0].all[0] = rule_taken("shop", in);
    sets[0].all[1] = rule_taken("jobs", in);
    sets[1] = sets[0];
    sets[1].all[0].keys = sets[0].all[1].keys;
    sets[1].all[0].commands = sets[0].all[1].commands;
    sets[1].all[1].password = sets[0].all[0].password;
    memcpy(sets[1].all[1].hash, sets[0].all[0].hash, PASSWORD_HASH_BYTES);
    sets[2] = (struct rules){.n = 0};
}

static bool storable(struct slice password)
{
    return password.n > 0 && password.n <= PASSWORD_BYTES_MAX && memchr(password.p, 0, password.n) == NULL;
}

/* The input collected so far goes to its client, in pieces of `step` bytes, 0: whole. */
static void chunk_send(size_t i, struct buf *chunk, size_t step)
{
    struct conn *c = &conns[i];
    for (size_t at = 0, n; at < chunk->n && !c->dropped && !c->finished; at += n) {
        n = step == 0 || chunk->n - at < step ? chunk->n - at : step;
        buf_put(&c->kept, chunk->p + at, n);
        conn_take(c);
    }
    buf_reset(chunk);
    doors_stand();
}

static void act(uint8_t what, struct slice *in, size_t i)
{
    switch (what % 6) {
    case 0:
        settle();
        return;
    case 1:
        reload(take_byte(in) % SETS);
        return;
    case 2:
        clock_ms += take_byte(in) * UINT64_C(100);
        command_tick(command, clock_ms);
        return;
    case 3:
        on_drop(&conns[i]);
        return;
    case 4:
        fake.room = take_byte(in);
        return;
    default:
        settle();
        if (!conns[i].dropped) return;
        conn_end(i);
        conn_open(i);
    }
}

static void steps_run(struct slice in, size_t step)
{
    struct buf chunk = {0};
    size_t i = 0, specs_n = 0;
    while (specs[specs_n].name != NULL)
        specs_n++;
    while (in.n > 0) {
        uint8_t byte = take_byte(&in);
        if (byte < 200) {
            request_put(&chunk, specs[byte % specs_n].name, &in);
        } else if (byte < 216) {
            buf_put_slice(&chunk, take_text(&in));
        } else {
            chunk_send(i, &chunk, step);
            if (byte < 228)
                i = byte % CLIENTS;
            else
                act(byte, &in, i);
        }
    }
    chunk_send(i, &chunk, step);
    buf_free(&chunk);
}

static void open_all(void)
{
    clock_ms = 1000000;
    paced_rounds = 0;
    stats = (struct stats){0};
    now = &sets[0];
    fake.room = ANSWERS_MAX;
    fake.took = on_took;
    prover = prover_create(NULL, &prover_limits_default);
    static struct coalesce *const lane = &fake;
    const struct command_config config = {.lanes = &lane,
                                          .lanes_n = 1,
                                          .client = fake_client_ports,
                                          .counters = &counters,
                                          .zones = zones_utc(),
                                          .ports = {.pending = port_pending,
                                                    .sync = port_sync,
                                                    .recover = port_recover,
                                                    .info = port_info,
                                                    .total = port_total,
                                                    .read = port_read,
                                                    .wait = port_wait,
                                                    .redis_ms = port_redis_ms,
                                                    .pace = port_pace},
                                          .limits = request_limits_default,
                                          .clients_max = 100,
                                          .multi_max = 10,
                                          .multi_bytes_max = 1 << 20,
                                          .shares_max = {64 << 20, 64 << 20},
                                          .half_ms = 60000,
                                          .busy_ms = 5000,
                                          .users = users,
                                          .prover = prover,
                                          .stranger_ms = STRANGER_MS};
    command = command_again(&config);
    for (size_t i = 0; i < CLIENTS; i++)
        conn_open(i);
}

static void close_all(void)
{
    fake.room = ANSWERS_MAX;
    settle();
    for (size_t i = 0; i < CLIENTS; i++) {
        conn_end(i);
        buf_free(&proofs[i].asked_name);
        buf_free(&proofs[i].asked_password);
        buf_free(&proofs[i].password);
    }
    prover_stop(prover);
    MUST(prover_over(prover) && fake.n == 0 && fake.parked_n == 0);
    prover_destroy(&prover);
    command_rest(command);
    users_close(users);
    heap_free(users);
}

/* False: such users cannot be configured. */
static bool run(struct slice in, size_t step)
{
    sets_take(&in);
    if (!storable(sets[0].all[0].password) || !storable(sets[0].all[1].password)) return false;
    users = users_made(&sets[0]);
    if (users == NULL) return false;
    open_all();
    steps_run(in, step);
    close_all();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    struct slice in = slice_of(text, size);
    struct buf whole[CLIENTS] = {{0}};
    if (run(in, 0)) {
        uint64_t paced = paced_rounds;
        memcpy(whole, heard, sizeof heard);
        memset(heard, 0, sizeof heard);
        bool ran = run(in, 5);
        MUST(ran);
        for (size_t i = 0; i < CLIENTS; i++)
            MUST(paced > 0 || paced_rounds > 0 || slice_eq(buf_slice(&heard[i]), buf_slice(&whole[i])));
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        buf_free(&whole[i]);
        buf_free(&heard[i]);
    }
    heap_free(text);
    return 0;
}
