/* tests/model/move.pml - `tallyd move`: keys go from one Redis, on which tallyds count meanwhile, to the lanes of a cluster.
 *
 * Mirrors      src/admin/move.c (the order of steps), src/redis/copy.c (scan, rounds), lua/move.lua (begin, copied,
 *              end), handshake.c (a name, then the look), check_op.c (a list of links, then kills).
 * Old Redis    two keys, each with a lane of its own; a value is 0 (there is no key), 1 or 2. Old tallyds have so many links. A
 *              link comes, gets a name, looks for the mark, and counts; one write of it may be sent and unread.
 * The mover    asks for one thing at a time. What it sent before it was killed may run later, on each link that is not ended:
 *              those to the home slot are never. Another is run again and again, until one finds that the move is done.
 * Home slot    a replica has what was waited for, and perhaps more. When it is promoted the rest is lost, and the mover's link. A
 *              tallyd of the cluster begins to count when it finds there that the move has ended, and is told nothing more. BUSY:
 *              it counts in each lane at once, so that a look at the lanes shows it.
 * Faults       the mover is killed; its connection for messages is lost; the operator gives the move up, first in the cluster;
 *              the mark is lost without that, but not between the mover's last look at it and the end. Another old Redis is moved
 *              into this cluster, also after this one, when the operator has emptied the cluster.
 * Abstracted   expiry, members that go by lane, tokens, replicas of lanes. Journals: one write, which comes home once (journals.pml). Two
 *              movers at once: one that was killed may have a request unread, and a mover ends when it loses a link.
 * Ends         when nothing can move any more.
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; CMakeLists.txt has what each breaks. */
#ifndef BEGIN_FIRST
#define BEGIN_FIRST 1 /* 0: lanes are swept before an earlier mover is replaced */
#endif
#ifndef END_LANE_LINKS
#define END_LANE_LINKS 1 /* 0: what an earlier mover sent to a lane may run after the sweep */
#endif
#ifndef SWEEP
#define SWEEP 1
#endif
#ifndef SWEEP_ALWAYS
#define SWEEP_ALWAYS 1 /* 0: only if the cluster says that an earlier try is under way */
#endif
#ifndef TRACK_BEFORE_SCAN
#define TRACK_BEFORE_SCAN 1
#endif
#ifndef GONE_IS_REMOVED
#define GONE_IS_REMOVED 1 /* 0: a key that is gone when it is read stays in its lane */
#endif
#ifndef MARK_BEFORE_KILL
#define MARK_BEFORE_KILL 1
#endif
#ifndef LOOK_AFTER_NAME
#define LOOK_AFTER_NAME 1 /* 0: a link of an old tallyd looks for the mark before it has a name */
#endif
#ifndef MARK_ONCE
#define MARK_ONCE 1 /* 0: the mover sets the mark again at the fence, after a look that it is there */
#endif
#ifndef MARK_BY_NAME
#define MARK_BY_NAME 1 /* 0: at its last look the mover takes the mark of another for its own */
#endif
#ifndef MARK_LOOKED_AT_END
#define MARK_LOOKED_AT_END 1
#endif
#ifndef JOURNALS_BEFORE_FENCE
#define JOURNALS_BEFORE_FENCE 1
#endif
#ifndef FENCE
#define FENCE 1 /* 0: the last rounds begin while messages of earlier writes may be under way */
#endif
#ifndef FENCE_KEY
#define FENCE_KEY 1 /* 0: the fence's key is the mark, and any message of it will do */
#endif
#ifndef DEAF_ENDS
#define DEAF_ENDS 1 /* 0: when its connection for messages is lost, the mover subscribes anew and goes on */
#endif
#ifndef LOST_LINK_ENDS
#define LOST_LINK_ENDS 1 /* 0: what the mover asked on a lane's link that was lost it sends again on the next */
#endif
#ifndef ENDS_ONLY_ITS_OWN
#define ENDS_ONLY_ITS_OWN 1 /* 0: the end of a mover that was replaced is taken */
#endif
#ifndef DONE_BY_NAME
#define DONE_BY_NAME 1 /* 0: a mover that finds a mark, and a move into the cluster that is done, takes it for its own */
#endif
#ifndef BEGIN_WAITED
#define BEGIN_WAITED 1 /* 0: the mover goes on when no replica of the home slot may know that it has begun */
#endif
#ifndef COPIED_FIRST
#define COPIED_FIRST 1 /* 0: the end is one step, which is waited for */
#endif
#ifndef COPIED_WAITED
#define COPIED_WAITED 1 /* 0: tallyds may count when no replica may know that all is copied */
#endif
#ifndef END_WAITED
#define END_WAITED 1
#endif
#ifndef LOOK_AT_LANES
#define LOOK_AT_LANES 1 /* 0: the mover sweeps lanes in which a tallyd has counted */
#endif
#ifndef CLUSTER_FIRST
#define CLUSTER_FIRST 1 /* 0: an operator who gives the move up only deletes the mark */
#endif

/* Sizes: bounds of the arrays. */
#ifndef LINKS
#define LINKS 1
#endif

/* Bounds. */
#ifndef WRITES
#define WRITES 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef DEAF
#define DEAF 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0
#endif
#ifndef MARKS_LOST
#define MARKS_LOST 0
#endif
#ifndef ANOTHER
#define ANOTHER 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef BUSY
#define BUSY 0
#endif

#define KEYS 2
#define BIT(x) (1 << (x))

/* The home slot. */
#define FREE 0
#define UNDER_WAY 1
#define COPIED 2 /* all is, and nothing is swept any more */
#define DONE 3
#define ANOTHERS 4 /* done, by a mover of another Redis */
byte home, kept, lane[KEYS]; /* kept: home, as its replica has it */
bool mine; /* the mover that began last is the one that runs */
bool counts; /* a tallyd of the cluster does */

/* The old Redis. */
#define MINE 1
#define OTHERS 2
#define LATE 3 /* of a mover that was killed, and what it said last unread: that all is copied */
#define NAMED_AT_HOME 4 /* of the mover that copied all */
byte old[KEYS], mark;
#define FENCED KEYS /* on the wire a number is a key */
#define MARKED (KEYS + 1)
bool tracked;
chan wire = [8] of { byte }; /* messages under way */

#define CAME 0
#define NAMED 1
#define LOOKED 2 /* without a name */
#define COUNTS 3
#define REFUSED 4
byte link[LINKS], unread[LINKS]; /* unread > 0: a write */
#define DROP(k) (1 + 2 * (k))
#define ADD(k) (2 + 2 * (k))
bool journal = true; /* is not home */

/* The mover: what it does next. */
#define IDLE 0 /* none runs */
#define TO_ASK 1
#define TO_LOOK_AT_LANES 2
#define TO_BEGIN 3
#define WAITS_BEGUN 4
#define TO_END_LINKS 5
#define TO_SWEEP 6
#define TO_TRACK 7
#define TO_SCAN 8
#define TO_READ 9
#define TO_PUT 10
#define TO_CHOOSE 11 /* a round, or what follows */
#define TO_MARK 12
#define TO_LIST 13
#define TO_KILL 14
#define TO_JOURNAL 15
#define TO_LOOK_AGAIN 16 /* without MARK_ONCE */
#define TO_FENCE 17
#define TO_HEAR 18
#define TO_LOOK 19
#define TO_SAY_COPIED 20
#define WAITS_COPIED 21
#define TO_END 22
#define WAITS_ENDED 23
#define OVER 24
#define REFUSED_HOME 25 /* another Redis was moved there */
#define REFUSED_LANES 26 /* a tallyd has counted there */
byte at, page, value, changed, todo, listed;
bool unused, fenced, deaf; /* unused: the cluster, when it asked */
bool cut; /* its link to the home slot */
#define RUNS (at > IDLE && at < OVER)
#define KEY (1 - (todo & 1))
#define SCANNED (page > KEYS)

/* Requests of movers that were killed. */
#define NOT_OWN 1
#define OWN 2
byte late_begins, late_copied, late_put, late_marks;
bool late_end, late_journal;
#define PUT(k, v) (1 + 3 * (k) + (v))

byte writes, crashes, deaf_times, give_ups, marks_lost, another, failovers;
byte excuses; /* faults that no mover has ended with an error for */
bool giving_up;

hidden byte i, x;

#define LOSS "BROKEN loss\n"
#define DOUBLE "BROKEN double\n" /* what is gone from the old Redis is in a lane */
#define STUCK "BROKEN stuck\n"
#define MUST(holds, otherwise)                                                                               \
    if                                                                                                       \
    :: holds -> skip                                                                                         \
    :: else -> printf(otherwise); assert(false)                                                              \
    fi

/* --- the old Redis --- */

inline message(what)
{
    if
    :: tracked -> wire!what
    :: else
    fi
}

inline mark_message()
{
    if
    :: !FENCE_KEY -> message(MARKED)
    :: else
    fi
}

inline change(k, v)
{
    MUST(home < COPIED || home == ANOTHERS, LOSS);
    old[k] = v;
    message(k)
}

inline add(k) { change(k, (old[k] == 2 -> 1 : old[k] + 1)) }

inline write_runs(l)
{
    if
    :: unread[l] == DROP(0) -> change(0, 0)
    :: unread[l] == DROP(1) -> change(1, 0)
    :: unread[l] == ADD(0) -> add(0)
    :: unread[l] == ADD(1) -> add(1)
    fi;
    unread[l] = 0;
    printf("old      a write of link %d runs: %d, %d\n", l, old[0], old[1])
}

inline journal_runs()
{
    if
    :: journal -> journal = false; add(0)
    :: else
    fi;
    printf("old      the journal comes home: %d, %d\n", old[0], old[1])
}

inline mark_runs(whose)
{
    mark = whose;
    mark_message()
}

inline mark_goes()
{
    mark = 0;
    mark_message()
}

/* --- the cluster --- */

inline put_runs(k, v)
{
    MUST(home < COPIED && !counts, LOSS);
    lane[k] = v
}

inline replaced()
{
    mine = false;
    late_copied = (late_copied == OWN -> NOT_OWN : late_copied);
    late_end = false;
    mark = (mark == LATE -> OTHERS : mark)
}

inline begin_runs(is_mine)
{
    if
    :: home < COPIED -> replaced(); home = UNDER_WAY; mine = is_mine
    :: else
    fi
}

inline copied_runs(is_own, whose)
{
    if
    :: home == UNDER_WAY && (is_own || !ENDS_ONLY_ITS_OWN) ->
        printf("cluster  has all: %d, %d\n", lane[0], lane[1]);
        i = 0;
        do
        :: i < KEYS ->
            MUST(old[i] > 0 || lane[i] == 0, DOUBLE);
            MUST(old[i] == lane[i], LOSS);
            i++
        :: else -> break
        od;
        i = 0;
        home = (COPIED_FIRST -> COPIED : DONE);
        mark = (mark == whose -> NAMED_AT_HOME : mark)
    :: else -> printf("cluster  refuses that all is copied\n")
    fi
}

inline end_runs()
{
    if
    :: home == COPIED -> home = DONE; printf("cluster  takes hits\n")
    :: else
    fi
}

/* --- old tallyds --- */

inline sends(l, what)
{
    writes++;
    unread[l] = what;
    if
    :: what % 2 == 1 -> printf("link %d   sends that key %d is dropped\n", l, (what - 1) / 2)
    :: else -> printf("link %d   sends an increment of key %d\n", l, (what - 1) / 2)
    fi
}

inline refused(l)
{
    link[l] = REFUSED;
    listed = listed & ~BIT(l);
    printf("link %d   finds the mark\n", l)
}

#define MAY_SEND(l) link[l] == COUNTS && unread[l] == 0 && writes < WRITES

proctype tallyd(byte l)
{
end:
    do
    :: d_step { link[l] == CAME && LOOK_AFTER_NAME -> link[l] = NAMED; printf("link %d   has a name\n", l) }
    :: d_step { link[l] == NAMED && mark == 0 -> link[l] = COUNTS; printf("link %d   finds no mark\n", l) }
    :: d_step { link[l] == NAMED && mark > 0 -> refused(l) }
    :: d_step { link[l] == CAME && !LOOK_AFTER_NAME && mark == 0 -> link[l] = LOOKED; printf("link %d   finds no mark\n", l) }
    :: d_step { link[l] == CAME && !LOOK_AFTER_NAME && mark > 0 -> refused(l) }
    :: d_step { link[l] == LOOKED -> link[l] = COUNTS; printf("link %d   has a name\n", l) }
    :: d_step { MAY_SEND(l) -> sends(l, DROP(0)) }
    :: d_step { MAY_SEND(l) -> sends(l, DROP(1)) }
    :: d_step { MAY_SEND(l) -> sends(l, ADD(0)) }
    :: d_step { MAY_SEND(l) -> sends(l, ADD(1)) }
    :: d_step { unread[l] > 0 -> write_runs(l) }
    :: d_step { link[l] == REFUSED && mark == 0 -> link[l] = CAME; printf("link %d   is back\n", l) }
    od
}

/* --- the mover --- */

inline wire_ends()
{
    do
    :: len(wire) > 0 -> wire?x
    :: else -> break
    od;
    tracked = false;
    x = 0
}

inline mover_ends()
{
    wire_ends();
    at = IDLE;
    page = 0;
    value = 0;
    changed = 0;
    todo = 0;
    listed = 0;
    unused = false;
    fenced = false;
    deaf = false;
    cut = false;
    mine = false;
    mark = (mark == MINE -> OTHERS : mark)
}

inline fails()
{
    printf("mover    ends with an error\n");
    mover_ends();
    MUST(excuses > 0, STUCK);
    excuses--
}

inline crash()
{
    crashes++;
    excuses++;
    mover_ends()
}

inline hear()
{
    wire?x;
    if
    :: x < KEYS -> changed = changed | BIT(x); printf("mover    hears of key %d\n", x)
    :: at == TO_HEAR && x == (FENCE_KEY -> FENCED : MARKED) ->
        printf("mover    hears of the fence\n");
        fenced = true;
        at = (JOURNALS_BEFORE_FENCE -> TO_CHOOSE : TO_JOURNAL)
    :: else -> printf("mover    hears of the mark\n")
    fi;
    x = 0
}

#define MARK_IS_OF_HOME (mark == NAMED_AT_HOME || (mark > 0 && !DONE_BY_NAME))

inline ask()
{
    printf("mover    asks: %d\n", home);
    unused = (home == FREE && !SWEEP_ALWAYS);
    if
    :: home < COPIED -> at = TO_LOOK_AT_LANES
    :: home >= COPIED && home < ANOTHERS && MARK_IS_OF_HOME -> at = TO_SAY_COPIED
    :: home == ANOTHERS && MARK_IS_OF_HOME -> at = OVER; printf("mover    says that it was done before\n")
    :: else -> at = REFUSED_HOME; printf("mover    says that another Redis was moved there\n")
    fi
}

inline look_at_lanes()
{
    if
    :: counts && BUSY && LOOK_AT_LANES -> at = REFUSED_LANES; printf("mover    finds that a tallyd counts\n")
    :: else -> at = (BEGIN_FIRST -> TO_BEGIN : TO_END_LINKS)
    fi
}

#define AFTER_BEGIN (BEGIN_FIRST -> TO_END_LINKS : TO_TRACK)

inline begin()
{
    begin_runs(true);
    printf("mover    begins\n");
    at = (home >= COPIED -> TO_ASK : (BEGIN_WAITED -> WAITS_BEGUN : AFTER_BEGIN))
}

inline waited(next)
{
    kept = home;
    at = next
}

#define AFTER_SWEEP (BEGIN_FIRST -> (TRACK_BEFORE_SCAN -> TO_TRACK : TO_SCAN) : TO_BEGIN)

inline end_links()
{
    if
    :: END_LANE_LINKS -> late_put = 0
    :: else
    fi;
    printf("mover    ends links of others at the lanes\n");
    at = (SWEEP && !unused -> TO_SWEEP : AFTER_SWEEP);
    unused = false
}

inline sweep()
{
    put_runs(page, 0);
    printf("mover    sweeps lane %d\n", page);
    page++;
    if
    :: page == KEYS -> page = 0; at = AFTER_SWEEP
    :: else
    fi
}

inline track()
{
    tracked = true;
    printf("mover    tracks\n");
    at = (TRACK_BEFORE_SCAN -> TO_SCAN : TO_CHOOSE)
}

inline scan()
{
    if
    :: page < KEYS && old[page] > 0 -> todo = BIT(page); at = TO_READ; printf("mover    sees key %d\n", page)
    :: page < KEYS && old[page] == 0 -> printf("mover    sees no key %d\n", page)
    :: page == KEYS -> at = (TRACK_BEFORE_SCAN -> TO_CHOOSE : TO_TRACK); printf("mover    has seen all keys\n")
    fi;
    page++
}

inline read()
{
    value = old[KEY];
    printf("mover    reads key %d: %d\n", KEY, value);
    at = TO_PUT
}

inline put()
{
    if
    :: value > 0 || GONE_IS_REMOVED -> put_runs(KEY, value)
    :: else
    fi;
    printf("mover    puts key %d: %d\n", KEY, value);
    value = 0;
    todo = todo & ~BIT(KEY);
    at = (todo > 0 -> TO_READ : (SCANNED -> TO_CHOOSE : TO_SCAN))
}

inline take_round()
{
    printf("mover    takes a round: %d\n", changed);
    todo = changed;
    changed = 0;
    at = TO_READ
}

#define AFTER_KILL (JOURNALS_BEFORE_FENCE -> TO_JOURNAL : TO_BEFORE_FENCE)
#define TO_BEFORE_FENCE (MARK_ONCE -> TO_FENCE : TO_LOOK_AGAIN)

inline set_mark()
{
    mark_runs(MINE);
    printf("mover    sets the mark\n");
    at = (MARK_BEFORE_KILL -> TO_LIST : AFTER_KILL)
}

inline list_links()
{
    i = 0;
    do
    :: i < LINKS ->
        listed = (link[i] == NAMED || link[i] == COUNTS -> listed | BIT(i) : listed);
        i++
    :: else -> break
    od;
    i = 0;
    printf("mover    lists links: %d\n", listed);
    at = TO_KILL
}

/* Of earlier movers, too: they had names when it listed. */
inline kill_links()
{
    i = 0;
    do
    :: i < LINKS ->
        if
        :: (listed & BIT(i)) != 0 -> link[i] = CAME; unread[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    listed = 0;
    late_marks = 0;
    late_journal = false;
    printf("mover    has links killed\n");
    at = (MARK_BEFORE_KILL -> AFTER_KILL : TO_MARK)
}

inline bring_home()
{
    journal_runs();
    at = (JOURNALS_BEFORE_FENCE -> TO_BEFORE_FENCE : TO_CHOOSE)
}

inline write_fence()
{
    printf("mover    writes the fence\n");
    if
    :: !MARK_ONCE -> mark_runs(MINE)
    :: else
    fi;
    if
    :: !FENCE_KEY -> message(MARKED)
    :: FENCE && FENCE_KEY -> message(FENCED)
    :: else
    fi;
    fenced = !FENCE;
    at = (FENCE -> TO_HEAR : (JOURNALS_BEFORE_FENCE -> TO_CHOOSE : TO_JOURNAL))
}

#define MARK_IS_GOOD (mark == MINE || (mark > 0 && !MARK_BY_NAME))

inline say_copied()
{
    if
    :: home < COPIED -> copied_runs(mine, MINE)
    :: else
    fi;
    if
    :: home >= COPIED && home < ANOTHERS && (mine || MARK_IS_OF_HOME) ->
        at = (COPIED_WAITED -> WAITS_COPIED : TO_END);
        printf("mover    says that all is copied\n")
    :: else -> fails()
    fi
}

inline over()
{
    mover_ends();
    at = OVER;
    printf("mover    is done\n")
}

inline end_move()
{
    end_runs();
    if
    :: home == DONE && END_WAITED -> at = WAITS_ENDED
    :: home == DONE && !END_WAITED -> over()
    :: else -> fails()
    fi
}

inline copied_unread()
{
    late_copied = (mine -> OWN : NOT_OWN);
    mark = (mine && mark == MINE -> LATE : mark)
}

#define SENT(step) (at == step && crashes < CRASHES)
#define ASKS_HOME (at == TO_BEGIN || at == WAITS_BEGUN || (at >= TO_SAY_COPIED && at < OVER))

proctype mover()
{
end:
    do
    :: d_step { at == IDLE && !giving_up -> at = TO_ASK; printf("mover    is run\n") }
    :: d_step { at == TO_ASK -> ask() }
    :: d_step { at == TO_LOOK_AT_LANES -> look_at_lanes() }
    :: d_step { at == TO_BEGIN && !cut -> begin() }
    :: d_step { at == WAITS_BEGUN && !cut -> waited(AFTER_BEGIN) }
    :: d_step { at == TO_END_LINKS -> end_links() }
    :: d_step { at == TO_SWEEP -> sweep() }
    :: d_step { at == TO_TRACK -> track() }
    :: d_step { at == TO_SCAN -> scan() }
    :: d_step { at == TO_READ -> read() }
    :: d_step { at == TO_PUT -> put() }
    :: d_step { at == TO_CHOOSE && changed > 0 -> take_round() }
    :: d_step { at == TO_CHOOSE && !fenced -> at = (MARK_BEFORE_KILL -> TO_MARK : TO_LIST) }
    :: d_step { at == TO_CHOOSE && fenced && changed == 0 -> at = (MARK_LOOKED_AT_END -> TO_LOOK : TO_SAY_COPIED) }
    :: d_step { at == TO_MARK -> set_mark() }
    :: d_step { at == TO_LIST -> list_links() }
    :: d_step { at == TO_KILL -> kill_links() }
    :: d_step { at == TO_JOURNAL -> bring_home() }
    :: d_step { at == TO_LOOK_AGAIN && mark > 0 -> at = TO_FENCE; printf("mover    sees the mark\n") }
    :: d_step { at == TO_LOOK_AGAIN && mark == 0 -> fails() }
    :: d_step { at == TO_FENCE && (FENCE_KEY || mark > 0) -> write_fence() }
    :: d_step { at == TO_FENCE && !FENCE_KEY && mark == 0 -> fails() }
    :: d_step { len(wire) > 0 -> hear() }
    :: d_step { at == TO_LOOK && MARK_IS_GOOD -> at = TO_SAY_COPIED; printf("mover    sees its mark\n") }
    :: d_step { at == TO_LOOK && !MARK_IS_GOOD -> fails() }
    :: d_step { at == TO_SAY_COPIED && !cut -> say_copied() }
    :: d_step { at == WAITS_COPIED && !cut -> waited(TO_END) }
    :: d_step { at == TO_END && !cut -> end_move() }
    :: d_step { at == WAITS_ENDED && !cut -> kept = home; over() }
    :: d_step { cut && ASKS_HOME -> fails() }
    :: d_step { deaf -> fails() }
    /* killed, and what it sent last is unread */
    :: d_step { at > IDLE && at < OVER && crashes < CRASHES -> printf("mover    is killed\n"); crash() }
    :: d_step { SENT(TO_BEGIN) && !cut -> printf("mover    is killed, its begin unread\n"); late_begins++; crash() }
    :: d_step { SENT(TO_SWEEP) -> printf("mover    is killed, its sweep unread\n"); late_put = PUT(page, 0); crash() }
    :: d_step { SENT(TO_PUT) && (value > 0 || GONE_IS_REMOVED) ->
        printf("mover    is killed, its put unread\n");
        late_put = PUT(KEY, value);
        crash()
    }
    :: d_step { SENT(TO_PUT) && !LOST_LINK_ENDS ->
        printf("mover    loses its link, the put unread\n");
        late_put = PUT(KEY, value);
        crashes++;
        excuses++
    }
    :: d_step { SENT(TO_MARK) || (SENT(TO_FENCE) && !MARK_ONCE) ->
        printf("mover    is killed, its mark unread\n");
        late_marks++;
        crash()
    }
    :: d_step { SENT(TO_JOURNAL) && journal -> printf("mover    is killed, its journal unread\n"); late_journal = true; crash() }
    :: d_step { SENT(TO_SAY_COPIED) && !cut ->
        printf("mover    is killed, what it says of the copy unread\n");
        copied_unread();
        crash()
    }
    :: d_step { SENT(TO_END) && !cut -> printf("mover    is killed, its end unread\n"); late_end = true; crash() }
    od
}

/* --- what runs late, and other faults --- */

inline late_put_runs()
{
    printf("lane %d   a late put runs: %d\n", (late_put - 1) / 3, (late_put - 1) % 3);
    put_runs((late_put - 1) / 3, (late_put - 1) % 3);
    late_put = 0
}

/* Not while a mover runs that has not begun: it would take the cluster again. */
#define MAY_GIVE_UP give_ups < GIVE_UPS && home < DONE && !counts && (at == IDLE || at > TO_BEGIN)

/* FLUSHALL. */
inline cluster_emptied()
{
    printf("operator empties the cluster\n");
    home = FREE;
    kept = FREE;
    counts = false;
    replaced();
    lane[0] = 0;
    lane[1] = 0
}

/* Its mover ends links of ours at the lanes, so ours ends. */
inline another_moves()
{
    printf("cluster  another Redis is moved there\n");
    another++;
    late_put = 0;
    cluster_emptied();
    mover_ends();
    home = ANOTHERS;
    kept = ANOTHERS;
    mark = (mark == NAMED_AT_HOME -> OTHERS : mark)
}

/* What a mover that was killed sent to the old primary will never run. Without a number of lanes any tallyd counts. */
inline home_fails_over()
{
    printf("cluster  the home slot fails over: %d, was %d\n", kept, home);
    failovers++;
    counts = counts || (kept == FREE && mine && at > WAITS_BEGUN);
    home = kept;
    mine = false;
    late_begins = 0;
    late_copied = 0;
    late_end = false;
    mark = (mark == LATE || (mark == NAMED_AT_HOME && home < COPIED) -> OTHERS : mark);
    cut = RUNS;
    excuses = (cut -> excuses + 1 : excuses)
}

proctype world()
{
end:
    do
    :: d_step { late_begins > 0 -> late_begins--; printf("cluster  a late begin runs\n"); begin_runs(false) }
    :: d_step { late_copied > 0 -> x = late_copied; late_copied = 0; printf("cluster  hears late that all is copied\n"); copied_runs(x == OWN, LATE); x = 0 }
    :: d_step { late_end -> late_end = false; printf("cluster  a late end runs\n"); end_runs() }
    :: d_step { late_put > 0 -> late_put_runs() }
    :: d_step { late_marks > 0 -> late_marks--; printf("old      a late mark runs\n"); mark_runs(OTHERS) }
    :: d_step { late_journal -> late_journal = false; journal_runs() }
    :: d_step { tracked && deaf_times < DEAF && at < OVER ->
        deaf_times++;
        excuses++;
        printf("old      the connection for messages is lost\n");
        wire_ends();
        tracked = !DEAF_ENDS;
        deaf = DEAF_ENDS;
        at = (at == TO_HEAR && !DEAF_ENDS -> TO_FENCE : at)
    }
    :: d_step { MAY_GIVE_UP && CLUSTER_FIRST -> give_ups++; excuses++; giving_up = true; cluster_emptied() }
    :: d_step { giving_up -> giving_up = false; printf("operator deletes the mark\n"); mark_goes() }
    :: d_step { MAY_GIVE_UP && !CLUSTER_FIRST -> give_ups++; excuses++; printf("operator deletes the mark\n"); mark_goes() }
    :: d_step { marks_lost < MARKS_LOST && mark > 0 && (home < COPIED || home == ANOTHERS) && at != TO_SAY_COPIED && late_copied != OWN ->
        marks_lost++;
        excuses++;
        printf("old      the mark is lost\n");
        mark_goes()
    }
    :: d_step { failovers < FAILOVERS && kept != home -> kept = home; printf("cluster  a replica has it: %d\n", kept) }
    :: d_step { failovers < FAILOVERS -> home_fails_over() }
    :: d_step { FAILOVERS > 0 && home == DONE && !counts -> counts = true; printf("cluster  a tallyd counts\n") }
    :: d_step { another < ANOTHER && !giving_up -> another_moves() }
    :: d_step { at == REFUSED_HOME && home == ANOTHERS -> cluster_emptied(); at = IDLE }
    :: timeout -> d_step {
        MUST(at == OVER || at == REFUSED_LANES, STUCK);
        MUST(home != COPIED, STUCK);
        MUST(home == DONE || at == REFUSED_LANES, LOSS);
        i = 0;
        do
        :: i < KEYS -> MUST(old[i] == lane[i], LOSS); i++
        :: else -> break
        od;
        i = 0
    }
       break
    od
}

init
{
    atomic {
        old[0] = 1;
        x = 0;
        do
        :: x < LINKS -> run tallyd(x); x++
        :: else -> break
        od;
        x = 0;
        run world();
        run mover()
    }
}
