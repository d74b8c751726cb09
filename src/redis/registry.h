/* redis/registry.h - the fields of tally:batch:<id>: these five, and `=<pending hash>` -> HLEN at the claim
 * for each of its hashes. No fixed field begins with '=', so a pending hash may have any name. */
#ifndef REDIS_REGISTRY_H
#define REDIS_REGISTRY_H

#define REGISTRY_FORMAT "format"    /* BATCH_FORMAT of the tallyd that claimed */
#define REGISTRY_COUNTER "counter"  /* the counter's name */
#define REGISTRY_GEN "gen"          /* tally:gen after this claim */
#define REGISTRY_OWNER "owner"      /* <instance>:<life>; the adopter's after an adoption */
#define REGISTRY_LOWEST "lowest_ms" /* lowest score that its hashes had in tally:dirty */
#define REGISTRY_HASH '='

#endif
