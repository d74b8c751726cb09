#!/usr/bin/env python3
"""Checks one model with Spin, in bounds that are given, or shows that it breaks without a rule.

  run.py MODEL NAME=VALUE ...                  every state within the bounds, and nothing breaks
  run.py MODEL --breaks KIND NAME=VALUE ...    something of that KIND breaks: loss, double, stuck, answer
  --show        the schedule, when it breaks
  --collapse    a larger search: states are kept compressed, with up to --memory MB (default 2000)

A search that did not end, for want of memory or depth, is a failure of either; so is a violation of another kind."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH_MOST = 1000000
KINDS = ("loss", "double", "stuck", "answer")


class Unsound(Exception):
    pass


def command(arguments, cwd):
    done = subprocess.run(arguments, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def defines_of(model, options):
    """A name that the model does not know would leave the rule in, or the bounds as they are."""
    with open(model, encoding="utf-8") as f:
        known = set(re.findall(r"^#ifndef (\w+)$", f.read(), re.M))
    for define in options.define:
        if define.partition("=")[0] not in known:
            raise Unsound(f"{options.model}.pml knows no {define}")
    seek = ["SEEK=" + options.breaks.upper()] if options.breaks and "SEEK" in known else []
    return ["-D" + define for define in options.define + seek]


def build(options, directory):
    """pan, Spin's checker of this one model. -O1 pays from some hundred thousand states on."""
    model = os.path.join(HERE, options.model + ".pml")
    shutil.copy(model, directory)
    code, said = command(["spin", *defines_of(model, options), "-a", os.path.basename(model)], directory)
    if code != 0 or "Error" in said or not os.path.exists(os.path.join(directory, "pan.c")):
        raise Unsound("spin: " + said)
    flags = ["-O0" if options.breaks else "-O1", "-w", "-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={options.memory}"]
    if options.collapse:
        flags.append("-DCOLLAPSE")
    code, said = command(["cc", *flags, "-o", "pan", "pan.c"], directory)
    if code != 0:
        raise Unsound("cc: " + said)


def search(options, directory, depth):
    """Returns whether it broke, whether it went everywhere, states, depth reached."""
    hash_bits = "26" if options.collapse else "20"
    code, said = command(["./pan", f"-m{depth}", f"-w{hash_bits}"], directory)
    found = re.search(r"depth reached (\d+), errors: (\d+)\s+([\d.e+]+) states, stored", said)
    if code != 0 or found is None:
        raise Unsound("pan: " + said)
    broke, shallow = found[2] != "0", "max search depth too small" in said
    if not broke and ("MEMLIM" in said or "Search not completed" in said):
        raise Unsound("not every state was explored: " + said)
    return broke, not shallow, int(float(found[3])), int(found[1])


def replay(directory):
    """The steps of the trail, and what broke at its end."""
    _, said = command(["./pan", "-r", "-n"], directory)
    steps = [line.strip() for line in said.split("#processes")[0].splitlines()
             if line.strip() and not line.startswith(("spin:", "pan:", "using"))]
    broken = [line.split()[1] for line in steps if line.startswith("BROKEN")]
    if len(broken) != 1 or broken[0] not in KINDS:
        raise Unsound("the trail does not say what broke: " + said)
    return [line for line in steps if not line.startswith("BROKEN")], broken[0]


def check(options, directory):
    broke, everywhere, states, depth = search(options, directory, DEPTH_MOST)
    if broke:
        steps, kind = replay(directory)
        print("\n".join(steps))
        raise Unsound(f"{options.model} breaks: {kind}")
    if not everywhere:
        raise Unsound("a path is longer than the search may go")
    return f"{states} states, all there are, depth {depth}: no violation"


def break_it(options, directory):
    """Deeper and deeper, so that the schedule is about the shortest."""
    depth = 11
    while True:
        broke, everywhere, states, _ = search(options, directory, depth)
        if broke or everywhere:
            break
        depth += 4
    if not broke:
        raise Unsound(f"nothing breaks in {states} states")
    steps, kind = replay(directory)
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
    p.add_argument("--memory", type=int, default=2000)
    return p.parse_intermixed_args()


def main():
    options = parse()
    if shutil.which("spin") is None:
        print("spin is missing: apt-get install spin", file=sys.stderr)
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tallyd-model-") as directory:
        try:
            build(options, directory)
            verdict = (break_it if options.breaks else check)(options, directory)
        except Unsound as e:
            print(f"FAILED: {e}", file=sys.stderr)
            return 1
    print(f"{options.model} {' '.join(options.define)}: {verdict} ({time.monotonic() - began:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
