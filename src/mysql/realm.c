/* mysql/realm.c - see ledger.h. A process that takes an epoch writes it into the row of each counter's books, which a
 * chunk's transaction changes last. The two conflict on that row, either by its lock or, in a Galera cluster, when the
 * later one commits. */
#include "mysql/ledger.h"

#include "base/slice.h"
#include "mysql/text.h"

#include <stdio.h>

#define TRIES_MOST 5 /* besides one for each lane that may be before this one in taking a free realm */
#define NO_EPOCH "x'00000000000000000000000000000000'"

/* A look under way. */
struct realm_asked {
    struct db *db;
    const struct counters *counters;
    const struct history_read *redis;
    const struct realm_asker *who; /* its lane's name is the realm's while that has no epoch */
    struct realm_look *out;
    bool known; /* there is such a realm */
    enum question { NOBODY_ASKED, ANSWERED, WAITING, UNANSWERED } question;
};

static bool id_take(struct slice cell, struct batch_id *id)
{
    bool good = cell.p != NULL && cell.n == sizeof id->bytes;
    if (good) memcpy(id->bytes, cell.p, cell.n);
    return good;
}

static void primary_put(struct buf *sql, const struct realm_asked *l, struct slice taken_by)
{
    BUF_LIT(sql, "run_id = ");
    sql_hex(sql, slice_str(l->redis->run_id));
    BUF_LIT(sql, ", history = ");
    sql_hex(sql, slice_str(l->redis->replid));
    BUF_LIT(sql, ", since = UTC_TIMESTAMP(3), taken_by = ");
    sql_hex(sql, taken_by);
    buf_printf(sql, ", lanes = %u", l->who->lanes);
    BUF_LIT(sql, " WHERE realm = ");
    sql_id(sql, &l->out->epoch.realm);
}

/* --- a Redis without a realm --- */

static void lane_put(struct buf *sql, const struct realm_asked *l)
{
    if (l->who->lane.n == 0) return;
    BUF_LIT(sql, " AND taken_by = ");
    sql_hex(sql, l->who->lane);
}

/* A free realm that may be this Redis'. After an upgrade the free one has a ledger, and a Redis whose gen is below that
 * is another one. (!) Lanes on one server have one history: a realm that was given to one of them is not for the
 * others. */
static enum code_class free_find(struct realm_asked *l)
{
    struct buf sql = {0};
    struct slice cell;
    BUF_LIT(&sql, "SELECT r.realm FROM tally_realms r WHERE r.epoch = " NO_EPOCH
                  " AND (r.history = '' OR (r.run_id = ");
    sql_hex(&sql, slice_str(l->redis->run_id));
    BUF_LIT(&sql, " AND r.history = ");
    sql_hex(&sql, slice_str(l->redis->replid));
    lane_put(&sql, l);
    buf_printf(
        &sql,
        ")) AND r.lanes IN (0, %u) AND NOT EXISTS (SELECT 1 FROM tally_ledger l WHERE l.realm = r.realm AND "
        "l.gen > %llu)"
        " ORDER BY r.history = '', (SELECT MAX(l.gen) FROM tally_ledger l WHERE l.realm = r.realm) DESC,"
        " r.realm LIMIT 1",
        l->who->lanes, (unsigned long long)l->redis->gen);
    enum code_class class = db_query_free(l->db, &sql);
    l->known = class == CODE_OK && db_row(l->db, &cell, 1) && id_take(cell, &l->out->epoch.realm);
    return class;
}

/* (!) MySQL records it as ours before Redis is told: two processes that begin at once must not be given the same realm.
 * The epoch comes with the next look; if this process dies before that, its Redis is recognised by its history. */
static enum code_class free_take(struct realm_asked *l)
{
    struct buf sql = {0};
    enum code_class class = free_find(l);
    l->out->outcome = REALM_STRANGER;
    if (class != CODE_OK || !l->known) return class;
    BUF_LIT(&sql, "UPDATE tally_realms SET ");
    primary_put(&sql, l, l->who->lane.n > 0 ? l->who->lane : l->who->instance);
    BUF_LIT(&sql, " AND epoch = " NO_EPOCH " AND (history = '' OR (history = ");
    sql_hex(&sql, slice_str(l->redis->replid));
    lane_put(&sql, l);
    BUF_LIT(&sql, "))");
    class = db_exec_free(l->db, &sql);
    if (class != CODE_OK) return class;
    bool got = db_affected(l->db) == 1;
    if (got) l->out->outcome = REALM_GIVEN;
    return got || l->who->lane.n == 0 ? CODE_OK
                                      : CODE_AGAIN; /* another lane was before us: there is one for each */
}

/* --- its epoch --- */

static enum code_class epoch_read(struct realm_asked *l)
{
    struct buf sql = {0};
    struct slice cell[6];
    int64_t question = NOBODY_ASKED;
    /* A question from the future is of a clock that was put back. */
    buf_printf(
        &sql,
        "SELECT epoch, run_id, history, lanes, taken_by,"
        " CASE WHEN asked_at IS NULL OR asked_at > UTC_TIMESTAMP(3) THEN %d WHEN alive_at IS NOT NULL THEN %d"
        " WHEN asked_at > UTC_TIMESTAMP(3) - INTERVAL %d SECOND THEN %d ELSE %d END"
        " FROM tally_realms WHERE realm = ",
        NOBODY_ASKED, ANSWERED, REALM_WAIT_MS / 1000, WAITING, UNANSWERED);
    sql_id(&sql, &l->out->epoch.realm);
    BUF_LIT(&sql, " FOR UPDATE");
    enum code_class class = db_query_free(l->db, &sql);
    l->known = class == CODE_OK && db_row(l->db, cell, 6) && id_take(cell[0], &l->out->epoch.id) &&
               num_parse(cell[3], &l->out->lanes) && num_parse(cell[5], &question);
    l->question = (enum question)question;
    if (l->known) snprintf(l->out->by, sizeof l->out->by, SLICE_FMT, SLICE_ARG(cell[4]));
    bool same = l->known && slice_eq(cell[1], slice_str(l->redis->run_id)) &&
                slice_eq(cell[2], slice_str(l->redis->replid));
    l->out->taken = !same || batch_id_is_zero(&l->out->epoch.id);
    return class;
}

static bool is_heir(const struct realm_asked *l)
{
    const struct batch_id *last = &l->out->epoch.id;
    return batch_id_is_zero(last) || batch_id_same(last, &l->who->had) || l->who->take_over ||
           l->question == UNANSWERED;
}

/* Asks anew when the last question was answered: that one may have died since. */
static enum code_class life_ask(struct realm_asked *l)
{
    struct buf sql = {0};
    l->out->outcome = l->question == ANSWERED ? REALM_LIVES : REALM_ASKED;
    if (l->question == WAITING) return CODE_OK;
    BUF_LIT(&sql, "UPDATE tally_realms SET asked_at = UTC_TIMESTAMP(3), alive_at = NULL WHERE realm = ");
    sql_id(&sql, &l->out->epoch.realm);
    enum code_class class = db_exec_free(l->db, &sql);
    return class == CODE_OK ? DB_EXEC(l->db, "COMMIT") : class;
}

#define NO_ANSWER " AND asked_at IS NOT NULL AND alive_at IS NULL"

static enum code_class life_show(struct db *db, const struct epoch *epoch)
{
    struct buf sql = {0};
    BUF_LIT(&sql, "UPDATE tally_realms SET alive_at = UTC_TIMESTAMP(3) WHERE realm = ");
    sql_id(&sql, &epoch->realm);
    BUF_LIT(&sql, " AND epoch = ");
    sql_id(&sql, &epoch->id);
    BUF_LIT(&sql, NO_ANSWER);
    return db_exec_free(db, &sql);
}

enum err realm_answer(struct db *db, const struct epoch *epoch, struct error *e)
{
    struct buf sql = {0};
    struct slice cell;
    /* Mostly nobody has: a look that locks nothing. */
    BUF_LIT(&sql, "SELECT 1 FROM tally_realms WHERE realm = ");
    sql_id(&sql, &epoch->realm);
    BUF_LIT(&sql, NO_ANSWER);
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK && db_row(db, &cell, 1)) class = life_show(db, epoch);
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

/* Waits for the transactions that have changed their counter's row; the others will not find their epoch
 * there. */
static enum code_class epoch_draw(struct realm_asked *l)
{
    struct buf sql = {0};
    batch_id_draw(&l->out->epoch.id);
    BUF_LIT(&sql, "UPDATE tally_counters SET epoch = ");
    sql_id(&sql, &l->out->epoch.id);
    BUF_LIT(&sql, " WHERE realm = ");
    sql_id(&sql, &l->out->epoch.realm);
    return db_exec_free(l->db, &sql);
}

enum code_class ledger_highest(struct db *db, const struct batch_id *realm, struct claim_gen *highest)
{
    struct buf sql = {0};
    struct slice cell[2];
    *highest = (struct claim_gen){0};
    BUF_LIT(&sql, "SELECT gen, batch FROM tally_ledger WHERE realm = ");
    sql_realm(&sql, realm);
    BUF_LIT(&sql, " ORDER BY gen DESC LIMIT 1");
    enum code_class class = db_query_free(db, &sql);
    if (class == CODE_OK && db_row(db, cell, 2) &&
        !(num_parse_u64(cell[0], &highest->gen) && id_take(cell[1], &highest->id)))
        return CODE_OPERATOR;
    return class;
}

static enum code_class books_make(struct realm_asked *l)
{
    struct buf sql = {0};
    if (l->counters->n == 0) return CODE_OK;
    BUF_LIT(&sql, "INSERT IGNORE INTO tally_counters (counter, realm, epoch) VALUES ");
    for (size_t i = 0; i < l->counters->n; i++) {
        buf_put_slice(&sql, i == 0 ? SLICE("(") : SLICE(",("));
        sql_hex(&sql, l->counters->all[i].name);
        BUF_LIT(&sql, ",");
        sql_id(&sql, &l->out->epoch.realm);
        BUF_LIT(&sql, ",");
        sql_id(&sql, &l->out->epoch.id);
        BUF_LIT(&sql, ")");
    }
    return db_exec_free(l->db, &sql);
}

static enum code_class epoch_write(struct realm_asked *l)
{
    struct buf sql = {0};
    BUF_LIT(&sql, "UPDATE tally_realms SET epoch = ");
    sql_id(&sql, &l->out->epoch.id);
    BUF_LIT(&sql, ", asked_at = NULL, alive_at = NULL, ");
    primary_put(&sql, l, l->who->instance);
    return db_exec_free(l->db, &sql);
}

/* Of a realm from before version 4, whose epoch goes on. */
static enum code_class lanes_write(struct realm_asked *l)
{
    struct buf sql = {0};
    buf_printf(&sql, "UPDATE tally_realms SET lanes = %u WHERE realm = ", l->who->lanes);
    sql_id(&sql, &l->out->epoch.realm);
    return db_exec_free(l->db, &sql);
}

static enum code_class epoch_take(struct realm_asked *l)
{
    struct realm_look *o = l->out;
    enum code_class class = DB_EXEC(l->db, "START TRANSACTION");
    if (class == CODE_OK) class = epoch_read(l);
    o->outcome = l->known ? REALM_UNFENCED : REALM_UNKNOWN;
    if (l->known && l->out->lanes != 0 && l->out->lanes != l->who->lanes) o->outcome = REALM_OTHER_LANES;
    if (o->outcome == REALM_OTHER_LANES) return class;
    bool first = batch_id_is_zero(&o->epoch.id);
    if (class != CODE_OK || !l->known || (first && !l->redis->fenced)) return class;
    bool asks = o->taken && !is_heir(l);
    if (o->taken && !asks) class = epoch_draw(l);
    if (class == CODE_OK) class = ledger_highest(l->db, &o->epoch.realm, &o->highest);
    o->outcome = o->highest.gen == 0 || history_has(l->redis, &o->highest) ? REALM_OURS : REALM_BEHIND;
    if (class != CODE_OK || o->outcome == REALM_BEHIND) return class;
    if (asks) return life_ask(l);
    class = books_make(l);
    if (class == CODE_OK && o->taken)
        class = epoch_write(l);
    else if (class == CODE_OK && o->lanes == 0)
        class = lanes_write(l);
    if (class == CODE_OK && l->question != NOBODY_ASKED && !o->taken) class = life_show(l->db, &o->epoch);
    return class == CODE_OK ? DB_EXEC(l->db, "COMMIT") : class;
}

enum err realm_look(struct db *db, const struct counters *cs, const struct history_read *redis,
                    const struct realm_asker *asker, struct realm_look *out, struct error *e)
{
    struct realm_asked l = {.db = db, .counters = cs, .redis = redis, .who = asker, .out = out};
    enum code_class class = CODE_AGAIN;
    enum err err = ERR_NONE;
    for (uint32_t tries = 0; class == CODE_AGAIN && tries < TRIES_MOST + asker->lanes; tries++) {
        struct epoch *epoch = &l.out->epoch;
        *l.out = (struct realm_look){.epoch.realm = l.redis->realm};
        memcpy(epoch->run_id, l.redis->run_id, sizeof epoch->run_id);
        memcpy(epoch->replid, l.redis->replid, sizeof epoch->replid);
        class = batch_id_is_zero(&epoch->realm) ? free_take(&l) : epoch_take(&l);
        err = class == CODE_OK ? ERR_NONE : db_error(db, e);
        if (db_is_open(db) && DB_EXEC(db, "ROLLBACK") != CODE_OK) db_close(db);
    }
    return err;
}

enum err realm_counter_make(struct db *db, const struct epoch *epoch, struct slice counter, struct error *e)
{
    struct buf sql = {0};
    sql_counter_make(&sql, counter, &epoch->realm);
    BUF_LIT(&sql, " AND epoch = ");
    sql_id(&sql, &epoch->id);
    return db_exec_free(db, &sql) == CODE_OK ? ERR_NONE : db_error(db, e);
}

static enum code_class free_insert(struct db *db, const struct batch_id *realm, uint32_t lanes)
{
    struct buf sql = {0};
    BUF_LIT(
        &sql,
        "INSERT IGNORE INTO tally_realms (realm, epoch, run_id, history, since, taken_by, lanes) VALUES (");
    sql_id(&sql, realm);
    buf_printf(&sql, ", " NO_EPOCH ", '', '', UTC_TIMESTAMP(3), '', %u)", lanes);
    return db_exec_free(db, &sql);
}

enum err realms_free_make(struct db *db, uint32_t n, uint32_t lanes, struct error *e)
{
    enum code_class class = CODE_OK;
    for (uint32_t i = 0; class == CODE_OK && i < n; i++) {
        struct batch_id realm;
        batch_id_draw(&realm);
        class = free_insert(db, &realm, lanes);
    }
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

/* From version 1 it may have the ledger of a Redis, which has one lane. */
static void may_be_first(struct buf *sql, uint32_t lanes)
{
    buf_printf(
        sql, "history = '' AND (%u = 1 OR NOT EXISTS (SELECT 1 FROM tally_ledger l WHERE l.realm = r.realm))",
        lanes);
}

/* The one that migrate made (sql/002) has no number yet. */
static enum code_class first_claim(struct db *db, uint32_t lanes)
{
    struct buf sql = {0};
    buf_printf(&sql, "UPDATE tally_realms r SET lanes = %u WHERE lanes = 0 AND ", lanes);
    may_be_first(&sql, lanes);
    return db_exec_free(db, &sql);
}

static enum code_class first_count(struct db *db, uint32_t lanes, int64_t *free_n, int64_t *taken_n)
{
    struct buf sql = {0};
    struct slice cell[2];
    buf_printf(&sql, "SELECT CAST(COALESCE(SUM(lanes IN (0, %u) AND ", lanes);
    may_be_first(&sql, lanes);
    BUF_LIT(&sql, "), 0) AS SIGNED), CAST(COALESCE(SUM(history <> ''), 0) AS SIGNED) FROM tally_realms r");
    enum code_class class = db_query_free(db, &sql);
    bool read =
        class == CODE_OK && db_row(db, cell, 2) && num_parse(cell[0], free_n) && num_parse(cell[1], taken_n);
    return read || class != CODE_OK ? class : CODE_OPERATOR;
}

enum err realms_first(struct db *db, uint32_t lanes, struct error *e)
{
    int64_t free_n, taken_n;
    enum code_class class = first_count(db, lanes, &free_n, &taken_n);
    if (class == CODE_OK && taken_n > 0) return ERR_NONE;
    if (class == CODE_OK) class = first_claim(db, lanes);
    if (class != CODE_OK) return db_error(db, e);
    return free_n < (int64_t)lanes ? realms_free_make(db, lanes - (uint32_t)free_n, lanes, e) : ERR_NONE;
}

enum err realms_read(struct db *db, void (*each)(void *arg, const struct realm_row *r), void *arg,
                     struct error *e)
{
    struct slice cell[6];
    enum code_class class =
        DB_QUERY(db, "SELECT LOWER(HEX(r.realm)), r.taken_by, CAST(COALESCE(SUM(c.merged), 0) AS CHAR),"
                     " CAST(COALESCE(SUM(c.rejected), 0) AS CHAR), r.run_id, r.history FROM tally_realms r"
                     " LEFT JOIN tally_counters c ON c.realm = r.realm GROUP BY r.realm, r.taken_by, "
                     "r.run_id, r.history ORDER BY r.realm");
    while (class == CODE_OK && db_row(db, cell, 6)) {
        const struct realm_row r = {.id = cell[0],
                                    .taken_by = cell[1],
                                    .merged = cell[2],
                                    .rejected = cell[3],
                                    .run_id = cell[4],
                                    .history = cell[5],
                                    .is_free = cell[5].n == 0};
        each(arg, &r);
    }
    return class == CODE_OK ? ERR_NONE : db_error(db, e);
}

/* A free one comes before the others; of several others none is right. */
static enum code_class only_find(struct db *db, uint32_t lanes, struct batch_id *realm, bool *one)
{
    struct buf sql = {0};
    struct slice cell[2];
    buf_printf(&sql,
               "SELECT realm, history = '' FROM tally_realms WHERE lanes IN (0, %u)"
               " ORDER BY history = '' DESC, realm",
               lanes);
    enum code_class class = db_query_free(db, &sql);
    *one = class == CODE_OK && db_row(db, cell, 2) && id_take(cell[0], realm);
    bool is_free = *one && slice_eq(cell[1], SLICE("1"));
    if (*one && !is_free) *one = !db_row(db, cell, 2);
    return class;
}

enum err realm_accept(struct db *db, const struct batch_id *told, uint32_t lanes, struct batch_id *realm,
                      uint64_t *highest, struct error *e)
{
    struct claim_gen top;
    bool one = true;
    *realm = *told;
    enum code_class class =
        batch_id_is_zero(told) ? only_find(db, lanes, realm, &one) : free_insert(db, realm, lanes);
    if (class != CODE_OK) return db_error(db, e);
    if (!one)
        return error_set(
            e, ERR_CONFIG,
            "MySQL counts for several Redis, and this one does not say which it is: give it its realm of "
            "tally_realms back (redis-cli SET tally:realm, 32 hex digits), then run this again");
    if (ledger_highest(db, realm, &top) != CODE_OK) return db_error(db, e);
    *highest = top.gen;
    return ERR_NONE;
}
