/* tests/model/sync.pml - batches: is each acknowledged hit in MySQL, once, when all has come to rest?
 *
 * Mirrors      src/sync/run.c (the machine: CLAIM SCAN FENCE MERGE DISCARD, and its ways back), adopt.c;
 *              src/coalesce/claims.c and doubt.c as far as a claim goes that is in doubt; src/redis/claim.c, scan.c,
 *              durable.c, batch.c (adoption), batch.c; src/mysql/merge.c (ledger row first; what 1062 means);
 *              src/series/batch.c (the cut).
 * Two daemons  with a run each at a time (or three); two pending hashes of a field each, so a batch has one or two rows, and one or
 *              two chunks. A hit is a bit, so MySQL shows whether it has it twice; a digest sees only how many there are.
 * Faults       a claim whose reply is lost; a claim that runs twice (a proxy that tries again); a COMMIT without an
 *              answer; MySQL away; a crash, also for good; Redis restarted from what it had on disk.
 * Abstracted   frames (frames.pml): a hit is in the pending hash, and acknowledged, in one step, and every pending hash is
 *              found. Time: a daemon adopts any batch at any time, the owner alive or not (prune.pml has ages). gate.c: nothing
 *              holds the merges of a Redis that was rolled back. Rows that MySQL refuses, replicas (WAIT is the same step).
 *              Run ids have two values: at most one restart. A hash is renamed or packed: either way its rows go from
 *              pending to the batch in one step. They differ in what reads them, and when.
 * Ends         when nothing can move any more, after clients and faults have ended (`calm`).
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; CMakeLists.txt has what each breaks. */
#ifndef BARRIER
#define BARRIER 1 /* a fence beside the scan, before the merge */
#endif
#ifndef ADOPTER_FENCES
#define ADOPTER_FENCES 1 /* 0: only the owner of a claim does */
#endif
#ifndef FENCE_WRITE
#define FENCE_WRITE 1 /* 0: WAITAOF on a link that wrote nothing answers at once */
#endif
#ifndef FENCE_BEHIND
#define FENCE_BEHIND 1 /* 0: asked for when the claim is sent, so its write may be the first */
#endif
#ifndef RESCAN
#define RESCAN 1 /* 0: rows of a server that is gone are merged after a fence of the next */
#endif
#ifndef LEDGER
#define LEDGER 1
#endif
#ifndef RENAMENX
#define RENAMENX 1 /* 0: RENAME, and the claim does not check whether its registry exists */
#endif
#ifndef CLAIM_ONCE
#define CLAIM_ONCE 1 /* 0: a claim in doubt whose batch does not exist is sent again */
#endif
#ifndef REGISTRY_IN_SCRIPT
#define REGISTRY_IN_SCRIPT 1 /* 0: a separate command after the renames */
#endif
#ifndef PACK_IN_SCRIPT
#define PACK_IN_SCRIPT 1 /* 0: what was packed is deleted by a separate command after the script */
#endif
#ifndef FORMAT_KNOWN
#define FORMAT_KNOWN 1 /* 0: an older daemon adopts batches that have packed hashes */
#endif
#ifndef CUT_BY_FORMAT
#define CUT_BY_FORMAT 1 /* 0: daemon 0 cuts by two rows, daemon 1 by one */
#endif
#ifndef ADOPTION
#define ADOPTION 1 /* 0: only one's own instance's, at start */
#endif

/* Sizes: bounds of the arrays. */
#ifndef BATCHES
#define BATCHES 2 /* the last id is kept for what is pending when calm has come */
#endif
#ifndef DAEMONS
#define DAEMONS 2 /* 3: or one of two has two runs */
#endif

/* Bounds. */
#ifndef HITS
#define HITS 3 /* the last is on the second hash, the others on the first */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef CHUNK_ROWS
#define CHUNK_ROWS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef ROLLBACK
#define ROLLBACK 0
#endif
#ifndef TWICE
#define TWICE 0 /* 1: a claim may run twice */
#endif
#ifndef FOR_GOOD
#define FOR_GOOD 0 /* 1: daemon 0, once dead, does not come back */
#endif

#ifndef PACKED
#define PACKED 2 /* hashes that a claim packs, a bit each: the second; the first is renamed */
#endif
#ifndef OLDER
#define OLDER 0 /* 1: daemon 1 is of the version before: it packs no hashes, and sees none in a batch */
#endif

#define LOSS 1
#define DOUBLE 2
#define STUCK 4
#ifndef SEEK
#define SEEK 7 /* LOSS + DOUBLE + STUCK: of what may break, what is looked for */
#endif
#define BROKEN(text) printf(text); assert(false)

#define NO_BATCH BATCHES
#define SECOND (1 << (HITS - 1))
#define FIRST (SECOND - 1)
#define HASHES(rows) ((((rows) & FIRST) != 0) + 2 * (((rows) & SECOND) != 0))
#define ROWS_OF(hashes) (((hashes) & 1) * FIRST + ((hashes) >> 1) * SECOND)
#define COUNT(rows) (((rows) & 1) + (((rows) >> 1) & 1) + (((rows) >> 2) & 1) + (((rows) >> 3) & 1))

/* Redis, and what it has on disk. */
typedef batch {
    byte rows;   /* of the claimed hashes: hits */
    byte hashes; /* that the registry names, a bit each */
    byte packed; /* of them: those whose rows the registry has */
    bool stands;
    byte owner;
};
byte pending, kept_pending, acked, kept_acked;
batch B[BATCHES], kept[BATCHES];
bool server; /* run_id */

/* MySQL. */
byte merged;                      /* hits */
byte ledger[2 * BATCHES];         /* a chunk's digest and how many chunks; 0: no row */
#define ROW(b, chunk) ledger[2 * (b) + (chunk)]
#define DIGEST(rows, chunks) (COUNT((rows) & FIRST) + 8 * (((rows) & SECOND) != 0) + 16 * (chunks))

#define IDLE 0
#define CLAIM 1   /* sent */
#define RENAMED 2 /* only without REGISTRY_IN_SCRIPT */
#define COPIED 13 /* only without PACK_IN_SCRIPT */
#define CLAIMED 3 /* ran, its reply is on the way */
#define DOUBT 4   /* its reply is lost */
#define SCAN 5
#define SCAN_MORE 6 /* registry and first hash are read, the second and whether the registry still exists are not */
#define SCANNED 7   /* waits for its fence, which began beside the scan */
#define MERGE 10
#define DISCARD 11
#define HELD 12 /* an alarm: an operator must look */
#define UNASKED 0
#define WRITTEN 1 /* not on disk yet */
#define PASSED 2
typedef run_state {
    bool alive;
    byte st, b;
    bool adopted;
    byte rows, hashes; /* as scanned */
    bool server;       /* that gave them */
    byte fence;
    bool fence_server; /* that it was written to */
    byte done;         /* chunks, a bit each */
};
run_state R[DAEMONS];

byte hits, next, faults = FAULTS; /* hits: that came, a bit each; next: batch id */
bool calm;
hidden byte i, rows, chunks, digest, size;

#define READS_PACKED(d) (!OLDER || (d) != 1)
#define FAULT (!calm && faults > 0)
#define MAY(d) R[d].alive

/* --- Redis --- */

/* claim.c. An id is drawn when the script runs and there are hits: an empty claim wastes none. */
inline run_claim(d)
{
    if
    :: pending == 0 -> R[d].st = IDLE; printf("redis    claim of daemon %d: empty\n", d)
    :: else ->
        if
        :: R[d].b == NO_BATCH -> R[d].b = next; next++
        :: else
        fi;
        B[R[d].b].rows = pending;
        B[R[d].b].packed = (READS_PACKED(d) -> HASHES(pending) & PACKED : 0);
        pending = (PACK_IN_SCRIPT -> 0 : pending & ROWS_OF(B[R[d].b].packed));
        printf("redis    claim of daemon %d: batch %d has hits %d\n", d, R[d].b, B[R[d].b].rows);
        if
        :: REGISTRY_IN_SCRIPT -> run_register(d)
        :: else -> R[d].st = RENAMED
        fi
    fi
}

inline run_register(d)
{
    B[R[d].b].hashes = HASHES(B[R[d].b].rows);
    B[R[d].b].stands = true;
    B[R[d].b].owner = d;
    R[d].st = (PACK_IN_SCRIPT -> CLAIMED : COPIED);
    printf("redis    batch %d is registered\n", R[d].b)
}

inline run_discard(id)
{
    if
    :: (B[id].rows & ~merged) != 0 && (SEEK & LOSS) -> BROKEN("BROKEN loss\n")
    :: else
    fi;
    B[id].rows = 0;
    B[id].hashes = 0;
    B[id].packed = 0;
    B[id].stands = false;
    B[id].owner = 0;
    printf("redis    batch %d is discarded\n", id)
}

inline keep()
{
    kept_pending = pending;
    kept_acked = acked;
    i = 0;
    do
    :: i < BATCHES ->
        kept[i].rows = B[i].rows;
        kept[i].hashes = B[i].hashes;
        kept[i].packed = B[i].packed;
        kept[i].stands = B[i].stands;
        kept[i].owner = B[i].owner;
        i++
    :: else -> break
    od
}

/* All that was written is on disk, and the fences that wait for it are answered. */
inline fsync()
{
    if
    :: ROLLBACK -> keep()
    :: else
    fi;
    i = 0;
    do
    :: i < DAEMONS ->
        if
        :: R[i].fence == WRITTEN -> R[i].fence = PASSED
        :: else
        fi;
        i++
    :: else -> break
    od;
    printf("redis    has all of it on disk\n")
}

/* A hit that clients were told of and Redis lost is no loss of ours, unless MySQL has it. */
inline restart()
{
    pending = kept_pending;
    acked = acked & (kept_acked | merged);
    i = 0;
    do
    :: i < BATCHES ->
        B[i].rows = kept[i].rows;
        B[i].hashes = kept[i].hashes;
        B[i].packed = kept[i].packed;
        B[i].stands = kept[i].stands;
        B[i].owner = kept[i].owner;
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < DAEMONS ->
        if
        :: R[i].st == CLAIM || R[i].st == RENAMED || R[i].st == COPIED || R[i].st == CLAIMED -> R[i].st = DOUBT
        :: R[i].st == SCAN || R[i].st == SCAN_MORE -> again(i, SCAN)
        :: R[i].st == SCANNED ->
            if
            :: RESCAN -> again(i, SCAN)
            :: else -> R[i].fence = UNASKED
            fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    server = !server;
    printf("redis    is restarted without its tail: pending %d\n", pending)
}

proctype redis(byte d)
{
end:
    do
    :: d_step { R[d].st == CLAIM && (calm || next + 1 < BATCHES || R[d].b != NO_BATCH) &&
        (PACK_IN_SCRIPT || pending == 0 || next < BATCHES) -> run_claim(d) }
    :: d_step { R[d].st == RENAMED -> run_register(d) }
    :: d_step { R[d].st == COPIED ->
        pending = pending & ~ROWS_OF(B[R[d].b].packed);
        R[d].st = CLAIMED;
        printf("redis    what was packed is deleted\n")
    }
    :: d_step { TWICE && FAULT && !RENAMENX && R[d].b != NO_BATCH && B[R[d].b].stands && pending != 0 ->
        faults--;
        B[R[d].b].rows = (B[R[d].b].rows & ~ROWS_OF(HASHES(pending))) | pending;
        B[R[d].b].hashes = HASHES(B[R[d].b].rows);
        pending = 0;
        printf("redis    claim of batch %d runs a second time\n", R[d].b)
    }
    od
}

/* --- a run --- */

inline again(d, where)
{
    R[d].rows = 0;
    R[d].hashes = 0;
    R[d].done = 0;
    R[d].server = 0;
    R[d].fence = UNASKED;
    R[d].fence_server = 0;
    R[d].st = where
}

inline ends(d)
{
    again(d, IDLE);
    R[d].adopted = false;
    R[d].b = NO_BATCH
}

#define SIZE(d) (CUT_BY_FORMAT -> CHUNK_ROWS : 2 - ((d) & 1))
#define CHUNKS(d) (HASHES(R[d].rows) == 3 && SIZE(d) == 1 -> 2 : 1)
/* The first row, or the second, or all in one. */
#define CHUNK(d, chunk)                                                                                      \
    (CHUNKS(d) == 1 -> R[d].rows : R[d].rows & ((chunk) == 0 -> FIRST : SECOND))

/* merge.c: one transaction. */
inline merge(d, chunk, heard)
{
    rows = CHUNK(d, chunk);
    digest = DIGEST(rows, CHUNKS(d));
    if
    :: !LEDGER || ROW(R[d].b, chunk) == 0 ->
        printf("daemon %d merges chunk %d of batch %d: hits %d (answer %d)\n", d, chunk, R[d].b, rows, heard);
        if
        :: (merged & rows) != 0 && (SEEK & DOUBLE) -> BROKEN("BROKEN double\n")
        :: else
        fi;
        merged = merged | rows;
        ROW(R[d].b, chunk) = digest;
        if
        :: heard -> R[d].done = R[d].done | (1 << (chunk))
        :: else
        fi
    :: LEDGER && ROW(R[d].b, chunk) == digest ->
        printf("daemon %d finds chunk %d of batch %d in the ledger\n", d, chunk, R[d].b);
        R[d].done = R[d].done | (1 << (chunk))
    :: else ->
        printf("daemon %d finds other rows in the ledger: batch %d is held\n", d, R[d].b);
        R[d].st = HELD
    fi;
    if
    :: R[d].st == MERGE && R[d].done == (1 << CHUNKS(d)) - 1 -> again(d, DISCARD)
    :: else
    fi;
    rows = 0
}

#define TO_MERGE(d, chunk) (MAY(d) && R[d].st == MERGE && (chunk) < CHUNKS(d) && ((R[d].done >> (chunk)) & 1) == 0)

#define ADOPT(batch)                                                                                         \
    d_step { MAY(d) && R[d].st == IDLE && B[batch].stands && (ADOPTION || B[batch].owner == d) &&            \
        (!FORMAT_KNOWN || READS_PACKED(d) || B[batch].packed == 0) ->                                        \
        B[batch].owner = d;                                                                                  \
        R[d].b = batch;                                                                                      \
        R[d].adopted = !ADOPTER_FENCES; /* a state less when the rule is in */                               \
        R[d].st = SCAN;                                                                                      \
        printf("daemon %d adopts batch %d\n", d, batch)                                                      \
    }

proctype daemon(byte d)
{
end:
    do
    :: d_step { MAY(d) && R[d].st == IDLE && pending != 0 -> R[d].st = CLAIM; printf("daemon %d claims\n", d) }
    :: d_step { MAY(d) && R[d].st == CLAIMED -> R[d].st = SCAN }
    :: d_step { MAY(d) && R[d].st == DOUBT ->
        if
        :: R[d].b == NO_BATCH -> ends(d)
        :: R[d].b != NO_BATCH && B[R[d].b].stands -> R[d].st = SCAN; printf("daemon %d finds its claim\n", d)
        :: else ->
            if
            :: CLAIM_ONCE -> ends(d)
            :: else -> R[d].st = CLAIM; printf("daemon %d sends its claim again\n", d)
            fi
        fi
    }
    :: ADOPT(0)
#if BATCHES > 1
    :: ADOPT(1)
#endif
#if BATCHES > 2
    :: ADOPT(2)
#endif
    :: d_step { MAY(d) && R[d].st == SCAN ->
        if
        :: !B[R[d].b].stands -> printf("daemon %d finds batch %d gone\n", d, R[d].b); ends(d)
        :: else ->
            i = (READS_PACKED(d) -> 0 : B[R[d].b].packed); /* what it does not see */
            R[d].hashes = B[R[d].b].hashes & ~i;
            R[d].rows = B[R[d].b].rows & (FIRST | ROWS_OF(B[R[d].b].packed)) & ~ROWS_OF(i);
            R[d].server = server;
            R[d].st = SCAN_MORE
        fi
    }
    :: d_step { MAY(d) && R[d].st == SCAN_MORE ->
        R[d].rows = R[d].rows | (B[R[d].b].rows & SECOND & ~ROWS_OF(B[R[d].b].packed));
        if
        :: !B[R[d].b].stands -> printf("daemon %d finds batch %d gone\n", d, R[d].b); ends(d)
        :: B[R[d].b].stands && HASHES(R[d].rows) != R[d].hashes -> R[d].st = HELD
        :: else ->
            printf("daemon %d scanned batch %d: hits %d\n", d, R[d].b, R[d].rows);
            R[d].st = (BARRIER && !R[d].adopted -> SCANNED : MERGE)
        fi
    }
    :: d_step { MAY(d) && R[d].fence == UNASKED && BARRIER && !R[d].adopted &&
        (R[d].st == SCAN || R[d].st == SCAN_MORE || R[d].st == SCANNED || (!FENCE_BEHIND && R[d].st == CLAIM)) ->
        R[d].fence = (FENCE_WRITE -> WRITTEN : PASSED);
        R[d].fence_server = server;
        printf("daemon %d asks for a fence\n", d)
    }
    :: d_step { MAY(d) && R[d].st == SCANNED && R[d].fence == PASSED ->
        if
        :: RESCAN && R[d].server != R[d].fence_server -> again(d, SCAN)
        :: else -> R[d].st = MERGE; R[d].fence = UNASKED; R[d].fence_server = 0; printf("daemon %d passes its fence\n", d)
        fi
    }
    :: d_step { TO_MERGE(d, 0) -> merge(d, 0, true) }
    :: d_step { TO_MERGE(d, 1) -> merge(d, 1, true) }
    :: d_step { MAY(d) && R[d].st == DISCARD -> run_discard(R[d].b); ends(d) }
    /* Faults on its way. */
    :: d_step { FAULT && MAY(d) && (R[d].st == CLAIM || R[d].st == RENAMED || R[d].st == COPIED || R[d].st == CLAIMED) ->
        faults--;
        R[d].st = DOUBT;
        printf("daemon %d loses the link that its claim is on\n", d)
    }
    :: d_step { FAULT && TO_MERGE(d, 0) -> faults--; merge(d, 0, false) }
    :: d_step { FAULT && TO_MERGE(d, 1) -> faults--; merge(d, 1, false) }
    :: d_step { FAULT && MAY(d) && R[d].st == MERGE ->
        faults--;
        again(d, SCAN);
        printf("daemon %d loses MySQL\n", d)
    }
#if CRASHES
    :: d_step { FAULT && MAY(d) && (!FOR_GOOD || d == 0) ->
        faults--;
        R[d].alive = false;
        ends(d);
        printf("daemon %d crashes\n", d)
    }
    :: d_step { !R[d].alive && !FOR_GOOD -> R[d].alive = true; printf("daemon %d starts again\n", d) }
#endif
    od
}

/* --- the world --- */

#define LEFT (pending | B[0].rows | B[1].rows | B[BATCHES - 1].rows)

active proctype world()
{
    atomic {
        i = 0;
        do
        :: i < DAEMONS ->
            R[i].alive = true;
            R[i].b = NO_BATCH;
            run daemon(i);
            run redis(i);
            i++
        :: else -> break
        od
    }
end:
    do
    :: d_step { !calm && (hits & FIRST) != FIRST ->
        rows = (hits + 1) & ~hits & FIRST; /* the lowest that did not come */
        hits = hits | rows;
        pending = pending | rows;
        acked = acked | rows;
        printf("redis    hit %d on the first hash\n", rows);
        rows = 0
    }
    :: d_step { !calm && (hits & SECOND) == 0 ->
        hits = hits | SECOND;
        pending = pending | SECOND;
        acked = acked | SECOND;
        printf("redis    hit %d on the second hash\n", SECOND)
    }
    :: d_step { R[0].fence == WRITTEN || R[1].fence == WRITTEN || R[DAEMONS - 1].fence == WRITTEN || (ROLLBACK && FAULT) ->
        fsync()
    }
    :: d_step { ROLLBACK && FAULT && !server -> faults--; restart() }
    :: d_step { !calm -> calm = true }
    :: timeout -> d_step {
        if
        :: (acked & ~merged & ~LEFT) != 0 && (SEEK & LOSS) -> BROKEN("BROKEN loss\n")
        :: else
        fi;
        if
        :: (LEFT != 0 || R[0].st != IDLE || R[1].st != IDLE || R[DAEMONS - 1].st != IDLE) && (SEEK & STUCK) -> BROKEN("BROKEN stuck\n")
        :: else
        fi
    }
       break
    od
}
