/* listen/address.c - see address.h. */
#include "listen/address.h"

#include "base/num.h"

static enum err refuse(struct slice url, const char *why, struct error *e)
{
    char shown[120];
    return error_set(e, ERR_CONFIG, "listen address '%s': %s", slice_show(url, 100, shown, sizeof(shown)),
                     why);
}

static bool copy(char *to, size_t size, struct slice from)
{
    if (from.n == 0 || from.n >= size || memchr(from.p, '\0', from.n) != NULL) return false;
    memcpy(to, from.p, from.n);
    to[from.n] = '\0';
    return true;
}

static bool has_any(struct slice s, const char *of)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr(of, s.p[i]) != NULL) return true;
    return false;
}

static enum err parse_tcp(struct slice url, struct slice rest, struct address *out, struct error *e)
{
    const char *colon = memrchr(rest.p, ':', rest.n);
    if (colon == NULL) return refuse(url, "expected tcp://host:port", e);
    struct slice host = slice_of(rest.p, (size_t)(colon - rest.p));
    struct slice port = slice_of(colon + 1, rest.n - host.n - 1);
    uint64_t number;
    if (!num_parse_u64(port, &number) || number > 65535 || !copy(out->port, sizeof(out->port), port))
        return refuse(url, "the port must be 0 to 65535", e);
    bool bracketed = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (bracketed) host = slice_of(host.p + 1, host.n - 2);
    if (!bracketed && has_any(host, ":[]"))
        return refuse(url, "write an IPv6 host in brackets, as tcp://[::1]:7370", e);
    if (!copy(out->host, sizeof(out->host), host))
        return refuse(url, "expected a host, as tcp://127.0.0.1:7370 (0.0.0.0 for all interfaces)", e);
    return ERR_NONE;
}

enum err address_parse(struct slice url, struct address *out, struct error *e)
{
    static const struct slice tcp = {"tcp://", 6}, tls = {"tls://", 6}, unix_scheme = {"unix://", 7};
    memset(out, 0, sizeof(*out));
    out->is_tls = slice_starts(url, tls);
    if (out->is_tls || slice_starts(url, tcp))
        return parse_tcp(url, slice_of(url.p + tcp.n, url.n - tcp.n), out, e);
    if (!slice_starts(url, unix_scheme))
        return refuse(url, "expected tcp://host:port, tls://host:port or unix:///path", e);
    struct slice path = slice_of(url.p + unix_scheme.n, url.n - unix_scheme.n);
    const char *wrong = unix_options_cut(&path, &out->options);
    out->is_unix = true;
    if (wrong != NULL) return refuse(url, wrong, e);
    if (path.n == 0 || path.p[0] != '/')
        return refuse(url, "the path must begin with /, as unix:///run/x.sock", e);
    if (!copy(out->path, sizeof(out->path), path))
        return refuse(url, "the path is longer than a unix socket's name may be (107 bytes)", e);
    return ERR_NONE;
}
