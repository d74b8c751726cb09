/* http/door.c - see door.h. */
#include "http/door.h"

#include "base/heap.h"

#include <sys/time.h>
#include <unistd.h>

void door_init(struct door *d, const struct http_ports *ports, uint32_t answer_ms)
{
    *d = (struct door){.ports = ports, .answer_ms = answer_ms};
}

void door_close(struct door *d)
{
    if (d->link != NULL) redisFree(d->link);
    d->link = NULL;
}

redisContext *door_link(struct door *d)
{
    struct timeval limit = {.tv_sec = d->answer_ms / 1000, .tv_usec = (int)(d->answer_ms % 1000) * 1000};
    if (d->link != NULL && d->link->err != 0) door_close(d);
    if (d->link != NULL) return d->link;
    int fd = d->ports->connect(d->ports->arg);
    if (fd < 0) return NULL;
    d->link = redisConnectFd(fd);
    if (d->link == NULL) {
        close(fd);
    } else if (d->link->err != 0 || redisSetTimeout(d->link, limit) != REDIS_OK) {
        door_close(d);
    }
    return d->link;
}

static void append(redisContext *link, const struct slice *words, size_t n)
{
    const char **texts = heap_alloc(n * sizeof *texts);
    size_t *sizes = heap_alloc(n * sizeof *sizes);
    for (size_t i = 0; i < n; i++) {
        texts[i] = words[i].p;
        sizes[i] = words[i].n;
    }
    if (redisAppendCommandArgv(link, (int)n, texts, sizes) != REDIS_OK) link->err = REDIS_ERR_OTHER;
    heap_free(texts);
    heap_free(sizes);
}

static bool take_all(redisContext *link, size_t n, redisReply **answers)
{
    for (size_t i = 0; i < n; i++) {
        void *reply = NULL;
        if (link->err == 0 && redisGetReply(link, &reply) == REDIS_OK) {
            answers[i] = reply;
            continue;
        }
        while (i > 0)
            freeReplyObject(answers[--i]);
        return false;
    }
    return true;
}

bool door_ask_all(struct door *d, const struct slice *const *words, const size_t *ns, size_t n,
                  redisReply **answers)
{
    redisContext *link = door_link(d);
    if (link == NULL) return false;
    for (size_t i = 0; i < n; i++)
        append(link, words[i], ns[i]);
    if (take_all(link, n, answers)) return true;
    door_close(d);
    return false;
}

redisReply *door_ask(struct door *d, const struct slice *words, size_t n)
{
    redisReply *reply;
    return door_ask_all(d, &words, &n, 1, &reply) ? reply : NULL;
}
