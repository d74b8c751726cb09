"""tallyd and redis-server at one clock that only the test moves."""


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
        """Whole seconds; whatever is due then begins."""
        self.clock.step(seconds)
        self.poke()

    def poke(self):
        assert self.client.call("PING") == "PONG"

    def pass_until(self, condition, most_s, what):
        self.clock.pass_until(condition, most_s, what, self.poke)


def pairs(reply):
    """[a, n, b, n, ...] as [(a, n), ...] of integers."""
    numbers = [int(word) for word in reply]
    assert len(numbers) % 2 == 0, reply
    return list(zip(numbers[::2], numbers[1::2]))
