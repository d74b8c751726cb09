"""The pages' sessions, pasted: every line does what the comment behind it says. And the table of options."""
import os
import re
import subprocess

from harness.daemon import TALLYD, counters
from harness.wait import patience

ROOT = os.path.join(os.path.dirname(__file__), "../..")
COMMAND = re.compile(r"^    redis-cli -p 7370 (.*?)(?: +# (.*))?$", re.M)
REPLY = re.compile(r"\d+(?: exact| estimated| \d+)?|upload-77")  # of a comment that begins with the reply

FAMILIES = counters(product_views={"feeds": {"series": "s<store>:views"}})
UNIQUES = {"uniques": {"days": 0, "name": "s<store>:visitors", "feeds": {"counter": "unique_visitors"}}}  # as `tallyd dev`


def page(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def test_sessions(make_clock, make_redis, make_daemon):
    """A minute begins for Redis when it begins, so that hits which are said to share one do."""
    clock = make_clock().flow()
    server = make_redis(appendfsync="always", clock=clock)
    daemon = make_daemon(server, clock=clock, families=FAMILIES, more=UNIQUES)
    clock.step(60 - clock.now % 60)
    commands = COMMAND.findall(page("README.md")) + COMMAND.findall(page("src/command/README.md"))
    compared = 0
    for command, comment in commands:
        done = subprocess.run(["sh", "-c", f"redis-cli -s {daemon.socket} {command}"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=patience(60), check=False)
        said = done.stdout.split()
        assert done.returncode == 0 and not re.match(r"ERR|[A-Z]{4,} ", done.stdout), (command, done.stdout, done.stderr)
        expected = REPLY.match(comment)
        if expected:
            assert said[:len(expected[0].split())] == expected[0].split(), (command, said)
            compared += 1
    assert len(commands) > 30 and compared > 20


def test_options():
    """Its table has each option of the program, with its default and whether a reload takes it over, and no other."""
    rows = re.findall(r"^\| `([a-z_.*]+)` \| (.*?) \| (reload|) ?\| \S.* \|$", page("config/README.md"), re.M)
    said = subprocess.run([TALLYD, "run", "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60),
                          check=True).stdout.split("Options of the configuration file")[1]
    options = re.findall(r"^  ([a-z_.*]+)(?: = (.*?)|(, must be given))?(, reloadable)?$", said, re.M)
    wanted = [(name, "must be given" if needed else f"`{standard}`" if standard else "-", "reload" if reloads else "")
              for name, standard, needed, reloads in options]
    assert 35 < len(wanted) <= 70 and sum(name.startswith("limits.") for name, *_ in wanted) <= 12
    assert sorted(rows) == sorted(wanted)


def test_links_of_the_package():
    """Its pages lead to each other and to no file that it lacks; but for the links they are those of the source."""
    doc = os.path.join(os.path.dirname(TALLYD), "doc")
    pages = [os.path.relpath(os.path.join(at, name), doc) for at, _, names in os.walk(doc) for name in names]
    assert "README.md" in pages and "src/command/README.md" in pages
    link = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)]*)?\)")
    for path in pages:
        with open(os.path.join(doc, path), encoding="utf-8") as file:
            text = file.read()
        for _, target, _ in link.findall(text):
            there = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            assert "://" in target or there in pages, (path, target)
        words = lambda page_: link.sub(r"\1", re.sub(r"!\[.*?\]\(.*?\)\n+", "", page_))
        assert words(text) == words(page(path)), path
