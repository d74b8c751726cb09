/* Sessions, both ends in memory: however the bytes are cut, the same text comes out; a client that may not connect is refused, and
 * told why. OpenSSL itself, outside of the room, speaks old or odd TLS here. */
#include "lib/certificates.h"
#include "lib/unit.h"

#include "base/heap.h"
#include "tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

static char dir[] = "/tmp/tly-tls-XXXXXX";
static struct certificate ca, other_ca, server_pair, client_pair;
static struct tls_context *server_context, *client_context;

static struct tls_context *context(enum tls_side side, const struct certificate *own, const char *ca_path,
                                   enum tls_trust trust)
{
    struct tls_context *c;
    struct error e;
    const struct tls_files files = {.cert = own == NULL ? NULL : own->cert_path,
                                    .key = own == NULL ? NULL : own->key_path,
                                    .ca = ca_path};
    if (tls_context_create(side, &files, trust, &c, NULL, &e) != ERR_NONE) fail_msg("%s", e.text);
    return c;
}

static int files_make(void **state)
{
    if (mkdtemp(dir) == NULL) return -1;
    ca = certificate_make(dir, "ca", NULL, 30, NULL);
    other_ca = certificate_make(dir, "other", NULL, 30, NULL);
    server_pair = certificate_make(dir, "server", &ca, 30, "DNS:shop.example,IP:127.0.0.1");
    client_pair = certificate_make(dir, "client", &ca, 30, NULL);
    server_context = context(TLS_SERVER, &server_pair, NULL, TLS_TRUST_CA);
    client_context = context(TLS_CLIENT, NULL, ca.cert_path, TLS_TRUST_CA);
    return 0;
}

static void file_remove(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    remove(path);
}

static int files_remove(void **state)
{
    static const char *const names[] = {"ca", "other", "server", "client", "old", "wrong"};
    tls_context_destroy(&server_context);
    tls_context_destroy(&client_context);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s.pem", names[i]);
        file_remove(name);
        snprintf(name, sizeof name, "%s.key", names[i]);
        file_remove(name);
    }
    certificate_free(&ca);
    certificate_free(&other_ca);
    certificate_free(&server_pair);
    certificate_free(&client_pair);
    return remove(dir);
}

/* --- a wire --- */

struct pair {
    struct tls_session *client, *server;
    struct buf at_client, at_server; /* text that came out there */
};

/* Takes n bytes of what `from` has to send, at most `piece` at a time. */
static void carry(struct tls_session *from, struct tls_session *to, struct buf *text, size_t n, size_t piece)
{
    struct buf *out = tls_session_out(from);
    while (n > 0) {
        size_t now = n < piece ? n : piece;
        char *room = buf_reserve(text, now + TLS_HELD_MAX);
        text->n += tls_session_take(to, out->p, now, room);
        buf_drop(out, now);
        n -= now;
    }
}

static void carry_all(struct pair *p, size_t piece)
{
    while (tls_session_out(p->client)->n > 0 || tls_session_out(p->server)->n > 0) {
        carry(p->client, p->server, &p->at_server, tls_session_out(p->client)->n, piece);
        carry(p->server, p->client, &p->at_client, tls_session_out(p->server)->n, piece);
    }
}

static struct pair pair_open(struct tls_context *client, struct tls_context *server, const char *host,
                             size_t piece)
{
    struct pair p = {.client = tls_session_create(client, host), .server = tls_session_create(server, NULL)};
    carry_all(&p, piece);
    return p;
}

static struct pair pair_ready(size_t piece)
{
    struct pair p = pair_open(client_context, server_context, "shop.example", piece);
    assert_int_equal(tls_session_state(p.client), TLS_READY);
    assert_int_equal(tls_session_state(p.server), TLS_READY);
    return p;
}

static void pair_close(struct pair *p)
{
    tls_session_destroy(&p->client);
    tls_session_destroy(&p->server);
    buf_free(&p->at_client);
    buf_free(&p->at_server);
}

/* --- bytes --- */

UNIT(same_text_in_pieces_of_any_size)
{
    for (size_t piece = 1; piece < 3000; piece = piece < 40 ? piece + 1 : piece * 3) {
        struct pair p = pair_ready(piece);
        tls_session_put(p.client, SLICE("PING\r\n"));
        tls_session_put(p.client, SLICE("ECHO x\r\n"));
        tls_session_put(p.server, SLICE("+PONG\r\n"));
        carry_all(&p, piece);
        assert_slice(buf_slice(&p.at_server), "PING\r\nECHO x\r\n");
        assert_slice(buf_slice(&p.at_client), "+PONG\r\n");
        pair_close(&p);
    }
}

UNIT(same_text_at_every_split)
{
    struct pair p = pair_ready(SIZE_MAX);
    size_t whole = 0;
    for (size_t split = 0; split <= whole; split++) {
        tls_session_put(p.client, SLICE("HINCRBY s1:views 7 1\r\n"));
        tls_session_put(p.client, SLICE("HINCRBY s1:views 8 2\r\n"));
        whole = tls_session_out(p.client)->n;
        carry(p.client, p.server, &p.at_server, split, SIZE_MAX);
        carry(p.client, p.server, &p.at_server, whole - split, SIZE_MAX);
        assert_slice(buf_slice(&p.at_server), "HINCRBY s1:views 7 1\r\nHINCRBY s1:views 8 2\r\n");
        buf_reset(&p.at_server);
    }
    assert_true(whole > 80);
    pair_close(&p);
}

/* The bytes held back of a record, and the room that a reader must have for them. */
UNIT(much_text)
{
    struct pair p = pair_ready(SIZE_MAX);
    size_t n = 1 << 20;
    char *text = heap_alloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(i * 7 + i / 251);
    static const size_t pieces[] = {65536, 16384, 16385, 4096, 100000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        tls_session_put(p.client, slice_of(text, n));
        carry_all(&p, pieces[i]);
        assert_int_equal(p.at_server.n, n);
        assert_memory_equal(p.at_server.p, text, n);
        buf_reset(&p.at_server);
    }
    heap_free(text);
    pair_close(&p);
}

UNIT(an_end_is_told_from_a_cut)
{
    struct pair p = pair_ready(SIZE_MAX);
    tls_session_put(p.client, SLICE("half"));
    carry(p.client, p.server, &p.at_server, tls_session_out(p.client)->n - 1, 1);
    assert_int_equal(p.at_server.n, 0); /* a record that is not whole says nothing */
    assert_int_equal(tls_session_state(p.server), TLS_READY);
    carry_all(&p, 1);
    tls_session_end(p.client);
    tls_session_end(p.client);
    carry_all(&p, 1);
    assert_int_equal(tls_session_state(p.server), TLS_ENDED);
    tls_session_put(p.server, SLICE("answer")); /* it may still be answered */
    assert_true(tls_session_out(p.server)->n > 6);
    char room[TLS_HELD_MAX + 4];
    assert_int_equal(tls_session_take(p.server, "more", 4, room), 0);
    pair_close(&p);
}

UNIT(a_changed_byte_ends_it)
{
    struct pair p = pair_ready(SIZE_MAX);
    tls_session_put(p.client, SLICE("HINCRBY s1:views 7 1\r\n"));
    struct buf *out = tls_session_out(p.client);
    out->p[out->n - 5] ^= 1;
    carry(p.client, p.server, &p.at_server, out->n, SIZE_MAX);
    assert_int_equal(p.at_server.n, 0);
    assert_int_equal(tls_session_state(p.server), TLS_FAILED);
    assert_non_null(strstr(tls_session_why(p.server), "bad record mac"));
    tls_session_put(p.server, SLICE("nobody hears this"));
    tls_session_end(p.server);
    pair_close(&p);
}

UNIT(who_speaks_no_tls)
{
    static const char *const said[] = {"PING\r\n\r\n\r\n", "*1\r\n$4\r\nPING\r\n",
                                       "GET / HTTP/1.1\r\nHost: x\r\n\r\n"};
    char room[TLS_HELD_MAX + 100];
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct tls_session *s = tls_session_create(server_context, NULL);
        assert_int_equal(tls_session_take(s, said[i], strlen(said[i]), room), 0);
        assert_int_equal(tls_session_state(s), TLS_FAILED);
        assert_non_null(strstr(tls_session_why(s), "does not speak TLS"));
        tls_session_destroy(&s);
    }
    struct tls_session *c = tls_session_create(client_context, "shop.example");
    assert_int_equal(tls_session_take(c, "-ERR Protocol error\r\n", 21, room), 0);
    assert_int_equal(tls_session_state(c), TLS_FAILED);
    assert_false(tls_session_refused(c));
    tls_session_destroy(&c);
}

/* --- which clients may connect --- */

static void client_refuses(struct tls_context *client, struct tls_context *server, const char *host,
                           const char *why)
{
    struct pair p = pair_open(client, server, host, SIZE_MAX);
    assert_int_equal(tls_session_state(p.client), TLS_FAILED);
    assert_int_equal(tls_session_state(p.server), TLS_FAILED);
    assert_true(tls_session_refused(p.client));
    if (strstr(tls_session_why(p.client), why) == NULL) fail_msg("%s", tls_session_why(p.client));
    assert_null(strchr(tls_session_why(p.client), ';')); /* what follows one is meant for clients of tallyd */
    pair_close(&p);
}

UNIT(certificates_are_verified)
{
    struct certificate old = certificate_make(dir, "old", &ca, -1, "DNS:shop.example");
    struct tls_context *expired = context(TLS_SERVER, &old, NULL, TLS_TRUST_CA);
    struct tls_context *stranger = context(TLS_CLIENT, NULL, other_ca.cert_path, TLS_TRUST_CA);
    struct tls_context *system = context(TLS_CLIENT, NULL, NULL, TLS_TRUST_CA);
    struct tls_context *anybody = context(TLS_CLIENT, NULL, NULL, TLS_TRUST_ANYBODY);
    client_refuses(client_context, server_context, "elsewhere.example",
                   "hostname mismatch): connect by a name");
    client_refuses(client_context, server_context, "10.0.0.1", "IP address mismatch): connect by a name");
    client_refuses(client_context, expired, "shop.example", "certificate has expired): have it renewed");
    client_refuses(stranger, server_context, "shop.example",
                   "): name the file of the authority that signed it");
    client_refuses(system, server_context, "shop.example",
                   "): name the file of the authority that signed it");
    struct pair p = pair_open(client_context, server_context, "127.0.0.1", SIZE_MAX);
    assert_int_equal(tls_session_state(p.client), TLS_READY);
    pair_close(&p);
    p = pair_open(anybody, expired, "elsewhere.example", SIZE_MAX);
    assert_int_equal(tls_session_state(p.client), TLS_READY);
    pair_close(&p);
    tls_context_destroy(&expired);
    tls_context_destroy(&stranger);
    tls_context_destroy(&system);
    tls_context_destroy(&anybody);
    certificate_free(&old);
}

/* All of a name is compared, also of one that is longer than any can be. */
UNIT(a_long_name_is_not_cut)
{
    char alt[300] = "DNS:", host[300];
    memset(alt + 4, 'a', 255);
    struct certificate cut = certificate_make(dir, "wrong", &ca, 20, alt);
    struct tls_context *server = context(TLS_SERVER, &cut, NULL, TLS_TRUST_CA);
    snprintf(host, sizeof host, "%s.example", alt + 4);
    client_refuses(client_context, server, host, "hostname mismatch");
    tls_context_destroy(&server);
    certificate_free(&cut);
}

UNIT(clients_show_theirs)
{
    struct tls_context *strict = context(TLS_SERVER, &server_pair, ca.cert_path, TLS_TRUST_CA);
    struct tls_context *elsewhere = context(TLS_SERVER, &server_pair, other_ca.cert_path, TLS_TRUST_CA);
    struct tls_context *known = context(TLS_CLIENT, &client_pair, ca.cert_path, TLS_TRUST_CA);
    struct pair p = pair_open(known, strict, "shop.example", SIZE_MAX);
    assert_int_equal(tls_session_state(p.server), TLS_READY);
    pair_close(&p);
    p = pair_open(client_context, strict, "shop.example", SIZE_MAX);
    assert_int_equal(tls_session_state(p.server), TLS_FAILED);
    assert_non_null(strstr(tls_session_why(p.server), "peer did not return a certificate"));
    assert_int_equal(tls_session_state(p.client), TLS_FAILED);
    assert_true(tls_session_refused(p.client));
    assert_non_null(strstr(tls_session_why(p.client), "it wants another client certificate"));
    pair_close(&p);
    p = pair_open(known, elsewhere, "shop.example", SIZE_MAX);
    assert_int_equal(tls_session_state(p.server), TLS_FAILED);
    assert_non_null(strstr(tls_session_why(p.server), "the certificate of the client is refused"));
    pair_close(&p);
    tls_context_destroy(&strict);
    tls_context_destroy(&elsewhere);
    tls_context_destroy(&known);
}

/* --- OpenSSL as a client, as old as it can be --- */

struct raw {
    SSL_CTX *ctx;
    SSL *ssl;
    struct tls_session *server;
    struct buf text;
};

static struct raw raw_open(int version)
{
    struct raw r = {.ctx = SSL_CTX_new(TLS_client_method()),
                    .server = tls_session_create(server_context, NULL)};
    SSL_CTX_set_security_level(r.ctx, 0);
    SSL_CTX_set_min_proto_version(r.ctx, version);
    SSL_CTX_set_max_proto_version(r.ctx, version);
    r.ssl = SSL_new(r.ctx);
    SSL_set_bio(r.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(r.ssl);
    return r;
}

static void raw_carry(struct raw *r)
{
    char bytes[32768];
    int n;
    while ((n = BIO_read(SSL_get_wbio(r->ssl), bytes, sizeof bytes)) > 0)
        r->text.n +=
            tls_session_take(r->server, bytes, (size_t)n, buf_reserve(&r->text, (size_t)n + TLS_HELD_MAX));
    struct buf *out = tls_session_out(r->server);
    if (out->n > 0) BIO_write(SSL_get_rbio(r->ssl), out->p, (int)out->n);
    buf_reset(out);
}

static int raw_greet(struct raw *r)
{
    int rc = 0;
    for (int i = 0; i < 6 && rc != 1; i++) {
        rc = SSL_do_handshake(r->ssl);
        raw_carry(r);
    }
    return rc;
}

static void raw_close(struct raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->ctx);
    tls_session_destroy(&r->server);
    buf_free(&r->text);
    ERR_clear_error();
}

UNIT(old_versions_are_refused)
{
    static const int refused[] = {TLS1_VERSION, TLS1_1_VERSION}, taken[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        struct raw r = raw_open(refused[i]);
        assert_int_not_equal(raw_greet(&r), 1);
        assert_int_equal(tls_session_state(r.server), TLS_FAILED);
        assert_non_null(strstr(tls_session_why(r.server), "unsupported protocol"));
        raw_close(&r);
        r = raw_open(taken[i]);
        assert_int_equal(raw_greet(&r), 1);
        assert_int_equal(tls_session_state(r.server), TLS_READY);
        assert_non_null(strstr(SSL_get_cipher(r.ssl), i == 0 ? "ECDHE" : "TLS_"));
        raw_close(&r);
    }
}

UNIT(no_handshake_comes_twice)
{
    struct raw r = raw_open(TLS1_2_VERSION);
    assert_int_equal(raw_greet(&r), 1);
    assert_int_equal(SSL_renegotiate(r.ssl), 1);
    assert_int_not_equal(raw_greet(&r), 1);
    assert_int_equal(r.text.n, 0);
    assert_int_equal(tls_session_state(r.server),
                     TLS_FAILED); /* or each try would be answered, read or not */
    assert_non_null(strstr(tls_session_why(r.server), "a second handshake"));
    raw_close(&r);
}

/* A record that the client sends, as the server takes it; the answer stays in the output, as when the client does not read. */
static void raw_send(struct raw *r)
{
    char bytes[32768];
    int n = BIO_read(SSL_get_wbio(r->ssl), bytes, sizeof bytes);
    assert_true(n > 0);
    r->text.n +=
        tls_session_take(r->server, bytes, (size_t)n, buf_reserve(&r->text, (size_t)n + TLS_HELD_MAX));
}

static void new_keys_ask(struct raw *r, int times)
{
    for (int i = 0; i < times; i++) {
        assert_int_equal(SSL_key_update(r->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        SSL_do_handshake(r->ssl);
        raw_send(r);
    }
}

/* Each is answered, read or not: some are well, and some more for each MiB. */
UNIT(new_keys_are_not_asked_for_for_ever)
{
    static const char text[16384];
    struct raw r = raw_open(TLS1_3_VERSION);
    assert_int_equal(raw_greet(&r), 1);
    SSL_read(r.ssl, (char[1]){0}, 1);
    for (int round = 0; round < 3; round++) {
        new_keys_ask(&r, 30);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(SSL_write(r.ssl, text, sizeof text), sizeof text);
            raw_send(&r);
        }
        assert_int_equal(tls_session_state(r.server), TLS_READY);
    }
    assert_int_equal(r.text.n, 3 << 20);
    new_keys_ask(&r, 1000);
    assert_int_equal(tls_session_state(r.server), TLS_FAILED);
    assert_non_null(strstr(tls_session_why(r.server), "new keys too often"));
    assert_true(tls_session_out(r.server)->n < 5000);
    raw_close(&r);
}

/* --- files --- */

static void create_refuses(const char *cert, const char *key, const char *ca_path, enum tls_file file,
                           const char *why)
{
    struct tls_context *c = NULL;
    enum tls_file which = (enum tls_file)99;
    struct error e;
    const struct tls_files files = {.cert = cert, .key = key, .ca = ca_path};
    assert_int_equal(tls_context_create(TLS_SERVER, &files, TLS_TRUST_CA, &c, &which, &e), ERR_CONFIG);
    assert_null(c);
    assert_int_equal(which, file);
    if (strstr(e.text, why) == NULL) fail_msg("%s", e.text);
    assert_null(strstr(e.text, dir));
}

static void key_write(const char *path, EVP_PKEY *key)
{
    FILE *f = fopen(path, "we");
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

/* OpenSSL has a place for each kind of key, and takes one beside a certificate of another kind without a word. */
UNIT(key_of_another_kind)
{
    struct certificate pair = certificate_make(dir, "wrong", &ca, 20, "DNS:shop.example");
    struct tls_context *door = context(TLS_SERVER, &pair, NULL, TLS_TRUST_CA);
    EVP_PKEY *rsa = EVP_RSA_gen(2048);
    struct error e;
    key_write(pair.key_path, rsa);
    create_refuses(pair.cert_path, pair.key_path, NULL, TLS_FILE_KEY, "it is not the key of the certificate");
    assert_int_equal(tls_context_reload(door, &e), ERR_CONFIG);
    struct pair p = pair_open(client_context, door, "shop.example", SIZE_MAX);
    assert_int_equal(tls_session_state(p.client), TLS_READY);
    pair_close(&p);
    tls_context_destroy(&door);
    EVP_PKEY_free(rsa);
    certificate_free(&pair);
}

UNIT(files_are_checked)
{
    char sealed[200];
    snprintf(sealed, sizeof sealed, "%s/wrong.key", dir);
    FILE *f = fopen(sealed, "we");
    assert_int_equal(
        PEM_write_PrivateKey(f, server_pair.key, EVP_aes_128_cbc(), NULL, 0, NULL, (void *)"word"), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(sealed, 0600), 0);
    create_refuses(server_pair.cert_path, sealed, NULL, TLS_FILE_KEY, "it has a passphrase");
    create_refuses("/nowhere", server_pair.key_path, NULL, TLS_FILE_CERT, "the certificate: No such file");
    create_refuses(server_pair.key_path, server_pair.key_path, NULL, TLS_FILE_CERT,
                   "a certificate in PEM is expected");
    create_refuses(server_pair.cert_path, dir, NULL, TLS_FILE_KEY, "the key: that is no file");
    create_refuses(server_pair.cert_path, server_pair.cert_path, NULL, TLS_FILE_KEY,
                   "users other than its owner");
    create_refuses(server_pair.cert_path, client_pair.key_path, NULL, TLS_FILE_KEY,
                   "it is not the key of the certificate");
    create_refuses(server_pair.cert_path, server_pair.key_path, server_pair.key_path, TLS_FILE_CA,
                   "certificates of authorities in PEM are expected");
    assert_int_equal(chmod(server_pair.key_path, 0640), 0);
    struct tls_context *c = context(TLS_SERVER, &server_pair, NULL, TLS_TRUST_CA);
    tls_context_destroy(&c);
    assert_int_equal(chmod(server_pair.key_path, 0644), 0);
    create_refuses(server_pair.cert_path, server_pair.key_path, NULL, TLS_FILE_KEY,
                   "users other than its owner");
    assert_int_equal(chmod(server_pair.key_path, 0600), 0);
}

UNIT(reload_takes_what_is_fit)
{
    struct certificate first = certificate_make(dir, "wrong", &ca, 20, "DNS:shop.example");
    struct tls_context *door = context(TLS_SERVER, &first, NULL, TLS_TRUST_CA);
    struct pair before = pair_open(client_context, door, "shop.example", SIZE_MAX);
    int64_t first_s = tls_context_expires_s(door);
    struct error e;
    certificate_free(&first);
    struct certificate old = certificate_make(dir, "wrong", &ca, -1, "DNS:shop.example");
    assert_int_equal(tls_context_reload(door, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "the certificate: it has expired"));
    assert_int_equal(tls_context_expires_s(door), first_s);
    certificate_free(&old);
    assert_int_equal(truncate(first.key_path, 10), 0);
    assert_int_equal(tls_context_reload(door, &e), ERR_CONFIG);
    struct certificate fresh = certificate_make(dir, "wrong", &ca, 25, "DNS:shop.example");
    assert_int_equal(tls_context_reload(door, &e), ERR_NONE);
    assert_true(tls_context_expires_s(door) > first_s);
    tls_session_put(before.client, SLICE("still here")); /* a connected client stays connected */
    carry_all(&before, SIZE_MAX);
    assert_slice(buf_slice(&before.at_server), "still here");
    struct pair after = pair_open(client_context, door, "shop.example", SIZE_MAX);
    assert_int_equal(tls_session_state(after.server), TLS_READY);
    pair_close(&before);
    pair_close(&after);
    tls_context_destroy(&door);
    certificate_free(&fresh);
}

UNITS_IN(files_make, files_remove)
