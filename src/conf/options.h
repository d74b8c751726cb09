/* conf/options.h - the one table of options: struct conf, the parser, the defaults, `--help`,
 * config/tallyd.yaml's test and the manual page come from it.
 *
 *   G(id, path, kind, member, default, least, most, reload, expect, help)   an option of struct conf
 *   C(id, path, kind, member, default, least, most, reload, expect, help)   an option of every counter
 *   U(id, path, kind, member, default, least, most, reload, expect, help)   an option of every user
 *
 * default  as it would stand in the file; NULL: must be given; "": may be left out, help says what then holds
 * least, most  bounds of a number in its unit (ms for MS, s for SECONDS, bytes for SIZE), of each of NUMBERS, of
 *          window and time in s for TIERS, of the length for PATTERN and of each of TEXTS
 * reload   RELOAD: a SIGHUP takes the new value over; RESTART: it needs a restart
 * expect   completes "expected ..." in an error; for a WORD the allowed words, '|' between them, their order
 * being the enum's. A new option is one line here, and the line in config/tallyd.yaml that the test asks for.
 */
#ifndef CONF_OPTIONS_H
#define CONF_OPTIONS_H

#define CONF_DAY_MS (INT64_C(24) * 3600 * 1000)

/* clang-format off */
#define CONF_OPTIONS(G, C, U)                                                                                \
    G(LISTEN_RESP, "listen.resp", ADDRESSES, listen_resp, "tcp://127.0.0.1:7370", 0, 0, RESTART,             \
      "a list of addresses such as \"tcp://127.0.0.1:7370\", \"tls://0.0.0.0:7380\" or "                     \
      "\"unix:///run/tallyd/tallyd.sock\"",                                                                  \
      "where clients connect, with any Redis client; one address or a list of them. "                        \
      "A unix socket may have a mode and a group: ...sock?mode=0660&group=www-data")                         \
    G(LISTEN_HTTP, "listen.http", ADDRESSES, listen_http, "", 0, 0, RESTART,                                 \
      "a list of addresses such as \"tcp://127.0.0.1:7371\", \"tls://0.0.0.0:7381\" or "                       \
      "\"unix:///run/tallyd/http.sock\"",                                                                    \
      "where browsers and Prometheus connect: panel, metrics, health and a JSON API; by default nowhere")    \
    G(LISTEN_CONTROL, "listen.control", ADDRESSES, listen_control, "", 0, 0, RESTART,                        \
      "the address of a unix socket such as \"unix:///run/tallyd/control.sock\"",                            \
      "where `tallyd status` and `recover` connect when there are users, or only tls:// addresses: a unix socket that only " \
      "tallyd's own user and root may open, and who does may everything; by default nowhere")                \
    G(LISTEN_TLS_CERT, "listen.tls.cert", PATH, listen_tls_cert, "", 0, 0, RESTART,                          \
      "the path of a file",                                                                                  \
      "the certificate of tls:// addresses and those up to its authority, PEM; a SIGHUP reads all three anew") \
    G(LISTEN_TLS_KEY, "listen.tls.key", PATH, listen_tls_key, "", 0, 0, RESTART,                             \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(LISTEN_TLS_CA, "listen.tls.ca", PATH, listen_tls_ca, "", 0, 0, RESTART,                                \
      "the path of a file",                                                                                  \
      "authorities, PEM: clients must show a certificate of one of them; by default they need none")         \
    G(HTTP_TOKENS, "http.tokens", PATH, http_tokens_file, "", 0, 0, RELOAD,                                  \
      "the path of a file that only its owner may read",                                                     \
      "who may ask over HTTP from elsewhere than this machine: a line for each, "                            \
      "`name token`, or `name token store` for one who sees nothing but that store")                         \
    G(HTTP_LOCAL, "http.local", WORD, http_local, "open", 0, 0, RESTART, "open|token",                        \
      "token: clients on this machine need a token too, as behind a proxy that adds no header")              \
    G(REDIS_URL, "redis.url", URL, redis_url, "redis://127.0.0.1:6379/0", 0, 0, RESTART,                       \
      "redis://[user:password@]host:port[,host:port...]/db, rediss:// for TLS, or unix:///path?db=0",                       \
      "the Redis (7.0 or newer) that holds the counts, the primary of several hosts; "                         \
      "`redis: URL` is short for it")                        \
    G(REDIS_PASSWORD_FILE, "redis.password_file", PATH, redis_password_file, "", 0, 0, RESTART,              \
      "the path of a file that only its owner may read",                                                     \
      "Redis' password is the text of this file; TALLYD_REDIS_PASSWORD in the environment goes before it")   \
    G(REDIS_REPLICAS, "redis.replicas", NUMBER, redis_replicas, "0", 0, 100, RESTART,                        \
      "an integer from 0 to 100",                                                                            \
      "how many replicas must have a claim before it is merged")                                             \
    G(REDIS_KEEPS, "redis.keeps", WORD, redis_keeps, "disk", 0, 0, RESTART, "disk|replicas|nothing",         \
      "what holds a claim before it is merged: Redis' AOF and redis.replicas, these replicas alone, or "     \
      "nothing, which counts twice or loses whatever Redis brings back or loses")                            \
    G(REDIS_TIMEOUT, "redis.timeout", MS, redis_timeout_ms, "5s", 100, 60000, RESTART,                       \
      "a duration from 100ms to 60s",                                                                        \
      "a Redis that answers nothing for so long is taken as lost")                                           \
    G(REDIS_TLS_CA, "redis.tls.ca", PATH, redis_tls_ca, "", 0, 0, RESTART,                                   \
      "the path of a file",                                                                                  \
      "authorities of Redis' certificate, PEM; by default those of the system")                              \
    G(REDIS_TLS_CERT, "redis.tls.cert", PATH, redis_tls_cert, "", 0, 0, RESTART,                             \
      "the path of a file",                                                                                  \
      "the certificate that tallyd shows Redis, PEM; with redis.tls.key")                                    \
    G(REDIS_TLS_KEY, "redis.tls.key", PATH, redis_tls_key, "", 0, 0, RESTART,                                \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(REDIS_TLS_VERIFY, "redis.tls.verify", WORD, redis_tls_verify, "on", 0, 0, RESTART,                     \
      "on|off",                                                                                              \
      "off takes any certificate, so whoever is between may read and change everything")                     \
    G(REDIS_SENTINELS, "redis.sentinels", TEXTS, redis_sentinels, "", 1, 300, RESTART,                       \
      "a list of host:port such as [ \"s1:26379\", \"s2:26379\", \"s3:26379\" ]",                             \
      "sentinels that say where Redis is; the host of redis.url is then the name they have for it")          \
    G(REDIS_SENTINEL_USER, "redis.sentinel.user", PATTERN, redis_sentinel_user, "", 1, 512, RESTART,            \
      "a name of 1 to 512 bytes",                                                                            \
      "the sentinels' user for tallyd; by default their password alone is sent")                             \
    G(REDIS_SENTINEL_PASSWORD_FILE, "redis.sentinel.password_file", PATH, redis_sentinel_password_file, "", 0, 0, \
      RESTART,                                                                                               \
      "the path of a file that only its owner may read",                                                     \
      "the sentinels' password is the text of this file; TALLYD_SENTINEL_PASSWORD in the environment goes "  \
      "before it")                                                                                           \
    G(REDIS_SENTINEL_TLS_USE, "redis.sentinel.tls.use", WORD, redis_sentinel_tls_use, "off", 0, 0, RESTART,  \
      "off|on",                                                                                              \
      "on: TLS with the sentinels, or no connection")                                                        \
    G(REDIS_SENTINEL_TLS_CA, "redis.sentinel.tls.ca", PATH, redis_sentinel_tls_ca, "", 0, 0, RESTART,        \
      "the path of a file",                                                                                  \
      "authorities of the sentinels' certificates, PEM; by default those of the system")                     \
    G(REDIS_SENTINEL_TLS_CERT, "redis.sentinel.tls.cert", PATH, redis_sentinel_tls_cert, "", 0, 0, RESTART,  \
      "the path of a file",                                                                                  \
      "the certificate that tallyd shows the sentinels, PEM; with redis.sentinel.tls.key")                   \
    G(REDIS_SENTINEL_TLS_KEY, "redis.sentinel.tls.key", PATH, redis_sentinel_tls_key, "", 0, 0, RESTART,     \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(REDIS_SENTINEL_TLS_VERIFY, "redis.sentinel.tls.verify", WORD, redis_sentinel_tls_verify, "on", 0, 0, RESTART, \
      "on|off",                                                                                              \
      "off takes any certificate, so whoever is between may say where Redis is")                             \
    G(MYSQL_URL, "mysql.url", URL, mysql_url, NULL, 0, 0, RESTART,                                             \
      "mysql://user[:password]@host:port/database or mysql://user@localhost/database?socket=/path",          \
      "the MySQL or MariaDB that the counts end in; of several hosts (host:port,host:port) the first that "   \
      "takes writes; `mysql: URL` is short for it")                                                          \
    G(MYSQL_PASSWORD_FILE, "mysql.password_file", PATH, mysql_password_file, "", 0, 0, RESTART,              \
      "the path of a file that only its owner may read",                                                     \
      "MySQL's password is the text of this file; TALLYD_MYSQL_PASSWORD in the environment goes before it")  \
    G(MYSQL_WRITERS, "mysql.writers", NUMBER, mysql_writers, "2", 1, 16, RESTART,                            \
      "an integer from 1 to 16",                                                                             \
      "threads that merge, each with a connection of its own")                                               \
    G(MYSQL_VOLATILE, "mysql.volatile", WORD, mysql_volatile, "refuse", 0, 0, RESTART, "refuse|accept",      \
      "accept runs with innodb_flush_log_at_trx_commit other than 1: a crash of MySQL may lose merged hits") \
    G(MYSQL_TIMEOUT, "mysql.timeout", MS, mysql_timeout_ms, "10s", 5000, 300000, RESTART,                    \
      "a duration from 5s to 5m",                                                                            \
      "a MySQL that answers nothing for so long is taken as lost; above its lock waits")                     \
    G(MYSQL_KEEP, "mysql.keep", MS, mysql_keep_ms, "0s", 0, 3600000, RESTART,                                \
      "a duration from 0s to 1h",                                                                            \
      "what is merged stays in Redis for so long, and is merged again where a MySQL that takes over lacks "  \
      "it: more than replicas lag; at most a tenth of ledger.keep; 0s: not at all")                          \
    G(MYSQL_TLS_USE, "mysql.tls.use", WORD, mysql_tls_use, "off", 0, 0, RESTART,                             \
      "off|on",                                                                                              \
      "on: TLS with MySQL over TCP, or no connection")                                                       \
    G(MYSQL_TLS_CA, "mysql.tls.ca", PATH, mysql_tls_ca, "", 0, 0, RESTART,                                   \
      "the path of a file",                                                                                  \
      "authorities of MySQL's certificate, PEM; needed where it is verified")                                \
    G(MYSQL_TLS_CERT, "mysql.tls.cert", PATH, mysql_tls_cert, "", 0, 0, RESTART,                             \
      "the path of a file",                                                                                  \
      "the certificate that tallyd shows MySQL, PEM; with mysql.tls.key")                                    \
    G(MYSQL_TLS_KEY, "mysql.tls.key", PATH, mysql_tls_key, "", 0, 0, RESTART,                                \
      "the path of a file that only its owner and its group may read",                                       \
      "the key of that certificate, PEM, without a passphrase")                                              \
    G(MYSQL_TLS_VERIFY, "mysql.tls.verify", WORD, mysql_tls_verify, "on", 0, 0, RESTART,                     \
      "on|off",                                                                                              \
      "off takes any certificate, so whoever is between may read and change everything")                     \
    G(INSTANCE, "instance", INSTANCE, instance, "", 0, 0, RESTART,                                           \
      "1 to 64 letters, digits, '.', '_' or '-'",                                                            \
      "this daemon's name, its own on this Redis, the same after a restart; by default the host's name")     \
    G(LEDGER_KEEP, "ledger.keep", MS, ledger_keep_ms, "7d", 3600000, 365 * CONF_DAY_MS, RESTART,             \
      "a duration from 1h to 365d",                                                                          \
      "how long MySQL remembers merged chunks; longer than any copy of Redis that may come back is old")     \
    G(LOG_LEVEL, "log.level", WORD, log_level, "info", 0, 0, RELOAD, "debug|info|warn|error",                \
      "the least level that is logged")                                                                      \
    G(LIMITS_CLIENTS, "limits.clients", NUMBER, limits_clients, "10000", 1, 1000000, RESTART,                \
      "an integer from 1 to 1000000",                                                                        \
      "connections at once; one more is refused")                                                            \
    G(LIMITS_REQUEST, "limits.request", SIZE, limits_request_bytes, "1MiB", 65536, 1073741824, RESTART,      \
      "a size from 64KiB to 1GiB",                                                                           \
      "the longest request; a client that sends a longer one is disconnected")                               \
    G(LIMITS_UNREAD, "limits.unread", SIZE, limits_unread_bytes, "128MiB", 65536, 1073741824, RESTART,       \
      "a size from 64KiB to 1GiB",                                                                           \
      "answers that one client may leave unread; with more it is not read from until it reads")              \
    G(LIMITS_UNREAD_ALL, "limits.unread_all", SIZE, limits_unread_all_bytes, "256MiB", 1048576,           \
      68719476736, RESTART,                                                                                  \
      "a size from 1MiB to 64GiB",                                                                           \
      "the same of all clients together; each may have as much as is left of it")                            \
    G(LIMITS_STALLED, "limits.stalled", MS, limits_stalled_ms, "60s", 1000, CONF_DAY_MS, RESTART,            \
      "a duration from 1s to 1d",                                                                            \
      "a client that leaves answers unread, reads none of them and sends nothing for so long is "            \
      "disconnected")                                                                                        \
    G(LIMITS_STRANGERS, "limits.strangers", MS, limits_strangers_ms, "10s", 1000, CONF_DAY_MS, RESTART,      \
      "a duration from 1s to 1d",                                                                            \
      "with users, a client that has not said by then who it is is disconnected")                            \
    G(LIMITS_STRANGERS_RATE, "limits.strangers_rate", NUMBER, limits_strangers_rate, "20000", 100, 100000000, \
      RELOAD,                                                                                                \
      "an integer from 100 to 100000000",                                                                    \
      "with users, requests a second of all who have not said yet who they are, together; what is over "     \
      "that waits")                                                                                          \
    G(LIMITS_PROOFS, "limits.proofs", NUMBER, limits_proofs, "1024", 1, 65536, RESTART,                      \
      "an integer from 1 to 65536",                                                                          \
      "different passwords that wait to be proved, some 1.2 KiB each; one more is refused")                  \
    G(LIMITS_GUESSES, "limits.guesses", NUMBER, limits_guesses, "10", 1, 1000000, RESTART,                   \
      "an integer from 1 to 1000000",                                                                        \
      "wrong passwords of one user that an address may say at once, before it has to wait")                  \
    G(LIMITS_GUESSES_EVERY, "limits.guesses_every", MS, limits_guesses_every_ms, "2s", 1, 3600000, RESTART,  \
      "a duration from 1ms to 1h",                                                                           \
      "after those, one in so long")                                                                         \
    G(LIMITS_ADDRESS_GUESSES, "limits.address_guesses", NUMBER, limits_address_guesses, "50", 1, 1000000,    \
      RESTART,                                                                                               \
      "an integer from 1 to 1000000",                                                                        \
      "wrong passwords of all users together that an address may say at once, likewise")                     \
    G(LIMITS_ADDRESS_GUESSES_EVERY, "limits.address_guesses_every", MS, limits_address_guesses_every_ms,     \
      "200ms", 1, 3600000, RESTART,                                                                          \
      "a duration from 1ms to 1h",                                                                           \
      "after those, one in so long")                                                                         \
    G(LIMITS_HANDSHAKES, "limits.handshakes", NUMBER, limits_handshakes, "25", 1, 100, RESTART,              \
      "an integer from 1 to 100",                                                                            \
      "percent of the time of the thread that counts that TLS handshakes of listen.resp may take; more "     \
      "of them wait for their turn, and connections that stand do not wait for them")                        \
    G(LIMITS_HANDSHAKE_WITHIN, "limits.handshake_within", MS, limits_handshake_within_ms, "10s", 1000, 3600000, \
      RESTART,                                                                                               \
      "a duration from 1s to 1h",                                                                            \
      "a client at a tls:// address whose handshake takes longer is disconnected")                           \
    G(LIMITS_BACKLOG, "limits.backlog", NUMBER, limits_backlog, "511", 1, 65535, RESTART,                    \
      "an integer from 1 to 65535",                                                                          \
      "connections that the kernel keeps until tallyd accepts them; at most net.core.somaxconn")             \
    G(LIMITS_KEEPALIVE, "limits.keepalive", SECONDS, limits_keepalive_s, "300s", 0, 86400, RESTART,          \
      "a duration in whole seconds from 0s to 1d",                                                           \
      "a TCP client that is silent for so long is asked whether it is still there; 0s: never")               \
    G(LIMITS_ARGUMENTS, "limits.arguments", NUMBER, limits_arguments, "1024", 16, 1048576, RESTART,          \
      "an integer from 16 to 1048576",                                                                       \
      "words of one request")                                                                                \
    G(LIMITS_MULTI, "limits.multi", NUMBER, limits_multi, "10000", 1, 1000000, RESTART,                      \
      "an integer from 1 to 1000000",                                                                        \
      "commands in one MULTI")                                                                               \
    G(LIMITS_MULTI_BYTES, "limits.multi_bytes", SIZE, limits_multi_bytes, "1MiB", 65536, 1073741824, RESTART, \
      "a size from 64KiB to 1GiB",                                                                           \
      "the requests in one MULTI together")                                                                  \
    G(LIMITS_BUSY, "limits.busy", MS, limits_busy_ms, "5s", 1000, 600000, RESTART,                           \
      "a duration from 1s to 10m",                                                                           \
      "a client for which there is no room for so long is answered -BUSY; one whose hits were under "        \
      "way when the link to Redis broke waits so long for the truth, and a CTR.TOTAL for a moment "          \
      "between merges")                                                                                      \
    G(LIMITS_FRAME, "limits.frame", NUMBER, limits_frame, "1000", 100, 10000, RESTART,                       \
      "an integer from 100 to 10000",                                                                        \
      "different fields in one transaction of Redis, which takes about 1 ms for a thousand; also of a MULTI") \
    G(LIMITS_FRAME_BYTES, "limits.frame_bytes", SIZE, limits_frame_bytes, "4MiB", 65536, 16777216, RESTART,  \
      "a size from 64KiB to 16MiB",                                                                          \
      "keys, fields and texts in one such transaction, with the answers that stand between those of hits")   \
    G(LIMITS_SHARE, "limits.share", NUMBER, limits_share, "500", 32, 1000000, RELOAD,                        \
      "an integer from 32 to 1000000",                                                                       \
      "with users, requests in one such transaction that they have together while several are active, "      \
      "an equal share each, but at least 32")                                                                \
    G(LIMITS_ANSWERS, "limits.answers", NUMBER, limits_answers, "65536", 1000, 1000000, RESTART,             \
      "an integer from 1000 to 1000000",                                                                     \
      "answers that wait for one such transaction; what comes beyond them is read after it")                 \
    G(LIMITS_REPLAY, "limits.replay", SIZE, limits_replay_bytes, "64MiB", 0, 4294967296, RESTART,            \
      "a size from 0B to 4GiB",                                                                              \
      "answered hits that are kept until redis.keeps holds them, to be sent again to a Redis that lost "     \
      "them; the oldest go first, and 0 keeps none")                                                         \
    G(LIMITS_HASHES, "limits.hashes", NUMBER, limits_hashes, "1000000", 1000, 100000000, RESTART,            \
      "an integer from 1000 to 100000000",                                                                   \
      "hashes whose state is kept in memory, some 130 bytes each; one that is not costs Redis more")         \
    G(LIMITS_NAMES, "limits.names", NUMBER, limits_names, "262144", 1024, 16777216, RESTART,                 \
      "an integer from 1024 to 16777216",                                                                    \
      "time series, timeboxes' buckets and event logs, of each kind, whose state is kept in memory, "        \
      "24 to 40 bytes each; one that is not costs Redis more")                                               \
    G(LIMITS_READ, "limits.read", NUMBER, limits_read, "100000", 10000, 1000000, RESTART,                    \
      "an integer from 10000 to 1000000",                                                                    \
      "events in one answer of EVENT.RANGE, windows in one of EVENT.COUNT")                                  \
    G(LIMITS_READ_BYTES, "limits.read_bytes", SIZE, limits_read_bytes, "16MiB", 1048576, 1073741824, RESTART, \
      "a size from 1MiB to 1GiB",                                                                            \
      "names or ids in one answer of EVENT.RANGE or SERIES.LIST; limits.unread is for the whole answer")     \
    G(LIMITS_DAYS, "limits.days", NUMBER, limits_days, "366", 366, 3660, RESTART,                            \
      "an integer from 366 to 3660",                                                                         \
      "days that one UNIQ.COUNT unites")                                                                     \
    G(LIMITS_HTTP, "limits.http", NUMBER, limits_http, "1024", 16, 100000, RESTART,                          \
      "an integer from 16 to 100000",                                                                        \
      "connections at once at each address of listen.http")                                                  \
    G(LIMITS_HTTP_SILENT, "limits.http_silent", SECONDS, limits_http_silent_s, "10s", 1, 3600, RESTART,      \
      "a duration in whole seconds from 1s to 1h",                                                           \
      "a connection there on which nothing moves for so long is closed")                                     \
    G(LIMITS_HTTP_HEAD, "limits.http_head", SIZE, limits_http_head_bytes, "16KiB", 8192, 1048576, RESTART,   \
      "a size from 8KiB to 1MiB",                                                                            \
      "memory of each such connection: request line and headers, which must fit, and pieces of the answer")  \
    G(LIMITS_HTTP_BODY, "limits.http_body", SIZE, limits_http_body_bytes, "64KiB", 0, 1073741824, RESTART,   \
      "a size from 0B to 1GiB",                                                                              \
      "body of a request, which is read and not used; a connection that sends more is closed")               \
    G(LIMITS_STREAMS, "limits.streams", NUMBER, limits_streams, "256", 1, 100000, RESTART,                   \
      "an integer from 1 to 100000",                                                                         \
      "panels that follow what moves at once; one more is refused")                                          \
    G(LIMITS_STREAMS_UNREAD, "limits.streams_unread", SIZE, limits_streams_unread_bytes, "32KiB", 4096,      \
      16777216, RESTART,                                                                                     \
      "a size from 4KiB to 16MiB",                                                                           \
      "what one of them may leave unread; it is told nothing more until it reads")                           \
    G(RUN_AS, "run_as", INSTANCE, run_as, "", 0, 0, RESTART,                                                 \
      "the name of a user of this machine",                                                                  \
      "whom tallyd becomes, for good, when root starts it, once it has its sockets and secrets; a "          \
      "reload then reads files as that user")                                                                \
    G(CORE_DUMPS, "core_dumps", WORD, core_dumps, "off", 0, 0, RESTART, "off|on",                            \
      "off: no core is written, and nobody but root may look into the process: passwords are in it")         \
    G(STOP_WITHIN, "stop_within", MS, stop_within_ms, "10s", 1000, 600000, RELOAD,                           \
      "a duration from 1s to 10m",                                                                           \
      "after SIGTERM, batches not merged by then are left standing for the next start")                      \
    G(SERIES_PRECISIONS, "series.precisions", NUMBERS, series_precisions,                                    \
      "1, 5, 60, 300, 3600, 18000, 86400", 1, 31536000, RESTART,                                             \
      "a list of 1 to 16 different integers from 1 to 31536000, such as [1, 60, 3600]",                      \
      "the widths in seconds in which every time series is counted, at once")                                \
    G(SERIES_SAMPLES, "series.samples", NUMBER, series_samples, "120", 1, 100000, RESTART,                   \
      "an integer from 1 to 100000",                                                                         \
      "how many of the newest samples of each precision are kept")                                           \
    G(BOXES_WIDTH, "boxes.width", SECONDS, boxes_width_s, "60s", 1, 31536000, RESTART,                       \
      "a duration in whole seconds from 1s to 365d",                                                         \
      "the time that one bucket of a timebox holds")                                                         \
    G(BOXES_KEEP, "boxes.keep", NUMBER, boxes_keep, "60", 1, 100000, RESTART,                                \
      "an integer from 1 to 100000",                                                                         \
      "how many buckets of a timebox are kept, the newest that had hits")                                    \
    G(EVENTS_KEEP, "events.keep", SECONDS, events_keep_s, "30d", 60, 315360000, RESTART,                     \
      "a duration in whole seconds from 1m to 3650d",                                                        \
      "how long events are kept")                                                                            \
    G(EVENTS_WINDOWS, "events.windows", TIERS, events_windows, "5s 30d, 1h 365d", 1, 315360000, RESTART,     \
      "tiers such as \"5s 30d, 1h 365d\": a window and a time, neither over 3650d, both growing",            \
      "how long counts of closed windows are kept: those of 5s or smaller for 30d, "                         \
      "of 1h or smaller for 365d, bigger ones as the last tier says")                                        \
    G(UNIQUES_LIMIT, "uniques.limit", NUMBER, uniques_limit, "16777216", 0, 4294967295, RESTART,             \
      "an integer from 0 to 4294967295",                                                                     \
      "visitors with an integer id below it are counted exactly, a bit each; others are estimated")          \
    G(UNIQUES_NAME, "uniques.name", PATTERN, uniques_name, "", 1, 480, RESTART,                              \
      "a name such as \"s<store>:visitors\"",                                                                \
      "the uniques whose new visitors count in the counter of uniques.feeds.counter")                        \
    G(UNIQUES_COUNTER, "uniques.feeds.counter", IDENTIFIER, uniques_counter, "", 0, 0, RESTART,              \
      "the name of a counter whose field is date",                                                           \
      "the counter that a visitor who is new that day moves by one, in the field of the day")                \
    G(CLOCK_AHEAD, "clock.ahead", SECONDS, clock_ahead_s, "60s", 0, 86400, RESTART,                          \
      "a duration in whole seconds from 0s to 1d",                                                           \
      "how far ahead of Redis' clock a time given with AT may be; one further ahead is refused")             \
    G(TOKENS_KEEP, "tokens.keep", SECONDS, tokens_keep_s, "24h", 60, 2592000, RESTART,                       \
      "a duration in whole seconds from 1m to 30d",                                                          \
      "how long the token of a CTR.INCRBY ... TOKEN is remembered in Redis")                                 \
    G(TOKENS_MOST, "tokens.most", NUMBER, tokens_most, "1000000", 0, 1000000000, RESTART,                    \
      "an integer from 0 to 1000000000",                                                                     \
      "how many tokens may stand in Redis; a new one over that is refused, and not counted")                 \
    C(COUNTER_KEY, "counters.*.key", PATTERN, key, NULL, 1, 512, RESTART,                                    \
      "a key such as \"s<store>:unique_visitors:daily\"",                                                    \
      "the Redis hash of a store's counts; <store> stands for the store")                                    \
    C(COUNTER_LOCK, "counters.*.lock", PATTERN, lock, "", 1, 512, RESTART,                                   \
      "a key such as \"s<store>:unique_visitors:sync\"",                                                     \
      "the key that grants a sync of this hash; by default the key, then \":sync\"")                         \
    C(COUNTER_FIELD, "counters.*.field", WORD, field, NULL, 0, 0, RESTART, "date|hour|integer|text",         \
      "what is counted by: date (YYYYMMDD), hour (YYYYMMDDHH), integer or text")                             \
    C(COUNTER_STORE, "counters.*.store", WORD, store, "integer", 0, 0, RESTART, "integer|text",              \
      "what <store> may be: an integer, or a text without ':', '{' and '}'")                                 \
    C(COUNTER_HITS, "counters.*.sync.hits", NUMBER, hits, "50", 1, 1000000000, RESTART,                      \
      "an integer from 1 to 1000000000",                                                                     \
      "a hash is merged when one of its fields reaches so many hits, or")                                    \
    C(COUNTER_EVERY, "counters.*.sync.every", SECONDS, every_s, "60s", 1, 86400, RESTART,                    \
      "a duration in whole seconds from 1s to 1d",                                                           \
      "when so long has passed; also the life of the lock")                                                  \
    C(COUNTER_TABLE, "counters.*.table", IDENTIFIER, table, NULL, 0, 0, RESTART,                             \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "the merchant's table, in the database of mysql.url")                                                  \
    C(COUNTER_COLUMN_STORE, "counters.*.columns.store", IDENTIFIER, column_store, "", 0, 0, RESTART,         \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "its column of the store; needed when the key has <store>, else to be left out")                       \
    C(COUNTER_COLUMN_FIELD, "counters.*.columns.field", IDENTIFIER, column_field, NULL, 0, 0, RESTART,       \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "its column of the field")                                                                             \
    C(COUNTER_COLUMN_COUNT, "counters.*.columns.count", IDENTIFIER, column_count, NULL, 0, 0, RESTART,       \
      "a MySQL name of 1 to 64 letters, digits, '_' or '$'",                                                 \
      "its column of the count, a signed BIGINT")                                                            \
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
      "the hash of the user's password, yescrypt or scrypt as crypt(5) has them; never the password")        \
    U(USER_KEYS, "users.*.keys", TEXTS, keys, NULL, 1, 512, RELOAD,                                          \
      "a list of patterns such as [\"s12345:*\"]",                                                           \
      "the keys and names that the user may name, as Redis' ACLs have them: *, ?, [a-z] and \\ before a sign")\
    U(USER_COMMANDS, "users.*.commands", TEXTS, commands, "", 1, 64, RELOAD,                                 \
      "a list of commands and groups such as [read, write, ctr.sync]",                                       \
      "what the user may do: commands, and the groups read, write, admin and all; by default read and write")\
    U(USER_RATE, "users.*.rate", NUMBER, rate, "0", 0, 100000000, RELOAD,                                    \
      "an integer from 0 to 100000000",                                                                      \
      "requests a second, of all its connections together; what is over that waits. 0: as many as come")     \
    U(USER_BURST, "users.*.burst", NUMBER, burst, "0", 0, 100000000, RELOAD,                                 \
      "an integer from 0 to 100000000",                                                                      \
      "requests at once after a pause; 0: a tenth of rate, at least 100")                                    \
    U(USER_MULTI, "users.*.multi", NUMBER, multi, "500", 1, 1000000, RELOAD,                                 \
      "an integer from 1 to 1000000",                                                                        \
      "commands in one MULTI: they go to Redis in one piece, and others may wait for it")                    \
    U(USER_CONNECTIONS, "users.*.connections", NUMBER, connections, "1000", 1, 1000000, RELOAD,              \
      "an integer from 1 to 1000000",                                                                        \
      "connections of this user at once; one more is refused")
/* clang-format on */

#endif
