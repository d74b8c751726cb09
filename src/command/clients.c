/* command/clients.c - CLIENT INFO, LIST and KILL: a line about a connection as Redis 7.0 writes it, with the names of the
 * library behind it as 7.2 does. Fields for what tallyd's connections do not have (subscriptions, copies of
 * arguments, a list of replies) are 0. Ordered by time of opening, or of the last AUTH; unauthenticated clients come last. */
#include "base/clock.h"
#include "base/slice.h"
#include "command/inside.h"

static struct slice user_name(const struct session *s)
{
    return s->user != NULL ? slice_str(s->user->name) : SLICE("default");
}

/* ---- the line ---- */

static void put_flags(const struct session *s, const struct conn_info *info, struct buf *out)
{
    const struct {
        bool is;
        char flag;
    } flags[] = {{s->multi != NULL, 'x'},
                 {s->state == SESSION_ASKING, 'b'},
                 {(s->tracking & TRACKING_ON) != 0, 't'},
                 {s->last, 'c'},
                 {info->is_unix, 'U'},
                 {s->no_evict, 'e'}};
    size_t before = out->n;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (flags[i].is) buf_put_char(out, flags[i].flag);
    if (out->n == before) buf_put_char(out, 'N');
}

static void put_line(const struct session *s, struct buf *out)
{
    struct conn_info info;
    size_t multi_bytes;
    int64_t queued = multi_queued(s, &multi_bytes);
    uint64_t now_ms = mono_ms();
    s->command->config.client.info(s->conn, &info);
    buf_printf(out, "id=%llu addr=%s laddr=%s fd=%d name=" SLICE_FMT " age=%llu idle=%llu flags=",
               (unsigned long long)s->id, info.peer, info.local, info.fd, SLICE_ARG(s->name),
               (unsigned long long)(now_ms - s->opened_ms) / 1000,
               (unsigned long long)(now_ms - s->active_ms) / 1000);
    put_flags(s, &info, out);
    buf_printf(out, " db=0 sub=0 psub=0 ssub=0 multi=%lld qbuf=%zu qbuf-free=0 argv-mem=0 multi-mem=%zu",
               (long long)queued, info.kept_bytes, multi_bytes);
    buf_printf(out, " rbs=%zu rbp=0 obl=%zu oll=0 omem=%zu tot-mem=%zu events=%s%s", s->outlet->out.cap,
               s->outlet->out.n, info.unsent_bytes, info.memory + multi_bytes, info.reads ? "r" : "",
               info.unsent_bytes > 0 ? "w" : "");
    BUF_LIT(out, " cmd=");
    if (s->ran != NULL)
        spec_put_name(s->ran, out);
    else
        BUF_LIT(out, "NULL");
    buf_printf(out, " user=" SLICE_FMT " redir=%lld resp=%d lib-name=" SLICE_FMT " lib-ver=" SLICE_FMT "\n",
               SLICE_ARG(user_name(s)), (long long)tracking_redirect(s), s->resp, SLICE_ARG(s->lib_name),
               SLICE_ARG(s->lib_ver));
}

static enum taken lines_reply(const struct session *s, struct buf *lines, struct buf *out)
{
    reply_verbatim(out, s->resp, buf_slice(lines));
    buf_free(lines);
    return TAKEN;
}

enum taken run_client_info(struct session *s, const struct request *r, struct buf *out)
{
    struct buf line = {0};
    (void)r;
    put_line(s, &line);
    return lines_reply(s, &line, out);
}

/* ---- CLIENT LIST ---- */

/* All clients of tallyd are normal ones. */
static bool type_read(struct slice word, bool *normal, struct buf *out)
{
    static const char *const others[] = {"MASTER", "REPLICA", "SLAVE", "PUBSUB"};
    bool is_type = *normal = word_is(word, "NORMAL");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        is_type |= word_is(word, others[i]);
    if (!is_type) reply_errorf(out, "ERR Unknown client type '%s'", SLICE_SHOW(word, SHOWN_BYTES));
    return is_type;
}

/* In the order of the request; unknown ids are skipped. */
static enum taken list_named(struct session *s, const struct request *r, struct buf *out)
{
    struct buf lines = {0};
    for (uint32_t i = 3; i < r->args_n; i++) {
        int64_t id;
        if (!num_parse(r->args[i], &id)) {
            reply_error(out, "ERR Invalid client ID");
            buf_free(&lines);
            return TAKEN;
        }
        const struct session *found = client_find(s->command, id);
        if (found != NULL) put_line(found, &lines);
    }
    return lines_reply(s, &lines, out);
}

enum taken run_client_list(struct session *s, const struct request *r, struct buf *out)
{
    struct command *c = s->command;
    struct buf lines = {0};
    bool normal = true;
    if (r->args_n > 3 && word_is(r->args[2], "ID")) return list_named(s, r, out);
    bool typed = r->args_n == 4 && word_is(r->args[2], "TYPE");
    if (r->args_n > 2 && !typed) return words_syntax(out), TAKEN;
    if (typed && !type_read(r->args[3], &normal, out)) return TAKEN;
    for (struct session *at = client_after(c, &c->sessions); normal && at != NULL;
         at = client_after(c, &at->place))
        put_line(at, &lines);
    return lines_reply(s, &lines, out);
}

/* ---- CLIENT KILL ---- */

struct victims { /* p NULL, 0: all */
    struct slice addr, laddr, user;
    int64_t id;
    bool normal, skip_me;
};

static bool user_read(const struct session *s, struct slice word, struct slice *user, struct buf *out)
{
    const struct users *users = s->command->config.users;
    bool is_user = slice_eq(word, SLICE("default")) || (users != NULL && user_find(users, word) != NULL);
    *user = word;
    if (!is_user) reply_errorf(out, "ERR No such user '%s'", SLICE_SHOW(word, SHOWN_BYTES));
    return is_user;
}

static bool victims_option(const struct session *s, struct slice name, struct slice value, struct victims *f,
                           struct buf *out)
{
    if (word_is(name, "TYPE")) return type_read(value, &f->normal, out);
    if (word_is(name, "USER")) return user_read(s, value, &f->user, out);
    if (word_is(name, "ADDR")) return f->addr = value, true;
    if (word_is(name, "LADDR")) return f->laddr = value, true;
    if (word_is(name, "SKIPME")) {
        f->skip_me = word_is(value, "YES");
        return f->skip_me || word_is(value, "NO") || words_syntax(out);
    }
    if (!word_is(name, "ID")) return words_syntax(out);
    if (num_parse(value, &f->id) && f->id > 0) return true;
    return reply_error(out, "ERR client-id should be greater than 0");
}

static bool victims_have(const struct victims *f, const struct session *s)
{
    struct conn_info info;
    if (!f->normal || (f->id != 0 && (int64_t)s->id != f->id)) return false;
    if (f->user.p != NULL && !slice_eq(f->user, user_name(s))) return false;
    if (f->addr.p == NULL && f->laddr.p == NULL) return true;
    s->command->config.client.info(s->conn, &info);
    return (f->addr.p == NULL || slice_eq(f->addr, slice_str(info.peer))) &&
           (f->laddr.p == NULL || slice_eq(f->laddr, slice_str(info.local)));
}

/* Requests of a killed client go on, as if it had left. A client that kills itself gets its answer first. */
enum taken run_client_kill(struct session *s, const struct request *r, struct buf *out)
{
    struct command *c = s->command;
    bool has_options = r->args_n > 3;
    struct victims f = {.normal = true, .skip_me = has_options};
    uint32_t killed = 0;
    if (!has_options) f.addr = r->args[2];
    for (uint32_t i = 2; has_options && i < r->args_n; i += 2) {
        if (i + 1 == r->args_n) return words_syntax(out), TAKEN;
        if (!victims_option(s, r->args[i], r->args[i + 1], &f, out)) return TAKEN;
    }
    for (struct session *at = client_after(c, &c->sessions), *next; at != NULL; at = next) {
        next = client_after(c, &at->place);
        bool spared = at == s ? f.skip_me : at->inside && f.id == 0; /* inside ones: only by id */
        if (spared || !victims_have(&f, at)) continue;
        killed++;
        if (at == s)
            s->last = true;
        else
            c->config.client.drop(at->conn);
    }
    if (has_options)
        reply_int(out, killed);
    else if (killed > 0)
        reply_simple(out, "OK");
    else
        reply_error(out, "ERR No such client");
    return TAKEN;
}
