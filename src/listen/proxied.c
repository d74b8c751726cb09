/* listen/proxied.c - a connection that comes through a proxy begins with a PROXY protocol header, version 1 or 2
 * (proxy-protocol.txt of HAProxy), which names the client. With TLS it comes before the handshake. Whoever sends it is believed,
 * so only the addresses behind `from=` may connect. Until it is whole, its bytes are kept; the rest is taken as ever. */
#include "listen/inside.h"

#include "base/log.h"
#include "base/slice.h"

#include <arpa/inet.h>
#include <stdio.h>

#define TEXT_MOST 107 /* of version 1, with CR LF */
#define HEADER_MOST                                                                                          \
    (4 << 10) /* of version 2: what proxies put behind the addresses takes some hundred bytes */
#define MARK "\r\n\r\n\0\r\nQUIT\n"  /* of version 2 */
#define MARK_BYTES (sizeof MARK - 1) /* then: version and command, family, two bytes of length */

enum header { HEADER_MORE, HEADER_WHOLE, HEADER_WRONG };

static void proxied_log(const struct conn *c, const char *why)
{
    static struct log_seldom line;
    unsigned times;
    char peer[80];
    if (!log_seldom(&line, &times)) return;
    conn_peer(c, peer, sizeof peer);
    log_event(LOG_WARN, "proxy_refused", "door=%s peer=%s times=%u why=%s", c->from->url, peer, times,
              LOGQ(why));
}

bool proxied_begin(struct conn *c)
{
    struct sockaddr_storage peer;
    int n = sizeof peer;
    c->unproxied = true;
    if (uv_tcp_getpeername(&c->s.tcp, (struct sockaddr *)&peer, &n) == 0 &&
        networks_have(&c->from->proxies, (struct sockaddr *)&peer))
        return true;
    proxied_log(c,
                "this address is for proxies (?proxy=on), and the client is none of those that from= names");
    return false;
}

static bool begins(struct slice in, const char *with, size_t n)
{
    return memcmp(in.p, with, in.n < n ? in.n : n) == 0;
}

static bool client_read(struct slice family, const char *host, int64_t port, union client *out)
{
    bool six = slice_eq(family, SLICE("TCP6"));
    if ((!six && !slice_eq(family, SLICE("TCP4"))) || port < 0 || port > UINT16_MAX) return false;
    if (six)
        out->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    else
        out->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(six ? AF_INET6 : AF_INET, host, six ? (void *)&out->in6.sin6_addr : &out->in.sin_addr) ==
           1;
}

/* PROXY TCP4 192.0.2.1 192.0.2.9 56324 7370, or PROXY UNKNOWN and anything. */
static enum header header_text_read(struct slice in, union client *out, size_t *length)
{
    char line[TEXT_MOST + 1], family[8], host[46], at[46], port[6], its[6];
    int64_t number;
    int used = 0;
    const char *end = memmem(in.p, in.n, "\r\n", 2);
    if (end == NULL) return in.n < TEXT_MOST ? HEADER_MORE : HEADER_WRONG;
    *length = (size_t)(end - in.p) + 2;
    if (*length > TEXT_MOST) return HEADER_WRONG;
    snprintf(line, sizeof line, "%.*s", (int)(end - in.p), in.p);
    if (strcmp(line, "PROXY UNKNOWN") == 0 || strncmp(line, "PROXY UNKNOWN ", 14) == 0) return HEADER_WHOLE;
    bool good = sscanf(line, "PROXY %7s %45s %45s %5s %5s%n", family, host, at, port, its, &used) == 5 &&
                line[used] == '\0' && num_parse(slice_str(port), &number) &&
                client_read(slice_str(family), host, number, out);
    return good ? HEADER_WHOLE : HEADER_WRONG;
}

static enum header bytes_read(struct slice in, union client *out, size_t *length)
{
    const unsigned char *p = (const unsigned char *)in.p + MARK_BYTES;
    if (in.n < MARK_BYTES + 4) return HEADER_MORE;
    size_t n = (size_t)p[2] << 8 | p[3];
    *length = MARK_BYTES + 4 + n;
    if ((p[0] != 0x20 && p[0] != 0x21) || *length > HEADER_MOST) return HEADER_WRONG;
    if (in.n < *length) return HEADER_MORE;
    if (p[0] == 0x20) return HEADER_WHOLE; /* LOCAL: the proxy itself, for a health check */
    if (p[1] == 0x11 && n >= 12) {
        out->in = (struct sockaddr_in){.sin_family = AF_INET};
        memcpy(&out->in.sin_addr, p + 4, 4);
        memcpy(&out->in.sin_port, p + 12, 2);
    } else if (p[1] == 0x21 && n >= 36) {
        out->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
        memcpy(&out->in6.sin6_addr, p + 4, 16);
        memcpy(&out->in6.sin6_port, p + 36, 2);
    } /* of another family: the proxy's own address remains */
    return HEADER_WHOLE;
}

bool proxied_take(struct conn *c, char **text, size_t *n)
{
    union client client = {0};
    size_t before = c->kept.n, length = 0;
    buf_put(&c->kept, *text, *n);
    struct slice in = buf_slice(&c->kept);
    enum header header = HEADER_WRONG;
    if (begins(in, MARK, MARK_BYTES))
        header = bytes_read(in, &client, &length);
    else if (begins(in, "PROXY ", 6))
        header = header_text_read(in, &client, &length);
    if (header == HEADER_MORE) return false;
    if (header != HEADER_WHOLE) {
        proxied_log(c, "no PROXY protocol header came first: let the proxy send one (send-proxy), or take "
                       "?proxy=on away");
        conn_drop(c);
        return false;
    }
    buf_free(&c->kept);
    c->unproxied = false;
    c->client = client;
    *text += length - before;
    *n -= length - before;
    return *n > 0;
}
