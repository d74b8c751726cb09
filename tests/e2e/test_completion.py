"""What `tallyd completion` and `tallyd manual` print: bash itself completes by it, and man reads the pages."""
import os
import re
import shutil
import subprocess

import pytest

from harness.daemon import TALLYD
from harness.wait import patience

VERBS = ["run", "check", "suggest", "migrate", "status", "verify", "rejects", "recover", "dev", "completion", "manual"]


def tallyd(*words):
    done = subprocess.run([TALLYD, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def options(verb):
    """As `--help` lists them."""
    return set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", tallyd(verb, "--help"), re.MULTILINE))


@pytest.fixture
def script(workdir):
    path = os.path.join(workdir, "tallyd.bash")
    with open(path, "w", encoding="utf-8") as out:
        out.write(tallyd("completion", "bash"))
    os.mkdir(os.path.join(workdir, "somewhere"))
    open(os.path.join(workdir, "some file.yaml"), "w", encoding="utf-8").close()
    return path


def offer(script, *words):
    """What bash offers for the last word."""
    ask = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tallyd; printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", ask, "-", script, "tallyd", *words], capture_output=True,
                          text=True, timeout=patience(30), check=True, cwd=os.path.dirname(script), stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    return set(filter(None, done.stdout.split("\n")))


def test_offers(script):
    """For every verb what its help lists."""
    assert set(VERBS) <= offer(script, "")
    assert offer(script, "re") == {"rejects", "recover"}
    for verb in VERBS:
        assert options(verb) <= offer(script, verb, "--"), verb
        assert not (options("recover") - options(verb)) & offer(script, verb, "--"), verb
    assert {"list", "replay", "drop"} <= offer(script, "rejects", "")
    assert offer(script, "rejects", "re") == {"replay"}
    assert not {"list", "drop"} & offer(script, "rejects", "replay", "")
    assert "bash" in offer(script, "completion", "")
    assert {"run", "redis.replicas"} <= offer(script, "help", "r")
    assert offer(script, "rejects", "list", "--counter", "") == set()


def test_offers_files(script):
    assert offer(script, "check", "-c", "some") == {"somewhere", "some file.yaml"}
    assert offer(script, "dev", "--dir", "some") == {"somewhere"}


@pytest.mark.parametrize("section", ["1", "5"])
def test_pages(section, workdir):
    """scdoc makes a page of it, and man shows that page without a warning."""
    name = {"1": "tallyd", "5": "tallyd.yaml"}[section]
    page = os.path.join(workdir, f"{name}.{section}")
    made = subprocess.run(["scdoc"], input=tallyd("manual", section), capture_output=True, text=True, timeout=patience(60), check=True)
    with open(page, "w", encoding="utf-8") as out:
        out.write(made.stdout)
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", page], capture_output=True, text=True,
                          timeout=patience(60), check=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "100", "MANPAGER": "cat"})
    assert done.stderr == ""
    text = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
    if section == "1":
        for verb in VERBS:
            assert f"tallyd {verb}" in text and all(option in text for option in options(verb))
    else:
        for path in re.findall(r"^  ([a-z_]+(?:\.[a-z_*]+)*)(?: =|,|$)", tallyd("run", "--help"), re.MULTILINE):
            assert path in text, path
        assert "unique_visitors:" in text
    assert os.uname().nodename not in text or len(os.uname().nodename) < 4


@pytest.mark.parametrize("words,said", [(("completion",), "bash"), (("completion", "zsh"), "zsh"),
                                        (("completion", "bash", "more"), "more"), (("manual", "2"), "1|5"),
                                        (("manual", "1", "-c", "x"), "-c")])
def test_usage(words, said):
    done = subprocess.run([TALLYD, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 64 and said in done.stderr and done.stdout == ""


def test_the_tools_are_here():
    """They are test packages (config/packages.sh); without them nothing above was tested."""
    assert all(shutil.which(tool) for tool in ("bash", "scdoc", "man"))
