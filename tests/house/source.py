"""src/ as data: its functions, structs, includes and rooms. It reads the layout that clang-format enforces (the brace of a
function alone in its line, at the margin), so it needs no parser."""
import os
import re

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\b[A-Z][A-Z_]+\([^()]*\)(?=\s+\w)")
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


class Function:
    def __init__(self, name, path, line, end, static, body):
        self.name, self.path, self.line, self.end, self.static, self.body = name, path, line, end, static, body

    lines = property(lambda self: self.end - self.line + 1)
    room = property(lambda self: room_of(self.path))


def room_of(path):
    """src/<room>/file.c -> room; src/main.c -> main."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "main"


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def files(root=ROOT, ends=(".c", ".h"), under="src"):
    """Paths from root, sorted."""
    found = []
    for directory, _, names in os.walk(os.path.join(root, under)):
        found += [os.path.relpath(os.path.join(directory, name), root) for name in names if name.endswith(ends)]
    return sorted(found)


def code(text):
    """Without comments and what is in quotes; lines stay where they are."""
    return NOT_CODE.sub(lambda found: "\n" * found[0].count("\n"), text)


def functions(path, root=ROOT):
    """Those defined in one file, in order."""
    text = read(path, root)
    lines, found = code(text).split("\n"), []
    for start in (i for i, line in enumerate(lines) if line.rstrip() == "{"):
        head = start - 1
        while head > 0 and (lines[head].startswith((" ", "\t")) or lines[head].strip() == ""):
            head -= 1
        signature = ATTRIBUTE.sub("", " ".join(lines[head:start]))
        name = re.search(r"(\w+)\s*\(", signature)
        end = next(i for i in range(start, len(lines)) if lines[i] == "}")
        at = next(i for i in range(head, start) if re.search(r"\b%s\s*\(" % name[1], lines[i]))
        found.append(Function(name[1], path, at + 1, end + 1, "static" in signature.split(name[1])[0].split(),
                              "\n".join(lines[start:end + 1])))
    return found


def all_functions(root=ROOT):
    return [function for path in files(root) for function in functions(path, root)]


def includes(path, root=ROOT):
    """Files of src/ that one file includes."""
    named = re.findall(r'^#include "([^"]+)"', read(path, root), re.M)
    return [f"src/{name}" for name in named if os.path.exists(os.path.join(root, "src", name))]


def circles(edges):
    """The strongly connected parts of a graph (node -> set of nodes) that have more than one node, largest first (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda part: (-len(part), part))


def rooms(root=ROOT):
    """Of rooms.cmake: room -> rooms it may include, in the file's order."""
    text = re.sub(r"#[^\n]*", "", read("src/rooms.cmake", root))
    found = {}
    for arguments in re.findall(r"\broom\((.*?)\)", text, re.S):
        words = arguments.split()
        seen = words.index("ROOMS") if "ROOMS" in words else len(words)
        outside = words.index("OUTSIDE") if "OUTSIDE" in words else len(words)
        found[words[0]] = words[seen + 1:outside]
    return found


def structs(path, root=ROOT):
    """(name, line, body) of each struct that one file defines."""
    text = code(read(path, root))
    return [(found[1], text[:found.start()].count("\n") + 1, found[2])
            for found in re.finditer(r"^struct (\w+) \{ *\n(.*?)^\}", text, re.M | re.S)]


def repository(root=ROOT):
    """All text files of the repo, but for what builds and tests make beside them."""
    found = [name for name in os.listdir(root) if os.path.isfile(os.path.join(root, name)) and name != ".git"]
    for top in ("config", "sql", "src", "tests"):
        for directory, below, names in os.walk(os.path.join(root, top)):
            below[:] = [name for name in below if name not in ("__pycache__", "node_modules", "work", "corpus")]
            found += [os.path.relpath(os.path.join(directory, name), root) for name in names]
    return sorted(path for path in found if not path.endswith((".png", ".ico", ".pyc", ".gz")))
