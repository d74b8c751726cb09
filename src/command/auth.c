/* command/auth.c - AUTH, HELLO, ACL WHOAMI. A remembered password is accepted at once; the others are verified beside
 * the loop (users/prover.h) while the client waits. Without a `users:` section both answer as a Redis 7.0 without a
 * password does: the user is `default`, with any password. */
#include "base/slice.h"
#include "command/inside.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define WRONGPASS "WRONGPASS invalid username-password pair or user is disabled."
#define HELLO_NOAUTH                                                                                         \
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> "    \
    "<pass> option can be used to authenticate the client and select the RESP protocol version at the same " \
    "time"

struct auth_words {
    struct slice name, password;
    int resp;        /* of a HELLO; 0: an AUTH */
    bool has_auth;   /* a HELLO's AUTH was read */
    bool has_client; /* the SETNAME after a HELLO's AUTH: it is set once that is proved */
    struct slice client;
    struct slice why; /* a reply: what is wrong with the words after a HELLO's AUTH; n = 0: nothing */
};

static void words_wipe(struct session *s)
{
    if (s->key.n > 0) explicit_bzero(s->key.p, s->key.n);
    buf_free(&s->key);
}

static void auth_refuse(enum proof_outcome outcome, struct buf *out)
{
    switch (outcome) {
    case PROOF_WRONG:
        reply_error(out, WRONGPASS);
        return;
    case PROOF_TOO_MANY:
        reply_error(
            out, "ERR too many wrong passwords from this address; wait some seconds (limits.failed_logins)");
        return;
    case PROOF_BUSY:
        reply_error(out, "ERR too many clients authenticate at once; try again");
        return;
    case PROOF_RIGHT:
        break;
    }
    UNREACHABLE();
}

static void put_pair(struct buf *out, const char *name, const char *value)
{
    reply_bulk_str(out, name);
    reply_bulk_str(out, value);
}

static void hello_reply(struct session *s, int resp, struct buf *out)
{
    s->resp = resp;
    reply_map(out, s->resp, 7);
    put_pair(out, "server", "tallyd");
    put_pair(out, "version", TALLYD_VERSION);
    reply_bulk_str(out, "proto");
    reply_int(out, s->resp);
    reply_bulk_str(out, "id");
    reply_int(out, (int64_t)s->id);
    put_pair(out, "mode", "standalone");
    put_pair(out, "role", "master");
    reply_bulk_str(out, "modules");
    reply_array(out, 0);
}

static void say_yes(struct session *s, const struct auth_words *w, struct buf *out)
{
    if (w->has_client) client_text_set(&s->name, w->client);
    if (w->why.n > 0)
        buf_put_slice(out, w->why);
    else if (w->resp == 0)
        reply_simple(out, "OK");
    else
        hello_reply(s, w->resp, out);
}

static void auth_right(struct session *s, struct user *u, const struct auth_words *w, struct buf *out)
{
    if (guard_enter(s, u)) {
        say_yes(s, w, out);
        return;
    }
    reply_error(out, "ERR max number of clients reached");
    s->last = true;
}

/* "[2001:db8::7]" -> "2001:db8::": a client with one IPv6 address usually has the whole /64. */
static void network_of(char *address, size_t size)
{
    struct in6_addr v6;
    char *end = strchr(address, ']');
    if (address[0] != '[' || end == NULL) return;
    *end = '\0';
    if (inet_pton(AF_INET6, address + 1, &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6)) return;
    memset(v6.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &v6, address, (socklen_t)size);
}

static struct auth_words words_kept(const struct session *s)
{
    const struct auth_request *q = &s->ask.auth;
    const char *password = s->key.p + q->name_n, *client = password + q->password_n;
    return (struct auth_words){.name = slice_of(s->key.p, q->name_n),
                               .password = slice_of(password, q->password_n),
                               .client = slice_of(client, q->client_n),
                               .why = slice_of(client + q->client_n, q->why_n),
                               .has_client = q->has_client,
                               .resp = q->resp};
}

static void proof_done(struct proof_ask *a);

/* False: the outcome is already set. */
static bool auth_prove(struct session *s, const struct auth_words *w)
{
    const struct command_config *config = &s->command->config;
    char address[160];
    config->client.peer(s->conn, address, sizeof(address));
    char *port = strrchr(address, ':');
    if (port != NULL) *port = '\0'; /* a guesser has many ports */
    network_of(address, sizeof(address));
    s->ask.auth.proof = (struct proof_ask){.done = proof_done};
    s->ask.auth.users_version = s->command->users_version;
    return prover_ask(config->prover, config->users, user_find(config->users, w->name), w->name, w->password,
                      address, &s->ask.auth.proof);
}

/* After a reload of the users the password is verified again. */
static void proof_done(struct proof_ask *a)
{
    struct session *s = CONTAINER_OF(a, struct session, ask.auth.proof);
    struct auth_words w = words_kept(s);
    struct users *users = s->command->config.users;
    bool changed = s->ask.auth.users_version != s->command->users_version;
    if (changed && users->n > 0 && a->outcome == PROOF_RIGHT && auth_prove(s, &w)) return;
    enum proof_outcome outcome = a->outcome;
    struct user *u = user_find(users, w.name);
    struct buf *out =
        session_is_quiet(s) ? &s->command->scratch : &s->outlet->out; /* never sent; or owed nothing */
    if (outcome == PROOF_RIGHT && u != NULL) prover_remember(s->command->config.prover, u, w.password);
    if (!s->gone && s->door == DOOR_OPEN) /* a reload took all users away */
        say_yes(s, &w, out);
    else if (!s->gone && outcome == PROOF_RIGHT && u != NULL)
        auth_right(s, u, &w, out);
    else if (!s->gone)
        auth_refuse(outcome == PROOF_RIGHT ? PROOF_WRONG : outcome, out);
    words_wipe(s);
    ask_end(s);
}

static void words_keep(struct session *s, const struct auth_words *w)
{
    buf_reset(&s->key);
    buf_reserve(&s->key, w->name.n + w->password.n + w->client.n + w->why.n + 1);
    buf_put_slice(&s->key, w->name);
    buf_put_slice(&s->key, w->password);
    buf_put_slice(&s->key, w->client);
    buf_put_slice(&s->key, w->why);
    s->ask.auth = (struct auth_request){.name_n = w->name.n,
                                        .password_n = w->password.n,
                                        .client_n = w->client.n,
                                        .why_n = w->why.n,
                                        .has_client = w->has_client,
                                        .resp = w->resp};
}

static enum taken auth_begin(struct session *s, const struct auth_words *w, struct buf *out)
{
    const struct command_config *config = &s->command->config;
    struct user *u = user_find(config->users, w->name);
    if (u != NULL && prover_knows(config->prover, u, w->password)) return auth_right(s, u, w, out), TAKEN;
    if (session_barrier(s) == LEFT) return LEFT;
    words_keep(s, w);
    if (auth_prove(s, w)) {
        ask_begin(s);
        return TAKEN;
    }
    auth_refuse(s->ask.auth.proof.outcome, out);
    words_wipe(s);
    return TAKEN;
}

/* ---- HELLO ---- */

/* Reads the option at word i; returns its words. 0: it is wrong, and why says so. As in Redis each holds once it is
 * read. */
static uint32_t hello_option(struct session *s, const struct request *r, uint32_t i, struct auth_words *w,
                             struct buf *why)
{
    uint32_t words = r->args_n - i;
    if (slice_ieq(r->args[i], SLICE("auth")) && words >= 3 && !w->has_auth) {
        w->has_auth = s->door != DOOR_OPEN;
        w->name = r->args[i + 1];
        w->password = r->args[i + 2];
        if (w->has_auth || slice_eq(w->name, SLICE("default"))) return 3;
        reply_error(why, WRONGPASS);
        return 0;
    }
    if (slice_ieq(r->args[i], SLICE("setname")) && words >= 2) {
        if (!client_name_fits(r->args[i + 1], why)) return 0;
        w->has_client = w->has_auth;
        w->client = r->args[i + 1];
        if (!w->has_auth) client_text_set(&s->name, w->client);
        return 2;
    }
    reply_errorf(why, "ERR Syntax error in HELLO option '%s'", SLICE_SHOW(r->args[i], SHOWN_BYTES));
    return 0;
}

enum taken run_hello(struct session *s, const struct request *r, struct buf *out)
{
    int64_t version = s->resp;
    struct buf why = {0};
    enum taken taken = TAKEN;
    if (r->args_n > 1 && !num_parse(r->args[1], &version))
        return reply_error(out, "ERR Protocol version is not an integer or out of range"), TAKEN;
    if (version != 2 && version != 3) return reply_error(out, "NOPROTO unsupported protocol version"), TAKEN;
    struct auth_words w = {.resp = (int)version};
    for (uint32_t i = 2; i < r->args_n && why.n == 0;)
        i += hello_option(s, r, i, &w, &why);
    w.why = buf_slice(&why);
    if (w.has_auth)
        taken = auth_begin(s, &w, out);
    else if (s->door == DOOR_CLOSED && why.n == 0)
        reply_error(out, HELLO_NOAUTH);
    else
        say_yes(s, &w, out);
    buf_free(&why);
    return taken;
}

/* ---- AUTH ---- */

enum taken run_auth(struct session *s, const struct request *r, struct buf *out)
{
    if (r->args_n > 3) return words_syntax(out), TAKEN;
    bool named = r->args_n == 3;
    const struct auth_words w = {.name = named ? r->args[1] : SLICE("default"),
                                 .password = r->args[named ? 2 : 1]};
    if (s->door != DOOR_OPEN) return auth_begin(s, &w, out);
    /* As no password is configured. */
    if (!named)
        reply_error(
            out, "ERR AUTH <password> called without any password configured for the default user. Are you "
                 "sure your configuration is correct?");
    else if (slice_eq(w.name, SLICE("default")))
        reply_simple(out, "OK");
    else
        reply_error(out, WRONGPASS);
    return TAKEN;
}

/* ---- ACL ---- */

static enum taken run_whoami(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    reply_bulk_str(out, s->user != NULL ? s->user->name : "default");
    return TAKEN;
}

const struct spec acl_specs[] = {
    {"whoami", 2, SPEC_QUEUES, run_whoami, "server", "The user of this connection", NULL},
    {"help", 2, 0, run_help, "server", "This text", NULL},
    {0},
};
