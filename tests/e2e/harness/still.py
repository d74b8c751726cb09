"""tallyd and redis-server at one clock that only the test moves."""

SETTLING_TURNS = 12


class Still:
    def __init__(self, clock, server, daemon):
        self.clock, self.server, self.daemon = clock, server, daemon
        self.direct = server.client()
        self.client = daemon.client()

    @property
    def now(self):
        return self.clock.now

    def call(self, *words):
        return self.client.call(*words)

    def step(self, seconds):
        """Whole seconds; whatever is due then begins and, unless it is long, ends before this returns: a PING is a turn of
        tallyd's loop, and what it asked Redis in that turn is answered when Redis answers us for the second time. An
        answer that tallyd reads behind the next step has taken Redis that long, as far as it can know."""
        self.clock.step(seconds)
        for _ in range(SETTLING_TURNS):
            for ping in (self.poke, self.direct.ping, self.direct.ping):
                ping()
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
