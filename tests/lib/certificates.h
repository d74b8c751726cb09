/* lib/certificates.h - an authority of the test's own, and certificates of it, as PEM files: by OpenSSL, in C, so that a unit
 * test needs no command. */
#ifndef LIB_CERTIFICATES_H
#define LIB_CERTIFICATES_H

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct certificate {
    X509 *x509;
    EVP_PKEY *key;
    char cert_path[128], key_path[128];
};

static inline void certificate_extend(X509 *x, X509 *by, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, by, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    if (e == NULL || X509_add_ext(x, e, -1) != 1) abort();
    X509_EXTENSION_free(e);
}

static inline void certificate_write(struct certificate *c, const char *dir, const char *name)
{
    snprintf(c->cert_path, sizeof c->cert_path, "%s/%s.pem", dir, name);
    snprintf(c->key_path, sizeof c->key_path, "%s/%s.key", dir, name);
    FILE *f = fopen(c->cert_path, "we");
    if (f == NULL || PEM_write_X509(f, c->x509) != 1 || fclose(f) != 0) abort();
    f = fopen(c->key_path, "we");
    if (f == NULL || PEM_write_PrivateKey(f, c->key, NULL, NULL, 0, NULL, NULL) != 1 || fclose(f) != 0)
        abort();
    if (chmod(c->key_path, 0600) != 0) abort();
}

/* by NULL: an authority. days: from now, negative: it has expired. alt: "DNS:shop.example", NULL: none. */
static inline struct certificate certificate_make(const char *dir, const char *name, struct certificate *by,
                                                  int days, const char *alt)
{
    static long serial = 1;
    struct certificate c = {.x509 = X509_new(), .key = EVP_EC_gen("P-256")};
    X509_set_version(c.x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c.x509), serial++);
    X509_gmtime_adj(X509_getm_notBefore(c.x509), -10 * 24 * 3600L);
    X509_gmtime_adj(X509_getm_notAfter(c.x509), days * 24 * 3600L);
    X509_set_pubkey(c.x509, c.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c.x509), "CN", MBSTRING_ASC, (const unsigned char *)name,
                               -1, -1, 0);
    X509_set_issuer_name(c.x509, X509_get_subject_name(by == NULL ? c.x509 : by->x509));
    if (by == NULL) certificate_extend(c.x509, c.x509, NID_basic_constraints, "critical,CA:TRUE");
    if (alt != NULL) certificate_extend(c.x509, by->x509, NID_subject_alt_name, alt);
    if (X509_sign(c.x509, by == NULL ? c.key : by->key, EVP_sha256()) == 0) abort();
    certificate_write(&c, dir, name);
    return c;
}

static inline void certificate_free(struct certificate *c)
{
    X509_free(c->x509);
    EVP_PKEY_free(c->key);
}

#endif
