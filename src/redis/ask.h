/* redis/ask.h - a request as a text, the scripts that some run, and an answer taken apart in one call. For what is asked seldom:
 * frames write their own bytes (reader.h). */
#ifndef REDIS_ASK_H
#define REDIS_ASK_H

#include "redis/link.h"
#include <inttypes.h>

#define REDIS_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* Appends a command whose words are split at single spaces. In a word, what printf would write for %s, %.*s, %d, %u, %zu and their
 * long forms (it may have any bytes), and the lane's tag for {}, which stands in front of each key. A last word +%zu writes
 * nothing: that many words more follow, which the caller appends. */
void request_format(struct buf *out, struct slice tag, const char *format, ...) REDIS_FORMAT(3, 4);
/* The same behind redis_link_begin(), whose buffer it returns; redis_link_ask() or redis_answered() is next. */
struct buf *redis_write(struct redis_link *l, const char *format, ...) REDIS_FORMAT(2, 3);

#define OWNER_FMT "%.*s:%s" /* <instance>:<life>, as name_owner() writes it */
#define OWNER_ARG(life) SLICE_ARG((life)->instance), (life)->id

/* Blocking, where the caller owns the loop and nothing else is asked on this link. The answer lives until the next one that is
 * called for on this link; NULL: the link is lost. */
const struct redis_answer *redis_call(struct redis_link *l, const char *format, ...) REDIS_FORMAT(2, 3);
const struct redis_answer *redis_answered(struct redis_link *l); /* of the one request that was appended */
/* Until all that was asked on this link is answered, as operations ask it; their `done` may be NULL then. */
void redis_settle(struct redis_link *l);
void redis_end(struct redis_link *l); /* closes it */

/* True: the answer has this shape, and each part is in its place. s: a string, to a struct slice *. i: a number, to an int64_t *. a:
 * an array, *: anything; to a const struct redis_answer **. ( ... ): an array of exactly these. NULL has no shape. */
bool answer_scan(const struct redis_answer *r, const char *shape, ...);
/* Copies of the texts of every step-th element of an array, into bytes, which is empty; the slices are heap. */
struct slice *answer_texts(const struct redis_answer *r, size_t step, struct buf *bytes);

/* --- the scripts that Redis runs, one each in lua/NAME.lua, which says its KEYS, ARGV and answer. The build embeds them
 * (embed.cmake) without comments and indentation; `--include parts/FILE` inserts that file. --- */

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
