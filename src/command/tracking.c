/* command/tracking.c - CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO.
 *
 * With tracking on, Redis tells a client when a key changes that it read with one of Redis' reading commands, so that
 * it may cache values. Of those tallyd has HGET and HMGET, whose totals change at any time. So the client is told right
 * behind each answer that the key has changed (RESP3; in RESP2 the message would need a subscriber, whom tallyd has
 * not). No library caches the answers of tallyd's own commands (CTR.TOTAL, SERIES.GET ...), and those of EXISTS and TTL
 * do not change. BCAST mode is refused: in it a client is told of every write to a prefix, read or not. */
#include "command/inside.h"

struct options {
    unsigned tracking; /* of enum session_tracking */
    bool bcast, prefix;
    int64_t redirect;
};

static bool redirect_read(struct session *s, struct slice word, struct options *o, struct buf *out)
{
    if (o->redirect != 0) return reply_error(out, "ERR A client can only redirect to a single other client");
    if (!word_int(word, &o->redirect, out)) return false;
    if (client_find(s->command, o->redirect) != NULL) return true;
    return reply_error(out, "ERR The client ID you want redirect to does not exist");
}

static bool tracking_option_read(struct session *s, const struct request *r, uint32_t *i, struct options *o,
                                 struct buf *out)
{
    struct slice word = r->args[*i];
    bool more = *i + 1 < r->args_n;
    if (word_is(word, "REDIRECT") && more) return redirect_read(s, r->args[++*i], o, out);
    if (word_is(word, "PREFIX") && more) {
        o->prefix = true;
        ++*i;
    } else if (word_is(word, "BCAST")) {
        o->bcast = true;
    } else if (word_is(word, "OPTIN")) {
        o->tracking |= TRACKING_OPTIN;
    } else if (word_is(word, "OPTOUT")) {
        o->tracking |= TRACKING_OPTOUT;
    } else if (word_is(word, "NOLOOP")) {
        o->tracking |= TRACKING_NOLOOP;
    } else {
        return words_syntax(out);
    }
    return true;
}

/* NULL: none, neither among the options nor with the session's. */
static const char *conflict(const struct session *s, const struct options *o)
{
    const unsigned modes = TRACKING_OPTIN | TRACKING_OPTOUT;
    unsigned had = s->tracking & modes, wanted = o->tracking & modes;
    if (o->prefix && !o->bcast) return "ERR PREFIX option requires BCAST mode to be enabled";
    if (o->bcast && wanted != 0) return "ERR OPTIN and OPTOUT are not compatible with BCAST";
    if (o->bcast) return "ERR BCAST mode is not supported: tallyd tells no client of writes";
    if (wanted == modes) return "ERR You can't specify both OPTIN mode and OPTOUT mode";
    if (had != 0 && wanted != 0 && had != wanted)
        return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then "
               "re-enabling it with a different mode.";
    return NULL;
}

void tracking_off(struct session *s)
{
    s->tracking = 0;
    s->redirect = 0;
}

void tracking_forget(const struct session *s, struct slice key, struct buf *out)
{
    if ((s->tracking & TRACKING_ON) == 0 || s->resp == 2) return;
    reply_push(out, 2);
    reply_bulk_str(out, "invalidate");
    reply_array(out, 1);
    reply_bulk(out, key);
}

enum taken run_tracking(struct session *s, const struct request *r, struct buf *out)
{
    struct options o = {0};
    for (uint32_t i = 3; i < r->args_n; i++)
        if (!tracking_option_read(s, r, &i, &o, out)) return TAKEN;
    bool on = word_is(r->args[2], "ON");
    const char *why = on ? conflict(s, &o) : NULL;
    if (!on && !word_is(r->args[2], "OFF")) return words_syntax(out), TAKEN;
    if (why != NULL) return reply_error(out, why), TAKEN;
    tracking_off(s);
    if (on) s->tracking = TRACKING_ON | o.tracking, s->redirect = (uint64_t)o.redirect;
    reply_simple(out, "OK");
    return TAKEN;
}

enum taken run_caching(struct session *s, const struct request *r, struct buf *out)
{
    bool yes = word_is(r->args[2], "YES");
    if ((s->tracking & TRACKING_ON) == 0)
        reply_error(out, "ERR CLIENT CACHING can be called only when the client is in tracking mode with "
                         "OPTIN or OPTOUT mode enabled");
    else if (!yes && !word_is(r->args[2], "NO"))
        words_syntax(out);
    else if (yes && (s->tracking & TRACKING_OPTIN) == 0)
        reply_error(out, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
    else if (!yes && (s->tracking & TRACKING_OPTOUT) == 0)
        reply_error(out, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
    else
        reply_simple(out, "OK");
    return TAKEN;
}

enum taken run_getredir(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    reply_int(out, tracking_redirect(s));
    return TAKEN;
}

enum taken run_trackinginfo(struct session *s, const struct request *r, struct buf *out)
{
    static const struct {
        unsigned bit;
        const char *name;
    } flags[] = {{TRACKING_OPTIN, "optin"}, {TRACKING_OPTOUT, "optout"}, {TRACKING_NOLOOP, "noloop"}};
    (void)r;
    reply_map(out, s->resp, 3);
    reply_bulk_str(out, "flags");
    reply_set(out, s->resp, 1 + (size_t)__builtin_popcount(s->tracking & ~(unsigned)TRACKING_ON));
    reply_bulk_str(out, (s->tracking & TRACKING_ON) != 0 ? "on" : "off");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if ((s->tracking & flags[i].bit) != 0) reply_bulk_str(out, flags[i].name);
    reply_bulk_str(out, "redirect");
    reply_int(out, tracking_redirect(s));
    reply_bulk_str(out, "prefixes");
    reply_array(out, 0);
    return TAKEN;
}
