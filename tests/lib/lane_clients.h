/* lib/lane_clients.h - clients over several lanes (lane_redis.h): real sessions. draw() says what clients send, in which
 * pieces, when they leave, and what lanes do. What must hold:
 *   - each client's replies are in the order of its requests, one each, and what they should be;
 *   - a hit told as counted is in Redis once; one told as refused is not; "outcome unknown": once or not;
 *   - a transaction is of one lane, or refused; a request to all lanes gets one reply, of all their answers;
 *   - a client of one lane is answered when that lane is, whatever holds the others;
 *   - at the end no reply is owed, and a client that left has left nothing behind. */
#ifndef LIB_LANE_CLIENTS_H
#define LIB_LANE_CLIENTS_H

#include "base/heap.h"
#include "command/inside.h"
#include "lib/fake_client.h"
#include "lib/lane_redis.h"
#include "lib/zones.h"

#include <stdlib.h>

#define CLIENTS 3 /* the last sends to lane 0 alone */
#define STORES 12
#define NAMES_MOST (2 * LANES_MOST)

enum wanted { WANT_TEXT, WANT_ERROR, WANT_HIT, WANT_EXEC };

struct expect {
    enum wanted what;
    struct buf text; /* the reply; WANT_ERROR: how its line begins. Empty: lanes have not answered yet */
    uint32_t hit;    /* WANT_HIT; WANT_EXEC: how many replies follow, unless it is refused as a whole */
};

/* A request that goes to one lane or several, beside the hits. */
enum ask_kind { ASKS_SYNC_ALL, ASKS_SYNC_KEY, ASKS_WAIT, ASKS_NAMES };

struct asked {
    uint32_t parts, left, refused, first; /* first: the lowest lane that refused */
    int64_t sum, least;
    uint32_t lanes; /* a bit each */
    char names[NAMES_MOST][8];
    size_t names_n;
};

struct client {
    struct conn conn;
    struct buf outbox;      /* on its way to tallyd */
    struct expect *expects; /* a queue */
    size_t first, n, cap;
    struct asked asked;
    uint32_t sent_lanes, counted_lanes; /* a bit each: where it sent hits; where one was told as counted */
    unsigned echoes;
    bool open, quits; /* quits: it sends nothing more */
};

struct part { /* asked of a lane, and not answered */
    enum ask_kind kind;
    uint32_t lane;
    void *request;
    struct client *client;
};

static struct coalesce *coalesces[LANES_MOST];
static struct command *command;
static struct client clients[CLIENTS];
static struct part parts[CLIENTS * LANES_MOST];
static uint32_t parts_n;

/* ---- what is expected ---- */

static struct expect *expect_add(struct client *c, enum wanted what)
{
    if (c->first + c->n == c->cap) {
        c->cap = c->cap == 0 ? 64 : 2 * c->cap;
        c->expects = heap_realloc(c->expects, c->cap * sizeof *c->expects);
    }
    struct expect *e = &c->expects[c->first + c->n++];
    *e = (struct expect){.what = what};
    return e;
}

static void expect_line(struct client *c, const char *line)
{
    buf_printf(&expect_add(c, WANT_TEXT)->text, "%s\r\n", line);
}

static void expect_error(struct client *c, const char *begins)
{
    buf_printf(&expect_add(c, WANT_ERROR)->text, "%s", begins);
}

static struct expect *expect_take(struct client *c)
{
    HOLDS(c->n > 0);
    c->n--;
    return &c->expects[c->first++];
}

static void expects_free(struct client *c)
{
    while (c->n > 0)
        buf_free(&expect_take(c)->text);
    c->first = 0;
}

/* ---- what several lanes are asked ---- */

static struct client *client_taking(void)
{
    for (struct client *c = clients; c < clients + CLIENTS; c++)
        if (c->conn.taking) return c;
    UNREACHABLE();
}

static void part_add(enum ask_kind kind, uint32_t lane, void *request)
{
    struct client *c = client_taking();
    struct asked *a = &c->asked;
    HOLDS(c->conn.outlet.waiting == 0 && parts_n < CLIENTS * LANES_MOST && lane < lanes_n);
    if (a->left == 0) *a = (struct asked){.first = UINT32_MAX, .least = INT64_MAX};
    HOLDS((a->lanes & 1U << lane) == 0);
    a->lanes |= 1U << lane;
    a->parts++;
    a->left++;
    parts[parts_n++] = (struct part){kind, lane, request, c};
}

static void port_sync(void *arg, uint32_t lane, struct sync_request *r)
{
    (void)arg;
    HOLDS(r->key.n == 0 || lane_of_key(&counters, r->key, lanes_n) == lane);
    part_add(r->key.n == 0 ? ASKS_SYNC_ALL : ASKS_SYNC_KEY, lane, r);
}
static void port_wait(void *arg, uint32_t lane, struct wait_request *r)
{
    (void)arg;
    part_add(ASKS_WAIT, lane, r);
}
static void port_read(void *arg, uint32_t lane, struct read_request *r)
{
    (void)arg;
    part_add(ASKS_NAMES, lane, r);
}

/* The lanes that have hits of the client, or all. */
static bool waits_at(const struct client *c)
{
    uint32_t lanes_asked = c->asked.lanes, all = (1U << lanes_n) - 1;
    if (lanes_asked == all) return true;
    return (lanes_asked & ~c->sent_lanes) == 0 && (c->counted_lanes & ~lanes_asked) == 0;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void names_expect(struct asked *a, struct buf *text)
{
    qsort(a->names, a->names_n, sizeof a->names[0], name_order);
    buf_printf(text, "*%zu\r\n", a->names_n);
    for (size_t i = 0; i < a->names_n; i++)
        buf_printf(text, "$%zu\r\n%s\r\n", strlen(a->names[i]), a->names[i]);
}

/* All have answered. The error is that of the lowest lane; of a CTR.SYNC ALL it also says what the others did. */
static void asked_expect(struct asked *a, enum ask_kind kind, struct buf *text)
{
    if (a->refused > 0) {
        buf_printf(text, "-ERR lane %u refuses", a->first);
        if (kind == ASKS_SYNC_ALL) buf_printf(text, " (lane %u", a->first);
        if (kind == ASKS_SYNC_ALL && a->refused > 1) buf_printf(text, " and %u more", a->refused - 1);
        if (kind == ASKS_SYNC_ALL) buf_printf(text, " of %u", lanes_n);
        if (kind == ASKS_SYNC_ALL && a->refused < lanes_n)
            buf_printf(text, "; the other lanes: %lld rows merged", (long long)a->sum);
        buf_printf(text, kind == ASKS_SYNC_ALL ? ")\r\n" : "\r\n");
    } else if (kind == ASKS_NAMES) {
        names_expect(a, text);
    } else {
        buf_printf(text, ":%lld\r\n", (long long)(kind == ASKS_WAIT ? a->least : a->sum));
    }
}

static void asked_end(struct client *c, enum ask_kind kind)
{
    bool each = kind == ASKS_SYNC_ALL || kind == ASKS_NAMES;
    HOLDS(c->asked.parts == (each ? lanes_n : kind == ASKS_SYNC_KEY ? 1 : c->asked.parts));
    HOLDS(kind != ASKS_WAIT || waits_at(c));
    for (size_t i = c->first; i < c->first + c->n; i++)
        if (c->expects[i].what == WANT_TEXT && c->expects[i].text.n == 0) {
            asked_expect(&c->asked, kind, &c->expects[i].text);
            return;
        }
    UNREACHABLE();
}

static void names_answer(struct read_request *r, const char (*names)[8], uint64_t n)
{
    struct query_answer answer = {0};
    for (uint64_t i = 0; i < n; i++)
        query_put_text(&answer, slice_str(names[i]));
    r->answer = &answer;
    r->done(r);
    query_answer_free(&answer);
}

static void part_done(const struct part *p, enum ask_outcome outcome, int64_t value, uint64_t names_n)
{
    char why[32];
    snprintf(why, sizeof why, "ERR lane %u refuses", p->lane);
    if (p->kind == ASKS_WAIT) {
        struct wait_request *r = p->request;
        r->outcome = outcome, r->text = why, r->replicas = value;
        r->done(r);
    } else if (p->kind == ASKS_NAMES) {
        struct read_request *r = p->request;
        char names[2][8];
        for (uint64_t i = 0; i < names_n; i++)
            snprintf(names[i], sizeof names[i], "%c%u", (char)('z' - value % 20 - (int)i), p->lane);
        r->outcome = outcome, r->text = why;
        names_answer(r, (const char(*)[8])names, names_n);
    } else {
        struct sync_request *r = p->request;
        r->outcome = outcome, r->text = why, r->rows = value;
        r->done(r);
    }
}

/* The reply comes with the last of them. */
static void part_answers(uint32_t at)
{
    struct part p = parts[at];
    struct asked *a = &p.client->asked;
    bool refuses = draw(4) == 0;
    int64_t value = (int64_t)draw(100);
    uint64_t names_n = p.kind == ASKS_NAMES ? draw(3) : 0;
    parts[at] = parts[--parts_n];
    if (refuses) {
        a->refused++;
        if (p.lane < a->first) a->first = p.lane;
    } else {
        a->sum += value;
        if (value < a->least) a->least = value;
        for (uint64_t i = 0; i < names_n; i++)
            snprintf(a->names[a->names_n++], sizeof a->names[0], "%c%u", (char)('z' - value % 20 - (int)i),
                     p.lane);
    }
    if (--a->left == 0 && p.client->open) asked_end(p.client, p.kind);
    part_done(&p, refuses ? ASK_FAILED : ASK_DONE, value, names_n);
}

/* ---- what clients send ---- */

static uint32_t lane_of_number(unsigned store)
{
    char text[8];
    int n = snprintf(text, sizeof text, "%u", store);
    return lane_of_store(slice_of(text, (size_t)n), lanes_n);
}

static unsigned store_draw(const struct client *c)
{
    unsigned store = (unsigned)draw(STORES);
    while (c == &clients[CLIENTS - 1] && lane_of_number(store) != 0)
        store++;
    return store;
}

static void word_put(struct buf *out, struct slice word)
{
    buf_printf(out, "$%zu\r\n", word.n);
    buf_put_slice(out, word);
    BUF_LIT(out, "\r\n");
}

static void event_put(struct buf *out, unsigned store, uint32_t number)
{
    char name[24], id[EVENT_ID_BYTES];
    int n = snprintf(name, sizeof name, "s%u:log", store);
    buf_printf(out, "*5\r\n$9\r\nEVENT.ADD\r\n");
    word_put(out, slice_of(name, (size_t)n));
    buf_printf(out, "$1\r\nt\r\n$2\r\nID\r\n");
    word_put(out, event_id(number, id));
}

static void increment_put(struct buf *out, unsigned store, uint32_t number)
{
    char key[24], text[12];
    int key_n = snprintf(key, sizeof key, "s%u:views", store);
    int n = snprintf(text, sizeof text, "%u", number);
    buf_printf(out, "*4\r\n$7\r\nHINCRBY\r\n");
    word_put(out, slice_of(key, (size_t)key_n));
    word_put(out, slice_of(text, (size_t)n));
    word_put(out, slice_of(text, (size_t)n));
}

/* answered: its reply is the next that is expected. */
static void hit_put(struct client *c, unsigned store, bool is_event, bool answered)
{
    if (hits_n == HITS_MAX) return;
    uint32_t lane = lane_of_number(store);
    hits[hits_n++] = (struct hit){.dropped = !answered, .is_event = is_event, .lane = lane};
    c->sent_lanes |= 1U << lane;
    if (is_event)
        event_put(&c->outbox, store, hits_n);
    else
        increment_put(&c->outbox, store, hits_n);
    if (answered) expect_add(c, WANT_HIT)->hit = hits_n - 1;
}

/* n hits, a PING after each: in how many lanes would they be? */
static bool multi_queue(struct client *c, unsigned store, unsigned n, uint64_t crosses_at)
{
    uint32_t lane = lane_of_number(store);
    bool crossed = false;
    for (unsigned i = 0; i < n; i++) {
        unsigned of = i == crosses_at ? store_draw(c) : store;
        bool crosses = i > 0 && lane_of_number(of) != lane;
        if (i == 0) lane = lane_of_number(of);
        hit_put(c, of, draw(4) == 0, false);
        buf_printf(&c->outbox, "PING\r\n");
        expect_line(c, crosses ? "-CROSSSLOT Keys in request don't hash to the same slot" : "+QUEUED");
        expect_line(c, "+QUEUED");
        crossed |= crosses;
    }
    return crossed;
}

static void exec_expect(struct client *c, uint32_t first, unsigned n)
{
    expect_add(c, WANT_EXEC)->hit = 2 * n;
    for (unsigned i = 0; i < n; i++) {
        hits[first + i].dropped = false;
        expect_add(c, WANT_HIT)->hit = first + i;
        expect_line(c, "+PONG");
    }
}

/* Some hits of a store, or of two. */
static void multi_put(struct client *c)
{
    unsigned store = store_draw(c), n = (unsigned)draw(4);
    uint32_t first = hits_n;
    if (hits_n + n > HITS_MAX) return;
    buf_printf(&c->outbox, "MULTI\r\n");
    expect_line(c, "+OK");
    bool crossed = multi_queue(c, store, n, draw(8));
    bool discards = draw(8) == 0;
    buf_printf(&c->outbox, discards ? "DISCARD\r\n" : "EXEC\r\n");
    if (discards) expect_line(c, "+OK");
    if (!discards && crossed) expect_line(c, "-EXECABORT Transaction discarded because of previous errors.");
    for (unsigned i = 0; i < n && (discards || crossed); i++)
        hits[first + i].told = TOLD_REFUSED;
    if (!discards && !crossed) exec_expect(c, first, n);
}

/* Nothing of this is answered but the end. */
static void silent_put(struct client *c)
{
    bool off = draw(2) == 0;
    buf_printf(&c->outbox, off ? "CLIENT REPLY OFF\r\nPING\r\n" : "CLIENT REPLY SKIP\r\n");
    for (uint64_t n = off ? draw(4) : 1; n > 0; n--)
        hit_put(c, store_draw(c), draw(4) == 0, false);
    if (!off) return;
    buf_printf(&c->outbox, "CLIENT REPLY ON\r\n");
    expect_line(c, "+OK");
}

/* Many hits of two stores, so that a lane's answers pile up behind another's. */
static void burst_put(struct client *c)
{
    unsigned stores[2] = {store_draw(c), store_draw(c)};
    for (uint64_t i = 0, n = draw(256), run = 1 + draw(9); i < n; i++)
        hit_put(c, stores[i / run % 2], i % 3 == 0, true);
}

/* A text that says which echo it is; some are longer than what may wait for a lane. */
static void echo_put(struct client *c)
{
    struct buf *want = &expect_add(c, WANT_TEXT)->text;
    uint64_t n = 8 + draw(4) * 7000;
    buf_printf(&c->outbox, "*2\r\n$4\r\nECHO\r\n");
    buf_printf(want, "$%llu\r\n%07u", (unsigned long long)n, ++c->echoes);
    memset(buf_reserve(want, n), 'x', n);
    want->n += n - 7;
    BUF_LIT(want, "\r\n");
    buf_put_slice(&c->outbox, buf_slice(want));
}

static void ask_put(struct client *c)
{
    static const char *const all[] = {"CTR.SYNC ALL\r\n", "WAIT 0 0\r\n", "SERIES.LIST\r\n"};
    uint64_t which = draw(4);
    if (which < 3)
        buf_printf(&c->outbox, "%s", all[which]);
    else
        buf_printf(&c->outbox, "CTR.SYNC s%u:views\r\n", store_draw(c));
    expect_add(c, WANT_TEXT);
}

static void wrong_put(struct client *c)
{
    static const struct {
        const char *request, *error;
    } wrong[] = {
        {"NOSUCH s1:views\r\n", "-ERR unknown command"},
        {"HINCRBY s1:views 1\r\n", "-ERR wrong number of arguments"},
        {"HINCRBY nokey 1 1\r\n", "-ERR no counter is configured for key"},
        {"HINCRBY s1:views x 1\r\n", "-ERR field "},
        {"EXEC\r\n", "-ERR EXEC without MULTI"},
    };
    uint64_t which = draw(sizeof wrong / sizeof wrong[0]);
    buf_printf(&c->outbox, "%s", wrong[which].request);
    expect_error(c, wrong[which].error);
}

static void end_put(struct client *c)
{
    bool quits = draw(2) == 0;
    buf_printf(&c->outbox, quits ? "QUIT\r\n" : "*1\r\n!\r\n");
    expect_error(c, quits ? "+OK" : "-ERR Protocol error");
    c->quits = true;
}

static void request_put(struct client *c)
{
    uint64_t what = draw(32);
    if (what == 0) {
        buf_printf(&c->outbox, "PING\r\n");
        expect_line(c, "+PONG");
    }
    if (what == 1) silent_put(c);
    if (what == 2 || what == 3) multi_put(c);
    if (what == 4) burst_put(c);
    if (what == 5) echo_put(c);
    if (what == 6) ask_put(c);
    if (what == 7) wrong_put(c);
    if (what == 8 && draw(8) == 0) end_put(c);
    if (what >= 9) hit_put(c, store_draw(c), what < 16, true);
}

/* ---- what clients are told ---- */

static void hit_told(struct client *c, uint32_t number, struct slice line)
{
    struct hit *h = &hits[number];
    int64_t value;
    HOLDS(h->told == TOLD_NOTHING);
    if (line.p[0] == '-') {
        bool unknown = slice_starts(line, SLICE("-ERR outcome unknown"));
        bool counted = h->is_event && slice_starts(line, SLICE("-ERR counted, but the answer was lost"));
        h->told = unknown ? TOLD_UNKNOWN : counted ? TOLD_COUNTED : TOLD_REFUSED;
        return;
    }
    HOLDS(line.p[0] == (h->is_event ? '$' : ':') && num_parse(slice_of(line.p + 1, line.n - 1), &value));
    HOLDS(h->is_event || value == (int64_t)number + 1);
    h->told = TOLD_COUNTED;
    c->counted_lanes |= 1U << h->lane;
}

/* The id, after the line of its length; returns the bytes. */
static size_t event_told(uint32_t number, struct slice line, struct slice rest)
{
    char id[EVENT_ID_BYTES];
    if (line.p[0] != '$') return 0;
    struct slice want = event_id(number + 1, id);
    HOLDS(slice_starts(rest, want) &&
          slice_starts(slice_of(rest.p + want.n, rest.n - want.n), SLICE("\r\n")));
    return want.n + 2;
}

static void exec_told(struct client *c, uint32_t replies, struct slice line)
{
    char head[16];
    snprintf(head, sizeof head, "*%u", replies);
    if (slice_eq(line, slice_str(head))) return;
    HOLDS(slice_starts(line, SLICE("-EXECABORT ")));
    for (; replies > 0; replies--) {
        struct expect *e = expect_take(c);
        if (e->what == WANT_HIT) hit_told(c, e->hit, line);
        buf_free(&e->text);
    }
}

/* Of one expected reply; returns its bytes. What is said is whole replies. */
static size_t reply_check(struct client *c, const struct expect *e, struct slice said)
{
    const char *end = memchr(said.p, '\n', said.n);
    HOLDS(end != NULL && end > said.p && end[-1] == '\r');
    struct slice line = slice_of(said.p, (size_t)(end - said.p) - 1);
    size_t used = line.n + 2;
    if (e->what == WANT_HIT) {
        hit_told(c, e->hit, line);
        return used + event_told(e->hit, line, slice_of(said.p + used, said.n - used));
    }
    if (e->what == WANT_EXEC) {
        exec_told(c, e->hit, line);
        return used;
    }
    HOLDS(e->text.n > 0 && slice_starts(said, buf_slice(&e->text)));
    return e->what == WANT_ERROR ? used : e->text.n;
}

static void client_reads(struct client *c)
{
    struct slice said = buf_slice(&c->conn.said);
    while (said.n > 0) {
        struct expect e = *expect_take(c);
        size_t used = reply_check(c, &e, said);
        said = slice_of(said.p + used, said.n - used);
        buf_free(&e.text);
    }
    buf_reset(&c->conn.said);
    if (c->n == 0) c->first = 0;
}

/* ---- they come and go ---- */

static void client_delivers(struct client *c, size_t n)
{
    if (n > c->outbox.n) n = c->outbox.n;
    buf_put(&c->conn.kept, c->outbox.p, n);
    buf_drop(&c->outbox, n);
    conn_take(&c->conn);
    conn_flush(&c->conn);
}

/* Most of the time all that it sends arrives at once. */
static void client_sends(struct client *c)
{
    if (!c->open || c->conn.finished || c->outbox.n + c->conn.kept.n > 4096) return;
    for (uint64_t n = 1 + draw(30); n > 0 && !c->quits; n--)
        request_put(c);
    client_delivers(c, draw(4) == 0 ? draw(256) : SIZE_MAX);
}

static void client_opens(struct client *c)
{
    memset(&c->conn, 0, sizeof c->conn);
    list_init(&c->conn.outlet.touched);
    list_init(&c->conn.outlet.parked);
    session_open(&c->conn.session, command, &c->conn, &c->conn.outlet, false);
    c->open = true;
    c->quits = false;
    c->sent_lanes = c->counted_lanes = 0;
}

/* Its memory stays while it is owed an answer. */
static void client_leaves(struct client *c)
{
    if (!c->open) return;
    client_reads(c);
    for (size_t i = 0; i < c->n; i++)
        if (c->expects[c->first + i].what == WANT_HIT) hits[c->expects[c->first + i].hit].dropped = true;
    expects_free(c);
    buf_reset(&c->outbox);
    c->open = false;
    on_drop(&c->conn);
}

static bool client_is_gone(const struct client *c)
{
    return !c->open && c->conn.outlet.waiting == 0 && c->conn.holds == 0;
}

static void client_returns(struct client *c)
{
    if (!client_is_gone(c)) return;
    HOLDS(c->conn.session.order == NULL);
    fake_client_close(&c->conn);
    client_opens(c);
}

/* ---- the loop ---- */

static struct conn *conn_at(struct outlet *o)
{
    return CONTAINER_OF(command_outlet(command, o), struct conn, outlet);
}
static void port_answered(void *arg, struct outlet *o)
{
    struct conn *c = conn_at(o);
    (void)arg;
    session_answered(&c->session);
}
static void port_room(void *arg, struct outlet *o)
{
    (void)arg;
    session_room(&conn_at(o)->session);
}

static void all_take(void)
{
    for (struct client *c = clients; c < clients + CLIENTS; c++) {
        if (!c->open) continue;
        conn_take(&c->conn);
        conn_flush(&c->conn);
        client_reads(c);
    }
}

static void world_turns(void)
{
    for (uint32_t i = 0; i < lanes_n; i++)
        coalesce_turn(lanes[i].coalesce);
    command_turn(command);
}

static void parts_answer_of(const struct client *c)
{
    for (uint32_t i = parts_n; i-- > 0;)
        if (parts[i].client == c) part_answers(i);
}

/* Lane 0 comes to rest, whatever holds the others: a client that sends to it alone is answered then. */
static void first_lane_rests(void)
{
    struct lane *l = &lanes[0];
    struct client *c = &clients[CLIENTS - 1];
    if (l->held || l->waits || !l->up || !c->open) return;
    client_delivers(c, SIZE_MAX);
    for (unsigned i = 0; i < 1000 && (c->n > 0 || c->conn.kept.n > 0); i++) {
        lane_goes_on(l);
        parts_answer_of(c);
        coalesce_turn(l->coalesce);
        all_take();
        if (i % 10 == 9) now_ms += 1000;
    }
    HOLDS(c->n == 0 && c->conn.kept.n == 0);
}

static void world_ticks(void)
{
    now_ms += draw(8000);
    for (uint32_t i = 0; i < lanes_n; i++)
        coalesce_tick(lanes[i].coalesce);
}

static void world_step(void)
{
    uint64_t what = draw(64);
    now_ms++;
    if (what < 32) lane_step(&lanes[draw(lanes_n)]);
    if (what >= 36 && what < 46) client_sends(&clients[draw(CLIENTS)]);
    if (what >= 46 && what < 56) world_turns();
    if (what == 56) client_leaves(&clients[draw(CLIENTS)]);
    if (what == 57 || what == 58) client_returns(&clients[draw(CLIENTS)]);
    if (what == 59) first_lane_rests();
    if (what == 60 || what == 61) world_ticks();
    if (what >= 62) client_delivers(&clients[draw(CLIENTS)], 1 + draw(64));
    if (what >= 32 && what < 36 && parts_n > 0) part_answers((uint32_t)draw(parts_n));
    all_take();
}

static bool world_rests(void)
{
    for (const struct client *c = clients; c < clients + CLIENTS; c++)
        if (!client_is_gone(c) && (!c->open || c->conn.outlet.waiting > 0 || c->n > 0 || c->conn.kept.n > 0))
            return false;
    for (uint32_t i = 0; i < lanes_n; i++)
        if (!coalesce_idle(lanes[i].coalesce)) return false;
    return parts_n == 0;
}

static void world_settles(void)
{
    for (unsigned i = 0; i < 2000 && (i == 0 || !world_rests()); i++) {
        for (struct lane *l = lanes; l < lanes + lanes_n; l++) {
            l->held = false;
            lane_up(l);
            lane_waits(l, false);
            lane_goes_on(l);
        }
        for (struct client *c = clients; c < clients + CLIENTS; c++) {
            if (c->open) client_delivers(c, SIZE_MAX);
            parts_answer_of(c);
        }
        world_turns();
        now_ms += 100;
        all_take();
    }
    HOLDS(world_rests());
}

/* ---- a run ---- */

static uint64_t told[TOLD_UNKNOWN + 1]; /* of all runs */

static void hits_check(void)
{
    for (uint32_t i = 0; i < hits_n; i++) {
        const struct hit *h = &hits[i];
        told[h->told]++;
        HOLDS(h->runs <= 1);
        HOLDS(h->told != TOLD_COUNTED || h->runs == 1);
        HOLDS(h->told != TOLD_REFUSED || h->runs == 0);
        HOLDS(h->told != TOLD_NOTHING || h->dropped);
    }
}

/* create: command_create(), or what does the same. */
static void world_open(struct command *(*create)(const struct command_config *))
{
    hits_n = parts_n = 0;
    now_ms = 1000;
    for (uint32_t i = 0; i < lanes_n; i++) {
        lane_open(&lanes[i], port_answered, port_room);
        coalesces[i] = lanes[i].coalesce;
    }
    const struct command_config config = {
        .lanes = coalesces,
        .lanes_n = lanes_n,
        .client = fake_client_ports,
        .counters = &counters,
        .zones = zones_utc(),
        .ports = {.redis_ms = port_redis_ms, .sync = port_sync, .wait = port_wait, .read = port_read},
        .limits = request_limits_default,
        .clients_max = 100,
        .multi_max = 100,
        .multi_bytes_max = 1 << 20,
        .shares_max = {64 << 20, 64 << 20},
        .half_ms = 60000,
        .busy_ms = 5000};
    command = create(&config);
    for (uint32_t i = 0; i < lanes_n; i++)
        lane_up(&lanes[i]);
    for (size_t i = 0; i < CLIENTS; i++)
        client_opens(&clients[i]);
}

static void client_ends(struct client *c)
{
    client_leaves(c);
    HOLDS(client_is_gone(c) && c->conn.session.order == NULL);
    fake_client_close(&c->conn);
    buf_free(&c->outbox);
    heap_free(c->expects);
    *c = (struct client){.open = false};
}

static void world_runs(struct command *(*create)(const struct command_config *), bool (*goes_on)(void))
{
    world_open(create);
    while (goes_on())
        world_step();
    world_settles();
    hits_check();
    for (size_t i = 0; i < CLIENTS; i++)
        client_ends(&clients[i]);
    for (uint32_t i = 0; i < lanes_n; i++)
        coalesce_destroy(&lanes[i].coalesce);
}

#endif
