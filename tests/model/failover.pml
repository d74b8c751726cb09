/* tests/model/failover.pml - servers that move, and two that both think they are the primary: is any hit merged twice? Is a hit
 * lost that was answered, though its tallyd lives?
 *
 * Redis        two sides. A replica has the state that its primary had at some moment. A promotion makes a primary of it, and
 *              begins a new history (master_replid); the old primary may go on for long. A demoted side takes over all of the
 *              other one's state at its next sync. A side keeps its run_id through all of that.
 * Two daemons  each on any side that says it is a primary. A frame is one hit. A look says up to which frame a side has them;
 *              what it lacks is sent again under its old number, answered or not, before anything new.
 * MySQL        the ledger, the rows, and the realm: an epoch, and the history that it is for. A daemon takes an epoch (or joins
 *              the one of its history) when what its Redis says agrees with the ledger; each merge asks for the epoch of its run.
 *              With MYSQL_LAG a replica that lacks the last transactions may be promoted.
 * Waiting      with ASKS a daemon that did not have the realm's epoch takes none while one lives that has it. (Without, any daemon may
 *              take it at any time, which is more than that.) Its answer is not modelled: who has the gate open answers in time.
 * A clone      with CLONE the other side is no replica: it is a copy of the first side, made while that goes on, and has a daemon.
 * Abstracted   what one side does with frames, claims, scans and links (frames.pml, sync.pml). A batch is one chunk.
 * Ends         when nothing can move any more, after hits and faults have ended (`calm`).
 *
 * A rule is a macro, 1 unless it is taken out by RULE=0; CMakeLists.txt has what each breaks. */
#ifndef EPOCH
#define EPOCH 1 /* a merge asks whether its epoch is still the realm's */
#endif
#ifndef EPOCH_OF_RUN
#define EPOCH_OF_RUN 1 /* the epoch under which its rows were scanned; 0: the daemon's newest */
#endif
#ifndef EPOCH_BY_HISTORY
#define EPOCH_BY_HISTORY 1 /* 0: by run_id, which a demotion and a promotion leave as it is */
#endif
#ifndef LINK_HISTORY
#define LINK_HISTORY 1 /* a link asks how many frames its side has, and is cut when it has fewer: it may take over other data */
#endif
#ifndef FRAME_WATCH
#define FRAME_WATCH 1 /* a frame runs only where the one before is the last; 0: its number hides what is lost before it */
#endif
#ifndef FENCE_HISTORY
#define FENCE_HISTORY 1 /* the fence asks, too, and the scan beside it: what they are for is of the epoch's history */
#endif
#ifndef EPOCH_UNIQUE
#define EPOCH_UNIQUE 1 /* an epoch has a random id; 0: it is counted on, and a MySQL that lost its tail counts again */
#endif
#ifndef GEN_ID
#define GEN_ID 1 /* the batch of the ledger's highest gen is compared, too */
#endif
#ifndef GATE_TWICE
#define GATE_TWICE 1 /* a Redis that seems to be behind is read again, after the ledger */
#endif
#ifndef REPLAY
#define REPLAY 1 /* 0: frames that were answered are not sent again */
#endif
#ifndef REPLAY_LOOK
#define REPLAY_LOOK 1 /* 0: without asking what the side has */
#endif
#ifndef REPLAY_FENCE
#define REPLAY_FENCE 1 /* with LET_GO: an answered frame is kept until the other side has it; 0: nowhere */
#endif
#ifndef FENCE_KEY
#define FENCE_KEY 1 /* with LET_GO: WAIT counts only while the side has what the fence wrote; 0: WAIT of other data says anything */
#endif
#ifndef ASK
#define ASK 1 /* with ASKS: 0: nobody waits */
#endif
#ifndef KEEP
#define KEEP 1 /* with MYSQL_LAG: a batch is discarded when MySQL's replica has it, too */
#endif

/* Sizes: bounds of the arrays. */
#ifndef HITS
#define HITS 1
#endif
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef DAEMONS
#define DAEMONS 2
#endif

/* Bounds. */
#ifndef MOVES
#define MOVES 2 /* promotions */
#endif
#ifndef CUTS
#define CUTS 0 /* of links that could go on */
#endif
#ifndef GATE_SLOW
#define GATE_SLOW 0 /* 1: others may merge between the look at Redis and that at MySQL */
#endif
#ifndef LET_GO
#define LET_GO 0 /* 1: frames are not kept for ever */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef REPLICAS
#define REPLICAS 0 /* 1: the fence waits until the other side has the claim */
#endif
#ifndef ASKS
#define ASKS 0
#endif
#ifndef CLONE
#define CLONE 0
#endif
#ifndef MYSQL_LAG
#define MYSQL_LAG 0 /* so often MySQL loses its tail */
#endif

#define FRAMES HITS /* of a daemon */
#define NONE 2               /* no side */

#define IDLE 0
#define ASKED 1  /* for its rows and for its fence */
#define FENCED 2 /* its transaction may commit at any time, whatever becomes of the link */
#define MERGED 3

typedef side_state {
    bool primary;
    byte history;
    byte pend, stand; /* hits; batches: a bit each */
    byte gen;
    byte id[BATCHES + 1]; /* of the batch that got this gen */
    byte seq[DAEMONS];
#if LET_GO
    byte fence[DAEMONS]; /* that a fence wrote: up to which frame it is for */
#endif
};
side_state S[2];

typedef daemon_state {
    byte at;
    byte sent, answered, next; /* frames; the next one that the side wants */
    byte hit[FRAMES + 1];
    byte lost; /* frames up to this one died with a life */
#if LET_GO
    byte fenced; /* ... are not kept any more */
    byte asked;  /* the fence under way is for frames up to this one; 0: none is */
#endif
    bool open, held, has_read, again;
#if ASKS
    bool waits;
    byte heir_of; /* the epoch that it had last, or that nobody has who lives */
#endif
    byte had, epoch, seen; /* had: up to which frame its side had them, last; seen: the ledger's highest batch, when Redis
                            * seemed to be behind it */
    byte read_history, read_gen, read_id[BATCHES + 1]; /* of the look */
    byte epoch_history;                                /* of the look that took the epoch */
    byte stage, batch, run_at, run_epoch, run_history; /* as its scan began */
    bool rows, fence;                                  /* in stage ASKED: that are here */
};
daemon_state D[DAEMONS];

typedef mysql_state {
    byte ledger, merged; /* batches; hits */
    byte epoch, realm;   /* the history that it is for, or a side + 1 */
};
mysql_state M, lagging;

byte batch_hits[BATCHES + 1], batch_gen[BATCHES + 1];
byte batches, hits, told, forgot; /* hits: how many; told, forgot: bits. forgot: their daemon died */
byte histories = 1, epochs, moves = MOVES, cuts = CUTS, crashes = CRASHES, lags = MYSQL_LAG;
bool calm;

hidden byte i, j, top, top_gen, f, found;
hidden byte fits;

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define CAUGHT_UP(d) (D[d].next > D[d].sent)
/* The daemons are alike, so the one that sends the first frame may be called 0. */
#define MAY_HIT(d) (hits < HITS && (hits > 0 || d == 0) && (!CLONE || d == 0))
#if ASKS
#define HAS_EPOCH(d) (D[d].open && D[d].epoch == M.epoch)
#define IS_HEIR(d) (!ASK || M.epoch == 0 || D[d].heir_of == M.epoch)
#define WAITS(d) (D[d].waits)
#else
#define IS_HEIR(d) true
#define WAITS(d) false
#endif
#define IS_UP(d) (D[d].at != NONE && S[D[d].at].primary)
#define LACKS(d) (D[d].at != NONE && S[D[d].at].seq[d] < D[d].had)
#define WATCHED(d) (!FRAME_WATCH || S[D[d].at].seq[d] == D[d].had)
#define OTHER(s) (1 - (s))
#if LET_GO
#define FENCES_DIFFER (S[0].fence[0] != S[1].fence[0] || S[0].fence[LAST_DAEMON] != S[1].fence[LAST_DAEMON])
#define IS_WHOLE(d, s) (S[s].fence[d] >= D[d].asked)
#define IS_KEPT(d, s) (!S[s].primary && IS_WHOLE(d, s))
#define WAITED(d) (!REPLAY_FENCE || (IS_WHOLE(d, D[d].at) -> IS_KEPT(d, OTHER(D[d].at)) : !FENCE_KEY))
#else
#define FENCES_DIFFER false
#endif
#define LAST_DAEMON (DAEMONS - 1)
#define DIFFER                                                                                               \
    (S[0].pend != S[1].pend || S[0].stand != S[1].stand || S[0].gen != S[1].gen || S[0].seq[0] != S[1].seq[0] ||  \
     S[0].seq[LAST_DAEMON] != S[1].seq[LAST_DAEMON] || S[0].id[1] != S[1].id[1] || S[0].id[2] != S[1].id[2] ||                          \
     S[0].id[BATCHES] != S[1].id[BATCHES] || FENCES_DIFFER)
#define LOSS 1
#define DOUBLE 2
#define STUCK 4
#ifndef SEEK
#define SEEK 7 /* LOSS + DOUBLE + STUCK: of what may break, what is looked for */
#endif
#define BROKEN(text) printf(text); assert(false)
#define KEY(d) (EPOCH_BY_HISTORY -> D[d].read_history : D[d].at + 1)

inline copy_side(from, to)
{
    S[to].pend = S[from].pend;
    S[to].stand = S[from].stand;
    S[to].gen = S[from].gen;
    for (j : 1 .. BATCHES) { S[to].id[j] = S[from].id[j] }
    for (j : 0 .. DAEMONS - 1) { S[to].seq[j] = S[from].seq[j] }
#if LET_GO
    for (j : 0 .. DAEMONS - 1) { S[to].fence[j] = S[from].fence[j] }
#endif
}

/* The highest batch of the ledger. */
inline find_top()
{
    top = 0;
    top_gen = 0;
    for (j : 1 .. BATCHES) {
        if
        :: HAS(M.ledger, j) && batch_gen[j] >= top_gen -> top = j; top_gen = batch_gen[j]
        :: else
        fi
    }
}

inline gate_shut(d)
{
    D[d].open = false;
    D[d].held = false;
    D[d].epoch = (EPOCH_OF_RUN -> 0 : D[d].epoch);
    D[d].epoch_history = 0;
    for (j : 1 .. BATCHES) { D[d].read_id[j] = 0 }
    D[d].has_read = false;
    D[d].again = false;
    D[d].seen = 0;
#if ASKS
    D[d].waits = false;
#endif
    D[d].read_history = 0;
    D[d].read_gen = 0
}

inline run_end(d)
{
    D[d].stage = IDLE;
    D[d].batch = 0;
    D[d].run_at = 0;
    D[d].run_epoch = 0;
    D[d].run_history = 0;
    D[d].rows = false;
    D[d].fence = false
}

/* Both are here: it goes to MySQL. */
inline run_go_on(d)
{
    if
    :: D[d].rows && D[d].fence ->
        D[d].stage = FENCED;
        D[d].rows = false;
        D[d].fence = false
    :: else
    fi
}

inline epoch_lost(d)
{
    printf("daemon %d finds another history on side %d\n", d, D[d].at);
    gate_shut(d);
    run_end(d)
}

inline link_cut(d)
{
    D[d].at = NONE;
    D[d].had = 0;
    D[d].next = 0;
#if LET_GO
    D[d].asked = 0;
#endif
    gate_shut(d);
    if
    :: D[d].stage != FENCED -> run_end(d)
    :: else
    fi
}

inline answer(d)
{
    D[d].answered = D[d].sent;
    told = told | BIT(D[d].hit[D[d].sent])
}

inline connect(d, s)
{
    D[d].at = s;
    D[d].had = S[s].seq[d];
    found = (REPLAY_LOOK -> S[s].seq[d] : 0);
    if
    :: found < D[d].lost -> found = D[d].lost
    :: else
    fi;
    if
    :: !REPLAY && found < D[d].answered -> found = D[d].answered
    :: else
    fi;
#if LET_GO
    if
    :: found < D[d].fenced -> found = D[d].answered /* the fence was of another server */
    :: else
    fi;
#endif
    D[d].next = found + 1;
    if
    :: D[d].sent > 0 && CAUGHT_UP(d) -> answer(d)
    :: else
    fi;
    printf("daemon %d is on side %d, which has its frames up to %d of %d\n", d, s, S[s].seq[d], D[d].sent)
}

/* Its frame n runs. */
inline frame_runs(d, number)
{
    f = D[d].hit[number];
    S[D[d].at].pend = S[D[d].at].pend | BIT(f);
    S[D[d].at].seq[d] = number;
    D[d].had = number;
    printf("side %d   runs frame %d of daemon %d, hit %d\n", D[d].at, number, d, f)
}

inline new_frame(d)
{
    hits++;
    D[d].sent++;
    D[d].hit[D[d].sent] = hits;
    frame_runs(d, D[d].sent);
    D[d].next = D[d].sent + 1
}

/* Redis was read, then the ledger: another daemon's merge may have put the ledger ahead of what was read. */
inline take_epoch(d)
{
    find_top();
    fits = top == 0 || (top_gen <= D[d].read_gen && (!GEN_ID || D[d].read_id[top_gen] == top));
    if
#if ASKS
    :: fits && M.realm != KEY(d) && !IS_HEIR(d) ->
        i = D[d].read_history;
        gate_shut(d);
        D[d].read_history = i;
        D[d].waits = true;
        printf("daemon %d asks whether anybody has epoch %d\n", d, M.epoch)
#endif
    :: fits && (M.realm == KEY(d) || IS_HEIR(d)) ->
        if
        :: M.realm != KEY(d) ->
            epochs = (EPOCH_UNIQUE -> epochs + 1 : M.epoch + 1);
            M.epoch = epochs;
            M.realm = KEY(d);
            printf("daemon %d takes epoch %d\n", d, M.epoch)
        :: else -> printf("daemon %d joins epoch %d\n", d, M.epoch)
        fi;
        i = D[d].read_history;
        gate_shut(d);
        D[d].open = true;
        D[d].epoch_history = i;
#if ASKS
        D[d].heir_of = M.epoch;
#endif
        D[d].epoch = M.epoch
    :: !fits && GATE_TWICE && !D[d].again ->
        gate_shut(d);
        D[d].again = true;
        D[d].seen = top
    :: !fits && (!GATE_TWICE || D[d].again) ->
        /* behind what the ledger had before Redis was read: is it still behind? */
        top = D[d].seen;
        top_gen = batch_gen[top];
        fits = GATE_TWICE && top_gen <= D[d].read_gen && (!GEN_ID || D[d].read_id[top_gen] == top);
        i = D[d].read_history;
        gate_shut(d);
        if
        :: !fits ->
            D[d].held = true;
            D[d].read_history = i;
            printf("daemon %d is held: side %d lacks a merged batch\n", d, D[d].at)
        :: else
        fi
    fi
}

inline merge(d)
{
    if
    :: EPOCH && (EPOCH_OF_RUN -> D[d].run_epoch : D[d].epoch) != M.epoch ->
        printf("mysql    refuses batch %d of daemon %d\n", D[d].batch, d);
        gate_shut(d);
        run_end(d)
    :: else ->
        if
        :: HAS(M.ledger, D[d].batch) -> printf("mysql    knows batch %d of daemon %d\n", D[d].batch, d)
        :: else ->
            printf("mysql    merges batch %d of daemon %d, hits %d\n", D[d].batch, d, batch_hits[D[d].batch]);
            if
            :: (M.merged & batch_hits[D[d].batch]) != 0 && (SEEK & DOUBLE) -> BROKEN("BROKEN double\n")
            :: else
            fi;
            M.merged = M.merged | batch_hits[D[d].batch];
            M.ledger = M.ledger | BIT(D[d].batch)
        fi;
        D[d].stage = MERGED
    fi
}

inline claim(d)
{
    batches++;
    batch_hits[batches] = S[D[d].at].pend;
    S[D[d].at].pend = 0;
    S[D[d].at].gen++;
    batch_gen[batches] = S[D[d].at].gen;
    S[D[d].at].id[S[D[d].at].gen] = batches;
    S[D[d].at].stand = S[D[d].at].stand | BIT(batches);
    printf("side %d   claims batch %d for daemon %d, hits %d, gen %d\n", D[d].at, batches, d, batch_hits[batches],
           S[D[d].at].gen)
}


proctype daemon(byte d)
{
end:
    do
    :: d_step { D[d].at == NONE && S[0].primary && (!CLONE || d == 0) -> connect(d, 0) }
    :: d_step { D[d].at == NONE && S[1].primary && (!CLONE || d == 1) -> connect(d, 1) }
    :: d_step { D[d].at != NONE && !S[D[d].at].primary ->
        printf("daemon %d leaves side %d, a replica\n", d, D[d].at);
        link_cut(d)
    }
    :: d_step { D[d].at != NONE && S[D[d].at].primary && !calm && cuts > 0 ->
        cuts--;
        printf("daemon %d loses side %d\n", d, D[d].at);
        link_cut(d)
    }
    :: d_step { IS_UP(d) && CAUGHT_UP(d) && WATCHED(d) && !calm && MAY_HIT(d) -> new_frame(d); answer(d) }
    :: d_step { IS_UP(d) && CAUGHT_UP(d) && WATCHED(d) && !calm && MAY_HIT(d) && cuts > 0 ->
        cuts--;
        new_frame(d);
        printf("daemon %d loses side %d before it hears of it\n", d, D[d].at);
        link_cut(d)
    }
#if LET_GO
    :: d_step { IS_UP(d) && CAUGHT_UP(d) && !LACKS(d) && D[d].asked == 0 && D[d].answered > D[d].fenced ->
        D[d].asked = D[d].answered;
        S[D[d].at].fence[d] = D[d].asked;
        printf("daemon %d begins a fence on side %d, for its frames up to %d\n", d, D[d].at, D[d].asked)
    }
    :: d_step { IS_UP(d) && D[d].asked > 0 && FENCE_KEY && !IS_WHOLE(d, D[d].at) ->
        D[d].asked = 0;
        printf("daemon %d has its fence refused: side %d lacks what it wrote\n", d, D[d].at)
    }
    :: d_step { IS_UP(d) && D[d].asked > 0 && WAITED(d) ->
        D[d].fenced = D[d].asked;
        D[d].asked = 0;
        printf("daemon %d lets its frames up to %d go\n", d, D[d].fenced)
    }
#endif
    :: d_step { IS_UP(d) && !CAUGHT_UP(d) && WATCHED(d) ->
        frame_runs(d, D[d].next);
        D[d].next++;
        if
        :: CAUGHT_UP(d) -> answer(d)
        :: else
        fi
    }
    :: d_step { IS_UP(d) && !D[d].open && !D[d].held && !D[d].has_read && !WAITS(d) ->
        D[d].read_history = S[D[d].at].history;
        D[d].read_gen = S[D[d].at].gen;
        for (j : 1 .. BATCHES) { D[d].read_id[j] = S[D[d].at].id[j] }
#if GATE_SLOW
        D[d].has_read = true
    }
    :: d_step { D[d].has_read ->
#endif
        take_epoch(d)
    }
    :: d_step { IS_UP(d) && D[d].open && D[d].stage == IDLE && S[D[d].at].pend != 0 && batches < BATCHES -> claim(d) }
#if ASKS
    :: d_step { WAITS(d) && !HAS_EPOCH(0) && !HAS_EPOCH(LAST_DAEMON) ->
        printf("daemon %d hears of nobody\n", d);
        gate_shut(d);
        D[d].heir_of = M.epoch
    }
    :: d_step { WAITS(d) && (M.realm == KEY(d) || (D[d].at != NONE && S[D[d].at].history != D[d].read_history)) -> gate_shut(d) }
#endif
    /* It looks again now and then. */
    :: d_step { IS_UP(d) && D[d].held && S[D[d].at].history != D[d].read_history -> gate_shut(d) }
    :: d_step { IS_UP(d) && !WATCHED(d) && (!CAUGHT_UP(d) || (!calm && MAY_HIT(d))) ->
        printf("daemon %d has its frame refused on side %d\n", d, D[d].at);
        link_cut(d)
    }
    :: d_step { LINK_HISTORY && IS_UP(d) && LACKS(d) ->
        printf("daemon %d finds fewer frames on side %d than there were\n", d, D[d].at);
        link_cut(d)
    }
    :: d_step { IS_UP(d) && D[d].open && D[d].stage == IDLE && S[D[d].at].stand != 0 ->
        for (j : 1 .. BATCHES) {
            if
            :: HAS(S[D[d].at].stand, j) -> D[d].batch = j
            :: else
            fi
        }
        D[d].stage = ASKED;
        D[d].run_at = D[d].at;
        D[d].run_epoch = D[d].epoch;
        D[d].run_history = D[d].epoch_history;
        printf("daemon %d begins with batch %d\n", d, D[d].batch)
    }
    :: d_step { D[d].stage == ASKED && !D[d].rows && IS_UP(d) ->
        if
        :: !HAS(S[D[d].at].stand, D[d].batch) -> printf("daemon %d finds batch %d gone\n", d, D[d].batch); run_end(d)
        :: HAS(S[D[d].at].stand, D[d].batch) && FENCE_HISTORY && S[D[d].at].history != D[d].run_history -> epoch_lost(d)
        :: else ->
            printf("daemon %d scanned batch %d\n", d, D[d].batch);
            D[d].rows = true;
            run_go_on(d)
        fi
    }
    :: d_step { D[d].stage == ASKED && !D[d].fence && IS_UP(d) && FENCE_HISTORY && S[D[d].at].history != D[d].run_history ->
        epoch_lost(d)
    }
    :: d_step { D[d].stage == ASKED && !D[d].fence && IS_UP(d) && (!FENCE_HISTORY || S[D[d].at].history == D[d].run_history) &&
                (REPLICAS == 0 ||
                 (!S[OTHER(D[d].at)].primary && S[OTHER(D[d].at)].id[batch_gen[D[d].batch]] == D[d].batch)) ->
        D[d].fence = true;
        run_go_on(d)
    }
    :: d_step { D[d].stage == FENCED -> merge(d) }
    :: d_step { D[d].stage == MERGED && D[d].at == D[d].run_at && IS_UP(d) && D[d].open &&
                (!KEEP || HAS(lagging.ledger, D[d].batch) || MYSQL_LAG == 0) ->
        S[D[d].at].stand = S[D[d].at].stand & ~BIT(D[d].batch);
        printf("side %d   discards batch %d\n", D[d].at, D[d].batch);
        run_end(d)
    }
    :: d_step { D[d].stage == MERGED && D[d].at != D[d].run_at -> run_end(d) }
    :: d_step { !calm && crashes > 0 && D[d].sent > D[d].lost ->
        crashes--;
        printf("daemon %d dies\n", d);
        for (j : 1 .. FRAMES) {
            if
            :: j <= D[d].sent -> forgot = forgot | BIT(D[d].hit[j])
            :: else
            fi
        }
        D[d].lost = D[d].sent;
        D[d].answered = D[d].sent;
#if ASKS
        D[d].heir_of = 0;
#endif
        link_cut(d)
    }
    od
}

/* The side that is a primary at the end. */
#define LAST (S[0].primary -> 0 : 1)

inline at_end()
{
    i = LAST;
    fits = 0;
    for (j : 1 .. BATCHES) {
        if
        :: HAS(M.ledger, j) && S[i].id[batch_gen[j]] != j -> fits = 1 /* it lacks a merged batch */
        :: else
        fi
    }
    if
    :: D[0].held || (!CLONE && D[LAST_DAEMON].held) ->
        if
        :: (!fits || REPLICAS == 1 || CLONE) && (SEEK & STUCK) -> printf("held without need\n"); BROKEN("BROKEN stuck\n")
        :: else
        fi
    :: else ->
        if
        :: ((S[i].pend != 0 && batches < BATCHES) || (S[i].stand & ~M.ledger) != 0) && (SEEK & STUCK) -> BROKEN("BROKEN stuck\n")
        :: else
        fi;
        if
        :: batches < BATCHES && (told & ~M.merged & ~forgot) != 0 && (SEEK & LOSS) -> BROKEN("BROKEN loss\n")
        :: else
        fi
    fi
}

active proctype world()
{
    d_step {
        S[0].primary = true;
        S[0].history = 1;
        S[1].history = 1;
        D[0].at = NONE;
        D[LAST_DAEMON].at = NONE
    };
    atomic { for (i : 0 .. DAEMONS - 1) { run daemon(i) } };
end:
    do
    :: d_step { S[0].primary && !S[1].primary && DIFFER && (!CLONE || !calm) -> copy_side(0, 1); printf("side 1   has what side 0 has\n") }
    :: d_step { S[1].primary && !S[0].primary && DIFFER -> copy_side(1, 0); printf("side 0   has what side 1 has\n") }
    :: d_step { !calm && moves > 0 && !(S[0].primary && S[1].primary) && (!CLONE || (D[0].open && M.epoch > 0)) ->
        moves--;
        histories++;
        i = (S[0].primary -> 1 : 0);
        S[i].primary = true;
        S[i].history = histories;
        printf("side %d   is promoted\n", i)
    }
    :: d_step { S[0].primary && S[1].primary && !CLONE -> S[0].primary = false; printf("side 0   is demoted\n") }
    :: d_step { S[0].primary && S[1].primary && !CLONE -> S[1].primary = false; printf("side 1   is demoted\n") }
    :: d_step { MYSQL_LAG && (lagging.ledger != M.ledger || lagging.epoch != M.epoch) ->
        lagging.ledger = M.ledger;
        lagging.merged = M.merged;
        lagging.epoch = M.epoch;
        lagging.realm = M.realm
    }
    :: d_step { !calm && lags > 0 && (lagging.ledger != M.ledger || lagging.epoch != M.epoch) ->
        lags--;
        M.ledger = lagging.ledger;
        M.merged = lagging.merged;
        M.epoch = lagging.epoch;
        M.realm = lagging.realm;
        for (i : 0 .. DAEMONS - 1) {
            gate_shut(i);
            if
            :: D[i].stage == MERGED -> run_end(i) /* what it kept is merged again, if the ledger lacks it */
            :: else
            fi
        }
        printf("mysql    has lost its tail\n")
    }
    :: d_step { !calm && (CLONE || !(S[0].primary && S[1].primary)) -> calm = true; printf("calm\n") }
    :: timeout -> d_step { at_end() }; break
    od
}
