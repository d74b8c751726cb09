"""Cut links and kills under load, for any command; and what is then known of each request."""
import random
import threading

from harness.load import Load
from harness.resp import Closed, Resp, RespError
from harness.wait import wait_until

LOST_ANSWER = "counted, but the answer was lost"


class Known:
    """answered: (request, reply); counted: certainly applied, without a reply; unknown: perhaps; refused: not."""

    def __init__(self):
        self.lock = threading.Lock()
        self.answered, self.counted, self.unknown, self.refused = [], [], [], []

    def settle(self, requests, replies):
        with self.lock:
            for at, request in enumerate(requests):
                reply = replies[at] if at < len(replies) else None
                if reply is None or isinstance(reply, RespError) and "outcome unknown" in reply:
                    self.unknown.append(request)
                elif not isinstance(reply, RespError):
                    self.answered.append((request, reply))
                elif LOST_ANSWER in reply:
                    self.counted.append(request)
                else:
                    self.refused.append((request, str(reply)))

    def sure(self):
        """Each request that certainly was applied."""
        return [request for request, _ in self.answered] + self.counted


CRASHES = ("frame_before_send", "frame_after_send", "frame_applied")


def cut(rng, daemon, redis, proxy):
    proxy.cut()


def answers_lost(rng, daemon, redis, proxy):
    """Frames are applied, their answers swallowed."""
    proxy.swallow_replies()
    before = redis.client().info("stats")["total_commands_processed"]
    wait_until(lambda: redis.client().info("stats")["total_commands_processed"] > before + 10, 60)
    proxy.cut()


def requests_lost(rng, daemon, redis, proxy):
    proxy.stall("up")
    proxy.cut()
    proxy.flow()


def tallyd_killed(rng, daemon, redis, proxy):
    daemon.restart()


def tallyd_crashed(rng, daemon, redis, proxy):
    """At a named point of a frame, soon after its start."""
    daemon.kill9()
    daemon.crash = f"{rng.choice(CRASHES)}:{rng.randrange(20, 60)}"
    daemon.spawn()
    wait_until(lambda: not daemon.alive(), 60, f"tallyd ends at {daemon.crash}")
    daemon.crash = None
    daemon.start()


def redis_killed(rng, daemon, redis, proxy):
    redis.restart()


BLOWS = (cut, answers_lost, requests_lost, tallyd_killed, tallyd_crashed, redis_killed)


def storm(daemon, redis, proxy, pick, rounds=2, seed=1, clients=6):
    """Every blow `rounds` times, in random order, under load; Known when all is quiet and counted again.
    pick(random) -> the words of a request."""
    rng, known = random.Random(seed), Known()
    load = Load(daemon.socket, known, pick, clients=clients, depth=20, per_second=6000, seed=seed, command=())
    blows = list(BLOWS) * rounds
    rng.shuffle(blows)
    try:
        for blow in blows:
            load.go()
            answered = len(known.answered)
            wait_until(lambda: len(known.answered) > answered + 300, 60, f"answers, before {blow.__name__}")
            blow(rng, daemon, redis, proxy)
        answered = len(known.answered)
        wait_until(lambda: len(known.answered) > answered + 300, 60, "answers after the storm")
        load.pause()
    finally:
        load.stop()
    assert known.unknown or known.counted or known.refused, "nothing was hit"
    return known


def settled(daemon, redis):
    """Frames that were in doubt have been resolved: one more request of a client went the same way behind them. And what
    the dead left in journals was brought home."""
    def counts():
        try:
            with Resp(daemon.socket, timeout_s=10) as client:
                return isinstance(client.call("SERIES.INCRBY", "settled", 1), int)
        except (Closed, OSError):
            return False

    wait_until(counts, 30, "counts again")
    wait_until(lambda: not redis.client().exists("tally:journals"), 60, "all journals are brought home")
    assert not list(redis.client().scan_iter("tally:journal:*", count=1000))
