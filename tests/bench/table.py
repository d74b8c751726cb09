"""What is shown and kept: a Markdown table of ratios, JSON beside it, and what moved since an earlier run."""
import json
import os
from dataclasses import asdict, dataclass, field, fields
from statistics import median

MOVED = 0.15
LEGEND = """\
A ratio is the median over the rounds; ± is the spread of the middle half of the rounds, in percent of the ratio. "owes": seconds \
from the window's end until tallyd owed no more than when it began. They count into its rate. tallyd owes bytes of journals, names \
dirty for longer than `every`, and fields of batches. "tallyd", "peer": hits a second, then p50 / p99 / p99.9 of a pipeline, ms. \
"old": the ratio over a part of the same loads, as short as earlier windows were, without what was owed. "Redis", "MySQL": commands \
that Redis ran, and rows that MySQL inserted or changed, for each hit, with tallyd."""


@dataclass
class Row:
    work: str
    against: str
    samples: list  # of the ratio, one a round
    at_least: float
    aim: float
    unit: str = ""
    less: bool = False  # the smaller the better
    old: float = None
    tallyd: dict = field(default_factory=dict)  # side()
    peer: dict = field(default_factory=dict)
    redis_a_hit: float = None
    mysql_a_hit: float = None
    figures: dict = field(default_factory=dict)  # what the ratio was made of: name -> median

    @property
    def value(self):
        return median(self.samples)

    @property
    def spread(self):
        """The distance of the quartiles over the median."""
        ordered = sorted(self.samples)
        quarter = len(ordered) // 4
        return (ordered[-1 - quarter] - ordered[quarter]) / self.value if self.value else 0.0

    def reaches(self, goal):
        return self.value <= goal if self.less else self.value >= goal

    @property
    def reached(self):
        if self.at_least is None:
            return "-"
        if self.reaches(self.aim):
            return "aim"
        return "yes" if self.reaches(self.at_least) else "no"

    def kept(self):
        return {**asdict(self), "value": self.value, "spread": self.spread, "reached": self.reached}


def side(windows):
    return {name: median(getattr(w, name) for w in windows) for name in ("rate", "paid_s", "p50_us", "p99_us", "p999_us")}


def compared(work, against, ours, theirs, at_least, aim, early, less=False, unit=""):
    """A row of windows in turn; early: warm-up and window of the old method, s."""
    def ratios(rate):
        pairs = [(rate(a), rate(b)) for a, b in zip(ours, theirs)]
        return [b / a if less else a / b for a, b in pairs if a and b]

    old = ratios(lambda window: window.early(*early))
    return Row(work, against, ratios(lambda window: window.rate), at_least, aim, unit, less, median(old) if old else None,
               side(ours), side(theirs), median(w.redis_a_hit for w in ours), median(w.mysql_a_hit for w in ours))


def number(value):
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def shown_figure(value):
    return f"{value / 1000:,.0f}k" if value >= 10000 else number(value)


def shown_side(of):
    if not of:
        return ""
    times = [number(of[name] / 1000) for name in ("p50_us", "p99_us", "p999_us") if of[name]]
    return "; ".join([shown_figure(of["rate"]), *([" / ".join(times)] if times else [])])


def lines(rows):
    text = ["| work | against | ratio | ± | at least | aim | reached | old | owes | tallyd | peer | Redis | MySQL | figures |",
            "|---|---|---:|---:|---:|---:|---|---:|---:|---|---|---:|---:|---|"]
    for row in rows:
        goals = [f"{'≤ ' if row.less else ''}{number(goal)}" if goal is not None else ""
                 for goal in (row.at_least, row.aim)]
        figures = "; ".join(f"{name} {shown_figure(value)}" for name, value in row.figures.items())
        spread = f"{100 * row.spread:.0f} %" if len(row.samples) > 1 else ""
        cells = [row.work, row.against, number(row.value) + row.unit, spread, *goals, row.reached, number(row.old),
                 number(row.tallyd.get("paid_s")), shown_side(row.tallyd), shown_side(row.peer),
                 number(row.redis_a_hit), number(row.mysql_a_hit), figures]
        text.append(f"| {' | '.join(cells)} |")
    return text


def markdown(rows, about):
    with_goal = [row for row in rows if row.at_least is not None]
    reached = sum(row.reached != "no" for row in with_goal)
    return "\n".join([f"{about['date']}, {about['server']}, {about['machine']}. {about['setting']}", "", LEGEND, "", *lines(rows), "",
                      f"Reached: {reached} of {len(with_goal)}."]) + "\n"


def kept_at(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def merged(rows, path):
    """Those of the run that is kept at path, and in their places these."""
    names = {known.name for known in fields(Row)}
    now = {(row.work, row.against): row for row in rows}
    before = [Row(**{name: value for name, value in row.items() if name in names}) for row in kept_at(path)["rows"]]
    return [now.pop((row.work, row.against), row) for row in before] + list(now.values())


def moved(rows, path):
    """Lines about what differs by more than 15 % from the run that is kept at path."""
    before = kept_at(path)
    old = {(row["work"], row["against"]): row for row in before["rows"]}
    found = [f"Against the run of {before['about']['date']}, more than {100 * MOVED:.0f} % apart:"]
    for row in rows:
        was = old.get((row.work, row.against))
        if was is None or not was["value"]:
            continue
        change = row.value / was["value"] - 1
        if abs(change) <= MOVED:
            continue
        words = ["better" if (change < 0) == row.less else "worse"]
        if max(row.spread, was["spread"]) > MOVED:
            words.append("a noisy row")
        found.append(f"  {row.work} / {row.against}: {number(was['value'])} -> {number(row.value)} "
                     f"({100 * change:+.0f} %, {', '.join(words)})")
    return found if len(found) > 1 else [f"Nothing moved by more than {100 * MOVED:.0f} % since {before['about']['date']}."]


def keep(rows, about, path):
    if os.path.exists(path):
        os.replace(path, path + ".before")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"about": about, "rows": [row.kept() for row in rows]}, file, indent=1, ensure_ascii=False)
        file.write("\n")
