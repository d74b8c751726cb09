"""What is shown and kept: a Markdown table of ratios, JSON beside it, and what moved since an earlier run."""
import json
import os
from dataclasses import asdict, dataclass, field
from statistics import median

MOVED = 0.10
LEGEND = """\
Ratios are the median of those of the rounds; ± is how far the middle half of the rounds lies apart, in percent of it. \
"Redis" and "MySQL": commands that Redis ran and rows that MySQL inserted or changed, each hit, with tallyd."""


@dataclass
class Row:
    work: str
    against: str
    samples: list  # of the ratio, one a round
    at_least: float
    aim: float
    unit: str = ""
    less: bool = False  # the smaller the better
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


def number(value):
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def shown_figure(value):
    return f"{value / 1000:,.0f}k" if value >= 10000 else number(value)


def markdown(rows, about):
    lines = [f"{about['date']}, {about['machine']}. {about['setting']}", "", LEGEND, "",
             "| work | against | ratio | ± | at least | aim | reached | Redis | MySQL | figures |",
             "|---|---|---:|---:|---:|---:|---|---:|---:|---|"]
    for row in rows:
        goals = [f"{'≤ ' if row.less else ''}{number(goal)}" if goal is not None else ""
                 for goal in (row.at_least, row.aim)]
        figures = "; ".join(f"{name} {shown_figure(value)}" for name, value in row.figures.items())
        spread = f"{100 * row.spread:.0f} %" if len(row.samples) > 1 else ""
        cells = [row.work, row.against, number(row.value) + row.unit, spread, *goals, row.reached,
                 number(row.redis_a_hit), number(row.mysql_a_hit), figures]
        lines.append(f"| {' | '.join(cells)} |")
    with_goal = [row for row in rows if row.at_least is not None]
    reached = sum(row.reached != "no" for row in with_goal)
    return "\n".join([*lines, "", f"Reached: {reached} of {len(with_goal)}."]) + "\n"


def moved(rows, path):
    """Lines about what differs by more than 10 % from the run that is kept at path."""
    with open(path, encoding="utf-8") as file:
        before = json.load(file)
    old = {(row["work"], row["against"]): row for row in before["rows"]}
    lines = [f"Against the run of {before['about']['date']}, more than {100 * MOVED:.0f} % apart:"]
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
        lines.append(f"  {row.work} / {row.against}: {number(was['value'])} -> {number(row.value)} "
                     f"({100 * change:+.0f} %, {', '.join(words)})")
    return lines if len(lines) > 1 else [f"Nothing moved by more than 10 % since {before['about']['date']}."]


def keep(rows, about, path):
    if os.path.exists(path):
        os.replace(path, path + ".before")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"about": about, "rows": [row.kept() for row in rows]}, file, indent=1, ensure_ascii=False)
        file.write("\n")
