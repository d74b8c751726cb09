"""The shadow of the counters: what was acknowledged, what may have been counted, what certainly was not."""
import threading
from collections import Counter


class Shadow:
    """acknowledged + less <= counted <= acknowledged + unknown must hold for each (key, field): `unknown` are unknown hits that add,
    `less` those that take away."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acked, self.unknown, self.less, self.refused = Counter(), Counter(), Counter(), Counter()
        self.refusals = Counter()
        self.answered = 0  # how many of them were acknowledged

    def settle(self, requests, replies):
        """requests: (key, field, delta); replies: as many or fewer; what has none is unknown."""
        with self.lock:
            for at, (key, field, delta) in enumerate(requests):
                reply = replies[at] if at < len(replies) else None
                if isinstance(reply, int):
                    self.acked[key, field] += delta
                    self.answered += 1
                elif reply is None or "outcome unknown" in reply:
                    (self.unknown if delta > 0 else self.less)[key, field] += delta
                else:
                    self.refused[key, field] += delta
                    self.refusals[str(reply)[:60]] += 1

    def check(self, counted):
        """counted: (key, field) -> sum, everything there is."""
        with self.lock:
            wrong = []
            for name in set(self.acked) | set(self.unknown) | set(self.less) | set(self.refused) | set(counted):
                least, most = self.acked[name] + self.less[name], self.acked[name] + self.unknown[name]
                if not least <= counted.get(name, 0) <= most:
                    wrong.append(f"{name}: counted {counted.get(name, 0)}, acknowledged {self.acked[name]}, at most {most}, at least {least}")
            assert not wrong, f"{len(wrong)} fields differ:\n" + "\n".join(sorted(wrong)[:20])
