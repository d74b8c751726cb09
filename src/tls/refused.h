/* tls/refused.h - handshakes that failed at a door: counted, and logged once in ten seconds with how many there were. Any
 * thread. */
#ifndef TLS_REFUSED_H
#define TLS_REFUSED_H

void tls_refused(const char *door, const char *peer, const char *why);

#endif
