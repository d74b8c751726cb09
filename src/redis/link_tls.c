/* redis/link_tls.c - TLS between the link and its socket. The RESP handshake waits in out until the TLS handshake is
 * done, so the link needs no further state. The reader bounds the bytes of a reply, tls/ those of TLS. */
#include "base/heap.h"
#include "redis/link_in.h"
#include <stdio.h>

void link_tls_start(struct redis_link *l)
{
    const struct redis_url *url = l->config.place->url;
    tls_session_destroy(&l->tls);
    if (!url->secure) return;
    PRE(url->tls != NULL);
    if (l->opened == NULL) l->opened = heap_alloc(INBOX_BYTES + TLS_HELD_MAX);
    l->tls = tls_session_create(url->tls, l->target.host);
}

struct buf *link_tls_out(struct redis_link *l)
{
    if (tls_session_state(l->tls) != TLS_GREETING && l->out.n > 0) {
        tls_session_put(l->tls, buf_slice(&l->out));
        buf_reset(&l->out);
    }
    return tls_session_out(l->tls);
}

/* A certificate that is refused now will be refused at the next try, so a starting tallyd reports it at once. */
static void link_tls_failed(struct redis_link *l)
{
    char what[TLS_WHY_BYTES + 8];
    snprintf(what, sizeof what, "TLS: %s", tls_session_why(l->tls));
    if (tls_session_refused(l->tls))
        error_set(&l->refusal, ERR_CONFIG, "no TLS with Redis at %s:%d: %s", l->target.host, l->target.port,
                  tls_session_why(l->tls));
    link_doom_io(l, what);
}

size_t link_tls_take(struct redis_link *l, const char **p, size_t n)
{
    size_t got = tls_session_take(l->tls, *p, n, l->opened);
    *p = l->opened;
    if (tls_session_state(l->tls) == TLS_FAILED) link_tls_failed(l);
    if (tls_session_state(l->tls) == TLS_ENDED) link_doom_io(l, uv_strerror(UV_EOF));
    return got;
}

const char *link_tls_end_why(const struct redis_link *l, const char *why)
{
    if (tls_session_state(l->tls) != TLS_GREETING) return why;
    return "it does not complete the TLS handshake: is this its port for TLS?";
}

void link_tls_close(struct redis_link *l)
{
    tls_session_destroy(&l->tls);
    heap_free(l->opened);
}
