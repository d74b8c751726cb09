/* The names of items: asked for once a minute, the last known one where MySQL is away, and at most LABELS_MOST of them. MySQL is a
 * function here, and the test sets the clock. */
#include "lib/unit.h"

#include "base/heap.h"
#include "http/caches.h"

#include <stdio.h>
#include <time.h>

static uint64_t now_ms = 1;
static size_t asked; /* fields, of MySQL */
static int version;  /* of its names; 0: it has none */
static struct panel mysql;
static const struct counter counter = {.name = {"views", 5}};

int clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){(time_t)(now_ms / 1000), (long)(now_ms % 1000) * 1000000};
    return 0;
}

enum err panel_labels(struct panel *p, const struct counter *c, const struct slice *fields, size_t n,
                      void (*label)(void *arg, struct slice id, struct slice name), void *arg,
                      struct error *e)
{
    char name[64];
    asked += n;
    label(arg, SLICE("another"), SLICE("which nobody asked for"));
    for (size_t i = 0; version > 0 && i < n; i++) {
        snprintf(name, sizeof name, SLICE_FMT " v%d", SLICE_ARG(fields[i]), version);
        label(arg, fields[i], slice_str(name));
        label(arg, fields[i], SLICE("a second row"));
    }
    return ERR_NONE;
}

/* From that item on. Says how many MySQL was asked for, and the first one's name. */
static size_t look(struct label_cache *c, struct panel *p, int first, int n, char *name, size_t cap)
{
    struct slice *ids = heap_alloc((size_t)n * sizeof *ids);
    char(*texts)[16] = heap_alloc((size_t)n * sizeof *texts);
    asked = 0;
    for (int i = 0; i < n; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", first + i);
        ids[i] = slice_str(texts[i]);
    }
    struct labels got = labels_read(c, p, &counter, ids, (size_t)n);
    snprintf(name, cap, SLICE_FMT, SLICE_ARG(got.all[0].p != NULL ? got.all[0] : SLICE("-")));
    labels_free(&got);
    heap_free(ids);
    heap_free(texts);
    return asked;
}

#define LOOK(p, first, n, asks, says)                                                                        \
    do {                                                                                                     \
        assert_int_equal(look(&c, p, first, n, name, sizeof name), asks);                                    \
        assert_string_equal(name, says);                                                                     \
    } while (0)

UNIT(a_name_is_asked_for_once_a_minute)
{
    static struct label_cache c;
    char name[64];
    label_cache_init(&c);
    version = 1;
    LOOK(&mysql, 7, 2, 2, "7 v1");
    version = 2;
    now_ms += LABELS_AGE_MS - 1;
    LOOK(&mysql, 7, 3, 1, "7 v1");
    now_ms += 1;
    LOOK(NULL, 7, 3, 0, "7 v1");
    LOOK(&mysql, 7, 3, 2, "7 v2");
    LOOK(&mysql, 7, 3, 0, "7 v2");
    now_ms += LABELS_AGE_MS;
    version = 0;
    LOOK(&mysql, 7, 1, 1, "-");
    LOOK(&mysql, 7, 1, 0, "-");
    label_cache_close(&c);
}

UNIT(there_are_so_many_at_most)
{
    static struct label_cache c;
    char name[64];
    label_cache_init(&c);
    version = 1;
    LOOK(&mysql, 0, 2, 2, "0 v1");
    for (int first = 2; first < 3 * LABELS_MOST; first += 100) {
        look(&c, &mysql, first, 100, name, sizeof name);
        assert_in_range(c.young.n + c.old.n, 1, LABELS_MOST);
        LOOK(&mysql, 0, 1, 0, "0 v1"); /* a label that is asked for stays */
    }
    LOOK(&mysql, 1, 1, 1, "1 v1");
    label_cache_close(&c);
}
