/* http/assets.h - the files that the program contains: the panel, dygraphs, openapi.yaml. Embedded by embed.cmake. */
#ifndef HTTP_ASSETS_H
#define HTTP_ASSETS_H

#include "base/slice.h"

struct asset {
    const char *name; /* as under /assets/ */
    const char *etag; /* "\"<hash of the text>\"" */
    struct slice text;
};
extern const struct asset assets[];
extern const size_t assets_n;

const struct asset *asset_find(struct slice name); /* NULL: no such asset */

#endif
