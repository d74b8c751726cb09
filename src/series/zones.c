/* series/zones.c - see zones.h. */
#include "series/zones.h"

#include "base/heap.h"
#include "series/names.h"

#include <stdio.h>

#define HOUR_S 3600
#define LAST_S INT64_C(253402214400) /* the last day of 9999 */

struct zone_table *zone_table_create(const char *standard, struct error *e)
{
    struct zone_table *t = heap_zalloc(sizeof *t);
    struct error ignored;
    t->all = heap_zalloc(ZONES_MOST * sizeof *t->all);
    t->n = 1;
    t->holders = 1;
    map_init(&t->stores);
    if (standard == NULL || zone_load(slice_str(standard), &t->all[0], e) != ERR_NONE) {
        enum err utc = zone_load(SLICE("UTC"), &t->all[0], &ignored);
        INVARIANT(utc == ERR_NONE);
    }
    return t;
}

void zone_table_drop(struct zone_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        zone_free(&t->all[i]);
    map_close(&t->stores);
    heap_free(t->all);
    heap_free(t);
}

static struct zone *zone_of_name(struct zone_table *t, struct slice name)
{
    struct error e;
    for (size_t i = 0; i < t->n; i++)
        if (slice_eq(slice_str(t->all[i].name), name)) return &t->all[i];
    if (t->n == ZONES_MOST || zone_load(name, &t->all[t->n], &e) != ERR_NONE) return NULL;
    return &t->all[t->n++];
}

void zone_table_add(struct zone_table *t, struct slice store, struct slice name)
{
    struct zone *zone = zone_of_name(t, name);
    if (zone != NULL) {
        map_put(&t->stores, store, zone);
        return;
    }
    t->unknown++;
    /* Each once, as many as there is room for. What could not be told from its neighbours is quoted. */
    char shown[ZONE_NAME_MAX + 4], one[ZONE_NAME_MAX + 8];
    slice_show(name, ZONE_NAME_MAX, shown, sizeof shown);
    bool plain = name.n > 0 && strchr(shown, ' ') == NULL;
    snprintf(one, sizeof one, plain ? "%s" : "'%s'", shown);
    size_t n = strlen(one);
    for (const char *p = t->unknown_names; (p = strstr(p, one)) != NULL; p += n)
        if ((p == t->unknown_names || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return;
    size_t at = strlen(t->unknown_names), room = sizeof t->unknown_names - at;
    if (n + 2 > room)
        t->unknown_untold++;
    else
        snprintf(t->unknown_names + at, room, "%s%s", at > 0 ? " " : "", one);
}

static const struct zone *zone_of(const struct zone_table *t, struct slice store)
{
    const struct zone *own = t->stores.n == 0 ? NULL : map_get(&t->stores, store);
    return own != NULL ? own : &t->all[0];
}

/* ---- shared by threads ---- */

void zones_init(struct zones *z, struct zone_table *first, bool named)
{
    *z = (struct zones){.latest = first, .version = 1, .named = named};
    pthread_mutex_init(&z->lock, NULL);
}

static void table_leave(struct zones *z, struct zone_table *t)
{
    pthread_mutex_lock(&z->lock);
    if (--t->holders == 0) {
        t->next = z->left;
        z->left = t;
    }
    pthread_mutex_unlock(&z->lock);
}

static void tables_drop(struct zones *z)
{
    pthread_mutex_lock(&z->lock);
    struct zone_table *t = z->left;
    z->left = NULL;
    pthread_mutex_unlock(&z->lock);
    while (t != NULL) {
        struct zone_table *next = t->next;
        zone_table_drop(t);
        t = next;
    }
}

void zones_publish(struct zones *z, struct zone_table *t)
{
    pthread_mutex_lock(&z->lock);
    struct zone_table *before = z->latest;
    z->latest = t;
    atomic_fetch_add(&z->version, 1);
    pthread_mutex_unlock(&z->lock);
    table_leave(z, before);
    tables_drop(z);
}

void zones_close(struct zones *z)
{
    table_leave(z, z->latest);
    tables_drop(z);
    pthread_mutex_destroy(&z->lock);
    *z = (struct zones){.latest = NULL};
}

static struct zone_table *table_hold(struct zones *z, uint64_t *version)
{
    pthread_mutex_lock(&z->lock);
    struct zone_table *t = z->latest;
    t->holders++;
    *version = atomic_load(&z->version);
    pthread_mutex_unlock(&z->lock);
    return t;
}

struct zone_clock zones_clock(struct zones *z, struct slice store, int64_t at_s)
{
    uint64_t version;
    struct zone_clock made;
    struct zone_table *t = table_hold(z, &version);
    const struct zone *zone = zone_of(t, store);
    memcpy(made.name, zone->name, sizeof made.name);
    made.offset_s = zone_offset(zone, at_s, NULL, NULL);
    made.day_s = zone_day(zone, at_s);
    table_leave(z, t);
    return made;
}

/* ---- the loop's ---- */

static void view_take(struct zone_view *v)
{
    v->table = table_hold(v->of, &v->version);
    v->hours = heap_zalloc(v->table->n * sizeof *v->hours);
}

static void view_leave(struct zone_view *v)
{
    heap_free(v->hours);
    table_leave(v->of, v->table);
}

void zone_view_init(struct zone_view *v, struct zones *of)
{
    *v = (struct zone_view){.of = of};
    view_take(v);
}

void zone_view_close(struct zone_view *v)
{
    view_leave(v);
    *v = (struct zone_view){.of = NULL};
}

void zone_view_refresh(struct zone_view *v)
{
    if (atomic_load_explicit(&v->of->version, memory_order_acquire) == v->version) return;
    view_leave(v);
    view_take(v);
}

uint32_t zone_view_of(const struct zone_view *v, struct slice store)
{
    return (uint32_t)(zone_of(v->table, store) - v->table->all);
}

/* It ends with the local hour, or earlier with a change of the zone's clocks. */
void zone_view_turn(struct zone_view *v, uint32_t zone, int64_t at_s)
{
    struct zone_hour *h = &v->hours[zone];
    char text[32];
    int64_t from, until, local = at_s + zone_offset(&v->table->all[zone], at_s, &from, &until);
    if (local < 0) local = 0;
    if (local > LAST_S) local = LAST_S;
    int64_t begins = at_s - local % HOUR_S;
    h->from_s = begins > from ? begins : from;
    h->until_s = begins + HOUR_S < until ? begins + HOUR_S : until;
    snprintf(text, sizeof text, "%08d%02d", (int)day_of_s(local), (int)(local % DAY_S / HOUR_S));
    memcpy(h->text, text, ZONE_HOUR_BYTES);
}
