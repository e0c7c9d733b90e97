"""Pages that show commands and what they print, carried out as they are written.

A block of the language console has commands behind "$ ", and below each of them what it prints, where … stands for any text, and
a line with nothing else for any lines.
"""
import re

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*(?:\\\n.*)*)\n", re.M)


def blocks(page):
    """Of each block its commands: [[(command, what it prints), …], …]"""
    found = []
    for block in BLOCK.findall(page):
        _, *parts = COMMAND.split(block)
        found.append([(command.replace("\\\n", " "), expected) for command, expected in zip(parts[::2], parts[1::2])])
    return found


def matches(printed, expected):
    """Is that what was to be printed?"""
    lines = [r"(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*") for line in expected.splitlines(keepends=True)]
    return re.fullmatch("".join(lines), printed)
