#!/usr/bin/env python3
"""Measures of src/: lines, functions and their lengths, names that are shared, files in circles.

  measure.py [ROOT]     of another checkout than this one

A file and its header count as one node of a circle. An arrow is an include ("includes"), or a call of a function that the other
file defines ("calls"; not one through a pointer). A name is shared when another function of src/ has it, static or not."""
import collections
import statistics
import sys

import source

ROW = "{:<10} {:>5} {:>7} {:>9} {:>6} {:>4} {:>4} {:>12} {:>8} {:>6}"


def stem(path):
    return path.rsplit(".", 1)[0]


def include_graph(root, paths):
    edges = collections.defaultdict(set)
    for path in paths:
        edges[stem(path)] |= {stem(other) for other in source.includes(path, root) if stem(other) != stem(path)}
    return edges


def call_graph(functions):
    """A static function's name means that of its own file."""
    import re
    public = {f.name: stem(f.path) for f in functions if not f.static}
    own = collections.defaultdict(set)
    for f in functions:
        own[stem(f.path)].add(f.name)
    edges = collections.defaultdict(set)
    for f in functions:
        for name in set(re.findall(r"\b(\w+)\(", f.body)) - own[stem(f.path)]:
            if name in public and public[name] != stem(f.path):
                edges[stem(f.path)].add(public[name])
    return edges


def largest(edges, rooms=None):
    """Files in the largest circle among those of the given rooms."""
    if rooms is not None:
        edges = {node: {other for other in others if source.room_of(other) in rooms}
                 for node, others in edges.items() if source.room_of(node) in rooms}
    found = source.circles(edges)
    return found[0] if found else []


def shared(functions):
    count = collections.Counter(f.name for f in functions)
    return sum(count[f.name] > 1 for f in functions)


def lengths(functions):
    """Median, 90th in a hundred, longest."""
    sizes = sorted(f.lines for f in functions)
    return int(statistics.median(sizes)), sizes[int(0.9 * (len(sizes) - 1))], sizes[-1]


def row(name, paths, root, functions, graphs, rooms):
    lines = sum(source.read(path, root).count("\n") for path in paths)
    by_room = sum(shared([f for f in functions if f.room == room]) for room in {f.room for f in functions})
    print(ROW.format(name, len(paths), lines, len(functions), *lengths(functions), by_room,
                     *(len(largest(edges, rooms)) for edges in graphs)))


def sizes(root):
    """What the ceiling holds: room -> (lines, files, functions); last "all"."""
    found = collections.defaultdict(lambda: [0, 0, 0])
    for path in source.files(root):
        for name in (source.room_of(path), "all"):
            for at, more in enumerate((source.read(path, root).count("\n"), 1, len(source.functions(path, root)))):
                found[name][at] += more
    whole = found.pop("all")
    return {**{room: tuple(found[room]) for room in sorted(found)}, "all": tuple(whole)}


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else source.ROOT
    paths, functions = source.files(root), source.all_functions(root)
    graphs = include_graph(root, paths), call_graph(functions)
    print(ROW.format("room", "files", "lines", "functions", "median", "p90", "most", "names shared", "includes", "calls"))
    for room in sorted({source.room_of(path) for path in paths}):
        row(room, [path for path in paths if source.room_of(path) == room], root,
            [f for f in functions if f.room == room], graphs, {room})
    row("src", paths, root, functions, graphs, None)
    print(f"\nfunctions that share a name with another of src/: {shared(functions)}")
    for what, edges in zip(("includes", "calls"), graphs):
        print(f"largest circle by {what}: {' '.join(path[4:] for path in largest(edges)) or 'none'}")


if __name__ == "__main__":
    main()
