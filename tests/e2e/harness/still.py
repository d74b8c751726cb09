"""tallyd and redis-server at one clock that only the test moves."""
from harness.resp import Resp

STEP_S = 4  # less than what the cleaner takes for a leap
SETTLING_TURNS = 30


class Still:
    def __init__(self, clock, server, daemon):
        self.clock, self.server, self.daemon = clock, server, daemon
        self.direct, self.beside = server.client(), Resp(server.socket)
        self.client = daemon.client()

    @property
    def now(self):
        return self.clock.now

    def call(self, *words):
        return self.client.call(*words)

    def step(self, seconds):
        """Whole seconds; whatever is due then begins and, unless it is long, ends before this returns: a PING is a turn of
        tallyd's loop, and what it asked Redis in that turn is answered when Redis answers us for the second time. An
        answer that tallyd reads behind the next step is wrong by that step: so a long one is made of small ones, and a
        wrong answer is not one that the cleaner takes for a leap of the clock."""
        for done in range(0, max(seconds, 1), STEP_S):
            self.clock.step(min(seconds - done, STEP_S))
            self._settle(2)
        self._settle(SETTLING_TURNS)

    def _settle(self, turns):
        for _ in range(turns):
            self.poke()
            for _ in range(2):
                assert self.beside.call("PING") == "PONG"
        self.poke()

    def begin_at(self, phase, period):
        """On to where now % period is phase: what happens then happens again in the same way."""
        self.step((phase - self.now) % period)

    def poke(self):
        assert self.client.call("PING") == "PONG"

    def pass_until(self, condition, most_s, what):
        """A second at a time until condition() holds, so that what tallyd measures takes it no time."""
        ends_at = self.now + most_s
        while not condition():
            assert self.now < ends_at, f"not within {most_s} s of its clock: {what}"
            self.step(1)


def pairs(reply):
    """[a, n, b, n, ...] as [(a, n), ...] of integers."""
    numbers = [int(word) for word in reply]
    assert len(numbers) % 2 == 0, reply
    return list(zip(numbers[::2], numbers[1::2]))
