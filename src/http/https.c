/* http/https.c - see inside.h. Source: gnutls' manual, gnutls_certificate_set_x509_key_file(3), gnutls_handshake_set_hook_function(3).
 * libmicrohttpd itself reads its certificates once, and requires none of clients. It makes a connection known before the first
 * byte is read; so each session can be given credentials here. */
#include "http/inside.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "tls/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

struct https_files {
    gnutls_certificate_credentials_t credentials;
    bool asks; /* clients for certificates */
    struct https_files *before;
};

enum err https_read(struct https *s, struct error *e)
{
    unsigned read_n = tls_context_read_n(s->c);
    if (read_n == s->read_n) return ERR_NONE;
    s->read_n = read_n;
    struct tls_files names = tls_context_files(s->c);
    struct https_files *made = heap_zalloc(sizeof *made);
    gnutls_certificate_allocate_credentials(&made->credentials);
    int rc =
        gnutls_certificate_set_x509_key_file(made->credentials, names.cert, names.key, GNUTLS_X509_FMT_PEM);
    made->asks = names.ca != NULL;
    if (rc >= 0 && made->asks)
        rc = gnutls_certificate_set_x509_trust_file(made->credentials, names.ca, GNUTLS_X509_FMT_PEM);
    if (rc < 0) {
        gnutls_certificate_free_credentials(made->credentials);
        heap_free(made);
        return error_set(e, ERR_CONFIG, "GnuTLS, which HTTP uses, does not take the files of listen.tls: %s",
                         gnutls_strerror(rc));
    }
    made->before = s->now;
    __atomic_store_n(&s->now, made, __ATOMIC_RELEASE);
    return ERR_NONE;
}

void https_close(struct https *s)
{
    while (s->now != NULL) {
        struct https_files *files = s->now;
        s->now = files->before;
        gnutls_certificate_free_credentials(files->credentials);
        heap_free(files);
    }
}

static int certificate_none(gnutls_session_t session, const gnutls_datum_t *authorities, int authorities_n,
                            const gnutls_pk_algorithm_t *kinds, int kinds_n, gnutls_pcert_st **chain,
                            unsigned *chain_n, gnutls_privkey_t *key)
{
    (void)session, (void)authorities, (void)authorities_n, (void)kinds, (void)kinds_n;
    (void)chain, (void)chain_n, (void)key;
    return -1;
}

void *https_no_certificate(void)
{
    gnutls_certificate_retrieve_function2 *none = certificate_none;
    return (void *)(uintptr_t)none;
}

static int handshake_stepped(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                             const gnutls_datum_t *message)
{
    struct handshake *k = gnutls_session_get_ptr(session);
    (void)when, (void)message;
    if (type == GNUTLS_HANDSHAKE_CLIENT_HELLO) k->hello = true;
    if (type == GNUTLS_HANDSHAKE_FINISHED) *(incoming ? &k->in : &k->out) = true;
    return 0;
}

static void handshake_begin(struct handshake *k, const struct https *s, struct MHD_Connection *connection)
{
    static gnutls_typed_vdata_st of_a_client = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                                .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    const struct https_files *files = __atomic_load_n(&s->now, __ATOMIC_ACQUIRE);
    gnutls_session_t session =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
    *k = (struct handshake){.of = s, .files = files, .session = session, .began_ms = mono_ms()};
    gnutls_session_set_ptr(session, k);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST, handshake_stepped);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, files->credentials);
    /* Nothing counts as a move on a connection before its handshake is done: so this bounds all of it. */
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (s->handshake_ms + 999) / 1000);
    if (!files->asks) return;
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_cert2(session, &of_a_client, 1, 0);
}

/* libmicrohttpd does not say it. */
static const char *why_refused(const struct handshake *k, char *text, size_t size)
{
    unsigned status = gnutls_session_get_verify_cert_status(k->session), n;
    gnutls_datum_t said;
    if (mono_ms() - k->began_ms >= k->of->handshake_ms) return "the handshake took too long";
    if (!k->hello) return "that was no TLS, or a version before 1.2";
    if (status != 0 && status != UINT_MAX &&
        gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &said, 0) == GNUTLS_E_SUCCESS) {
        snprintf(text, size, "the client's certificate: %s", said.data);
        gnutls_free(said.data);
        return text;
    }
    if (k->files->asks && k->out && gnutls_certificate_get_peers(k->session, &n) == NULL)
        return "the client shows no certificate of an authority in listen.tls.ca";
    return "the client ended it, or has no cipher that fits";
}

/* At the connection's end: logs a handshake that failed. */
static void handshake_end(const struct handshake *k, const char *door, struct MHD_Connection *connection)
{
    char host[64], port[8], peer[80] = "?", why[300];
    if ((k->in && k->out) || __atomic_load_n(&k->of->over, __ATOMIC_RELAXED)) return;
    const struct sockaddr *at =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    socklen_t n = at->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo(at, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(peer, sizeof peer, at->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    tls_refused(door, peer, why_refused(k, why, sizeof why));
}

/* Libmicrohttpd's own timeout is of a connection on which nothing moves. */

#define HEAD_TIMEOUT_MS 10000

struct awaited { /* of a connection */
    struct heads *of;
    struct list link;
    int fd;
    uint64_t since_ms; /* mono */
    struct handshake handshake;
};

void heads_init(struct heads *h, unsigned most, const char *door, const struct https *https)
{
    pthread_mutex_init(&h->lock, NULL);
    list_init(&h->awaited);
    h->n = 0;
    h->most = most;
    h->door = door;
    h->https = https;
}

static void awaited_leave(struct awaited *head) /* under the lock */
{
    if (!list_linked(&head->link)) return;
    list_remove(&head->link);
    head->of->n--;
}

/* Its daemon sees the end and closes it. */
static void oldest_end(struct heads *h) /* under the lock */
{
    static struct log_seldom line;
    unsigned times;
    struct awaited *oldest = CONTAINER_OF(h->awaited.next, struct awaited, link);
    if (log_seldom(&line, &times))
        log_event(LOG_WARN, "http_closed", "awaited=%u most=%u times=%u why=%s", h->n, h->most, times,
                  LOGQ("a client's request did not come whole"));
    awaited_leave(oldest);
    shutdown(oldest->fd, SHUT_RDWR);
}

static void head_await(struct awaited *head)
{
    struct heads *h = head->of;
    pthread_mutex_lock(&h->lock);
    awaited_leave(head);
    head->since_ms = mono_ms();
    list_push(&h->awaited, &head->link);
    h->n++;
    while (h->n > h->most ||
           head->since_ms - CONTAINER_OF(h->awaited.next, struct awaited, link)->since_ms > HEAD_TIMEOUT_MS)
        oldest_end(h);
    pthread_mutex_unlock(&h->lock);
}

static struct awaited *head_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void leave_now(struct awaited *head)
{
    pthread_mutex_lock(&head->of->lock);
    awaited_leave(head);
    pthread_mutex_unlock(&head->of->lock);
}

void heads_got(struct MHD_Connection *connection)
{
    struct awaited *head = head_of(connection);
    leave_now(head);
    if (head->of->https != NULL) /* until then its handshake's */
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_TIMEOUT_S);
}

void heads_await(struct MHD_Connection *connection)
{
    head_await(head_of(connection));
}

void heads_notify(void *heads, struct MHD_Connection *connection, void **context,
                  enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct awaited *head = *context = heap_zalloc(sizeof *head);
        head->of = heads;
        list_init(&head->link);
        head->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        if (head->of->https != NULL) handshake_begin(&head->handshake, head->of->https, connection);
        head_await(head);
    } else {
        struct awaited *head = *context;
        leave_now(head);
        if (head->of->https != NULL) handshake_end(&head->handshake, head->of->door, connection);
        heap_free(*context);
    }
}
