/* tests/sim/table.h - the counters of a run, of one of three shapes, and their rows in MySQL. A row is found by all its key columns:
 * what the key says, what the field says, and a constant, since both counters have one table. A hash and a field mean a count of
 * a row twice: as it is written down in table.c, and as series/row.c says. */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "sim/model.h"

enum shape { SHAPE_PLAIN, SHAPE_PLACES, SHAPE_COUNTS }; /* fields: numbers; <item>:<day>; names of counts */
#define SIM_COLUMNS 4 /* beside those of the store and of the field, at most */

struct world;
struct counter;
struct key_column;

void table_counter(struct world *w, int counter);
void table_counter_close(struct counter *c);
void table_valid(const struct counters *counters);                        /* asserts that tallyd takes them */
void table_hash(struct world *w, int hash, unsigned nth, unsigned store); /* nth: of its counter; names it */

/* Whose count is it that series/row.c finds for these? False: nobody's. */
bool table_find(const struct world *w, const struct counter *c, struct slice key, struct slice field,
                int *of_hash, int *of_field);
uint8_t table_row_fields(const struct world *w, int hash, int field); /* set of those in the same row */

#endif
