#!/usr/bin/env python3
"""Draws the rooms of src/rooms.cmake: a storey is as high above base as the longest way down to it. After each room come those it
sees, but for what these see themselves.

  drawing.py            prints the text for src/README.md
  drawing.py --write    puts it there"""
import os
import re
import sys

import source


def storeys(rooms):
    """Lists of rooms, the highest first."""
    height = {}

    def of(room):
        if room not in height:
            height[room] = max((of(below) + 1 for below in rooms[room]), default=0)
        return height[room]

    top = max(of(room) for room in rooms)
    return [[room for room in rooms if height[room] == level] for level in range(top, -1, -1)]


def below(rooms, room):
    """All that it reaches through others."""
    return set().union(*({other} | below(rooms, other) for other in rooms[room])) if rooms[room] else set()


def direct(rooms, room):
    """Those it names that it does not see through another that it names."""
    return [other for other in rooms[room] if not any(other in below(rooms, between) for between in rooms[room])]


def draw(rooms):
    cells = [[room + (" > " + " ".join(direct(rooms, room)) if direct(rooms, room) else "") for room in storey]
             for storey in storeys(rooms)]
    lines = ["| " + " | ".join(storey) for storey in cells]
    width = max(len(line) for line in lines)
    bar = "+" + "-" * width + "+"
    return "\n".join(text for line in lines for text in (bar, line.ljust(width) + " |")) + "\n" + bar + "\n"


def main():
    drawn = draw(source.rooms())
    if "--write" not in sys.argv:
        print(drawn, end="")
        return
    text = source.read("src/README.md")
    with open(os.path.join(source.ROOT, "src/README.md"), "w", encoding="utf-8") as file:
        file.write(re.sub(r"```\n\+-.*?```\n", lambda _: f"```\n{drawn}```\n", text, flags=re.S))


if __name__ == "__main__":
    main()
