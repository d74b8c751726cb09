/* Wording: requests and their replies. SAME: byte for byte what redis-server 7.0.15 answers, measured on one;
 * OWN: where tallyd has to differ. Clients decide by these texts whether to fall back, so they are worth a
 * table. */
#include "world.h"

struct vector {
    const char *request, *reply;
};

#define SAME(request, reply) ((struct vector){request, reply})
#define OWN(request, reply) ((struct vector){request, reply})
#define BAD_NAME "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
#define NO_PASSWORD                                                                                          \
    "-ERR AUTH <password> called without any password configured for the default user. Are you sure your "   \
    "configuration is correct?\r\n"
#define WRONGPASS "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
#define NO_KEYS "-ERR The command has no key arguments\r\n"
#define ARITY(name) "-ERR wrong number of arguments for '" name "' command\r\n"
#define NO_DATABASE                                                                                          \
    "-ERR DB index is out of range: tallyd has database 0 alone; README, \"What differs from Redis\"\r\n"
#define HELLO2                                                                                               \
    "*14\r\n$6\r\nserver\r\n$6\r\ntallyd\r\n$7\r\nversion\r\n$5\r\n" TALLYD_VERSION                          \
    "\r\n$5\r\nproto\r\n:2\r\n$"                                                                             \
    "2\r\nid\r\n:1\r\n"                                                                                      \
    "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
#define HELLO3                                                                                               \
    "%7\r\n$6\r\nserver\r\n$6\r\ntallyd\r\n$7\r\nversion\r\n$5\r\n" TALLYD_VERSION                           \
    "\r\n$5\r\nproto\r\n:3\r\n$"                                                                             \
    "2\r\nid\r\n:1\r\n"                                                                                      \
    "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"

#define NO_TRACKING                                                                                          \
    "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "  \
    "enabled\r\n"
#define TRACKINGINFO(flags, redirect)                                                                        \
    "*6\r\n$5\r\nflags\r\n" flags "$8\r\nredirect\r\n:" redirect "\r\n$8\r\nprefixes\r\n*0\r\n"

static const struct vector vectors[] = {
    SAME("PING", "+PONG\r\n"),
    SAME("PING hi", "$2\r\nhi\r\n"),
    SAME("PING a b", ARITY("ping")),
    SAME("ECHO hi", "$2\r\nhi\r\n"),
    SAME("ECHO", ARITY("echo")),
    SAME("HINCRBY a", ARITY("hincrby")),
    SAME("HINCRBY a b c d", ARITY("hincrby")),
    OWN("CTR.INCRBY a b", ARITY("ctr.incrby")),
    OWN("CTR.INCRBY a b 1 TOKEN", "-ERR syntax error\r\n"),
    SAME("HINCRBY s1:views 7 x", "-ERR value is not an integer or out of range\r\n"),
    SAME("AUTH x", NO_PASSWORD),
    SAME("AUTH default x", "+OK\r\n"),
    SAME("AUTH other x", WRONGPASS),
    SAME("AUTH a b c", "-ERR syntax error\r\n"),
    SAME("AUTH", ARITY("auth")),
    OWN("HELLO", HELLO2),
    OWN("HELLO 2", HELLO2),
    OWN("HELLO 3", HELLO3),
    OWN("HELLO 3 AUTH default x", HELLO3),
    SAME("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
    SAME("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"),
    SAME("HELLO 3 AUTH other x", WRONGPASS),
    SAME("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'\r\n"),
    SAME("HELLO 3 BLAH", "-ERR Syntax error in HELLO option 'BLAH'\r\n"),
    SAME("HELLO 3 SETNAME \"a b\"", BAD_NAME),
    SAME("HELLO 3 SETNAME\r\nCLIENT GETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n$-1\r\n"),
    SAME("HELLO 3 SETNAME foo BLAH\r\nCLIENT GETNAME",
         "-ERR Syntax error in HELLO option 'BLAH'\r\n$3\r\nfoo\r\n"),
    OWN("HELLO 3 SETNAME foo\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME",
        HELLO3 "$3\r\nfoo\r\n+RESET\r\n$-1\r\n"),
    OWN("HELLO 3\r\nCLIENT GETNAME", HELLO3 "_\r\n"),
    SAME("SELECT 0", "+OK\r\n"),
    OWN("SELECT 1", NO_DATABASE),
    OWN("SELECT -1", NO_DATABASE),
    SAME("SELECT x", "-ERR value is not an integer or out of range\r\n"),
    SAME("SELECT 99999999999",
         "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n"),
    SAME("CLIENT", ARITY("client")),
    SAME("CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n"),
    SAME("client getname", "$-1\r\n"),
    SAME("CLIENT SETNAME me\r\nCLIENT GETNAME", "+OK\r\n$2\r\nme\r\n"),
    SAME("CLIENT SETNAME me\r\nCLIENT SETNAME \"\"\r\nCLIENT GETNAME", "+OK\r\n+OK\r\n$-1\r\n"),
    SAME("CLIENT SETNAME \"a b\"", BAD_NAME),
    SAME("CLIENT SETNAME", ARITY("client|setname")),
    OWN("CLIENT SETINFO LIB-NAME x\r\nCLIENT SETINFO lib-ver 1", "+OK\r\n+OK\r\n"),
    OWN("CLIENT SETINFO LIB-NAME \"a b\"",
        "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"),
    OWN("CLIENT SETINFO FOO x", "-ERR Unrecognized option 'FOO'\r\n"),
    OWN("CLIENT ID", ":1\r\n"),
    SAME("CLIENT NO-EVICT on", "+OK\r\n"),
    SAME("CLIENT NO-EVICT x", "-ERR syntax error\r\n"),
    SAME("CLIENT LIST x", "-ERR syntax error\r\n"),
    SAME("CLIENT LIST TYPE", "-ERR syntax error\r\n"),
    SAME("CLIENT LIST TYPE wrong", "-ERR Unknown client type 'wrong'\r\n"),
    SAME("CLIENT LIST TYPE PubSub", "$0\r\n\r\n"),
    SAME("CLIENT LIST ID", "-ERR syntax error\r\n"),
    SAME("CLIENT LIST ID 1 x", "-ERR Invalid client ID\r\n"),
    SAME("CLIENT LIST ID 0 -1 99999", "$0\r\n\r\n"),
    SAME("CLIENT KILL", ARITY("client|kill")),
    SAME("CLIENT KILL 1.2.3.4:5", "-ERR No such client\r\n"),
    SAME("CLIENT KILL ID 10 wrong", "-ERR syntax error\r\n"),
    SAME("CLIENT KILL id", "-ERR No such client\r\n"),
    SAME("CLIENT KILL ID str", "-ERR client-id should be greater than 0\r\n"),
    SAME("CLIENT KILL ID 0 SKIPME yes", "-ERR client-id should be greater than 0\r\n"),
    SAME("CLIENT KILL ID 99999", ":0\r\n"),
    SAME("CLIENT KILL TYPE wrong", "-ERR Unknown client type 'wrong'\r\n"),
    SAME("CLIENT KILL TYPE master SKIPME no", ":0\r\n"),
    SAME("CLIENT KILL USER wrong", "-ERR No such user 'wrong'\r\n"),
    SAME("CLIENT KILL USER default", ":0\r\n"),
    SAME("CLIENT KILL SKIPME maybe", "-ERR syntax error\r\n"),
    SAME("CLIENT KILL LADDR 1.2.3.4:5 ADDR 1.2.3.4:5", ":0\r\n"),
    SAME("CLIENT REPLY", ARITY("client|reply")),
    SAME("CLIENT REPLY x", "-ERR syntax error\r\n"),
    SAME("CLIENT REPLY ON", "+OK\r\n"),
    SAME("CLIENT REPLY OFF\r\nPING\r\nnonsense\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY ON\r\nECHO x",
         "+OK\r\n$1\r\nx\r\n"),
    SAME("CLIENT REPLY SKIP\r\nPING\r\nECHO x", "$1\r\nx\r\n"),
    SAME("CLIENT REPLY SKIP\r\nnonsense\r\nECHO x", "$1\r\nx\r\n"),
    SAME("CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nECHO x", "$1\r\nx\r\n"),
    SAME("CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nECHO x", "+OK\r\n$1\r\nx\r\n"),
    SAME("CLIENT REPLY SKIP\r\nCLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON", "+OK\r\n"),
    SAME("CLIENT REPLY OFF\r\nRESET\r\nPING", "+RESET\r\n+PONG\r\n"),
    SAME("CLIENT REPLY SKIP\r\nRESET\r\nPING", "+PONG\r\n"),
    SAME("CLIENT REPLY OFF\r\nQUIT\r\nPING", ""),
    SAME("CLIENT REPLY SKIP\r\nMULTI\r\nPING\r\nEXEC", "+QUEUED\r\n*1\r\n+PONG\r\n"),
    SAME("CLIENT REPLY OFF\r\nMULTI\r\nPING\r\nEXEC\r\nCLIENT REPLY ON", "+OK\r\n"),
    SAME("CLIENT TRACKING", ARITY("client|tracking")),
    SAME("CLIENT TRACKING maybe", "-ERR syntax error\r\n"),
    SAME("CLIENT TRACKING on\r\nCLIENT TRACKING OFF", "+OK\r\n+OK\r\n"),
    SAME("CLIENT TRACKING on x", "-ERR syntax error\r\n"),
    SAME("CLIENT TRACKING on REDIRECT", "-ERR syntax error\r\n"),
    SAME("CLIENT TRACKING on REDIRECT x", "-ERR value is not an integer or out of range\r\n"),
    SAME("CLIENT TRACKING on REDIRECT 99999", "-ERR The client ID you want redirect to does not exist\r\n"),
    OWN("CLIENT TRACKING on REDIRECT 1 REDIRECT 1",
        "-ERR A client can only redirect to a single other client\r\n"),
    SAME("CLIENT TRACKING on PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled\r\n"),
    SAME("CLIENT TRACKING on BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST\r\n"),
    OWN("CLIENT TRACKING on BCAST PREFIX a",
        "-ERR BCAST mode is not supported: tallyd tells no client of writes\r\n"),
    SAME("CLIENT TRACKING off BCAST", "+OK\r\n"),
    SAME("CLIENT TRACKING on OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n"),
    SAME("CLIENT TRACKING on OPTIN\r\nCLIENT TRACKING on OPTOUT",
         "+OK\r\n-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then "
         "re-enabling it with a different mode.\r\n"),
    SAME("CLIENT CACHING yes", NO_TRACKING),
    SAME("CLIENT TRACKING on\r\nCLIENT CACHING yes\r\nCLIENT CACHING no\r\nCLIENT CACHING x",
         "+OK\r\n-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.\r\n"
         "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n"
         "-ERR syntax error\r\n"),
    SAME("CLIENT TRACKING on OPTIN\r\nCLIENT CACHING yes", "+OK\r\n+OK\r\n"),
    SAME("CLIENT TRACKING on OPTOUT\r\nCLIENT CACHING no", "+OK\r\n+OK\r\n"),
    SAME("CLIENT GETREDIR\r\nCLIENT TRACKING on\r\nCLIENT GETREDIR\r\nRESET\r\nCLIENT GETREDIR",
         ":-1\r\n+OK\r\n:0\r\n+RESET\r\n:-1\r\n"),
    OWN("CLIENT TRACKING on REDIRECT 1\r\nCLIENT GETREDIR", "+OK\r\n:1\r\n"),
    SAME("CLIENT TRACKINGINFO", TRACKINGINFO("*1\r\n$3\r\noff\r\n", "-1")),
    SAME("CLIENT TRACKING on OPTIN NOLOOP\r\nCLIENT TRACKINGINFO",
         "+OK\r\n" TRACKINGINFO("*3\r\n$2\r\non\r\n$5\r\noptin\r\n$6\r\nnoloop\r\n", "0")),
    OWN("HELLO 3\r\nCLIENT TRACKING on OPTOUT\r\nCLIENT TRACKINGINFO",
        HELLO3 "+OK\r\n%3\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$6\r\noptout\r\n$8\r\nredirect\r\n:0\r\n"
               "$8\r\nprefixes\r\n*0\r\n"),
    SAME("UNWATCH", "+OK\r\n"),
    SAME("WAIT 1", ARITY("wait")),
    SAME("WAIT a -1", "-ERR value is not an integer or out of range\r\n"),
    SAME("WAIT 1 1.5", "-ERR timeout is not an integer or out of range\r\n"),
    SAME("WAIT 1 -1", "-ERR timeout is negative\r\n"),
    OWN("WAIT 1 9223372036854775807", "-ERR timeout is out of range\r\n"),
    OWN("WAITAOF 1 0", ARITY("waitaof")),
    OWN("WAITAOF 2 0 0", "-ERR value is out of range, value must between 0 and 1\r\n"),
    OWN("WAITAOF 1 a 0", "-ERR value is out of range, must be positive\r\n"),
    OWN("WAITAOF 1 0 -1", "-ERR timeout is negative\r\n"),
    SAME("MULTI\r\nUNWATCH\r\nPING\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+PONG\r\n"),
    SAME("COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.\r\n"),
    OWN("COMMAND COUNT", ":55\r\n"),
    OWN("COMMAND INFO PING nope", "*2\r\n*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n*2\r\n+"
                                  "@fast\r\n+@connection\r\n*0\r\n*0\r\n"
                                  "*0\r\n$-1\r\n"),
    OWN("COMMAND INFO ctr.sync client|id hincrby|x client|nope |",
        "*5\r\n*10\r\n$8\r\nctr.sync\r\n:2\r\n*4\r\n+admin\r\n+blocking\r\n+no_mandatory_keys\r\n+no_"
        "multi\r\n:1\r\n:1\r\n:1"
        "\r\n*4\r\n+@admin\r\n+@slow\r\n+@blocking\r\n+@dangerous\r\n*0\r\n*0\r\n*0\r\n"
        "*10\r\n$9\r\nclient|id\r\n:2\r\n*1\r\n+no_multi\r\n:0\r\n:0\r\n:0\r\n*2\r\n+@slow\r\n+@"
        "connection\r\n*0\r\n"
        "*0\r\n*0\r\n$-1\r\n$-1\r\n$-1\r\n"),
    SAME("COMMAND GETKEYS", ARITY("command|getkeys")),
    SAME("COMMAND GETKEYS nope a", "-ERR Invalid command specified\r\n"),
    SAME("COMMAND GETKEYS client nope", "-ERR Invalid command specified\r\n"),
    SAME("COMMAND GETKEYS client id", NO_KEYS),
    SAME("COMMAND GETKEYS ping", ARITY("command|getkeys")),
    SAME("COMMAND GETKEYS ping x", NO_KEYS),
    SAME("COMMAND GETKEYS hincrby k f", "-ERR Invalid number of arguments specified for command\r\n"),
    SAME("COMMAND GETKEYS HINCRBY k f 1", "*1\r\n$1\r\nk\r\n"),
    OWN("COMMAND GETKEYS EVENT.ADD n t", "*1\r\n$1\r\nn\r\n"),
    OWN("COMMAND GETKEYS CTR.SYNC k", "*1\r\n$1\r\nk\r\n"),
    OWN("COMMAND GETKEYS CTR.SYNC all", "*0\r\n"),
    SAME("COMMAND LIST FILTERBY MODULE x", "*0\r\n"),
    SAME("COMMAND LIST FILTERBY ACLCAT nope", "*0\r\n"),
    SAME("COMMAND LIST FILTERBY PATTERN \"\"", "*0\r\n"),
    SAME("COMMAND LIST filterby pattern HIncr?y", "*1\r\n$7\r\nhincrby\r\n"),
    SAME("COMMAND LIST FILTERBY PATTERN client|g*name", "*1\r\n$14\r\nclient|getname\r\n"),
    OWN("COMMAND LIST FILTERBY ACLCAT hash", "*3\r\n$7\r\nhincrby\r\n$4\r\nhget\r\n$5\r\nhmget\r\n"),
    SAME("COMMAND GETKEYS EXISTS a b a", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\na\r\n"),
    SAME("COMMAND GETKEYS EXISTS", ARITY("command|getkeys")),
    SAME("COMMAND GETKEYS EXPIRE a", "-ERR Invalid number of arguments specified for command\r\n"),
    OWN("COMMAND GETKEYS HDEL a b", "-ERR Invalid command specified\r\n"),
    SAME("COMMAND LIST FILTERBY", "-ERR syntax error\r\n"),
    SAME("COMMAND LIST FILTERBY nope x", "-ERR syntax error\r\n"),
    SAME("COMMAND LIST nope PATTERN x", "-ERR syntax error\r\n"),
    SAME("COMMAND LIST FILTERBY PATTERN x y", "-ERR syntax error\r\n"),
    SAME("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
    SAME("ROLE x", ARITY("role")),
    SAME("MULTI\r\nROLE\r\nACL WHOAMI\r\nEXEC",
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n$7\r\ndefault\r\n"),
    SAME("ACL", ARITY("acl")),
    SAME("ACL WHOAMI", "$7\r\ndefault\r\n"),
    SAME("ACL WHOAMI x", ARITY("acl|whoami")),
    SAME("ACL NOPE", "-ERR unknown subcommand 'NOPE'. Try ACL HELP.\r\n"),
    OWN("COMMAND DOCS PING nope",
        "*2\r\n$4\r\nping\r\n*4\r\n$7\r\nsummary\r\n$28\r\nAnswers PONG, or the message\r\n$5\r\n"
        "group\r\n$10\r\nconnection\r\n"),
    SAME("CONFIG GET", ARITY("config|get")),
    SAME("CONFIG GET nonsense", "*0\r\n"),
    SAME("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
    SAME("CONFIG GET APPENDonl?", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
    OWN("HELLO 3\r\nCONFIG GET maxclients save",
        HELLO3 "%2\r\n$4\r\nsave\r\n$0\r\n\r\n$10\r\nmaxclients\r\n$3\r\n100\r\n"),
    SAME("INFO nonsense", "$0\r\n\r\n"),
    OWN("HELLO 3\r\nINFO world", HELLO3 "=22\r\ntxt:# World\r\nround:1\r\n\r\n"),
    OWN("INFO world", "$18\r\n# World\r\nround:1\r\n\r\n"),
    OWN("INFO replication", "$48\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"),
    SAME("INFO cluster", "$30\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n"),
    OWN("INFO world Cluster WORLD nonsense",
        "$50\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n# World\r\nround:1\r\n\r\n"),
    SAME("MULTI\r\nMULTI\r\nEXEC", "+OK\r\n-ERR MULTI calls can not be nested\r\n*0\r\n"),
    SAME("EXEC", "-ERR EXEC without MULTI\r\n"),
    SAME("DISCARD", "-ERR DISCARD without MULTI\r\n"),
    SAME("MULTI\r\nDISCARD\r\nEXEC", "+OK\r\n+OK\r\n-ERR EXEC without MULTI\r\n"),
    SAME("MULTI\r\nRESET\r\nEXEC", "+OK\r\n+RESET\r\n-ERR EXEC without MULTI\r\n"),
    SAME("MULTI\r\nfoo\r\nEXEC",
         "+OK\r\n-ERR unknown command 'foo', with args beginning with: \r\n-EXECABORT Transaction "
         "discarded because of previous errors.\r\n"),
    SAME("MULTI\r\nPING\r\nPING a b\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n" ARITY("ping")),
    SAME("MULTI a", ARITY("multi")),
    SAME("EXEC a",
         "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"),
    SAME("MULTI\r\nEXEC a\r\nEXEC",
         "+OK\r\n-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' "
         "command\r\n-ERR EXEC without MULTI\r\n"),
    OWN("WATCH a",
        "-ERR WATCH is not supported: increments need no optimistic lock, send MULTI without it\r\n"),
    SAME("foo", "-ERR unknown command 'foo', with args beginning with: \r\n"),
    SAME("foo bar \"baz\\r\\nq\"",
         "-ERR unknown command 'foo', with args beginning with: 'bar' 'baz  q' \r\n"),
    SAME("\"fo\\r\\no\"", "-ERR unknown command 'fo  o', with args beginning with: \r\n"),
    SAME("\"\"", "-ERR unknown command '', with args beginning with: \r\n"),
    SAME("\"a\\x00b\" c", "-ERR unknown command 'a', with args beginning with: 'c' \r\n"),
    SAME("QUIT a b\r\nPING", "+OK\r\n"),
};

static void says(const struct vector *v)
{
    world_open();
    struct conn *c = conn_open();
    say_slice(c, slice_str(v->request));
    say_slice(c, SLICE("\r\n"));
    heard(c, v->reply);
    conn_close(c);
    world_close();
}

UNIT(all_vectors)
{
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        says(&vectors[i]);
}

static bool has(struct conn *c, const char *text)
{
    return memmem(c->said.p, c->said.n, text, strlen(text)) != NULL;
}

UNIT(long_and_varying_ones)
{
    world_open();
    struct conn *c = conn_open();
    say(c, "INFO\r\n");
    assert_true(has(c, "tallyd_version:") && has(c, "loading:0") && has(c, "maxclients:100") &&
                has(c, "\r\nhits:") && has(c, "# World"));
    assert_false(has(c, "# Commandstats"));
    buf_reset(&c->said);
    say(c, "INFO DEFAULT\r\n");
    assert_true(has(c, "\r\n\r\n# Memory\r\nused_memory:") && !has(c, "# Commandstats"));
    buf_reset(&c->said);
    say(c, "INFO everything\r\n");
    assert_true(has(c, "\r\n\r\n# Commandstats\r\ncmdstat_info:calls=2,usec=") && has(c, "# World"));
    buf_reset(&c->said);
    say(c, "INFO stats\r\n");
    assert_true(has(c, "\r\nhits:") && !has(c, "loading:0") && !has(c, "# World"));
    buf_reset(&c->said);
    say(c, "TIME\r\n");
    heard(c, "*2\r\n$10\r\n1411200000\r\n$6\r\n999000\r\n"); /* Redis' clock, not ours */
    buf_reset(&c->said);
    say(c, "COMMAND\r\n");
    assert_true(has(
        c, "*55\r\n*10\r\n$7\r\nhincrby\r\n:4\r\n*3\r\n+write\r\n+denyoom\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"));
    buf_reset(&c->said);
    say(c, "CLIENT HELP\r\n");
    assert_true(has(c, "+setname - "));
    conn_close(c);
    world_close();
}

UNIT(unknown_ones_are_cut)
{
    world_open();
    struct conn *c = conn_open();
    char line[600], expected[600];
    snprintf(line, sizeof(line), "%0300d %060d %060d %060d\r\n", 7, 1, 2, 3);
    snprintf(expected, sizeof(expected),
             "-ERR unknown command '%0128d', with args beginning with: '%060d' '%060d' '00' \r\n", 0, 1, 2);
    say_slice(c, slice_str(line));
    heard(c, expected);
    conn_close(c);
    world_close();
}
