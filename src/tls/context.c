/* tls/context.c - files to an SSL_CTX. Source: openssl's man pages SSL_CTX_new(3), SSL_CTX_use_certificate(3). */
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stats.h"
#include "tls/inside.h"
#include "tls/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20" /* those of TLS 1.3 are all fit */

struct tls_context {
    enum tls_side side;
    enum tls_trust trust;
    char *cert, *key, *ca; /* names of files, NULL: none */
    pthread_mutex_t lock;  /* of ctx */
    SSL_CTX *ctx;
    unsigned read_n; /* times */
};

void tls_error_text(char *out, size_t size)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    snprintf(out, size, "%s", reason != NULL ? reason : "no reason is known");
    ERR_clear_error();
}

/* --- the files --- */

struct fault {
    enum tls_file file;
    struct error *e;
};

static enum err fault_tell(const struct fault *f, const char *what, const char *mend)
{
    static const char *const names[] = {"the certificate", "the key", "the authorities"};
    return error_set(f->e, ERR_CONFIG, "%s: %s: %s", names[f->file], what, mend);
}

static enum err openssl_refuse(const struct fault *f, const char *mend)
{
    char why[120];
    tls_error_text(why, sizeof why);
    return fault_tell(f, why, mend);
}

static enum err file_check(const char *path, const struct fault *f)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return fault_tell(f, strerror(errno), "name a PEM file that tallyd's user may read");
    int rc = fstat(fd, &st);
    close(fd);
    if (rc != 0 || !S_ISREG(st.st_mode)) return fault_tell(f, "that is no file", "name a PEM file");
    if (f->file == TLS_FILE_KEY && (st.st_mode & (S_IWGRP | S_IRWXO)) != 0)
        return fault_tell(
            f,
            "users other than its owner and its group may read it, or users other than its owner "
            "may change it",
            "run chmod 640 on it, or 600");
    return ERR_NONE;
}

/* No passphrase can be typed when a service starts. */
static int passphrase_refuse(char *out, int size, int writing, void *asked)
{
    (void)out, (void)size, (void)writing;
    *(bool *)asked = true;
    return 0;
}

static enum err key_load(SSL_CTX *ctx, const char *path, struct fault *f)
{
    bool asked = false;
    f->file = TLS_FILE_KEY;
    if (file_check(path, f) != ERR_NONE) return f->e->code;
    SSL_CTX_set_default_passwd_cb(ctx, passphrase_refuse);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    int rc = SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM);
    bool other_kind = rc == 1 && SSL_CTX_check_private_key(ctx) != 1;
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    if (rc == 1 && !other_kind) return ERR_NONE;
    if (asked)
        return fault_tell(
            f, "it has a passphrase, which tallyd cannot ask for",
            "write it without one (openssl pkey -in old -out new), where only tallyd's user may read it");
    if (other_kind || ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
        return fault_tell(f, "it is not the key of the certificate",
                          "name the two files that were made together");
    return openssl_refuse(f, "a private key in PEM is expected");
}

static enum err own_load(const struct tls_context *c, SSL_CTX *ctx, struct fault *f)
{
    f->file = TLS_FILE_CERT;
    if (c->cert == NULL) return ERR_NONE;
    if (file_check(c->cert, f) != ERR_NONE) return f->e->code;
    if (SSL_CTX_use_certificate_chain_file(ctx, c->cert) != 1)
        return openssl_refuse(f, "a certificate in PEM is expected, with those between it and its authority");
    return key_load(ctx, c->key, f);
}

static enum err ca_load(const struct tls_context *c, SSL_CTX *ctx, struct fault *f)
{
    f->file = TLS_FILE_CA;
    if (c->ca == NULL) {
        if (c->side == TLS_CLIENT && c->trust == TLS_TRUST_CA) SSL_CTX_set_default_verify_paths(ctx);
        return ERR_NONE;
    }
    if (file_check(c->ca, f) != ERR_NONE) return f->e->code;
    bool good = SSL_CTX_load_verify_locations(ctx, c->ca, NULL) == 1;
    if (good && c->side == TLS_SERVER) { /* by which a client with several certificates chooses */
        STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(c->ca);
        good = names != NULL;
        if (good) SSL_CTX_set_client_CA_list(ctx, names);
    }
    return good ? ERR_NONE : openssl_refuse(f, "certificates of authorities in PEM are expected");
}

/* --- trust --- */

static int chain_verify(X509_STORE_CTX *store, void *arg)
{
    const struct tls_context *c = arg;
    return c->trust == TLS_TRUST_ANYBODY ? 1 : X509_verify_cert(store);
}

/* --- all of it --- */

/* Tickets are encrypted by a key of this context, so none is valid after a reload. */
static void protocol_set(SSL_CTX *ctx)
{
    static const unsigned char name[] = "tallyd";
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(ctx, CIPHERS_12);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(ctx, name, sizeof name - 1);
}

static enum err ctx_load(struct tls_context *c, SSL_CTX **out, enum tls_file *which, struct error *e)
{
    struct fault fault = {.e = e};
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(c->side == TLS_SERVER ? TLS_server_method() : TLS_client_method());
    INVARIANT(ctx != NULL);
    protocol_set(ctx);
    int mode = SSL_VERIFY_PEER;
    if (c->side == TLS_SERVER)
        mode = c->ca == NULL ? SSL_VERIFY_NONE : mode | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(ctx, mode, NULL);
    SSL_CTX_set_cert_verify_callback(ctx, chain_verify, c);
    enum err code = own_load(c, ctx, &fault);
    if (code == ERR_NONE) code = ca_load(c, ctx, &fault);
    ERR_clear_error();
    if (which != NULL) *which = fault.file;
    *out = ctx;
    if (code == ERR_NONE) return ERR_NONE;
    SSL_CTX_free(ctx);
    return code;
}

static char *copy(const char *text)
{
    return text == NULL ? NULL : heap_strdup(text);
}

enum err tls_context_create(enum tls_side side, const struct tls_files *files, enum tls_trust trust,
                            struct tls_context **out, enum tls_file *which, struct error *e)
{
    PRE((files->cert == NULL) == (files->key == NULL));
    PRE(side == TLS_CLIENT || (files->cert != NULL && trust == TLS_TRUST_CA));
    struct tls_context *c = heap_zalloc(sizeof *c);
    c->side = side;
    c->trust = trust;
    c->cert = copy(files->cert);
    c->key = copy(files->key);
    c->ca = copy(files->ca);
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    c->read_n = 1;
    if (ctx_load(c, &c->ctx, which, e) == ERR_NONE) return ERR_NONE;
    c->ctx = NULL;
    tls_context_destroy(out);
    return e->code;
}

/* In s since 1970; INT64_MAX: no certificate. */
static int64_t ends_s(const SSL_CTX *ctx)
{
    struct tm tm;
    const X509 *own = SSL_CTX_get0_certificate(ctx);
    if (own == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(own), &tm) != 1) return INT64_MAX;
    return (int64_t)timegm(&tm);
}

enum err tls_context_reload(struct tls_context *c, struct error *e)
{
    SSL_CTX *fresh, *before;
    if (ctx_load(c, &fresh, NULL, e) != ERR_NONE) return e->code;
    if (ends_s(fresh) <= wall_ms() / 1000) {
        SSL_CTX_free(fresh);
        return fault_tell(&(struct fault){TLS_FILE_CERT, e}, "it has expired",
                          "put a renewed one in its place");
    }
    pthread_mutex_lock(&c->lock);
    before = c->ctx;
    c->ctx = fresh;
    c->read_n++;
    pthread_mutex_unlock(&c->lock);
    SSL_CTX_free(before);
    return ERR_NONE;
}

void tls_context_destroy(struct tls_context **context)
{
    struct tls_context *c = *context;
    if (c == NULL) return;
    SSL_CTX_free(c->ctx);
    pthread_mutex_destroy(&c->lock);
    heap_free(c->cert);
    heap_free(c->key);
    heap_free(c->ca);
    heap_free(c);
    *context = NULL;
}

int64_t tls_context_expires_s(struct tls_context *c)
{
    pthread_mutex_lock(&c->lock);
    int64_t s = ends_s(c->ctx);
    pthread_mutex_unlock(&c->lock);
    return s;
}

struct tls_files tls_context_files(const struct tls_context *c)
{
    return (struct tls_files){.cert = c->cert, .key = c->key, .ca = c->ca};
}
unsigned tls_context_read_n(const struct tls_context *c)
{
    return c->read_n;
}
enum tls_side tls_context_side(const struct tls_context *c)
{
    return c->side;
}
enum tls_trust tls_context_trust(const struct tls_context *c)
{
    return c->trust;
}

SSL *tls_context_ssl(struct tls_context *c)
{
    pthread_mutex_lock(&c->lock);
    SSL *ssl = SSL_new(c->ctx);
    pthread_mutex_unlock(&c->lock);
    INVARIANT(ssl != NULL);
    return ssl;
}

/* One limit for all addresses: a flood goes to any of them. */

void tls_refused(const char *door, const char *peer, const char *why)
{
    static struct log_seldom line;
    unsigned times;
    STAT_ADD(tls_refused, 1);
    if (log_seldom(&line, &times))
        log_event(LOG_WARN, "tls_refused", "door=%s peer=%s times=%u why=%s", door, peer, times, LOGQ(why));
}
