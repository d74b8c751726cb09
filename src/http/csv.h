/* http/csv.h - CSV as RFC 4180 has it, in UTF-8: comma, CRLF, quotation marks where they are needed. A text that a
 * spreadsheet would run as a formula gets a ' before it; a number does not. Pure; private to the room. */
#ifndef HTTP_CSV_H
#define HTTP_CSV_H

#include "status/status.h"

struct csv {
    struct buf *out; /* borrowed */
    bool more;       /* the row has a cell */
};

void csv_text(struct csv *c,
              struct slice text); /* any bytes; what is no UTF-8, or a control byte, becomes U+FFFD */
void csv_int(struct csv *c, int64_t v);
void csv_figure(struct csv *c, struct figure f); /* empty when it is not known */
void csv_end(struct csv *c);                     /* of the row */

#endif
