/* redis/lua.h - the scripts that Redis runs, one each in lua/NAME.lua, which says its KEYS, ARGV and answer. The build
 * embeds them (embed.cmake) without comments and indentation; `--include parts/FILE` inserts that file. */
#ifndef REDIS_LUA_H
#define REDIS_LUA_H

#include "base/slice.h"

/* of batches */
extern const struct slice lua_adopt, lua_batch_list, lua_beat, lua_claim, lua_discard, lua_fence,
    lua_leftover, lua_standing, lua_walk;
/* of frames, and of journals taken over */
extern const struct slice lua_frame_events, lua_frame_events_kept, lua_frame_shares, lua_frame_timebox,
    lua_frame_tokens, lua_frame_visitors, lua_frame_windows, lua_journal_ended, lua_journal_take;
/* of reads */
extern const struct slice lua_query_events, lua_query_timebox, lua_query_visitors, lua_query_windows;
/* of the cleaner */
extern const struct slice lua_clean_events, lua_clean_series, lua_clean_windows;
/* for merging, status and verify */
extern const struct slice lua_books, lua_copy_read, lua_dirty_move, lua_gen_raise, lua_history, lua_lanes,
    lua_move, lua_status_size, lua_store, lua_total;

#endif
