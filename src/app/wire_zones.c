/* app/wire_zones.c - the time zones of stores, for CTR.HIT and the panel. */
#include "app/service.h"
#include "base/log.h"

#include <errno.h>

void wire_zones_init(struct service *s)
{
    const struct conf *conf = s->settings->conf;
    struct error e = {.code = ERR_NONE};
    struct zone_table *first = zone_table_create(conf->zone, &e);
    if (e.code != ERR_NONE) log_event(LOG_WARN, "zone_unread", "why=%s next=UTC", LOGQ(e.text));
    zones_init(&s->zones, first, conf->zone != NULL || s->settings->setup.store_zone.table.n > 0);
    zone_view_init(&s->zone_view, &s->zones);
}

enum err wire_zones_begin(struct service *s, struct error *e)
{
    const struct setup *setup = &s->settings->setup;
    if (!s->serves || setup->store_zone.table.n == 0) return ERR_NONE;
    s->store_zones =
        store_zones_create(&setup->mysql, &setup->store_zone, setup->conf->zone, &s->zones, s->mysql_seen);
    return s->store_zones != NULL
               ? ERR_NONE
               : error_set(e, ERR_FAILED, "cannot start the thread that reads store_zone: %s",
                           strerror(errno));
}

/* The system's tzdata may be another now. With store_zone they are read again each minute. */
void wire_zones_reload(struct service *s)
{
    struct error e = {.code = ERR_NONE};
    if (s->store_zones != NULL) return;
    struct zone_table *t = zone_table_create(s->settings->conf->zone, &e);
    if (e.code == ERR_NONE) {
        zones_publish(&s->zones, t);
        return;
    }
    log_event(LOG_WARN, "zone_unread", "why=%s next=%s", LOGQ(e.text),
              LOGQ("tallyd goes on with the rules that it has"));
    zone_table_drop(t);
}

void wire_zones_stop(struct service *s)
{
    if (s->store_zones != NULL) store_zones_stop(s->store_zones);
}

void wire_zones_close(struct service *s)
{
    store_zones_destroy(&s->store_zones);
    zone_view_close(&s->zone_view);
    zones_close(&s->zones);
}
