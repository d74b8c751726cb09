"""sh config/try.sh: the first minute, with the binary under test."""
import os
import re
import signal
import subprocess
import urllib.request

import pytest

from harness.daemon import TALLYD
from harness.process import Process
from harness.resp import Resp
from harness.wait import patience, wait_until

SCRIPT = os.path.join(os.path.dirname(__file__), "../../config/try.sh")


class Try(Process):
    name = "try"
    ready_within_s = 120

    def __init__(self, directory, *words):
        super().__init__(directory)
        self.home, self.words = f"{directory}/home", words
        os.mkdir(f"{directory}/bin")
        with open(f"{directory}/bin/xdg-open", "w", encoding="utf-8") as browser:
            browser.write(f'#!/bin/sh\necho "$1" >>{directory}/opened\n')
        os.chmod(f"{directory}/bin/xdg-open", 0o755)

    def argv(self):
        return ["sh", SCRIPT, *self.words]

    def environment(self):
        return {**super().environment(), "TALLYD": TALLYD, "DIR": self.home, "DISPLAY": ":nowhere",
                "PATH": f"{self.directory}/bin:{os.environ['PATH']}"}

    def is_ready(self):
        return "Ctrl-C stops all three" in self.log()

    def opened(self):
        try:
            with open(f"{self.directory}/opened", encoding="utf-8") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def end(self):
        self.signal(signal.SIGTERM)  # a SIGINT may be ignored from birth, as in a background job
        assert self.ended() == 130
        assert not answers(f"{self.home}/tallyd.sock")


def answers(path):
    try:
        with Resp(path) as client:
            return client.call("PING")
    except OSError:
        return False


@pytest.fixture
def tried(workdir):
    made = []

    def start(*words):
        made.append(Try(workdir, *words).start())
        return made[0]

    yield start
    for one in made:
        one.end()


def things_to_try(said):
    return re.findall(r"^       (\S.*)$", said, re.M)


def test_ends_on_a_screen_whose_lines_work(tried):
    one = tried()
    said = one.log()
    commands = things_to_try(said)
    assert len(commands) == 3 and "What ran" in said and one.opened() == []
    done = [subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=patience(60), check=False,
                           stdin=subprocess.DEVNULL) for line in commands]
    assert all(d.returncode == 0 for d in done), done
    assert int(done[0].stdout) > 0 and "1004" in done[1].stdout and "balance" in done[2].stdout, done
    with urllib.request.urlopen(re.search(r"^The panel +(http\S+)#", said, re.M)[1], timeout=patience(20)) as page:
        assert b"<title>tallyd</title>" in page.read()


def test_panel_is_opened_and_alive(tried):
    one = tried("--panel")
    url = re.search(r"^The panel +(http\S+)$", one.log(), re.M)[1]
    assert one.opened() == [url]
    shop = url.rsplit("/", 1)[1]
    with Resp(f"{one.home}/tallyd.sock") as client:
        def views():
            return sum(client.call("CTR.TOTAL", f"s{shop}:product_views", *range(1000, 1040)))
        for _ in range(2):  # it goes on
            before = views()
            wait_until(lambda: views() > before, 60)


@pytest.mark.parametrize("words", [["--never"], ["--once", "--panel"], [""]])
def test_usage(words):
    done = subprocess.run(["sh", SCRIPT, *words], capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 64 and "[--panel | --once]" in done.stderr and done.stdout == ""
