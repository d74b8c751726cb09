/* conf/address.c - see address.h. Numbers only, no host names: what a daemon listens on should not depend on
 * DNS. */
#include "conf/address.h"

#include "base/heap.h"
#include "base/num.h"

#include <arpa/inet.h>

static void address_free(struct conf_address *a)
{
    heap_free(a->text);
    heap_free(a->host);
    heap_free(a->path);
}

void addresses_free(struct conf_addresses *a)
{
    for (size_t i = 0; i < a->n; i++)
        address_free(&a->all[i]);
    heap_free(a->all);
    *a = (struct conf_addresses){0};
}

static bool is_ip(const char *host, bool v6)
{
    unsigned char bytes[16];
    return inet_pton(v6 ? AF_INET6 : AF_INET, host, bytes) == 1;
}

/* What is wrong with rest (behind tcp://), NULL: nothing. */
static const char *tcp_read(struct slice rest, struct conf_address *a)
{
    const char *colon = rest.n == 0 ? NULL : memrchr(rest.p, ':', rest.n);
    if (colon == NULL) return "an address without a port";
    struct slice host = slice_of(rest.p, (size_t)(colon - rest.p));
    struct slice port = slice_of(colon + 1, rest.n - host.n - 1);
    int64_t number;
    if (!num_parse(port, &number) || number < 1 || number > 65535)
        return "an address whose port is no number from 1 to 65535";
    bool v6 = host.n > 1 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (v6) host = slice_of(host.p + 1, host.n - 2);
    a->host = heap_strndup(host.p, host.n);
    a->port = (int)number;
    return is_ip(a->host, v6) ? NULL : "an address without an IP address (127.0.0.1, 0.0.0.0, [::1])";
}

static const char *unix_read(struct slice rest, struct conf_address *a)
{
    const char *wrong = unix_options_cut(&rest, &a->options);
    if (wrong != NULL) return wrong;
    if (rest.n < 2 || rest.p[0] != '/') return "a unix socket without an absolute path";
    if (rest.n > UNIX_PATH_MAX) return "a unix socket's path of more than 107 bytes";
    for (size_t i = 0; i < rest.n; i++)
        if ((unsigned char)rest.p[i] < ' ' || rest.p[i] == 0x7f)
            return "a unix socket's path with control bytes";
    a->path = heap_strndup(rest.p, rest.n);
    return NULL;
}

bool address_read(struct slice text, struct conf_addresses *out, const char **why)
{
    struct slice tcp = SLICE("tcp://"), tls = SLICE("tls://"), local = SLICE("unix://");
    struct conf_address a = {.text = heap_strndup(text.p, text.n)};
    *why = "an address that is neither tcp:// nor tls:// nor unix://";
    a.tls = slice_starts(text, tls);
    if (a.tls || slice_starts(text, tcp)) *why = tcp_read(slice_of(text.p + tcp.n, text.n - tcp.n), &a);
    if (slice_starts(text, local)) *why = unix_read(slice_of(text.p + local.n, text.n - local.n), &a);
    if (*why != NULL) {
        address_free(&a);
        return false;
    }
    out->all = heap_realloc(out->all, (out->n + 1) * sizeof(*out->all));
    out->all[out->n++] = a;
    return true;
}
