"""What `tallyd completion` and `tallyd manual` print: each shell itself completes by it, and man reads the pages."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

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
def script(workdir, request):
    os.mkdir(os.path.join(workdir, "site"))
    path = os.path.join(workdir, "site", {"bash": "tallyd", "fish": "tallyd.fish", "zsh": "_tallyd"}[request.param])
    with open(path, "w", encoding="utf-8") as out:
        out.write(tallyd("completion", request.param))
    os.mkdir(os.path.join(workdir, "somewhere"))
    open(os.path.join(workdir, "some file.yaml"), "w", encoding="utf-8").close()
    return path


def beside(script):
    """The directory with something to complete."""
    return os.path.dirname(os.path.dirname(script))


def bash(script, *words):
    """What bash offers for the last word."""
    ask = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tallyd; printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", ask, "-", script, "tallyd", *words], capture_output=True,
                          text=True, timeout=patience(30), check=True, cwd=beside(script), stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    return set(filter(None, done.stdout.split("\n")))


def fish(script, *words):
    ask = f"source {script}; complete -C '{' '.join(['tallyd', *words])}'"
    done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, timeout=patience(60), check=True,
                          cwd=beside(script), stdin=subprocess.DEVNULL, env={**os.environ, "HOME": beside(script)})
    assert done.stderr == ""
    return {line.split("\t")[0] for line in done.stdout.split("\n") if line}


@pytest.mark.parametrize("script,offer", [("bash", bash), ("fish", fish)], indirect=["script"], ids=["bash", "fish"])
def test_offers(script, offer):
    """The same of both, and for every verb what its help lists."""
    assert set(VERBS) <= offer(script, "")
    assert offer(script, "re") == {"rejects", "recover"}
    for verb in VERBS:
        assert options(verb) <= offer(script, verb, "--"), verb
        assert not (options("recover") - options(verb)) & offer(script, verb, "--"), verb
    assert {"list", "replay", "drop"} <= offer(script, "rejects", "")
    assert offer(script, "rejects", "re") == {"replay"}
    assert not {"list", "drop"} & offer(script, "rejects", "replay", "")
    assert {"bash", "zsh", "fish"} <= offer(script, "completion", "")
    assert offer(script, "rejects", "list", "--counter", "") == set()


@pytest.mark.parametrize("script,offer", [("bash", bash), ("fish", fish)], indirect=["script"], ids=["bash", "fish"])
def test_offers_files(script, offer):
    shown = offer(script, "check", "-c", "some")
    assert {one.rstrip("/").replace("\\", "") for one in shown} == {"somewhere", "some file.yaml"}
    assert {one.rstrip("/") for one in offer(script, "dev", "--dir", "some")} == {"somewhere"}


class Zsh:
    """An interactive zsh on a terminal of its own: what is on the line after TAB."""

    def __init__(self, script, installed):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            directory = beside(script)
            os.chdir(directory)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": directory,
                                                     "ZDOTDIR": directory, "PS1": "> "})
        self.shown = ""
        self.type("autoload -Uz compinit; unset zle_bracketed_paste\n")
        self.type("fpath=(site $fpath); compinit -D -u\n" if installed else f"compinit -D -u; source {script}\n")
        self.type("echo rea''dy\n")
        self.until("ready")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def until(self, text, deadline_s=60):
        ends = time.monotonic() + patience(deadline_s)
        while text not in self.shown:
            left = ends - time.monotonic()
            assert left > 0 and select.select([self.terminal], [], [], left)[0], f"no {text!r} in {self.shown!r}"
            self.shown += os.read(self.terminal, 65536).decode(errors="replace")

    def completes(self, typed, expected):
        """TAB puts the rest on the line."""
        self.shown = ""
        self.type(f"tallyd {typed}\t")
        self.until(expected)
        self.type("\x15")

    def close(self):
        os.close(self.terminal)  # zsh gets a SIGHUP
        os.waitpid(self.pid, 0)


@pytest.fixture(params=[True, False], ids=["installed", "sourced"])
def zsh(script, request):
    shell = Zsh(script, request.param)
    yield shell
    shell.close()


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_takes_it(script):
    subprocess.run(["zsh", "-f", "-n", script], check=True, timeout=patience(30), capture_output=True)


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
@pytest.mark.parametrize("typed,expected", [("rej", "rejects "), ("mig", "migrate "), ("rejects rep", "replay "),
                                            ("status --wa", "--watch"), ("recover --rej", "--reject-unknown "),
                                            ("check -c some\\ ", "some\\ file.yaml "), ("dev --dir somew", "somewhere/"),
                                            ("completion fi", "fish ")])
def test_zsh_completes(zsh, typed, expected):
    zsh.completes(typed, expected)


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


@pytest.mark.parametrize("words,said", [(("completion",), "bash|zsh|fish"), (("completion", "csh"), "csh"),
                                        (("completion", "bash", "zsh"), "zsh"), (("manual", "2"), "1|5"),
                                        (("manual", "1", "-c", "x"), "-c")])
def test_usage(words, said):
    done = subprocess.run([TALLYD, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 64 and said in done.stderr and done.stdout == ""


def test_the_tools_are_here():
    """They are test packages (config/packages.sh); without them nothing above was tested."""
    assert all(shutil.which(tool) for tool in ("bash", "zsh", "fish", "scdoc", "man"))
