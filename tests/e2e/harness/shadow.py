"""The shadow of the counters: what was acknowledged, what may have been counted, what certainly was not."""
import threading
from collections import Counter


class Shadow:
    """Deltas are positive, so acknowledged <= counted <= acknowledged + unknown must hold for each (key, field)."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acked, self.unknown, self.refused = Counter(), Counter(), Counter()
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
                    self.unknown[key, field] += delta
                else:
                    self.refused[key, field] += delta
                    self.refusals[str(reply)[:60]] += 1

    def check(self, counted):
        """counted: (key, field) -> sum, everything there is."""
        with self.lock:
            wrong = []
            for name in set(self.acked) | set(self.unknown) | set(self.refused) | set(counted):
                least, most = self.acked[name], self.acked[name] + self.unknown[name]
                if not least <= counted.get(name, 0) <= most:
                    wrong.append(f"{name}: counted {counted.get(name, 0)}, acknowledged {least}, at most {most}")
            assert not wrong, f"{len(wrong)} fields differ:\n" + "\n".join(sorted(wrong)[:20])
