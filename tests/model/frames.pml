/* tests/model/frames.pml - the frame protocol: when may a daemon say "applied", and is every pending hash in the dirty index?
 *
 * Mirrors      src/coalesce/flight.c (send, answers, refusals), doubt.c (cut, kill, look, settle), claims.c;
 *              src/redis/claim.c as far as pending hash and dirty index go; src/app/start.c (links of earlier lives
 *              are killed first), upkeep.c (the walk: at start, on each reconnect, by timer).
 * Two daemons  on one Redis, one pending hash. A hit is one frame, and has a number, so that Redis shows whether it ran,
 *              and twice. A link is a queue that Redis reads when it likes; after a cut the rest of it may still be read.
 * Faults       a link cut with none, some or all of what Redis had not read; replies lost by it; a refused frame; a
 *              crash, with a new life or without; Redis restarted from what it had kept (its tail is lost).
 * Abstracted   what a claim leads to (sync.pml); locks and what makes a hash due: a claim comes at any time. The due queue
 *              of a process is a hint that dies with it: only what is in the index counts as found. Values, shares, ops.
 *              Run ids: a restart ends all links at once. Kill and look are a round trip each. All frames are of one hash.
 * Ends         when nothing can move any more, after clients and faults have ended (`calm`): what is pending then is stuck.
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; run.py has which one breaks what, and with what bounds. */
#ifndef LIFE_IN_SEQ
#define LIFE_IN_SEQ 1 /* the seq key names the life, too */
#endif
#ifndef KILL_BEFORE_SEQ
#define KILL_BEFORE_SEQ 1 /* the old link is killed */
#endif
#ifndef KILL_THEN_LOOK
#define KILL_THEN_LOOK 1 /* ... and only then seq is read */
#endif
#ifndef KILL_FOR_CLAIM
#define KILL_FOR_CLAIM 1 /* ... also when only a claim is in doubt */
#endif
#ifndef KILL_NAMED
#define KILL_NAMED 1 /* links of earlier lives are killed at start */
#endif
#ifndef ONE_IN_FLIGHT
#define ONE_IN_FLIGHT 1
#endif
#ifndef DIRTY_AT_SEND
#define DIRTY_AT_SEND 1 /* 0: a frame's reply makes its hash known dirty */
#endif
#ifndef FORGET_AT_SEND
#define FORGET_AT_SEND 1 /* 0: a claim's reply forgets its hash */
#endif
#ifndef FORGET_AT_CUT
#define FORGET_AT_CUT 1
#endif
#ifndef REFUSED_AS_IS
#define REFUSED_AS_IS 1 /* 0: a refusal brings back known dirty from before the frame */
#endif
#ifndef RESEND_ALL_ZADD
#define RESEND_ALL_ZADD 1 /* 0: sent again as it was */
#endif
#ifndef OWED
#define OWED 1 /* 0: no ZADD is ever owed */
#endif
#ifndef OWED_AFTER_DOUBT
#define OWED_AFTER_DOUBT 1 /* ... by a frame found applied */
#endif
#ifndef OWED_AFTER_REFUSAL
#define OWED_AFTER_REFUSAL 1 /* ... again, when the frame that carried it was refused */
#endif
#ifndef ANSWERED_NEVER_SENT
#define ANSWERED_NEVER_SENT 1 /* 0: a frame whose clients were told "unknown" is sent again */
#endif
#ifndef WALK_BY_TIMER
#define WALK_BY_TIMER 1
#endif

/* Sizes: bounds of the arrays. */
#ifndef DAEMONS
#define DAEMONS 2
#endif

/* Bounds. */
#ifndef HITS
#define HITS 3
#endif
#ifndef CLAIMS
#define CLAIMS 2 /* before calm; then each dirty hash is claimed */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef CUTS
#define CUTS 1 /* 0: no links are cut */
#endif
#ifndef CRASHES
#define CRASHES 1 /* 0: no daemon dies */
#endif
#ifndef REFUSALS
#define REFUSALS 1 /* 0: no frame is refused */
#endif
#ifndef ROLLBACK
#define ROLLBACK 0 /* 1: Redis may be restarted, and lose its tail */
#endif
#ifndef FOR_GOOD
#define FOR_GOOD 0 /* 1: a crashed daemon never comes back */
#endif

#if ONE_IN_FLIGHT
#define DEPTH 1
#else
#define DEPTH 2
#endif
#define LIVES 2
#define ANYBODY (DAEMONS - 1)

#define DOWN 0
#define KILL 1
#define LOOK 2
#define READY 3

mtype = { frame, claim };

/* Redis: what is, and what a restart would find. */
bool pending, dirty, kept_pending, kept_dirty;
byte ran, kept_ran; /* hits, a bit each */
byte seq_key[DAEMONS * LIVES], kept_seq[DAEMONS * LIVES];

/* Of each daemon its link, and what Redis has not read of the one before. Of a frame: seq key, number, hit (0: none),
 * does it carry the ZADD? */
chan unread[2 * DAEMONS] = [3] of { mtype, byte, byte, byte, bool };
chan answer[DAEMONS] = [3] of { mtype, bool /* applied */, bool /* fresh: it made the hash */ };
#define OLD(d) (DAEMONS + d)

typedef box {
    byte seq, hit;
    bool zadd, owed, given_up;
};
typedef daemon_state {
    bool alive, known, owes, claimed, walks; /* known: dirty; claimed: a claim without its answer; walks: one is due */
    byte life, link, seq, found, flight_n;
    box flight[DEPTH];
};
daemon_state D[DAEMONS];

byte hits, claims, faults = FAULTS;
bool calm; /* no more hits, claims without reason, faults */

/* Scratch of one d_step each. */
hidden mtype what;
hidden byte slot, number, hit, i, j, n;
hidden byte zadd, fresh, applied, gone; /* bits */

#define BIT(h) (1 << (h))
#define HAS_RUN(h) ((ran >> (h)) & 1)
#define SLOT(d) (d * LIVES + (LIFE_IN_SEQ -> D[d].life : 0))

/* The runner replays the trail and reads which of these broke. */
#define LOSS "BROKEN loss\n" /* a client is told that its hit counts, and it does not */
#define DOUBLE "BROKEN double\n"
#define STUCK "BROKEN stuck\n"
#define ANSWER "BROKEN answer\n" /* sent after its clients were told that it was given up */
#define MUST(holds, otherwise)                                                                               \
    if                                                                                                       \
    :: holds -> skip                                                                                         \
    :: else -> printf(otherwise); assert(false)                                                              \
    fi

/* --- Redis --- */

inline run_frame(l)
{
    if
    :: hit > 0 ->
        MUST(!HAS_RUN(hit), DOUBLE);
        fresh = !pending;
        pending = true;
        ran = ran | BIT(hit)
    :: else -> fresh = false
    fi;
    dirty = dirty | zadd;
    seq_key[slot] = number;
    printf("redis    runs frame %d of link %d (hit %d, zadd %d)\n", number, l, hit, zadd)
}

inline run_claim(l)
{
    printf("redis    runs the claim of link %d (pending %d)\n", l, pending);
    pending = false;
    dirty = false
}

/* One for each queue; l >= DAEMONS is that of a link which is gone. */
proctype redis(byte l)
{
end:
    do
    :: d_step { nempty(unread[l]) ->
        unread[l]?what, slot, number, hit, zadd;
        fresh = false;
        if
        :: what == frame -> run_frame(l)
        :: else -> run_claim(l)
        fi;
        if
        :: l < DAEMONS -> answer[l]!what, 1, fresh
        :: else
        fi;
        what = 0
    }
#if REFUSALS
    :: d_step { !calm && faults > 0 && unread[l]?[frame, _, _, _, _] ->
        faults--;
        unread[l]?what, slot, number, hit, zadd;
        printf("redis    refuses frame %d of link %d\n", number, l);
        if
        :: l < DAEMONS -> answer[l]!what, 0, 0
        :: else
        fi;
        what = 0
    }
#endif
    od
}

/* --- a daemon --- */

inline owe(d)
{
    D[d].owes = OWED
}

/* flight.c: engine_send, hash_on_send */
inline send(d, the_hit)
{
    n = D[d].flight_n;
    D[d].seq++;
    zadd = D[d].owes || (the_hit > 0 && !D[d].known);
    D[d].flight[n].seq = D[d].seq;
    D[d].flight[n].hit = the_hit;
    D[d].flight[n].owed = D[d].owes;
    D[d].flight[n].zadd = zadd;
    D[d].owes = false;
    if
    :: zadd && DIRTY_AT_SEND -> D[d].known = true
    :: else
    fi;
    D[d].flight_n++;
    unread[d]!frame, SLOT(d), D[d].seq, the_hit, zadd;
    printf("daemon %d sends frame %d (hit %d, zadd %d)\n", d, D[d].seq, the_hit, zadd)
}

/* flight.c: land; n: which one. */
inline finish(d)
{
#if DEPTH == 2
    if
    :: n == 0 ->
        D[d].flight[0].seq = D[d].flight[1].seq;
        D[d].flight[0].hit = D[d].flight[1].hit;
        D[d].flight[0].zadd = D[d].flight[1].zadd;
        D[d].flight[0].owed = D[d].flight[1].owed;
        D[d].flight[0].given_up = D[d].flight[1].given_up
    :: else
    fi;
#endif
    D[d].flight[DEPTH - 1].seq = 0;
    D[d].flight[DEPTH - 1].hit = 0;
    D[d].flight[DEPTH - 1].zadd = false;
    D[d].flight[DEPTH - 1].owed = false;
    D[d].flight[DEPTH - 1].given_up = false;
    D[d].flight_n--
}

/* flight.c: hash_applied, hash_refused */
inline on_frame(d)
{
    n = 0;
    hit = D[d].flight[0].hit;
    if
    :: applied ->
        printf("daemon %d frame %d was applied (fresh %d)\n", d, D[d].flight[0].seq, fresh);
        MUST(hit == 0 || HAS_RUN(hit), LOSS);
        if
        :: D[d].flight[0].zadd && !DIRTY_AT_SEND -> D[d].known = true
        :: else
        fi;
        if
        :: fresh && !D[d].flight[0].zadd -> owe(d)
        :: else
        fi
    :: else ->
        printf("daemon %d frame %d was refused\n", d, D[d].flight[0].seq);
        if
        :: !REFUSED_AS_IS -> D[d].known = !D[d].flight[0].zadd
        :: REFUSED_AS_IS && D[d].flight[0].zadd -> D[d].known = false
        :: else
        fi;
        if
        :: D[d].flight[0].owed && OWED_AFTER_REFUSAL -> owe(d)
        :: else
        fi
    fi;
    finish(d)
}

/* claims.c: coalesce_on_claim */
inline on_claim(d)
{
    D[d].claimed = false;
    if
    :: !FORGET_AT_SEND -> D[d].known = false
    :: else
    fi;
    printf("daemon %d hears of its claim\n", d)
}

/* doubt.c: box_found_applied, box_drop, box_send_again */
inline settle_frame(d)
{
    hit = D[d].flight[n].hit;
    if
    :: D[d].flight[n].seq <= D[d].found ->
        printf("daemon %d finds frame %d applied\n", d, D[d].flight[n].seq);
        MUST(hit == 0 || HAS_RUN(hit), LOSS);
        if
        :: !D[d].flight[n].zadd && hit > 0 && OWED_AFTER_DOUBT -> owe(d)
        :: else
        fi;
        finish(d)
    :: else ->
        if
        :: D[d].flight[n].given_up && ANSWERED_NEVER_SENT ->
            if
            :: D[d].flight[n].owed -> owe(d)
            :: else
            fi;
            finish(d)
        :: else ->
            MUST(!D[d].flight[n].given_up, ANSWER);
            if
            :: RESEND_ALL_ZADD -> D[d].flight[n].zadd = true; D[d].known = true
            :: else
            fi;
            printf("daemon %d sends frame %d again (hit %d, zadd %d)\n", d, D[d].flight[n].seq, hit,
                   D[d].flight[n].zadd);
            unread[d]!frame, SLOT(d), D[d].flight[n].seq, hit, D[d].flight[n].zadd;
            n++
        fi
    fi
}

inline settle(d)
{
    n = 0;
    do
    :: n < D[d].flight_n -> settle_frame(d)
    :: else -> break
    od;
    n = 0;
    D[d].found = 0;
    D[d].link = READY
}

#define IN_DOUBT(d) (D[d].flight_n > 0 || (KILL_FOR_CLAIM && D[d].claimed))
#define KILLS(d) (KILL_BEFORE_SEQ && IN_DOUBT(d))

inline empty_queue(l)
{
    do
    :: nempty(unread[l]) -> unread[l]?what, slot, number, hit, zadd
    :: empty(unread[l]) -> break
    od;
    what = 0
}

inline walk(d)
{
    D[d].walks = false;
    printf("daemon %d walks (pending %d, dirty %d)\n", d, pending, dirty);
    dirty = dirty | pending
}

#define IS_READY(d) (D[d].alive && D[d].link == READY)
#define MAY_SEND(d) (IS_READY(d) && D[d].flight_n < DEPTH)
#define IS_UP(d) (D[d].alive && D[d].link != DOWN)

proctype daemon(byte d)
{
end:
    do
    :: d_step { !calm && hits < HITS && MAY_SEND(d) -> hits++; send(d, hits) }
    :: d_step { D[d].owes && MAY_SEND(d) -> send(d, 0) }
    :: d_step { IS_READY(d) && !D[d].claimed && (calm -> dirty : claims < CLAIMS) ->
        if
        :: !calm -> claims++
        :: else
        fi;
        if
        :: FORGET_AT_SEND -> D[d].known = false
        :: else
        fi;
        D[d].claimed = true;
        printf("daemon %d sends a claim\n", d);
        unread[d]!claim, 0, 0, 0, 0
    }
    :: d_step { IS_READY(d) && nempty(answer[d]) ->
        answer[d]?what, applied, fresh;
        if
        :: what == frame -> on_frame(d)
        :: else -> on_claim(d)
        fi;
        what = 0
    }
    :: d_step { D[d].alive && D[d].link == DOWN ->
        D[d].walks = true;
        D[d].link = (KILLS(d) && KILL_THEN_LOOK -> KILL : LOOK);
        printf("daemon %d is connected again\n", d)
    }
    :: d_step { D[d].alive && D[d].link == KILL ->
        printf("daemon %d has its old link killed\n", d);
        empty_queue(OLD(d));
        if
        :: KILL_THEN_LOOK -> D[d].link = LOOK
        :: else -> settle(d)
        fi
    }
    :: d_step { D[d].alive && D[d].link == LOOK ->
        D[d].found = seq_key[SLOT(d)];
        printf("daemon %d reads seq %d\n", d, D[d].found);
        gone = KILLS(d) && !KILL_THEN_LOOK;
        D[d].claimed = false; /* whether it exists: sync.pml */
        if
        :: gone -> D[d].link = KILL
        :: else -> settle(d)
        fi;
        gone = false
    }
    :: d_step { IS_UP(d) && D[d].walks -> walk(d) }
    :: d_step { WALK_BY_TIMER && FOR_GOOD && IS_UP(d) && pending && !dirty -> walk(d) }
#if CUTS
    :: d_step { !calm && IS_UP(d) && D[d].link != READY && D[d].flight_n > 0 && !D[d].flight[0].given_up ->
        D[d].flight[0].given_up = true;
        printf("daemon %d gives frame %d up: its clients hear \"unknown\"\n", d, D[d].flight[0].seq)
    }
#endif
    od
}

/* --- faults --- */

/* Redis' side of a link that ends: it may still read the first `keeps` of what it had not read. */
inline link_ends(d, keeps)
{
    j = 0;
    do
    :: nempty(unread[d]) ->
        unread[d]?what, slot, number, hit, zadd;
        if
        :: j < keeps -> unread[OLD(d)]!what, slot, number, hit, zadd
        :: else
        fi;
        j++
    :: empty(unread[d]) -> break
    od;
    j = 0;
    do
    :: nempty(answer[d]) -> answer[d]?what, applied, fresh
    :: empty(answer[d]) -> break
    od;
    what = 0
}

inline cut(d)
{
    D[d].link = DOWN;
    D[d].found = 0;
    D[d].walks = false;
    if
    :: FORGET_AT_CUT -> D[d].known = false
    :: else
    fi
}

inline dies(d)
{
    D[d].alive = false;
    cut(d);
    D[d].known = false;
    D[d].owes = false;
    D[d].claimed = false;
    D[d].seq = 0;
    n = DEPTH - 1;
    do
    :: D[d].flight_n > 0 -> finish(d)
    :: else -> break
    od;
    finish(d); /* clears the place after the last, too */
    D[d].flight_n = 0;
    n = 0
}

#define FAULT (!calm && faults > 0)
#define CAN_END(d, keeps) (len(unread[d]) >= keeps && (keeps == 0 || empty(unread[OLD(d)])))

#define CUT_KEEPING(keeps)                                                                                   \
    d_step { FAULT && IS_UP(d) && CAN_END(d, keeps) ->                                                       \
        faults--;                                                                                            \
        printf("daemon %d loses its link; redis keeps %d unread\n", d, keeps);                               \
        link_ends(d, keeps);                                                                                 \
        cut(d)                                                                                               \
    }
#define CRASH_KEEPING(keeps)                                                                                 \
    d_step { FAULT && D[d].alive && (FOR_GOOD -> d == 0 : D[d].life + 1 < LIVES) && CAN_END(d, keeps) ->     \
        faults--;                                                                                            \
        printf("daemon %d crashes; redis keeps %d unread\n", d, keeps);                                      \
        link_ends(d, keeps);                                                                                 \
        dies(d)                                                                                              \
    }

proctype faults_of(byte d)
{
end:
    do
#if CUTS
    :: CUT_KEEPING(0)
    :: CUT_KEEPING(1)
    :: CUT_KEEPING(2)
#endif
#if CRASHES
    :: CRASH_KEEPING(0)
    :: CRASH_KEEPING(1)
    :: CRASH_KEEPING(2)
    :: d_step { !FOR_GOOD && !D[d].alive ->
        D[d].alive = true;
        D[d].life++;
        printf("daemon %d starts again\n", d);
        if
        :: KILL_NAMED -> empty_queue(OLD(d))
        :: else
        fi;
        D[d].link = READY;
        D[d].walks = true
    }
#endif
    od
}

inline keep_or_lose(keep)
{
    i = 0;
    do
    :: i < DAEMONS * LIVES ->
        if
        :: keep -> kept_seq[i] = seq_key[i]
        :: else -> seq_key[i] = kept_seq[i]
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    if
    :: keep -> kept_pending = pending; kept_dirty = dirty; kept_ran = ran
    :: else -> pending = kept_pending; dirty = kept_dirty; ran = kept_ran
    fi
}

inline restart()
{
    j = 0;
    do
    :: j < DAEMONS ->
        empty_queue(j);
        empty_queue(OLD(j));
        do
        :: nempty(answer[j]) -> answer[j]?what, applied, fresh
        :: empty(answer[j]) -> break
        od;
        if
        :: D[j].alive -> cut(j)
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0;
    what = 0
}

#define IS_QUIET(d) (!D[d].alive || (D[d].link == READY && D[d].flight_n == 0 && !D[d].owes && !D[d].claimed))

active proctype world()
{
    atomic {
        i = 0;
        do
        :: i < DAEMONS ->
            D[i].alive = true;
            D[i].link = READY;
            run daemon(i);
            run faults_of(i);
            run redis(i);
            run redis(OLD(i));
            i++
        :: else -> break
        od;
        i = 0
    }
end:
    do
    :: d_step { ROLLBACK && FAULT && (kept_pending != pending || kept_dirty != dirty || kept_ran != ran) ->
        printf("redis    has all of it on disk\n");
        keep_or_lose(true)
    }
    :: d_step { ROLLBACK && FAULT ->
        faults--;
        printf("redis    is restarted, without its tail\n");
        keep_or_lose(false);
        restart()
    }
    :: d_step { !calm -> calm = true }
    :: timeout -> d_step {
        MUST(!pending, STUCK);
        i = 0;
        do
        :: i < DAEMONS -> MUST(IS_QUIET(i), STUCK); i++
        :: else -> break
        od;
        i = 0
    }
       break
    od
}
