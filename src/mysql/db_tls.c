/* mysql/db_tls.c - see db_tls.h. Oracle's library has MYSQL_OPT_SSL_MODE, Connector/C has two options instead. With
 * either, a server without TLS gets no connection, never a plain one. */
#include "mysql/db_tls.h"

#include <string.h>

static void files_set(const struct db_config *c, MYSQL *mysql)
{
    if (c->tls_ca != NULL) mysql_options(mysql, MYSQL_OPT_SSL_CA, c->tls_ca);
    if (c->tls_cert != NULL) mysql_options(mysql, MYSQL_OPT_SSL_CERT, c->tls_cert);
    if (c->tls_key != NULL) mysql_options(mysql, MYSQL_OPT_SSL_KEY, c->tls_key);
    mysql_options(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
}

void db_tls_set(const struct db_config *c, MYSQL *mysql)
{
#ifdef MARIADB_PACKAGE_VERSION_ID
    my_bool on = 1, verify = c->tls == DB_TLS_VERIFIED;
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify); /* always: 3.4 would begin with on */
    if (c->tls == DB_TLS_NONE) return;
    files_set(c, mysql);
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
#else
    if (c->tls == DB_TLS_NONE) return;
    unsigned mode = c->tls == DB_TLS_VERIFIED ? SSL_MODE_VERIFY_IDENTITY : SSL_MODE_REQUIRED;
    files_set(c, mysql);
    mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
#endif
}

/* The first text is all that Connector/C says about a wrong name, the second is Oracle's. Texts of OpenSSL below them
 * are passed on. */
const char *db_tls_advice(const char *said)
{
    if (strstr(said, "Validation of SSL server certificate failed") != NULL ||
        strstr(said, "matching functions") != NULL || strstr(said, "hostname mismatch") != NULL ||
        strstr(said, "Hostname verification") != NULL || strstr(said, "IP address mismatch") != NULL)
        return ": its certificate does not name the host of mysql.url; connect by a name that it has, or get "
               "a certificate for this name";
    if (strstr(said, " alert ") != NULL)
        return ": MySQL refused tallyd's certificate; check mysql.tls.cert and MySQL's ssl_ca";
    if (strstr(said, "expired") != NULL) return "; renew MySQL's certificate";
    if (strstr(said, "support it") != NULL || strstr(said, "no TLS") != NULL)
        return "; give MySQL a certificate (ssl_cert, ssl_key), or leave mysql.tls out";
    if (strstr(said, "certificate verify failed") != NULL)
        return "; either mysql.tls.ca is not the authority of MySQL's certificate, or that certificate has "
               "expired, or it does not name the host of mysql.url";
    if (strstr(said, "certificate") != NULL)
        return "; name the file of the authority that signed MySQL's certificate in mysql.tls.ca";
    return "; check which TLS versions MySQL accepts: tallyd needs 1.2 or 1.3";
}

bool db_tls_is_on(MYSQL *mysql)
{
    return mysql_get_ssl_cipher(mysql) != NULL;
}
