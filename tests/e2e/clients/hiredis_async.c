// hiredis' asynchronous API on libuv: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
#include <hiredis/adapters/libuv.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { HITS_MAX = 32, WAYS = 3 };

struct hit {
    char key[64], field[64];
    long n;
};

struct way { // of script.json, which has one hit a line
    char name[32];
    struct hit hits[HITS_MAX];
    int count, sent;
    long long replies[HITS_MAX];
    int answered;
};

static struct way ways[WAYS];

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void script_read(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) fail("no script");
    struct way *way = ways;
    char line[256];
    struct hit hit;
    while (way < ways + WAYS && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, " [\"%63[^\"]\", \"%63[^\"]\", %ld]", hit.key, hit.field, &hit.n) == 3) {
            if (way->count == HITS_MAX) fail("too many hits");
            way->hits[way->count++] = hit;
        } else if (way->count > 0 && strchr(line, ']') != NULL) {
            way++;
        } else {
            sscanf(line, " \"%31[^\"]\": [", way->name);
        }
    }
    fclose(file);
}

static void replies_print(void)
{
    printf("{");
    for (int i = 0; i < WAYS; i++) {
        printf("%s\"%s\": [", i > 0 ? ", " : "", ways[i].name);
        for (int j = 0; j < ways[i].answered; j++)
            printf("%s%lld", j > 0 ? ", " : "", ways[i].replies[j]);
        printf("]");
    }
    printf("}\n");
}

static void integer_put(struct way *way, const redisReply *reply)
{
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) fail("not an integer");
    way->replies[way->answered++] = reply->integer;
}

static void hit_send(redisAsyncContext *link, struct way *way, redisCallbackFn *answered)
{
    const struct hit *hit = &way->hits[way->sent++];
    if (redisAsyncCommand(link, answered, way, "HINCRBY %s %s %ld", hit->key, hit->field, hit->n) != REDIS_OK)
        fail(link->errstr);
}

static void on_exec(redisAsyncContext *link, void *reply, void *way)
{
    const redisReply *array = reply;
    if (array == NULL || array->type != REDIS_REPLY_ARRAY) fail("EXEC has no array");
    for (size_t i = 0; i < array->elements; i++)
        integer_put(way, array->element[i]);
    replies_print();
    redisAsyncDisconnect(link);
}

static void on_pipelined(redisAsyncContext *link, void *reply, void *data)
{
    struct way *way = data, *next = way + 1;
    integer_put(way, reply);
    if (way->answered < way->count) return;
    redisAsyncCommand(link, NULL, NULL, "MULTI");
    while (next->sent < next->count)
        hit_send(link, next, NULL);
    redisAsyncCommand(link, on_exec, next, "EXEC");
}

static void on_one(redisAsyncContext *link, void *reply, void *data)
{
    struct way *way = data, *next = way + 1;
    integer_put(way, reply);
    if (way->sent < way->count) {
        hit_send(link, way, on_one);
        return;
    }
    while (next->sent < next->count)
        hit_send(link, next, on_pipelined);
}

static void on_connected(const redisAsyncContext *link, int status)
{
    if (status != REDIS_OK) fail(link->errstr);
}

int main(int argc, char **argv)
{
    if (argc != 4) fail("usage: hiredis_async SCRIPT unix|tcp PATH|PORT");
    script_read(argv[1]);
    bool local = strcmp(argv[2], "unix") == 0;
    redisAsyncContext *link =
        local ? redisAsyncConnectUnix(argv[3]) : redisAsyncConnect("127.0.0.1", atoi(argv[3]));
    if (link == NULL || link->err) fail(link != NULL ? link->errstr : "no memory");
    redisLibuvAttach(link, uv_default_loop());
    redisAsyncSetConnectCallback(link, on_connected);
    hit_send(link, &ways[0], on_one);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return ways[WAYS - 1].answered == ways[WAYS - 1].count ? 0 : 1;
}
