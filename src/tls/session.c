/* tls/session.c - OpenSSL on memory: our BIO reads from the bytes just taken and writes to `out`, so only the cipher copies.
 * Source: BIO_meth_new(3), SSL_read(3). */
#include "tls/tls.h"

#include "base/heap.h"
#include "tls/inside.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>

#define NEW_KEYS_MOST 32             /* a client may ask for this many ... */
#define NEW_KEYS_AFTER_BYTES 1048576 /* ... in this much text */

struct tls_session {
    SSL *ssl;
    enum tls_trust trust;
    enum tls_state state;
    bool server, refused, said_end;
    const char *beyond;    /* why we fail it though OpenSSL does not; NULL: no reason */
    unsigned new_keys;     /* asked for ... */
    size_t new_keys_bytes; /* ... in this much text */
    struct slice in;       /* taken and not yet read by OpenSSL; empty between calls */
    struct buf out;
    char host[256]; /* for texts, cut */
    char why[TLS_WHY_BYTES];
};

/* --- the BIO --- */

static int wire_read(BIO *bio, char *to, int n)
{
    struct tls_session *s = BIO_get_data(bio);
    size_t got = s->in.n < (size_t)n ? s->in.n : (size_t)n;
    BIO_clear_retry_flags(bio);
    if (got == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, s->in.p, got);
    s->in = slice_of(s->in.p + got, s->in.n - got);
    return (int)got;
}

static int bio_write(BIO *bio, const char *from, int n)
{
    struct tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    buf_put(&s->out, from, (size_t)n);
    return n;
}

static long wire_control(BIO *bio, int what, long n, void *p)
{
    (void)bio, (void)n, (void)p;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *wire_method;

static void wire_method_make(void)
{
    wire_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tallyd wire");
    INVARIANT(wire_method != NULL);
    BIO_meth_set_read(wire_method, wire_read);
    BIO_meth_set_write(wire_method, bio_write);
    BIO_meth_set_ctrl(wire_method, wire_control);
}

static BIO *wire_create(struct tls_session *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, wire_method_make);
    BIO *bio = BIO_new(wire_method);
    INVARIANT(bio != NULL);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    return bio;
}

/* --- why it failed --- */

static const char *chain_mend(long code)
{
    switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "have it renewed";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "look at the clocks of both machines";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "connect by a name that it has, or get a certificate for this name";
    default:
        return "name the file of the authority that signed it in tls.ca";
    }
}

static void chain_why(struct tls_session *s, long code)
{
    const char *whose = s->server ? "client" : "server";
    s->refused = true;
    snprintf(s->why, sizeof s->why, "the certificate of the %s%s%s is refused (%s): %s", whose,
             s->server ? "" : " ", s->host, X509_verify_cert_error_string(code), chain_mend(code));
}

/* OpenSSL answers each try with a refusal, and a client that reads none of them would fill our memory. TLS 1.3 has no
 * second handshake. */
static void on_info(const SSL *ssl, int where, int rc)
{
    struct tls_session *s = SSL_get_app_data(ssl);
    (void)rc;
    if ((where & SSL_CB_HANDSHAKE_START) != 0 && s->state == TLS_READY && SSL_version(ssl) < TLS1_3_VERSION)
        s->beyond = "the other side began a second handshake";
}

/* New keys are needed once in many millions of records; each time costs both sides as much as ten requests, and an answer. */
static void on_message(int written, int version, int type, const void *message, size_t n, SSL *ssl, void *arg)
{
    struct tls_session *s = arg;
    (void)version, (void)ssl;
    if (written || type != SSL3_RT_HANDSHAKE || n == 0) return;
    if (*(const unsigned char *)message != SSL3_MT_KEY_UPDATE || ++s->new_keys <= NEW_KEYS_MOST) return;
    s->beyond = "the other side asked for new keys too often";
    s->in = slice_of(NULL, 0);
}

static void tls_failed(struct tls_session *s)
{
    char reason[120];
    unsigned long first = ERR_peek_error();
    long chain = SSL_get_verify_result(s->ssl);
    int code = ERR_GET_REASON(first);
    tls_error_text(reason, sizeof reason);
    s->state = TLS_FAILED;
    s->in = slice_of(NULL, 0);
    if (code == SSL_R_CERTIFICATE_VERIFY_FAILED && chain != X509_V_OK)
        chain_why(s, chain);
    else if (strstr(reason, "alert") != NULL) {
        /* An alert reads like "tlsv13 alert certificate required". */
        bool about_ours = strstr(reason, "certificate") != NULL || strstr(reason, "unknown ca") != NULL;
        s->refused = about_ours && !s->server;
        snprintf(s->why, sizeof s->why, "the other side refused (%s)%s", reason,
                 s->refused
                     ? ": it wants another client certificate than the configured one (tls.cert, tls.key)"
                     : "");
    } else if (code == SSL_R_WRONG_VERSION_NUMBER || code == SSL_R_HTTP_REQUEST)
        snprintf(s->why, sizeof s->why, "the other side does not speak TLS (%s)", reason);
    else
        snprintf(s->why, sizeof s->why, "%s", reason);
}

/* --- the session --- */

static void host_expect(struct tls_session *s, const char *host)
{
    unsigned char bytes[16];
    bool numeric = inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
    snprintf(s->host, sizeof s->host, "%s", host);
    if (!numeric) SSL_set_tlsext_host_name(s->ssl, host);
    if (s->trust != TLS_TRUST_CA) return;
    X509_VERIFY_PARAM *param = SSL_get0_param(s->ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    int set =
        numeric ? X509_VERIFY_PARAM_set1_ip_asc(param, host) : X509_VERIFY_PARAM_set1_host(param, host, 0);
    INVARIANT(set == 1);
}

/* Files the result of an operation; true: another may follow. */
static bool went_on(struct tls_session *s, int rc)
{
    if (rc > 0) return true;
    switch (SSL_get_error(s->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return false;
    case SSL_ERROR_ZERO_RETURN:
        s->state = TLS_ENDED;
        s->in = slice_of(NULL, 0);
        return false;
    default:
        tls_failed(s);
        return false;
    }
}

static void handshake_step(struct tls_session *s)
{
    ERR_clear_error();
    if (went_on(s, SSL_do_handshake(s->ssl))) s->state = TLS_READY;
}

struct tls_session *tls_session_create(struct tls_context *c, const char *host)
{
    PRE((host == NULL) == (tls_context_side(c) == TLS_SERVER));
    struct tls_session *s = heap_zalloc(sizeof *s);
    s->ssl = tls_context_ssl(c);
    s->trust = tls_context_trust(c);
    s->server = host == NULL;
    BIO *wire = wire_create(s);
    SSL_set_bio(s->ssl, wire, wire);
    if (s->server) {
        SSL_set_accept_state(s->ssl);
        SSL_set_app_data(s->ssl, s);
        SSL_set_info_callback(s->ssl, on_info);
        SSL_set_msg_callback(s->ssl, on_message);
        SSL_set_msg_callback_arg(s->ssl, s);
    } else {
        SSL_set_connect_state(s->ssl);
        host_expect(s, host);
        handshake_step(s);
    }
    return s;
}

void tls_session_destroy(struct tls_session **s)
{
    if (*s == NULL) return;
    SSL_free((*s)->ssl);
    ERR_clear_error();
    buf_free(&(*s)->out);
    heap_free(*s);
    *s = NULL;
}

size_t tls_session_take(struct tls_session *s, const char *wire, size_t n, char *text)
{
    size_t got = 0, now, room = n + TLS_HELD_MAX;
    if (s->state == TLS_ENDED || s->state == TLS_FAILED) return 0;
    s->in = slice_of(wire, n);
    if (s->state == TLS_GREETING) handshake_step(s);
    while (s->state == TLS_READY) {
        ERR_clear_error();
        PRE(got < room);
        if (!went_on(s, SSL_read_ex(s->ssl, text + got, room - got, &now))) break;
        got += now;
    }
    s->new_keys_bytes += got;
    if (s->new_keys_bytes >= NEW_KEYS_AFTER_BYTES) {
        s->new_keys = 0;
        s->new_keys_bytes = 0;
    }
    if (s->beyond != NULL && s->state == TLS_READY) {
        s->state = TLS_FAILED;
        s->in = slice_of(NULL, 0);
        snprintf(s->why, sizeof s->why, "%s", s->beyond);
    }
    POST(s->in.n == 0);
    return got;
}

void tls_session_put(struct tls_session *s, struct slice text)
{
    size_t done;
    PRE(s->state != TLS_GREETING && !s->said_end);
    ERR_clear_error();
    if (text.n == 0 || s->state == TLS_FAILED) return;
    (void)went_on(s, SSL_write_ex(s->ssl, text.p, text.n, &done));
}

void tls_session_end(struct tls_session *s)
{
    if (s->said_end || s->state == TLS_GREETING || s->state == TLS_FAILED) return;
    s->said_end = true;
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl); /* 0: the other side has not; we do not wait for it */
    ERR_clear_error();
}

struct buf *tls_session_out(struct tls_session *s)
{
    return &s->out;
}
enum tls_state tls_session_state(const struct tls_session *s)
{
    return s->state;
}
const char *tls_session_why(const struct tls_session *s)
{
    return s->why;
}
bool tls_session_refused(const struct tls_session *s)
{
    return s->refused;
}
