#!/usr/bin/env python3
"""Checks one model with Spin, in bounds that are given, or shows that it breaks without a rule.

  run.py MODEL NAME=VALUE ...                  every state within the bounds, and nothing breaks
  run.py MODEL --breaks KIND NAME=VALUE ...    something of that KIND breaks: loss, double, stuck, answer
  --show        the schedule, when it breaks
  --collapse    a larger search: states are kept compressed, with up to --memory MB (default 2000)
  --built DIR   where a checker is kept, for the next run that can use it
  --few         few states: the checker is not optimised, for it would compile longer than it searches

A search that did not end, for want of memory or depth, is a failure of either; so is a violation of another kind.

Most of the time would go into compiling checkers. So only what Spin needs as a number is compiled in: the sizes of arrays,
and what an #if asks for. All other rules and bounds are C variables, which the checker reads from its environment."""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH_MOST = 1000000
# -O2 compiles for longer than it saves. Without the last flag each array index calls two functions.
OPTIMISED = ("-O1", "-finline-functions", "-finline-small-functions", "-fpartial-inlining")
KINDS = ("loss", "double", "stuck", "answer")  # sync.pml: a bit each


class Unsound(Exception):
    pass


def command(arguments, cwd, given=None):
    done = subprocess.run(arguments, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **(given or {})})
    return done.returncode, done.stdout


def names_of(text):
    """The names that a model has defaults of: those that are compiled in, and all others with their values."""
    defaults = dict(re.findall(r"^#ifndef (\w+)\n#define \1 (.*?)(?: */\*.*)?$", text, re.M))
    asked = set(re.findall(r"\w+", " ".join(re.findall(r"^#(?:el)?if (.*)", text, re.M))))
    sizes = re.search(r"^/\* Sizes.*?\n\n", text, re.M | re.S)
    asked |= set(re.findall(r"^#ifndef (\w+)", sizes[0], re.M)) if sizes else set()
    return {name for name in defaults if name in asked}, {n: v for n, v in defaults.items() if n not in asked}


def model_of(options):
    """The model as Spin reads it, a header for its checker, and what that is told by its environment."""
    with open(os.path.join(HERE, options.model + ".pml"), encoding="utf-8") as f:
        text = f.read()
    fixed, free = names_of(text)
    given = dict(define.split("=") for define in options.define)
    # A name that the model does not know would leave the rule in, or the bounds as they are.
    for name in given:
        if name not in fixed and name not in free:
            raise Unsound(f"{options.model}.pml knows no {name}")
    if options.breaks and "SEEK" in free:
        given["SEEK"] = str(1 << KINDS.index(options.breaks))
    lines = [f"#define {n} {v}" for n, v in sorted(given.items()) if n in fixed]
    for n in free:
        lines += [f"#define {n} given_{n}", f"hidden byte given_{n} = c_expr {{ given_{n} }};"]
    return "\n".join(lines) + "\n" + text, header_of(free), {"MODEL_" + n: v for n, v in given.items() if n in free}


def header_of(free):
    """In C: the variables have their values before any other is initialised."""
    lines = ["#include <stdlib.h>"] + [f"extern unsigned char given_{n};" for n in free]
    lines += ["static unsigned char given(const char *name, int otherwise)", "{", "const char *value = getenv(name);",
              "return (unsigned char)(value != NULL ? atoi(value) : otherwise);", "}",
              "__attribute__((constructor)) static void given_all(void)", "{"]
    return "\n".join(lines + [f'given_{n} = given("MODEL_{n}", {v});' for n, v in free.items()] + ["}", ""])


def build(options, text, header, directory):
    """pan, Spin's checker of this one model."""
    flags = [*(["-O0"] if options.few else OPTIMISED), "-w", "-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={options.memory}",
             "-DCOLLAPSE" if options.collapse else "-DNOCOMP"]
    name = hashlib.sha256("\0".join([text, header, *flags]).encode()).hexdigest()[:16]
    pan = os.path.join(options.built or directory, f"pan-{options.model}-{name}")
    if os.path.exists(pan):
        return pan
    for file, content in ((options.model + ".pml", text), ("given.h", header)):
        with open(os.path.join(directory, file), "w", encoding="utf-8") as f:
            f.write(content)
    code, said = command(["spin", "-a", options.model + ".pml"], directory)
    if code != 0 or "Error" in said or not os.path.exists(os.path.join(directory, "pan.c")):
        raise Unsound("spin: " + said)
    code, said = command(["cc", *flags, "-include", "given.h", "-o", "pan", "pan.c"], directory)
    if code != 0:
        raise Unsound("cc: " + said)
    os.replace(os.path.join(directory, "pan"), pan)  # whole, or not there
    return pan


def search(pan, hash_bits, depth):
    """Returns whether it broke, whether it went everywhere, states, depth reached."""
    code, said = pan([f"-m{depth}", f"-w{hash_bits}"])
    found = re.search(r"depth reached (\d+), errors: (\d+)\s+([\d.e+]+) states, stored", said)
    if code != 0 or found is None:
        raise Unsound("pan: " + said)
    broke, shallow = found[2] != "0", "max search depth too small" in said
    if not broke and ("MEMLIM" in said or "Search not completed" in said):
        raise Unsound("not every state was explored: " + said)
    return broke, not shallow, int(float(found[3])), int(found[1])


def replay(pan):
    """The steps of the trail, and what broke at its end."""
    _, said = pan(["-r", "-n", "-w10"])
    steps = [line.strip() for line in said.split("#processes")[0].splitlines()
             if line.strip() and not line.startswith(("spin:", "pan:", "using"))]
    broken = [line.split()[1] for line in steps if line.startswith("BROKEN")]
    if len(broken) != 1 or broken[0] not in KINDS:
        raise Unsound("the trail does not say what broke: " + said)
    return [line for line in steps if not line.startswith("BROKEN")], broken[0]


def check(options, pan):
    broke, everywhere, states, depth = search(pan, 26 if options.collapse else 22, DEPTH_MOST)
    if broke:
        steps, kind = replay(pan)
        print("\n".join(steps))
        raise Unsound(f"{options.model} breaks: {kind}")
    if not everywhere:
        raise Unsound("a path is longer than the search may go")
    return f"{states} states, all there are, depth {depth}: no violation"


def break_it(options, pan):
    """Deeper and deeper, so that the schedule is about the shortest."""
    depth = 11
    while True:
        broke, everywhere, states, _ = search(pan, 18, depth)
        if broke or everywhere:
            break
        depth += 4
    if not broke:
        raise Unsound(f"nothing breaks in {states} states")
    steps, kind = replay(pan)
    if options.show or kind != options.breaks:
        print("\n".join(steps))
    if kind != options.breaks:
        raise Unsound(f"breaks as {kind}, not as {options.breaks}")
    return f"{kind} after {len(steps)} steps, {states} states"


def parse():
    p = argparse.ArgumentParser(usage="\n" + __doc__)
    p.add_argument("model")
    p.add_argument("define", nargs="*")
    p.add_argument("--breaks", choices=KINDS)
    p.add_argument("--show", action="store_true")
    p.add_argument("--collapse", action="store_true")
    p.add_argument("--few", action="store_true")
    p.add_argument("--memory", type=int, default=2000)
    p.add_argument("--built")
    return p.parse_intermixed_args()


def main():
    options = parse()
    if shutil.which("spin") is None:
        print("spin is missing: apt-get install spin", file=sys.stderr)
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tallyd-model-", dir=options.built) as directory:
        try:
            text, header, given = model_of(options)
            checker = build(options, text, header, directory)

            def pan(arguments):
                return command([checker, *arguments], directory, given)

            verdict = (break_it if options.breaks else check)(options, pan)
        except Unsound as e:
            print(f"FAILED: {e}", file=sys.stderr)
            return 1
    print(f"{options.model} {' '.join(options.define)}: {verdict} ({time.monotonic() - began:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
