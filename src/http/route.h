/* http/route.h - the table of all paths; private to the room. A test compares them with openapi.yaml. */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include "http/exchange.h"

enum access {
    ACCESS_ANYBODY,  /* holds no data of a shop */
    ACCESS_KNOWN,    /* this machine or a token; a token bound to a store sees that store only */
    ACCESS_OPERATOR, /* the same, but no token that is bound to a store */
};

struct route {
    const char *method; /* GET answers HEAD, too */
    const char *path;   /* "/api/stores/{store}/counters/{counter}" */
    const char *args;   /* parameters that it knows, ' ' between them */
    enum access access;
    bool waits; /* it is answered by a worker; else by the thread of the sockets, with w NULL */
    void (*run)(struct exchange *x, struct worker *w);
};

extern const struct route routes[];
extern const size_t routes_n;

/* NULL: no such route. *allow is then the methods that the path has, "" for no such path. */
const struct route *route_find(const char *method, const struct target *t, const char **allow);
/* Which segment of its path is the i-th {}. */
size_t route_variable(const struct route *r, size_t i);
bool route_knows(const struct route *r, struct slice arg);

/* api_*.c and others */
void run_asset(struct exchange *x, struct worker *w);
void run_healthz(struct exchange *x, struct worker *w);
void run_readyz(struct exchange *x, struct worker *w);
void run_metrics(struct exchange *x, struct worker *w);
void run_counters(struct exchange *x, struct worker *w);
void run_stores(struct exchange *x, struct worker *w);
void run_store(struct exchange *x, struct worker *w);
void run_figures(struct exchange *x, struct worker *w);
void run_series_names(struct exchange *x, struct worker *w);
void run_series(struct exchange *x, struct worker *w);
void run_timebox(struct exchange *x, struct worker *w);
void run_events(struct exchange *x, struct worker *w);
void run_uniques(struct exchange *x, struct worker *w);
void run_rejects(struct exchange *x, struct worker *w);
void run_replay(struct exchange *x, struct worker *w);
void run_drop(struct exchange *x, struct worker *w);
void run_status(struct exchange *x, struct worker *w);
void run_books(struct exchange *x, struct worker *w);
void run_pulse(struct exchange *x, struct worker *w);

#endif
