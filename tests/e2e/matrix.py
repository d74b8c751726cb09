"""The fault matrix: every fault that tallyd must survive, the moment it strikes, and what must come of it. A test proves
rows with `@pytest.mark.fault("<id>", ...)`; each must hold what was acknowledged against MySQL + Redis.

As a program, `matrix.py report DIRECTORY` prints the table of what the tests of one run came to, row by row; it fails when
a row has no test, or a test that failed or did not run. ctest calls it when it is done (CTestCustom.cmake)."""
import json
import os
import subprocess
import sys
import tempfile
from collections import namedtuple

# reason: why the row cannot be done here. None: it has tests
Row = namedtuple("Row", "id fault moment outcome reason", defaults=[None])

ROWS = [Row(*row) for row in (
    ("killed-before-tick", "kill -9 tallyd", "hits taken, frame not sent", "not answered, not counted; never double"),
    ("killed-frame-sent", "kill -9 tallyd", "EXEC sent", "not answered: counted once or not at all"),
    ("killed-frame-applied", "kill -9 tallyd", "EXEC answered, clients not yet", "not answered: counted once"),
    ("killed-before-claim", "kill -9 tallyd", "before RENAMENX", "the pending hash is merged once by the next start"),
    ("killed-after-claim", "kill -9 tallyd", "after RENAMENX, before HSCAN", "the orphan is found and merged once"),
    ("killed-mid-scan", "kill -9 tallyd", "in HSCAN", "scanned again from 0, merged once"),
    ("killed-in-transaction", "kill -9 tallyd", "in the transaction, before COMMIT", "rolled back, merged once"),
    ("killed-in-commit", "kill -9 tallyd", "COMMIT sent, no answer", "the ledger knows; once"),
    ("killed-before-unlink", "kill -9 tallyd", "after COMMIT, before UNLINK", "1062 on each chunk, UNLINK alone"),
    ("killed-between-chunks", "kill -9 tallyd", "between two chunks", "only the missing chunks are merged, cut alike"),
    ("sigterm", "SIGTERM", "any", "frame flushed, run ended or left, exit status 0 in time"),
    ("sigstop-lock", "SIGSTOP tallyd past its lock, SIGCONT", "it holds the lock",
     "another goes on; no double; the other's lock stays"),
    ("sigstop-transaction", "SIGSTOP tallyd past its lock, SIGCONT", "in the transaction",
     "another goes on; no double; the first ends with 1062"),
    ("two-adopters", "two tallyds recover one orphan", "at the same time", "once"),
    ("adopter-discarded", "two tallyds recover one orphan", "one discards while the other scans",
     "a scan that comes short is no batch; once"),
    ("same-instance", "one instance name twice", "start", "the second refuses"),
    ("redis-killed-frame", "kill -9 Redis, AOF", "frames under way", "exact; answered hits are there"),
    ("redis-killed-claim", "kill -9 Redis, AOF", "in front of a claim, and behind it",
     "its registry is looked up, it is never sent again; exact"),
    ("redis-killed-scan", "kill -9 Redis, AOF", "in HSCAN", "scanned again from 0; exact"),
    ("redis-killed-barrier", "kill -9 Redis, AOF", "in the barrier", "scanned again, then merged; exact"),
    ("redis-killed-discard", "kill -9 Redis, AOF", "before and in the discard", "ledger 1062, discarded; exact"),
    ("redis-killed-rdb", "kill -9 Redis, RDB only", "after COMMIT and UNLINK", "prevented, or seen and held; never silent"),
    ("snapshot-batch", "an old snapshot restored", "a batch in it is merged already", "ledger 1062; nothing is added"),
    ("snapshot-swapped", "SWAPDB puts an older copy under tallyd's links", "hits in it are merged already",
     "noticed by the next frame; held as a rollback, counting goes on"),
    ("snapshot-pending", "an old snapshot restored", "hits in it are merged already",
     "gen is behind: held, alarm, until an operator decides"),
    ("pods-new", "one more Redis on one MySQL", "start", "held until the operator says that it is one more; counts meanwhile"),
    ("copy-beside", "a copy of Redis and a tallyd, beside them, on one MySQL", "start",
     "waits while the first one lives, and says so; counts meanwhile; the first goes on"),
    ("pods-rolled-back", "an old snapshot restored", "one of two Redis on one MySQL", "it alone is held; the other goes on"),
    ("pods-lost", "Redis lost everything, or belongs to another MySQL", "start", "held until an operator decides"),
    ("failover-demoted", "the primary is demoted alive", "REPLICAOF, FAILOVER; in step, cut off",
     "all links follow together; merging again within 5 s; totals never fall; others are not cut"),
    ("failover-back", "a demoted primary comes back with other data", "its links live on; a hit, a total, or nothing",
     "found at once, or within 2 s; what is gone is sent again"),
    ("failover-killed", "the primary ends, the replica is promoted", "kill -9, SIGSTOP; the old one comes back",
     "counts again as soon as it is promoted; the old one is not believed"),
    ("failover-name", "the name leads to another primary", "both are primaries", "links are never up on two; all follow"),
    ("failover-lagging", "failover to a lagging replica", "after RENAMENX, before COMMIT",
     "WAIT is not reached: no COMMIT; merged once afterwards"),
    ("split-brain", "two primaries, a tallyd at each", "both have the same hits pending, claim and merge",
     "MySQL takes one side's merges; the other is held and named; nothing doubled, what is lost is named"),
    ("split-commit", "two primaries, a tallyd at each", "in COMMIT; a batch that both have", "once; who does not know it is held"),
    ("redis-stopped-idle", "SIGSTOP Redis 10 s", "idle", "the loop lives, own time limits; goes on by itself"),
    ("redis-stopped-frame", "SIGSTOP Redis 10 s", "in a frame", "clients are answered in time, memory bounded; no double"),
    ("redis-stopped-scan", "SIGSTOP Redis 10 s", "in HSCAN", "own time limit, scanned again; once"),
    ("redis-refuses", "Redis' link breaks", "connect: refused, FIN, RST", "told at once; tried again with a growing pause"),
    ("redis-blackhole", "Redis' link breaks", "connect: SYN into nothing", "own time limit; tried again"),
    ("redis-rst", "Redis' link breaks", "RST in a frame", "the frame in doubt is resolved; exact"),
    ("redis-fin", "Redis' link breaks", "FIN in a frame", "the frame in doubt is resolved; exact"),
    ("redis-oom", "Redis full, noeviction", "much is pending", "merges go on, memory falls, hits are taken again"),
    ("redis-evicts", "an evicting maxmemory-policy", "start", "refused"),
    ("redis-loading", "LOADING", "any", "not executed, told so; nothing dropped"),
    ("redis-busy", "BUSY", "any", "not executed, told so; nothing dropped"),
    ("redis-misconf", "MISCONF", "any", "not executed, told so; nothing dropped"),
    ("redis-masterdown", "MASTERDOWN", "any", "not executed, told so; nothing dropped"),
    ("redis-noreplicas", "NOREPLICAS", "any", "not executed, told so; nothing dropped"),
    ("redis-readonly", "READONLY", "in a frame", "refused, not counted; counts and merges again afterwards"),
    ("replay-promoted", "failover to a lagging replica", "hits answered, not replicated", "sent again; MySQL + Redis = answered"),
    ("replay-other-ways", "failover to a lagging replica", "series, boxes, events answered, not replicated", "sent again; an event keeps its id"),
    ("replay-elected", "Redis killed, Sentinel promotes one behind", "hits answered, not replicated", "sent again; MySQL + Redis = answered"),
    ("replay-power-cut", "power cut of Redis, AOF everysec", "hits answered, not on disk", "sent again; MySQL + Redis = answered"),
    ("sentinel-killed", "kill -9 the primary, Sentinel", "hits under way", "followed at the promotion; exact but for frames named"),
    ("sentinel-old-primary", "the old primary is back as a master", "behind a failover", "nobody goes back to it; exact"),
    ("sentinel-stopped", "SIGSTOP the primary, Sentinel", "hits under way", "left at the promotion, not at the time limit"),
    ("sentinel-planned", "SENTINEL FAILOVER", "hits under way", "hits wait; at most one frame is lost, and named"),
    ("sentinel-partition", "a partition of the primary with some clients", "hits under way",
     "left when another is promoted; what only the old one had is sent again; exact"),
    ("sentinel-lost-discard", "failover to a lagging replica", "discarded, not replicated", "adopted before it is stale; ledger 1062; once"),
    ("sentinel-liar", "a sentinel lies", "any", "nobody follows it, no password goes there; its holds are bounded"),
    ("sentinel-majority-dead", "two of three sentinels dead", "start, planned failover", "the third is enough where servers agree"),
    ("sentinel-again", "failovers in a row", "hits and merges under way", "MySQL + Redis = answered, but for frames named"),
    ("cell-wrongtype", "WRONGTYPE", "one field of a frame", "only that field fails, with Redis' words"),
    ("cell-overflow", "overflow", "one field of a frame", "only that field fails, with Redis' words"),
    ("cell-not-integer", "no integer", "one field of a frame", "only that field fails, with Redis' words"),
    ("cluster-moved", "MOVED", "frame", "refused clearly, that server is left; nothing lost or doubled"),
    ("cluster-ask", "ASK", "frame", "refused clearly, that server is left; nothing lost or doubled"),
    ("cluster-tryagain", "TRYAGAIN", "claim", "the claim waits; nothing lost or doubled"),
    ("lane-old-copy", "an old copy of one node of a cluster", "its hits are merged", "its lanes are held and count; the others merge; only the operator's word merges it again"),
    ("lane-lost-tail", "a power cut of one node of a cluster", "hits under way", "its lanes get again what they lack; the others go on; exact"),
    ("lane-stopped", "SIGSTOP a cluster's master", "hits under way", "its lanes wait until its replica is promoted; the others go on; exact"),
    ("node-left", "a node leaves for another cluster", "hits run", "tallyd sends it nothing, and starts only with nodes of one cluster; exact"),
    ("lane-away-at-start", "kill -9 a cluster's master", "tallyd starts", "tallyd starts, the other lanes go on; its lanes begin when it comes; exact"),
    ("lane-unread-at-start", "SIGSTOP a cluster's master, kill -9 tallyd", "hits under way", "the next tallyd starts; links of the dead one are ended before it counts there; exact"),
    ("lane-slot-moves", "a slot stands on its way", "hits under way", "its lane waits; the others go on; exact"),
    ("redis-unsolicited", "a reply nobody asked for", "any", "that link is dropped, its frame is in doubt; lives"),
    ("redis-garbage", "bytes that are no reply", "any", "that link is dropped, its frame is in doubt; lives"),
    ("redis-deep", "a reply nested too deep", "any", "that link is dropped, its frame is in doubt; lives"),
    ("claim-reply-lost", "the claim's answer is lost", "claim", "its registry is looked up, it is never sent again; once"),
    ("rename-target", "the claim's target exists", "claim", "nothing is overwritten; claimed under another name"),
    ("hscan-duplicates", "HSCAN shows fields twice", "shrink forced", "counted once"),
    ("batch-id-reuse", "a batch id used twice", "forced", "seen (digest in the ledger) and held, not taken as merged"),
    ("batch-deleted", "a claimed hash is deleted", "in HSCAN", "not merged as whole; held, reported"),
    ("batch-evicted", "a claimed hash is evicted", "before HSCAN", "not merged as whole; held, reported"),
    ("mysql-down-at-start", "MySQL down", "start", "hits go on into Redis; merged when it is there"),
    ("mysql-down-long", "MySQL down", "for long", "hits go on, memory flat, no storm of batches; catches up"),
    ("mysql-killed-before-commit", "kill -9 MySQL", "before COMMIT", "exact"),
    ("mysql-killed-in-commit", "kill -9 MySQL", "COMMIT sent, no answer", "exact, by the ledger"),
    ("mysql-killed-after-commit", "kill -9 MySQL", "after COMMIT", "exact"),
    ("mysql-stopped-insert", "SIGSTOP MySQL", "INSERT", "own time limit; waits for the old lock, or 1062; once"),
    ("mysql-stopped-commit", "SIGSTOP MySQL", "COMMIT", "own time limit; by the ledger; once"),
    ("mysql-session-killed", "the session is killed", "between two statements",
     "the whole transaction again, ledger first; nothing autocommitted"),
    ("mysql-wait-timeout", "wait_timeout", "between two transactions", "a new session; once"),
    ("mysql-commit-rst", "RST by the proxy", "COMMIT's answer", "by the ledger; once"),
    ("mysql-1205", "1205 lock wait timeout", "a row's statement", "the chunk without the hash whose rows are locked; the ledger row names it"),
    ("mysql-1213", "1213 deadlock", "any statement", "ROLLBACK, whole transaction again"),
    ("mysql-1020", "1020 record has changed", "any statement", "ROLLBACK, whole transaction again"),
    ("row-1264", "1264 out of range", "one row of a batch", "kept in tally_rejects with its value; the rest is merged"),
    ("row-1690", "1690 overflow", "one row of a batch", "kept in tally_rejects with its value; the rest is merged"),
    ("row-1406", "1406 too long", "one row of a batch", "kept in tally_rejects with its value; the rest is merged"),
    ("row-1366", "1366 wrong bytes", "one row of a batch", "kept in tally_rejects with its value; the rest is merged"),
    ("mysql-packet", "max_allowed_packet lowered", "running", "statements are cut smaller; no endless 2006"),
    ("mysql-demoted", "MySQL demoted alive, another promoted", "merges under way", "all writers follow; rows there within 3 s"),
    ("mysql-name-moves", "the name of MySQL moves", "the old one lives, read-only", "all writers follow; rows there within 3 s"),
    ("mysql-demoted-idle", "MySQL demoted alive, another promoted", "idle", "seen by the look at an idle session; follows"),
    ("mysql-killed-promoted", "kill -9, SIGSTOP MySQL, a replica promoted", "any", "follows; exact, as the replica had all"),
    ("mysql-killed-semisync", "kill -9 MySQL, a replica promoted", "COMMITs under way", "exact, by the ledger of the new one"),
    ("mysql-moved-in-commit", "kill -9 MySQL, a replica promoted", "COMMIT done, no answer", "by the ledger of the new one; once"),
    ("mysql-back-and-forth", "MySQL moves, the old one comes back", "two take writes", "stays with the new one; exact"),
    ("both-at-once", "Redis and MySQL fail over together", "hits and merges under way; both planned, Redis killed, both killed",
     "follows both; all is merged; MySQL + Redis = answered, but for frames named"),
    ("mysql-galera-leaves", "a Galera node leaves its cluster", "merges under way", "waits, holds nothing; merges when it is back"),
    ("mysql-read-only", "MySQL read_only", "any", "waits, keeps all; merges when it is over"),
    ("mysql-failover", "MySQL fails over to a copy that lags", "any", "the lost tail is reported, or merged again"),
    ("mysql-lags-kept", "a copy is promoted that lags less than mysql.keep", "any", "the lost tail is merged again, nothing is lost"),
    ("mysql-name-lags", "the name of MySQL moves to a copy that lags less than mysql.keep", "no connect fails on the way",
     "seen as a move; the lost tail is merged again, nothing is lost"),
    ("mysql-lags-more", "a copy is promoted that lags more than mysql.keep", "idle",
     "what is lost is reported, to the hit; what is kept is merged again"),
    ("mysql-restored", "MySQL restored from a backup", "after UNLINK", "the loss is reported, or merged again"),
    ("enospc-mysql", "no space", "MySQL", "held; goes on when there is room"),
    ("enospc-redis", "no space", "Redis' AOF", "MISCONF to the clients; goes on when there is room"),
    ("enospc-log", "no space", "tallyd's log", "hits and merges go on"),
    ("ledger-purged", "ledger pruned, then an old Redis", "recovery", "gen says so: held"),
    ("clock-lock", "clock +1 day, -1 hour", "lock", "an expired lock is harmless; no double"),
    ("clock-cleaner", "clock +1 day, -1 hour", "cleaner", "no live sample is deleted"),
    ("clock-timebox", "clock +1 day, -1 hour", "timeboxes", "no live bucket is deleted"),
    ("clock-ticks", "clock +1 day, -1 hour", "frames, merges", "they go on (monotonic)"),
    ("emfile", "EMFILE", "accept", "those connected are served, no spin; recovers"),
    ("client-flood", "a flood of connections", "accept", "those connected are served; recovers"),
    ("slow-reader", "a client that does not read", "intake", "memory bounded; others as ever"),
    ("giant-pipeline", "a giant pipeline", "intake", "memory bounded; exact"),
    ("dribble", "one byte at a time", "intake", "exact"),
    ("malformed-resp", "malformed RESP", "intake", "error and close, as redis-server; others as ever"),
    ("malloc-fails", "the Nth allocation fails", "core", "a clean error or end; nothing answered is lost"),
    ("schema-unsigned", "a count that is UNSIGNED", "a negative sum", "added where it fits, else a reject"),
    ("schema-missing", "wrong schema: table missing", "start", "refused with the exact reason"),
    ("schema-folding", "wrong schema: folding collation", "start", "refused with the exact reason"),
    ("upgrade-realms", "upgrade from one Redis to realms", "batches stand, one half merged; rejects wait; under hits",
     "held until migrate; then all is merged once"),
    ("upgrade-orphan", "upgrade over an orphan of the old version", "start", "merged once, by its stored format version"),
)]
IDS = {row.id for row in ROWS}
assert len(IDS) == len(ROWS)


def collected():
    """row id -> names of the tests of the normal run that are marked with it."""
    with tempfile.NamedTemporaryFile("r") as listed:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "-m", "fault and not soak",
             "--fault-list", listed.name, os.path.dirname(os.path.abspath(__file__))],
            capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        tests = {row.id: [] for row in ROWS}
        for row, name in json.load(listed):
            tests[row].append(name)
    return tests


def write_collected(directory):
    """What report() goes by. Its being there says that the whole matrix was asked for."""
    tests = collected()
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "collected"), "w", encoding="utf-8") as out:
        json.dump(tests, out)
    return tests


def results(directory, kind="outcomes"):
    """name of a test -> "passed", "failed", or "skipped: why". kind "skipped": only those, with why."""
    made = {}
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name.endswith(f".{kind}"):
            with open(os.path.join(directory, name), encoding="utf-8") as lines:
                made.update(json.loads(line) for line in lines)
    return made


def joined(tests, outcomes):
    """[(a test's name without its parameters, outcome)]: those of one function and outcome together."""
    grouped = {}
    for test in tests:
        key = test.partition("[")[0], outcomes.get(test, "NOT RUN").replace("failed", "FAILED")
        grouped[key] = grouped.get(key, 0) + 1
    return [(name + (f" ({count})" if count > 1 else ""), outcome) for (name, outcome), count in grouped.items()]


def report_skipped(directory, out):
    skipped = results(directory, "skipped")
    for test, why in skipped.items():
        print(f"skipped: {test}: {why}", file=out)
    if skipped:
        print(f"{len(skipped)} end-to-end tests were skipped", file=out)


def report(directory, out=sys.stdout):
    """Prints which tests were skipped, and the table; the rows that are not proven."""
    report_skipped(directory, out)
    try:
        with open(os.path.join(directory, "collected"), encoding="utf-8") as listed:
            tests = json.load(listed)
    except FileNotFoundError:
        return []  # some tests alone were asked for
    outcomes, lines, bad, away = results(directory), [], [], []
    if not outcomes:
        return []  # what collects them, alone
    for row in ROWS:
        proofs = joined(tests[row.id], outcomes) or [("-", f"cannot be done here: {row.reason}" if row.reason else "NO TEST")]
        lines += [(row.fault, row.moment, name, outcome) for name, outcome in proofs]
        if any(outcome.startswith(("FAILED", "NOT RUN", "NO TEST")) for _, outcome in proofs):
            bad.append(row.id)
        elif not any(outcome == "passed" for _, outcome in proofs):
            away.append(row.id)
    widths = [max(len(line[at]) for line in lines) for at in range(3)]
    print("The fault matrix: fault, moment, test, outcome", file=out)
    for line in lines:
        print("  ".join([*(text.ljust(width) for text, width in zip(line, widths)), line[3]]), file=out)
    print(f"{len(ROWS)} rows: {len(ROWS) - len(bad) - len(away)} proven, {len(away)} not done here, {len(bad)} not proven"
          + (": " + " ".join(bad) if bad else ""), file=out)
    return bad


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "report":
        sys.exit("usage: matrix.py report DIRECTORY")
    sys.exit(1 if report(sys.argv[2]) else 0)
