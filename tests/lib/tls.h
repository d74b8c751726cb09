/* lib/tls.h - what unit tests of TLS share. */
#ifndef LIB_TLS_H
#define LIB_TLS_H

#include "lib/unit.h"
#include "tls/tls.h"

/* It verifies by files->ca; the caller destroys it. */
static inline struct tls_context *context_of(enum tls_side side, const struct tls_files *files)
{
    struct tls_context *c;
    struct error e;
    if (tls_context_create(side, files, TLS_TRUST_CA, &c, NULL, &e) != ERR_NONE) fail_msg("%s", e.text);
    return c;
}

#endif
