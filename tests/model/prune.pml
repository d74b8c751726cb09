/* tests/model/prune.pml - ages: may a row of the ledger be forgotten while a daemon may still merge its batch?
 *
 * Mirrors      src/mysql/ledger.c (prune), merge.c (ledger_refresh, not_after_ms), db.c (wait_timeout); src/sync/run.c
 *              (give_up); src/sync/prune.c (it reads which batches exist first, and deletes rows later).
 * Time         in units of a third of ledger.keep: a run gives up after 1, a row is old after 3.
 * Two daemons  and one batch of one chunk, which either of them adopts again and again, and which later ones follow.
 * Faults       a run that is paused anywhere; a crash; a discard that Redis reads up to a unit late, or forgets.
 * Abstracted   the fence: it costs time only, and a run may be paused. Chunks: each has its row (sync.pml).
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; CMakeLists.txt has what each breaks. */
#ifndef PRUNE_NOT_STANDING
#define PRUNE_NOT_STANDING 1 /* 0: by age alone */
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif
#ifndef REFRESH
#define REFRESH 1 /* a merge that finds its row makes it young */
#endif
#ifndef SESSION_ENDS
#define SESSION_ENDS 1 /* MySQL ends a session that is idle in a transaction: wait_timeout */
#endif
#ifndef CUTOFF_FIRST
#define CUTOFF_FIRST 1 /* the cutoff is taken when tallyd asks which batches exist; 0: when rows are deleted */
#endif
#ifndef CLOCK_RUNS
#define CLOCK_RUNS 1 /* 0: the clock that tells a run's age is stopped while its host sleeps */
#endif

/* Bounds. */
#ifndef UNITS
#define UNITS 9
#endif
#ifndef LATE
#define LATE 1
#endif
#define KEEP 3
#define LIFE 1
#define DAEMONS 2

#define IDLE 0
#define ADOPTED 1
#define SCANNED 2
#define CHECKED 3 /* young enough: the transaction begins */
#define MERGED 4
typedef run_state {
    byte st, born, slept;
    bool discards; /* on its way to Redis */
    byte sent;
};
run_state R[DAEMONS];

byte now;
bool claimed, stands, gone_now; /* gone_now: within this unit, so that Redis may not have it on disk */
bool row, merged;
byte merged_at;
bool later; /* a later batch is in the ledger: its gen is higher */
bool prunes, saw_it_stand;
byte cutoff; /* 3 units before it the pruning began */

#define AGE(d) (now - R[d].born - R[d].slept)
#define IS_OLD(d) (GIVE_UP && AGE(d) > LIFE)

inline ends(d)
{
    R[d].st = IDLE;
    R[d].born = 0;
    R[d].slept = 0
}

proctype daemon(byte d)
{
end:
    do
    :: d_step { R[d].st == IDLE && stands && now < UNITS ->
        R[d].st = ADOPTED;
        R[d].born = now;
        printf("daemon %d adopts the batch\n", d)
    }
    :: d_step { R[d].st == ADOPTED ->
        if
        :: stands -> R[d].st = SCANNED; printf("daemon %d scanned it\n", d)
        :: else -> ends(d)
        fi
    }
    :: d_step { R[d].st == SCANNED ->
        if
        :: IS_OLD(d) -> printf("daemon %d gives up\n", d); ends(d)
        :: else -> R[d].st = CHECKED
        fi
    }
    :: d_step { R[d].st == CHECKED ->
        if
        :: row ->
            printf("daemon %d finds it in the ledger\n", d);
            merged_at = (REFRESH -> now : merged_at)
        :: else ->
            printf("daemon %d merges it\n", d);
            if
            :: merged -> printf("BROKEN double\n"); assert(false)
            :: else -> merged = true; row = true; merged_at = now
            fi
        fi;
        R[d].st = MERGED
    }
    :: d_step { R[d].st == MERGED && !R[d].discards ->
        if
        :: !IS_OLD(d) -> R[d].discards = true; R[d].sent = now; printf("daemon %d sends the discard\n", d)
        :: else -> printf("daemon %d gives up\n", d)
        fi;
        ends(d)
    }
    :: d_step { R[d].discards -> /* redis */
        gone_now = gone_now | stands;
        stands = false;
        R[d].discards = false;
        R[d].sent = 0;
        printf("redis    discards it\n")
    }
    :: d_step { R[d].st != IDLE -> printf("daemon %d crashes\n", d); ends(d) }
    od
}

#define IN_TIME(d) (!(SESSION_ENDS && R[d].st == CHECKED) && !(R[d].discards && now - R[d].sent >= LATE))

inline tick()
{
    now++;
    gone_now = false;
    printf("now      %d\n", now)
}

active proctype world()
{
    atomic { run daemon(0); run daemon(1) }
end:
    do
    :: d_step { now < UNITS && IN_TIME(0) && IN_TIME(1) -> tick() }
    :: d_step { !CLOCK_RUNS && now < UNITS && R[0].st != IDLE && !R[0].discards && IN_TIME(0) && IN_TIME(1) ->
        R[0].slept++;
        printf("daemon 0 sleeps, and its clock stands\n");
        tick()
    }
    :: d_step { gone_now -> stands = true; gone_now = false; printf("redis    has lost the discard\n") }
    :: d_step { !claimed -> claimed = true; stands = true; printf("redis    has the batch\n") }
    :: d_step { claimed && !later -> later = true; printf("mysql    merges a later batch\n") }
    :: d_step { !prunes ->
        prunes = true;
        cutoff = now;
        saw_it_stand = stands;
        printf("pruning: the batch stands: %d\n", stands)
    }
    :: d_step { prunes ->
        if
        :: row && later && (CUTOFF_FIRST -> cutoff : now) > merged_at + KEEP && !(PRUNE_NOT_STANDING && saw_it_stand) ->
            row = false;
            merged_at = 0;
            printf("pruned\n")
        :: else
        fi;
        prunes = false;
        cutoff = 0;
        saw_it_stand = false
    }
    od
}
