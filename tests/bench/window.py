"""A window of a load: what was answered in it, how late, and how long what was owed at its end took."""
import re
import time
from dataclasses import dataclass, field

PATIENCE_S = 120


@dataclass
class Window:
    """Times are in seconds, those of a hit in us. What is owed and since when: see paid_s()."""
    hits_per_s: float = 0.0
    seconds: float = 0.0
    paid_s: float = 0.0
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0
    tenths: list = field(default_factory=list)  # hits of each tenth of a second since the load began, its warm-up too
    redis_a_hit: float = 0.0
    mysql_a_hit: float = 0.0

    def read(self, printed):
        """The end of what `load` prints."""
        for name, value in re.findall(r"(\w+)=([\d.]+)", printed):
            if name in ("hits_per_s", "seconds", "p50_us", "p99_us", "p999_us"):
                setattr(self, name, float(value))
        self.tenths = [int(n) for n in re.search(r"tenths=([\d,]*)", printed)[1].split(",") if n]
        return self

    @property
    def rate(self):
        """Hits a second: what is owed takes its time, too."""
        return self.hits_per_s * self.seconds / (self.seconds + self.paid_s) if self.seconds > 0 else 0.0

    def early(self, warm_s, window_s):
        """Hits a second of a part of the run: what a short window has, whose debts are paid behind it, uncounted."""
        first = round(10 * warm_s)
        part = self.tenths[first:first + max(1, round(10 * window_s))]
        return 10 * sum(part) / len(part) if part else 0.0


def most(samples):
    """What is owed at most, of each kind."""
    return {kind: max(sample[kind] for sample in samples) for kind in samples[0]} if samples else {}


def paid_s(owed, standing, patience_s=PATIENCE_S, every_s=0.02):
    """Seconds until owed() is no more than is pending at this load anyway, of each kind; 0 when it is not now."""
    began_s, looked_s = time.monotonic(), 0.0
    while looked_s < patience_s:
        found = owed()
        if all(found[kind] <= standing[kind] for kind in standing):
            break
        time.sleep(every_s)
        looked_s = time.monotonic() - began_s
    return looked_s
