/* admin/screen.h - a look (status/status.h) as one screen of text; pure. */
#ifndef ADMIN_SCREEN_H
#define ADMIN_SCREEN_H

#include "status/status.h"

struct screen_style {
    bool colour;      /* escapes of a terminal around what is not well */
    size_t lines_max; /* batches and problems are cut so that it has no more; 0: no bound */
};

void screen_put(const struct status *s, const struct screen_style *style, struct buf *out);

#endif
