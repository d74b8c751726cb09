/* http/route.c - see exchange.h. */
#include "http/exchange.h"

/* clang-format off */
const struct route routes[] = {
    {"GET", "/", "", ACCESS_ANYBODY, false, run_asset},
    {"GET", "/favicon.ico", "", ACCESS_ANYBODY, false, run_asset},
    {"GET", "/assets/{file}", "", ACCESS_ANYBODY, false, run_asset},
    {"GET", "/healthz", "", ACCESS_ANYBODY, false, run_healthz},
    {"GET", "/readyz", "", ACCESS_ANYBODY, false, run_readyz},
    {"GET", "/metrics", "", ACCESS_OPERATOR, true, run_metrics},
    {"GET", "/api/openapi.yaml", "", ACCESS_ANYBODY, false, run_asset},
    {"GET", "/api/counters", "", ACCESS_KNOWN, false, run_counters},
    {"GET", "/api/stores", "prefix limit", ACCESS_KNOWN, true, run_stores},
    {"GET", "/api/stores/{store}", "", ACCESS_KNOWN, true, run_store},
    {"GET", "/api/stores/{store}/counters/{counter}", "from to top field key count format", ACCESS_KNOWN, true, run_figures},
    {"GET", "/api/series", "prefix limit", ACCESS_KNOWN, true, run_series_names},
    {"GET", "/api/series/{name}/{precision}", "from to format", ACCESS_KNOWN, true, run_series},
    {"GET", "/api/boxes/{name}", "recent top bottom offset format", ACCESS_KNOWN, true, run_timebox},
    {"GET", "/api/events/{name}/{type}", "span window from to limit offset", ACCESS_KNOWN, true, run_events},
    {"GET", "/api/uniques/{name}", "from to format", ACCESS_KNOWN, true, run_uniques},
    {"GET", "/api/rejects", "counter store limit", ACCESS_OPERATOR, true, run_rejects},
    {"POST", "/api/rejects/{id}/replay", "", ACCESS_OPERATOR, true, run_replay},
    {"POST", "/api/rejects/{id}/drop", "", ACCESS_OPERATOR, true, run_drop},
    {"GET", "/api/status", "", ACCESS_OPERATOR, true, run_status},
    {"GET", "/api/books", "", ACCESS_OPERATOR, true, run_books},
    {"GET", "/api/pulse", "store", ACCESS_KNOWN, true, run_pulse},
    {"GET", "/api/history", "", ACCESS_OPERATOR, false, run_history},
};
/* clang-format on */
const size_t routes_n = sizeof routes / sizeof routes[0];

/* The segments of a route's path, one after the other; p NULL: no more. */
static struct slice segment_next(const char **at)
{
    if (**at == '\0' || strcmp(*at, "/") == 0) return slice_of(NULL, 0);
    const char *from = *at + 1;
    size_t n = strcspn(from, "/");
    *at = from + n;
    return slice_of(from, n);
}

static bool is_variable(struct slice segment)
{
    return segment.n > 0 && segment.p[0] == '{';
}

static bool path_fits(const struct route *r, const struct target *t)
{
    const char *at = r->path;
    size_t i = 0;
    for (struct slice want; (want = segment_next(&at)).p != NULL; i++) {
        if (i == t->segments_n) return false;
        struct slice have = target_segment(t, i);
        if (is_variable(want) ? have.n == 0 : !slice_eq(have, want)) return false;
    }
    return i == t->segments_n;
}

const struct route *route_find(const char *method, const struct target *t, const char **allow)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *allow = "";
    for (size_t i = 0; i < routes_n; i++) {
        if (!path_fits(&routes[i], t)) continue;
        if (strcmp(routes[i].method, wanted) == 0) return &routes[i];
        *allow = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method;
    }
    return NULL;
}

size_t route_variable(const struct route *r, size_t i)
{
    const char *at = r->path;
    struct slice segment;
    for (size_t place = 0; (segment = segment_next(&at)).p != NULL; place++) {
        if (!is_variable(segment)) continue;
        if (i == 0) return place;
        i--;
    }
    UNREACHABLE();
}

bool route_knows(const struct route *r, struct slice arg)
{
    if (slice_starts(arg, SLICE("key[")) && slice_ends(arg, SLICE("]"))) arg.n = 3;
    for (const char *at = r->args; *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (slice_eq(slice_of(at, n), arg)) return true;
        at += n;
    }
    return false;
}

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
