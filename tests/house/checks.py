#!/usr/bin/env python3
"""What holds in the source beside its behaviour; each check is a test (ctest -L house).

  checks.py CHECK [ROOT]     prints what breaks it, and fails when anything does; 77: there is nothing here to check
  checks.py ceiling --lower  writes the sizes of today into ceiling.txt where they are lower"""
import collections
import fnmatch
import os
import re
import subprocess
import sys

import drawing
import measure
import source

PAGES = ["src/coalesce/README.md", "src/sync/README.md"]
MAP = "src/README.md"
MAP_LINES = 150
GLOSSARY_WORDS = 25
CEILING = "tests/house/ceiling.txt"
SIZES = ("lines", "files", "functions")
CIRCLE_MAX = 12
SLACK = (100, 0, 5)  # a row of the ceiling that is this much too high is as good as one that fits
NOTHING_HERE = 77


def names(root):
    """No two files define functions of one name, static or not (one file may, for two kinds of library)."""
    places = collections.defaultdict(dict)
    for f in source.all_functions(root):
        places[f.name].setdefault(f.path, f"{f.path}:{f.line}")
    for name, where in sorted(places.items()):
        first, *others = where.values()
        if others:
            yield f"{first}: {name}() is also at {', '.join(others)}"


def structs(root):
    """No two structs have one name; no two requests (which call back with themselves) differ by their room's name alone."""
    known = source.rooms(root)
    places = collections.defaultdict(list)
    for path in source.files(root):
        for name, line, body in source.structs(path, root):
            places[name].append(f"{path}:{line}")
            room, _, rest = name.partition("_")
            if re.search(r"\(\*\w+\)\(struct %s \*" % name, body):
                places["requests called " + (rest if room in known else name)].append(f"{path}:{line}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{where[0]}: {name} is also at {', '.join(where[1:])}"


def citations(root):
    """What a file cites is in the repo: no other document."""
    outside = re.compile(r"\b(DESIGN|SCHEDULES|FACTS|REVIEW)\b|\b(FAILOVER|HITS|CLIENTS|STYLE)\.md|(?<![\w.-])shared/"
                         r"|\bissue \d+")
    page = re.compile(r"([\w./-]*\w+\.md)\b")
    known = source.repository(root)
    for path in known:
        if path.startswith("tests/house/"):
            continue
        for number, line in enumerate(source.read(path, root).split("\n"), 1):
            if outside.search(line):
                yield f"{path}:{number}: cites what is not in the repo: {line.strip()[:100]}"
            for name in page.findall(line) if not path.endswith(".py") else ():
                if not name.startswith("commands/") and not resolves(known, name):  # but for Redis' own pages
                    yield f"{path}:{number}: there is no {name}"


def lua(root):
    """Each script that Redis runs compiles, with its parts in it as the build puts them, and sets no global."""
    folder = os.path.join(root, "src/redis/lua")
    scripts = sorted(name for name in os.listdir(folder) if name.endswith(".lua"))
    assert scripts
    for name in scripts:
        text = re.sub(r"^--include (.*)\n", lambda m: source.read(f"src/redis/lua/{m[1]}", root),
                      source.read(f"src/redis/lua/{name}", root), flags=re.M)
        luac = subprocess.run(["luac5.1", "-p", "-l", "-"], input=text, capture_output=True, text=True)
        for line in (luac.stdout + luac.stderr).split("\n"):
            if "SETGLOBAL" in line or luac.returncode and line:
                yield f"src/redis/lua/{name}: {line.strip()}"


def keys(root):
    """Each key of tallyd's own goes to Redis behind the lane's tag: by request_key() or REQUEST_KEY()."""
    bare = re.compile(r"\b(REQUEST_LIT|request_slice|request_text|request_words|BUF_LIT)\(.*\bKEY_[A-Z]")
    for path in source.files(root, under="src/redis"):
        for number, line in enumerate(source.read(path, root).split("\n"), 1):
            if bare.search(line):
                yield f"{path}:{number}: a key without its tag: {line.strip()}"
    formatted = re.compile(r"\bredis_(?:call|write)\([^;]*?(?<!\{\})\"\s*KEY_[A-Z_]+")  # where {} is the tag
    for path in source.files(root):
        for found in formatted.findall(source.read(path, root)) if path.endswith((".c", ".h")) else ():
            yield f"{path}: a key without its tag: {found}"


def engine(root):
    """What belongs to one Redis knows no service."""
    paths = source.files(root, under="src/engine")
    if not paths:
        sys.exit(NOTHING_HERE)
    for path in paths:
        for number, line in enumerate(source.read(path, root).split("\n"), 1):
            if re.search(r"\bstruct service\b|#include \"app/", line):
                yield f"{path}:{number}: {line.strip()}"


def rooms_drawn(root):
    """The picture in the map is the one that is drawn from rooms.cmake."""
    drawn = drawing.draw(source.rooms(root))
    if f"```\n{drawn}```\n" not in source.read(MAP, root):
        yield f"{MAP}: not the picture that is drawn from rooms.cmake: python3 tests/house/drawing.py --write"


def map_size(root):
    """The map is short, and so is its glossary."""
    text = source.read(MAP, root)
    lines = text.count("\n")
    if lines > MAP_LINES:
        yield f"{MAP}: {lines} lines, at most {MAP_LINES}"
    words = re.findall(r"^\| \*\*([^*]+)\*\* \|", text, re.M)
    if not 0 < len(words) <= GLOSSARY_WORDS:
        yield f"{MAP}: {len(words)} words in the glossary, at most {GLOSSARY_WORDS}"


def resolves(known, name):
    """Whether a file of the repo ends with this name, or with one of this pattern."""
    name = re.sub(r"^(\.\.?/)+", "", name)
    if "*" not in name:
        return any(path == name or path.endswith("/" + name) for path in known)
    return any(fnmatch.fnmatch(path, name) or fnmatch.fnmatch(path, "*/" + name) for path in known)


def anchors(text):
    """What a link to a heading of this page has behind its #."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def mentions(root):
    """Files that a page links or names exist (of source without a path: in its room); so do functions and structs that it
    names behind their file."""
    known = source.repository(root)
    for page in (path for path in known if path.endswith(".md")):
        text = source.read(page, root)
        for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
            target = os.path.normpath(os.path.join(os.path.dirname(page), link)) if link else page
            if "://" not in link and not (os.path.exists(os.path.join(root, target)) and (
                    not anchor or anchor in anchors(source.read(target, root)))):
                yield f"{page}: its link {link}#{anchor} leads nowhere"
        for name in sorted(set(re.findall(r"(?<![\w./*-])([\w./*-]+\.(?:c|h|lua|py|pml|cmake))(?![\w/-])", text))):
            beside = page.count("/") == 2 and "/" not in name and name.endswith((".c", ".h"))
            if not resolves(known, os.path.join(os.path.dirname(page), name) if beside else name):
                yield f"{page}: there is no {name}"
        for path, name in re.findall(r"([\w./-]+\.[ch]): (\w+)", text):
            if not any(defines(root, os.path.join(place, path), name) for place in ("src", os.path.dirname(page), "")):
                yield f"{page}: {path} defines no {name}"


def alerts(root):
    """The page of alerts has each alert of the rules in a section, and no other."""
    there = set(re.findall(r"^ +- alert: (\w+)$", source.read("config/prometheus/tallyd.rules.yml", root), re.M))
    page = source.read("config/prometheus/README.md", root)
    named = set(re.findall(r"\bTallyd\w+", " ".join(re.findall(r"^## .*\n(Tallyd.*)$", page, re.M))))
    assert there
    for name in sorted(there ^ named):
        yield f"config/prometheus/README.md: {name} {'is in no section' if name in there else 'is no alert'}"


def defines(root, path, name):
    """A function, a struct, an enum or a macro."""
    if not os.path.isfile(os.path.join(root, path)):
        return False
    if any(f.name == name for f in source.functions(path, root)):
        return True
    return re.search(r"^(?:struct|enum) %s \{|^#define %s\b" % (name, name), source.read(path, root), re.M) is not None


def data(root):
    """Each struct that the map's table of data names is defined in a file that its row names."""
    table = re.search(r"^## Data\n(.*?)(?=^## |\Z)", source.read(MAP, root), re.M | re.S)
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \|", table[1], re.M) if table else []
    if len(rows) < 8:
        yield f"{MAP}: the table of data has {len(rows)} rows"
    for names, where in rows:
        paths = [f"src/{path}" for path in re.findall(r"`([\w/]+\.h)`", where)]
        for name in re.findall(r"`(\w+)`", names):
            if not any(defines(root, path, name) for path in paths):
                yield f"{MAP}: struct {name} is not in {where}"


def steps(root):
    """The life of a hit in the map names file and function of each step (mentions() sees that they are there)."""
    life = re.search(r"^## The life of a hit\n(.*?)(?=^## |\Z)", source.read(MAP, root), re.M | re.S)
    numbered = re.findall(r"^\| (\d+) \|.*$", life[1], re.M) if life else []
    if len(numbered) < 8 or [int(number) for number in numbered] != list(range(1, len(numbered) + 1)):
        yield f"{MAP}: the life of a hit has steps {numbered}"
    for line in re.findall(r"^\| \d+ \|.*$", life[1], re.M) if life else ():
        if not re.search(r"`[\w/]+\.c: \w+`", line):
            yield f"{MAP}: a step without its function: {line}"


def proofs(root):
    """Rule names of the simulator, and of the models the tests' names."""
    simulated = re.findall(r'^    (?:COALESCE|UN\w+|SYNC|WORLD|BEHIND_GATE)\("(\w+)"', source.read("tests/sim/rules.c", root), re.M)
    modelled = re.findall(r"^model_rule\((\w+)", source.read("tests/model/CMakeLists.txt", root), re.M)
    assert simulated and modelled
    return {f"sim_rule_{name}" for name in simulated} | {f"model_rule_{name}" for name in modelled}


def rules(root):
    """The pages of the protocol name each rule that a test takes out, and no other; rules that are cited are there."""
    texts = {page: source.read(page, root) for page in PAGES}
    wanted, named = proofs(root), set(re.findall(r"\b(?:sim|model)_rule_\w+", "".join(texts.values())))
    for name in sorted(wanted - named):
        yield f"{' and '.join(PAGES)}: neither names {name}"
    for name in sorted(named - wanted):
        yield f"a page names {name}, which is no test"
    stated = {}
    for page, text in texts.items():
        numbers = re.findall(r"^\*\*([A-Z]\d+)\b", text, re.M)
        stated[page] = set(numbers)
        for number, count in collections.Counter(numbers).items():
            if count > 1:
                yield f"{page}: rule {number} stands {count} times"
    for path in source.repository(root):
        if not path.endswith((".c", ".h", ".md", ".pml", ".py", ".lua", ".txt")) or path.startswith("tests/house/"):
            continue
        for room, numbers in re.findall(r"(coalesce|sync)/README\.md, rules? ([A-Z]\d+(?:(?:,| and| to) [A-Z]\d+)*)",
                                        source.read(path, root)):
            for number in re.findall(r"[A-Z]\d+", numbers):
                if number not in stated[f"src/{room}/README.md"]:
                    yield f"{path}: {room}/README.md has no rule {number}"


def ceiling_rows(root):
    lines = [line.split() for line in source.read(CEILING, root).split("\n") if line and not line.startswith("#")]
    return {name: tuple(map(int, most)) for name, *most in lines}


def ceiling(root):
    """src/ only gets smaller: no room, nor all of them, has more lines, files or functions than its row."""
    most, low = ceiling_rows(root), []
    for name, now in measure.sizes(root).items():
        rows = list(zip(SIZES, now, most.get(name, (0, 0, 0)), SLACK))
        over = ", ".join(f"{n} {what}, at most {top}" for what, n, top, _ in rows if n > top)
        if over:
            yield f"{CEILING}: {name} has {over}: take something out, or raise the row and say why in the commit's message"
        if any(n < top - slack for _, n, top, slack in rows):
            low.append(name)
    if low:
        print(f"these rows can be lowered: {' '.join(low)} (tests/house/checks.py ceiling --lower)")


def ceiling_lower(root):
    """Raises nothing; a row that is missing becomes what there is."""
    most = ceiling_rows(root)
    rows = {name: [min(pair) for pair in zip(now, most.get(name, now))] for name, now in measure.sizes(root).items()}
    head = [line for line in source.read(CEILING, root).split("\n") if line.startswith("#")]
    with open(os.path.join(root, CEILING), "w", encoding="utf-8") as out:
        out.write("\n".join(head + [f"{name:<9} {' '.join(f'{n:>6}' for n in row)}" for name, row in rows.items()]) + "\n")


def circles(root):
    """Who changes a file reads those that come back to it: at most a dozen."""
    for what, edges in (("includes", measure.include_graph(root, source.files(root))),
                        ("calls", measure.call_graph(source.all_functions(root)))):
        largest = measure.largest(edges)
        if len(largest) > CIRCLE_MAX:
            yield f"{len(largest)} files are a circle of {what}, at most {CIRCLE_MAX}: {' '.join(largest)}"


CHECKS = [names, structs, citations, lua, keys, engine, rooms_drawn, map_size, mentions, alerts, data, steps, rules, ceiling, circles]


def main():
    check = next((check for check in CHECKS if check.__name__ == sys.argv[1]), None)
    if check is None:
        sys.exit(f"no check {sys.argv[1]}: there are {' '.join(check.__name__ for check in CHECKS)}")
    if sys.argv[1:] == ["ceiling", "--lower"]:
        return ceiling_lower(source.ROOT)
    broken = list(check(sys.argv[2] if len(sys.argv) > 2 else source.ROOT))
    print("\n".join(broken))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
