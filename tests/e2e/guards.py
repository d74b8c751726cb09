#!/usr/bin/env python3
"""Takes each guard against attackers out of a copy of the source, builds tallyd, and sees its attack succeed: a test that
passes with the guard and must fail without it. `ctest -R attack_guards -V` runs it and prints the table.

  guards.py --source DIR --work DIR [NAME...]     all guards, or these
"""
import argparse
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree

# name: (file, a text that is there once, what replaces it, the test: file and -k)
GUARDS = {
    "key pattern": ("src/command/guard.c", "return user_names(s->user, r->args[1]);", "return true;",
                    "test_users.py", "no_store_reads"),
    "key pattern, fast path": ("src/command/guard.c", "return s->door == DOOR_USER && user_names(s->user, key);",
                               "return s->door == DOOR_USER && key.n > 0;", "test_users.py", "no_store_reads"),
    "name:type": ("src/command/guard.c", "return user_names(s->user, buf_slice(key));", "return true;",
                  "test_users.py", "no_store_reads"),
    "MULTI": ("src/command/multi.c", "s->door != DOOR_OPEN && !guard_lets(s, whole, spec, r, out)", "false",
              "test_users.py", "no_store_reads"),
    "CTR.SYNC ALL": ("src/command/guard.c", 'SLICE("all")) ? s->user->all_keys :', 'SLICE("all")) ? true :',
                     "test_users.py", "no_store_reads"),
    "RESET": ("src/command/guard.c", "if (s->door != DOOR_USER) return;\n    guard_leave(s);\n    place_set(s, DOOR_CLOSED);",
              "(void)s;", "test_attacks.py", "identity"),
    "INFO": ("src/command/guard.c", "return s->door == DOOR_OPEN || (s->door == DOOR_USER && (s->user->commands & all) == all);",
             "return all != 0 || s->user != NULL;", "test_users.py", "info_tells"),
    "unauthenticated clients' time": ("src/command/guard.c", "if (now_ms - s->stranger_ms < c->config.stranger_ms) return;",
                                      "if (now_ms > 0) return;", "test_users.py", "strangers_have_little_time"),
    "proxies' headers": ("src/http/who.c", "return true;\n    return false;\n}\n\nbool is_cross_origin",
                         "return false;\n    return false;\n}\n\nbool is_cross_origin", "test_attacks.py", "header_of_a_proxy"),
    "HTTP/1.0": ("src/http/server.c", ".forwarded = strcmp(version, MHD_HTTP_VERSION_1_0) == 0,",
                 ".forwarded = version == NULL,", "test_attacks.py", "nginx_in_front and http0"),
    "http.local": ("src/http/who.c", "q->local_token || q->forwarded", "q->forwarded", "test_attacks.py", "local_token"),
    "Host": ("src/http/who.c", "(q->host != NULL && is_loopback_host(q->host))",
             "(q->host == NULL || is_loopback_host(q->host) || q->host[0] != 0)", "test_attacks.py", "rebound"),
    "Sec-Fetch-Site, Origin": ("src/http/server.c", 'if (is_cross_origin(header(x, "Sec-Fetch-Site"), header(x, "Origin"), q.host))',
                               "if (q.host == NULL)", "test_attacks.py", "another_site"),
    "X-Tallyd": ("src/http/server.c", 'strcmp(x->route->method, "GET") == 0 ||', 'x->route != NULL ||',
                 "test_attacks.py", "plain_form"),
    "a store's token, counters": ("src/http/exchange.c", "if (bound.p == NULL || slice_eq(bound, store)) return true;",
                                  "if (bound.p == NULL || store.p != NULL) return true;",
                                  "test_http_contract.py", "every_path_and_status"),
    "a store's token, names": ("src/http/exchange.c", "name_is_of(x->http->where->counters, kind, name, type, bound)) return true;",
                               "type.n + name.n + (size_t)kind + 1 > 0) return true;", "test_http_contract.py", "every_path_and_status"),
    "a store's token, operator's pages": ("src/http/server.c", "x->route->access == ACCESS_KNOWN || who_store(&x->who).p == NULL",
                                          "true", "test_http_contract.py", "every_path_and_status"),
    "script in texts": ("src/http/assets/dom.js",
                        "node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && "
                        "child !== false));",
                        "for (const child of children.flat(Infinity)) if (child?.nodeType) node.append(child); "
                        'else if (child || child === 0) node.insertAdjacentHTML("beforeend", String(child));',
                        "test_panel.py", "wrong_ranges_and_names"),
    "SQL in texts": ("src/mysql/text.c", """    BUF_LIT(b, "x'");
    char *to = buf_reserve(b, 2 * bytes.n);
    hex_write((const uint8_t *)bytes.p, bytes.n, to);
    b->n += 2 * bytes.n;
""", """    BUF_LIT(b, "'");
    buf_put_slice(b, bytes);
""", "test_attacks.py", "are_not_sql"),
    "browser at the RESP door": ("src/command/session.c", "if (strange != NULL) {", "if (strange != NULL && r->args_n == 0) {",
                                 "test_attacks.py", "resp_door"),
    "clients that linger, bytes": ("src/listen/linger.c", "n < 0 || c->discarded > LINGER_BYTES", "n < 0",
                                   "test_attacks.py", "stays_after_its_error and sends"),
    "clients that linger, time": ("src/listen/linger.c", "c->linger_until_ms <= now_ms", "now_ms == UINT64_MAX",
                                  "test_attacks.py", "stays_after_its_error and waits"),
    "password files' mode": ("src/conf/secret.c", "if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {", "if (st.st_mode == 0) {",
                             "test_attacks.py", "others_may_read"),
    "core dumps": ("src/app/app.c", "prctl(PR_SET_DUMPABLE, 0) != 0", "prctl(PR_SET_DUMPABLE, 1) != 0",
                   "test_users.py", "no_core"),
    "TLS 1.1": ("src/tls/context.c", "SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);",
                'SSL_CTX_set_min_proto_version(ctx, 0);\n    SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0");\n    return;',
                "test_tls.py", "who_is_refused"),
    "client certificates": ("src/tls/context.c", "mode | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;", "mode;",
                            "test_tls.py", "client_certificates"),
    "dev's directory": ("config/dev.sh", "case $mode in *00) ;;", "case $mode in *) ;;", "test_dev.py", "others_may_enter and 493"),
    "answers' share of memory": ("src/command/answers.c", "if (!share_fits(s, SHARE_ANSWERS, bytes)) {", "if (bytes == SIZE_MAX) {",
                                 "test_attacks.py", "answers_that_nobody_reads"),
    "a user's half of a share": ("src/command/shares.c", "if (own > 0) return others < most && own + more <= (most - others) / 2;\n",
                                 "", "test_attacks.py", "answers_that_nobody_reads"),
    "unfinished requests, bytes": ("src/command/halves.c", "while (more && *had > 0 && !share_fits(s, SHARE_HALVES, 0))",
                                   "if (more && bytes == SIZE_MAX)", "test_attacks.py", "requests_that_never_end"),
    "unfinished requests, time": ("src/command/halves.c", "if (now_ms - s->half_ms <= c->config.half_ms + "
                                  "s->share[SHARE_HALVES].bytes / LEAST_RATE) continue;", "if (now_ms > 0) continue;",
                                  "test_attacks.py", "requests_that_never_end"),
    "HTTP heads": ("src/http/https.c", "while (h->n > h->most ||\n           head->since_ms - CONTAINER_OF(h->awaited.next, struct "
                   "awaited, link)->since_ms > HEAD_TIMEOUT_MS)", "if (h->n == 0)", "test_attacks.py", "http_heads"),
    "HTTP connections of one address": ("src/http/server.c", "MHD_OPTION_PER_IP_CONNECTION_LIMIT, most / 4 * 3",
                                        "MHD_OPTION_PER_IP_CONNECTION_LIMIT, most", "test_attacks.py", "connections_of_one_address"),
    "HTTP jobs of one token": ("src/http/pool.c", "under_way >= POOL_OF_ONE",
                               "under_way > POOL_WORKERS", "test_attacks.py", "tops_of_a_stores_token"),
    "turns of CTR.PENDING": ("src/engine/asks.c", "task->turn.who = q->who;\n    task->redis = (struct redis_hash){",
                             "task->turn.who = task;\n    task->redis = (struct redis_hash){", "test_attacks.py", "pending_of_a_big_hash"),
    "rests of CTR.PENDING": ("src/engine/asks.c", "bool rests = asks_rest(c);", "bool rests = c == NULL;",
                             "test_attacks.py", "pending_of_a_big_hash"),
    "rests of long reads": ("src/engine/asks.c", "if (more && asks_rest(c)) {", "if (more && c == NULL) {",
                            "test_attacks.py", "long_reads_rest"),
    "totals in turn": ("src/sync/total.c", "t->turn.who = q->who;", "t->turn.who = q->who == t ? t : NULL;",
                       "test_attacks.py", "totals_of_many_fields"),
    "reads in turn": ("src/engine/asks.c", "task->turn.who = q->who;\n    task->redis =\n", "task->turn.who = task;\n    task->redis =\n",
                      "test_attacks.py", "reads_take_turns"),
    "visitors' days": ("src/command/words.c", "most > 0 && day_number(day) <", "most < 0 && day_number(day) <",
                       "test_attacks.py", "days_long_ago"),
    "visitors' bits": ("src/redis/lua/frame_visitors.lua", "if most > 0 and had + grows > most then", "if most < 0 then",
                       "test_attacks.py", "bits_of_one_user"),
    "windows without events": ("src/redis/lua/query_windows.lua", "if i <= closed and out[i + 1] > 0 and", "if i <= closed and",
                               "test_attacks.py", "windows_without_events"),
    "tokens of one user": ("src/redis/lua/frame_tokens.lua", "if user ~= '' and stand >= free and held(user) >= free then",
                           "if user == free then", "test_attacks.py", "tokens_of_one_user"),
    "books that wrap": ("src/redis/lua/parts/book.lua", "if type(r) ~= 'table' or", "if true or", "test_attacks.py", "books_wrap"),
    "the largest hit": ("src/app/settings.c", "coalesce.hit_max = conf->limits_hit;", "coalesce.hit_max = INT64_MAX;",
                        "test_attacks.py", "largest_hit"),
}

def copied(source, work):
    copy = os.path.join(work, "source")
    shutil.rmtree(copy, ignore_errors=True)
    names = subprocess.run(["git", "-C", source, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
        shutil.copy2(os.path.join(source, name), os.path.join(copy, name))
    return copy

def built(copy, build):
    return subprocess.run(["ninja", "-C", build, "tallyd"], capture_output=True, text=True, check=False)

def outcome(copy, build, test, which):
    """passed, failed, or what else came of it."""
    report = os.path.join(build, "case.xml")
    subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", test,
                    "-k", which], cwd=os.path.join(copy, "tests/e2e"), check=False, capture_output=True,
                   env={**os.environ, "TALLYD": os.path.join(build, "tallyd"), "PYTHONDONTWRITEBYTECODE": "1"})
    suite = xml.etree.ElementTree.parse(report).getroot()[0]
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    if counts["failures"] > 0:
        return "failed"
    return "passed" if counts["tests"] > 0 and counts["errors"] == counts["skipped"] == 0 else str(counts)

def without(copy, build, guard):
    """What the attack comes to without this guard."""
    path, old, new, test, which = guard
    with open(os.path.join(copy, path), encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        return f"the guard stands there {text.count(old)} times"
    with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    try:
        made = built(copy, build)
        return made.stdout[-2000:] if made.returncode != 0 else outcome(copy, build, test, which)
    finally:
        with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
            file.write(text)

def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--source", required=True)
    words.add_argument("--work", required=True)
    words.add_argument("names", nargs="*")
    said = words.parse_args()
    copy, build = copied(said.source, said.work), os.path.join(said.work, "build")
    subprocess.run(["cmake", "-S", copy, "-B", build, "-G", "Ninja"], check=True, stdout=subprocess.DEVNULL)
    seen = {}
    for name in said.names or GUARDS:
        seen[name] = without(copy, build, GUARDS[name])
        print(f"| {name} | {GUARDS[name][0]} | {GUARDS[name][3]}: {GUARDS[name][4]} | {seen[name]} |", flush=True)
    assert built(copy, build).returncode == 0
    for test, which in sorted({GUARDS[name][3:] for name in seen}):
        with_all = outcome(copy, build, test, which)
        print(f"with every guard: {test}: {which}: {with_all}", flush=True)
        seen[test, which] = "failed" if with_all == "passed" else with_all
    return 0 if set(seen.values()) == {"failed"} else 1

if __name__ == "__main__":
    sys.exit(main())
