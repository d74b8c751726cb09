/* tests/model/total.pml - the live total: is it what was acknowledged at one moment, while batches pass?
 *
 * Mirrors      src/sync/total.c (a round: Redis, then MySQL, and again), src/redis/pending.c (the script),
 *              src/mysql/books.c (one snapshot; books_has: a row is in the ledger when its chunk is).
 * One key      with two fields, which are two rows, and two chunks when both are there. Claims, merges and discards are
 *              by any daemon: frames.pml and sync.pml have how they come about.
 * Abstracted   how often it is read before the claims of that counter are held: as often as it takes. A Redis that was
 *              rolled back: totals are refused then.
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; CMakeLists.txt has what each breaks. */
#ifndef TOTAL_BY_CHUNK
#define TOTAL_BY_CHUNK 1 /* 0: a batch with any chunk in the ledger counts as merged */
#endif
#ifndef TOTAL_BY_GEN
#define TOTAL_BY_GEN 1 /* 0: what was claimed after Redis was read, and is merged, is counted twice */
#endif
#ifndef REDIS_FIRST
#define REDIS_FIRST 1 /* 0: MySQL is read before Redis */
#endif

/* Sizes: bounds of the arrays. */
#ifndef BATCHES
#define BATCHES 3
#endif

/* Bounds. */
#ifndef HITS
#define HITS 3 /* of a field */
#endif

#define FIELDS 2

/* Redis. A batch's gen is its number and one. */
typedef batch {
    bool stands;
    byte n[FIELDS];
};
batch B[BATCHES], seen[BATCHES]; /* seen: by the reader */
byte pending[FIELDS], gen;

/* MySQL. */
byte stored[FIELDS], seen_stored[FIELDS];
bool ledger[FIELDS * BATCHES], seen_ledger[FIELDS * BATCHES];
#define ROW(b, f) ledger[FIELDS * (b) + (f)] /* of the chunk that has the field */

byte acked[FIELDS];
byte wanted[FIELDS]; /* what was acknowledged when the script read Redis */
byte total[FIELDS], seen_gen;

hidden byte i, newer;

#define IS_IN(b, f) (ROW(b, f) || B[b].n[f] == 0)
#define ALL_IN(b) (IS_IN(b, 0) && IS_IN(b, 1))

active proctype service()
{
end:
    do
    :: d_step { acked[0] < HITS -> acked[0]++; pending[0]++; printf("redis    a hit on field 0\n") }
    :: d_step { acked[1] < HITS -> acked[1]++; pending[1]++; printf("redis    a hit on field 1\n") }
    :: d_step { gen < BATCHES && pending[0] + pending[1] > 0 ->
        B[gen].stands = true;
        B[gen].n[0] = pending[0];
        B[gen].n[1] = pending[1];
        pending[0] = 0;
        pending[1] = 0;
        printf("redis    claim: batch %d has %d and %d\n", gen, B[gen].n[0], B[gen].n[1]);
        gen++
    }
    od
}

#define MERGE(b, f)                                                                                          \
    d_step { B[b].stands && !IS_IN(b, f) ->                                                                  \
        ROW(b, f) = true;                                                                                    \
        stored[f] = stored[f] + B[b].n[f];                                                                   \
        printf("mysql    merges field %d of batch %d\n", f, b)                                               \
    }

proctype merger(byte b)
{
end:
    do
    :: MERGE(b, 0)
    :: MERGE(b, 1)
    :: d_step { B[b].stands && ALL_IN(b) ->
        B[b].stands = false;
        B[b].n[0] = 0;
        B[b].n[1] = 0;
        printf("redis    batch %d is discarded\n", b)
    }
    od
}

inline read_redis()
{
    total[0] = pending[0];
    total[1] = pending[1];
    seen_gen = gen;
    i = 0;
    do
    :: i < BATCHES ->
        seen[i].n[0] = B[i].n[0];
        seen[i].n[1] = B[i].n[1];
        i++
    :: else -> break
    od;
    wanted[0] = acked[0];
    wanted[1] = acked[1];
    printf("reader   reads redis: gen %d, pending %d and %d\n", gen, pending[0], pending[1])
}

inline read_mysql()
{
    newer = false;
    i = 0;
    do
    :: i < FIELDS * BATCHES ->
        seen_ledger[i] = ledger[i];
        newer = newer || (ledger[i] && i / FIELDS + 1 > seen_gen);
        i++
    :: else -> break
    od;
    seen_stored[0] = stored[0];
    seen_stored[1] = stored[1];
    printf("reader   reads mysql: %d and %d\n", stored[0], stored[1])
}

#define MERGED(b, f)                                                                                         \
    (seen_ledger[FIELDS * (b) + (f)] ||                                                                      \
     (!TOTAL_BY_CHUNK && (seen_ledger[FIELDS * (b)] || seen_ledger[FIELDS * (b) + 1])))

inline answer()
{
    i = 0;
    do
    :: i < BATCHES ->
        total[0] = total[0] + (MERGED(i, 0) -> 0 : seen[i].n[0]);
        total[1] = total[1] + (MERGED(i, 1) -> 0 : seen[i].n[1]);
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < FIELDS ->
        total[i] = total[i] + seen_stored[i];
        printf("reader   answers %d for field %d; it was %d\n", total[i], i, wanted[i]);
        if
        :: total[i] < wanted[i] -> printf("BROKEN loss\n"); assert(false)
        :: total[i] > wanted[i] -> printf("BROKEN double\n"); assert(false)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline forget()
{
    i = 0;
    do
    :: i < BATCHES -> seen[i].n[0] = 0; seen[i].n[1] = 0; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < FIELDS * BATCHES -> seen_ledger[i] = false; i++
    :: else -> break
    od;
    total[0] = 0;
    total[1] = 0;
    wanted[0] = 0;
    wanted[1] = 0;
    seen_stored[0] = 0;
    seen_stored[1] = 0;
    seen_gen = 0;
    newer = false
}

active proctype reader()
{
end:
    do
#if REDIS_FIRST
    :: d_step { read_redis() };
       d_step {
        read_mysql();
        if
        :: newer && TOTAL_BY_GEN -> printf("reader   something newer is merged: again\n")
        :: else -> answer()
        fi;
        forget()
       }
#else
    :: d_step { seen_gen = BATCHES; read_mysql() };
       d_step { read_redis(); answer(); forget() }
#endif
    od
}

init
{
    atomic {
        i = 0;
        do
        :: i < BATCHES -> run merger(i); i++
        :: else -> break
        od
    }
}
