/* engine/name.h - at start: makes sure that only one life uses an instance's name on one Redis. */
#ifndef ENGINE_NAME_H
#define ENGINE_NAME_H

#include "redis/link.h"

/* Waits while another life may still have the name, on any of the n lanes of the links. ERR_CONFIG: another tallyd has
 * it. Runs the loop meanwhile; ERR_NONE as soon as *stop is set. host: where this life is. */
enum err name_free(struct redis_link *const *links, uint32_t n, const char *host, const bool *stop,
                   struct error *e) MUST_CHECK;
/* Then: ends the links of earlier lives. */
enum err name_take(struct redis_link *l, struct error *e) MUST_CHECK;

#endif
