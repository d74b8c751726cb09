/* http/assets.c - see assets.h. */
#include "http/assets.h"

#include "http/route.h"

const struct asset *asset_find(struct slice name)
{
    for (size_t i = 0; i < assets_n; i++)
        if (slice_eq(slice_str(assets[i].name), name)) return &assets[i];
    return NULL;
}

static const char *asset_type(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".woff2", "font/woff2"},
        {".webmanifest", "application/manifest+json"},
        {".yaml", "application/yaml"},
        {".txt", "text/plain; charset=utf-8"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (slice_ends(slice_str(name), slice_str(types[i].end))) return types[i].type;
    return "application/octet-stream";
}

/* The last segment of the path is the file's name; the page has none. */
void run_asset(struct exchange *x, struct worker *w)
{
    size_t n = x->target.segments_n;
    const struct asset *a = asset_find(n == 0 ? SLICE("index.html") : target_segment(&x->target, n - 1));
    (void)w;
    if (a != NULL)
        exchange_fixed(x, a->text, asset_type(a->name), a->etag);
    else
        exchange_refuse(x, 404, "begin at /", "the panel has no such file");
}
