/* redis/registry.h - the fields of tally:batch:<id>: these, and `=<pending hash>` -> HLEN at the claim for each of its
 * renamed hashes. No fixed field begins with '=', so a pending hash may have any name. */
#ifndef REDIS_REGISTRY_H
#define REDIS_REGISTRY_H

#define REGISTRY_FORMAT "format"     /* BATCH_FORMAT of the tallyd that claimed */
#define REGISTRY_COUNTER "counter"   /* the counter's name */
#define REGISTRY_GEN "gen"           /* tally:gen after this claim */
#define REGISTRY_OWNER "owner"       /* <instance>:<life>; the adopter's after an adoption */
#define REGISTRY_LOWEST "lowest_ms"  /* lowest score that its hashes had in tally:dirty */
#define REGISTRY_PACKED "packed"     /* the hashes that were packed, redis/packed.h; none: no such field */
#define REGISTRY_PACKED_N "packed_n" /* how many */
#define REGISTRY_HASH '='

#define PACK_FIELDS_MAX 8  /* a hash with more is renamed: the claim's script reads this many */
#define PACK_BYTES_MAX 512 /* of fields and values */

#endif
