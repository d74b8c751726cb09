/* admin/recover.c - `tallyd recover`: asks the running service, or does it by itself when none runs. The socket does
 * not offer an operator's decisions, rejecting unknown batches and accepting a rollback. So these always run here, even
 * beside a running service. */
#include "admin/human.h"
#include "admin/verbs.h"
#include "status/status.h"

#include "base/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#define PROGRESS_MS 200
#define NAME_SHOWN 400

static void found_print(const char *kind, struct slice name)
{
    printf("%s%s%s\n", kind, kind[0] == '\0' ? "" : " ", SLICE_SHOW(name, NAME_SHOWN));
}

static void recovered_print(const struct admin_recovered *r, bool dry_run)
{
    printf("%s%" PRId64 " batches taken over, %" PRId64 " rows merged, %" PRId64
           " rows had been merged already\n",
           dry_run ? "would be: " : "", r->adopted, r->rows_merged, r->rows_already);
    if (r->leftovers > 0) printf("%" PRId64 " leftover hashes became batches\n", r->leftovers);
    if (r->rejected > 0) printf("%" PRId64 " rows went to tally_rejects\n", r->rejected);
    if (r->unknown > 0)
        printf("%" PRId64
               " batches remain: their counter is not configured (put it back, or run `tallyd recover "
               "--reject-unknown`), or another version of tallyd claimed them (it merges them)\n",
               r->unknown);
    if (r->held > 0)
        printf("%" PRId64 " batches are held: the log says why. `tallyd check` names what MySQL refuses\n",
               r->held);
}

static void recover_progress(void *arg, uint64_t done, uint64_t total)
{
    if (total > 0) bar_show(arg, done, total);
}

static void recover_found(void *arg, const char *kind, struct slice name)
{
    bar_end(arg);
    found_print(kind, name);
}

static enum err recover_alone(const struct call *call, const struct conf *conf)
{
    struct bar bar;
    struct error e;
    struct admin_recovered got = {0};
    bar_init(&bar, stdout, "recovering");
    const struct admin_recover how = {.dry_run = call->dry_run,
                                      .reject_unknown = call->reject_unknown,
                                      .accept_rollback = call->accept_rollback,
                                      .take_over = call->take_over,
                                      .progress = recover_progress,
                                      .found = recover_found,
                                      .arg = &bar};
    enum err code = call->ports->recover_alone(call->ports->arg, conf, &how, &got, &e);
    bar_end(&bar);
    if (code != ERR_NONE) return call_failed(&e);
    recovered_print(&got, call->dry_run);
    return got.held > 0 ? ERR_FAILED : ERR_NONE;
}

static void progress_ask(redisContext *link, struct bar *bar)
{
    struct buf info = {0};
    int64_t done = 0, total = 0;
    if (service_info(link, &info) && service_number(&info, "recover_done", &done) &&
        service_number(&info, "recover_total", &total))
        recover_progress(bar, (uint64_t)done, (uint64_t)total);
    buf_free(&info);
}

/* Waits for the answer of `link`, and asks `beside` how far it is. NULL: the service went away. */
static redisReply *answer_wait(redisContext *link, redisContext *beside, struct bar *bar)
{
    struct pollfd answer = {.fd = link->fd, .events = POLLIN};
    redisReply *reply = NULL;
    while (poll(&answer, 1, PROGRESS_MS) == 0)
        if (beside != NULL && beside->err == 0) progress_ask(beside, bar);
    return redisGetReply(link, (void **)&reply) == REDIS_OK ? reply : NULL;
}

/* CTR.RECOVER: three numbers. CTR.RECOVER DRYRUN: `kind name` for each thing found. */
static enum err reply_print(const redisReply *reply, bool dry_run)
{
    struct error e;
    if (reply->type == REDIS_REPLY_ERROR) {
        error_set(&e, ERR_FAILED, "the service answered: %s. Its log says more", reply->str);
        return call_failed(&e);
    }
    if (reply->type != REDIS_REPLY_ARRAY || (!dry_run && reply->elements < 3)) {
        error_set(&e, ERR_FAILED, "the program that listens there is not a tallyd: check listen.resp");
        return call_failed(&e);
    }
    if (!dry_run) {
        const struct admin_recovered got = {.adopted = reply->element[0]->integer,
                                            .rows_merged = reply->element[1]->integer,
                                            .rows_already = reply->element[2]->integer};
        recovered_print(&got, false);
        return ERR_NONE;
    }
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_STRING)
            found_print("", slice_of(reply->element[i]->str, (size_t)reply->element[i]->len));
    printf(reply->elements == 0 ? "nothing is left to recover\n"
                                : "nothing was changed: this was a dry run\n");
    return ERR_NONE;
}

/* Three numbers do not say what is left; a dry run names it. Counts what an operator must look at. */
static int left_print(redisContext *link)
{
    int held = 0;
    redisReply *reply = redisCommand(link, "CTR.RECOVER DRYRUN");
    for (size_t i = 0; reply != NULL && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        struct slice line = slice_of(reply->element[i]->str, (size_t)reply->element[i]->len);
        bool is_held = slice_starts(line, SLICE("held "));
        if (is_held || slice_starts(line, SLICE("unknown "))) found_print("left standing:", line);
        held += is_held;
    }
    if (reply != NULL) freeReplyObject(reply);
    return held;
}

static enum err recover_through(redisContext *link, const struct call *call, const struct conf *conf)
{
    struct bar bar;
    struct error e;
    int sent = 0;
    const struct timeval patient = {.tv_sec = 24 * 3600}; /* it takes as long as the merge takes */
    bar_init(&bar, stdout, "recovering");
    bool secure;
    redisContext *beside = service_connect(conf, &secure);
    redisSetTimeout(link, patient);
    redisAppendCommand(link, call->dry_run ? "CTR.RECOVER DRYRUN" : "CTR.RECOVER");
    while (link->err == 0 && !sent)
        redisBufferWrite(link, &sent);
    redisReply *reply = link->err == 0 ? answer_wait(link, beside, &bar) : NULL;
    bar_end(&bar);
    if (beside != NULL) redisFree(beside);
    if (reply == NULL) {
        error_set(&e, ERR_FAILED, "the service went away (%s); nothing is lost, run recover again",
                  link->errstr);
        return call_failed(&e);
    }
    enum err code = reply_print(reply, call->dry_run);
    freeReplyObject(reply);
    if (code == ERR_NONE && !call->dry_run && left_print(link) > 0) code = ERR_FAILED;
    return code;
}

enum err verb_recover(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    setup_close(&setup);
    bool alone = call->reject_unknown || call->accept_rollback || call->take_over;
    bool secure = false;
    struct error e;
    redisContext *link = alone ? NULL : service_connect(&conf, &secure);
    if (secure && link == NULL)
        error_set(
            &e, ERR_CONFIG,
            "tallyd runs, but verbs cannot use any address at which it listens (tls://, users, proxies): %s",
            SERVICE_SECURE_NEXT);
    enum err code = link != NULL ? recover_through(link, call, &conf)
                    : secure     ? call_failed(&e)
                                 : recover_alone(call, &conf);
    if (link != NULL) redisFree(link);
    conf_free(&conf);
    return code;
}
