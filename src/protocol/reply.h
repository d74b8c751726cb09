/* protocol/reply.h - replies into a buffer, in RESP2 (resp = 2) or RESP3 (resp = 3). Where the two do not
 * differ there is no resp. Never fails; only appends. */
#ifndef PROTOCOL_REPLY_H
#define PROTOCOL_REPLY_H

#include "base/slice.h"

#define REPLY_ERROR_MAX 512 /* bytes of an error line; longer ones are cut */

void reply_simple(struct buf *out, const char *text); /* "OK" -> "+OK\r\n"; no CR or LF in text */
/* text is the line without '-': "ERR syntax error". CR and LF become spaces, as in Redis. Always false, for checks that end so. */
bool reply_error(struct buf *out, const char *text);
bool reply_error_slice(struct buf *out, struct slice text);
bool reply_errorf(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void reply_int(struct buf *out, int64_t v);
void reply_bulk(struct buf *out, struct slice bytes);
void reply_bulk_str(struct buf *out, const char *text);
void reply_bulk_int(struct buf *out, int64_t v);
void reply_verbatim(struct buf *out, int resp, struct slice text); /* RESP2: a bulk */
void reply_null(struct buf *out, int resp);                        /* RESP2: a null bulk */
void reply_array(struct buf *out, size_t n);                       /* n replies follow */
void reply_set(struct buf *out, int resp, size_t n);               /* RESP2: an array */
void reply_map(struct buf *out, int resp, size_t pairs); /* pairs x 2 replies follow; RESP2: a flat array */
void reply_push(struct buf *out, size_t n);              /* n replies follow; RESP3 only */

#endif
