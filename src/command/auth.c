/* command/auth.c - AUTH, and the AUTH of a HELLO; ACL WHOAMI. A password that was right lately is known at once; others are
 * proved beside the loop (users/prover.h), and nothing more of this client is taken meanwhile. Without users in the
 * configuration both answer as a Redis 7.0 without a password: the user is `default`, with any password. */
#include "command/inside.h"

#include <arpa/inet.h>
#include <netinet/in.h>

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
        reply_error(out,
                    "ERR too many wrong passwords from this address; wait some seconds (limits.guesses)");
        return;
    case PROOF_BUSY:
        reply_error(out, "ERR too many clients authenticate at once; try again (limits.proofs)");
        return;
    case PROOF_RIGHT:
        break;
    }
    UNREACHABLE();
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

/* "[2001:db8::7]" -> "2001:db8::": who has one address of IPv6 has its whole /64. */
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

/* False: the outcome is there at once. */
static bool prove(struct session *s, const struct auth_words *w)
{
    const struct command_config *config = &s->command->config;
    char address[160];
    config->client.peer(s->conn, address, sizeof(address));
    char *port = strrchr(address, ':');
    if (port != NULL) *port = '\0'; /* one who guesses has many ports */
    network_of(address, sizeof(address));
    s->ask.auth.proof = (struct proof_ask){.done = proof_done};
    s->ask.auth.users_version = s->command->users_version;
    return prover_ask(config->prover, config->users, user_find(config->users, w->name), w->name, w->password,
                      address, &s->ask.auth.proof);
}

static void auth_end(struct session *s, enum proof_outcome outcome)
{
    struct auth_words w = words_kept(s);
    struct users *users = s->command->config.users;
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

/* Users may have been read again meanwhile: then what was proved may hold no more. */
static void proof_done(struct proof_ask *a)
{
    struct session *s = CONTAINER_OF(a, struct session, ask.auth.proof);
    struct auth_words w = words_kept(s);
    bool changed = s->ask.auth.users_version != s->command->users_version;
    if (changed && s->command->config.users->n > 0 && a->outcome == PROOF_RIGHT && prove(s, &w)) return;
    auth_end(s, s->ask.auth.proof.outcome);
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

enum taken auth_begin(struct session *s, const struct auth_words *w, struct buf *out)
{
    const struct command_config *config = &s->command->config;
    struct user *u = user_find(config->users, w->name);
    if (u != NULL && prover_knows(config->prover, u, w->password)) {
        auth_right(s, u, w, out);
        return TAKEN;
    }
    if (session_barrier(s) == LEFT) return LEFT;
    words_keep(s, w);
    if (prove(s, w)) {
        ask_begin(s);
        return TAKEN;
    }
    auth_refuse(s->ask.auth.proof.outcome, out);
    words_wipe(s);
    return TAKEN;
}

/* As no password is configured. */
static void auth_without_users(const struct request *r, struct buf *out)
{
    if (r->args_n == 2)
        reply_error(
            out, "ERR AUTH <password> called without any password configured for the default user. Are you "
                 "sure your configuration is correct?");
    else if (slice_eq(r->args[1], SLICE("default")))
        reply_simple(out, "OK");
    else
        reply_error(out, WRONGPASS);
}

enum taken run_auth(struct session *s, const struct request *r, struct buf *out)
{
    if (r->args_n > 3) {
        words_syntax(out);
        return TAKEN;
    }
    if (s->door == DOOR_OPEN) {
        auth_without_users(r, out);
        return TAKEN;
    }
    bool named = r->args_n == 3;
    const struct auth_words w = {.name = named ? r->args[1] : SLICE("default"),
                                 .password = r->args[named ? 2 : 1]};
    return auth_begin(s, &w, out);
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
