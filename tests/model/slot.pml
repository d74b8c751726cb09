/* tests/model/slot.pml - a frame while its slot moves between two nodes of a cluster, to and fro (rule C48).
 *
 * Mirrors      src/coalesce/flight.c, doubt.c: a refusal by MOVED, ASK or TRYAGAIN, the cut that follows, kill, look, settle, and
 *              what clients hear when a frame is given up; src/redis/frame_op.c: the WATCH of the number.
 * One daemon   with one link, to either node: it may believe an old map. What a node has not read of an old link may run later.
 * A slot       has an owner, and is on its way or not; its two keys, the life's number and a hash, go over one by one. A node
 *              runs a frame when it is the owner and, on the way, has both keys: one that it lacks is an ASK or TRYAGAIN.
 * Faults       a link cut, with its frame read, unread, or lost. So many moves of the slot.
 * Abstracted   claims, ZADDs, crashes (frames.pml); failovers, where a node comes back with other data (failover.pml).
 * Ends         when nothing can move any more, after clients and faults have ended (`calm`).
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; run.py has which one breaks what, and with what bounds. */
#ifndef ASTRAY_LAST
#define ASTRAY_LAST 1 /* 0: a refused frame that was sent again is told as not counted all the same */
#endif
#ifndef UNHEARD
#define UNHEARD 1 /* 0: also one that an old link may run yet, as there is no number that it watches */
#endif
#ifndef GIVEN_UP_NEVER_SENT
#define GIVEN_UP_NEVER_SENT 1
#endif
#ifndef ASK_NUMBER
#define ASK_NUMBER 1 /* 0: what is in doubt is sent again on the next link, whatever the number says */
#endif
#ifndef NO_KEY_NO_NUMBER
#define NO_KEY_NO_NUMBER 1 /* 0: a node that the number has left is believed to have none */
#endif
#ifndef FRAME_WATCH
#define FRAME_WATCH 1 /* a frame runs only while the number is what the link saw */
#endif
#ifndef KILL
#define KILL 1 /* the old link is killed, when the next one is at the same node */
#endif

/* Sizes: bounds of the arrays. */
#ifndef HITS
#define HITS 2
#endif

/* Bounds. */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef FIRST
#define FIRST 0 /* 1: no frame of this life was applied before, so its number does not exist */
#endif

#define NOWHERE 2
#define NOW 2 /* the link in use; the others are what each node has of an old one */

#define DOWN 0
#define TO_KILL 1
#define LOOK 2
#define READY 3

#define NONE 0
#define APPLIED 1
#define REFUSED 2
#define CHANGED 3

#define COUNTED 1
#define UNKNOWN 2
#define NOT_COUNTED 3

byte owner, seq_at, hash_at = NOWHERE, seq, ran;
bool moving;

typedef link_state {
    byte at, seq, hit; /* unread: hit > 0 */
    bool changed;        /* the number, since this link watches it */
};
link_state L[3];

typedef frame_state {
    byte seq, hit; /* hit > 0: sent, and not answered by Redis */
    bool astray, unheard, given_up;
};
frame_state F;
byte link, answer, suspect = NOWHERE, last;
byte told[HITS + 1];
bool numbered = !FIRST; /* a frame of this life is known to be applied */

byte hits, faults = FAULTS, moves;
bool calm;

hidden byte i, j, x, found;

#define BIT(h) (1 << (h))
#define HAS_RUN(h) ((ran >> (h)) & 1)
#define HAS_KEYS(x) (owner == x && (!moving || (seq_at == x && hash_at == x)))
#define HAS_NUMBER(x) (owner == x && (!moving || seq_at == x || !NO_KEY_NO_NUMBER))

#define LOSS "BROKEN loss\n"
#define DOUBLE "BROKEN double\n"
#define STUCK "BROKEN stuck\n"
#define ANSWER "BROKEN answer\n" /* told as not counted, and it counts */
#define MUST(holds, otherwise)                                                                               \
    if                                                                                                       \
    :: holds -> skip                                                                                         \
    :: else -> printf(otherwise); assert(false)                                                              \
    fi

/* --- the nodes --- */

inline touch(node_)
{
    j = 0;
    do
    :: j <= NOW ->
        if
        :: L[j].at == node_ -> L[j].changed = true
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0
}

inline run_frame(l)
{
    x = L[l].at;
    if
    :: !HAS_KEYS(x) -> found = REFUSED
    :: HAS_KEYS(x) && L[l].changed && FRAME_WATCH -> found = CHANGED
    :: else ->
        MUST(!HAS_RUN(L[l].hit), DOUBLE);
        MUST(told[L[l].hit] != NOT_COUNTED, ANSWER);
        ran = ran | BIT(L[l].hit);
        seq = L[l].seq;
        seq_at = x;
        hash_at = x;
        touch(x);
        L[l].changed = false;
        found = APPLIED
    fi;
    printf("node %d   reads frame %d of link %d (hit %d): %d\n", x, L[l].seq, l, L[l].hit, found);
    if
    :: l == NOW -> answer = found
    :: else
    fi;
    L[l].seq = 0;
    L[l].hit = 0;
    found = 0;
    x = 0
}

proctype node(byte l)
{
end:
    do
    :: d_step { L[l].hit > 0 -> run_frame(l) }
    od
}

/* --- the daemon --- */

inline drop_link()
{
    L[NOW].at = NOWHERE;
    L[NOW].seq = 0;
    L[NOW].hit = 0;
    L[NOW].changed = false;
    answer = NONE;
    if
    :: link == READY && F.hit > 0 -> suspect = x
    :: else
    fi;
    link = DOWN;
    x = 0
}

inline finish()
{
    F.seq = 0;
    F.hit = 0;
    F.astray = false;
    F.unheard = false;
    F.given_up = false
}

inline tell(what)
{
    if
    :: !F.given_up -> told[F.hit] = what
    :: else
    fi
}

inline applied()
{
    printf("daemon   frame %d is applied\n", F.seq);
    MUST(HAS_RUN(F.hit), LOSS);
    numbered = true;
    tell(COUNTED);
    finish()
}

inline send()
{
    L[NOW].seq = F.seq;
    L[NOW].hit = F.hit
}

inline settle()
{
    if
    :: F.hit > 0 && F.seq <= found && ASK_NUMBER -> applied()
    :: F.hit > 0 && !(F.seq <= found && ASK_NUMBER) && F.given_up && GIVEN_UP_NEVER_SENT ->
        printf("daemon   forgets frame %d\n", F.seq);
        finish()
    :: F.hit > 0 && !(F.seq <= found && ASK_NUMBER) && !(F.given_up && GIVEN_UP_NEVER_SENT) ->
        printf("daemon   sends frame %d again, to node %d\n", F.seq, L[NOW].at);
        F.unheard = F.unheard || (!F.astray && !numbered && UNHEARD);
        F.astray = F.astray && !ASTRAY_LAST;
        send()
    :: else
    fi;
    suspect = NOWHERE;
    link = READY
}

inline connect(node_)
{
    L[NOW].at = node_;
    link = (KILL && suspect == node_ && F.hit > 0 -> TO_KILL : LOOK);
    printf("daemon   is connected to node %d\n", node_)
}

proctype daemon()
{
end:
    do
    :: d_step { !calm && hits < HITS && link == READY && F.hit == 0 ->
        hits++;
        last++;
        F.seq = last;
        F.hit = hits;
        printf("daemon   sends frame %d (hit %d) to node %d\n", F.seq, F.hit, L[NOW].at);
        send()
    }
    :: d_step { answer == APPLIED -> answer = NONE; applied() }
    :: d_step { answer > APPLIED ->
        x = L[NOW].at;
        F.astray = (answer == REFUSED);
        printf("daemon   hears %d of frame %d\n", answer, F.seq);
        drop_link()
    }
    :: d_step { link == DOWN -> connect(0) }
    :: d_step { link == DOWN -> connect(1) }
    :: d_step { link == TO_KILL ->
        x = L[NOW].at;
        printf("daemon   has its old link to node %d killed\n", x);
        L[x].seq = 0;
        L[x].hit = 0;
        link = LOOK;
        x = 0
    }
    :: d_step { link == LOOK ->
        x = L[NOW].at;
        if
        :: HAS_NUMBER(x) ->
            found = (seq_at == x -> seq : 0);
            L[NOW].changed = false;
            printf("daemon   reads number %d at node %d\n", found, x);
            settle();
            found = 0;
            x = 0
        :: else ->
            printf("daemon   is told that node %d does not have it\n", x);
            drop_link()
        fi
    }
    :: d_step { !calm && link != READY && F.hit > 0 && !F.given_up ->
        told[F.hit] = (F.astray && !F.unheard -> NOT_COUNTED : UNKNOWN);
        F.given_up = true;
        printf("daemon   gives frame %d up (astray %d)\n", F.seq, F.astray);
        MUST(told[F.hit] != NOT_COUNTED || !HAS_RUN(F.hit), ANSWER)
    }
    od
}

/* --- the slot, and faults --- */

active proctype world()
{
    atomic {
        seq_at = (FIRST -> NOWHERE : 0);
        L[1].at = 1;
        link = READY;
        run daemon();
        run node(0);
        run node(1);
        run node(NOW)
    }
end:
    do
    :: d_step { !calm && faults > 0 && link != DOWN ->
        faults--;
        printf("link     is cut; frame %d is lost\n", L[NOW].seq);
        x = L[NOW].at;
        drop_link()
    }
    :: d_step { !calm && faults > 0 && L[NOW].hit > 0 && L[L[NOW].at].hit == 0 ->
        faults--;
        x = L[NOW].at;
        L[x].seq = L[NOW].seq;
        L[x].hit = L[NOW].hit;
        L[x].changed = L[NOW].changed;
        printf("link     is cut; node %d has frame %d unread\n", x, L[x].seq);
        drop_link()
    }
    :: d_step { !calm && !moving && moves < MOVES ->
        moves++;
        moving = true;
        printf("slot     begins its way to node %d\n", 1 - owner)
    }
    :: d_step { moving && seq_at == owner ->
        printf("slot     the number goes to node %d\n", 1 - owner);
        touch(0);
        touch(1);
        seq_at = 1 - owner
    }
    :: d_step { moving && hash_at == owner ->
        printf("slot     the hash goes to node %d\n", 1 - owner);
        hash_at = 1 - owner
    }
    :: d_step { moving && seq_at != owner && hash_at != owner ->
        owner = 1 - owner;
        moving = false;
        printf("slot     is node %d's\n", owner)
    }
    :: d_step { !calm -> calm = true }
    :: timeout -> d_step {
        MUST(link == READY && F.hit == 0, STUCK);
        i = 1;
        do
        :: i <= hits ->
            MUST(told[i] != 0, STUCK);
            MUST(told[i] != COUNTED || HAS_RUN(i), LOSS);
            MUST(told[i] != NOT_COUNTED || !HAS_RUN(i), ANSWER);
            i++
        :: else -> break
        od;
        i = 0
    }
       break
    od
}
