/* tests/sim/chunk_rows.h - given to the compiler before every source: chunks of a few rows instead of 1,000,
 * so that small batches have several; a variable, so that the simulation can break the rule that one cut
 * holds for all. */
#ifndef SIM_CHUNK_ROWS_H
#define SIM_CHUNK_ROWS_H
extern unsigned sim_chunk_rows;
#define BATCH_CHUNK_ROWS sim_chunk_rows
#endif
