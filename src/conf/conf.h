/* conf/conf.h - the configuration: a YAML file, read strictly, as one struct. Every option is a line of its table below.
 * An error reads `file:line:column: what is there, expected what`, and never shows a password: nothing of URLs, of paths of
 * password files, or of names that could be misplaced URLs. struct conf owns its texts until conf_free and never changes (a
 * reload reads a new one), so threads may share it. */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include "base/address.h"
#include "base/log.h"
#include "base/slice.h"

/* "did you mean": the known name that a mistyped word is nearest to. */

/* How many letters are inserted, deleted, changed, or swapped with their neighbour. Words over 64 bytes count as unlike
 * all. */
size_t near_distance(struct slice a, struct slice b);

/* The nearest of the n names, when at most a third of the word's letters (at least one) is wrong; else a name of which
 * the word is a whole part, as "busy" is of "busy_timeout"; else NULL. */
const char *near_name(struct slice word, const char *const *names, size_t n);

/* The one table of options: struct conf, the parser, the defaults, `--help`, config/tallyd.full.yaml's
 * test and the manual page come from it.
 *
 *  G(id, path, kind, member, default, least, most, reload, expect, help)   an option of struct conf
 *  C(id, path, kind, member, default, least, most, reload, expect, help)   an option of every counter
 *  U(id, path, kind, member, default, least, most, reload, expect, help)   an option of every user
 *
 * default  as written in the file; NULL: must be given; "": may be left out, and help says what then holds
 * least, most  bounds of a number in its unit (ms for MS, s for SECONDS, bytes for SIZE), of each of NUMBERS, of
 *         window and time in s for TIERS, of the length for PATTERN, of each of TEXTS, and of an IDENTIFIER of letters alone
 * reload   RELOAD: a SIGHUP takes the new value over; RESTART: it needs a restart
 * expect   completes "expected ..." in an error; for a WORD the allowed words, '|' between them, their order
 *         being the enum's; for a LOOKUP what the file calls its three names, "{ table, id, name }"
 * A new option is one line here, and the line in config/tallyd.full.yaml that the test asks for. */

#define CONF_DAY_MS (INT64_C(24) * 3600 * 1000)

/* clang-format off */
/* Options that an operator sees as one thing, written as `redis.tls: { ca: ..., verify: off }`: help, manual and README
 * show one line with its members, which are consecutive in the table below. */
#define CONF_STRUCTURES(S)                                                                                   \
    S("listen.tls",                                                                                          \
      "TLS of the tls:// addresses. cert: the certificate and its intermediates, PEM. key: its key, "        \
      "PEM, without a passphrase. ca: authorities; a client must then show a certificate of one of "         \
      "them. A SIGHUP reads the files again")                                                                \
    S("redis.tls",                                                                                           \
      "how tallyd checks Redis, with a rediss:// URL. ca: authorities, PEM, by default the "                 \
      "system's. cert and key: what tallyd shows Redis. verify: off accepts any certificate, so "            \
      "anyone on the network between can read and change all")                                               \
    S("redis.sentinel.tls",                                                                                  \
      "TLS with the sentinels. use: on. ca, cert, key and verify as in redis.tls")                           \
    S("mysql.tls",                                                                                           \
      "TLS with MySQL over TCP. use: on. ca, cert, key and verify as in redis.tls; verification "            \
      "needs ca")                                                                                            \
    S("boxes",                                                                                               \
      "the timeboxes. width: the time span of a bucket. keep: how many buckets are kept, the newest that "   \
      "had hits")                                                                                            \
    S("tokens",                                                                                              \
      "the tokens of CTR.INCRBY and CTR.HIT ... TOKEN. keep: how long Redis remembers one. max: how many it may " \
      "hold, in each lane, some 200 bytes each; a user has at most as many as are free. tallyd refuses a new one over "    \
      "that, and does not count it")                                                                         \
    S("counters.*.sync",                                                                                     \
      "when tallyd merges a hash. hits: when one of its fields has this many. every: at the latest "         \
      "after this long; also how long the lock lives")                                                       \
    S("counters.*.columns",                                                                                  \
      "the table's columns. store: of the store; a key with <store> needs it, another must not have "        \
      "it. field: of the field, unless that is a pattern; a list of columns keeps a time in parts: "         \
      "[year, month, day, hour]. count: of the count, any integer type. counts: with field: count, the "     \
      "column of each field, { views: view_count }. placeholder: one for each other placeholder, by its "    \
      "name")                                                                            \
    S("counters.*.feeds",                                                                                    \
      "what each hit also moves: a time series, a timebox, and a log of events (name:type)")

#define CONF_OPTIONS(G, C, U)                                                                                \
    G(LISTEN_RESP, "listen.resp", ADDRESSES, listen_resp, "tcp://127.0.0.1:7370", 0, 0, RESTART,             \
      "a list of addresses such as \"tcp://127.0.0.1:7370\", \"tls://0.0.0.0:7380\" or "                     \
      "\"unix:///run/tallyd/tallyd.sock\"",                                                                  \
      "addresses for Redis clients: one or a list. A unix socket may have a mode and a group: "              \
      "unix:///path?mode=0660&group=www-data. An address for proxies that send a PROXY protocol header: "    \
      "tcp://10.0.0.5:7370?proxy=on&from=10.0.0.0/8. One for several tallyds on this machine: "               \
      "tcp://0.0.0.0:7370?reuseport=1. <instance> is what TALLYD_INSTANCE in the environment says") \
    G(LISTEN_HTTP, "listen.http", ADDRESSES, listen_http, "", 0, 0, RESTART,                                 \
      "a list of addresses such as \"tcp://127.0.0.1:7371\", \"tls://0.0.0.0:7381\" or "                     \
      "\"unix:///run/tallyd/http.sock\"",                                                                    \
      "addresses for browsers and Prometheus: panel, /metrics, health and a JSON API. By default "           \
      "there is none")                                                                                       \
    G(LISTEN_CONTROL, "listen.control", ADDRESSES, listen_control, "", 0, 0, RESTART,                        \
      "the address of a unix socket such as \"unix:///run/tallyd/control.sock\"",                            \
      "a unix socket for `tallyd status` and `tallyd recover`. They need it when there are users, "          \
      "or when all addresses are tls://. Only root and tallyd's own user can open it, and it gives "         \
      "full access. By default there is none")                                                               \
    G(LISTEN_TLS_CERT, "listen.tls.cert", PATH, listen_tls_cert, "", 0, 0, RESTART,                          \
      "the path of a file",                                                                                  \
      "the certificate of tls:// addresses, PEM, followed by its intermediates. A SIGHUP reads all "         \
      "three files again")                                                                                   \
    G(LISTEN_TLS_KEY, "listen.tls.key", PATH, listen_tls_key, "", 0, 0, RESTART,                             \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(LISTEN_TLS_CA, "listen.tls.ca", PATH, listen_tls_ca, "", 0, 0, RESTART,                                \
      "the path of a file",                                                                                  \
      "authorities, PEM: a client must show a certificate of one of them. By default clients need "          \
      "none")                                                                                                \
    G(HTTP_TOKENS, "http.tokens", PATH, http_tokens_file, "", 0, 0, RELOAD,                                  \
      "the path of a file that only its owner may read",                                                     \
      "a file with the tokens for HTTP requests from other machines. Each line is `name token`, or "         \
      "`name token store` for a token that sees only that store")                                            \
    G(HTTP_LOCAL, "http.local", WORD, http_local, "open", 0, 0, RESTART,                                     \
      "open|token",                                                                                          \
      "token: requests from this machine need a token too. Set it behind a reverse proxy")                   \
    G(REDIS_URL, "redis.url", URL, redis_url, "redis://127.0.0.1:6379/0", 0, 0, RESTART,                     \
      "redis://[user:password@]host:port[,host:port...]/db, rediss:// for TLS, or unix:///path?db=0",        \
      "the Redis (7.0 or newer) that holds the counts. Of several hosts tallyd uses the primary. "           \
      "redis+cluster:// and rediss+cluster:// name nodes of a Redis Cluster. "                                \
      "`redis: URL` is short for it")                                                                        \
    G(REDIS_LANES, "redis.lanes", NUMBER, redis_lanes, "", 1, 256, RESTART,                                  \
      "an integer from 1 to 256",                                                                            \
      "in how many hash slots of a Redis Cluster tallyd counts; each store is in one. It cannot change "     \
      "once the cluster is used. By default 16; a Redis of its own has one")                                 \
    G(REDIS_PASSWORD_FILE, "redis.password_file", PATH, redis_password_file, "", 0, 0, RESTART,              \
      "the path of a file that only its owner may read",                                                     \
      "a file with Redis' password. TALLYD_REDIS_PASSWORD in the environment overrides it")                  \
    G(REDIS_REPLICAS, "redis.replicas", NUMBER, redis_replicas, "0", 0, 100, RESTART,                        \
      "an integer from 0 to 100",                                                                            \
      "how many replicas must have a batch before tallyd merges it")                                         \
    G(REDIS_DURABILITY, "redis.durability", WORD, redis_durability, "disk", 0, 0, RESTART,                   \
      "disk|replicas|none",                                                                                  \
      "what must hold a batch before tallyd merges it. disk: Redis' AOF and redis.replicas. "                \
      "replicas: redis.replicas alone. none: nothing, so a restart or a failover of Redis may count "        \
      "hits twice or lose them")                                                                             \
    G(REDIS_TIMEOUT, "redis.timeout", MS, redis_timeout_ms, "5s", 100, 60000, RESTART,                       \
      "a duration from 100ms to 60s",                                                                        \
      "tallyd treats a Redis that has not answered for this long as lost")                                   \
    G(REDIS_TLS_CA, "redis.tls.ca", PATH, redis_tls_ca, "", 0, 0, RESTART,                                   \
      "the path of a file",                                                                                  \
      "authorities of Redis' certificate, PEM. By default those of the system")                              \
    G(REDIS_TLS_CERT, "redis.tls.cert", PATH, redis_tls_cert, "", 0, 0, RESTART,                             \
      "the path of a file",                                                                                  \
      "the certificate that tallyd shows Redis, PEM; with redis.tls.key")                                    \
    G(REDIS_TLS_KEY, "redis.tls.key", PATH, redis_tls_key, "", 0, 0, RESTART,                                \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(REDIS_TLS_VERIFY, "redis.tls.verify", WORD, redis_tls_verify, "on", 0, 0, RESTART,                     \
      "on|off",                                                                                              \
      "off: tallyd accepts any certificate, so anyone on the network between can read and change "           \
      "everything")                                                                                          \
    G(REDIS_SENTINELS, "redis.sentinels", TEXTS, redis_sentinels, "", 1, 300, RESTART,                       \
      "a list of host:port such as [ \"s1:26379\", \"s2:26379\", \"s3:26379\" ]",                            \
      "sentinels that name the primary. The host of redis.url is then the name that they have for "          \
      "it")                                                                                                  \
    G(REDIS_SENTINEL_USER, "redis.sentinel.user", PATTERN, redis_sentinel_user, "", 1, 512, RESTART,         \
      "a name of 1 to 512 bytes",                                                                            \
      "tallyd's user at the sentinels. By default tallyd sends the password alone")                          \
    G(REDIS_SENTINEL_PASSWORD_FILE, "redis.sentinel.password_file", PATH, redis_sentinel_password_file,      \
      "", 0, 0, RESTART,                                                                                     \
      "the path of a file that only its owner may read",                                                     \
      "a file with the sentinels' password. TALLYD_SENTINEL_PASSWORD in the environment overrides "          \
      "it")                                                                                                  \
    G(REDIS_SENTINEL_TLS_USE, "redis.sentinel.tls.use", WORD, redis_sentinel_tls_use, "off", 0, 0, RESTART,  \
      "off|on",                                                                                              \
      "on: TLS with the sentinels, or no connection")                                                        \
    G(REDIS_SENTINEL_TLS_CA, "redis.sentinel.tls.ca", PATH, redis_sentinel_tls_ca, "", 0, 0, RESTART,        \
      "the path of a file",                                                                                  \
      "authorities of the sentinels' certificates, PEM. By default those of the system")                     \
    G(REDIS_SENTINEL_TLS_CERT, "redis.sentinel.tls.cert", PATH, redis_sentinel_tls_cert, "", 0, 0, RESTART,  \
      "the path of a file",                                                                                  \
      "the certificate that tallyd shows the sentinels, PEM; with redis.sentinel.tls.key")                   \
    G(REDIS_SENTINEL_TLS_KEY, "redis.sentinel.tls.key", PATH, redis_sentinel_tls_key, "", 0, 0, RESTART,     \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(REDIS_SENTINEL_TLS_VERIFY, "redis.sentinel.tls.verify", WORD, redis_sentinel_tls_verify,               \
      "on", 0, 0, RESTART,                                                                                   \
      "on|off",                                                                                              \
      "off: tallyd accepts any certificate, so anyone on the network between can say where Redis is")        \
    G(MYSQL_URL, "mysql.url", URL, mysql_url, NULL, 0, 0, RESTART,                                           \
      "mysql://user[:password]@host:port/database or mysql://user@localhost/database?socket=/path",          \
      "the MySQL or MariaDB into which tallyd merges. Of several hosts (host:port,host:port) tallyd "        \
      "uses the first that takes writes. `mysql: URL` is short for it")                                      \
    G(MYSQL_PASSWORD_FILE, "mysql.password_file", PATH, mysql_password_file, "", 0, 0, RESTART,              \
      "the path of a file that only its owner may read",                                                     \
      "a file with MySQL's password. TALLYD_MYSQL_PASSWORD in the environment overrides it")                 \
    G(MYSQL_WRITERS, "mysql.writers", NUMBER, mysql_writers, "2", 1, 16, RESTART,                            \
      "an integer from 1 to 16",                                                                             \
      "how many threads merge, each with its own connection")                                                \
    G(MYSQL_DURABILITY, "mysql.durability", WORD, mysql_durability, "strict", 0, 0, RESTART,                 \
      "strict|relaxed",                                                                                      \
      "relaxed: tallyd runs although innodb_flush_log_at_trx_commit is not 1. A crash of MySQL may "         \
      "then lose merged hits")                                                                               \
    G(MYSQL_TIME_ZONE, "mysql.time_zone", PATTERN, mysql_time_zone, "", 1, 64, RESTART,                      \
      "a time zone of MySQL's, such as Europe/Berlin or +02:00",                                             \
      "in which times are written that a counter sets, and that columns set by themselves (ON UPDATE "       \
      "CURRENT_TIMESTAMP). By default the server's")                                                         \
    G(MYSQL_TIMEOUT, "mysql.timeout", MS, mysql_timeout_ms, "10s", 5000, 300000, RESTART,                    \
      "a duration from 5s to 5m",                                                                            \
      "tallyd treats a MySQL that has not answered for this long as lost. Keep it above the time "           \
      "that your apps lock rows")                                                                            \
    G(MYSQL_KEEP, "mysql.keep", MS, mysql_keep_ms, "0s", 0, 3600000, RESTART,                                \
      "a duration from 0s to 1h",                                                                            \
      "how long a merged batch stays in Redis. When a MySQL that takes over lacks it, tallyd merges "        \
      "it again. Give more than your replicas lag, and at most a tenth of ledger.keep")                      \
    G(MYSQL_TLS_USE, "mysql.tls.use", WORD, mysql_tls_use, "off", 0, 0, RESTART,                             \
      "off|on",                                                                                              \
      "on: TLS with MySQL over TCP, or no connection")                                                       \
    G(MYSQL_TLS_CA, "mysql.tls.ca", PATH, mysql_tls_ca, "", 0, 0, RESTART,                                   \
      "the path of a file",                                                                                  \
      "authorities of MySQL's certificate, PEM. Verification needs them")                                    \
    G(MYSQL_TLS_CERT, "mysql.tls.cert", PATH, mysql_tls_cert, "", 0, 0, RESTART,                             \
      "the path of a file",                                                                                  \
      "the certificate that tallyd shows MySQL, PEM; with mysql.tls.key")                                    \
    G(MYSQL_TLS_KEY, "mysql.tls.key", PATH, mysql_tls_key, "", 0, 0, RESTART,                                \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(MYSQL_TLS_VERIFY, "mysql.tls.verify", WORD, mysql_tls_verify, "on", 0, 0, RESTART,                     \
      "on|off",                                                                                              \
      "off: tallyd accepts any certificate, so anyone on the network between can read and change "           \
      "everything")                                                                                          \
    G(INSTANCE, "instance", INSTANCE, instance, "", 0, 0, RESTART,                                           \
      "1 to 64 letters, digits, '.', '_' or '-'",                                                            \
      "this daemon's name, the same after a restart. No other daemon on this Redis may have it. By "         \
      "default the host's name. TALLYD_INSTANCE in the environment overrides it")                                                                             \
    G(LEDGER_KEEP, "ledger.keep", MS, ledger_keep_ms, "7d", 3600000, 365 * CONF_DAY_MS, RESTART,             \
      "a duration from 1h to 365d",                                                                          \
      "how long MySQL remembers merged chunks. Give more than the age of the oldest copy of Redis "          \
      "that you would restore")                                                                              \
    G(LOG_LEVEL, "log.level", WORD, log_level, "info", 0, 0, RELOAD,                                         \
      "debug|info|warn|error",                                                                               \
      "the lowest level that tallyd logs")                                                                   \
    G(LIMITS_CLIENTS, "limits.clients", NUMBER, limits_clients, "10000", 1, 1000000, RESTART,                \
      "an integer from 1 to 1000000",                                                                        \
      "connected clients; tallyd refuses one more. With users, unauthenticated clients have a "              \
      "quarter")                                                                                             \
    G(LIMITS_MEMORY, "limits.memory", SIZE, limits_memory_bytes, "512MiB", 8388608, 17179869184, RESTART,    \
      "a size from 8MiB to 16GiB",                                                                           \
      "the budget for what grows with load. Output buffers of all clients have a half of it, those of one "  \
      "client a quarter, answers to reads a quarter. The cache of hashes has a quarter, answered hits that Redis could still lose an "   \
      "eighth. Requests of which a part has come have a sixteenth, the cache of names three sixty-fourths, totals kept for OR STALE one, "               \
      "one reply of EVENT.RANGE or SERIES.LIST a thirty-second")                                                                                       \
    G(LIMITS_SEND_TIMEOUT, "limits.send_timeout", MS, limits_send_timeout_ms,                                \
      "60s", 1000, CONF_DAY_MS, RESTART,                                                                     \
      "a duration from 1s to 1d",                                                                            \
      "tallyd disconnects a client that leaves replies in its output buffer, reads none of them and "        \
      "sends nothing for this long, and one whose request does not come whole within it, and a second more for " \
      "each 16 KB of the request")                                                                         \
    G(LIMITS_AUTH_TIMEOUT, "limits.auth_timeout", MS, limits_auth_timeout_ms, "10s", 1000, 3600000, RESTART, \
      "a duration from 1s to 1h",                                                                            \
      "tallyd disconnects a client that has not authenticated by then (with users), or has not "             \
      "finished its TLS handshake")                                                                          \
    G(LIMITS_FAILED_LOGINS, "limits.failed_logins", NUMBER, limits_failed_logins, "10", 1, 100000, RESTART,  \
      "an integer from 1 to 100000",                                                                         \
      "failed logins that one address may have with one user; five times as many with all users. "           \
      "After that one in 2 s, and five a second")                                                            \
    G(LIMITS_BUSY_TIMEOUT, "limits.busy_timeout", MS, limits_busy_timeout_ms, "5s", 1000, 600000, RESTART,   \
      "a duration from 1s to 10m",                                                                           \
      "a client that has waited this long for room gets -BUSY. A client whose hits are in doubt "            \
      "after a cut waits this long too, and so does a CTR.TOTAL between merges")                             \
    G(LIMITS_HIT, "limits.hit", NUMBER, limits_hit, "1000000000000", 1, 9007199254740992, RESTART,           \
      "an integer from 1 to 9007199254740992",                                                               \
      "the largest increment of one hit, either way. tallyd refuses a larger one")                           \
    G(STOP_TIMEOUT, "stop_timeout", MS, stop_timeout_ms, "10s", 1000, 600000, RELOAD,                        \
      "a duration from 1s to 10m",                                                                           \
      "how long tallyd goes on merging after SIGTERM. The next start merges the rest")                       \
    G(SERIES_PRECISIONS, "series.precisions", NUMBERS, series_precisions,                                    \
      "1, 5, 60, 300, 3600, 18000, 86400", 1, 31536000, RESTART,                                             \
      "a list of 1 to 16 different integers from 1 to 31536000, such as [1, 60, 3600]",                      \
      "the precisions, in seconds, at which every time series is counted")                                   \
    G(SERIES_SAMPLES, "series.samples", NUMBER, series_samples, "120", 1, 100000, RESTART,                   \
      "an integer from 1 to 100000",                                                                         \
      "how many samples of each precision are kept, the newest")                                             \
    G(BOXES_WIDTH, "boxes.width", SECONDS, boxes_width_s, "60s", 1, 31536000, RESTART,                       \
      "a duration in whole seconds from 1s to 365d",                                                         \
      "the time span of one bucket of a timebox")                                                            \
    G(BOXES_KEEP, "boxes.keep", NUMBER, boxes_keep, "60", 1, 100000, RESTART,                                \
      "an integer from 1 to 100000",                                                                         \
      "how many buckets of a timebox are kept: the newest that had hits")                                    \
    G(EVENTS_KEEP, "events.keep", SECONDS, events_keep_s, "30d", 60, 315360000, RESTART,                     \
      "a duration in whole seconds from 1m to 3650d",                                                        \
      "how long events are kept")                                                                            \
    G(EVENTS_WINDOWS, "events.windows", TIERS, events_windows, "5s 30d, 1h 365d", 1, 315360000, RESTART,     \
      "tiers such as \"5s 30d, 1h 365d\": a window and a time, neither over 3650d, both growing",            \
      "how long counts of closed windows are kept. The default keeps windows up to 5s for 30d, and "         \
      "bigger ones for 365d")                                                                                \
    G(UNIQUES_EXACT_BELOW, "uniques.exact_below", NUMBER, uniques_exact_below,                               \
      "16777216", 0, 4294967295, RESTART,                                                                    \
      "an integer from 0 to 4294967295",                                                                     \
      "visitors with an integer id below it are counted exactly, with one bit each. Others are "             \
      "estimated")                                                                                           \
    G(UNIQUES_DAYS, "uniques.days", NUMBER, uniques_days, "366", 0, 36525, RESTART,                          \
      "an integer from 0 to 36525",                                                                          \
      "UNIQ.ADD takes days up to this many days back, since each day of a name may take 2 MiB of Redis. 0: " \
      "any day")                                                                                             \
    G(UNIQUES_GROWTH, "uniques.growth", SIZE, uniques_growth_bytes, "256MiB", 0, 1099511627776, RESTART,     \
      "a size from 0B to 1024GiB",                                                                           \
      "with users: by how much a user's UNIQ.ADDs may make bitmaps grow in a day of UTC, which takes Redis " \
      "up to twice as much memory for ever. tallyd refuses what would pass it. 0B: any")                     \
    G(UNIQUES_NAME, "uniques.name", PATTERN, uniques_name, "", 1, 480, RESTART,                              \
      "a name such as \"s<store>:visitors\"",                                                                \
      "the uniques whose new visitors count in the counter of uniques.feeds.counter")                        \
    G(UNIQUES_COUNTER, "uniques.feeds.counter", IDENTIFIER, uniques_counter, "", 0, 0, RESTART,              \
      "the name of a counter whose field is date",                                                           \
      "the counter in which a visitor who is new on a day counts once")                                      \
    G(ZONE, "zone", PATTERN, zone, "", 1, 64, RESTART,                                                       \
      "the name of a time zone such as \"Europe/Berlin\"",                                                   \
      "where the shops' days begin. CTR.HIT and the panel go by it. Without it CTR.HIT goes by UTC, and the " \
      "panel by the reader's clock. A SIGHUP reads the system's tzdata again")                                                \
    G(STORE_ZONE, "store_zone", LOOKUP, store_zone, "", 0, 0, RESTART,                                       \
      "{ table, store, zone }",                                                                              \
      "a table of MySQL with the time zones of stores, its column of the store and its column of the "       \
      "zone's name. A store that is not in it has the option zone")                                          \
    G(STORE_NAMES, "store_names", LOOKUP, store_names, "", 0, 0, RESTART,                                    \
      "{ table, store, name }",                                                                              \
      "a table of MySQL with names of stores, its column of the store and its column of the name. The "      \
      "panel then shows names")                                                                              \
    G(STORE_WORD, "store_word", IDENTIFIER, store_word, "Store", 1, 32, RESTART,                             \
      "a word of at most 32 letters",                                                                        \
      "what the panel calls a store, such as Seller or Site")                                                \
    G(TOKENS_KEEP, "tokens.keep", SECONDS, tokens_keep_s, "24h", 60, 2592000, RESTART,                       \
      "a duration in whole seconds from 1m to 30d",                                                          \
      "how long Redis remembers the token of a CTR.INCRBY ... TOKEN")                                        \
    G(TOKENS_MAX, "tokens.max", NUMBER, tokens_max, "1000000", 0, 1000000000, RESTART,                       \
      "an integer from 0 to 1000000000",                                                                     \
      "how many tokens Redis may hold, in each lane, some 200 bytes each; a user has at most as many as are free. "        \
      "tallyd refuses a new one over that, and does not count it")                                           \
    C(COUNTER_KEY, "counters.*.key", PATTERN, key, NULL, 1, 512, RESTART,                                    \
      "a key such as \"s<store>:unique_visitors:daily\"",                                                    \
      "the Redis hash that the apps increment; <store> stands for the store. There may be more "             \
      "placeholders, each with a column: \"store:<store>:product:<product>:views\". A prefix that the "                \
      "client puts before every key, such as \"laravel_database_\", is part of it")                         \
    C(COUNTER_LOCK, "counters.*.lock", PATTERN, lock, "", 1, 512, RESTART,                                   \
      "none, or a key such as \"s<store>:unique_visitors:sync\"", \
      "the lock that the merge of a hash takes. By default the key followed by \":sync\". none: Redis " \
      "keeps no such key, where no other program merges these hashes") \
    C(COUNTER_FIELD, "counters.*.field", PATTERN, field, NULL, 1, 255, RESTART,                              \
      "date, hour, month, integer, text, count, none, or a pattern such as \"<product>:<day>\"",             \
      "the kind of field: date (YYYYMMDD), hour (YYYYMMDDHH), month (YYYYMM), integer or text; a time "      \
      "also with another spelling, as kinds has them. Or a pattern, each of whose placeholders has a "       \
      "column of its own. count: the field names one of columns.counts. none: there is no field, and apps "  \
      "send INCR")                                                                                           \
    C(COUNTER_KINDS, "counters.*.kinds", MAP, kinds, "", 0, 0, RESTART,                                      \
      "{ placeholder: kind }",                                                                               \
      "what other placeholders than <store> stand for: integer (the default), text, date, hour or month; "   \
      "a time also with its spelling: date 2024-05-01, hour 2024-05-01 13, month 2024-05, date seconds, "    \
      "date milliseconds")                                                                                   \
    C(COUNTER_STORE, "counters.*.store", WORD, store, "integer", 0, 0, RESTART,                              \
      "integer|text",                                                                                        \
      "the kind of <store>: an integer, or a text without ':', '{' and '}'")                                 \
    C(COUNTER_HITS, "counters.*.sync.hits", NUMBER, hits, "50", 1, 1000000000, RESTART,                      \
      "an integer from 1 to 1000000000",                                                                     \
      "tallyd merges a hash when one of its fields has this many hits")                                      \
    C(COUNTER_EVERY, "counters.*.sync.every", SECONDS, every_s, "60s", 1, 86400, RESTART,                    \
      "a duration in whole seconds from 1s to 1d",                                                           \
      "tallyd merges a hash at the latest after this long; also how long the lock lives")                    \
    C(COUNTER_TABLE, "counters.*.table", IDENTIFIER, table, NULL, 0, 0, RESTART,                             \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "the merchant's table, in the database of mysql.url")                                                  \
    C(COUNTER_COLUMN_STORE, "counters.*.columns.store", IDENTIFIER, column_store, "", 0, 0, RESTART,         \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "its column of the store. A key with <store> needs it, another must not have it")                      \
    C(COUNTER_COLUMN_FIELD, "counters.*.columns.field", IDENTIFIER, column_field, "", 0, 0, RESTART,       \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "its column of the field")                                                                             \
    C(COUNTER_COLUMN_COUNT, "counters.*.columns.count", IDENTIFIER, column_count, "", 0, 0, RESTART,       \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "its column of the count, any integer type")                                                            \
    C(COUNTER_COLUMN_COUNTS, "counters.*.columns.counts", MAP, column_counts, "", 0, 0, RESTART,             \
      "{ field: column }",                                                                                   \
      "with field: count, the column of each field")                                                         \
    C(COUNTER_COLUMN_MORE, "counters.*.columns.*", MAP, columns, "", 0, 0, RESTART,                          \
      "{ placeholder: column }",                                                                             \
      "the column of each other placeholder, by its name")                                                   \
    C(COUNTER_CONSTANTS, "counters.*.constants", MAP, constants, "", 0, 0, RESTART,                          \
      "{ column: value }",                                                                                   \
      "columns of the table's unique key that are the same in all rows of this counter: { type: post, "      \
      "blog_id: 1 }")                                                                                        \
    C(COUNTER_MISSING, "counters.*.missing", WORD, missing, "insert", 0, 0, RESTART,                         \
      "insert|reject|drop",                                                                                  \
      "what a hit on a row that is not there does. insert: it makes the row. reject: no INSERT is ever "     \
      "sent, and the hit goes to tally_rejects. drop: the same, but only the books count it")                \
    C(COUNTER_SET, "counters.*.set", MAP, set, "", 0, 0, RESTART,                                            \
      "now, now at insert, now at update, a number or a text in quotes",                                     \
      "columns that a merge also writes: { updated_at: now, created_at: now at insert, source: \"'web'\" }. " \
      "A time goes into DATETIME, TIMESTAMP and DATE, and as seconds into an integer; a number or text "     \
      "at insert")                                                                                           \
    C(COUNTER_LABELS, "counters.*.labels", LOOKUP, labels, "", 0, 0, RESTART,                                \
      "{ table, id, name }",                                                                                 \
      "a table of MySQL with names for the fields of this counter, its column of the field and its "         \
      "column of the name. The panel then shows names")                                                      \
    C(COUNTER_LABELS_OF, "counters.*.labels_of", IDENTIFIER, labels_of, "", 0, 0, RESTART,                   \
      "the name of a placeholder",                                                                           \
      "the placeholder that the labels are names for. By default the only one that is no time")              \
    C(COUNTER_FEED_SERIES, "counters.*.feeds.series", PATTERN, feed_series, "", 1, 480, RESTART,             \
      "the name of a series, such as \"s<store>:views\"",                                                    \
      "the time series that every hit on this counter also moves")                                           \
    C(COUNTER_FEED_BOX, "counters.*.feeds.box", PATTERN, feed_box, "", 1, 480, RESTART,                      \
      "the name of a timebox, such as \"s<store>:views\"",                                                   \
      "the timebox that every hit on this counter also moves")                                               \
    C(COUNTER_FEED_EVENT, "counters.*.feeds.event", PATTERN, feed_event, "", 1, 480, RESTART,                \
      "a name and a type of events, such as \"s<store>:view\"",                                              \
      "the log that gets an event of this name and type at every hit on this counter")                       \
    U(USER_PASSWORD, "users.*.password", HASH, password, NULL, 0, 0, RELOAD,                                 \
      "a hash that `tallyd hash` made of the password",                                                      \
      "the hash of the user's password, never the password: yescrypt or scrypt, as in crypt(5)")             \
    U(USER_KEYS, "users.*.keys", TEXTS, keys, NULL, 1, 512, RELOAD,                                          \
      "a list of patterns such as [\"s12345:*\"]",                                                           \
      "the keys and names that the user may name, as patterns of Redis' ACLs: *, ?, [a-z], and \\ "          \
      "before a character that stands for itself")                                                           \
    U(USER_COMMANDS, "users.*.commands", TEXTS, commands, "", 1, 64, RELOAD,                                 \
      "a list of commands and groups such as [read, write, ctr.sync]",                                       \
      "the commands that the user may run, and groups of them: read, write, admin and all. By "              \
      "default read and write")                                                                              \
    U(USER_RATE, "users.*.rate", NUMBER, rate, "0", 0, 100000000, RELOAD,                                    \
      "an integer from 0 to 100000000",                                                                      \
      "requests a second, over all its connections. Requests over the rate wait. A tenth of it, at "         \
      "least 100, may come at once. 0: no limit")                                                            \
    U(USER_CONNECTIONS, "users.*.connections", NUMBER, connections, "1000", 1, 1000000, RELOAD,              \
      "an integer from 1 to 1000000",                                                                        \
      "connections of this user; tallyd refuses one more")
/* clang-format on */

enum conf_log { CONF_LOG_DEBUG, CONF_LOG_INFO, CONF_LOG_WARN, CONF_LOG_ERROR }; /* as enum log_level */
enum conf_durability {
    CONF_DURABILITY_DISK,
    CONF_DURABILITY_REPLICAS,
    CONF_DURABILITY_NONE
}; /* as enum redis_keeps */
enum conf_mysql_durability { CONF_STRICT, CONF_RELAXED };
enum conf_switch { CONF_OFF, CONF_ON };
enum conf_local { CONF_LOCAL_OPEN, CONF_LOCAL_TOKEN };
enum conf_verify { CONF_VERIFY_ON, CONF_VERIFY_OFF };
enum conf_missing { CONF_MISSING_INSERT, CONF_MISSING_REJECT, CONF_MISSING_DROP }; /* as enum missing */
enum conf_store { CONF_STORE_INTEGER, CONF_STORE_TEXT };                           /* as enum store_kind */

struct conf_addresses {
    struct address *all;
    size_t n; /* >= 1; 0: not given */
};

#define CONF_INSTANCE_ENVIRONMENT "TALLYD_INSTANCE"
#define CONF_BEARER_LEAST 16
#define CONF_BEARER_MOST 255
struct conf_bearer {
    char *name;   /* its name in the log */
    char *secret; /* CONF_BEARER_LEAST to CONF_BEARER_MOST bytes; never print it */
    char *store;  /* it sees only this one; NULL: all */
};

struct conf_bearers {
    struct conf_bearer *all;
    size_t n;
};

#define CONF_NUMBERS_MAX 16
struct conf_numbers {
    int64_t *all; /* different ones, as given */
    size_t n;     /* 1..CONF_NUMBERS_MAX */
};

#define CONF_TEXTS_MAX 64
struct conf_texts {
    char **all; /* different ones, as given */
    size_t n;   /* 1..CONF_TEXTS_MAX; 0: not given */
};

#define CONF_TIERS_MAX 16
struct conf_tier { /* windows of that size or smaller (down to the previous tier) are kept this long */
    int64_t window_s, keep_s;
};

struct conf_tiers {
    struct conf_tier *all; /* windows grow, keep_s does not shrink */
    size_t n;              /* 1..CONF_TIERS_MAX */
};

/* A table of the merchant's, its column that is searched and the one that is read; the row's `expect` has their names
 * in the file. */
#define CONF_LOOKUP_NAMES 3
struct conf_lookup {
    char *names[CONF_LOOKUP_NAMES]; /* all, or none: not given */
};

/* Names with a value each, in the order of the file; a list's items are parted by ','. */
#define CONF_MAP_MAX 16
struct conf_pair {
    char *name, *value; /* name: 1..64 letters, digits, '_' or '$' */
};
struct conf_map {
    struct conf_pair *all;
    size_t n; /* 0: not given */
};

/* The type of a kind's member. A URL may hold a password: never print it; the room that connects takes it apart. */
#define CONF_TYPE_ADDRESSES struct conf_addresses
#define CONF_TYPE_URL char *
#define CONF_TYPE_PATH char * /* NULL: not given */
#define CONF_TYPE_HASH char * /* of a password: never print it */
#define CONF_TYPE_TEXTS struct conf_texts
#define CONF_TYPE_INSTANCE char *
#define CONF_TYPE_PATTERN char *
#define CONF_TYPE_IDENTIFIER char * /* NULL: not given */
#define CONF_TYPE_LOOKUP struct conf_lookup
#define CONF_TYPE_MAP struct conf_map
#define CONF_TYPE_NUMBER int64_t
#define CONF_TYPE_MS int64_t
#define CONF_TYPE_SECONDS int64_t
#define CONF_TYPE_SIZE int64_t
#define CONF_TYPE_NUMBERS struct conf_numbers
#define CONF_TYPE_TIERS struct conf_tiers
#define CONF_TYPE_WORD int /* index among the words */

#define CONF_MEMBER(id, path, kind, member, ...) CONF_TYPE_##kind member;
#define CONF_NO_MEMBER(id, ...)
#define CONF_ID(id, ...) CONF_##id,

enum conf_option { CONF_OPTIONS(CONF_ID, CONF_ID, CONF_ID) CONF_OPTION_COUNT };

struct conf_place { /* the option's place in the file, from 1; line 0: it is a default */
    uint32_t line, column;
};

struct conf_counter {
    char *name; /* [a-z0-9_]{1,64} */
    CONF_OPTIONS(CONF_NO_MEMBER, CONF_MEMBER, CONF_NO_MEMBER)
    struct conf_place place;                     /* of the name */
    struct conf_place places[CONF_OPTION_COUNT]; /* of its options */
};

struct conf_user {
    char *name; /* [A-Za-z0-9._@-]{1,64} */
    CONF_OPTIONS(CONF_NO_MEMBER, CONF_NO_MEMBER, CONF_MEMBER)
    struct conf_place place;
    struct conf_place places[CONF_OPTION_COUNT];
};

struct conf {
    char *file; /* as it is called in messages */
    CONF_OPTIONS(CONF_MEMBER, CONF_NO_MEMBER, CONF_NO_MEMBER)
    /* From the environment, else the password file; NULL: only the URL may have one. Never print them. */
    char *redis_password, *sentinel_password, *mysql_password;
    struct conf_bearers bearers;   /* of http.tokens */
    struct conf_counter *counters; /* in the order of the file, at least one */
    size_t counters_n;
    struct conf_user *users; /* in the order of the file; none: any client may do everything */
    size_t users_n;
    struct conf_place places[CONF_OPTION_COUNT];
};

/* Reads a file. The groups of `without` ("listen"; NULL ends them, NULL itself: none) are skipped, and none of their
 * options counts as missing: the caller sets them with conf_set. On an error out is empty (conf_free is allowed), the
 * code is ERR_CONFIG, and e has the first problem. */
enum err conf_load(const char *path, const char *const *without, struct conf *out,
                   struct error *e) MUST_CHECK;

/* The same with all problems, a line each, in the order of the file. False: there was one. */
bool conf_load_all(const char *path, const char *const *without, struct conf *out,
                   struct buf *problems) MUST_CHECK;

/* The same from a text; messages call it `file`. */
bool conf_parse(const char *file, struct slice text, const char *const *without, struct conf *out,
                struct buf *problems) MUST_CHECK;

/* Two counters and every default; for `tallyd dev`. Never fails. */
void conf_default(struct conf *out);
void conf_free(struct conf *c);

/* Sets an option of struct conf as if the file had given these n texts: one, several for a list, none to leave it out
 * (if that is allowed). False: one of them is not valid, and c is as before. */
bool conf_set(struct conf *c, enum conf_option option, const char *const *texts, size_t n) MUST_CHECK;

/* The path of a file as it is opened: a relative one begins at the directory of the configuration. Heap. */
char *conf_beside(const struct conf *c, const char *path);

/* `file:line:column` of an option, for errors that are found later (redis_url_parse, counters_validate). counter: its
 * index, CONF_GLOBAL for an option that is no counter's. An option that was not given: the place of the counter's name,
 * or the file alone. Returns out. */
#define CONF_GLOBAL SIZE_MAX
const char *conf_where(const struct conf *c, size_t counter, enum conf_option option, char *out, size_t size);

/* The same of a user's; CONF_OPTION_COUNT: of its name. */
const char *conf_where_user(const struct conf *c, size_t user, enum conf_option option, char *out,
                            size_t size);

bool conf_same_text(const char *a, const char *b); /* NULL is the same as NULL only */

/* The options that differ and need a restart: their names into out, ", " between them. Returns how many. */
size_t conf_needs_restart(const struct conf *now, const struct conf *wanted, struct buf *out);

/* All options with default, bounds and help, by section, as text of at most 100 columns. */
void conf_help(struct buf *out);
/* The help of one option, or of the options of a section; else of those with this last name; else of those whose help has this
 * word. False: none; *nearest is a path that was perhaps meant, or NULL. */
bool conf_help_of(struct slice path, struct buf *out, const char **nearest) MUST_CHECK;

struct conf_text { /* one option, or a structure with its members; texts for the call only */
    const char *path, *standard, *help; /* standard NULL: must be given; "": may be left out */
    struct slice expected;
    bool reload;
};
void conf_describe(void (*option)(void *arg, const struct conf_text *t), void *arg);

/* The configuration as a file that conf_load reads back to the same. It has the URLs as they were given, so it is as
 * secret as the file that was read. */
void conf_write(const struct conf *c, struct buf *out);

/* In double quotation marks, as YAML wants it; text has no control bytes. */
void conf_quoted_put(struct slice text, struct buf *out);

const char *conf_option_path(enum conf_option option); /* "listen.resp", "counters.*.key" */

/* The file of http.tokens: `name token` or `name token store`, a line for each; empty lines and those that begin with #
 * are ignored. Private to the room. */

/* out is empty before, and again on false. e->text then says which line is wrong, in "is a file whose line ...", and
 * shows nothing of it. */
bool bearers_read(struct slice lines, struct conf_bearers *out, struct error *e) MUST_CHECK;
void bearers_free(struct conf_bearers *t); /* wipes them */

#endif
