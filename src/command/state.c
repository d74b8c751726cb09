/* command/state.c - what a session waits for, and CLIENT REPLY. */
#include "command/inside.h"

bool state_blocks(enum session_state state)
{
    return state != SESSION_TAKING && state != SESSION_ENDING;
}

void session_state(struct session *s, enum session_state state)
{
    s->command->blocked_n += state_blocks(state);
    s->command->blocked_n -= state_blocks(s->state);
    s->state = state;
}

void session_wait(struct session *s, enum session_state state)
{
    session_state(s, state);
    s->command->config.client.pause(s->conn);
}

void session_go_on(struct session *s)
{
    session_state(s, SESSION_TAKING);
    s->command->config.client.resume(s->conn);
}

enum taken session_barrier(struct session *s)
{
    if (s->outlet->waiting == 0) return TAKEN;
    session_wait(s, SESSION_BARRIER);
    return LEFT;
}

void session_replies_next(struct session *s)
{
    if (s->replies == REPLIES_SKIP)
        s->replies = REPLIES_ON;
    else if (s->replies == REPLIES_SKIP_NEXT)
        s->replies = REPLIES_SKIP;
}
