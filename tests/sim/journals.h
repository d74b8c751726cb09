/* tests/sim/journals.h - journals: what frames append to them, what Redis holds, how a dead daemon's journal is taken over, and
 * reads that wait until what they ask for is in its keys. The bytes are the real ones. */
#ifndef SIM_JOURNALS_H
#define SIM_JOURNALS_H

#include "sim/model.h"

#define SIM_JOURNALS 16
#define SIM_JOURNAL_NAME 24
#define SIM_JOURNAL_BYTES 2048
#define SIM_APPENDS 8 /* of a frame */

struct twin_journal {
    bool stands;     /* the string */
    bool listed;     /* in tally:journals */
    int owner;       /* a life */
    uint64_t to_end; /* set of lives: in tally:journals:taken */
    char name[SIM_JOURNAL_NAME];
    unsigned n;
    char bytes[SIM_JOURNAL_BYTES];
};
struct wire_append {
    char name[SIM_JOURNAL_NAME];
    bool opens, ends;
    unsigned at, n; /* in the frame's records */
};
struct wire_journals { /* all of tally:journals */
    unsigned n;
    struct {
        char name[SIM_JOURNAL_NAME];
        int owner;
        bool linked;
    } all[SIM_JOURNALS];
};
struct wire_take {
    char list_run_id[RUN_ID_BYTES]; /* of the server that gave its list */
    char name[SIM_JOURNAL_NAME];
    int owner; /* as it was named */
    uint64_t to_end;
    bool taken;
    unsigned n;
    char bytes[SIM_JOURNAL_BYTES];
};
struct sim_read { /* of the clients' series, whose sum is checked, or of their timebox */
    struct coalesce_settle settle;
    bool busy;
    uint32_t answered; /* set of the ops that were when it was asked for */
    struct process *life;
};

struct world;
struct process;
struct wire_frame;
struct wire_look;
struct link;
struct journal_list;
struct journal_take;

void journals_to_wire(struct wire_frame *wire, const struct frame *f);
void journals_run(struct world *w, const struct link *l, const struct wire_frame *f);
void journals_show_owners(struct world *w, const struct link *l, struct wire_look *look);

/* A service's look for journals of the dead, and the taking of one. */
void journals_wire(struct process *life);
void journals_list_run(struct world *w, struct wire_journals *list);
bool journals_take_run(struct world *w, struct link *l, struct wire_take *take,
                       unsigned step); /* true: more steps */
void journals_listed(struct process *life, const struct wire_journals *wire, struct journal_list *list);
void journals_taken(const struct wire_take *wire, struct journal_take *take);

void journals_read(struct process *life);
bool journals_stand(const struct world *w);

#endif
