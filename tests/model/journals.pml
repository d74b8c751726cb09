/* tests/model/journals.pml - a journal that tallyds take over from each other: is what it holds brought home once?
 *
 * Mirrors      src/redis/journal_op.c and its scripts (take, list and kill, ended, read), src/coalesce/takeover.c (which lives are
 *              orphans), src/coalesce/journals.c (a link that comes up looks which life owns it), checkpoint.c (home).
 * One journal  with one hit, of daemon 0. A life has one link; what it sent there runs when Redis reads it: also after a cut
 *              that Redis did not see, also when its sender is dead, but never once the link was ended.
 * Abstracted   the frame in doubt: frames.pml has it. A life that comes back has its old link ended, and knows whether that
 *              frame ran. Records: the one frame that brings the hit home ends the journal. A lost tail of Redis: with it
 *              the journal's owner, those before and what it holds go back to one moment, and no link lives through it.
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; CMakeLists.txt has what each breaks. */
#ifndef TAKE_ALL
#define TAKE_ALL 1 /* 0: the links of the last owner alone are ended */
#endif
#ifndef JOURNAL_KILL
#define JOURNAL_KILL 1 /* 0: no links are ended before it is read */
#endif
#ifndef JOURNAL_LOOK
#define JOURNAL_LOOK 1 /* 0: a link that comes up does not look which life owns the journal */
#endif
#ifndef TAKE_OWNER
#define TAKE_OWNER 1 /* 0: it is taken even if it has another owner by now */
#endif

/* Sizes: bounds of the arrays. */
#ifndef FAULTS
#define FAULTS 3 /* cuts and crashes */
#endif

#define DAEMONS 2
#define LIVES (DAEMONS + FAULTS)
#define NOBODY LIVES

mtype = { NOTHING, HOME, TAKE, KILL, ENDED, READ };

/* Redis. */
bool listed = true; /* in tally:journals; the string exists */
byte owner, taken;  /* there, a life; in tally:journals:taken, a set of lives */
byte homes;
bool up[LIVES];       /* a link of that life is open */
mtype sent[LIVES] = NOTHING; /* on it, unread */
mtype late[LIVES] = NOTHING; /* the same on a link that the life has given up */
byte from[LIVES];     /* TAKE: the owner named */
byte to_end[LIVES];   /* KILL: the lives whose links it ends */
bool answered[LIVES]; /* what was sent ran, and the answer is read */
bool good[LIVES];     /* that answer: taken, still taken, there is something to read */
bool homed[LIVES];    /* its HOME ran: what a look at its seq tells */
byte inst[LIVES];     /* the daemon of each life */

byte lives = DAEMONS, faults;
hidden byte i;

#define BIT(l) (1 << (l))
#define LINKED(l) (up[l] || late[l] != NOTHING)

inline home_runs(l)
{
    homes++;
    homed[l] = true;
    listed = false;
    taken = 0;
    if
    :: homes > 1 -> printf("BROKEN double\n"); assert(false)
    :: else
    fi
}

inline take_runs(l)
{
    good[l] = listed && (owner == from[l] || !TAKE_OWNER);
    if
    :: good[l] ->
        taken = (TAKE_ALL -> taken : 0) | (from[l] != l -> BIT(from[l]) : 0);
        to_end[l] = taken & ~BIT(l);
        owner = l
    :: else
    fi
}

inline kill_runs(l)
{
    i = 0;
    do
    :: i < LIVES ->
        if
        :: JOURNAL_KILL && (to_end[l] & BIT(i)) != 0 ->
            up[i] = false;
            sent[i] = NOTHING;
            late[i] = NOTHING
        :: else
        fi;
        i++
    :: else -> break
    od;
    to_end[l] = 0;
    good[l] = true
}

inline ended_runs(l)
{
    good[l] = listed && owner == l;
    if
    :: good[l] -> taken = 0
    :: else
    fi
}

inline runs(l, what)
{
    if
    :: what == HOME -> printf("redis    life %d's frame brings it home\n", l); home_runs(l)
    :: what == TAKE -> take_runs(l); printf("redis    life %d takes it from %d: %d\n", l, from[l], good[l])
    :: what == KILL -> printf("redis    life %d ends links\n", l); kill_runs(l)
    :: what == ENDED -> ended_runs(l); printf("redis    life %d has ended all: %d\n", l, good[l])
    :: what == READ -> good[l] = listed; printf("redis    life %d reads it: %d\n", l, good[l])
    fi
}

proctype redis(byte l)
{
    mtype what;
end:
    do
    :: d_step { up[l] && sent[l] != NOTHING ->
        what = sent[l];
        sent[l] = NOTHING;
        answered[l] = true;
        runs(l, what);
        what = NOTHING
    }
    :: d_step { late[l] != NOTHING ->
        what = late[l];
        late[l] = NOTHING;
        runs(l, what);
        what = NOTHING
    }
    od
}

#define SEND(what)                                                                                           \
    sent[me] = what;                                                                                         \
    answered[me] = false;                                                                                    \
    asked = what
#define ANSWER(what) asked == what && answered[me]
#define MAY_SEND open && up[me] && asked == NOTHING
#define FAULT faults < FAULTS && listed

/* What it asked of a take is asked anew. The asker drives a list and its kills: none of them run after its link. */
inline link_is_lost()
{
    late[me] = (up[me] && (sent[me] == HOME || sent[me] == TAKE || sent[me] == ENDED) -> sent[me] : late[me]);
    up[me] = false;
    sent[me] = NOTHING;
    answered[me] = false;
    good[me] = false;
    to_end[me] = 0;
    open = false;
    looked = false;
    asked = NOTHING
}

proctype daemon(byte d)
{
    byte me = d, seen = NOBODY;                         /* as the list named the owner */
    bool open = true, looked = true, has = (d == 0); /* has: the journal, in memory */
    mtype asked = NOTHING;
end:
    do
    /* home */
    :: d_step { MAY_SEND && looked && has -> SEND(HOME) }
    :: d_step { ANSWER(HOME) -> has = false; asked = NOTHING }
    /* taking over */
    :: d_step { !has && asked == NOTHING && seen == NOBODY && listed && (!LINKED(owner) || inst[owner] == d) ->
        seen = owner;
        printf("life %d   lists it: life %d has it\n", me, owner)
    }
    :: d_step { MAY_SEND && looked && seen != NOBODY && !has ->
        from[me] = seen;
        seen = NOBODY;
        SEND(TAKE)
    }
    :: d_step { ANSWER(TAKE) && good[me] -> SEND(KILL) }
    :: d_step { ANSWER(KILL) -> SEND(ENDED) }
    :: d_step { ANSWER(ENDED) && good[me] -> SEND(READ) }
    :: d_step { (ANSWER(TAKE) || ANSWER(ENDED)) && !good[me] -> asked = NOTHING }
    :: d_step { ANSWER(READ) -> has = good[me]; asked = NOTHING }
    /* links */
    :: d_step { open && !up[me] -> link_is_lost(); printf("life %d   sees the cut\n", me) }
    :: d_step { !open && (listed || has) ->
        late[me] = (late[me] == HOME -> NOTHING : late[me]); /* in doubt: that link is ended */
        has = has && !homed[me];
        open = true;
        up[me] = true;
        sent[me] = NOTHING;
        looked = !JOURNAL_LOOK;
        printf("life %d   is back\n", me)
    }
    :: d_step { MAY_SEND && !looked ->
        looked = true;
        has = has && listed && owner == me;
        printf("life %d   looks: it has %d\n", me, has)
    }
    /* faults */
    :: d_step { FAULT && up[me] ->
        faults++;
        up[me] = false;
        sent[me] = NOTHING;
        printf("redis    the link of life %d is cut\n", me)
    }
    :: d_step { FAULT && open && up[me] ->
        faults++;
        link_is_lost();
        printf("life %d   gives its link up\n", me)
    }
    :: d_step { FAULT && lives < LIVES ->
        faults++;
        link_is_lost();
        has = false;
        seen = NOBODY;
        from[me] = 0;
        printf("life %d   crashes, and is back as life %d\n", me, lives);
        me = lives;
        inst[me] = d;
        lives++
    }
    od
}

/* No process has anything left to do. */
active proctype rest()
{
    timeout;
    if
    :: homes == 0 -> printf("BROKEN stuck\n"); assert(false)
    :: else
    fi
}

init
{
    atomic {
        inst[1] = 1;
        up[0] = true;
        up[1] = true;
        run daemon(0);
        run daemon(1);
        i = 0;
        do
        :: i < LIVES -> run redis(i); i++
        :: else -> break
        od
    }
}
